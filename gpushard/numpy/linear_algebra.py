"""Products of matrices and vectors, and traces.

Most are Einstein sums. Their split over devices is the one that moves the fewest bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard._array import Array
from gpushard._functions import linear_algebra as products
from gpushard._functions import manipulation
from gpushard._functions.argument_checks import integer, refuse_out
from gpushard._functions.linear_algebra import in_preferred, in_types, shape_of
from gpushard._ops.axes import from_end, one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.table.contractions import DOT, LETTERS, OUTER, TENSORDOT, VECDOT
from gpushard._placement.public_functions import public, public_array
from gpushard._typing import Shape
from gpushard.errors import ArgumentError
from gpushard.numpy import elementwise as ew
from gpushard.numpy.einstein_sums import einsum
from gpushard.numpy.manipulation import expand_dims, moveaxis, roll
from gpushard.numpy.padding import pad

__all__ = [
    "cross", "dot", "inner", "kron", "matmul", "matrix_transpose", "matvec", "outer", "tensordot",
    "trace", "vdot", "vecdot", "vecmat",
]  # fmt: skip

matmul = public_array(products.matmul, operands=2)
dot = public_array(products.dot, operands=2)


@public(operands=2)
def inner(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Sum products over the last axes of both arrays."""
    x1, x2 = in_types((a, b), "inner", precision, preferred_element_type)
    if not shape_of(x1) or not shape_of(x2):
        product = products.dot(x1, x2, out_sharding=out_sharding)
    else:
        product = tensordot(x1, x2, axes=((-1,), (-1,)), out_sharding=out_sharding)
    return in_preferred(product, preferred_element_type)


@public(arrays=2)
def outer(a: Any, b: Any, out: Any = None, *, out_sharding: Any = None) -> Array:
    """Multiply each element of `a` by each element of `b`, both flattened to vectors."""
    refuse_out("outer", out)
    return bind(OUTER, (a.ravel(), b.ravel()), ("a,b->ab",), out_sharding)


