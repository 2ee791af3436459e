"""Functions that replace elements: `put`, `place`, `putmask` and `fill_diagonal`."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from gpushard._functions import nonzero_positions, take_elements
from gpushard._functions.assigned_placement import stays
from gpushard._functions.assigned_values import as_operand
from gpushard._functions.cumulative import cumsum
from gpushard._functions.docstrings import described
from gpushard._functions.index_bounds import as_int64, as_integers, bounded, unravelled
from gpushard._functions.updating import scattered
from gpushard._functions.values import Array, is_traced, is_value
from gpushard._functions.x_at import At
from gpushard._ops.bind import bind
from gpushard._ops.index_arrays import Indexed
from gpushard._ops.table.elementwise import WHERE
from gpushard.errors import ArgumentError, ArgumentTypeError


def target(x: Array, name: str, argument: str) -> Array:
    """Check the array that a function changes, or makes a changed copy of."""
    if not hasattr(x, "_renew"):
        raise ArgumentTypeError(
            f"{name} changes a gpushard array, {argument} is a {type(x).__name__}; use "
            f"numpy.{name} for data on the host, or inplace=False for a new array",
            argument=argument,
            type=type(x),
        )
    return x


def finished(x: Array, new: Array, inplace: bool) -> Array | None:
    """Give an array a new value, or return that; `new` may be the array itself."""
    if inplace:
        if new is not x:
            x._renew(new)
        return None
    return new if new is not x else copy.copy(x)


def _repeated(values: Any, length: int) -> Any:
    """Repeat values to a vector of some length.

    Returns:
      An array on the host or on devices; None if there are no values, or none are wanted.
    """
    array: Any = values if is_value(values) else np.asarray(values)
    if not array.size or not length:
        return None
    if array.size == 1:
        return array.reshape(1)
    flat = array.ravel()
    if array.size >= length:
        return flat[:length]
    at = np.arange(length) % array.size
    return take_elements.take(flat, at) if is_value(flat) else flat[at]


def _mask_for(x: Any, mask: Any, name: str, alike: str) -> Any:
    """Check a mask: `alike` says what it has in common with the array, "shape" or "size"."""
    array = nonzero_positions.as_mask(mask, "mask")
    if getattr(array, alike) != getattr(x, alike):
        raise ArgumentError(
            f"{name}: mask has shape {array.shape} and the array {x.shape}: different "
            f"{'shapes' if alike == 'shape' else 'numbers of elements'}; make them equal",
            argument="mask",
            shape=array.shape,
            expected=x.shape,
        )
    return array


_changing = described(
    a="the array to change.",
    arr="the array to change.",
    mode='what to do with positions out of bounds: "raise" (also None), "clip" or "wrap".',
    inplace="whether to change the array; if False, the result is a new array, and the argument\n"
    "    may be on the host.",
)


@_changing
def put(
    a: Array, ind: Any, v: Any, mode: str | None = "raise", *, inplace: bool = True
) -> Array | None:
    """Replace elements of an array at positions in row-major order.

    Args:
      ind: the positions.
      v: the new elements, which are repeated if there are fewer than positions.

    Raises:
      ArrayIndexError: a position is out of bounds.
    """
    x = target(a, "put", "a")
    at = as_integers(ind, "put").ravel()
    new = _repeated(v, at.shape[0])
    if new is not None or not x.size:  # NumPy does not look at the positions otherwise
        at = bounded(at, x.size, mode, "put")
    changed = x
    if new is not None and not x.shape:
        changed = At(x, ...).set(new[-1])
    elif new is not None:
        indexed = Indexed(tuple(range(-x.ndim, 0)), 0, (), True)
        dims = unravelled(as_int64(at) % x.size, x.shape)
        changed = scattered(x, indexed, dims, new, at.shape)
    return finished(x, changed, inplace)


@_changing
def put_along_axis(
    arr: Array,
    indices: Any,
    values: Any,
    axis: int | None = -1,
    *,
    inplace: bool = True,
    mode: str | None = "raise",
) -> Array | None:
    """Replace elements of an array at positions along an axis.

    Args:
      indices: the positions, an array with as many axes as `arr`; the other axes broadcast.
      values: the new elements; they are broadcast to the positions.
      axis: the axis; None flattens the array in row-major order.

    Raises:
      ArrayIndexError: a position is out of bounds.
      ArgumentError: the other axes, or the values, do not broadcast.
    """
    x = target(arr, "put_along_axis", "arr")
    flat, along = (x.ravel(), 0) if axis is None else (x, axis)
    indexed, at, shape = take_elements.along_axis(flat, indices, along, "put_along_axis", mode)
    new = scattered(flat, indexed, (at,), values, shape)
    if axis is None:
        new = At(x, ...).set(new.reshape(x.shape))
    return finished(x, new, inplace)


@_changing
def place(arr: Array, mask: Any, vals: Any, *, inplace: bool = True) -> Array | None:
    """Replace the elements where a mask is true: the first gets the first value, and so on.

    Args:
      mask: booleans, as many as the array has elements.
      vals: the values in order; they are repeated if there are too few.

    Raises:
      ArgumentError: the mask has another size than the array, or `vals` is empty.
    """
    x = target(arr, "place", "arr")
    chosen = _mask_for(x, mask, "place", "size").reshape(x.shape) != 0
    changed = x
    if is_traced(chosen) or is_traced(x):  # nobody knows how many are chosen
        new = _repeated(vals, x.size)
        if new is None and x.size:
            raise _no_values()
        if new is not None:
            new = as_operand(new, new.shape, x, None)
            if math.prod(new.shape) > 1:
                at = cumsum(chosen.ravel(), dtype=np.int64) - 1
                new = take_elements.take(new, at)
            new = new.reshape(x.shape if math.prod(new.shape) > 1 else ())
            changed = bind(WHERE, (chosen, new, x), ())
        return finished(x, changed, inplace)
    number = nonzero_positions.count_true(chosen)
    new = _repeated(vals, number)
    if new is None and number:
        raise _no_values()
    if new is not None and inplace:
        x[chosen] = new
    elif new is not None:
        changed = At(x, chosen).set(new)
    return finished(x, changed, inplace)


def _no_values() -> ArgumentError:
    return ArgumentError("place: there are no values; give at least one", argument="vals")


@_changing
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Replace the elements where a mask is true by the values at the same positions.

    Args:
      mask: booleans, of the shape of the array.
      values: the values in row-major order, repeated to the size of the array.

    Raises:
      ArgumentError: the mask has another shape than the array.
    """
    x = target(a, "putmask", "a")
    array = _mask_for(x, mask, "putmask", "shape")
    new = _repeated(values, x.size)
    if new is not None:
        new = as_operand(new if new.size == 1 else new.reshape(x.shape), x.shape, x, None)
        x._renew(bind(WHERE, (array, new, x), (), stays(x, array, new)))


@_changing
def fill_diagonal(a: Array, val: Any, wrap: bool = False, *, inplace: bool = True) -> Array | None:
    """Replace the elements of the main diagonal.

    Args:
      a: the array to change, with at least two axes.
      val: a number, or the new elements in order from the top, repeated if there are too few.
      wrap: whether the diagonal of a matrix with more rows than columns starts again below its end.

    Raises:
      ArgumentError: the array has fewer than two axes, or more than two of different lengths.
    """
    x = target(a, "fill_diagonal", "a")
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ArgumentError(
            f"fill_diagonal: a has shape {x.shape}; it needs two axes, or more of one length",
            argument="a",
            shape=x.shape,
        )
    step = 1 + int(np.cumprod(x.shape[:0:-1]).sum())
    end = x.size if wrap or x.ndim > 2 else min(x.size, x.shape[1] ** 2)
    return put(x, np.arange(0, end, step), val, inplace=inplace)
