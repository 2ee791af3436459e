"""The data of an array: its buffer, values cached from it, and the thread that writes it.

One attribute of the array refers to all of this. So one assignment, which no interrupt can split,
takes an array from one value to the next. A `Handle` is an array with only this state. Functions on
the data of arrays take handles; users see them as `Array`.
"""

from __future__ import annotations

import functools
import operator
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary, ref

import numpy as np

from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.ownership import Holder
from gpushard._movement.sharding_devices import devices_of
from gpushard._movement.to_host import HostRead, StagedRead
from gpushard._ops.row import Params, Row
from gpushard._runtime.runtime import Runtime
from gpushard._typing import HostArray, Shape
from gpushard.errors import DeletedArrayError


class Data(Holder):
    """The data of an array.

    Args:
      buffer: the data.
      runtime: the runtime of its devices.
      exported: earlier data of the array with exported addresses; their consumers hold the array.
    """

    __slots__ = ("exported", "furthest", "host", "runtime", "shards")

    def __init__(
        self, buffer: ShardedBuffer, runtime: Runtime, exported: tuple[ShardedBuffer, ...] = ()
    ) -> None:
        self.buffer = buffer
        self.exported = exported
        self.runtime = runtime
        # The value on the host, or a running copy to it.
        self.host: HostArray | HostRead | StagedRead | None = None
        self.shards: KnownShards | None = None  # the shards that users asked for
        # For an array of positions, the one farthest out, once the host has read it.
        self.furthest: int | None = None

    @property
    def tiling(self) -> Tiling:
        """The boxes of the devices."""
        return self.buffer.tiling


class Turned:
    """A placeholder for the data of a transposed array, until they are needed in order.

    Args:
      source: an array with the value in another order of dims; it is never assigned to.
      axes: the axes of the transposition, from the end.
      make: a function that makes the data.
      tiling: the tiling of the transposed array.
      runtime: the runtime of the devices.
    """

    __slots__ = ("_buffer", "axes", "make", "runtime", "source", "tiling")

    def __init__(
        self,
        source: Handle,
        axes: tuple[int, ...],
        make: Callable[[ShardedBuffer], ShardedBuffer],
        tiling: Tiling,
        runtime: Runtime,
    ) -> None:
        self.source = source
        self.axes = axes
        self.make = make
        self.tiling = tiling
        self.runtime = runtime
        self._buffer: ShardedBuffer | None = None  # the data, once an array needs them

    def settle(self, x: Handle) -> None:
        """Make the data of an array, unless it has new data meanwhile."""
        if self._buffer is None:
            self._buffer = self.make(self.source._live())
        data = Data(self._buffer, self.runtime)
        if x._data is self:  # no call before the next line, so no thread switch
            x._data = data


class ShardData:
    """The data of one shard, and the arrays that share them.

    Args:
      data: the data.
      sharding: the sharding of the shard.
    """

    __slots__ = ("arrays", "data", "sharding")

    def __init__(self, data: Data, sharding: Sharding) -> None:
        self.data = data
        self.sharding = sharding
        # By identity; some may have new values since.
        self.arrays: WeakValueDictionary[int, Handle] = WeakValueDictionary()

    def delete(self) -> None:
        """Delete the arrays that still have this value."""
        for array in list(self.arrays.values()):
            if array._data is self.data:
                array.delete()


class KnownShards(Holder):
    """The shards of a value, created as arrays when users ask for them.

    Args:
      buffer: the data of the array.
      sharding: the sharding of the array.
      make: a function that returns a new handle on data in a sharding.
    """

    __slots__ = ("_dtype", "_make", "_runtime", "arrays", "sharding", "tiling")

    def __init__(
        self, buffer: ShardedBuffer, sharding: Sharding, make: Callable[[Data, Sharding], Handle]
    ) -> None:
        self.buffer: ShardedBuffer | None = buffer  # type: ignore[assignment]
        self.tiling = buffer.tiling  # the boxes of the devices
        # The shards that users asked for, by position.
        self.arrays: dict[int, ShardData] = {}
        self._dtype, self._runtime = buffer.dtype, buffer.runtime
        self.sharding, self._make = sharding, make

    def array(self, position: int) -> Any:
        """Return a new handle on the shard of one device; deleted if the array was deleted."""
        shard = self.arrays.get(position)
        if shard is None:
            buffer = self.buffer  # read once: another thread may delete the array
            held = buffer or ShardedBuffer(self.tiling, self._dtype, [], [])
            part, sharding = shard_of(held, self.sharding, position)
            if buffer is None:
                array = self._make(Data(part, self._runtime), sharding)
                array.delete()
                return array
            shard_data = ShardData(Data(part, self._runtime), sharding)
            shard = self.arrays.setdefault(position, shard_data)  # another thread may do so too
        array = self._make(shard.data, shard.sharding)
        shard.arrays[id(array)] = array
        return array

    def delete(self) -> None:
        """Delete all arrays of shards that still have this value, now and later."""
        self.buffer = None
        while self.arrays:
            self.arrays.popitem()[1].delete()


