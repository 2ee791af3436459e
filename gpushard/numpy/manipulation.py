"""Functions that move elements: shapes, order of axes, repeating.

Axes that stay keep the mesh axes that split them. Elements that have to move go from shard to
shard.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, cast, overload

import numpy as np

from gpushard._array import Array
from gpushard._functions import manipulation
from gpushard._functions.argument_checks import integer
from gpushard._functions.docstrings import described, named
from gpushard._functions.shapes import broadcast
from gpushard._functions.take_elements import take
from gpushard._functions.values import is_traced
from gpushard._ops.axes import from_end, one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.table.manipulation import ROLL
from gpushard._placement.arguments import as_value, as_view
from gpushard._placement.public_functions import public, public_array
from gpushard.errors import ArgumentError

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "diagonal", "expand_dims", "flip", "fliplr", "flipud", "moveaxis", "ndim",
    "permute_dims", "ravel", "repeat", "reshape", "roll", "rollaxis", "rot90", "shape", "size",
    "squeeze", "swapaxes", "tile", "transpose",
]  # fmt: skip


_ARRAYS = {"*xs": "the arrays."}


reshape = public_array(manipulation.reshape)
ravel = public_array(manipulation.ravel)
permute_dims = transpose = public_array(manipulation.permute_dims)
swapaxes = public_array(manipulation.swapaxes)
moveaxis = public_array(manipulation.moveaxis)
expand_dims = public_array(manipulation.expand_dims)
squeeze = public_array(manipulation.squeeze)
diagonal = public_array(manipulation.diagonal)
repeat = public_array(manipulation.repeat)
tile = public_array(manipulation.tile)
flip = public_array(manipulation.flip)
broadcast_to = public_array(manipulation.broadcast_to)
broadcast_shapes = manipulation.broadcast_shapes


@described()
def flipud(m: Any, *, out_sharding: Any = None) -> Array:
    """Reverse the order of elements along the first axis."""
    return flip(m, 0, out_sharding=out_sharding)


@described()
def fliplr(m: Any, *, out_sharding: Any = None) -> Array:
    """Reverse the order of elements along the second axis."""
    return flip(m, 1, out_sharding=out_sharding)


@public
def roll(a: Any, shift: Any, axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Shift elements along axes; elements that leave at one end enter at the other.

    Args:
      shift: the number of positions: an integer, or an integer for each axis in `axis`. In traced
        and mapped functions, it may be a traced value.
      axis: the axes, an integer or a tuple of integers. By default the array is flattened, and gets
        its shape back afterwards.

    Raises:
      ArgumentError: the numbers of shifts and axes differ.
    """
    if getattr(shift, "ndim", 0) == 1:
        shift = tuple(shift)
    if axis is None:
        total = sum(_steps(s) for s in shift) if isinstance(shift, tuple | list) else _steps(shift)
        return _rolled(a.ravel(), (total,), (-1,)).reshape(a.shape)
    dims = axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple(one_from_end(dim, a.ndim, "roll") for dim in dims)
    shifts = shift if isinstance(shift, tuple | list) else (shift,) * len(axes)
    if len(axes) == 1:
        axes *= len(shifts)
    elif len(shifts) == 1:
        shifts = tuple(shifts) * len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(
            f"roll: shift={shift} has {len(shifts)} numbers for the {len(axes)} axes of "
            f"axis={axis}; give one for each",
            argument="shift",
            shift=shift,
            axis=axis,
        )
    return _rolled(a, tuple(_steps(s) for s in shifts), axes)


def _steps(shift: Any) -> Any:
    """Read by how many positions elements are shifted: an integer, or a traced one."""
    if is_traced(shift) and not shift.ndim and shift.dtype.kind in "iu":
        return shift.astype(np.int64)
    return integer(shift, "roll", "shift")


def _rolled(x: Any, shifts: tuple[Any, ...], axes: tuple[int, ...]) -> Any:
    known = [(by, axis) for by, axis in zip(shifts, axes, strict=True) if not is_traced(by)]
    for by, axis in zip(shifts, axes, strict=True):
        if is_traced(by) and x.shape[axis]:
            n = x.shape[axis]
            x = take(x, (np.arange(n) - by) % n, axis)
    if not known:
        return x
    steps, dims = zip(*known, strict=True)
    return bind(ROLL, (x,), (steps, dims))


@described(**_ARRAYS)
def broadcast_arrays(*xs: Any, out_sharding: Any = None) -> tuple[Array, ...]:
    """Broadcast arrays to one shape.

    Raises:
      ArgumentError: the arrays do not broadcast.
    """
    arrays = [as_value(x, "broadcast_arrays") for x in xs]
    shape = broadcast("broadcast_arrays", [x.shape for x in arrays])
    return tuple(broadcast_to(x, shape, out_sharding=out_sharding) for x in arrays)


