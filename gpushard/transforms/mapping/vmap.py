"""`vmap`: a function of arrays, for all elements along a dim at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import Any, TypeVar

from gpushard.errors import MeshError
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.placement.defaults import get_mesh
from gpushard.transforms.values.doors import checked_result, enter, leave
from gpushard.transforms.values.frames import Frame, innermost
from gpushard.transforms.values.signature import (
    by_position,
    check_function,
    check_mapped,
    each_result,
    labelled,
    mapped_arguments,
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
        inside = [
            enter(x, (), (), frame, n) if axis is None else enter(x, (axis,), frame.dims, frame, n)
            for n, x, axis in zip(count(), leaves, axes)
        ]
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
            return each_result(out, out_axes, _result, frame, fun)

    return call  # type: ignore[return-value]


def _result(x: Any, axis: Any, arg: str, frame: Frame, fun: Any) -> Any:
    """Return a result with the mapped dim where it is wanted."""
    x, axis = checked_result(x, axis, arg, frame, fun)
    return leave(x, (), (), frame) if axis is None else leave(x, (axis,), frame.dims, frame)


def _mesh_with(axes: tuple[str, ...], leaves: Sequence[Any]) -> Mesh | None:
    """Return the mesh that has the axes which a dim is to be split over, if it is known yet."""
    around = innermost()
    meshes = [None if around is None else around.mesh]
    own = [getattr(leaf, "_sharding", None) for leaf in leaves]
    meshes += [s.mesh for s in own if isinstance(s, NamedSharding) and isinstance(s.mesh, Mesh)]
    every = (mesh for mesh in (*meshes, get_mesh()) if mesh is not None)
    return next((mesh for mesh in every if set(axes) <= set(mesh.axis_names)), None)
