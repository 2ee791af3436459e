"""Types of elements, functions of them, and constants."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from gpushard import dtypes
from gpushard._array import Array
from gpushard._functions import promotion
from gpushard._functions.argument_checks import check_choice
from gpushard._functions.docstrings import described
from gpushard._functions.element_types import as_dtype
from gpushard._placement.arguments import as_value, settle
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentTypeError

__all__ = [
    "astype", "bool", "bool_", "can_cast", "cdouble", "complex64", "complex128",
    "complexfloating", "csingle", "double", "dtype", "e", "euler_gamma", "finfo", "float16",
    "float32", "float64", "floating", "generic", "iinfo", "inexact", "inf", "int8", "int16",
    "int32", "int64", "int_", "integer", "intp", "isdtype", "issubdtype", "nan", "newaxis",
    "number", "pi", "promote_types", "result_type", "signedinteger", "single", "uint", "uint8",
    "uint16", "uint32", "uint64", "uintp", "unsignedinteger",
]  # fmt: skip

bool = bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64 = np.float16, np.float32, np.float64
complex64, complex128 = np.complex64, np.complex128
int_, uint, intp, uintp = np.int_, np.uint, np.intp, np.uintp
single, double, csingle, cdouble = np.single, np.double, np.csingle, np.cdouble
generic, number, inexact = np.generic, np.number, np.inexact
integer, signedinteger, unsignedinteger = np.integer, np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating
dtype = np.dtype

issubdtype = dtypes.issubdtype

_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}
"""Letters of the kinds that `isdtype` takes."""


@described()
def astype(
    x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None, out_sharding: Any = None
) -> Array:
    """Convert an array to a dtype.

    Args:
      dtype: the dtype.
      device: a device or a sharding for the result; by default that of the operand.
      out_sharding: another name of `device`.
    """
    converted = as_value(x, "astype").astype(dtype, copy=copy)
    return settle(settle(converted, device, "device"), out_sharding)


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> builtins.bool:
    """Test whether a casting rule allows the conversion of a dtype to another.

    Args:
      from_: a dtype or an array.
      to: a dtype.
      casting: the rule: "no", "equiv", "safe", "same_kind" or "unsafe", as in NumPy.

    Raises:
      ArgumentError: the rule is unknown.
    """
    return dtypes.can_cast(_own(from_, "from_"), as_dtype(to, "to"), casting)


def finfo(dtype: Any) -> np.finfo[Any]:
    """Return the limits of a floating-point dtype.

    Args:
      dtype: a dtype or an array.

    Raises:
      ArgumentTypeError: the dtype is not a floating-point dtype.
    """
    try:
        return dtypes.finfo(_own(dtype, "dtype"))
    except ValueError:
        raise _wrong(dtype, "dtype", "finfo", "floats") from None


def iinfo(int_type: Any) -> np.iinfo[Any]:
    """Return the limits of an integer dtype.

    Args:
      int_type: a dtype or an array.

    Raises:
      ArgumentTypeError: the dtype is not an integer dtype.
    """
    try:
        return dtypes.iinfo(_own(int_type, "int_type"))
    except ValueError:
        raise _wrong(int_type, "int_type", "iinfo", "integers") from None


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Test whether a dtype belongs to a kind, such as "real floating".

    Args:
      dtype: the dtype.
      kind: a dtype, or the name of a kind, such as "real floating". Or a tuple of these, if it is
        enough that one of them matches.

    Raises:
      ArgumentTypeError: `dtype`, or a dtype in `kind`, is not a dtype.
      ArgumentError: the name of a kind is unknown.

    >>> isdtype(np.dtype("int8"), "integral"), isdtype(np.dtype("int8"), ("bool", np.float32))
    (True, False)
    """
    known = _own(dtype, "dtype")
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(_is_of(known, each) for each in kinds)


def _is_of(known: np.dtype[Any], kind: Any) -> builtins.bool:
    if not isinstance(kind, str):
        return known == as_dtype(kind, "kind")
    check_choice("isdtype", "kind", kind, _KINDS, ", or a type")
    return kind_of(known) in _KINDS[kind]


def _own(x: Any, argument: str) -> np.dtype[Any]:
    """Return the dtype of an array, or a dtype."""
    return as_dtype(x.dtype if isinstance(x, Array | np.ndarray | np.generic) else x, argument)


def _wrong(type: Any, argument: str, name: str, kind: str) -> ArgumentTypeError:
    known = _own(type, argument)
    return ArgumentTypeError(
        f"{name}: {known} is no type of {kind}", argument=argument, dtype=known
    )


result_type = promotion.result_type


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """Return the dtype to which two dtypes promote.

    Args:
      a: a dtype.
      b: another dtype.

    Raises:
      ArgumentTypeError: the two have no common dtype.

    >>> promote_types("int8", np.float32)
    dtype('float32')
    """
    return result_type(as_dtype(a, "a"), as_dtype(b, "b"))


e, euler_gamma, inf, nan, newaxis, pi = np.e, np.euler_gamma, np.inf, np.nan, None, np.pi
