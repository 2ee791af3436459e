"""The way in and out of a mapped function: dims of arguments get names, and are dims again outside.

A front end says which dims get which names. There are two kinds of dims:

- `vmap` and `xmap` name dims in any layout (`enter`, `leave`). For example, `x` of shape (5, 8),
  mapped along dim 1, is transposed to (8, 5). If its name lives on mesh axes, it also moves there.
- `shard_map` and `pmap` name the places of blocks on a mesh (`enter_blocks`, `leave_blocks`). Each
  device keeps its elements, in blocks of another shape.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from gpushard._array.array import ConcreteArray
from gpushard._ops.table.manipulation import transposed
from gpushard._placement.device_put import implicitly_put
from gpushard._transforms.values.frames import Frame, Names, Source, check_apart
from gpushard._transforms.values.labels import Labels
from gpushard._transforms.values.leaves import check_leaf, is_array
from gpushard._transforms.values.mapped import (
    Mapped,
    as_mapped,
    as_result,
    broadcast_along,
    mapped,
    sharding_of,
)
from gpushard._transforms.values.mapped_axes import check_axis
from gpushard._transforms.values.user_functions import place_of
from gpushard.errors import ArgumentError


def enter(x: Any, dims: tuple[int, ...], names: Names, frame: Frame, number: int) -> Any:
    """Make the value that a function sees of an argument: some dims get names.

    Args:
      x: an array, data on the host, or a value of the call around this one. A number without named
        dims stays as it is.
      dims: the dim of each name.
      names: the names, outer ones first.
      frame: the call.
      number: the number of the argument.
    """
    if not dims and not hasattr(x, "shape"):
        return x
    kind = type(x)
    lives = frame.mesh is not None and any([name.place for name in names])
    outer: Names = ()
    source: Source = (frame, number)
    straight = lives or frame.mesh is None
    if straight and (kind is ConcreteArray or (kind is not Mapped and is_array(x))):
        # Assignments to the argument change nothing that the function sees.
        value = x._as_it_is() if kind is ConcreteArray else copy.copy(x)
        frame.not_returned.add(id(value))
    else:
        x = as_mapped(x, frame)
        value, outer, source = x._value, x._names, x._source or source
    if dims != _FIRST and (order := _to_front(dims, len(outer), len(value._shape))):
        value = transposed(value, order)
    if outer:
        names = outer + names
    if len(names) > 1:
        check_apart(names)
    if lives:
        value = _move_to_places(value, names, frame)
    return mapped(value, names, frame, source)


def leave(x: Mapped, dims: tuple[int, ...], names: Names, frame: Frame) -> Any:
    """Make a result of a function an array in which some names are dims again.

    Args:
      x: the value.
      dims: the dim of each name in the result.
      names: the names, outer ones first.
      frame: the call.

    Returns:
      An array; a value of the call around this one where there is one.
    """
    outer: Names = ()
    if x._names != names:
        outer = tuple([name for name in x._names if name not in names])
        x = broadcast_along(x, outer + names)
    value = x._value
    if frame.mesh is not None and any([name.place for name in names]):
        value = _move_to_places(value, outer + names, frame)
    if dims != _FIRST and (order := _to_front(dims, len(outer), len(value._shape))):
        value = transposed(value, [order.index(dim) for dim in range(len(order))])
    return as_result(value, outer, frame, x._source)


_FIRST = (0,)


@functools.lru_cache(maxsize=1024)
def _to_front(dims: tuple[int, ...], lead: int, ndim: int) -> list[int] | None:
    """Order dims so that some come right after the first `lead`; None if they do already. Pure."""
    rest = [dim for dim in range(ndim - lead) if dim not in dims]
    order = [*range(lead), *[lead + dim for dim in (*dims, *rest)]]
    return None if order == list(range(ndim)) else order


def _move_to_places(value: Any, names: Names, frame: Frame) -> Any:
    """Move a value to the places of the names of its first dims."""
    sharding = sharding_of(value, names, frame.mesh)
    if sharding is None or value._sharding == sharding:
        return value
    return value._moved(sharding, frame.what)


def enter_blocks(x: Any, labels: Labels, names: Names, frame: Frame, source: Source) -> Mapped:
    """Make the value that a function sees of an argument: a block at a place with names.

    Args:
      x: an array, or data on the host; it moves to the devices of its blocks.
      labels: the shardings without and with named dims.
      names: all of its named dims.
      frame: the call.
      source: the argument that it comes from.
    """
    if not is_array(x):
        x = implicitly_put(x, frame.what, labels.whole)
    elif x._held().tiling is not labels.whole_tiling and x._sharding != labels.shown:
        x = x._moved(labels.whole, frame.what)
    value = x._relabel(labels.named_tiling, labels.named, inside=True)
    frame.not_returned.add(id(value))
    return mapped(value, names, frame, source)


def leave_blocks(x: Mapped, labels: Labels, outer: Names, frame: Frame) -> Any:
    """Make a result of a function an array of blocks in their places.

    Args:
      x: the value.
      labels: the shardings with and without the names of this call.
      outer: its named dims of enclosing calls.
      frame: the call.

    Returns:
      An array; a value of the call around this one where there is one.
    """
    value, old = x._value, labels.named_tiling
    if value._held().tiling is not old:
        value = value._moved(labels.named, frame.what)
    sharding, new = labels.shown, labels.shown_tiling
    if frame.outer is not None:
        sharding, new = labels.whole, labels.whole_tiling
    if new is not old or value._sharding != sharding:
        value = value._relabel(new, sharding)
    return as_result(value, outer, frame, x._source)


def check_result(
    x: Any, axis: Any, arg: str, frame: Frame, f: Callable[..., Any]
) -> tuple[Mapped, int | None]:
    """Check a result of a function that is mapped along one dim, and count its place from 0.

    Args:
      x: the result.
      axis: where the dim is to be in it; None where it has none.
      arg: what errors call the result.
      frame: the call.
      f: the function.
    """
    if type(x) is not Mapped:
        check_leaf(x, frame.what, arg)
    x = as_mapped(x, frame)
    if axis is None:
        check_constant(x, (), frame, f, arg, ("out_axes", None), "out_axes=0")
    elif axis != 0 or type(axis) is not int:
        axis = check_axis(axis, len(x._shape) + 1, frame.what, "out_axes", arg)
    return x, axis


def check_constant(
    x: Mapped,
    placed: Names,
    frame: Frame,
    f: Callable[..., Any],
    arg: str,
    place: tuple[str, Any],
    way: str,
) -> None:
    """Check that a result varies only along those named dims of a call that have a place in it.

    Args:
      x: the result.
      placed: the named dims that have a place.
      frame: the call.
      f: the function.
      arg: what errors call the result.
      place: the argument that says where its dims go, and what it says.
      way: how to give these dims a place, for the error.

    Raises:
      ArgumentError: it varies along one of them.
    """
    varies = [name for name in x._names if name in frame.dims and name not in placed]
    if varies:
        argument, entry = place
        called = [name.name for name in varies if name.name is not None]
        axes = ", ".join(
            f"an axis of {name.size} elements" if name.name is None else repr(name.name)
            for name in varies
        )
        wanted = repr(called[0] if len(called) == 1 else tuple(called))
        sums = f", or return gpushard.lax.psum(x, {wanted})" if called else ""
        raise ArgumentError(
            f"{frame.what} ({place_of(f)}): {arg} varies along {axes}, and {argument}={entry} has "
            f"no place for it. Try: {way}{sums}",
            argument=argument,
            spec=entry,
            axes=tuple(called),
        )
