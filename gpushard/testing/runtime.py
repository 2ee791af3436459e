"""Runtimes that last for a `with` block."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from gpushard.config import Settings
from gpushard.errors import RaceError
from gpushard.runtime import current
from gpushard.runtime.cuda.devices.probe import probe
from gpushard.runtime.runtime import Runtime
from gpushard.testing.sim import SimRuntime
from gpushard.testing.topology import Topology

_OF_THE_HOST = {"host_workers", "blas_threads"}  # settings that only tests of the host backend give


@contextlib.contextmanager
def runtime(**settings: Any) -> Iterator[Runtime]:
    """Use a runtime of one's own within a `with` block; nothing leaks out of it.

    It is on the host, and neither the environment nor the machine plays a part, unless
    `GPUSHARD_BACKEND` is `cuda` and neither `backend`, `host_workers` nor `blas_threads` is given.
    Then it is on GPUs, with what else the environment says: they are divided into `host_devices`
    devices in `host_domains` memory domains. Where there are fewer GPUs than domains, each part of
    a GPU poses as a domain.

    Args:
      **settings: fields of `gpushard.Settings`.

    Yields:
      The runtime; module-level functions use it until the block ends.

    Raises:
      ConfigurationError: a setting makes no sense.
      RaceError: with `check` two uses of memory were not ordered, whether or not anybody
        has read what came of it; unless the block raises something else.

    >>> import gpushard as gs
    >>> with runtime(host_devices=2):
    ...     gs.device_count()
    2
    """
    chosen = Settings(**{"backend": "host"} | settings)
    if not settings.keys() & {"backend", *_OF_THE_HOST}:
        environment = Settings.from_environment()
        if environment.backend == "cuda":
            divided = divide(chosen.host_devices, chosen.host_domains, probe().gpus)
            chosen = dataclasses.replace(environment, **{**settings, **divided})
    made = current.make_runtime(chosen)
    with using(made):
        yield made
    races: list[str] = getattr(made.backend, "races", [])
    if races:
        raise RaceError(f"{len(races)} uses of memory were not ordered, the first one: {races[0]}")


def divide(devices: int, domains: int, gpus: int) -> dict[str, Any]:
    """Return settings that divide GPUs into devices in memory domains; pure.

    Where there are fewer GPUs than domains, as many are used as divide the devices.

    >>> divide(8, 2, gpus=4)
    {'gpus': (0, 1), 'partitions': 4, 'separate_domains': False}
    >>> divide(8, 8, gpus=3)
    {'gpus': (0, 1), 'partitions': 4, 'separate_domains': True}
    """
    used = max(count for count in range(1, min(domains, gpus) + 1) if devices % count == 0)
    return {
        "gpus": tuple(range(used)),
        "partitions": devices // used,
        "separate_domains": used < domains,
    }


@contextlib.contextmanager
def simulated(
    seed: int = 0,
    *,
    exact: bool | None = None,
    host_readable: bool | None = None,
    topology: Topology | None = None,
    **settings: Any,
) -> Iterator[SimRuntime]:
    """Use a runtime on the simulated backend, under the checker, within a `with` block.

    Args:
      seed: decides when items run, which thread goes on and when garbage is collected.
      exact: whether events can be placed at past items; by default the seed says.
      host_readable: whether the host can read shards as they lie; by default the seed says.
      topology: the machine that it stands for, in virtual time; by default the seed says.
      **settings: fields of `gpushard.Settings`; the environment plays no part.

    Yields:
      The runtime; `runtime.sim.threads.run([...])` runs functions as threads that the seed steps.

    Raises:
      ConfigurationError: a setting makes no sense.

    >>> import gpushard as gs
    >>> with simulated(seed=1, host_devices=2, inline_bytes=0):
    ...     x = gs.device_put([1.0, 2.0], gs.devices()[0])
    ...     float(gs.device_put(x[0], gs.devices()[1]))
    1.0
    """
    made = SimRuntime(
        Settings(**settings), seed, exact=exact, host_readable=host_readable, topology=topology
    )
    with using(made):
        yield made


@contextlib.contextmanager
def using(made: Runtime) -> Iterator[None]:
    """Let module-level functions use a runtime within a `with` block, and close it afterwards."""
    before = current.swap(made)
    try:
        yield
    finally:
        current.swap(before)
        made.close()
