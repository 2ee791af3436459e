"""`KeyArray`: an array of random keys, whose words are an ordinary array with one more dim."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from gpushard.array.array import Array
from gpushard.array.aval import KeyDType, ShapeDtypeStruct
from gpushard.array.operators import Operators
from gpushard.array.shard import Shard
from gpushard.errors import ArgumentTypeError
from gpushard.functions.checks import place_tiling, sharding_at
from gpushard.geometry.format import Format, Layout
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import PartitionSpec
from gpushard.geometry.sharding import Sharding
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.execute import plan_for
from gpushard.movement.plan import Plan
from gpushard.ops.bind import bind
from gpushard.ops.indexing import NotBasicError, parse_index
from gpushard.ops.row import Params, Row
from gpushard.ops.table.elementwise import ufunc_row
from gpushard.ops.table.packed_keys import PACK, UNPACK
from gpushard.runtime.device import Device
from gpushard.typing import Shape

_MOVING = frozenset(
    [
        "T",
        "compress",
        "diagonal",
        "flatten",
        "mT",
        "ravel",
        "repeat",
        "reshape",
        "squeeze",
        "swapaxes",
        "take",
        "transpose",
    ]
)
"""What else arrays have that moves elements, whatever these are."""

_SHARED = frozenset(
    [
        "committed",
        "copy_to_host_async",
        "device",
        "device_buffer",
        "device_buffers",
        "devices",
        "is_deleted",
        "is_fully_addressable",
        "is_fully_replicated",
        "is_ready",
        "on_device_size_in_bytes",
        "platform",
        "unsafe_buffer_pointer",
        "weak_type",
    ]
)
"""What is the same for keys and for their words."""


_COMPARES = frozenset(map(ufunc_row, (np.equal, np.not_equal)))


class _OfKeys:
    """What operations on keys do: those that move elements, or compare them, take words as one."""

    level = 1

    def bind(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None = None
    ) -> Any:
        """Do one operation.

        Raises:
          ArgumentTypeError: it is one with numbers, or mixes them with keys.
        """
        if row.moves is None and row not in _COMPARES and row.beside_keys is None:
            refuse(row.name)
        numbers = row.beside_keys or frozenset()
        if any(isinstance(x, KeyArray) == (n in numbers) for n, x in enumerate(args)):
            refuse(f"{row.name} of keys and numbers")
        packed = [x if n in numbers else x._packed() for n, x in enumerate(args)]
        made = bind(row, packed, params, out_sharding)
        return made if row in _COMPARES else unpacked(made)


class KeyArray(Operators):
    """An array of keys.

    It has what an `Array` has, and is placed like one: a spec names the dims of the keys. What
    would take the keys for numbers, such as `np.asarray(keys)` and `keys + 1`, raises a TypeError.

    Args:
      data: the words, an array of uint32 with one more dim, of length 2.

    >>> import gpushard as gs
    >>> from gpushard import random
    >>> mesh = gs.make_mesh((4,), "x")
    >>> keys = gs.device_put(random.split(random.key(0), 8), gs.NamedSharding(mesh, gs.P("x")))
    >>> keys.shape, keys.dtype, keys.sharding.spec
    ((8,), key<fry>, PartitionSpec('x'))
    """

    __slots__ = ("__weakref__", "_data")
    __hash__ = None
    __array_ufunc__ = None
    interpreter = _OfKeys()

    def __init__(self, data: Any) -> None:
        self._data = data

    @property
    def shape(self) -> Shape:
        """Sizes of the dims."""
        shape: Shape = self._data.shape[:-1]
        return shape

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of keys."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> KeyDType:  # type: ignore[override]
        """The type of keys."""
        return KeyDType()

    @property
    def itemsize(self) -> int:
        """Bytes of a key."""
        return KeyDType.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all keys, each counted once."""
        return self.size * self.itemsize

    @property
    def sharding(self) -> Sharding:
        """How the keys are laid out over devices."""
        own: Sharding = self._data.sharding
        if isinstance(own, NamedSharding):
            return own.with_spec(PartitionSpec(*own.spec[: self.ndim]))
        return own

    @property
    def format(self) -> Format:
        """The order of keys in a shard's memory, with the sharding."""
        return Format(self.layout, self.sharding)

    @property
    def layout(self) -> Layout:
        """The order of keys in a shard's memory."""
        return Layout(tuple(range(self.ndim)))

    @property
    def addressable_shards(self) -> list[Shard]:
        """The shards that this process can reach, in device order."""
        return [self._shard(shard) for shard in self._data.addressable_shards]

    @property
    def global_shards(self) -> list[Shard]:
        """All shards, in device order."""
        return [self._shard(shard) for shard in self._data.global_shards]

    def addressable_data(self, index: int) -> KeyArray:
        """Return the keys of one addressable shard.

        Args:
          index: position among `addressable_shards`.
        """
        return KeyArray(self._data.addressable_data(index))

    def _shard(self, shard: Shard) -> Shard:
        data: Any = None if shard.data is None else KeyArray(shard.data)
        return Shard(shard.device, shard.index[: self.ndim], shard.replica_id, data)

    def to_device(self, device: Device | Sharding, /, *, stream: None = None) -> KeyArray:
        """Return the keys on another device or in another sharding.

        Args:
          device: a device, or a sharding.
          stream: must be None.
        """
        sharding = sharding_at(device)
        place_tiling(sharding, self.shape)
        return KeyArray(self._data.to_device(sharding, stream=stream))

    def plan(self, sharding: Sharding) -> Plan:
        """Return the plan of moving the keys to another sharding."""
        sharding.tiling(self.shape)
        return plan_for(self._live(), sharding.tiling(self._data.shape))

    @property
    def aval(self) -> ShapeDtypeStruct:
        """Shape and dtype."""
        return ShapeDtypeStruct(self.shape, self.dtype)

    def block_until_ready(self) -> KeyArray:
        """Wait until the keys are there, and return them."""
        self._data.block_until_ready()
        return self

    def delete(self) -> None:
        """Give up the keys' memory, except what others share; doing it twice is fine."""
        self._data.delete()

    def copy(self) -> KeyArray:
        """Return the keys; arrays are values."""
        return copy.copy(self)

    def _live(self) -> ShardedBuffer:
        live: ShardedBuffer = self._data._live()
        return live

    def _moved(self, sharding: Sharding, what: str) -> KeyArray:
        place_tiling(sharding, self.shape)
        return KeyArray(self._data._moved(sharding, what))

    def _packed(self) -> Any:
        """Return an array with one element of 64 bits for each key."""
        return bind(PACK, (self._data,))

    def __getitem__(self, index: Any) -> KeyArray:
        try:
            parse_index(self.shape, index)
        except NotBasicError:
            return unpacked(self._packed()[index])
        entries = index if isinstance(index, tuple) else (index,)
        if not any(entry is Ellipsis for entry in entries):
            entries = (*entries, Ellipsis)
        return KeyArray(self._data[(*entries, slice(None))])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._data = self.at[index].set(value)._data

    @property
    def at(self) -> _Indexer:
        """`keys.at[index].set(others)`: new keys with a part replaced; `keys` stay as they are."""
        return _Indexer(self)

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("len() of a single key; it has no dims", argument="self")
        return self.shape[0]

    def __iter__(self) -> Iterator[KeyArray]:
        return (self[n] for n in range(len(self)))

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, KeyArray):
            return NotImplemented
        return bind(ufunc_row(np.equal), (self, other))

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, KeyArray):
            return NotImplemented
        return bind(ufunc_row(np.not_equal), (self, other))

    def __getattr__(self, name: str) -> Any:
        """Return what an array has, if it makes sense for keys."""
        if name.startswith("_") or not hasattr(Array, name):
            raise AttributeError(
                f"'KeyArray' object has no attribute {name!r}", name=name, obj=self
            )
        if name in _SHARED:
            return getattr(self._data, name)
        if name in _MOVING:
            moving = getattr(self._packed(), name)
            if isinstance(moving, Array):
                return unpacked(moving)
            return lambda *args, **kwargs: unpacked(moving(*args, **kwargs))
        if isinstance(getattr(Array, name), property):
            refuse(f"keys.{name}")
        return lambda *args, **kwargs: refuse(f"keys.{name}()")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *(n for n in dir(Array) if not n.startswith("_"))})

    def __bool__(self) -> bool:
        refuse("bool(keys)")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        refuse("numpy.asarray(keys)")

    def __copy__(self) -> KeyArray:
        return KeyArray(copy.copy(self._data))

    def __deepcopy__(self, memo: Any) -> KeyArray:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyArray, (self._data,)

    def __repr__(self) -> str:
        return f"KeyArray({self.shape}, dtype={self.dtype}) overlaying:\n{self._data}"


