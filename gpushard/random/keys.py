"""Create, split and convert random keys."""

from __future__ import annotations

import copy
import sys
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._array.key_array import KeyArray, elements_of, is_keys, keys_of
from gpushard._array.shape_dtype import KEY, KeyDType
from gpushard._functions.argument_checks import integer
from gpushard._functions.shapes import as_shape
from gpushard._functions.values import is_value
from gpushard._ops.bind import bind
from gpushard._ops.table import random_keys
from gpushard._ops.table.packed_keys import PACK, UNPACK
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.random.placing import bind_at, new_data

__all__ = [
    "PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "split",
    "wrap_key_data",
]  # fmt: skip

_IMPLEMENTATIONS = ("threefry2x32", "fry")


def _check_impl(*impls: Any) -> None:
    for impl in impls:
        if impl is not None and not isinstance(impl, KeyDType) and impl not in _IMPLEMENTATIONS:
            raise ArgumentError.refusing("impl", impl, "is not available; use threefry2x32")


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Create a random key from an integer.

    Args:
      seed: an integer of at most 64 bits. If its dtype has at most 32 bits, only the low word of
        the key is set, even for negative integers.
      impl: the name of the generator; "threefry2x32" is the only one.
      dtype: the generator as a dtype of keys, such as `key_dtype()`.

    Raises:
      ArgumentTypeError: the seed is not an integer.
      ArgumentError: the seed has more than 64 bits, or the generator is unknown.

    >>> key_data(key(42))
    Array([ 0, 42], dtype=uint32)
    """
    _check_impl(dtype, impl)
    return keys_of(_element(seed))


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """Create a raw key from an integer: a uint32 array of shape (2,).

    Args:
      seed: an integer of at most 64 bits.
      impl: the name of the generator; "threefry2x32" is the only one.
    """
    _check_impl(impl)
    return bind(UNPACK, (_element(seed),))


def _element(seed: Any) -> Any:
    """Return the element of a key from a number; its high word comes first in memory."""
    if isinstance(seed, Array) and not seed.shape and seed.dtype.kind in "iu":
        wide = seed if seed.dtype.itemsize == 8 else seed.astype(np.uint32)
        low, high = wide.astype(np.uint64), np.uint64(32)
        return low if sys.byteorder == "big" else (low >> high) | (low << high)
    number = integer(seed, "key", "seed")
    if not -(1 << 63) <= number < 1 << 64:
        raise ArgumentError.refusing(
            "seed", number, "has more than 64 bits; fold_in takes more numbers", "key"
        )
    if isinstance(seed, np.generic | np.ndarray) and seed.dtype.itemsize < 8:
        number &= 0xFFFFFFFF  # types of 32 bits or less have no high word
    words = np.array([number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF], np.uint32)
    return new_data(words.view(np.uint64).reshape(()))


def split(key: Any, num: Any = 2, *, out_sharding: Any = None) -> Any:
    """Derive several new keys from a key; numbers drawn from these keys are independent.

    Args:
      key: a random key; do not use it again.
      num: the number of new keys, or the shape of the array of new keys.
      out_sharding: a sharding for the new keys, or a `PartitionSpec` over the mesh of `use_mesh`.
        Each key is derived on its device.

    Returns:
      A `KeyArray`; for a raw key a uint32 array with a last axis of length 2.

    Raises:
      ArgumentError: `num` is negative, or `key` is not a single key.
      ArgumentTypeError: `num` is not an integer, or `key` is not a key.

    >>> split(key(0), 3).shape
    (3,)
    """
    shape = as_shape(num, "num")
    element = single_key(key, "split")
    return _like(key, bind_at(random_keys.SPLIT, (element,), (shape,), shape, out_sharding))


def fold_in(key: Any, data: Any) -> Any:
    """Derive a new key from a key and a number.

    Args:
      key: a random key.
      data: an integer of at most 32 bits, on the host or on devices. The host does not wait to read
        it.

    Raises:
      ArgumentTypeError: `data` is not an integer, or `key` is not a key.
      ArgumentError: `data` is not a single number, or has more than 32 bits. Or `key` is not a
        single key.

    >>> bool(fold_in(key(0), 1) == fold_in(key(0), 2))
    False
    """
    element = single_key(key, "fold_in")
    return _like(key, bind(random_keys.FOLD_IN, (element, _fold_number(data))))


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
    number = integer(data, "fold_in", "data")
    if not -(1 << 31) <= number < 1 << 32:
        raise ArgumentError.refusing(
            "data", number, "has more than 32 bits; fold in its parts one after another", "fold_in"
        )
    return np.uint32(number & 0xFFFFFFFF)


def key_data(keys: Any) -> Array:
    """Return the integers of keys: a uint32 array with an additional last axis of length 2.

    Args:
      keys: a `KeyArray`, or raw keys.
    """
    keys = _unbox(keys)
    if is_keys(keys):
        return bind(UNPACK, (elements_of(keys),))
    return copy.copy(_raw_keys(keys, "key_data"))


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Create keys from their integers.

    Args:
      key_bits_array: a uint32 array with a last axis of length 2, as `key_data` returns it.
      impl: the name of the generator; "threefry2x32" is the only one.
      dtype: the generator as a dtype of keys, such as `key_dtype()`.
    """
    _check_impl(impl, dtype)
    elements: Any = _elements(key_bits_array, "wrap_key_data")
    return keys_of(elements)


