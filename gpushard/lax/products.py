"""Products that sum over axes, under the names of `jax.lax`."""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard._array import Array
from gpushard._functions import elementwise as ew
from gpushard._functions.cumulative import cumsum
from gpushard._functions.docstrings import described
from gpushard._functions.elementwise import where
from gpushard._functions.linear_algebra import in_preferred, in_types, matmul
from gpushard._functions.values import Value, wanted
from gpushard._ops.axes import from_end
from gpushard._ops.bind import bind
from gpushard._ops.table.contractions import LETTERS, TENSORDOT
from gpushard._placement.arguments import as_value, settle
from gpushard._typing import Shape
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "DotDimensionNumbers", "Precision", "batch_matmul", "dot", "dot_general", "ragged_dot",
]  # fmt: skip

_Pair: TypeAlias = tuple[Sequence[int], Sequence[int]]

DotDimensionNumbers: TypeAlias = tuple[_Pair, _Pair]
"""((summed dims of the left, of the right), (batch dims of the left, of the right))."""


_products = described(
    preferred_element_type="the dtype of the result. Products are computed in the dtype to\n"
    "    which this dtype and the dtypes of the operands promote.",
)


class Precision(enum.Enum):
    """The precision of products in JAX; gpushard ignores it and computes in full precision."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


@_products
def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: DotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Multiply two arrays: sum over contracted dimensions, and match batch dimensions.

    Args:
      lhs: an array.
      rhs: an array. If the dtypes differ, they promote as in `gpushard.numpy.matmul`.
      dimension_numbers: two pairs. The first has the contracted dimensions of `lhs` and of `rhs`,
        the second the batch dimensions of `lhs` and of `rhs`.

    Returns:
      An array with the batch dimensions, then the other dimensions of `lhs`, then those of `rhs`.

    Raises:
      ArgumentError: two dimensions that belong together differ in length, or a dimension is named
        twice.

    >>> import gpushard as gs
    >>> x, y = gs.numpy.ones((2, 3, 4)), gs.numpy.ones((2, 4, 5))
    >>> dot_general(x, y, (((2,), (1,)), ((0,), (0,)))).shape
    (2, 3, 5)
    """
    return _product(
        "dot_general", lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding
    )


def _product(
    name: str, lhs: Any, rhs: Any, numbers: Any, precision: Any, preferred: Any, out_sharding: Any
) -> Array:
    x, y = in_types(_read(name, lhs, rhs), f"lax.{name}", precision, preferred)
    try:
        (summed, batch) = ([tuple(axes) for axes in pair] for pair in numbers)
        of_x, of_y = [(summed[at], batch[at]) for at in (0, 1)]
    except (TypeError, ValueError, IndexError):
        raise ArgumentError.refusing(
            "dimension_numbers",
            numbers,
            "must be ((summed axes, summed axes), (batch axes, batch axes)), for lhs and rhs",
            f"lax.{name}",
        ) from None
    shapes, where = (x.shape, y.shape), (f"lax.{name}", "dimension_numbers")
    text = _subscripts(
        (from_end(of_x[0], x.ndim, *where), from_end(of_x[1], x.ndim, *where)),
        (from_end(of_y[0], y.ndim, *where), from_end(of_y[1], y.ndim, *where)),
        shapes,
    )
    if text is None:
        raise ArgumentError(
            f"lax.{name}: dimension_numbers={numbers} do not fit operands of shapes {x.shape} and "
            f"{y.shape}: summed axes must have equal lengths in both, and so must batch axes, each "
            "named once",
            argument="dimension_numbers",
            shapes=shapes,
        )
    product = bind(TENSORDOT, (x, y), (text,), wanted(out_sharding, x, y))
    return settle(in_preferred(product, preferred), out_sharding)


def _read(name: str, *xs: Any) -> list[Any]:
    return [x if isinstance(x, Value) else as_value(x, name) for x in xs]


@functools.lru_cache(maxsize=1024)
def _subscripts(
    of_x: tuple[Sequence[int], Sequence[int]],
    of_y: tuple[Sequence[int], Sequence[int]],
    shapes: tuple[Shape, Shape],
) -> str | None:
    """Return the subscripts of a product: batch dims, then the others; None if lengths differ.

    >>> _subscripts(((-1,), ()), ((-2,), ()), ((2, 3), (3, 4)))
    'ba,ac->bc'
    """
    sides = (of_x, shapes[0]), (of_y, shapes[1])
    sizes = [[[shape[at] for at in axes] for axes in pair] for pair, shape in sides]
    once = [len({*pair[0], *pair[1]}) == len(pair[0]) + len(pair[1]) for pair, _ in sides]
    if sizes[0] != sizes[1] or not all(once):
        return None
    free = iter(LETTERS)
    summed, batch = ([next(free) for _ in axes] for axes in of_x)
    names = []
    for pair, shape in sides:
        letters = dict(zip((*pair[0], *pair[1]), (*summed, *batch), strict=True))
        names.append([letters.get(at) or next(free) for at in range(-len(shape), 0)])
    rest = ["".join(c for c in letters if c not in {*summed, *batch}) for letters in names]
    return f"{','.join(map(''.join, names))}->{''.join(batch)}{rest[0]}{rest[1]}"