def unpacked(packed: Any) -> KeyArray:
    """Return the keys that elements of 64 bits stand for."""
    return KeyArray(bind(UNPACK, (packed,)))


def refuse(what: str) -> NoReturn:
    """Say that keys are no numbers.

    Raises:
      ArgumentTypeError: always.
    """
    raise ArgumentTypeError(
        f"{what} is not defined: keys are no numbers; random.key_data(keys) has their words",
        argument="self",
    )


class _Indexer:
    """What `keys.at` is: takes an index."""

    __slots__ = ("_keys",)

    def __init__(self, keys: KeyArray) -> None:
        self._keys = keys

    def __getitem__(self, index: Any) -> _At:
        return _At(self._keys, index)


class _At:
    """A part of an array of keys."""

    __slots__ = ("_index", "_keys")

    def __init__(self, keys: KeyArray, index: Any) -> None:
        self._keys = keys
        self._index = index

    def get(self, **options: Any) -> KeyArray:
        """Return the part; options as for arrays."""
        return unpacked(self._keys._packed().at[self._index].get(**options))

    def set(self, value: Any, **options: Any) -> KeyArray:
        """Return the keys with the part replaced.

        Args:
          value: keys; they are broadcast to the part.
          **options: as for arrays.
        """
        if not isinstance(value, KeyArray):
            raise ArgumentTypeError(
                f"keys[index] = value got a {type(value).__name__}; keys are replaced by keys",
                argument="value",
                type=type(value),
            )
        return unpacked(self._keys._packed().at[self._index].set(value._packed(), **options))
