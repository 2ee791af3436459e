"""`Array`: a NumPy-like array with elements spread over devices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard._array.assignment import assign, renew
from gpushard._array.conversions import Conversions
from gpushard._array.data import Data, Handle, KnownShards, Turned, handle, is_gone, shard_of
from gpushard._array.guards import DEVICE_TO_DEVICE, DEVICE_TO_HOST, check_transfer
from gpushard._array.host_value import copy_to_host_async, value_at_hand, value_on_host
from gpushard._array.indexing import Indexing
from gpushard._array.library_protocols import Protocols
from gpushard._array.methods import Methods
from gpushard._array.pickling import rebuild
from gpushard._array.shape_dtype import ShapeDtypeStruct
from gpushard._array.shard import Shards
from gpushard._array.text import describe, describe_deleted
from gpushard._array.views import is_called_by_library, view
from gpushard._functions.host_reads import Concrete, concrete
from gpushard._geometry.memory_layout import Format, Layout
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.sharding import GridSharding, Sharding, SingleDeviceSharding
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.plan import Plan
from gpushard._movement.reshard import move, plan_for
from gpushard._movement.sharding_devices import devices_of
from gpushard._runtime.runtime import Device
from gpushard._typing import HostArray, Shape, shown_as
from gpushard.errors import ArgumentError, ArgumentTypeError, GpushardError


class Array(Shards, Indexing, Conversions, Protocols, Methods):
    """An array of numbers or random keys; its sharding says which device holds which part.

    An operation on one array never changes another. `x[index] = value` gives `x` a new value. It
    writes to the memory of `x` only if no other array shares that memory. Create arrays with
    `device_put`, `make_array_from_callback` and similar functions, not with this class. Arrays of
    numbers, arrays of random keys and traced values are all instances of it.
    """

    __slots__ = ()
    __array_priority__ = 100

    _shape: Shape
    _dtype: np.dtype[Any]
    _weak_type: bool
    _sharding: Sharding
    _committed: bool

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Create an array with data, as `pathlib.Path` creates paths of a platform."""
        return object.__new__(ConcreteArray if cls is Array else cls)

    @property
    def shape(self) -> Shape:
        """Lengths of the axes."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self._shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, each counted once."""
        return self.size * self._dtype.itemsize

    @property
    def sharding(self) -> Sharding:
        """The sharding of the array: which device holds which part."""
        raise self._without_data("x.sharding")

    @property
    def committed(self) -> bool:
        """Whether you chose the devices; operations move uncommitted arrays to committed ones."""
        raise self._without_data("x.committed")

    @property
    def weak_type(self) -> bool:
        """Whether the dtype came from a Python scalar, so other dtypes override it."""
        return self._weak_type

    @property
    def format(self) -> Format:
        """The order of elements in the memory of a shard, and the sharding."""
        return Format(self.layout, self.sharding)

    @property
    def layout(self) -> Layout:
        """The order of elements in the memory of a shard."""
        return Layout(tuple(range(self.ndim)))

    @property
    def aval(self) -> ShapeDtypeStruct:
        """Shape, dtype and weak type."""
        return ShapeDtypeStruct(self._shape, self._dtype, weak_type=self.weak_type)

    @property
    def device(self) -> Device | Sharding:
        """A device or a sharding that places other data on the devices of this array.

        For an array on one device, `device` is that device. Otherwise it is a replicated sharding
        over the mesh of the array, or over its devices. If the array has a subclass of `Sharding`
        that you wrote, `device` is that sharding.
        """
        if self.sharding.num_devices == 1:
            return next(iter(self.devices()))
        if isinstance(self.sharding, NamedSharding):
            return self.sharding.with_spec(PartitionSpec())
        return self.sharding.beside

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        if isinstance(self.sharding, GridSharding):
            return self.sharding.is_fully_replicated
        return bool((self.sharding.tiling(self._shape).volumes == self.size).all())

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can reach every shard."""
        return self.sharding.is_fully_addressable

    def devices(self) -> set[Device]:
        """Return the set of devices that hold the array."""
        return {place.device for place in devices_of(self._live().tiling)}

    def platform(self) -> str:
        """Return the platform of the devices: "cpu" or "gpu"."""
        return devices_of(self._live().tiling)[0].platform

    def on_device_size_in_bytes(self) -> int:
        """Return the bytes of all shards, replicas included."""
        return int(self._live().tiling.volumes.sum()) * self._dtype.itemsize

    def unsafe_buffer_pointer(self) -> int:
        """Return the memory address of the data of an array on one device.

        Raises:
          ArgumentError: the array has several shards.
        """
        buffer = self._live()
        if len(buffer.values) != 1:
            raise ArgumentError(
                f"the array has {len(buffer.values)} shards and no single address; take "
                "x.addressable_data(i).unsafe_buffer_pointer()",
                argument="self",
                shards=len(buffer.values),
            )
        return buffer.runtime.backend.address(buffer.values[0])

    def block_until_ready(self) -> Array:
        """Wait until the value is computed, and return this array.

        Raises:
          ExecutionError: the work that computes it failed.
        """
        self._read().wait()
        return self

    def is_ready(self) -> bool:
        """Test whether the devices have computed the value; True also if the work failed."""
        return self._read().is_ready()

    def to_device(self, device: Device | Sharding, /, *, stream: None = None) -> Array:
        """Copy the array to another device or sharding.

        Args:
          device: a device, or a sharding.
          stream: must be None; gpushard orders its own work.

        Raises:
          ArgumentError: `stream` is not None.
        """
        if stream is not None:
            raise ArgumentError.refusing(
                "stream", stream, "must be None; gpushard orders its own work"
            )
        sharding = _sharding_at(device)
        return self._moved(sharding, "x.to_device(device)")

    def plan(self, sharding: Sharding) -> Plan:
        """Return the copies that would move this array to another sharding, without moving it.

        Args:
          sharding: the new sharding.
        """
        return plan_for(self._live(), sharding.tiling(self._shape)).plan

    def _moved(self, sharding: Sharding, what: str) -> Array:
        """Return this array in another sharding; blocks that both have are shared, not copied.

        Args:
          sharding: the new sharding.
          what: the name of the caller, for transfer guards.
        """
        raise self._without_data(what)

    @property
    def device_buffer(self) -> Any:
        """Raise an error that names the replacement; older versions of JAX had this attribute."""
        raise AttributeError("device_buffer is gone; use x.addressable_data(0)")

    @property
    def device_buffers(self) -> Any:
        """Raise an error that names the replacement; older versions of JAX had this attribute."""
        raise AttributeError("device_buffers is gone; use [s.data for s in x.addressable_shards]")

    copy_to_host_async = copy_to_host_async

    def delete(self) -> None:
        """Free the array's memory, unless other arrays share it; a second call has no effect."""
        raise self._without_data("x.delete()")

    def is_deleted(self) -> bool:
        """Test whether the array was deleted, donated, or lost in an interrupted assignment."""
        return False

    def _live(self) -> ShardedBuffer:
        return self._held().buffer

    def _read(self) -> ShardedBuffer:
        """Return the data with the value, in any order of dims."""
        return self._live()

    def _held(self) -> Data:
        raise self._without_data("this")

    def _known_shards(self) -> KnownShards:
        raise self._without_data("x.addressable_shards")

    def _without_data(self, name: str) -> GpushardError:
        return ArgumentTypeError(
            f"{name} needs an array's data, and a {type(self).__name__} has none",
            argument="self",
            type=type(self),
        )


