"""Random programs that place, move, change, read and drop arrays; NumPy says what is right.

A seed says what a program does. On the simulated backend it also says when everything happens, so
a program that fails once fails every time.

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
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpushard.array.array import Array
from gpushard.config import Settings
from gpushard.errors import ExecutionError, OutOfMemoryError
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import PartitionSpec
from gpushard.geometry.sharding import Sharding, SingleDeviceSharding
from gpushard.placement.device_put import device_put, reshard
from gpushard.placement.make_array import (
    make_array_from_callback,
    make_array_from_single_device_arrays,
)
from gpushard.runtime import current
from gpushard.runtime.runtime import Runtime
from gpushard.testing.deferred import deferred
from gpushard.testing.runtime import using
from gpushard.testing.sim import SimRuntime
from gpushard.typing import HostArray

_DEVICES = ((1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4), (6, 3), (8, 2), (8, 8))
"""(devices, memory domains)."""

_SPECS = (("x", "y"), ("y", "x"), ("x",), (None, "y"), (), (("y", "x"),), (None, ("x", "y")))

_SHAPES = ((7, 9), (1, 5), (4, 4), (3, 8))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a program did."""

    seed: int
    """Its seed."""

    steps: int
    """How many things it did."""

    items: int
    """How many items it gave to streams."""

    failures: int
    """How many of its steps ran out of memory or read what had failed."""


class PlannedError(Exception):
    """What work raises that is meant to fail."""


@dataclasses.dataclass(slots=True, eq=False)
class Known:
    """An array, and what it must hold."""

    array: Array
    value: HostArray
    fails: bool = False
    """Whether the work that makes it was meant to fail."""


def random_settings(source: random.Random) -> Settings:
    """Draw settings: devices, domains, what runs inline, short queues, little memory."""
    devices, domains = source.choice(_DEVICES)
    return Settings(
        host_devices=devices,
        host_domains=domains,
        inline_bytes=source.choice((0, 0, 300, 1 << 20)),
        small_bytes=source.choice((0, 0, 0, 100)),
        queue_limit=source.choice((1, 2, 5, 1024, 1024)),
        memory_limit=source.choice((None, None, None, 130, 260, 520, 1500)),
        relay_bytes=source.choice((0, 0, 1 << 20)),
    )


def run(seed: int, *, steps: int = 10, threads: int | None = None) -> Outcome:
    """Run one program on the simulated backend, under the checker.

    Args:
      seed: says everything.
      steps: how many things each thread does.
      threads: how many threads; by default one to three, as the seed says.

    Raises:
      AssertionError: a value is wrong, or something is left when all arrays are gone.
      RaceError: two uses of memory are not ordered.
      StuckError, DeadlockError: something can never go on.
    """
    source = random.Random(seed)
    settings = random_settings(source)
    runtime, shardings = simulated_runtime(settings.host_devices, settings.host_domains)
    runtime.restart(settings, seed)
    count = threads or source.choice((1, 1, 2, 3))
    with using(runtime), _collector_off():
        world = World(source, shardings)
        actors = [Actor(world, random.Random(seed * 31 + i), steps) for i in range(count)]
        if count == 1:
            actors[0].run()
        else:
            runtime.sim.threads.run([actor.run for actor in actors])
        world.shared.clear()
        items = sum(stream.issued for stream in runtime.streams)
        failures = sum(actor.failures for actor in actors)
        gc.collect(1)  # all that is younger than this program
        _check_nothing_left(runtime)
    return Outcome(seed, steps * count, items, failures)


@functools.cache
def simulated_runtime(devices: int, domains: int) -> tuple[SimRuntime, list[Sharding]]:
    """Return a runtime to start again and again, so that plans are made once."""
    runtime = SimRuntime(Settings(host_devices=devices, host_domains=domains))
    return runtime, random_shardings(runtime, random.Random(devices))


def run_on(runtime: Runtime, seed: int, *, steps: int, threads: int) -> None:
    """Run a program on a runtime of any backend, with threads of the system.

    Args:
      runtime: it must be the current one.
      seed: says what each thread does.
      steps: how many things each thread does.
      threads: how many threads.

    Raises:
      AssertionError: a value is wrong.
    """
    source = random.Random(seed)
    world = World(source, random_shardings(runtime, source))
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
    """Check that everything is as before the first array: no array, no claim, no byte in use.

    Raises:
      AssertionError: something is left.
    """
    gc.collect()
    _check_nothing_left(runtime)


