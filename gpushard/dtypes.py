"""Types of elements, including those of `ml_dtypes`: bfloat16, float8 and others.

NumPy stores such elements and computes with them, but does not treat them as numbers. Their kind is
"V", and most do not promote with other types. This module adds these rules. It imports `ml_dtypes`
only when a program uses one of its types.
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
    """The abstract dtype of elements other than numbers, such as random keys, for `issubdtype`."""


class prng_key(extended):
    """The abstract dtype of random keys, for `issubdtype`."""


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
    """Return the scalar type with a name in `NAMES`, such as "bfloat16"."""
    return getattr(importlib.import_module("ml_dtypes"), name)


def is_custom(dtype: Dtype) -> bool:
    """Test whether another package registered a type with NumPy."""
    return dtype.isbuiltin == 2


@functools.lru_cache(maxsize=256)
def kind_of(dtype: Dtype) -> str:
    """Return the letter of the kind of a dtype, such as "f" for floats, like NumPy's `dtype.kind`.

    >>> kind_of(np.dtype("int8"))
    'i'
    """
    if not is_custom(dtype):
        return dtype.kind
    return next((kind for kind, wide in _EXAMPLES if np.can_cast(dtype, wide)), dtype.kind)


@functools.lru_cache(maxsize=256)
def wide(dtype: Dtype) -> Dtype:
    """Return the dtype in which sums are accumulated: float32 for narrower floats, else unchanged.

    >>> wide(np.dtype("float16")), wide(np.dtype("int8"))
    (dtype('float32'), dtype('int8'))
    """
    return _SINGLE if kind_of(dtype) == "f" and dtype.itemsize < 4 else dtype


def real_of(dtype: Dtype) -> Dtype:
    """Return the dtype of the real part of a complex dtype; return any other dtype unchanged.

    >>> real_of(np.dtype("complex64")), real_of(np.dtype("int8"))
    (dtype('float32'), dtype('int8'))
    """
    return np.empty((), dtype).real.dtype


def summed(dtype: Dtype) -> Dtype | None:
    """Return the dtype in which integers of `ml_dtypes` are summed; None for NumPy's own dtypes."""
    if not is_custom(dtype):
        return None
    return {"i": np.dtype(np.int64), "u": np.dtype(np.uint64)}.get(kind_of(dtype))


def element(number: Any, dtype: Dtype) -> Any:
    """Convert a number to an element of a dtype.

    Raises:
      OverflowError: the dtype cannot hold the integer.
    """
    if is_custom(dtype) and type(number) is int and kind_of(dtype) == "f":
        number = float(number)  # these types refuse large integers
    return dtype.type(number)


def result_type(*operands: Any) -> Dtype:
    """Return the dtype to which operands promote: NumPy's rules, or JAX's for `ml_dtypes`.

    A narrow float and an integer or a Python number promote to that float. bfloat16 and float16
    promote to float32.

    Args:
      *operands: dtypes, Python types, numbers and arrays.

    Raises:
      ArgumentTypeError: the operands have no common dtype.

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
    """Check that `casting` is one of NumPy's modes, such as "safe".

    Raises:
      ArgumentError: `casting` is unknown.
    """
    if casting not in _CASTINGS:
        raise ArgumentError.refusing(
            "casting", casting, f"is unknown; use one of {', '.join(_CASTINGS)}"
        )


def can_cast(dtype: Dtype, to: Dtype, casting: Any = "safe") -> bool:
    """Test whether a dtype can be converted to another.

    For dtypes of `ml_dtypes`, the kinds of both dtypes decide.

    Args:
      dtype: the dtype to convert.
      to: the new dtype.
      casting: the allowed conversions, as in `numpy.can_cast`.

    Raises:
      ArgumentError: `casting` is unknown.
    """
    check_casting(casting)
    if prng_key in (dtype.type, to.type):
        return dtype == to
    if casting != "same_kind" or not (is_custom(dtype) or is_custom(to)):
        return np.can_cast(dtype, to, casting)
    return _ORDER.find(kind_of(dtype)) <= _ORDER.find(kind_of(to))


def finfo(dtype: Dtype) -> Any:
    """Return the limits of a floating-point dtype, as `numpy.finfo` does.

    Raises:
      ValueError: the dtype is not a floating-point dtype.
    """
    if is_custom(dtype):
        return importlib.import_module("ml_dtypes").finfo(dtype)
    return np.finfo(dtype)


def iinfo(dtype: Dtype) -> Any:
    """Return the limits of an integer dtype, as `numpy.iinfo` does.

    Raises:
      ValueError: the dtype is not an integer dtype.
    """
    if is_custom(dtype):
        return importlib.import_module("ml_dtypes").iinfo(dtype)
    return np.iinfo(dtype)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Test whether a dtype is a subtype of another, or of a kind such as `numpy.floating`.

    Random keys are subtypes only of `gpushard.dtypes.prng_key`, `gpushard.dtypes.extended` and
    `numpy.generic`.

    Args:
      arg1: a dtype or an array.
      arg2: a dtype, or an abstract scalar type such as `numpy.floating`.

    Raises:
      ArgumentTypeError: an argument is not a dtype.

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
    """Convert a type to a dtype; unlike in JAX, 64-bit dtypes are not narrowed.

    Args:
      dtype: a dtype, a Python or NumPy type, or the name of a dtype.
      allow_extended_dtype: whether the dtype may be that of random keys.

    Raises:
      ArgumentTypeError: `dtype` cannot be converted to a dtype.

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
    """Return the number of bits of an element of a dtype.

    Args:
      dtype: a dtype.

    >>> itemsize_bits(np.int8)
    8
    """
    size: int = 8 * canonicalize_dtype(dtype, allow_extended_dtype=True).itemsize
    return size


def scalar_type_of(x: Any) -> type:
    """Return the Python type that corresponds to the elements of a number, an array or a dtype.

    Args:
      x: the number, the array or the dtype.

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
