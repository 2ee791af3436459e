"""What an array holds: its buffer, what was made from it so far, and who writes it.

All of it hangs on one attribute of the array, so that one assignment, which no interrupt can cut in
two, takes an array from one value to the next. A `Handle` is an array as far as that goes; whatever
works on the data of arrays takes handles, and users see them as `Array`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary, ref

import numpy as np

from gpushard.errors import DeletedArrayError
from gpushard.geometry.sharding import Sharding, SingleDeviceSharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.host import HostRead, StagedRead
from gpushard.movement.ownership import Holder
from gpushard.ops.row import Params, Row
from gpushard.runtime.runtime import Runtime
from gpushard.typing import HostArray, Shape


class Data(Holder):
    """The data of an array.

    Args:
      buffer: the data.
      runtime: of its devices.
      exported: data that the array had before, and whose address others have who only keep it.
    """

    __slots__ = ("exported", "furthest", "host", "runtime", "shards")

    def __init__(
        self, buffer: ShardedBuffer, runtime: Runtime, exported: tuple[ShardedBuffer, ...] = ()
    ) -> None:
        self.buffer = buffer
        self.exported = exported
        self.runtime = runtime
        # The value on the host, or on its way there.
        self.host: HostArray | HostRead | StagedRead | None = None
        self.shards: KnownShards | None = None  # the shards that were asked for
        # Of positions, the one that needs the longest dim to be in bounds, once that is known.
        self.furthest: int | None = None

    @property
    def tiling(self) -> Tiling:
        """Which device holds what."""
        return self.buffer.tiling


class Turned:
    """Stands for the data of a transposed array until somebody needs them in order.

    Args:
      source: an array of the same value in another order of dims, which nobody assigns to.
      axes: of the transposition, from the end.
      make: makes the data.
      tiling: of the transposed array.
      runtime: of the devices.
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
        self._buffer: ShardedBuffer | None = None  # the data, which several arrays may ask for

    def settle(self, x: Handle) -> None:
        """Make the data of an array, unless that has got others meanwhile."""
        if self._buffer is None:
            self._buffer = self.make(self.source._live())
        data = Data(self._buffer, self.runtime)
        if x._data is self:  # no call up to the next line, so no other thread either
            x._data = data


class ShardData:
    """The data of one shard, and the arrays that were made of it.

    Args:
      data: the data.
      sharding: where they lie.
    """

    __slots__ = ("arrays", "data", "sharding")

    def __init__(self, data: Data, sharding: Sharding) -> None:
        self.data = data
        self.sharding = sharding
        # By identity; some may have got another value since.
        self.arrays: WeakValueDictionary[int, Handle] = WeakValueDictionary()

    def delete(self) -> None:
        """Delete the arrays that still have this value."""
        for array in list(self.arrays.values()):
            if array._data is self.data:
                array.delete()


class KnownShards(Holder):
    """The shards of a value, for those who have asked for them: they become arrays when these do.

    Args:
      buffer: the data of the array.
      sharding: how it is laid out.
      make: returns a new handle on data in a sharding.
    """

    __slots__ = ("_dtype", "_make", "_runtime", "arrays", "sharding", "tiling")

    def __init__(
        self, buffer: ShardedBuffer, sharding: Sharding, make: Callable[[Data, Sharding], Handle]
    ) -> None:
        self.buffer: ShardedBuffer | None = buffer  # type: ignore[assignment]
        self.tiling = buffer.tiling  # which device holds what
        # The shards that were asked for as arrays, by position.
        self.arrays: dict[int, ShardData] = {}
        self._dtype, self._runtime = buffer.dtype, buffer.runtime
        self.sharding, self._make = sharding, make

    def array(self, position: int) -> Any:
        """Return a new handle on the shard of one device; a deleted one where the array was."""
        shard = self.arrays.get(position)
        if shard is None:
            buffer = self.buffer  # read once: another thread may delete the array
            held = buffer or ShardedBuffer(self.tiling, self._dtype, [], [])
            part, sharding = shard_of(held, self.sharding, position)
            if buffer is None:
                array = self._make(Data(part, self._runtime), sharding)
                array.delete()
                return array
            made = ShardData(Data(part, self._runtime), sharding)
            shard = self.arrays.setdefault(position, made)  # another thread may be here too
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
    """Return what one device holds of an array, as the data of an array on that device."""
    tiling = buffer.tiling
    shape = sharding.stacked(tiling.shard_shapes[position])
    device = devices_of(tiling)[position].device
    alone = SingleDeviceSharding(device, memory_kind=sharding.memory_kind)
    at = slice(position, position + 1)  # nothing of a deleted array
    values = buffer.values[at]
    if sharding.unstacked:
        values = [value.reshape(shape) for value in values]
    return ShardedBuffer(alone.tiling(shape), buffer.dtype, values, buffer.claims[at]), alone


