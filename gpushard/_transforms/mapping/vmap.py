"""`vmap`: map a function over an axis of its arguments, without a loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import Any, TypeVar

from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._placement.default_placement import get_mesh
from gpushard._transforms.values.enter_leave import check_result, enter, leave
from gpushard._transforms.values.frames import Frame, innermost
from gpushard._transforms.values.leaves import by_position, each_result, label_arguments
from gpushard._transforms.values.mapped_axes import check_axis_name, mapped_arguments
from gpushard._transforms.values.user_functions import check_function, title
from gpushard.errors import MeshError

_F = TypeVar("_F", bound=Callable[..., Any])


def vmap(
    fun: _F,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: str | tuple[str, ...] | None = None,
) -> _F:
    """Vectorize a function: map it over an axis of its arguments, all elements at once.

    The function sees arrays without the mapped axis. Python calls the function once, and each of
    its operations runs for all elements.

    Args:
      fun: the function.
      in_axes: for each positional argument the axis to map over, or None to pass the whole argument
        for every element. Negative axes count from the end. May be a pytree that is a prefix of the
        arguments. Keyword arguments are mapped over axis 0.
      out_axes: for each result the position of the mapped axis, or None if the result is equal for
        all elements. May be a pytree that is a prefix of the result.
      axis_name: a name for the mapped axis, for the collectives of `gpushard.lax`.
      axis_size: the size of the mapped axis; needed if `in_axes` is None for all arguments.
      spmd_axis_name: the mesh axes to split the mapped axis over. By default the mapped axis is
        split as in the arguments.

    Returns:
      A function that takes and returns arrays with the mapped axis.

    Raises:
      ArgumentTypeError: `fun` is not a function, `axis_size` is not an integer, or an argument is
        neither an array nor a number.
      ArgumentError: no argument is mapped, the sizes of mapped axes differ, or an argument does not
        have its axis.
      MeshError: the current mesh does not have the axes in `spmd_axis_name`.

    >>> import gpushard as gs
    >>> dot = gs.vmap(gs.numpy.dot, in_axes=(0, None))
    >>> dot(gs.numpy.asarray([[1, 2], [3, 4]]), gs.numpy.asarray([1, 10]))
    Array([21, 43], dtype=int64)
    """
    check_function(fun, "vmap")
    what = title("vmap", fun)
    known_size = check_axis_name(axis_name, axis_size, what)
    in_axes = by_position(in_axes)
    place = (spmd_axis_name,) if isinstance(spmd_axis_name, str) else spmd_axis_name

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        label = label_arguments(fun, args, kwargs)
        leaves, axes, size, together = mapped_arguments(
            args, kwargs, in_axes, known_size, label, (what, "in_axes")
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
            if place is not None and not name.is_placed:
                raise MeshError(
                    f"{what}: spmd_axis_name={spmd_axis_name!r} names mesh axes, and no "
                    "mesh here has them. Try: call it within gpushard.set_mesh(mesh), or lay out "
                    "an argument over a mesh that has these axes",
                    argument="spmd_axis_name",
                    axes=spmd_axis_name,
                )
            return each_result(out, out_axes, _result, frame, fun)

    return call  # type: ignore[return-value]


def _result(x: Any, axis: Any, arg: str, frame: Frame, fun: Any) -> Any:
    """Put the mapped axis of a result where `out_axes` says."""
    x, axis = check_result(x, axis, arg, frame, fun)
    return leave(x, (), (), frame) if axis is None else leave(x, (axis,), frame.dims, frame)


def _mesh_with(axes: tuple[str, ...], leaves: Sequence[Any]) -> Mesh | None:
    """Find a mesh that has the axes in `spmd_axis_name`; None if no such mesh is known yet."""
    around = innermost()
    meshes = [None if around is None else around.mesh]
    places = [getattr(leaf, "_sharding", None) for leaf in leaves]
    meshes += [x.mesh for x in places if isinstance(x, NamedSharding) and isinstance(x.mesh, Mesh)]
    every = (mesh for mesh in (*meshes, get_mesh()) if mesh is not None)
    return next((mesh for mesh in every if set(axes) <= set(mesh.axis_names)), None)
