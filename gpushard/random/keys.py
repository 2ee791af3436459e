"""Keys: what random numbers are made of, together with their positions."""

from __future__ import annotations

import copy
import operator
from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.array.aval import KeyDType
from gpushard.array.key_array import KeyArray
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.checks import as_shape
from gpushard.ops.bind import bind
from gpushard.ops.table import movement, random_keys
from gpushard.placement.defaults import default_sharding
from gpushard.placement.device_put import device_put
from gpushard.random.placing import beside, replicated, result_place, uncommitted

_IMPLEMENTATIONS = ("threefry2x32", "fry")


def _check_impl(impl: Any) -> None:
    if impl is not None and not isinstance(impl, KeyDType) and impl not in _IMPLEMENTATIONS:
        raise ArgumentError(
            f"impl={impl!r} is not available; keys are of threefry2x32", argument="impl", impl=impl
        )


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Make a key of a number.

    Args:
      seed: an integer of at most 64 bits; a negative one of NumPy's or an array's types of 32 bits
        and less has no high word.
      impl: the generator; "threefry2x32" is the only one.
      dtype: the same, as the type of keys.

    Raises:
      ArgumentTypeError: the seed is no integer.
      ArgumentError: it has more than 64 bits, or there is no such generator.

    >>> key_data(key(42))
    Array([ 0, 42], dtype=uint32)
    """
    _check_impl(dtype)
    return KeyArray(PRNGKey(seed, impl=impl))


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """Make a raw key: an array of uint32 of shape (2,); arguments as for `key`.

    Args:
      seed: an integer of at most 64 bits.
      impl: the generator.
    """
    _check_impl(impl)
    if isinstance(seed, Array) and not seed.shape and seed.dtype.kind in "iu":
        wide = seed if seed.dtype.itemsize == 8 else seed.astype(np.uint32)
        wide = wide.astype(np.uint64)
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
    if isinstance(seed, np.generic | np.ndarray) and seed.dtype.itemsize < 8:
        number &= 0xFFFFFFFF  # such types say their width: they have no high word
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
    return copy.copy(raw_keys(keys, "key_data"))


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Return the keys that have these words.

    Args:
      key_bits_array: an array of uint32 whose last dim has length 2.
      impl: the generator; "threefry2x32" is the only one.
      dtype: the same, as the type of keys.
    """
    _check_impl(impl)
    _check_impl(dtype)
    return KeyArray(copy.copy(raw_keys(key_bits_array, "wrap_key_data")))


def clone(key: Any) -> Any:
    """Return the same key, to say that it is used again on purpose."""
    return _like(key, copy.copy(raw_keys(key, "clone")))


def key_dtype(impl_spec: Any = None) -> KeyDType:
    """Return the type of keys.

    Args:
      impl_spec: the generator; "threefry2x32" is the only one.

    >>> key_dtype() == key(0).dtype
    True
    """
    _check_impl(impl_spec)
    return KeyDType()


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