class ConcreteArray(Handle, Array, Concrete):
    """An array with data.

    Args:
      buffer: the data.
      sharding: the layout over devices.
      committed: whether you chose the devices.
      weak_type: whether the dtype came from a Python scalar.
    """

    __slots__ = ()

    __setitem__ = assign
    _renew = renew
    _concrete = value_on_host
    _at_hand = value_at_hand
    _viewed = view  # remembers the array that a part was taken from

    def __init__(
        self,
        buffer: ShardedBuffer,
        sharding: Sharding,
        *,
        committed: bool = True,
        weak_type: bool = False,
    ) -> None:
        runtime = buffer.runtime
        self._data = Data(buffer, runtime)
        self._shape = buffer.tiling.shape
        self._dtype = buffer.dtype
        self._sharding = sharding
        self._committed = committed
        self._weak_type = weak_type
        self._view = None
        self._origin = None
        if runtime.settings.enable_checks:
            buffer.check()
        runtime.register(self)

    @property
    def sharding(self) -> Sharding:
        """The sharding of the array: which device holds which part."""
        return self._sharding

    @property
    def committed(self) -> bool:
        """Whether you chose the devices; operations move uncommitted arrays to committed ones."""
        return self._committed

    def _moved(self, sharding: Sharding, what: str) -> Array:
        data = self._live()
        check_transfer(DEVICE_TO_DEVICE, what, explicit=True)
        moved = move(data, sharding.tiling(self._shape))
        return type(self)(moved, sharding, weak_type=self._weak_type)

    def __repr__(self) -> str:
        if is_gone(self._data):
            return describe_deleted(self._shape, self._dtype)
        check_transfer(DEVICE_TO_HOST, "repr(x)", explicit=False)
        return describe(self._live(), self._sharding, self.weak_type)

    def __copy__(self) -> Array:
        """Return another handle on this array's memory; arrays are values."""
        data = self._data
        if type(data) is not Turned:
            data_now = self._held()
            data = Data(data_now.buffer, data_now.runtime)
            data.host, data.furthest = data_now.host, data_now.furthest
        return self._handle(data, self._sharding)

    def _as_it_is(self) -> Array:
        """Return the array's present value; later assignments do not change it.

        The result is another handle on the data, so assignments do not write to them in place.
        `live_arrays` does not list it.
        """
        data = self._data  # read once: another thread may change it
        if type(data) is not Turned:
            data = self._held()
        return handle(
            type(self), data, self._shape, self._dtype, self._sharding, self._committed,
            self._weak_type,
        )  # fmt: skip

    def __deepcopy__(self, memo: Any) -> Array:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        value = concrete(self, "pickling", explicit=False)
        state = np.array(value), self._sharding, self.committed, self.weak_type
        return _from_pickle, state

    def _rebound(self, symbol: str, result: Any) -> Any:
        value = super()._rebound(symbol, result)
        if value is NotImplemented or (self._view is None and self._origin is None):
            return value
        if not is_called_by_library():
            return value
        self[...] = value
        return self

    def _shard_at(self, box: tuple[tuple[int, int], ...]) -> Array | None:
        """Return the shard that is exactly a box, uncommitted; None if there is none."""
        buffer = self._live()
        position = buffer.tiling.homes.get(box)
        if position is None:
            return None
        part, sharding = shard_of(buffer, self._sharding, position)
        shard: ConcreteArray = self._handle(Data(part, part.runtime), sharding)
        shard._committed = False
        return shard

    def _known_shards(self) -> KnownShards:
        data = self._held()
        if data.shards is None:
            like = self._handle(data, self._sharding, registered=False)
            like._data = None  # shards do not keep the array's data
            known = KnownShards(data.buffer, self._sharding, like._handle)
            if data.shards is None:  # no call before the next line, so no thread switch
                data.shards = known
        return data.shards


def array_like(x: Any, buffer: ShardedBuffer) -> Array:
    """Wrap data as an array with the class and the sharding of another array."""
    array: Array = type(x)(buffer, x.sharding, committed=x.committed, weak_type=x.weak_type)
    return array


def _sharding_at(device: Any) -> Sharding:
    """Return the sharding that a device, or a sharding, stands for."""
    if isinstance(device, Sharding):
        return device
    if not isinstance(device, Device):
        raise ArgumentTypeError.refusing(
            "device", device, "must be one of gpushard.devices(), or a Sharding"
        )
    return SingleDeviceSharding(device)


def _from_pickle(
    value: HostArray, sharding: Sharding, committed: bool, weak_type: bool
) -> ConcreteArray:
    return rebuild(ConcreteArray, value, sharding, committed, weak_type)


shown_as("Array", *ConcreteArray.__mro__)
ConcreteArray.__name__ = ConcreteArray.__qualname__ = "Array"  # the name that users know