_process = object()
"""Stands for this process; a forked child has another one."""


def _in_child() -> None:
    global _process
    _process = object()


os.register_at_fork(after_in_child=_in_child)


class Detached:
    """Stands for an array's data while a thread writes them in place.

    Whoever wants to read waits until the thread is through. If it did not get there, as after an
    interrupt, or in the child of a fork where there is no such thread, this stays, and the array
    cannot be used any more: nobody knows what is in it.

    Args:
      lock: a free one, of nobody else's.
      data: what it stands for.
    """

    __slots__ = ("_process", "data", "lock", "thread", "torn")

    def __init__(self, lock: Any, data: Data) -> None:
        self._process = _process
        self.lock = lock
        self.data = data
        self.thread = threading.get_ident()
        self.torn = False  # whether the thread is known not to have got through

    def wait(self) -> None:
        """Wait for the writer, unless that is this thread: a signal handler or a finalizer."""
        if self.thread == threading.get_ident():
            return
        if self._process is not _process:
            self.torn = True
            return
        with self.lock:
            pass


def is_gone(data: Data | Turned | Detached | None) -> bool:
    """Whether an array has no value, and never will."""
    return data is None or (isinstance(data, Detached) and data.torn)


def data_of(x: Handle) -> Data:
    """Return the data of an array, once nobody writes them.

    Raises:
      DeletedArrayError: there are none.
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
    """An array that others were taken from, as long as it has the value that it had then.

    Args:
      array: the array.
    """

    __slots__ = ("_array", "shape")

    def __init__(self, array: Handle) -> None:
        self.shape = array._shape  # of the array, which may be gone
        self._array: ref[Handle] | None = ref(array)

    def array(self) -> Handle | None:
        """Return the array, unless it is gone, or has got another value."""
        found = None if self._array is None else self._array()
        return None if found is None or found.is_deleted() else found

    def end(self) -> None:
        """Let nothing count as taken from the array."""
        self._array = None


class View(NamedTuple):
    """How an array was taken from another one."""

    origin: Origin  # the other one
    row: Row | None  # by which operation; None where it is the same
    params: Params
    older: View | None  # how the other one was taken
    depth: int  # how many steps there are


class Handle:
    """An array that has data, or had some."""

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
        """Give up the memory."""
        data, self._data = self._data, None
        if isinstance(data, Data) and data.shards is not None:
            data.shards.delete()

    def is_deleted(self) -> bool:
        """Whether it was given up, or an assignment to it cut short."""
        return is_gone(self._data)

    def _live(self) -> ShardedBuffer:
        return self._held().buffer

    def _read(self) -> ShardedBuffer:
        """Return the data that have the value, in whichever order of dims."""
        data = self._data
        return data.source._live() if isinstance(data, Turned) else self._live()

    def _held(self) -> Data:
        data = self._data
        return data if type(data) is Data else data_of(self)

    def _handle(self, data: Data | Turned, sharding: Sharding, *, registered: bool = True) -> Any:
        """Return a new handle on data of this array, as committed and weak as this one."""
        weak, shape = self._weak_type, data.tiling.shape
        made = handle(type(self), data, shape, self._dtype, sharding, self._committed, weak)
        if registered:
            data.runtime.register(made)
        return made


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
    """Return an array of data, not yet registered."""
    made = _new(kind)
    made._data = data
    made._shape = shape
    made._dtype = dtype
    made._sharding = sharding
    made._committed = committed
    made._weak_type = weak_type
    made._view = None
    made._origin = None
    return made


_new = object.__new__