@public(arrays=2)
def vdot(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Compute the dot product of two arrays that are flattened to vectors; `a` is conjugated."""
    x1, x2 = in_types((a, b), "vdot", precision, preferred_element_type)
    if x1.shape == x2.shape and x1.ndim:  # elements lie together as they are
        letters = LETTERS[: x1.ndim]
        product = bind(DOT, (x1.conj(), x2), (f"{letters},{letters}->",), out_sharding)
    else:
        product = products.dot(x1.ravel().conj(), x2.ravel(), out_sharding=out_sharding)
    return in_preferred(product, preferred_element_type)


@public(arrays=2)
def vecdot(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    axis: int = -1,
    dtype: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Compute dot products of vectors along an axis; other axes broadcast, and `x1` is conjugated.

    Args:
      axis: the axis of the vectors in both arrays. It must be negative if their numbers of axes
        differ.
      dtype: the dtype of the result, to which operands are converted first.

    Raises:
      ArgumentError: an operand does not have the axis, or lengths differ.
    """
    refuse_out("vecdot", out)
    x1, x2 = in_types((x1, x2), "vecdot", precision, preferred_element_type, dtype)
    names = []
    for x in (x1, x2):
        at = one_from_end(axis, x.ndim, "vecdot")
        letters = list(reversed(LETTERS[1 : x.ndim]))  # equal ones are as far from the last dim
        letters.insert(x.ndim + at, LETTERS[0])
        names.append("".join(letters))
    result = max(names, key=len).replace(LETTERS[0], "")
    text = f"{','.join(names)}->{result}"
    product = bind(VECDOT, (x1.conj(), x2), (text,), out_sharding)
    return in_preferred(product, None if dtype is not None else preferred_element_type)


@public()
def matvec(x1: Any, x2: Any, /, out: Any = None, *, out_sharding: Any = None) -> Array:
    """Multiply matrices by vectors; all other axes broadcast.

    Args:
      x1: an array with matrices along its last two axes.
      x2: an array with vectors along its last axis.
    """
    refuse_out("matvec", out)
    return einsum("...ij,...j->...i", x1, x2, out_sharding=out_sharding)


@public(arrays=1)
def vecmat(x1: Any, x2: Any, /, out: Any = None, *, out_sharding: Any = None) -> Array:
    """Multiply conjugated vectors by matrices; all other axes broadcast.

    Args:
      x1: an array with vectors along its last axis.
      x2: an array with matrices along its last two axes.
    """
    refuse_out("vecmat", out)
    return einsum("...i,...ij->...j", x1.conj(), x2, out_sharding=out_sharding)


@public(operands=2)
def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Sum products over several axes of two arrays.

    Args:
      axes: how many of the last axes of `a` and the first axes of `b` to sum over. Or the axes of
        `a` and the axes of `b`, as a pair of integers or of sequences of integers.

    Raises:
      ArgumentError: an axis does not exist, or lengths differ.
    """
    x1, x2 = in_types((a, b), "tensordot", precision, preferred_element_type)
    shapes = shape_of(x1), shape_of(x2)
    first, second = _summed(axes, shapes)
    letters = iter(LETTERS)
    letters_of_a = [next(letters) for _ in shapes[0]]
    letters_of_b = [next(letters) for _ in shapes[1]]
    for mine, theirs in zip(first, second, strict=True):
        letters_of_b[theirs] = letters_of_a[mine]
    shared = {letters_of_a[dim] for dim in first}
    result = [x for x in letters_of_a + letters_of_b if x not in shared]
    text = f"{''.join(letters_of_a)},{''.join(letters_of_b)}->{''.join(result)}"
    return in_preferred(bind(TENSORDOT, (x1, x2), (text,), out_sharding), preferred_element_type)


def _summed(axes: Any, shapes: tuple[Shape, Shape]) -> tuple[Sequence[int], Sequence[int]]:
    """Return the dims of both operands to sum over, counted from the end."""
    dims_of_a, dims_of_b = (len(shape) for shape in shapes)
    if not isinstance(axes, tuple | list):
        count = integer(axes, "tensordot", "axes")
        if not 0 <= count <= min(dims_of_a, dims_of_b):
            raise ArgumentError(
                f"tensordot: axes={count} is out of range for operands of shapes {shapes[0]} and "
                f"{shapes[1]}; use 0 to {min(dims_of_a, dims_of_b)}",
                argument="axes",
                axes=count,
                shapes=shapes,
            )
        return range(-count, 0), range(-dims_of_b, count - dims_of_b)
    if len(axes) != 2:
        raise ArgumentError.refusing(
            "axes", axes, "must be an integer or a pair, the axes of both operands", "tensordot"
        )
    first, second = (
        from_end(tuple(named) if isinstance(named, list) else named, ndim, "tensordot", "axes")
        for named, ndim in zip(axes, (dims_of_a, dims_of_b), strict=True)
    )
    if len(first) != len(second):
        raise ArgumentError(
            f"tensordot: axes={axes!r} names {len(first)} axes of one operand and {len(second)} of "
            "the other; name as many",
            argument="axes",
            axes=axes,
        )
    return first, second


@public
def matrix_transpose(x: Any, /, *, out_sharding: Any = None) -> Array:
    """Exchange the last two axes.

    Args:
      x: an array of at least two axes.
    """
    return x.mT


trace = public_array(manipulation.trace)


@public(arrays=2)
def cross(
    a: Any,
    b: Any,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Compute cross products of vectors.

    A vector of two elements counts as one with a third element 0. For two such vectors, the result
    is only the third element of the product, a number; the other elements would be 0.

    Args:
      b: an array; its shape and that of `a` broadcast.
      axisa: the axis of the vectors in `a`.
      axisb: the axis of the vectors in `b`.
      axisc: the axis of the vectors in the result. Ignored if the products are numbers.
      axis: the axis of the vectors in all three arrays; overrides the other three arguments.

    Raises:
      ArgumentError: a vector has neither two nor three elements.

    >>> import gpushard as gs
    >>> cross(gs.numpy.asarray([1, 0, 0]), gs.numpy.asarray([0, 1, 0]))
    Array([0, 0, 1], dtype=int64)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x1, x2 = a, b
    a = moveaxis(x1, one_from_end(axisa, x1.ndim, "cross", "axisa"), -1)
    b = moveaxis(x2, one_from_end(axisb, x2.ndim, "cross", "axisb"), -1)
    if not {a.shape[-1], b.shape[-1]} <= {2, 3}:
        raise ArgumentError(
            f"cross: vectors of {a.shape[-1]} and {b.shape[-1]} elements must have 2 or 3; choose "
            "the axis of the vectors with axis=, axisa= and axisb=",
            argument="x1",
            shapes=(x1.shape, x2.shape),
        )
    if a.shape[-1] == b.shape[-1] == 2:
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    a, b = (pad(x, [(0, 0)] * (x.ndim - 1) + [(0, 3 - x.shape[-1])]) for x in (a, b))
    # Element i is a[i + 1] * b[i + 2] - a[i + 2] * b[i + 1], counted around.
    products = roll(a, -1, -1) * roll(b, -2, -1) - roll(a, -2, -1) * roll(b, -1, -1)
    return moveaxis(products, -1, one_from_end(axisc, products.ndim, "cross", "axisc"))


@public(arrays=2)
def kron(a: Any, b: Any, *, out_sharding: Any = None) -> Array:
    """Compute the Kronecker product: each element of `a` becomes a block, the element times `b`.

    Args:
      b: an array. If one array has fewer axes, it gets new first axes.

    >>> import gpushard as gs
    >>> kron(gs.numpy.asarray([1, 10]), gs.numpy.asarray([1, 2, 3]))
    Array([ 1,  2,  3, 10, 20, 30], dtype=int64)
    """
    ndim = max(a.ndim, b.ndim)
    a, b = (x.reshape((1,) * (ndim - x.ndim) + x.shape) for x in (a, b))
    shape = tuple(m * n for m, n in zip(a.shape, b.shape, strict=True))
    blocks = expand_dims(a, tuple(range(1, 2 * ndim, 2)))
    inner = expand_dims(b, tuple(range(0, 2 * ndim, 2)))
    return ew.multiply(blocks, inner).reshape(shape)