def shard_of(
    buffer: ShardedBuffer, sharding: Sharding, position: int
) -> tuple[ShardedBuffer, Sharding]:
    """Return the block of one device as the buffer of an array on that device."""
    tiling = buffer.tiling
    shape = sharding.stacked(tiling.shard_shapes[position])
    device = devices_of(tiling)[position].device
    alone = SingleDeviceSharding(device, memory_kind=sharding.memory_kind)
    at = slice(position, position + 1)  # empty for a deleted array
    values = buffer.values[at]
    if sharding.unstacked:
        values = [value.reshape(shape) for value in values]
    return ShardedBuffer(alone.tiling(shape), buffer.dtype, values, buffer.claims[at]), alone


def relabel_buffer(buffer: ShardedBuffer, tiling: Tiling) -> ShardedBuffer:
    """View the blocks of a buffer in the shapes of another tiling, without a copy."""
    old = buffer.tiling
    if tiling is old:
        return buffer
    order, reshape = _plan_relabel(old, tiling)
    values, claims = buffer.values, buffer.claims
    if order is not None:
        values, claims = [values[n] for n in order], [claims[n] for n in order]
    if reshape is not None:
        values = list(map(reshape, values))
    else:
        shapes = tiling.shard_shapes
        values = [value.reshape(shape) for value, shape in zip(values, shapes, strict=True)]
    return ShardedBuffer(tiling, buffer.dtype, values, claims, buffer.settled)


@functools.lru_cache(maxsize=1024)
def _plan_relabel(old: Tiling, new: Tiling) -> tuple[list[int] | None, Callable[[Any], Any] | None]:
    """Find the new order of devices, if it changes, and a reshape, if all blocks have one shape."""
    order = None
    if new.devices != old.devices:
        at = {device: position for position, device in enumerate(old.devices)}
        order = [at[device] for device in new.devices]
    before, after = set(old.shard_shapes), set(new.shard_shapes)
    return order, _reshape(*before, *after) if len(before) == len(after) == 1 else None


def _reshape(old: Shape, new: Shape) -> Callable[[Any], Any]:
    """Make a function that reshapes a block.

    If only dims of one element in front differ, it indexes: that takes a third less time.
    """
    more = len(new) - len(old)
    if new == (1,) * more + old:
        return operator.itemgetter((*(None,) * more, ...))
    if old == (1,) * -more + new:
        return operator.itemgetter((*(0,) * -more, ...))
    return operator.methodcaller("reshape", new)


_process = object()
"""A mark of this process; a forked child has another one."""


def _in_child() -> None:
    global _process
    _process = object()


os.register_at_fork(after_in_child=_in_child)


class Detached:
    """A placeholder for an array's data while a thread writes them in place.

    Readers wait until that thread has finished. If it never finishes, after an interrupt or in the
    child of a fork, the placeholder stays. The array cannot be used any more, since its content is
    unknown.

    Args:
      lock: a free lock that no other object uses.
      data: the data.
    """

    __slots__ = ("_process", "data", "lock", "thread", "torn")

    def __init__(self, lock: Any, data: Data) -> None:
        self._process = _process
        self.lock = lock
        self.data = data
        self.thread = threading.get_ident()
        self.torn = False  # whether the thread is known to have failed

    def wait(self) -> None:
        """Wait for the writer, unless it is this thread, in a signal handler or a finalizer."""
        if self.thread == threading.get_ident():
            return
        if self._process is not _process:
            self.torn = True
            return
        with self.lock:
            pass


def is_gone(data: Data | Turned | Detached | None) -> bool:
    """Test whether an array has lost its value for good."""
    return data is None or (isinstance(data, Detached) and data.torn)


