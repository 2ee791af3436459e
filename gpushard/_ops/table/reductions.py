"""Reductions: sums, products, extremes, tests and counts.

Parameters of all rows: (axes counted from the end, keepdims, a last one that the row documents).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._ops import rule
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.merge_in_order import InOrder
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Kernel, Params, Row, broadcasting, only
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard._runtime.backend import Reducing
from gpushard._runtime.namespace import own_kernels
from gpushard._typing import Shape
from gpushard.dtypes import kind_of, summed
from gpushard.errors import ArgumentError

_BOOL = np.dtype(bool)
_INDEX = np.dtype(np.int64)


def reduced_shape(shape: Shape, axes: Sequence[int], *, keepdims: bool) -> Shape:
    """Return the shape of the result of a reduction.

    >>> reduced_shape((2, 3, 4), (-3, -1), keepdims=False)
    (3,)
    """
    gone = {len(shape) + axis for axis in axes}
    if keepdims:
        return tuple(1 if dim in gone else n for dim, n in enumerate(shape))
    return tuple(n for dim, n in enumerate(shape) if dim not in gone)


def reduced_rule(avals: Sequence[Aval], params: Params) -> Rule:
    """Return the rule for operands of one shape; parameters: (axes from the end, keepdims, ...)."""
    axes, keepdims, *_ = params
    shape = avals[0].shape
    rule_of_first = rule.reduction(shape, [len(shape) + axis for axis in axes], keepdims=keepdims)
    return Rule(rule_of_first.operands * len(avals), rule_of_first.results, rule_of_first.sizes)


def check_not_empty(name: str, x: Aval, axes: Sequence[int]) -> None:
    """Check that the reduced dims have elements."""
    if any(x.shape[axis] == 0 for axis in axes):
        raise ArgumentError(
            f"{name}: the array of shape {x.shape} has no elements along the axes that are "
            "reduced, and there is no result for that; check its size first",
            argument="x",
            shape=x.shape,
        )


def reduction_row(
    name: str,
    dtype_of: Callable[[Dtype, Any], Dtype],
    kernel: Callable[[Any, Sequence[Aval], Params], Kernel],
    reduction: Reduce,
    *,
    empty: bool = True,
    positional: bool = False,
) -> Row:
    """Make the row of a reduction; its results have the type `dtype_of(type, last parameter)`."""

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        axes, keepdims, extra = params
        (x,) = avals
        shape = reduced_shape(x.shape, axes, keepdims=keepdims)
        if not empty:
            check_not_empty(name, x, axes)
        dtype = dtype_of(x.dtype, extra)
        return (Aval(shape, dtype, x.weak and dtype == x.dtype),)

    return Row(
        name,
        infer,
        reduced_rule,
        kernel,
        (reduction, Local()),
        positional=positional,
        stacked=broadcasting,
    )


def _sum_dtype(operand_dtype: Dtype, dtype: Dtype | None) -> Dtype:
    if dtype is not None:
        return dtype
    default: Dtype = summed(operand_dtype) or np.add.reduce(np.empty(0, operand_dtype)).dtype
    return default


def total_of(xp: Any, name: str, operand_dtype: Dtype, dtype: Dtype) -> Callable[..., Any]:
    """Return CuPy's sum or product, made to accept complex elements for integer results."""
    function: Callable[..., Any] = getattr(xp, name)
    if operand_dtype.kind != "c" or dtype.kind not in "biu":
        return function
    return lambda x, *args, **options: function(x.astype(dtype), *args, **options)


def _by_ufunc(name: str, dtype_of: Callable[[Dtype, Any], Dtype], *, empty: bool) -> Row:
    """Make the row of a reduction by one ufunc; last parameter: its dtype or None."""
    title = _TITLES[name]

    def reduce(
        xp: Any, axes: tuple[int, ...], keepdims: bool, operand_dtype: Dtype, dtype: Dtype
    ) -> Kernel:
        if xp is np:
            function = getattr(np, name).reduce

            def kernel(x: Any, out: Any = None) -> Any:
                return function(x, axes, dtype, out, keepdims)

            return kernel
        kernels, skips = own_kernels(xp), title.startswith("nan") and kind_of(dtype) in "fc"
        if kernels is not None and skips:  # CuPy's wait for the GPU to warn of NaNs
            return lambda x, out: kernels.reduce(title, x, axes, out)
        if title in ("sum", "prod"):
            total = total_of(xp, title, operand_dtype, dtype)
            return Reducing(total, axes, {"keepdims": keepdims, "dtype": dtype})
        function = getattr(xp, title if skips else title.removeprefix("nan"))
        return Reducing(function, axes, {"keepdims": keepdims})

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        axes, keepdims, extra = params
        operand_dtype = avals[0].dtype
        return reduce(xp, axes, keepdims, operand_dtype, dtype_of(operand_dtype, extra))

    def merge(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
        return InOrder(xp, name)

    def finish(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
        return only

    def states(avals: Sequence[Aval], params: Params) -> tuple[Dtype, ...]:
        return (dtype_of(avals[0].dtype, params[2]),)

    return reduction_row(
        title, dtype_of, kernel, Reduce(states, kernel, merge, finish, plain=True), empty=empty
    )


_TITLES = {
    "add": "sum",
    "multiply": "prod",
    "minimum": "min",
    "maximum": "max",
    "logical_or": "any",
    "logical_and": "all",
    "fmin": "nanmin",
    "fmax": "nanmax",
}

SUM = in_single(_by_ufunc("add", _sum_dtype, empty=True), typed=True)
PROD = in_single(_by_ufunc("multiply", _sum_dtype, empty=True), typed=True)
MIN = _by_ufunc("minimum", lambda dtype, _: dtype, empty=False)
MAX = _by_ufunc("maximum", lambda dtype, _: dtype, empty=False)
NANMIN = _by_ufunc("fmin", lambda dtype, _: dtype, empty=False)
NANMAX = _by_ufunc("fmax", lambda dtype, _: dtype, empty=False)
ANY = _by_ufunc("logical_or", lambda dtype, _: _BOOL, empty=True)
ALL = _by_ufunc("logical_and", lambda dtype, _: _BOOL, empty=True)


def add_states(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    """Make the merge of sums."""
    return InOrder(xp, "add")


def _count_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    axes, keepdims, _ = params
    shape = avals[0].shape
    everything = xp is np and len(axes) == len(shape)
    kernels = own_kernels(xp)
    if kernels is not None:
        return lambda x, out: kernels.reduce("nonzero", x, axes, out)

    def count(x: Any) -> Any:
        nonzero = x if x.dtype == _BOOL else x != 0
        if everything:  # NumPy counts bits, without converting elements
            return np.full((1,) * len(shape) * keepdims, np.count_nonzero(nonzero), _INDEX)
        return nonzero.sum(axes, dtype=_INDEX, keepdims=keepdims)

    return writing(count)


COUNT_NONZERO = reduction_row(
    "count_nonzero",
    lambda dtype, _: _INDEX,
    _count_kernel,
    Reduce(lambda avals, params: (_INDEX,), _count_kernel, add_states, lambda xp, avals, p: only),
)
