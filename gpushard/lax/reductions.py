"""Reductions, under the names of `jax.lax`.

Results have the dtype of the operand: small integers are summed in their own dtype.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._array import Array
from gpushard._functions import elementwise as ew
from gpushard._functions import reductions
from gpushard._functions.docstrings import named
from gpushard._functions.element_types import as_dtype
from gpushard._functions.manipulation import broadcast_to
from gpushard._ops.bind import bind
from gpushard._ops.table import manipulation
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._placement.arguments import as_value
from gpushard._placement.public_functions import public
from gpushard._transforms.values.user_functions import check_function
from gpushard.dtypes import iinfo, kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.lax import elementwise
from gpushard.lax.arguments import (
    ELEMENTS,
    as_operand,
    as_operands,
    check_kind,
    check_shape,
    dim,
    dims,
    each,
)

__all__ = [
    "argmax", "argmin", "reduce",
    "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum",
    "reduce_xor",
]  # fmt: skip

_DETAILS = """

Args:
  operand: an array of {kinds}.
  axes: the axes to reduce over.

Raises:
  AxisError: an axis does not exist.
  ArgumentTypeError: `operand` has a dtype that the function does not support.
"""

Reduction = Callable[[Any, Sequence[int]], Array]
"""Takes an array and the axes to reduce over."""


def _bounds(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the least and the greatest number of a dtype."""
    kind = kind_of(dtype)
    if kind in "bf":
        return (False, True) if kind == "b" else (-np.inf, np.inf)
    return iinfo(dtype).min, iinfo(dtype).max


def _extreme(function: Callable[..., Any], of_none: int) -> Reduction:
    def compute(x: Any, axes: Sequence[int]) -> Any:
        empty = any(x.shape[at] == 0 for at in axes)
        return function(x, axes, initial=_bounds(x.dtype)[of_none]) if empty else function(x, axes)

    return compute


def _bits(function: Callable[..., Any], of_booleans: Any, neutral: int) -> Reduction:
    def compute(x: Any, axes: Sequence[int]) -> Any:
        if of_booleans is not None and x.dtype == np.bool_:
            return of_booleans(x, axes)
        of_none = np.array(neutral).astype(x.dtype)[()]
        return _neighbours(lambda a, b: (function(a[0], b[0]),), (x,), (of_none,), axes)[0]

    return compute


def _neighbours(
    function: Callable[[Any, Any], Sequence[Any]],
    xs: Sequence[Any],
    neutral: Sequence[Any],
    axes: Sequence[int],
) -> list[Any]:
    """Combine the elements along dims, each with its neighbour, until one is left."""
    ndim = xs[0].ndim
    rest = [at for at in range(ndim) if at not in axes]
    shape = tuple(xs[0].shape[at] for at in rest)
    n = math.prod(xs[0].shape[at] for at in axes)
    if n == 0:
        return [broadcast_to(as_value(number, "reduce"), shape) for number in neutral]
    lined = [x.transpose((*rest, *axes)).reshape((*shape, n)) for x in xs]
    while n > 1:
        even = n - n % 2
        both = function([x[..., 0:even:2] for x in lined], [x[..., 1:even:2] for x in lined])
        pairs = zip(both, lined, strict=True)
        lined = [
            bind(manipulation.CONCATENATE, (new, x[..., even:]), (-1,)) if n % 2 else new
            for new, x in pairs
        ]
        n -= n // 2
    return [x[..., 0] for x in lined]


def _reduction(name: str, kinds: str, compute: Reduction, text: str) -> Reduction:
    def function(operand: Any, axes: Sequence[int]) -> Array:
        x = as_operand(name, operand)
        check_kind(name, x, kinds)
        return compute(x, dims(name, tuple(each(name, "axes", axes)), x.ndim))

    return named(function, name, text + _DETAILS.format(kinds=ELEMENTS[kinds]))


reduce_sum = _reduction(
    "reduce_sum",
    "iufc",
    lambda x, axes: reductions.sum(x, tuple(axes), dtype=x.dtype),
    "Sum elements over axes, in the dtype of the array.",
)
reduce_prod = _reduction(
    "reduce_prod",
    "iufc",
    lambda x, axes: reductions.prod(x, tuple(axes), dtype=x.dtype),
    "Multiply elements over axes, in the dtype of the array.",
)
reduce_max = _reduction(
    "reduce_max",
    "biuf",
    _extreme(reductions.max, 0),
    "Find the maximum over axes; NaN if any element is NaN, the least number if there is none.",
)
reduce_min = _reduction(
    "reduce_min",
    "biuf",
    _extreme(reductions.min, 1),
    "Find the minimum over axes; NaN if any element is NaN, the greatest number if there is none.",
)
reduce_and = _reduction(
    "reduce_and",
    "biu",
    _bits(ew.bitwise_and, reductions.all, -1),
    "Compute the bitwise AND of the elements over axes.",
)
reduce_or = _reduction(
    "reduce_or",
    "biu",
    _bits(ew.bitwise_or, reductions.any, 0),
    "Compute the bitwise OR of the elements over axes.",
)
reduce_xor = _reduction(
    "reduce_xor",
    "biu",
    _bits(ew.bitwise_xor, None, 0),
    "Compute the bitwise XOR of the elements over axes.",
)

_MONOIDS: dict[Any, np.ufunc] = {
    elementwise.add: np.add,
    operator.add: np.add,
    elementwise.mul: np.multiply,
    operator.mul: np.multiply,
    elementwise.max: np.maximum,
    builtins.max: np.maximum,
    elementwise.min: np.minimum,
    builtins.min: np.minimum,
    elementwise.bitwise_and: np.bitwise_and,
    operator.and_: np.bitwise_and,
    elementwise.bitwise_or: np.bitwise_or,
    operator.or_: np.bitwise_or,
    elementwise.bitwise_xor: np.bitwise_xor,
    operator.xor: np.bitwise_xor,
}


