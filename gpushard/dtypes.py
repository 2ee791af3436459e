"""Types of elements, including those of `ml_dtypes`: bfloat16, float8 and others.

NumPy stores such elements and computes with them, but does not treat them as numbers. Their kind is
"V", and few of them promote with other types. This module adds these rules. It does not import
`ml_dtypes`: an array of such a type shows that the package is installed.
"""

from __future__ import annotations

import functools
import importlib
from importlib.util import find_spec
from typing import Any

import numpy as np

from gpushard._typing import Dtype as Dtype
from gpushard.errors import ArgumentError, ArgumentTypeError

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
"""Types of `ml_dtypes` that namespaces have if the package is installed."""


class extended(np.generic):
    """The abstract type of elements that are not numbers, for `issubdtype`; as in `jax.dtypes`."""


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
_ORDER = "buifc"  # each kind promotes to those after it
_NUMBERS = (bool, int, float, complex)


def is_installed() -> bool:
    """Test whether the package `ml_dtypes` is installed."""
    return find_spec("ml_dtypes") is not None


def named(name: str) -> Any:
    """Return the scalar type of a name in `NAMES`."""
    return getattr(importlib.import_module("ml_dtypes"), name)


def is_custom(dtype: Dtype) -> bool:
    """Test whether another package registered a type with NumPy."""
    return dtype.isbuiltin == 2


@functools.lru_cache(maxsize=256)
def kind_of(dtype: Dtype) -> str:
    """Return the letter of a kind of numbers, as NumPy's `dtype.kind` does for its own types.

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
    """Return the type of the parts of a complex type; any other type unchanged.

    >>> real_of(np.dtype("complex64")), real_of(np.dtype("int8"))
    (dtype('float32'), dtype('int8'))
    """
    return np.empty((), dtype).real.dtype


def summed(dtype: Dtype) -> Dtype | None:
    """Return the type in which small integers of `ml_dtypes` are summed; None for NumPy's own."""
    if not is_custom(dtype):
        return None
    return {"i": np.dtype(np.int64), "u": np.dtype(np.uint64)}.get(kind_of(dtype))


def element(number: Any, dtype: Dtype) -> Any:
    """Return a number as an element of a type.

    Raises:
      OverflowError: an integer does not fit.
    """
    if is_custom(dtype) and type(number) is int and kind_of(dtype) == "f":
        number = float(number)  # these types refuse large integers
    return dtype.type(number)


def result_type(*operands: Any) -> Dtype:
    """Return the common type of operands, by NumPy's rules; by JAX's for types of `ml_dtypes`.

    With narrow floats, Python numbers and integers take their type. bfloat16 with float16 gives
    float32.

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
    """Return the dtype of an operand, or the Python type of a Python number."""
    if isinstance(x, type):
        return x if x in _NUMBERS else np.dtype(x)
    if isinstance(x, np.dtype) or type(x) in _NUMBERS:
        return x if isinstance(x, np.dtype) else type(x)
    return np.dtype(x.dtype if hasattr(x, "dtype") else x)


_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def check_casting(casting: Any) -> None:
    """Check that `casting` is one of NumPy's modes.

    Raises:
      ArgumentError: it is not.
    """
    if casting not in _CASTINGS:
        raise ArgumentError.refusing(
            "casting", casting, f"is unknown; use one of {', '.join(_CASTINGS)}"
        )


def can_cast(dtype: Dtype, to: Dtype, casting: Any = "safe") -> bool:
    """Test whether a type can be converted to another; types of `ml_dtypes` by their kinds.

    Args:
      dtype: the type to convert.
      to: the new type.
      casting: the allowed conversions, as in `numpy.can_cast`.

    Raises:
      ArgumentError: NumPy has no such `casting`.
    """
    check_casting(casting)
    if prng_key in (dtype.type, to.type):
        return dtype == to
    if casting != "same_kind" or not (is_custom(dtype) or is_custom(to)):
        return np.can_cast(dtype, to, casting)
    return _ORDER.find(kind_of(dtype)) <= _ORDER.find(kind_of(to))


def finfo(dtype: Dtype) -> Any:
    """Return the limits of a type of floats.

    Raises:
      ValueError: the type has no floats.
    """
    if is_custom(dtype):
        return importlib.import_module("ml_dtypes").finfo(dtype)
    return np.finfo(dtype)


def iinfo(dtype: Dtype) -> Any:
    """Return the limits of a type of integers.

    Raises:
      ValueError: the type has no integers.
    """
    if is_custom(dtype):
        return importlib.import_module("ml_dtypes").iinfo(dtype)
    return np.iinfo(dtype)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Test whether a dtype is a subtype of another, or of a kind such as `numpy.floating`.

    Random keys are subtypes only of `gpushard.dtypes.prng_key`, `gpushard.dtypes.extended` and
    `numpy.generic`.

    Args:
      arg1: a type or an array.
      arg2: a type, or an abstract type of scalars.

    Raises:
      ArgumentTypeError: one of them is not a type.

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
    """Return the type of an array; for random keys the abstract type `prng_key`."""
    x = x if isinstance(x, type | np.ndarray) else getattr(x, "dtype", x)
    return prng_key if getattr(x, "type", None) is prng_key else x


def _is_abstract(x: Any) -> bool:
    """Test for an abstract type of scalars, which no array has."""
    return isinstance(x, type) and issubclass(x, np.generic) and x in _ABSTRACTS


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """Return the dtype that arrays of a type have; unlike in JAX, 64-bit types are not narrowed.

    Args:
      dtype: a type, or the name of one.
      allow_extended_dtype: whether the type may be that of random keys.

    Raises:
      ArgumentTypeError: `dtype` is not a type.

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
            "dtype", dtype, "is not a dtype; use one of NumPy's, such as 'float32'"
        ) from None


def itemsize_bits(dtype: Any) -> int:
    """Return the number of bits of an element.

    Args:
      dtype: a type.

    >>> itemsize_bits(np.int8)
    8
    """
    size: int = 8 * canonicalize_dtype(dtype, allow_extended_dtype=True).itemsize
    return size


def scalar_type_of(x: Any) -> type:
    """Return the Python type for the elements of a number, an array or a type.

    Args:
      x: the number, the array or the type.

    Raises:
      ArgumentTypeError: the elements are not numbers.

    >>> scalar_type_of(np.float32), scalar_type_of(3)
    (<class 'float'>, <class 'int'>)
    """
    dtype = canonicalize_dtype(x.dtype if isinstance(x, np.ndarray) else _type(x))
    kinds = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
    kind = kinds.get(kind_of(dtype))
    if kind is None:
        raise ArgumentTypeError.refusing("x", x, "must be of numbers or booleans")
    return kind