class AtLeast(Protocol):
    """A function that gives arrays at least a number of axes."""

    @overload
    def __call__(self, x: Any, /) -> Array: ...

    @overload
    def __call__(self, *xs: Any) -> tuple[Array, ...]: ...


def _atleast(name: str, text: str, as_array: Any, *new: tuple[Any, ...]) -> AtLeast:
    """Make such a function; `new` are the indices for arrays of 0, 1 and so on dims."""

    def function(*xs: Any) -> Array | tuple[Array, ...]:
        arrays = [as_array(x, name) for x in xs]
        raised = [x[new[x.ndim]] if x.ndim < len(new) else x for x in arrays]
        return raised[0] if len(raised) == 1 else tuple(raised)

    return cast("AtLeast", described(**_ARRAYS)(named(function, name, text)))


atleast_1d = _atleast(
    "atleast_1d", "Convert operands to arrays of at least one axis.", as_value, (None,)
)
atleast_2d = _atleast(
    "atleast_2d",
    "Convert operands to arrays of at least two axes; new axes come first.",
    as_value,
    (None, None),
    (None,),
)
atleast_3d = _atleast(
    "atleast_3d",
    "Convert operands to arrays of at least three axes; a vector lies along the middle one.",
    as_view,
    (None, None, None),
    (None, slice(None), None),
    (..., None),
)


@described()
def shape(a: Any) -> tuple[int, ...]:
    """Return the shape of an array."""
    sizes: tuple[int, ...] = a.shape if hasattr(a, "shape") else np.shape(a)
    return sizes


@described()
def ndim(a: Any) -> int:
    """Return the number of axes."""
    return len(shape(a))


@described()
def size(a: Any, axis: Any = None) -> int:
    """Return the number of elements.

    Args:
      axis: the axes along which to count, an integer or a tuple of integers; all by default.
    """
    sizes = shape(a)
    return math.prod(sizes[dim] for dim in from_end(axis, len(sizes), "size"))


@public
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1), *, out_sharding: Any = None) -> Array:
    """Rotate an array by right angles, in the plane of two axes, from the first to the second.

    Args:
      m: an array of at least two axes.
      k: the number of right angles; negative to rotate the other way.
      axes: the two axes.

    Raises:
      ArgumentError: `axes` does not name two axes.

    >>> rot90([[1, 2], [3, 4]])
    Array([[2, 4],
           [1, 3]], dtype=int64)
    """
    pair = from_end(tuple(axes) if np.iterable(axes) else axes, m.ndim, "rot90", "axes")
    if len(pair) != 2:
        raise ArgumentError.refusing("axes", axes, "must name two axes", "rot90")
    first, second = pair
    turns = integer(k, "rot90", "k") % 4
    if turns == 2:
        m = flip(m, pair)
    elif turns == 1:
        m = swapaxes(flip(m, second), first, second)
    elif turns == 3:
        m = flip(swapaxes(m, first, second), second)
    return m


@public
def rollaxis(a: Any, axis: int, start: int = 0, *, out_sharding: Any = None) -> Array:
    """Move an axis in front of another axis; `moveaxis` is easier to use.

    Args:
      axis: the axis to move.
      start: the other axis.

    Raises:
      ArgumentError: an axis does not exist.
    """
    source = one_from_end(axis, a.ndim, "rollaxis") + a.ndim
    place = integer(start, "rollaxis", "start")
    if not -a.ndim <= place <= a.ndim:
        raise ArgumentError(
            f"rollaxis: start={start} is out of range for an array with ndim={a.ndim}; use "
            f"{-a.ndim} to {a.ndim}",
            argument="start",
            value=start,
            ndim=a.ndim,
        )
    place += a.ndim if place < 0 else 0
    return moveaxis(a, source, place - 1 if source < place else place)


def part(x: Any, axis: int, chosen: Any) -> Any:
    """Select the part of an array, on devices or on the host, along an axis.

    >>> import numpy as np
    >>> part(np.arange(6).reshape(2, 3), -1, slice(1, None)).tolist()
    [[1, 2], [4, 5]]
    """
    return x[(*(slice(None),) * (x.ndim + axis), chosen)]


def but_first(x: Any, axis: int) -> Any:
    """Drop the first slice along a dim, which is counted from the end."""
    return part(x, axis, slice(1, None))


def but_last(x: Any, axis: int) -> Any:
    """Drop the last slice along a dim, which is counted from the end."""
    return part(x, axis, slice(None, -1))


def lengthwise(x: Any, ndim: int, axis: int) -> Any:
    """Reshape a vector to an array with more dims, which has the vector along one of them."""
    shape = [1] * ndim
    shape[axis] = x.shape[0]
    return x.reshape(tuple(shape))
