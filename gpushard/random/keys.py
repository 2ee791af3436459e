"""Keys: what random numbers are made of, together with their positions."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpushard import tree
from gpushard.array import Array
from gpushard.array.checks import as_shape, new_shape_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import PartitionSpec
from gpushard.geometry.sharding import Sharding
from gpushard.ops.bind import bind
from gpushard.ops.indexing import parse_index
from gpushard.ops.table import movement, random_keys
from gpushard.placement.defaults import default_sharding
from gpushard.placement.device_put import device_put
from gpushard.random.placing import beside, replicated, result_place, uncommitted
from gpushard.typing import Shape

_IMPLEMENTATIONS = ("threefry2x32", "fry")


class KeyDType:
    """The type of keys; it prints as `key<fry>`."""

    name = "key<fry>"
    itemsize = 8

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDType)

    def __hash__(self) -> int:
        return hash(KeyDType)


class KeyArray:
    """An array of keys.

    It is a pytree whose leaf is its data: an array of uint32 with one more dim, of two words. So
    `device_put` and `reshard` take it as any array, a spec naming the dims of the keys, and
    `block_until_ready` and `device_get` take it, too.

    >>> import gpushard as gs
    >>> from gpushard import random
    >>> mesh = gs.make_mesh((4,), "x")
    >>> keys = gs.device_put(random.split(random.key(0), 8), gs.NamedSharding(mesh, gs.P("x")))
    >>> keys.shape, keys.dtype, keys.sharding.spec
    ((8,), key<fry>, PartitionSpec('x'))
    """

    __slots__ = ("_data",)
    __hash__ = None  # type: ignore[assignment]

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
        return int(self._data.size) // 2

    @property
    def dtype(self) -> KeyDType:
        """The type of keys."""
        return KeyDType()

    @property
    def sharding(self) -> Sharding:
        """How the keys are laid out over devices."""
        own: Sharding = self._data.sharding
        if isinstance(own, NamedSharding):
            return own.with_spec(PartitionSpec(*own.spec[: self.ndim]))
        return own

    def __getitem__(self, index: Any) -> KeyArray:
        parse_index(self.shape, index)
        entries = index if isinstance(index, tuple) else (index,)
        if not any(entry is Ellipsis for entry in entries):
            entries = (*entries, Ellipsis)
        return KeyArray(self._data[(*entries, slice(None))])

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("len() of a single key; it has no dims", argument="self")
        return self.shape[0]

    def __iter__(self) -> Iterator[KeyArray]:
        return (self[n] for n in range(len(self)))

    def reshape(self, *shape: Any) -> KeyArray:
        """Return the keys in another shape.

        Args:
          *shape: sizes, one of which may be -1.
        """
        sizes = new_shape_of(self.shape, shape[0] if len(shape) == 1 else shape)
        return KeyArray(self._data.reshape((*sizes, 2)))

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, KeyArray):
            return NotImplemented
        return (self._data == other._data).all(axis=-1)

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, KeyArray):
            return NotImplemented
        return (self._data != other._data).any(axis=-1)

    def __repr__(self) -> str:
        return f"KeyArray({self.shape}, dtype={self.dtype}) overlaying:\n{np.asarray(self._data)}"


tree.register_node(KeyArray, lambda keys: ((keys._data,), None), lambda _, data: KeyArray(*data))


def _check_impl(impl: Any) -> None:
    if impl is not None and not isinstance(impl, KeyDType) and impl not in _IMPLEMENTATIONS:
        raise ArgumentError(
            f"impl={impl!r} is not available; keys are of threefry2x32", argument="impl", impl=impl
        )


def key(seed: Any, *, impl: Any = None) -> KeyArray:
    """Make a key of a number.

    Args:
      seed: an integer of at most 64 bits.
      impl: the generator; "threefry2x32" is the only one.

    Raises:
      ArgumentTypeError: the seed is no integer.
      ArgumentError: it has more than 64 bits, or there is no such generator.

    >>> key_data(key(42))
    Array([ 0, 42], dtype=uint32)
    """
    return KeyArray(PRNGKey(seed, impl=impl))


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """Make a raw key: an array of uint32 of shape (2,); arguments as for `key`.

    Args:
      seed: an integer of at most 64 bits.
      impl: the generator.
    """
    _check_impl(impl)
    if isinstance(seed, Array) and not seed.shape and seed.dtype.kind in "iu":
        wide = seed.astype(np.uint64)
        halves = [(wide >> np.uint64(n)).astype(np.uint32).reshape(1) for n in (32, 0)]
        joined: Array = bind(movement.CONCATENATE, halves, (-1,))
        return joined
    try:
        number = operator.index(seed)
    except TypeError:
        raise ArgumentTypeError(
            f"key: seed={seed!r} must be an integer", argument="seed", value=seed
        ) from None
    if not -(1 << 63) <= number < 1 << 64:
        raise ArgumentError(
            f"key: seed={number} has more than 64 bits; fold_in takes more numbers",
            argument="seed",
            value=number,
        )
    words = np.array([number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF], np.uint32)
    placed: Array = device_put(words, replicated(default_sharding((2,))))
    return uncommitted(placed)


def split(key: Any, num: Any = 2, *, out_sharding: Any = None) -> Any:
    """Return new keys, each for a stream of its own.

    Args:
      key: a key; do not use it again.
      num: how many, or a shape.
      out_sharding: how they are laid out: a sharding, or a spec over the mesh of `use_mesh`; each
        key is made where it will live.

    Returns:
      A `KeyArray`; for a raw key an array of uint32 whose last dim has length 2.

    Raises:
      ArgumentError: `num` is negative, or `key` is not a single key.
      ArgumentTypeError: `num` is no integer, or `key` is no key.

    >>> split(key(0), 3).shape
    (3,)
    """
    shape = as_shape(num, "num")
    data = single_key(key, "split")
    place = result_place(out_sharding, (*shape, 2), data)
    made = bind(random_keys.SPLIT, (beside(data, place),), (shape,), place.sharding)
    return _like(key, place.finish(made))


def fold_in(key: Any, data: Any) -> Any:
    """Return the key that a key and a number give.

    Args:
      key: a key.
      data: an integer of at most 32 bits, which is not read if it is on devices.

    Raises:
      ArgumentTypeError: `data` is no integer, or `key` is no key.
      ArgumentError: `data` is no single number, or has more than 32 bits; `key` is not a single
        key.

    >>> bool(fold_in(key(0), 1) == fold_in(key(0), 2))
    False
    """
    own = single_key(key, "fold_in")
    return _like(key, bind(random_keys.FOLD_IN, (own, _fold_number(data))))


def _fold_number(data: Any) -> Any:
    if np.ndim(data):
        raise ArgumentError(
            f"fold_in: data of shape {np.shape(data)} must be a single number; fold in one after "
            "another",
            argument="data",
            shape=np.shape(data),
        )
    if isinstance(data, Array) and data.dtype.kind in "iu":
        return data
    try:
        number = operator.index(data)
    except TypeError:
        raise ArgumentTypeError(
            f"fold_in: data={data!r} must be an integer", argument="data", value=data
        ) from None
    if not -(1 << 31) <= number < 1 << 32:
        raise ArgumentError(
            f"fold_in: data={number} has more than 32 bits; fold in its parts one after another",
            argument="data",
            value=number,
        )
    return np.uint32(number & 0xFFFFFFFF)


def key_data(keys: Any) -> Array:
    """Return the words of keys: an array of uint32 with one more dim, of length 2.

    Args:
      keys: a `KeyArray`, or raw keys.
    """
    return raw_keys(keys, "key_data")


def wrap_key_data(key_bits_array: Any, *, impl: Any = None) -> KeyArray:
    """Return the keys that have these words.

    Args:
      key_bits_array: an array of uint32 whose last dim has length 2.
      impl: the generator; "threefry2x32" is the only one.
    """
    _check_impl(impl)
    return KeyArray(raw_keys(key_bits_array, "wrap_key_data"))


def clone(key: Any) -> Any:
    """Return the same key, to say that it is used again on purpose."""
    return _like(key, raw_keys(key, "clone"))


def key_impl(keys: Any) -> str:
    """Return the name of the generator that keys are for."""
    raw_keys(keys, "key_impl")
    return "threefry2x32"


def _like(key: Any, data: Any) -> Any:
    return KeyArray(data) if isinstance(key, KeyArray) else data


def raw_keys(keys: Any, name: str) -> Array:
    """Return the words of keys.

    Raises:
      ArgumentTypeError: these are no keys: neither a `KeyArray` nor words of 32 bits.
      ArgumentError: the last dim does not have two words.
    """
    data = keys._data if isinstance(keys, KeyArray) else keys
    if isinstance(data, np.ndarray) and data.dtype == np.uint32:
        data = uncommitted(device_put(data, replicated(default_sharding(data.shape))))
    traced = hasattr(data, "interpreter")
    if not traced and not isinstance(data, Array):
        raise ArgumentTypeError(
            f"{name}: key is a {type(keys).__name__}; make one with random.key(seed)",
            argument="key",
            type=type(keys),
        )
    if data.dtype != np.uint32:
        raise ArgumentTypeError(
            f"{name}: key has dtype {data.dtype}; raw keys are of uint32, make one with "
            "random.key(seed)",
            argument="key",
            dtype=data.dtype,
        )
    if not data.shape or data.shape[-1] != 2:
        raise ArgumentError(
            f"{name}: key has shape {data.shape}; the last dim of raw keys has length 2",
            argument="key",
            shape=data.shape,
        )
    found: Array = data
    return found


def single_key(key: Any, name: str) -> Array:
    """Return the two words of one key.

    Raises:
      ArgumentTypeError: it is no key.
      ArgumentError: these are several.
    """
    data = raw_keys(key, name)
    if len(data.shape) != 1:
        raise ArgumentError(
            f"{name}: key is an array of keys of shape {data.shape[:-1]}; give one of them, such "
            "as keys[0]",
            argument="key",
            shape=data.shape[:-1],
        )
    return data
