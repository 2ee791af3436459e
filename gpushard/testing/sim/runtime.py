"""Runtimes of the simulated backend, which can be started again."""

from __future__ import annotations

from gpushard.config import Settings
from gpushard.runtime.checking.checker import Checker
from gpushard.runtime.runtime import Runtime
from gpushard.testing.sim.backend import SimBackend
from gpushard.testing.topology import Topology


class SimRuntime(Runtime):
    """A runtime on the simulated backend, under the checker.

    Args:
      settings: as of any runtime.
      seed: decides the schedule.
      exact: whether events can be placed at past items; by default the seed says.
      host_readable: whether the host can read shards as they lie; by default the seed says.
      topology: the machine that it stands for, in virtual time; by default the seed says.
    """

    def __init__(
        self,
        settings: Settings,
        seed: int = 0,
        *,
        exact: bool | None = None,
        host_readable: bool | None = None,
        topology: Topology | None = None,
    ) -> None:
        self.sim = SimBackend(
            settings, seed, exact=exact, host_readable=host_readable, topology=topology
        )
        self.checker = Checker(self.sim)
        super().__init__(settings, self.checker)

    def restart(self, settings: Settings, seed: int) -> None:
        """Be as if just made, with the same device objects, so that plans need not be made again.

        Args:
          settings: new ones, with as many devices and memory domains.
          seed: a new one.
        """
        devices, plans = self.devices, self.plans
        self.sim.reseed(seed)
        self.checker.reset()
        super().__init__(settings, self.checker)
        for kept, made in zip(devices, self.devices, strict=True):
            account = kept.account  # compiled operations hold it
            account.restart(made.account.limit)
            vars(kept).update(vars(made), account=account)
        self.devices, self.plans = devices, plans
