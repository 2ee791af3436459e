"""Positions of extremes: `argmin` and `argmax`; the first of equal ones, and the first NaN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Kernel, Params, Row, Site, State
from gpushard._ops.table.elementwise import writing
from gpushard._ops.table.reductions import reduced_shape, reduction_row
from gpushard._runtime.namespace import own_kernels
from gpushard.errors import ArgumentTypeError

_INDEX = np.dtype(np.int64)


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
    return reduction_row(
        name, _position_dtype(name), kernel, reduction, empty=False, positional=True
    )


ARGMIN = _position_row("argmin")


ARGMAX = _position_row("argmax")
