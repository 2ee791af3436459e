"""Products of matrices and vectors.

Each is an Einstein sum. Its split over devices is the one that moves the fewest bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._functions.argument_checks import check_hint, refuse_out
from gpushard._functions.element_types import as_dtype
from gpushard._functions.values import Array
from gpushard._ops.bind import bind
from gpushard._ops.table.contractions import DOT, LETTERS, MATMUL, matmul_subscripts
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._typing import Shape
from gpushard.dtypes import result_type


def matmul(
    x1: Array,
    x2: Any,
    /,
    out: Any = None,
    *,
    dtype: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Multiply matrices; axes before the last two broadcast.

    Args:
      x1: an array; a vector counts as a row.
      x2: an array; a vector counts as a column.
      dtype: the dtype of the result, to which operands are converted first.

    Raises:
      ArgumentError: an operand has no axes, or the shapes do not match.
    """
    if out is not None:
        refuse_out("matmul", out)
    xs = in_types((x1, x2), "matmul", precision, preferred_element_type, dtype)
    text = matmul_subscripts(shape_of(x1), shape_of(x2))
    product = bind(MATMUL, xs, (text,), out_sharding)
    if preferred_element_type is None or dtype is not None:
        return product
    return in_preferred(product, preferred_element_type)


def dot(
    a: Array,
    b: Any,
    out: Any = None,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Compute the dot product: sum over the last axis of one array and the second-to-last of `b`.

    Args:
      b: an array; if it is a vector, the sum is over its only axis.
    """
    refuse_out("dot", out)
    xs = in_types((a, b), "dot", precision, preferred_element_type)
    m, n = (len(shape_of(x)) for x in xs)
    if not m or not n:
        product = bind(ufunc_row(np.multiply), xs, (), out_sharding)
        return in_preferred(product, preferred_element_type)
    shared, rows, columns = LETTERS[0], LETTERS[1:m], LETTERS[m : m + n - 1]
    second = columns[:-1] + shared + columns[-1:] if n > 1 else shared
    text = f"{rows}{shared},{second}->{rows}{columns}"
    return in_preferred(bind(DOT, xs, (text,), out_sharding), preferred_element_type)


def shape_of(x: Any) -> Shape:
    """Return the shape of an operand: an array, or data that NumPy converts to one.

    NumPy's own function gives the same, but takes six microseconds more for an array.
    """
    shape: Shape | None = getattr(x, "shape", None)
    return np.shape(x) if shape is None else shape


def in_types(
    xs: Sequence[Any], name: str, precision: Any, preferred: Any, dtype: Any = None
) -> Sequence[Any]:
    """Convert the operands of a product to the dtype that it is computed in.

    By default that is the dtype that the operands and the preferred dtype promote to, so that
    elements are not rounded before they are multiplied. `in_preferred` converts the product.
    """
    if precision is not None:
        check_precision(name, precision)
    if dtype is not None:
        target = as_dtype(dtype)
    elif preferred is not None:
        target = result_type(*xs, as_dtype(preferred, "preferred_element_type"))
    else:
        return xs
    return [x.astype(target) if hasattr(x, "astype") else target.type(x) for x in xs]


def in_preferred(product: Any, preferred: Any) -> Any:
    """Convert a product to the preferred dtype, if there is one."""
    if preferred is None:
        return product
    target = as_dtype(preferred, "preferred_element_type")
    return product if product.dtype == target else product.astype(target)


_PRECISIONS = (
    None,
    "default",
    "high",
    "highest",
    "fastest",
    "bfloat16",
    "tensorfloat32",
    "float32",
)


def check_precision(name: str, precision: Any) -> None:
    """Check a precision of products, as JAX knows them; products have all that their type has."""
    pair = precision if isinstance(precision, tuple) else (precision,)
    for entry in pair:
        text = getattr(entry, "name", entry)
        known = text.lower() if isinstance(text, str) else text
        check_hint(name, "precision", known, _PRECISIONS)
