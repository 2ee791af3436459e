"""Reductions: sums, products, extremes, moments, tests and positions of extremes.

Parameters of all rows: (axes counted from the end, keepdims, a last one that the row documents).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._ops import rule
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.merge_in_order import InOrder
from gpushard._ops.narrow import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Kernel, Params, Row, Site, State, broadcasting, only
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard._runtime.backend import Reducing
from gpushard._runtime.namespace import own_kernels
from gpushard._typing import LocalArray, Shape
from gpushard.dtypes import kind_of, real_of, summed
from gpushard.errors import ArgumentError, ArgumentTypeError

_DOUBLE = np.dtype(np.float64)
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


def _row(
    name: str,
    dtype_of: Callable[[Dtype, Any], Dtype],
    kernel: Callable[[Any, Sequence[Aval], Params], Kernel],
    reduction: Reduce,
    *,
    empty: bool = True,
    positional: bool = False,
) -> Row:
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


def _total(xp: Any, name: str, operand_dtype: Dtype, dtype: Dtype) -> Callable[..., Any]:
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
            total = _total(xp, title, operand_dtype, dtype)
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

    return _row(
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


def _add_states(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
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


COUNT_NONZERO = _row(
    "count_nonzero",
    lambda dtype, _: _INDEX,
    _count_kernel,
    Reduce(lambda avals, params: (_INDEX,), _count_kernel, _add_states, lambda xp, avals, p: only),
)


def _mean_dtype(operand_dtype: Dtype, dtype: Dtype | None) -> Dtype:
    if dtype is not None:
        return dtype
    return operand_dtype if kind_of(operand_dtype) in "fc" else _DOUBLE


def _mean_local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    axes, keepdims, dtype = params
    wide = _mean_dtype(avals[0].dtype, dtype)
    total = np.add.reduce if xp is np else _total(xp, "sum", avals[0].dtype, wide)
    return Reducing(total, axes, {"dtype": wide, "keepdims": keepdims})


def _mean_finish(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    dtype = _mean_dtype(avals[0].dtype, params[2])
    return lambda s, n: (s[0] / n if n else s[0] * xp.nan).astype(dtype, copy=False)


def _mean_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    local, finish = _mean_local(xp, avals, params), _mean_finish(xp, avals, params)
    axes, _, _ = params
    shape = avals[0].shape

    if own_kernels(xp) is not None:
        total, dtype = local, _mean_dtype(avals[0].dtype, params[2])

        def mean_here(x: Any, out: Any = None) -> Any:
            count = math.prod(x.shape[axis] for axis in axes)
            mean = xp.divide(total(x), count, out=out, casting="unsafe")
            return mean.astype(dtype, copy=False)

        return mean_here

    def mean(x: Any) -> Any:
        count = math.prod(shape[axis] for axis in axes)
        return finish((xp.asarray(local(x)),), count)

    return writing(mean)


MEAN = in_single(
    _row(
        "mean",
        _mean_dtype,
        _mean_kernel,
        Reduce(
            lambda avals, params: (_mean_dtype(avals[0].dtype, params[2]),),
            _mean_local,
            _add_states,
            _mean_finish,
        ),
    ),
    typed=True,
)
"""Last parameter: dtype or None."""


def _var_dtype(operand_dtype: Dtype, correction: float) -> Dtype:
    return real_of(_mean_dtype(operand_dtype, None))


def squared(apart: Any) -> Any:
    """Square distances."""
    return (apart * apart.conj()).real if apart.dtype.kind == "c" else apart * apart


def _moments(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    """Make the kernel of the mean and the sum of squared distances from it."""
    axes, keepdims, _ = params
    wide = _mean_dtype(avals[0].dtype, None)
    kernels = own_kernels(xp)

    apart = _squares_own(xp, avals, params)

    def moments_here(x: Any) -> State:
        total, spread = apart(x)
        count = _INDEX.type(math.prod(x.shape[axis] for axis in axes))
        return kernels.quotient(total, count, otherwise=0).reshape(spread.shape), spread

    def moments(x: Any) -> State:
        x = x.astype(wide, copy=False)
        mean = x.mean(axes, keepdims=True)
        apart = x - mean
        total = squared(apart).sum(axes, keepdims=keepdims)
        return mean.reshape(total.shape), total

    return writing(moments if kernels is None else moments_here)


def _squares_own(xp: Any, avals: Sequence[Aval], params: Params) -> Callable[[Any], State]:
    """Make the functions for sums, and for sums of squared distances from means, on a GPU."""
    axes, keepdims, _ = params
    wide = _mean_dtype(avals[0].dtype, None)

    def apart(x: Any) -> State:
        count = _INDEX.type(math.prod(x.shape[axis] for axis in axes))
        total = x.sum(axes, dtype=wide, keepdims=True)
        squares = own_kernels(xp).squares(x, total, count, skips=False)
        return total, squares.sum(axes, keepdims=keepdims)

    return apart


def _chan(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    """Make the merge of moments (Chan, Golub and LeVeque, 1979)."""

    def merge(a: State, b: State, m: int, n: int) -> State:
        apart = b[0] - a[0]
        spread = a[1] + b[1] + squared(apart) * (m * n / (m + n))
        return a[0] + apart * (n / (m + n)), spread

    return merge


def _spread_row(name: str, *, root: bool) -> Row:
    """Make the row of a variance, or of its square root."""

    def make(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
        correction = params[2]
        dtype = _var_dtype(avals[0].dtype, correction)

        def finish(state: State, count: int) -> LocalArray:
            kernels = own_kernels(xp)
            if kernels is not None:
                size = _INDEX.type(count)
                quotient = kernels.quotient(state[1], size, correction, root=root, otherwise=0)
                return quotient.astype(dtype, copy=False)
            spread = state[1] / state[1].dtype.type(max(count - correction, 0))
            return (xp.sqrt(spread) if root else spread).astype(dtype, copy=False)

        return finish

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        local, finish = _moments(xp, avals, params), make(xp, avals, params)
        apart, kernels = _squares_own(xp, avals, params), own_kernels(xp)
        axes, _, _ = params

        def spread(x: Any) -> Any:
            count = math.prod(avals[0].shape[axis] for axis in axes)
            return finish(tuple(map(xp.asarray, local(x))), count)

        def spread_here(x: Any, out: Any = None) -> Any:
            count = _INDEX.type(math.prod(avals[0].shape[axis] for axis in axes))
            squares = apart(x)[1]
            return kernels.quotient(squares, count, params[2], root=root, otherwise=0, out=out)

        return writing(spread) if kernels is None else spread_here

    def states(avals: Sequence[Aval], params: Params) -> tuple[Dtype, ...]:
        wide = _mean_dtype(avals[0].dtype, None)
        return wide, real_of(wide)

    return in_single(_row(name, _var_dtype, kernel, Reduce(states, _moments, _chan, make)))


VAR = _spread_row("var", root=False)
"""Last parameter: the correction, subtracted from the number of elements in the divisor."""
STD = _spread_row("std", root=True)
"""Last parameter: as for `VAR`."""


def _position_dtype(name: str) -> Callable[[Dtype, Any], Dtype]:
    def dtype_of(dtype: Dtype, extra: Any) -> Dtype:
        if dtype.kind == "c":
            raise ArgumentTypeError(
                f"{name} is not defined for {dtype}: complex numbers have no order; take the real "
                "part or the absolute value first",
                argument="x",
                dtype=dtype,
            )
        return _INDEX

    return dtype_of


def _positions(name: str, *, valued: bool) -> Callable[[Any, Sequence[Aval], Params], Kernel]:
    """Make the maker of a kernel of positions of extremes, and of the extremes if `valued`.

    Positions are row-major numbers in the reduced dims of the whole array.
    """

    def make(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        axes, keepdims, _ = params
        whole = avals[0].shape
        ndim = len(whole)
        kernels = own_kernels(xp)

        def positions_here(site: Site, x: Any, out: Any) -> Any:
            dims = [
                kernels.Along(whole[axis], site.operands[0][axis], x.shape[axis], x.strides[axis])
                for axis in axes
            ]
            shape = reduced_shape(x.shape, axes, keepdims=False)
            value, number = out if valued else (None, out)
            value = None if value is None else value.reshape(shape)
            kernels.extremes(name, x, axes, dims, number.reshape(shape), value)
            return out

        if kernels is not None:
            return positions_here
        other_dims = [d for d in range(ndim) if d - ndim not in axes]
        order = other_dims + [ndim + axis for axis in axes]

        def positions(site: Site, x: Any) -> Any:
            starts = site.operands[0]
            rows = x.transpose(order).reshape(*[x.shape[d] for d in other_dims], -1)
            at = getattr(rows, name)(axis=-1)
            number: Any = 0 if axes else at  # a number is its own extreme, at position 0
            lengths = [x.shape[d] for d in axes]
            places = xp.unravel_index(at, lengths) if len(axes) > 1 else (at,) * len(axes)
            for place, axis in zip(places, axes, strict=True):
                number = number * whole[axis] + (place + starts[axis])
            number = xp.asarray(number, _INDEX)  # a number if nothing is reduced
            shape = reduced_shape(x.shape, axes, keepdims=True) if keepdims else number.shape
            number = number.reshape(shape)
            if not valued:
                return number
            # Take the elements there: a search for the extreme would read everything again.
            value = xp.take_along_axis(rows, at[..., None], -1) if other_dims else rows[at]
            return value.reshape(shape), number

        return writing(positions)

    return make


def _foremost(name: str) -> Any:
    """Make the merge of extremes: NaN first, then by value, then by position."""

    def make(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
        def merge(a: State, b: State, m: int, n: int) -> State:
            better = b[0] > a[0] if name == "argmax" else b[0] < a[0]
            mine, theirs = a[0] != a[0], b[0] != b[0]
            same = (a[0] == b[0]) | (mine & theirs)
            takes = ~mine & (better | theirs) | same & (b[1] < a[1])
            return xp.where(takes, b[0], a[0]), xp.where(takes, b[1], a[1])

        return merge

    return make


def _position_row(name: str) -> Row:
    reduction = Reduce(
        lambda avals, params: (avals[0].dtype, _INDEX),
        _positions(name, valued=True),
        _foremost(name),
        lambda xp, avals, params: lambda s, n: s[1],
    )
    kernel = _positions(name, valued=False)
    return _row(name, _position_dtype(name), kernel, reduction, empty=False, positional=True)


ARGMIN = _position_row("argmin")
ARGMAX = _position_row("argmax")
