"""The simulated backend passes the suites, alone and under the checker."""

from typing import Any

from gpushard._runtime.checking.checker import Checker
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.testing.conformance import ArrayConformance, BackendConformance
from gpushard.testing.sim import SimBackend


class Sim:
    threads = 1  # the simulation steps threads of its own

    def make_runtime(self, **settings: Any) -> Runtime:
        chosen = Settings(**settings)
        return Runtime(chosen, SimBackend(chosen, 5))


class CheckedSim:
    threads = 1  # the simulation steps threads of its own

    def make_runtime(self, **settings: Any) -> Runtime:
        chosen = Settings(**settings)
        return Runtime(chosen, Checker(SimBackend(chosen, 5)))


class TestBackend(Sim, BackendConformance):
    pass


class TestArrays(Sim, ArrayConformance):
    pass


class TestCheckedBackend(CheckedSim, BackendConformance):
    pass


class TestCheckedArrays(CheckedSim, ArrayConformance):
    pass
