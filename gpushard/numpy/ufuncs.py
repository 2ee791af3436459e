"""Calls of NumPy's ufuncs on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.element_types import as_dtype, number_of
from gpushard._functions.values import is_value, wanted
from gpushard._ops.bind import bind
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._placement.arguments import operands
from gpushard.dtypes import can_cast, check_casting, is_custom
from gpushard.errors import ArgumentTypeError

_PYTHON = {"i": int, "f": float, "c": complex}


def call(
    ufunc: np.ufunc,
    xs: Sequence[Any],
    dtype: Any = None,
    casting: str = "same_kind",
    out_sharding: Any = None,
) -> Any:
    """Apply a ufunc to operands, which may be on the host."""
    arrays = xs
    for x in xs:
        if not is_value(x):
            arrays = operands(ufunc.__name__, *xs)
            break
    if dtype is not None:
        types = _types(ufunc, arrays, as_dtype(dtype), casting)
        arrays = [_converted(x, t) for x, t in zip(arrays, types, strict=True)]
    to = None if out_sharding is None else wanted(out_sharding, *arrays)
    return bind(ufunc_row(ufunc), arrays, (), to)


def _types(
    ufunc: np.ufunc, xs: Sequence[Any], dtype: np.dtype[Any], casting: str
) -> Sequence[np.dtype[Any]]:
    """Return the dtypes to convert operands to, for a result of some dtype."""
    check_casting(casting)
    signature = (*[None] * ufunc.nin, *[dtype] * ufunc.nout)
    types = [_type_of(x) for x in xs]
    if is_custom(dtype):  # beside others NumPy has no loop of it
        types = [dtype if isinstance(t, type) or can_cast(t, dtype, casting) else t for t in types]
    try:
        loop = ufunc.resolve_dtypes(
            (*types, *[None] * ufunc.nout),
            signature=signature,
            casting=casting,  # type: ignore[arg-type]
        )
    except TypeError:
        names = ", ".join(getattr(t, "__name__", None) or str(t) for t in types)
        raise ArgumentTypeError(
            f"{ufunc.__name__} of {names} with dtype={dtype} is not defined under "
            f"casting={casting!r}; convert the operands with astype",
            argument="dtype",
            dtype=dtype,
        ) from None
    return loop[: ufunc.nin]


def _type_of(x: Any) -> Any:
    if type(x) in (int, float, complex):
        return type(x)
    if isinstance(x, Array) and x.weak_type:
        return _PYTHON[x.dtype.kind]
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


def _converted(x: Any, dtype: np.dtype[Any]) -> Any:
    return x.astype(dtype) if hasattr(x, "astype") else number_of(x, dtype, "dtype=", "x")