def data_of(x: Handle) -> Data:
    """Return the data of an array, once no thread writes them.

    Raises:
      DeletedArrayError: the array has none.
    """
    before = None
    while isinstance(data := x._data, Detached | Turned) and data is not before:
        if isinstance(data, Turned):
            data.settle(x)
        else:
            data.wait()
            before = data
    if isinstance(data, Data):
        return data
    why = "was deleted or donated; keep a copy, or do not donate it"
    if data is not None:
        why = (
            "has no value: an assignment to a part of it was interrupted while it wrote, or "
            "the process was forked meanwhile"
        )
    raise DeletedArrayError(
        f"the array of shape {x._shape}, dtype {x._dtype} and sharding {x._sharding} {why}",
        shape=x._shape,
        dtype=x._dtype,
        sharding=x._sharding,
    )


class Origin:
    """An array that views were taken from, as long as its value has not changed since.

    Args:
      array: the array.
    """

    __slots__ = ("_array", "shape")

    def __init__(self, array: Handle) -> None:
        self.shape = array._shape  # the array may be gone
        self._array: ref[Handle] | None = ref(array)

    def array(self) -> Handle | None:
        """Return the array, or None if it is gone or has a new value."""
        array = None if self._array is None else self._array()
        return None if array is None or array.is_deleted() else array

    def end(self) -> None:
        """Make no array count as a view of this one."""
        self._array = None


class View(NamedTuple):
    """The operation that took an array from another one."""

    origin: Origin  # the other array
    row: Row | None  # the operation; None if both have the same elements
    params: Params
    older: View | None  # the operation that took the other array
    depth: int  # the number of operations


class Handle:
    """Base of arrays with data, which can be deleted."""

    __slots__ = (
        "__weakref__",
        "_committed",
        "_data",
        "_dtype",
        "_origin",
        "_shape",
        "_sharding",
        "_view",
        "_weak_type",
    )

    _shape: Shape
    _dtype: np.dtype[Any]
    _weak_type: bool
    _sharding: Sharding
    _committed: bool
    _data: Data | Turned | Detached | None
    _view: View | None
    _origin: Origin | None

    def delete(self) -> None:
        """Free the memory of the array."""
        data, self._data = self._data, None
        if isinstance(data, Data) and data.shards is not None:
            data.shards.delete()

    def is_deleted(self) -> bool:
        """Test whether the array was deleted.

        A signal that interrupts an assignment to the array also deletes it.
        """
        return is_gone(self._data)

    def _live(self) -> ShardedBuffer:
        return self._held().buffer

    def _read(self) -> ShardedBuffer:
        """Return the data with the value, in any order of dims."""
        data = self._data
        return data.source._live() if isinstance(data, Turned) else self._live()

    def _held(self) -> Data:
        data = self._data
        return data if type(data) is Data else data_of(self)

    def _handle(self, data: Data | Turned, sharding: Sharding, *, registered: bool = True) -> Any:
        """Return a new handle on data of this array, with its committed state and weak type."""
        weak, shape = self._weak_type, data.tiling.shape
        copy = handle(type(self), data, shape, self._dtype, sharding, self._committed, weak)
        if registered:
            data.runtime.register(copy)
        return copy

    def _relabel(self, tiling: Tiling, sharding: Sharding, *, inside: bool = False) -> Any:
        """View the blocks of this array as those of an array of another shape.

        Users do not see an array that is `inside` a function: `live_arrays` does not list it.
        """
        held = self._held()
        data = Data(relabel_buffer(held.buffer, tiling), held.runtime)
        shape, weak = tiling.shape, self._weak_type
        array = handle(type(self), data, shape, self._dtype, sharding, True, weak)
        if not inside:
            held.runtime.register(array)
        return array


H = TypeVar("H", bound=Handle)


def handle(
    kind: type[H],
    data: Data | Turned,
    shape: Shape,
    dtype: np.dtype[Any],
    sharding: Sharding,
    committed: bool,
    weak_type: bool,
) -> H:
    """Create an array of data, not yet registered."""
    array = _new(kind)
    array._data = data
    array._shape = shape
    array._dtype = dtype
    array._sharding = sharding
    array._committed = committed
    array._weak_type = weak_type
    array._view = None
    array._origin = None
    return array


def array_of_buffer(
    kind: type[H],
    buffer: ShardedBuffer,
    runtime: Runtime,
    dtype: np.dtype[Any],
    sharding: Sharding,
    committed: bool,
    weak_type: bool,
) -> H:
    """Create an array of a buffer and register it: its constructor, without its checks."""
    data = Data(buffer, runtime)
    array = handle(kind, data, buffer.tiling.shape, dtype, sharding, committed, weak_type)
    if runtime.settings.enable_checks:
        buffer.check()
    runtime.register(array)
    return array


_new = object.__new__
