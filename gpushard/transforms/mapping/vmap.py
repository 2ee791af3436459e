"""`vmap`: a function of arrays, for all elements along a dim at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from itertools import count, repeat
from typing import Any, TypeVar

from gpushard.array.array import ConcreteArray
from gpushard.errors import ArgumentError, MeshError
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.ops.table.movement import transposed
from gpushard.placement.defaults import get_mesh
from gpushard.transforms.values.frames import Frame, NamedDim, Names, Source, innermost
from gpushard.transforms.values.mapped import (
    Mapped,
    as_mapped,
    as_result,
    mapped,
    sharding_of,
    spread,
)
from gpushard.transforms.values.signature import (
    by_position,
    check_axis,
    check_function,
    check_leaf,
    check_mapped,
    each_result,
    labelled,
    mapped_arguments,
    place_of,
    title,
)

_F = TypeVar("_F", bound=Callable[..., Any])


def vmap(
    fun: _F,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: str | tuple[str, ...] | None = None,
) -> _F:
    """Map a function over a dim of its arguments, for all elements at once.

    The function sees arrays without that dim, and is called once.

    Args:
      fun: the function.
      in_axes: for each argument the dim, counted from either end, or None for what is the same for
        all elements; or a pytree of these that is a prefix of the arguments. Keyword arguments are
        mapped over their first dim.
      out_axes: where the results have the dim, likewise; None for results that do not differ.
      axis_name: the name by which the collectives of `gpushard.lax` find the dim.
      axis_size: how long it is; needed where no argument has it.
      spmd_axis_name: the mesh axes that the dim is to be split over. By default it lies as the
        arguments do.

    Returns:
      The function of arrays that have the dim.

    Raises:
      ArgumentTypeError: an argument has a type that cannot be used; fun is no function; axis_size
        is no integer.
      ArgumentError: no argument is mapped, lengths differ, or an axis is beyond an argument.

    >>> import gpushard as gs
    >>> dot = gs.vmap(gs.numpy.dot, in_axes=(0, None))
    >>> dot(gs.numpy.asarray([[1, 2], [3, 4]]), gs.numpy.asarray([1, 10]))
    Array([21, 43], dtype=int64)
    """
    check_function(fun, "vmap")
    what = title("vmap", fun)
    size_said = check_mapped(axis_name, axis_size, what)
    in_axes = by_position(in_axes)
    place = (spmd_axis_name,) if isinstance(spmd_axis_name, str) else spmd_axis_name

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        label = labelled(fun, args, kwargs)
        leaves, axes, size, together = mapped_arguments(
            args, kwargs, in_axes, size_said, label, (what, "in_axes")
        )
        mesh = None if place is None else _mesh_with(place, leaves)
        frame = Frame(what, mesh, label)
        name = frame.name(axis_name, size, place=place)
        inside = list(map(inner, leaves, axes, repeat(name), repeat(frame), count()))
        with frame:
            own_args, own_kwargs = together(inside)
            out = fun(*own_args, **own_kwargs)
            if place is not None and not name.is_settled:
                raise MeshError(
                    f"{what}: spmd_axis_name={spmd_axis_name!r} names axes of no mesh that is "
                    "known here; lay out an argument over one that has them, or call it within "
                    "gpushard.set_mesh(mesh)",
                    argument="spmd_axis_name",
                    axes=spmd_axis_name,
                )
            return each_result(out, out_axes, outer, name, frame, fun)

    return call  # type: ignore[return-value]


def inner(x: Any, axis: int | None, name: NamedDim, frame: Frame, number: int) -> Any:
    """Return what a function sees of an argument."""
    if axis is None and not hasattr(x, "shape"):
        return x
    source: Source = (frame, number)
    names: Names = ()
    if type(x) is not ConcreteArray or frame.mesh is not None:
        x = as_mapped(x, frame)
        value, names = x._value, x._names
        if axis is None and x._source is not None:
            source = x._source
    else:
        # Assignments to the argument change nothing that the function sees.
        value = x._as_it_is()
        frame.not_returned.add(id(value))
    if axis is None:
        return mapped(value, names, frame, source)
    lead = len(names)
    if axis:
        order = [*range(lead), lead + axis]
        order += [dim for dim in range(lead, value.ndim) if dim != lead + axis]
        value = transposed(value, order)
    names = (*names, name)
    if name.place is not None:
        value = _placed(value, names, frame)
    return mapped(value, names, frame, source)


def _placed(value: Any, names: Names, frame: Frame) -> Any:
    """Return a value whose first dims have names where the last of them lives."""
    sharding = sharding_of(value, names, frame.mesh)
    if sharding is None or value._sharding == sharding:
        return value
    return value._moved(sharding, "vmap")


def outer(x: Any, axis: Any, arg: str, name: NamedDim, frame: Frame, fun: Any) -> Any:
    """Return a result with the mapped dim where it is wanted."""
    if type(x) is not Mapped:
        check_leaf(x, frame.what, arg)
        x = as_mapped(x, frame)
    x._check_open()
    if axis is None:
        if name in x._names:
            raise ArgumentError(
                f"{frame.what} ({place_of(fun)}): out_axes=None for {arg}, which differs between "
                f"the {name.size} elements; give the dim where it goes, or reduce it",
                argument="out_axes",
                size=name.size,
            )
        return as_result(x._value, x._names, frame, x._source)
    if axis != 0 or type(axis) is not int:
        axis = check_axis(axis, len(x._shape) + 1, frame.what, "out_axes", arg)
    if name not in x._names:
        x = spread(x, (*x._names, name))
    value, lead = x._value, len(x._names) - 1
    if name.place is not None:
        value = _placed(value, x._names, frame)
    if axis:
        order = [*range(lead), *range(lead + 1, value.ndim)]
        order.insert(lead + axis, lead)
        value = transposed(value, order)
    return as_result(value, x._names[:-1], frame, x._source)


def _mesh_with(axes: tuple[str, ...], leaves: Sequence[Any]) -> Mesh | None:
    """Return the mesh that has the axes which a dim is to be split over, if it is known yet."""
    around = innermost()
    meshes = [None if around is None else around.mesh]
    own = [getattr(leaf, "_sharding", None) for leaf in leaves]
    meshes += [s.mesh for s in own if isinstance(s, NamedSharding) and isinstance(s.mesh, Mesh)]
    every = (mesh for mesh in (*meshes, get_mesh()) if mesh is not None)
    return next((mesh for mesh in every if set(axes) <= set(mesh.axis_names)), None)
