"""Threads of random programs: each works with arrays at random, and knows their values."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpushard._array.array import Array, array_like
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.sharding import Sharding
from gpushard._movement.sharding_devices import devices_of
from gpushard._movement.update import update
from gpushard._ops.basic_index import index_piece, parse_index
from gpushard._ops.bind import bind
from gpushard._ops.table import manipulation
from gpushard._placement.device_put import device_put
from gpushard._placement.make_array import (
    make_array_from_callback,
    make_array_from_single_device_arrays,
)
from gpushard._placement.reshard import reshard
from gpushard._runtime import current_runtime
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._typing import HostArray, Shape
from gpushard.errors import ExecutionError, OutOfMemoryError
from gpushard.testing.deferred import deferred

_LARGE = 400  # arrays with more elements do not grow
_SHAPES = ((7, 9), (1, 5), (4, 4), (3, 8))


class PlannedError(Exception):
    """The error of work that is meant to fail."""


def by_host(sharding: Sharding) -> bool:
    """Test whether moves from and to a sharding wait for the value."""
    return sharding.memory_kind == "unpinned_host"


class ProgramState:
    """The state that all threads of a program share: a shape, a few shardings, and some arrays."""

    def __init__(self, source: random.Random, shardings: Sequence[Sharding]) -> None:
        self.shape = source.choice(_SHAPES)
        self.shardings = source.sample(shardings, 4)
        self.shared: list[Known] = []


class Actor:
    """One thread of a random program."""

    def __init__(self, world: ProgramState, source: random.Random, steps: int) -> None:
        self._world = world
        self._random = source
        self._steps = steps
        self._mine: list[Known] = []
        self._exported: list[tuple[HostArray, HostArray]] = []
        self.failures = 0  # steps that ran out of memory or read a failed value

    def run(self) -> None:
        """Run all steps, then read all remaining arrays."""
        actions = ACTIONS
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
        return self._value_of(self._world.shape)

    def _value_of(self, shape: Shape) -> HostArray:
        start = self._random.randrange(1000)
        return np.arange(start, start + math.prod(shape), dtype=np.int32).reshape(shape)

    def _sharding(self, fails: bool = False) -> Sharding:
        """Draw a sharding; for a failed value, one to which it can move without raising."""
        sharding = self._random.choice(self._world.shardings)
        return sharding.with_memory_kind("device") if fails and by_host(sharding) else sharding

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
        moved = reshard(known.array, self._sharding(known.fails))
        self._keep(moved, known.value, known.fails)

    def _donate(self) -> None:
        known = self._pick()
        if self._is_mine(known):
            move = self._random.choice((reshard, device_put))
            moved = move(known.array, self._sharding(known.fails), donate=True)
            self._mine.remove(known)
            self._mine.append(Known(moved, known.value, known.fails))

    def _compute(self) -> None:
        known = self._pick()
        fails = self._random.random() < 0.1 and not by_host(known.array.sharding)
        error = PlannedError() if fails else None
        array = deferred(known.array, lambda v: v + 1, error=error)
        self._keep(array, known.value + 1, known.fails or fails)

    def _operate(self) -> None:
        """Run operations on arrays; a failed operand makes the result fail."""
        x = self._pick()
        if not self._may_operate(x) or x.array.sharding.memory_kind != "device":
            return
        kind = self._random.randrange(4)
        if kind == 0 or x.fails:
            self._keep(x.array * 3 + 1, x.value * 3 + 1, x.fails)
        elif kind == 1:
            array = x.array - x.array.max(0, keepdims=True)
            self._keep(array, x.value - x.value.max(0, keepdims=True))
        elif kind == 2 and x.value.size < _LARGE:
            self._keep(x.array @ x.array.T, x.value @ x.value.T)
        elif y := self._beside(x, x.value.shape):
            self._keep(x.array + y.array, x.value + y.value)

    def _rearrange(self) -> None:
        x = self._pick()
        if not self._may_operate(x) or x.fails or x.value.size >= _LARGE:
            return
        (rows, columns), kind = x.value.shape, self._random.randrange(5)
        n = self._random.randrange(-3, 4)
        if kind == 0:
            result = bind(manipulation.ROLL, (x.array,), ((n, 2 * n), (-2, -1)))
            self._keep(result, np.roll(x.value, (n, 2 * n), (0, 1)))
        elif kind == 1:
            self._keep(x.array.reshape(columns, rows), x.value.reshape(columns, rows))
        elif kind == 2:
            result = bind(manipulation.PAD, (x.array, n), (((1, 0), (0, 2)),))
            self._keep(result, np.pad(x.value, ((1, 0), (0, 2)), constant_values=n))
        elif kind == 3:
            self._keep(x.array.repeat(2, 1), x.value.repeat(2, 1))
        elif y := self._beside(x, (None, columns)):
            result = bind(manipulation.CONCATENATE, (x.array, y.array, x.array), (-2,))
            self._keep(result, np.concatenate((x.value, y.value, x.value)))

    def _may_operate(self, known: Known) -> bool:
        """Test whether a sharding determines the layout of results."""
        sharding = known.array.sharding
        return sharding.num_devices == 1 or isinstance(sharding, NamedSharding)

    def _beside(self, x: Known, shape: tuple[int | None, ...]) -> Known | None:
        """Return an array in the memory and on the devices of another one, with given sizes."""
        for y in (*self._mine, *self._world.shared):
            fits = all(n in (None, m) for n, m in zip(shape, y.value.shape, strict=True))
            if fits and not y.fails and self._may_operate(y) and not y.array.is_deleted():
                places = [
                    set(known.array.sharding.tiling(known.value.shape).devices) for known in (x, y)
                ]
                if places[0] == places[1] and y.value.size < _LARGE:
                    return y
        return None

    def _assign(self) -> None:
        """Assign to an array of this thread; other arrays may share its memory."""
        candidates = [known for known in self._mine if not known.fails]
        if not candidates or self._random.random() < 0.3:
            known = self._pick()
            if known.fails or not self._is_mine(
                known := self._keep(copy.copy(known.array), known.value)
            ):
                return
        else:
            known = self._random.choice(candidates)
        index = tuple(self._index(n) for n in known.value.shape)
        changed = known.value.copy()
        part = self._value_of(changed[index].shape)
        value: Any = self._random.choice((7, part, None))
        changed[index] = part if value is None else value
        value = device_put(part.copy(), self._sharding()) if value is None else value
        with known.changing_to(changed):
            known.array[index] = value
        if isinstance(value, np.ndarray):
            value[...] = -1

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

    def _update(self) -> None:
        known = self._pick()
        index = tuple(self._index(n) for n in known.value.shape)
        value = known.value.copy()
        part = self._value_of(value[index].shape)
        value[index] = part
        new, fails = device_put(part.copy(), self._sharding()), False
        if self._random.random() < 0.5:
            waits = by_host(known.array.sharding) or by_host(new.sharding)
            fails = self._random.random() < 0.1 and not waits
            error = PlannedError() if fails else None
            new = deferred(new, lambda v: v, error=error)
        left = part.size < value.size
        fails = (known.fails and left) or (fails and part.size > 0)
        array = updated(known.array, index, new)
        if fails:  # but maybe not everywhere, so its slices are unpredictable
            self._reads(Known(array, value, fails))
        else:
            self._keep(array, value)

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
        """Make an array from the shards of another one, and drop the other."""
        known = self._pick()
        parts = [shard.data for shard in known.array.addressable_shards]
        array = make_array_from_single_device_arrays(
            known.value.shape, known.array.sharding, [part for part in parts if part is not None]
        )
        self._keep(array, known.value, known.fails)

    def _ask(self) -> None:
        """Ask whether a value is ready; if so, reading must not wait."""
        known = self._pick()
        if known.array.is_ready() and not known.fails:
            self._check_shards(known)

    def _synchronize(self) -> None:
        """Wait for all devices; then every value must be ready."""
        known = self._pick()
        for device in current_runtime.current().devices:
            device.synchronize()
        assert known.array.is_ready(), "a value is not there after its devices were waited for"
        if not known.fails:
            self._check_shards(known)

    def _check_shards(self, known: Known) -> None:
        buffer = known.array._live()
        backend, places = buffer.runtime.backend, devices_of(buffer.tiling)
        for place, index, value in zip(places, buffer.tiling.indices, buffer.values, strict=True):
            read: HostArray = np.empty(value.shape, value.dtype)
            backend.copy_boxes([(read, value, place.memory_domain)], HOST_DOMAIN)
            assert np.array_equal(read, known.value[index]), "a shard that is ready is wrong"

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
        """Check a value, on a machine with allocations that sometimes fail."""
        for _ in range(50):
            with contextlib.suppress(OutOfMemoryError):
                self._check(known)
                return
        raise AssertionError("there is never room to read a value")

    def _reads(self, known: Known) -> bool:
        """Test whether a value can be read; check the error if it is meant to fail."""
        if not known.fails:
            return True
        self.failures += 1
        try:
            known.array.block_until_ready()
        except ExecutionError as error:
            assert isinstance(error.__cause__, PlannedError), "the cause is another one"
            return False
        raise AssertionError("work that failed was read")


ACTIONS: Sequence[Callable[[Actor], object]] = (
    *[Actor._place] * 2,
    Actor._place_by_callback,
    *[Actor._reshard] * 4,
    *[Actor._donate] * 2,
    *[Actor._compute] * 3,
    *[Actor._slice] * 3,
    *[Actor._operate] * 3,
    *[Actor._rearrange] * 3,
    *[Actor._assign] * 3,
    *[Actor._update] * 2,
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


@dataclasses.dataclass(slots=True, eq=False)
class Known:
    """An array, and its expected value."""

    array: Array
    value: HostArray
    fails: bool = False  # whether the work that computes it was meant to fail
    # The value after an assignment that an interrupt stopped, which may have happened or not.
    pending: HostArray | None = None

    @contextlib.contextmanager
    def changing_to(self, value: HostArray) -> Iterator[None]:
        """Change the expected value when the `with` block has finished.

        The value stays if the block runs out of memory. An interrupt may come before or after the
        change.
        """
        self.pending = value
        try:
            yield
        except Exception:
            self.pending = None
            raise
        self.value, self.pending = value, None


def updated(x: Array, index: Any, value: Array) -> Array:
    """Return an array with `value` at a basic index of `x`, and the elements of `x` elsewhere.

    >>> import gpushard as gs
    >>> import numpy as np
    >>> updated(gs.device_put(np.arange(4)), slice(None, None, 2), gs.device_put(np.array([7, 8])))
    Array([7, 1, 8, 3], dtype=int64)
    """
    piece = index_piece(parse_index(x.shape, index))
    buffer = update(x._live(), value._live(), piece)
    return array_like(x, buffer)