def known_ufunc(computation: Any) -> np.ufunc | None:
    """Return the ufunc that a function of two operands is; None if its reduction is not known."""
    ufunc = getattr(computation, "ufunc", computation)  # of `gpushard.numpy`, or NumPy's
    if isinstance(ufunc, np.ufunc):
        return ufunc if ufunc in _REDUCTIONS else None
    return _MONOIDS.get(computation)


_REDUCTIONS: dict[np.ufunc, Reduction] = {
    np.add: reduce_sum,
    np.multiply: reduce_prod,
    np.maximum: reduce_max,
    np.minimum: reduce_min,
    np.bitwise_and: reduce_and,
    np.bitwise_or: reduce_or,
    np.bitwise_xor: reduce_xor,
}


def reduce(
    operands: Any, init_values: Any, computation: Callable[[Any, Any], Any], dimensions: Any
) -> Any:
    """Reduce arrays over axes by a function that combines two operands.

    For `gpushard.lax.add`, `mul`, `max`, `bitwise_and` and similar functions, the devices run the
    corresponding reduction. Any other function is called for all pairs of neighbours at once, about
    log2(n) times for n elements. Elements keep their order.

    Args:
      operands: an array, or a pytree of arrays of one shape.
      init_values: for each operand a scalar of its dtype, which is combined with the result.
      computation: an associative function of two arrays, or of two pytrees of arrays, that combines
        them element by element.
      dimensions: the dimensions to reduce over.

    Raises:
      ArgumentError: operands differ in shape. Or the number of initial values, or of results of
        `computation`, differs from the number of operands.
      ArgumentTypeError: `computation` cannot be called, or `dimensions` is not a sequence.

    >>> import gpushard as gs
    >>> reduce(gs.numpy.arange(4), 0, gs.lax.add, (0,))
    Array(6, dtype=int64)
    """
    check_function(computation, "lax.reduce", "computation")
    leaves, structure = tree.flatten(operands)
    inits = tree.leaves(init_values)
    if len(leaves) != len(inits) or not leaves:
        raise ArgumentError(
            f"lax.reduce: {len(leaves)} operands need as many init_values, not {len(inits)}",
            argument="init_values",
        )
    pairs = [as_operands("reduce", pair) for pair in zip(leaves, inits, strict=True)]
    xs, inits = ([pair[at] for pair in pairs] for at in (0, 1))
    for x, init in pairs:
        check_shape("reduce", "init_values", init.shape, ())
        check_shape("reduce", "operands", x.shape, xs[0].shape)
    axes = dims("reduce", each("reduce", "dimensions", dimensions), xs[0].ndim, "dimensions")
    alone = leaves[0] is operands and isinstance(computation, Hashable)
    known = known_ufunc(computation) if alone else None
    if known is not None:
        return bind(ufunc_row(known), (inits[0], _REDUCTIONS[known](xs[0], axes)))

    def function(a: Sequence[Any], b: Sequence[Any]) -> Sequence[Any]:
        both = computation(tree.unflatten(structure, a), tree.unflatten(structure, b))
        results = tree.leaves(both)
        if len(results) != len(leaves):
            raise ArgumentError(
                f"lax.reduce: computation returned {len(results)} values, for {len(leaves)} "
                "operands; return one for each",
                argument="computation",
            )
        return results

    xs, inits = ([as_operand("reduce", x) for x in side] for side in (xs, inits))
    if any(xs[0].shape[at] == 0 for at in axes):
        return tree.unflatten(structure, _neighbours(function, xs, inits, axes))
    combined = _neighbours(function, xs, inits, axes)
    shape = combined[0].shape
    return tree.unflatten(
        structure, function([broadcast_to(init, shape) for init in inits], combined)
    )


def _index_dtype(name: str, index_dtype: Any) -> np.dtype[Any]:
    """Return the dtype of positions, and check that it has integers."""
    target = as_dtype(index_dtype, "index_dtype")
    if kind_of(target) not in "iu":
        raise ArgumentTypeError.refusing(
            "index_dtype", index_dtype, "must be a type of integers, such as int32", f"lax.{name}"
        )
    return target


@public(arrays=1, weak=True, operand="an array.")
def argmax(operand: Any, axis: int, index_dtype: Any) -> Array:
    """Find the position of the first maximum along an axis; NaN counts as the maximum.

    Args:
      axis: the axis.
      index_dtype: the dtype of the positions.

    >>> import gpushard as gs
    >>> gs.lax.argmax(gs.numpy.asarray([3, 7, 7]), 0, "int32")
    Array(1, dtype=int32)
    """
    at = dim("argmax", axis, operand.ndim)
    return reductions.argmax(operand, at).astype(_index_dtype("argmax", index_dtype))


@public(arrays=1, weak=True, operand="an array.")
def argmin(operand: Any, axis: int, index_dtype: Any) -> Array:
    """Find the position of the first minimum along an axis; NaN counts as the minimum.

    Args:
      axis: the axis.
      index_dtype: the dtype of the positions.

    >>> import gpushard as gs
    >>> gs.lax.argmin(gs.numpy.asarray([7, 3, 3]), 0, "int32")
    Array(1, dtype=int32)
    """
    at = dim("argmin", axis, operand.ndim)
    return reductions.argmin(operand, at).astype(_index_dtype("argmin", index_dtype))
