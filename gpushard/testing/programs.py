"""Run random programs that place, move, change, read and drop arrays, and compare with NumPy.

A seed determines the steps of a program. On the simulated backend, it also determines their order,
so a program that fails once fails every time.

>>> run(0).steps > 0
True
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import random
import threading
from collections.abc import Iterator

import numpy as np

from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.testing.actor import Actor, ProgramState
from gpushard.testing.runtime import using
from gpushard.testing.sim import SimRuntime

_DEVICES = ((1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4), (6, 3), (8, 2), (8, 8))
"""(devices, memory domains)."""

_SPECS = (("x", "y"), ("y", "x"), ("x",), (None, "y"), (), (("y", "x"),), (None, ("x", "y")))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How many steps a program ran, how many items it submitted, and how many of them failed."""

    seed: int
    steps: int  # steps that it ran
    items: int  # items that it submitted to streams
    failures: int  # steps that ran out of memory or read a failed value


def random_settings(source: random.Random) -> Settings:
    """Draw random settings, for example with several domains, short queues and little memory."""
    devices, domains = source.choice(_DEVICES)
    return Settings(
        host_devices=devices,
        host_domains=domains,
        inline_bytes=source.choice((0, 0, 5, 1 << 20)),  # 5: up to 320 for several devices
        small_bytes=source.choice((0, 0, 0, 100)),
        queue_limit=source.choice((1, 2, 5, 1024, 1024)),
        memory_limit=source.choice((None, None, None, 130, 260, 520, 1500)),
        relay_bytes=source.choice((0, 0, 1 << 20)),
        pinned_bytes=source.choice((64, 256, 1 << 20)),
    )


def run(seed: int, *, steps: int = 10, threads: int | None = None) -> Outcome:
    """Run one program on the simulated backend, with the race checker.

    Args:
      seed: the seed of the program and of the simulated backend.
      steps: number of steps of each thread.
      threads: number of threads; by default one to three, depending on the seed.

    Raises:
      AssertionError: a value is wrong, or memory is still in use when all arrays are gone.
      RaceError: two uses of memory are not ordered.
      StuckError, DeadlockError: a stream or all threads can never continue.
    """
    source = random.Random(seed)
    settings = random_settings(source)
    runtime, shardings = simulated_runtime(settings.host_devices, settings.host_domains)
    runtime.restart(settings, seed)
    count = threads or source.choice((1, 1, 2, 3))
    with using(runtime), _collector_off():
        world = ProgramState(source, shardings)
        actors = [Actor(world, random.Random(seed * 31 + i), steps) for i in range(count)]
        if count == 1:
            actors[0].run()
        else:
            runtime.sim.threads.run([actor.run for actor in actors])
        world.shared.clear()
        items = sum(stream.issued for stream in runtime.streams)
        failures = sum(actor.failures for actor in actors)
        gc.collect(1)  # everything younger than this program
        _check_nothing_left(runtime)
        assert not runtime.checker.races, runtime.checker.races[0]
    return Outcome(seed, steps * count, items, failures)


@functools.lru_cache(maxsize=64)
def simulated_runtime(devices: int, domains: int) -> tuple[SimRuntime, list[Sharding]]:
    """Return a cached simulated runtime that can be restarted, with shardings of its devices."""
    runtime = SimRuntime(Settings(host_devices=devices, host_domains=domains))
    return runtime, random_shardings(runtime, random.Random(devices))


def run_on(runtime: Runtime, seed: int, *, steps: int, threads: int) -> None:
    """Run a random program on a runtime of any backend, with system threads."""
    source = random.Random(seed)
    world = ProgramState(source, random_shardings(runtime, source))
    errors: list[BaseException] = []

    def work(actor: Actor) -> None:
        try:
            actor.run()
        except BaseException as error:
            errors.append(error)

    started = [
        threading.Thread(target=work, args=(Actor(world, random.Random(seed * 31 + i), steps),))
        for i in range(threads)
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]


def check_nothing_left(runtime: Runtime) -> None:
    """Check that a runtime has no array, no claim and no byte in use, as before the first array."""
    gc.collect()
    _check_nothing_left(runtime)


def _check_nothing_left(runtime: Runtime) -> None:
    # Under the lock: after an interrupt the item of the last tick may not be in its queue.
    for stream, tick in runtime.run_locked(lambda: [(s, s.issued) for s in runtime.streams]):
        stream.synchronize(tick)
    assert runtime.live_arrays() == [], "arrays are left"
    assert runtime.claimed_bytes() == 0, f"{runtime.claimed_bytes()} bytes are claimed"
    for device in runtime.devices:
        stats = device.memory_stats()
        assert stats["bytes_in_use"] == 0, f"{device}: {stats}"
        assert stats["pool_bytes"] == stats["pool_free_bytes"], f"{device}: {stats}"
    for domain in runtime.domains:
        for pool in (domain.pool, domain.ring):
            pool.trim()
            assert pool.total == 0, f"{pool.total} bytes cannot be trimmed"


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """Let only the seed decide when garbage is collected."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def random_shardings(runtime: Runtime, source: random.Random, count: int = 16) -> list[Sharding]:
    """Draw random shardings over some or all devices of a runtime, in random order."""
    kinds = ("device", "device", "device", "pinned_host", "unpinned_host")
    return [
        _random_sharding(runtime, source).with_memory_kind(source.choice(kinds))
        for _ in range(count)
    ]


def _random_sharding(runtime: Runtime, source: random.Random) -> Sharding:
    devices = list(runtime.devices)
    if source.random() < 0.2:
        return SingleDeviceSharding(source.choice(devices))
    source.shuffle(devices)
    if source.random() < 0.3:
        devices = devices[: source.randint(1, len(devices))]
    rows = source.choice([n for n in (1, 2, 3, 4) if len(devices) % n == 0])
    grid = np.empty(len(devices), object)
    grid[:] = devices
    return NamedSharding(
        Mesh(grid.reshape(rows, -1), ("x", "y")), PartitionSpec(*source.choice(_SPECS))
    )
