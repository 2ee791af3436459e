"""Functions that move elements: shapes, order of dims, repeating.

Dims that stay keep the mesh axes that split them; what has to move goes from shard to shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError
from gpushard.functions.checks import as_shape, count
from gpushard.numpy.arguments import as_source, as_value, integer, settle
from gpushard.ops.axes import from_end, one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.table import movement
from gpushard.typing import Shape


def expand_dims(a: Any, axis: Any = 0, *, out_sharding: Any = None) -> Array:
    """Return an array with new dims of length 1.

    Args:
      a: an array.
      axis: where they are in the result, an integer or a tuple of them.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: there is no such place, or it is named twice.
    """
    x = as_source(a, "expand_dims")
    many = len(axis) if isinstance(axis, tuple | list) else 1
    new = from_end(() if axis is None else axis, x.ndim + many, "expand_dims")
    entries = [None if at in new else slice(None) for at in range(-x.ndim - many, 0)]
    return settle(x[tuple(entries)], out_sharding)


def squeeze(a: Any, axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Return an array without dims of length 1.

    Args:
      a: an array.
      axis: which of them go; all by default.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: a dim is longer.
    """
    return settle(as_source(a, "squeeze").squeeze(axis), out_sharding)


def reshape(
    a: Any,
    shape: Any = None,
    order: Any = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """Return the elements in row-major order in another shape.

    Args:
      a: an array.
      shape: the sizes; one may be -1.
      order: must be "C".
      copy: True for memory of its own; otherwise it makes no difference.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: sizes do not fit.
    """
    found = as_source(a, "reshape").reshape(shape, order=order)
    return settle(found.copy() if copy else found, out_sharding)


def ravel(a: Any, order: Any = "C", *, out_sharding: Any = None) -> Array:
    """Return the elements in row-major order as one dim.

    Args:
      a: an array.
      order: must be "C".
      out_sharding: where the result goes; by default it stays where it was made.
    """
    return settle(as_source(a, "ravel").ravel(order), out_sharding)


def permute_dims(a: Any, axes: Any = None, *, out_sharding: Any = None) -> Array:
    """Return an array with its dims in another order; each keeps its mesh axes.

    Args:
      a: an array.
      axes: the dims in their new order; reversed by default.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: they are not all dims, once each.
    """
    x = as_source(a, "permute_dims")
    return settle(x.transpose(*(() if axes is None else (axes,))), out_sharding)


transpose = permute_dims


def swapaxes(a: Any, axis1: int, axis2: int, *, out_sharding: Any = None) -> Array:
    """Return an array with two dims exchanged.

    Args:
      a: an array.
      axis1: one dim.
      axis2: the other.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    return settle(as_source(a, "swapaxes").swapaxes(axis1, axis2), out_sharding)


def moveaxis(a: Any, source: Any, destination: Any, *, out_sharding: Any = None) -> Array:
    """Return an array with some dims moved; the others stay in order.

    Args:
      a: an array.
      source: where they are, an integer or a tuple.
      destination: where they go.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: there are no such dims, or not as many.
    """
    x = as_source(a, "moveaxis")
    olds = from_end(() if source is None else source, x.ndim, "moveaxis", "source")
    news = from_end(() if destination is None else destination, x.ndim, "moveaxis", "destination")
    if len(olds) != len(news):
        raise ArgumentError(
            f"moveaxis: source={source} names {len(olds)} dims and destination={destination} "
            f"{len(news)}; name as many",
            argument="destination",
            source=source,
            destination=destination,
        )
    order = [dim for dim in range(-x.ndim, 0) if dim not in olds]
    for new, old in sorted(zip(news, olds, strict=True)):
        order.insert(x.ndim + new, old)
    return settle(x.transpose(tuple(order)), out_sharding)


def flip(m: Any, axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Return an array with the elements along some dims in reverse order.

    Args:
      m: an array.
      axis: which dims; all by default.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_source(m, "flip")
    turned = from_end(axis, x.ndim, "flip")
    entries = [slice(None, None, -1 if dim in turned else 1) for dim in range(-x.ndim, 0)]
    return settle(x[tuple(entries)], out_sharding)


def flipud(m: Any, *, out_sharding: Any = None) -> Array:
    """Return an array with the elements along its first dim in reverse order.

    Args:
      m: an array.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    return flip(m, 0, out_sharding=out_sharding)


def fliplr(m: Any, *, out_sharding: Any = None) -> Array:
    """Return an array with the elements along its second dim in reverse order.

    Args:
      m: an array.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    return flip(m, 1, out_sharding=out_sharding)


def roll(a: Any, shift: Any, axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Return an array with elements shifted; those that leave come in at the other end.

    Args:
      a: an array.
      shift: by how many, an integer or one for each dim of `axis`.
      axis: along which dims; by default in row-major order.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: there are not as many shifts as dims.
    """
    x = as_value(a, "roll")
    if axis is None:
        steps = integer(shift, "roll", "shift") if not isinstance(shift, tuple | list) else None
        total = sum(integer(s, "roll", "shift") for s in shift) if steps is None else steps
        return settle(_rolled(x.ravel(), (total,), (-1,)).reshape(x.shape), out_sharding)
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple(one_from_end(one, x.ndim, "roll") for one in given)
    shifts = shift if isinstance(shift, tuple | list) else (shift,) * len(axes)
    if len(axes) == 1:
        axes *= len(shifts)
    elif len(shifts) == 1:
        shifts = tuple(shifts) * len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(
            f"roll: shift={shift} has {len(shifts)} numbers for the {len(axes)} dims of "
            f"axis={axis}; give one for each",
            argument="shift",
            shift=shift,
            axis=axis,
        )
    by = tuple(integer(s, "roll", "shift") for s in shifts)
    return settle(_rolled(x, by, axes), out_sharding)


def _rolled(x: Any, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    return bind(movement.ROLL, (x,), (shifts, axes)) if axes else x


def broadcast_shapes(*shapes: Any) -> Shape:
    """Return the shape that shapes broadcast to.

    Args:
      *shapes: the shapes.

    Raises:
      ArgumentError: they do not.
    """
    sizes = [as_shape(shape, "shapes") for shape in shapes]
    try:
        return np.broadcast_shapes(*sizes)
    except ValueError:
        raise _do_not_broadcast("broadcast_shapes", sizes) from None


def _do_not_broadcast(name: str, shapes: Sequence[Shape]) -> ArgumentError:
    return ArgumentError(
        f"{name}: shapes {', '.join(map(str, shapes))} do not broadcast; dims must be equal or 1, "
        "counted from the last",
        argument="shape",
        shapes=tuple(shapes),
    )


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Array:
    """Return an array with new dims in front and dims of length 1 repeated.

    Args:
      array: an array.
      shape: of the result.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: the array does not broadcast to it.
    """
    x, sizes = as_value(array, "broadcast_to"), as_shape(shape)
    own = (1,) * (len(sizes) - x.ndim) + x.shape
    fits = len(own) == len(sizes) and all(
        n in (1, size) for n, size in zip(own, sizes, strict=True)
    )
    if not fits:
        raise _do_not_broadcast("broadcast_to", (x.shape, sizes))
    found = x if x.shape == sizes else bind(movement.BROADCAST_TO, (x,), (sizes,))
    return settle(found, out_sharding)


def broadcast_arrays(*xs: Any, out_sharding: Any = None) -> tuple[Array, ...]:
    """Return arrays broadcast to one shape.

    Args:
      *xs: the arrays.
      out_sharding: where the results go; by default they stay where they were made.

    Raises:
      ArgumentError: they do not broadcast.
    """
    arrays = [as_value(x, "broadcast_arrays") for x in xs]
    shapes = [x.shape for x in arrays]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise _do_not_broadcast("broadcast_arrays", shapes) from None
    return tuple(broadcast_to(x, shape, out_sharding=out_sharding) for x in arrays)


def tile(A: Any, reps: Any, *, out_sharding: Any = None) -> Array:
    """Return an array several times in a row along its dims.

    Args:
      A: an array.
      reps: how often for each dim, counted from the last; more of them make new dims in front.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: a number is negative.
    """
    x = as_value(A, "tile")
    times = reps if isinstance(reps, tuple | list) else (reps,)
    checked = tuple(count(one, "tile", "reps") for one in times)
    return settle(bind(movement.TILE, (x,), (checked,)), out_sharding)


def repeat(
    a: Any,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array with each element several times in a row.

    Args:
      a: an array.
      repeats: how often, an integer; or one for each element along the dim, which is then made
        whole. Of those on devices the host reads the least and the sum.
      axis: along which dim; by default in row-major order.
      total_repeat_length: how long the dim is in the result, which is cut, or filled with its last
        element; the host then reads nothing.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: a number is negative, there are not as many, or there is no such dim.
    """
    x = as_value(a, "repeat")
    if total_repeat_length is None:
        return settle(x.repeat(repeats, axis), out_sharding)
    x, axis = (x.ravel(), 0) if axis is None else (x, axis)
    n = x.shape[one_from_end(axis, x.ndim, "repeat")]
    length = count(total_repeat_length, "repeat", "total_repeat_length")
    ends = broadcast_to(as_value(repeats, "repeat"), (n,)).cumsum()
    at = ends.searchsorted(np.arange(length), "right")
    return settle(x.take(at, axis, None, "clip"), out_sharding)


def diagonal(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, *, out_sharding: Any = None
) -> Array:
    """Return the diagonal of two dims as a new last one.

    Args:
      a: an array of at least two dims.
      offset: which diagonal: 0 for the main one, positive for one above it.
      axis1: the dim of rows.
      axis2: the dim of columns.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    return settle(as_value(a, "diagonal").diagonal(offset, axis1, axis2), out_sharding)


def _atleast(ndim: int, xs: Sequence[Any], name: str) -> Any:
    found = []
    for x in xs:
        x = as_value(x, name)
        missing = max(ndim - x.ndim, 0)
        found.append(x[(None,) * missing] if missing else x)
    return found[0] if len(found) == 1 else tuple(found)


@overload
def atleast_1d(x: Any, /) -> Array: ...


@overload
def atleast_1d(*xs: Any) -> tuple[Array, ...]: ...


def atleast_1d(*xs: Any) -> Any:
    """Return arrays with at least one dim.

    Args:
      *xs: the arrays.
    """
    return _atleast(1, xs, "atleast_1d")


@overload
def atleast_2d(x: Any, /) -> Array: ...


@overload
def atleast_2d(*xs: Any) -> tuple[Array, ...]: ...


def atleast_2d(*xs: Any) -> Any:
    """Return arrays with at least two dims; new ones come first.

    Args:
      *xs: the arrays.
    """
    return _atleast(2, xs, "atleast_2d")
