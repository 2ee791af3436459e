"""Types of elements, those of `ml_dtypes` among them: bfloat16, float8 and others.

NumPy holds such elements and computes with them, but takes them for no numbers: their kind is "V",
and few of them have a type in common with others. What they lack is here. The package is not
imported for it: who has an array of such a type has the package.
"""

from __future__ import annotations

import functools
import importlib
from importlib.util import find_spec
from typing import Any

import numpy as np

from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.typing import Dtype as Dtype

NAMES = (
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
"""Types of `ml_dtypes` that namespaces have where the package is installed."""


class extended(np.generic):
    """The abstract type of elements that are no numbers, for `issubdtype`; as in `jax.dtypes`."""


class prng_key(extended):
    """The abstract type of random keys, for `issubdtype`; as `jax.dtypes.prng_key`."""


_ABSTRACT: dict[str, type] = {
    "f": np.floating,
    "i": np.signedinteger,
    "u": np.unsignedinteger,
    "c": np.complexfloating,
}
_ABSTRACTS = (
    *(np.generic, np.number, np.inexact, np.integer, extended, prng_key),
    *_ABSTRACT.values(),
)
_SINGLE = np.dtype(np.float32)
_EXAMPLES: tuple[tuple[str, Any], ...] = (
    ("u", np.uint8),
    ("i", np.int8),
    ("f", np.float32),
    ("c", np.complex64),
)
_ORDER = "buifc"  # kinds, each of which becomes the ones after it
_NUMBERS = (bool, int, float, complex)


def is_installed() -> bool:
    """Whether the package `ml_dtypes` is."""
    return find_spec("ml_dtypes") is not None


def named(name: str) -> Any:
    """Return one of `NAMES`, a type of scalars."""
    return getattr(importlib.import_module("ml_dtypes"), name)


def is_custom(dtype: Dtype) -> bool:
    """Whether a type is registered with NumPy by others."""
    return dtype.isbuiltin == 2


@functools.lru_cache(maxsize=256)
def kind_of(dtype: Dtype) -> str:
    """Return the letter of a kind of numbers, as NumPy's `dtype.kind` for types of its own.

    >>> kind_of(np.dtype("int8"))
    'i'
    """
    if not is_custom(dtype):
        return dtype.kind
    return next((kind for kind, wide in _EXAMPLES if np.can_cast(dtype, wide)), dtype.kind)


@functools.lru_cache(maxsize=256)
def wide(dtype: Dtype) -> Dtype:
    """Return the type that sums are accumulated in: single precision for narrower floats.

    >>> wide(np.dtype("float16")), wide(np.dtype("int8"))
    (dtype('float32'), dtype('int8'))
    """
    return _SINGLE if kind_of(dtype) == "f" and dtype.itemsize < 4 else dtype


def real_of(dtype: Dtype) -> Dtype:
    """Return the type of the parts of a complex type; others as they are.

    >>> real_of(np.dtype("complex64")), real_of(np.dtype("int8"))
    (dtype('float32'), dtype('int8'))
    """
    return np.empty((), dtype).real.dtype


def summed(dtype: Dtype) -> Dtype | None:
    """Return the type that small integers of others are summed in; None where NumPy knows."""
    if not is_custom(dtype):
        return None
    return {"i": np.dtype(np.int64), "u": np.dtype(np.uint64)}.get(kind_of(dtype))


def element(number: Any, dtype: Dtype) -> Any:
    """Return a number as an element of a type.

    Raises:
      OverflowError: an integer does not fit.
    """
    if is_custom(dtype) and type(number) is int and kind_of(dtype) == "f":
        number = float(number)  # they take no large integers
    return dtype.type(number)


def result_type(*operands: Any) -> Dtype:
    """Return the type that others promote to, as NumPy does; beside types of others as JAX does.

    Python's numbers and integers take the type of narrow floats; bfloat16 and float16 have single
    precision in common.

    Args:
      *operands: types, Python's types and numbers, and arrays.

    Raises:
      ArgumentTypeError: they have no common type.

    >>> result_type(np.dtype("float32"), 1.0)
    dtype('float32')
    """
    try:
        return _common_type([_type(x) for x in operands])
    except TypeError:
        names = ", ".join(str(getattr(x, "dtype", x)) for x in operands)
        raise ArgumentTypeError(
            f"operands of types {names} have no common type; convert one with astype",
            argument="operands",
        ) from None


def _common_type(types: list[Any]) -> Dtype:
    floats = [t for t in types if isinstance(t, np.dtype) and kind_of(t) in "fc"]
    if not any(map(is_custom, floats)):
        return np.result_type(*(t if isinstance(t, np.dtype) else t() for t in types))
    if complex in types:
        floats.append(np.dtype(np.complex64))
    large = [t for t in floats if not is_custom(t) and t.itemsize >= 4]
    if len(set(floats)) > 1 and all(t.itemsize == 2 for t in floats):
        return _SINGLE
    return np.result_type(*(large or floats))


def _type(x: Any) -> Any:
    """Return a dtype, or a type of Python's numbers."""
    if isinstance(x, type):
        return x if x in _NUMBERS else np.dtype(x)
    if isinstance(x, np.dtype) or type(x) in _NUMBERS:
        return x if isinstance(x, np.dtype) else type(x)
    return np.dtype(x.dtype if hasattr(x, "dtype") else x)


_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def check_casting(casting: Any) -> None:
    """Check that NumPy has such a `casting`.

    Raises:
      ArgumentError: it has not.
    """
    if casting not in _CASTINGS:
        raise ArgumentError.refusing(
            "casting", casting, f"is unknown; use one of {', '.join(_CASTINGS)}"
        )


def can_cast(own: Dtype, to: Dtype, casting: Any = "safe") -> bool:
    """Return whether a type can be converted to another; beside types of others by their kinds.

    Args:
      own: the one.
      to: the other.
      casting: which conversions are fine, as in `numpy.can_cast`.

    Raises:
      ArgumentError: NumPy has no such `casting`.
    """
    check_casting(casting)
    if prng_key in (own.type, to.type):
        return own == to
    if casting != "same_kind" or not (is_custom(own) or is_custom(to)):
        return np.can_cast(own, to, casting)
    return _ORDER.find(kind_of(own)) <= _ORDER.find(kind_of(to))


def finfo(dtype: Dtype) -> Any:
    """Return the limits of a type of floats.

    Raises:
      ValueError: it is no such type.
    """
    if is_custom(dtype):
        return importlib.import_module("ml_dtypes").finfo(dtype)
    return np.finfo(dtype)


def iinfo(dtype: Dtype) -> Any:
    """Return the limits of a type of integers.

    Raises:
      ValueError: it is no such type.
    """
    if is_custom(dtype):
        return importlib.import_module("ml_dtypes").iinfo(dtype)
    return np.iinfo(dtype)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Return whether a type is of another one, or of a kind such as `numpy.floating`.

    Random keys are of `numpy.generic` and of `gpushard.dtypes.prng_key`, which is of
    `gpushard.dtypes.extended`, and of nothing else.

    Args:
      arg1: a type or an array.
      arg2: a type, or an abstract type of scalars.

    Raises:
      ArgumentTypeError: one of them is no type.

    >>> issubdtype(np.float32, np.floating), issubdtype("int8", np.unsignedinteger)
    (True, False)
    """
    try:
        ours, kind = [_scalar_type(x) for x in (arg1, arg2)]
        ours = ours if _is_abstract(ours) else np.dtype(ours)
        if isinstance(ours, np.dtype) and is_custom(ours):
            if not _is_abstract(kind):
                return bool(ours == np.dtype(kind))
            ours = _ABSTRACT[kind_of(ours)]
        return bool(np.issubdtype(ours, kind))
    except TypeError:
        raise ArgumentTypeError(
            f"issubdtype: {arg1!r} and {arg2!r} must be types, such as numpy.float32 or "
            "numpy.floating",
            argument="arg1",
            given=(arg1, arg2),
        ) from None


def _scalar_type(x: Any) -> Any:
    """Return the type of an array, and the abstract one of keys."""
    x = x if isinstance(x, type | np.ndarray) else getattr(x, "dtype", x)
    return prng_key if getattr(x, "type", None) is prng_key else x


def _is_abstract(x: Any) -> bool:
    """Whether it is a type of scalars that no array has."""
    return isinstance(x, type) and issubclass(x, np.generic) and x in _ABSTRACTS


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """Return a type as arrays have it: 64-bit types stay.

    Args:
      dtype: a type, or the name of one.
      allow_extended_dtype: whether it may be that of random keys.

    Raises:
      ArgumentTypeError: it is no type.

    >>> canonicalize_dtype("float64")
    dtype('float64')
    """
    if getattr(dtype, "type", None) is prng_key and allow_extended_dtype:
        return dtype
    try:
        known = isinstance(dtype, str) and dtype in NAMES and is_installed()
        return np.dtype(named(dtype) if known else dtype)
    except TypeError:
        raise ArgumentTypeError.refusing(
            "dtype", dtype, "is no dtype; use one of NumPy's, such as 'float32'"
        ) from None


def itemsize_bits(dtype: Any) -> int:
    """Return how many bits an element takes.

    Args:
      dtype: a type.

    >>> itemsize_bits(np.int8)
    8
    """
    size: int = 8 * canonicalize_dtype(dtype, allow_extended_dtype=True).itemsize
    return size


def scalar_type_of(x: Any) -> type:
    """Return the type of Python's numbers that a number, an array or a type is of.

    Args:
      x: the number, the array or the type.

    Raises:
      ArgumentTypeError: its elements are no numbers.

    >>> scalar_type_of(np.float32), scalar_type_of(3)
    (<class 'float'>, <class 'int'>)
    """
    dtype = canonicalize_dtype(x.dtype if isinstance(x, np.ndarray) else _type(x))
    kinds = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
    kind = kinds.get(kind_of(dtype))
    if kind is None:
        raise ArgumentTypeError.refusing("x", x, "must be of numbers or booleans")
    return kind
