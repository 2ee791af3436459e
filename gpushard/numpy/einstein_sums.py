"""Einstein sums: `einsum` and `einsum_path`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import refuse_out
from gpushard._functions.element_types import check_dtype
from gpushard._functions.linear_algebra import in_preferred, in_types, shape_of
from gpushard._functions.values import is_value, wanted
from gpushard._ops.bind import bind
from gpushard._ops.table.contractions import EINSUM
from gpushard._placement.arguments import operands
from gpushard._placement.public_functions import public
from gpushard._transforms.mapping.named_einsum import replace_names
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy.einsum_subscripts import from_lists, parse

__all__ = ["einsum", "einsum_path"]


@public()
def einsum(
    subscripts: Any,
    /,
    *xs: Any,
    out: Any = None,
    optimize: Any = None,
    dtype: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Compute an Einstein sum: multiply arrays, and sum over axes that the result does not have.

    Args:
      subscripts: a string such as "ij,jk->ik". Or the first operand, if a list of integers follows
        each operand; a last list is for the result. In mapped functions, names in braces stand for
        named axes, as in "a{i,j},{j}->a{i}".
      *xs: the operands.
      optimize: ignored: `einsum` always chooses the order of products.
      dtype: the dtype of the result, to which operands are converted first.

    Raises:
      ArgumentError: the subscripts are malformed, or do not match the operands.

    >>> import gpushard as gs
    >>> x = gs.numpy.arange(6).reshape(2, 3)
    >>> einsum("ij->i", x), einsum(x, [0, 1], [1])
    (Array([ 3, 12], dtype=int64), Array([3, 5, 7], dtype=int64))
    """
    refuse_out("einsum", out)
    if not isinstance(subscripts, str):
        every = (subscripts, *xs)
        output = every[-1] if len(every) % 2 else None
        xs = every[: len(every) // 2 * 2 : 2]
        subscripts = from_lists(every[1::2], output)
    if not xs:
        raise ArgumentTypeError("einsum needs operands behind the subscripts", argument="xs")
    placed = operands("einsum", *xs)
    factors = in_types(placed, "einsum", precision, preferred_element_type, dtype)
    if "{" in subscripts:
        subscripts, factors = replace_names(subscripts, factors)
    text = parse(subscripts, tuple(tuple(shape_of(x)) for x in factors))
    product = bind(EINSUM, factors, (text,), wanted(out_sharding, *factors))
    return in_preferred(product, None if dtype is not None else preferred_element_type)


def einsum_path(subscripts: Any, /, *xs: Any, optimize: Any = "greedy") -> tuple[list[Any], str]:
    """Find an order of products for an Einstein sum; return the order, and a text about the cost.

    Only shapes matter: nothing is computed or moved. `einsum` does not use this order.

    Args:
      subscripts: a string such as "ij,jk->ik"; see `einsum`.
      *xs: the operands.
      optimize: the method of the search, as in `numpy.einsum_path`.

    >>> einsum_path("ij,jk,kl->il", np.ones((2, 9)), np.ones((9, 9)), np.ones((9, 3)))[0]
    ['einsum_path', (0, 1), (0, 1)]
    """
    operands = [
        np.broadcast_to(np.empty((), check_dtype(x.dtype, "xs")), x.shape) if is_value(x) else x
        for x in (subscripts, *xs)
    ]
    try:
        return np.einsum_path(*operands, optimize=optimize)
    except (TypeError, ValueError, IndexError) as error:
        kind = ArgumentTypeError if isinstance(error, TypeError) else ArgumentError
        raise kind(f"einsum_path: {error}; see numpy.einsum_path", argument="subscripts") from None