def clone(key: Any) -> Any:
    """Copy a key, to show readers that you use it twice on purpose."""
    key = _unbox(key)
    return copy.copy(key if is_keys(key) else _raw_keys(key, "clone"))


def key_dtype(impl_spec: Any = None) -> KeyDType:
    """Return the dtype of random keys.

    Args:
      impl_spec: the name of the generator; "threefry2x32" is the only one.

    >>> key_dtype() == key(0).dtype
    True
    """
    _check_impl(impl_spec)
    return KEY


def key_impl(keys: Any) -> str:
    """Return the name of the generator to which keys belong."""
    _elements(keys, "key_impl")
    return "threefry2x32"


def _like(key: Any, elements: Any) -> Any:
    """Convert elements to keys, typed or raw like a given key."""
    return keys_of(elements) if is_keys(_unbox(key)) else bind(UNPACK, (elements,))


def _unbox(keys: Any) -> Any:
    """Return keys; a Variable gives its value."""
    return keys if isinstance(keys, Array) else getattr(keys, "raw_value", keys)


def _elements(keys: Any, name: str) -> Any:
    """Convert keys to elements of 64 bits."""
    keys = _unbox(keys)
    if is_keys(keys):
        return elements_of(keys)
    return bind(PACK, (_raw_keys(keys, name),))


def _raw_keys(keys: Any, name: str) -> Any:
    """Check raw keys, and return their integers."""
    if isinstance(keys, np.ndarray) and keys.dtype == np.uint32:
        keys = new_data(keys)
    if not is_value(keys):
        raise ArgumentTypeError(
            f"{name}: key is a {type(keys).__name__}; make one with random.key(seed)",
            argument="key",
            type=type(keys),
        )
    if keys.dtype != np.uint32:
        raise ArgumentTypeError(
            f"{name}: key has dtype {keys.dtype}; raw keys are of uint32, make one with "
            "random.key(seed)",
            argument="key",
            dtype=keys.dtype,
        )
    if not keys.shape or keys.shape[-1] != 2:
        raise ArgumentError(
            f"{name}: key has shape {keys.shape}; the last axis of raw keys has length 2",
            argument="key",
            shape=keys.shape,
        )
    return keys


def single_key(key: Any, name: str) -> Any:
    """Convert a single key to an element of 64 bits."""
    element = elements_of(key) if is_keys(key) else _elements(key, name)
    if element.shape:
        raise ArgumentError(
            f"{name}: key is an array of keys of shape {element.shape}; give one of them, such "
            "as keys[0]",
            argument="key",
            shape=element.shape,
        )
    return element
