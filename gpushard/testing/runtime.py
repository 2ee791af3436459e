"""Runtimes for a `with` block."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from gpushard._runtime import choose_backend, current_runtime
from gpushard._runtime.cuda.devices.probe import probe
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.errors import RaceError
from gpushard.testing.sim import SimRuntime
from gpushard.testing.topology import Topology

_OF_THE_HOST = {"host_workers", "blas_threads"}  # settings for tests of the host backend only


@contextlib.contextmanager
def runtime(**settings: Any) -> Iterator[Runtime]:
    """Use a separate runtime, with its own devices and settings, in a `with` block.

    The runtime uses the host backend and ignores the environment, with one exception. If
    `GPUSHARD_BACKEND` is `cuda`, and you pass neither `backend`, `host_workers` nor `blas_threads`,
    it uses GPUs, with the settings of the environment. They are divided into `host_devices`
    devices. These form `host_domains` memory domains: groups of devices that share memory, as the
    devices of one GPU do. If there are fewer GPUs than domains, GPUs are divided into parts, and
    each part behaves like a domain.

    Args:
      **settings: fields of `gpushard.Settings`.

    Yields:
      The runtime; module-level functions use it until the block ends.

    Raises:
      ConfigurationError: a setting is invalid.
      RaceError: with `check=True`, two operations used the same memory and neither waited for the
        other. It is raised when the block ends, unless the block raises another error.

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
    started = choose_backend.make_runtime(chosen)
    with using(started):
        yield started
    races: list[str] = getattr(started.backend, "races", [])
    if races:
        raise RaceError(f"{len(races)} uses of memory were not ordered, the first one: {races[0]}")


def divide(devices: int, domains: int, gpus: int) -> dict[str, Any]:
    """Return settings that divide GPUs into devices in memory domains; pure.

    With fewer GPUs than domains, the largest number of GPUs that divides the devices is used.

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
    """Use a runtime on the simulated backend, with a race checker, in a `with` block.

    Args:
      seed: a number that decides when work items run, which thread continues, and when garbage is
        collected.
      exact: whether a stream can wait for an earlier item of another stream, rather than only for
        its latest item; by default the seed decides.
      host_readable: whether the host can read shards in place; by default the seed decides.
      topology: a model of the machine that determines times in virtual time; by default the seed
        decides.
      **settings: fields of `gpushard.Settings`; the environment is ignored.

    Yields:
      The runtime. `runtime.sim.threads.run([...])` runs functions as threads, in an order that the
      seed decides.

    Raises:
      ConfigurationError: a setting is invalid.

    >>> import gpushard as gs
    >>> with simulated(seed=1, host_devices=2, inline_bytes=0):
    ...     x = gs.device_put([1.0, 2.0], gs.devices()[0])
    ...     float(gs.device_put(x[0], gs.devices()[1]))
    1.0
    """
    started = SimRuntime(
        Settings(**settings), seed, exact=exact, host_readable=host_readable, topology=topology
    )
    with using(started):
        yield started


@contextlib.contextmanager
def using(started: Runtime) -> Iterator[None]:
    """Make a runtime current in a `with` block, and close it afterwards."""
    before = current_runtime.swap(started)
    try:
        yield
    finally:
        current_runtime.swap(before)
        started.close()