def _check_nothing_left(runtime: Runtime) -> None:
    for stream in runtime.streams:
        stream.synchronize(stream.issued)
    assert runtime.live_arrays() == [], "arrays are left"
    assert runtime.claimed_bytes() == 0, f"{runtime.claimed_bytes()} bytes are claimed"
    for device in runtime.devices:
        stats = device.memory_stats()
        assert stats["bytes_in_use"] == 0, f"{device}: {stats}"
        assert stats["pool_bytes"] == stats["pool_free_bytes"], f"{device}: {stats}"
    for domain in runtime.domains:
        domain.pool.trim()
        assert domain.pool.total == 0, f"{domain.pool.total} bytes cannot be trimmed"


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """Leave it to the seed when garbage is collected."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def random_shardings(runtime: Runtime, source: random.Random, count: int = 16) -> list[Sharding]:
    """Draw shardings over some or all devices of a runtime, in any order."""
    return [_random_sharding(runtime, source) for _ in range(count)]


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


class World:
    """What all threads of a program share: a shape, a few shardings, and some arrays.

    Args:
      source: makes the choices.
      shardings: those to choose from.
    """

    def __init__(self, source: random.Random, shardings: Sequence[Sharding]) -> None:
        self.shape = source.choice(_SHAPES)
        self.shardings = source.sample(shardings, 4)
        self.shared: list[Known] = []


class Actor:
    """One thread of a program.

    Args:
      world: what it shares with others.
      source: makes its choices.
      steps: how many things it does.
    """

    def __init__(self, world: World, source: random.Random, steps: int) -> None:
        self._world = world
        self._random = source
        self._steps = steps
        self._mine: list[Known] = []
        self._exported: list[tuple[HostArray, HostArray]] = []
        self.failures = 0
        """Steps that ran out of memory or read what had failed."""

    def run(self) -> None:
        """Do everything, then read what is left."""
        actions = _ACTIONS
        for _ in range(self._steps):
            try:
                self._random.choice(actions)(self)
            except OutOfMemoryError:
                self.failures += 1
            if len(self._mine) > 6:
                self._mine.pop(self._random.randrange(len(self._mine)))
        for known in self._mine:
            self._check_at_last(known)
        for view, value in self._exported:
            assert np.array_equal(view, value), "a view that was handed out has changed"
        self._mine.clear()
        self._exported.clear()

    def _pick(self) -> Known:
        """Return an array of one's own or a shared one, or a new one."""
        several = (*self._mine, *self._world.shared)
        if several and self._random.random() < 0.85:
            known = self._random.choice(several)
            if not known.array.is_deleted():
                return known
        return self._place()

    def _keep(self, array: Array, value: HostArray, fails: bool = False) -> Known:
        known = Known(array, value, fails)
        if self._random.random() < 0.15:
            self._world.shared.append(known)
            if len(self._world.shared) > 3:
                self._world.shared.pop(0)
        else:
            self._mine.append(known)
        return known

    def _value(self) -> HostArray:
        rows, columns = self._world.shape
        start = self._random.randrange(1000)
        return np.arange(start, start + rows * columns, dtype=np.int32).reshape(rows, columns)

    def _sharding(self) -> Sharding:
        return self._random.choice(self._world.shardings)

    def _place(self) -> Known:
        value, source = self._value(), self._value()
        source[...] = value
        array = device_put(source, self._sharding())
        source[...] = -1
        return self._keep(array, value)

    def _place_by_callback(self) -> None:
        value = self._value()
        array = make_array_from_callback(value.shape, self._sharding(), lambda index: value[index])
        self._keep(array, value)

    def _reshard(self) -> None:
        known = self._pick()
        self._keep(reshard(known.array, self._sharding()), known.value, known.fails)

    def _donate(self) -> None:
        known = self._pick()
        if self._is_mine(known):
            move = self._random.choice((reshard, device_put))
            moved = move(known.array, self._sharding(), donate=True)
            self._mine.remove(known)
            self._mine.append(Known(moved, known.value, known.fails))

    def _compute(self) -> None:
        known = self._pick()
        fails = self._random.random() < 0.1
        error = PlannedError() if fails else None
        array = deferred(known.array, lambda v: v + 1, error=error)
        self._keep(array, known.value + 1, known.fails or fails)

    def _slice(self) -> None:
        known = self._pick()
        index = tuple(self._index(n) for n in known.value.shape)
        if known.array.sharding.num_devices > 1 and not isinstance(
            known.array.sharding, NamedSharding
        ):
            return
        part = known.array[index]
        if part.ndim == 2 and part.size:
            self._keep(part, known.value[index], known.fails)

    def _index(self, size: int) -> slice:
        start, stop = (
            self._random.choice((None, self._random.randint(-size, size))) for _ in range(2)
        )
        return slice(start, stop, self._random.choice((1, 1, 2, -1, -2)))

    def _read(self) -> None:
        self._check(self._pick())

    def _start_read(self) -> None:
        self._pick().array.copy_to_host_async()

    def _export(self) -> None:
        known = self._pick()
        if self._reads(known):
            self._exported.append((np.asarray(known.array), known.value))

    def _rebuild(self) -> None:
        """Make an array of the shards of another one, and drop that."""
        known = self._pick()
        parts = [shard.data for shard in known.array.addressable_shards]
        array = make_array_from_single_device_arrays(
            known.value.shape, known.array.sharding, [part for part in parts if part is not None]
        )
        self._keep(array, known.value, known.fails)

    def _ask(self) -> None:
        """Ask whether a value is there; if so, it must be there without waiting."""
        known = self._pick()
        if known.array.is_ready() and not known.fails:
            self._check_shards(known)

    def _synchronize(self) -> None:
        """Wait for all devices; then every value must be there."""
        known = self._pick()
        for device in current.current().devices:
            device.synchronize()
        assert known.array.is_ready(), "a value is not there after its devices were waited for"
        if not known.fails:
            self._check_shards(known)

    def _check_shards(self, known: Known) -> None:
        buffer = known.array._live()
        for index, value in zip(buffer.tiling.indices, buffer.values, strict=True):
            assert np.array_equal(value, known.value[index]), "a shard that is ready is wrong"

    def _show(self) -> None:
        known = self._pick()
        if self._reads(known):
            text, expected = str(known.array), str(known.value)
            assert text == expected, f"the text of a value is wrong: {text!r}, not {expected!r}"

    def _place_as_it_is(self) -> None:
        value = self._value()
        self._keep(device_put(value, self._sharding(), may_alias=True), value.copy())

    def _delete(self) -> None:
        known = self._pick()
        if self._is_mine(known):
            known.array.delete()
            self._mine.remove(known)

    def _drop(self) -> None:
        if self._mine:
            self._mine.pop(self._random.randrange(len(self._mine)))

    def _drop_in_a_cycle(self) -> None:
        if self._mine:
            cycle: list[Any] = [self._mine.pop(self._random.randrange(len(self._mine)))]
            cycle.append(cycle)

    def _is_mine(self, known: Known) -> bool:
        return any(known is mine for mine in self._mine)

    def _check(self, known: Known) -> None:
        if self._reads(known):
            assert np.array_equal(np.asarray(known.array), known.value), "a value is wrong"

    def _check_at_last(self, known: Known) -> None:
        """Check a value, on a machine whose allocations may fail now and then."""
        for _ in range(50):
            with contextlib.suppress(OutOfMemoryError):
                self._check(known)
                return
        raise AssertionError("there is never room to read a value")

    def _reads(self, known: Known) -> bool:
        """Return whether a value can be read; check how it fails if it is meant to."""
        if not known.fails:
            return True
        self.failures += 1
        try:
            known.array.block_until_ready()
        except ExecutionError as error:
            assert isinstance(error.__cause__, PlannedError), "the cause is another one"
            return False
        raise AssertionError("work that failed was read")


_ACTIONS: Sequence[Callable[[Actor], object]] = (
    *[Actor._place] * 2,
    Actor._place_by_callback,
    *[Actor._reshard] * 4,
    *[Actor._donate] * 2,
    *[Actor._compute] * 3,
    *[Actor._slice] * 3,
    *[Actor._read] * 2,
    Actor._start_read,
    Actor._export,
    Actor._rebuild,
    Actor._ask,
    Actor._synchronize,
    Actor._show,
    Actor._place_as_it_is,
    Actor._delete,
    Actor._drop,
    Actor._drop_in_a_cycle,
)
