"""Types of elements, and functions of them."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.array.checks import as_dtype
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy.arguments import as_value, is_number, settle

bool = bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64 = np.float16, np.float32, np.float64
complex64, complex128 = np.complex64, np.complex128

isdtype = np.isdtype

_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
_EXAMPLES: dict[str, Any] = {"i": 0, "f": 0.0, "c": 0j}


def astype(
    x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None, out_sharding: Any = None
) -> Array:
    """Return an array with another type of elements.

    Args:
      x: an array.
      dtype: the type.
      copy: arrays are values, so this makes no difference.
      device: where the result goes; by default it stays.
      out_sharding: the same.
    """
    found = as_value(x, "astype").astype(dtype, copy=copy)
    return settle(settle(found, device), out_sharding)


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> builtins.bool:
    """Return whether a type can be converted to another.

    Args:
      from_: a type or an array.
      to: a type.
      casting: what counts as such, as NumPy says.

    Raises:
      ArgumentError: `casting` is none of NumPy's rules.
    """
    if casting not in _CASTINGS:
        raise ArgumentError(
            f"casting={casting!r} is unknown; use one of {', '.join(_CASTINGS)}",
            argument="casting",
            value=casting,
        )
    return np.can_cast(_own(from_), as_dtype(to, "to"), casting)


def finfo(dtype: Any) -> np.finfo[Any]:
    """Return the limits of a type of floats.

    Args:
      dtype: a type or an array.

    Raises:
      ArgumentTypeError: it is no such type.
    """
    try:
        return np.finfo(_own(dtype))
    except ValueError:
        raise _wrong(dtype, "finfo", "floats") from None


def iinfo(int_type: Any) -> np.iinfo[Any]:
    """Return the limits of a type of integers.

    Args:
      int_type: a type or an array.

    Raises:
      ArgumentTypeError: it is no such type.
    """
    try:
        return np.iinfo(_own(int_type))
    except ValueError:
        raise _wrong(int_type, "iinfo", "integers") from None


def _own(x: Any) -> np.dtype[Any]:
    """Return the dtype of an array, or a dtype."""
    return as_dtype(x.dtype if isinstance(x, Array | np.ndarray | np.generic) else x, "type")


def _wrong(type: Any, name: str, kind: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{name}: {_own(type)} is no type of {kind}", argument="type", dtype=_own(type)
    )


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the type that types promote to, as NumPy 2 does.

    Args:
      *arrays_and_dtypes: arrays, types and Python numbers.

    Raises:
      ArgumentTypeError: they have no common type.
    """
    try:
        return np.result_type(*map(promoting, arrays_and_dtypes))
    except (TypeError, ValueError):
        names = ", ".join(str(getattr(x, "dtype", x)) for x in arrays_and_dtypes)
        raise ArgumentTypeError(
            f"result_type: {names or 'nothing'} has no common type; convert one with astype",
            argument="arrays_and_dtypes",
        ) from None


def promoting(x: Any) -> Any:
    """Return what stands for a value in NumPy's promotion."""
    if isinstance(x, Array):
        return _EXAMPLES.get(x.dtype.kind, x.dtype) if x.weak_type else x.dtype
    if hasattr(x, "interpreter"):
        return x.dtype
    return x if is_number(x) else np.dtype(x) if isinstance(x, type | str) else x
