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


class prng_key(np.generic):
    """The abstract type of random keys, for `issubdtype`; as `jax.dtypes.prng_key`."""


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
    if not large and len(set(floats)) > 1 and all(t.itemsize == 2 for t in floats):
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