@_products
def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Multiply two vectors or matrices.

    Args:
      lhs: a vector or a matrix; with `dimension_numbers` any array.
      rhs: a vector or a matrix; with `dimension_numbers` any array. If the dtypes differ, they
        promote as in `gpushard.numpy.matmul`.
      dimension_numbers: the dimensions to contract and to match; see `dot_general`.

    Raises:
      ArgumentError: an operand is neither a vector nor a matrix, or the lengths to sum over differ.

    >>> import gpushard as gs
    >>> dot(gs.numpy.arange(3), gs.numpy.arange(3))
    Array(5, dtype=int64)
    """
    numbers: Any = dimension_numbers
    if numbers is None:
        lhs, rhs = _read("dot", lhs, rhs)
        ranks = lhs.ndim, rhs.ndim
        if not all(1 <= rank <= 2 for rank in ranks):
            raise ArgumentError(
                f"lax.dot: operands with ndim={ranks[0]} and ndim={ranks[1]} need "
                "dimension_numbers=; without it, they must be vectors or matrices",
                argument="dimension_numbers",
            )
        numbers = (((ranks[0] - 1,), (0,)), ((), ()))
    return _product("dot", lhs, rhs, numbers, precision, preferred_element_type, out_sharding)


@_products
def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Array:
    """Multiply stacks of matrices.

    Args:
      lhs: a stack of matrices: its last two axes are rows and columns.
      rhs: a stack with the same axes before the last two.

    Raises:
      ArgumentError: the axes before the last two, or the lengths to sum over, differ.

    >>> import gpushard as gs
    >>> batch_matmul(gs.numpy.ones((2, 3, 4)), gs.numpy.ones((2, 4, 5))).shape
    (2, 3, 5)
    """
    x, y = _read("batch_matmul", lhs, rhs)
    if x.ndim != y.ndim or x.ndim < 2:
        raise ArgumentError(
            f"lax.batch_matmul: operands of shapes {x.shape} and {y.shape} need equally many "
            "axes, at least two",
            argument="lhs",
            shapes=(x.shape, y.shape),
        )
    batch = tuple(range(x.ndim - 2))
    numbers = (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch))
    return _product("batch_matmul", x, y, numbers, precision, None, None)


@_products
def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
    out_sharding: Any = None,
) -> Array:
    """Multiply groups of rows of a matrix, each group by a matrix of its own.

    The devices multiply all rows by all matrices, and keep for each row the product of its group.
    So the host need not read the sizes of the groups.

    Args:
      lhs: a matrix of shape (rows, m). The rows of the first group come first, and so on.
      rhs: the matrices of the groups, of shape (groups, m, n).
      group_sizes: the number of rows of each group, a vector of integers. Rows after the last group
        give zeros in the result.
      group_offset: must be None.

    Raises:
      ArgumentError: the shapes do not match, or `group_offset` is not None.
      ArgumentTypeError: group sizes are not integers.

    >>> import gpushard as gs
    >>> rhs = gs.numpy.asarray([[[1.0]], [[10.0]]])
    >>> ragged_dot(gs.numpy.ones((4, 1)), rhs, [1, 2])
    Array([[ 1.],
           [10.],
           [10.],
           [ 0.]], dtype=float64)
    """
    x, y, sizes = (as_value(each, "ragged_dot") for each in (lhs, rhs, group_sizes))
    if group_offset is not None:
        raise ArgumentError.refusing(
            "group_offset", group_offset, "must be None; take a part of rhs", "lax.ragged_dot"
        )
    shapes = x.shape, y.shape, sizes.shape
    if [x.ndim, y.ndim, sizes.ndim] != [2, 3, 1] or (x.shape[1], len(sizes)) != y.shape[1::-1]:
        raise ArgumentError(
            f"lax.ragged_dot: operands of shapes {', '.join(map(str, shapes))} do not fit; they "
            "must be (rows, summed), (groups, summed, columns) and (groups,)",
            argument="rhs",
            shapes=shapes,
        )
    if kind_of(sizes.dtype) not in "iu":
        raise ArgumentTypeError(
            f"lax.ragged_dot: group_sizes have dtype {sizes.dtype}; give integers",
            argument="group_sizes",
            dtype=sizes.dtype,
        )
    products = matmul(x, y, precision=precision, preferred_element_type=preferred_element_type)
    ends = cumsum(sizes, dtype=np.int64)[:, None]
    row = np.arange(x.shape[0])
    member = ew.logical_and(row < ends, row >= ends - sizes[:, None])
    of_group = where(member[:, :, None], products, products.dtype.type(0))
    return settle(of_group.sum(0, dtype=products.dtype), out_sharding)
