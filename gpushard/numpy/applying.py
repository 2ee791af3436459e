"""Functions of users applied to parts of arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy.arguments import as_value, is_number, is_value, settle
from gpushard.numpy.creation import asarray
from gpushard.numpy.joining import stack
from gpushard.numpy.manipulation import expand_dims, moveaxis
from gpushard.ops.axes import from_end, one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.table import elementwise as rows


def apply_along_axis(
    func1d: Callable[..., Any],
    axis: int,
    arr: Any,
    *args: Any,
    out_sharding: Any = None,
    **kwargs: Any,
) -> Array:
    """Return what a function gives for every vector along a dim, one call after the other.

    It takes a call for each vector, as NumPy's does: use functions that take `axis` where there
    are any.

    Args:
      func1d: takes a vector, which is an array on the devices; gives an array or a number.
      axis: along which dim.
      arr: the array.
      *args: what else it takes.
      out_sharding: where the result goes; by default it stays where it was made.
      **kwargs: likewise.

    Raises:
      ArgumentError: there are no vectors, or no such dim.

    >>> import gpushard as gs
    >>> apply_along_axis(gs.numpy.sum, 1, [[1, 2], [3, 4]])
    Array([3, 7], dtype=int64)
    """
    x = as_value(arr, "apply_along_axis")
    at = one_from_end(axis, x.ndim, "apply_along_axis")
    lines = moveaxis(x, at, -1)
    lead = lines.shape[:-1]
    if 0 in lead:
        raise ArgumentError(
            f"apply_along_axis: the array of shape {x.shape} has no vectors along axis={axis}, "
            "so that nothing says what the function gives",
            argument="x",
            shape=x.shape,
        )
    places = itertools.product(*(range(n) for n in lead))
    made = [asarray(func1d(lines[place], *args, **kwargs)) for place in places]
    found = stack(made).reshape((*lead, *made[0].shape))
    if made[0].ndim:  # the dims of results are where the dim was
        new = tuple(range(len(lead), found.ndim))
        start = x.ndim + at
        found = moveaxis(found, new, tuple(range(start, start + len(new))))
    return settle(found, out_sharding)


def apply_over_axes(
    func: Callable[[Any, int], Any], a: Any, axes: Any, *, out_sharding: Any = None
) -> Array:
    """Return what a function gives along one dim after the other; dims stay.

    Args:
      func: takes an array and a dim; gives an array with the dim of length 1 or without it.
      a: the array.
      axes: the dims.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: the function gives an array of other dims.
    """
    x = as_value(a, "apply_over_axes")
    for at in from_end(axes, x.ndim, "apply_over_axes", "axes"):
        found = asarray(func(x, x.ndim + at))
        if found.ndim == x.ndim - 1:
            found = expand_dims(found, x.ndim + at)
        if found.ndim != x.ndim:
            raise ArgumentError(
                f"apply_over_axes: the function gives {found.ndim} dims for an array of {x.ndim}; "
                "it may take out the one that it is given, or leave it with length 1",
                argument="func",
                ndim=found.ndim,
                expected=x.ndim,
            )
        x = found
    return settle(x, out_sharding)


def piecewise(
    x: Any,
    condlist: Any,
    funclist: Sequence[Any],
    *args: Any,
    out_sharding: Any = None,
    **kwargs: Any,
) -> Array:
    """Return a function that is defined by cases, the last condition that holds deciding.

    Args:
      x: an array.
      condlist: the conditions, arrays of booleans of its shape.
      funclist: for each a number, or a function of arrays; one more for all other elements, which
        are 0 by default. Every function is called for the whole array, NumPy calls it for a part.
      *args: what else functions take.
      out_sharding: where the result goes; by default it stays where it was made.
      **kwargs: likewise.

    Raises:
      ArgumentError: there are not as many functions as conditions, or one more.
      ArgumentTypeError: one is neither a number nor a function.

    >>> piecewise([-2.0, 3.0], [[True, False]], [-1.0, lambda x: x * 2])
    Array([-1.,  6.], dtype=float64)
    """
    x = as_value(x, "piecewise")
    conditions = _conditions(condlist, x)
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(
            f"piecewise: {len(funclist)} functions are given for {len(conditions)} conditions; "
            "give one for each, and at most one more",
            argument="funclist",
            functions=len(funclist),
            conditions=len(conditions),
        )
    has_default = len(funclist) > len(conditions)
    found = _case(funclist[-1] if has_default else 0, x, args, kwargs)
    for condition, function in zip(conditions, funclist, strict=False):
        found = bind(rows.WHERE, (condition, _case(function, x, args, kwargs), found))
    return settle(found, out_sharding)


def _conditions(condlist: Any, x: Any) -> list[Any]:
    """Return conditions as a list; a single one needs none around it."""
    single = is_value(condlist) and condlist.ndim == x.ndim
    if not is_value(condlist):
        first = condlist[0] if np.ndim(condlist) or isinstance(condlist, list | tuple) else condlist
        single = not isinstance(first, list | tuple | np.ndarray) and not is_value(first)
        single = single and x.ndim != 0
    each = [condlist] if single else list(condlist)
    return [as_value(one, "piecewise").astype(np.bool_) for one in each]


def _case(function: Any, x: Any, args: Any, kwargs: Any) -> Any:
    """Return the values of one case, in the type of the array."""
    if callable(function):
        return asarray(function(x, *args, **kwargs)).astype(x.dtype)
    if not is_number(function):
        raise ArgumentTypeError(
            f"piecewise: {function!r} must be a function or a number",
            argument="funclist",
            type=type(function),
        )
    return as_value(np.asarray(function).astype(x.dtype)[()], "piecewise")
