"""Apply the shardings that users ask for: of arguments, of results, and of values in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._array.array import Array
from gpushard._array.shape_dtype import ShapeDtypeStruct
from gpushard._geometry.memory_layout import Format
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import UNCONSTRAINED, PartitionSpec
from gpushard._geometry.sharding import Sharding
from gpushard._movement.sharding_devices import place_tiling
from gpushard._placement.device_put import as_sharding, implicitly_put
from gpushard._transforms.graph.layouts import closed
from gpushard._transforms.tracing.trace import Tracer
from gpushard._transforms.values.frames import place_pending_dims
from gpushard._transforms.values.leaves import check_leaf, match_container
from gpushard._transforms.values.mapped import Mapped, mapped
from gpushard.errors import ArgumentError, ShardingError

__all__ = ["with_sharding_constraint"]


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Set the sharding of an intermediate value of a traced function, or of arrays elsewhere.

    In a function that `jit` traces, you decide the sharding of an intermediate value. `jit` then
    chooses shardings for the operations before and after it so that few bytes move. Outside traced
    functions, the arrays move at once.

    Args:
      x: an array or a pytree of arrays.
      shardings: a `Sharding`, a `Format`, or a `PartitionSpec` over the current mesh; or a pytree
        of these that is a prefix of `x`. A dim with the entry `P.UNCONSTRAINED` keeps its split; in
        a traced function, `jit` chooses its split.

    Returns:
      Arrays in the structure of `x`.

    Raises:
      ArgumentTypeError: an entry of `shardings` is not a sharding, or a leaf of `x` is not an
        array.
      ArgumentError: an entry of `shardings` is None.
      NoMeshError: an entry is a `PartitionSpec`, and there is no current mesh.
      ShardingError: a sharding does not fit the shape of its array.
      TreeError: `shardings` is not a prefix of `x`.

    >>> import gpushard as gs
    >>> mesh = gs.make_mesh((4, 2), ("x", "y"))
    >>> @gs.jit
    ... def f(x):
    ...     rows = gs.lax.with_sharding_constraint(x + 1, gs.NamedSharding(mesh, gs.P("x")))
    ...     return rows * 2
    >>> f(gs.numpy.zeros((8, 8))).sharding.spec
    PartitionSpec('x')
    """
    leaves, structure = tree.flatten(x)
    names = "shardings", "x"
    places = tree.broadcast_prefix(shardings, x, lambda place: place is None, names=names)
    for leaf in leaves:
        check_leaf(leaf, "with_sharding_constraint", "x")
    values = [
        leaf if isinstance(leaf, Array) else implicitly_put(leaf, "with_sharding_constraint")
        for leaf in leaves
    ]
    ends = []
    for value, place in zip(values, places, strict=True):
        if place is None:
            raise ArgumentError(
                "with_sharding_constraint: shardings has None; give a Sharding. Try: "
                "P.UNCONSTRAINED, for an axis that jit may split as it likes",
                argument="shardings",
            )
        ends.append(as_sharding(place, value.ndim, "shardings", auto=True))
    for value, end in zip(values, ends, strict=True):  # before any is moved
        place_tiling(closed(end, None), value.shape)
    moved = [_constrain(value, end) for value, end in zip(values, ends, strict=True)]
    return tree.unflatten(structure, moved)


def _constrain(x: Any, sharding: Sharding) -> Any:
    """Constrain one value to a sharding, which may leave dims open."""
    if not isinstance(x, Mapped):
        if isinstance(x, Tracer):
            return x.constrain(sharding)
        return x._moved(closed(sharding, x.sharding), "with_sharding_constraint")
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
        place_pending_dims(x._frame, sharding.mesh)
    taken = {axis for name in x._names for axis in name.place or ()}
    if not isinstance(sharding, NamedSharding) or taken & set(sharding.spec.all_axes()):
        raise ShardingError(
            f"with_sharding_constraint: shardings={sharding} uses the mesh axes {sorted(taken)}, "
            "over which the function is mapped; use other axes",
            argument="shardings",
        )
    spec = PartitionSpec(*[UNCONSTRAINED for _ in x._names], *sharding.spec)
    value = _constrain(x._value, sharding.with_spec(spec))
    return mapped(value, x._names, x._frame, x._source)


def _expand_prefix(full: Any, prefix: Any, argument: str) -> list[Any]:
    """Expand a prefix tree of shardings to one entry per leaf; None where the layout is open."""
    subject = "the arguments" if argument == "in_shardings" else "the results"
    places = []
    for place in tree.broadcast_prefix(
        match_container(prefix, full), full, lambda x: x is None, names=(argument, subject)
    ):
        open_ended = isinstance(place, Format) and place.sharding is None
        places.append(None if open_ended else place)
    return places


def _closed_sharding(place: Any, ndim: int, argument: str) -> Sharding:
    """Convert an entry of in_shardings or out_shardings to a sharding that leaves no dim open."""
    sharding = as_sharding(place, ndim, argument, auto=True)
    if isinstance(sharding, NamedSharding) and sharding.leaves_open:
        raise ShardingError(
            f"{argument} has {sharding}, which leaves an axis UNCONSTRAINED. Try: None, or "
            "lax.with_sharding_constraint in the function",
            argument=argument,
            spec=sharding.spec,
        )
    return sharding


def apply_shardings(leaves: Sequence[Any], full: Any, prefix: Any, argument: str) -> list[Any]:
    """Move values to the shardings of a prefix tree; values with the entry None stay."""
    moved = []
    for x, place in zip(leaves, _expand_prefix(full, prefix, argument), strict=True):
        if place is not None:
            x = x._moved(_closed_sharding(place, x.ndim, argument), argument)
        moved.append(x)
    return moved


def place_arguments(
    leaves: Sequence[Any],
    args: Any,
    kwargs: Any,
    prefix: Any,
    what: str,
    label: Callable[[int], str],
) -> list[Any]:
    """Place arguments by `in_shardings`; a committed argument must lie there already.

    Args:
      leaves: the leaves of the arguments.
      args: the positional arguments.
      kwargs: the keyword arguments; `in_shardings` cannot be given with any.
      prefix: `in_shardings`, a prefix tree of `args`.
      what: the function, for errors.
      label: returns the name of a leaf by its number, for errors.
    """
    if kwargs:
        raise ArgumentError(
            f"{what}: in_shardings cannot be used with keyword arguments, and {sorted(kwargs)} "
            "are passed by keyword; pass them by position",
            argument="in_shardings",
        )
    places = _expand_prefix(args, prefix, "in_shardings")
    ends = [
        None if place is None else _closed_sharding(place, np.ndim(x), "in_shardings")
        for x, place in zip(leaves, places, strict=True)
    ]
    arguments: list[Any] = []
    for number, (x, end) in enumerate(zip(leaves, ends, strict=True)):
        if end is None:
            arguments.append(x)
            continue
        actual = x.sharding if isinstance(x, ShapeDtypeStruct) or _is_committed(x) else None
        try:
            matches = actual is not None and (
                actual == end or actual.is_equivalent_to(end, len(x.shape))
            )
            if actual is None and isinstance(x, ShapeDtypeStruct):
                x = ShapeDtypeStruct(x.shape, x.dtype, end, x.weak_type)
            elif actual is None:
                x = implicitly_put(x, what, end)
        except ShardingError as error:
            raise ShardingError(f"{what}: {label(number)}: {error}", **error.facts) from None
        arguments.append(x)
        if actual is not None and not matches:
            raise ShardingError(
                f"{what}: {label(number)} has the sharding {x.sharding}, and in_shardings asks for "
                f"{end}; move it with gpushard.reshard first, or leave in_shardings out",
                argument="in_shardings",
            )
    mesh = next((end.mesh for end in ends if isinstance(end, NamedSharding)), None)
    if mesh is None:
        return arguments
    everywhere = NamedSharding(mesh, PartitionSpec())
    return [
        x if end is not None or hasattr(x, "sharding") else implicitly_put(x, what, everywhere)
        for x, end in zip(arguments, ends, strict=True)
    ]


def _is_committed(x: Any) -> bool:
    return isinstance(x, Array) and x.committed


def check_devices(leaves: Sequence[Any], what: str, label: Callable[[int], str]) -> None:
    """Check that no two committed arguments lie on different devices."""
    first: tuple[int, Any] | None = None
    for number, x in enumerate(leaves):
        if not (isinstance(x, Array) and x.ndim and x.committed):
            continue
        devices = x.sharding.device_set
        if first is None:
            first = number, devices
        elif devices != first[1]:
            names = [sorted(map(str, group)) for group in (first[1], devices)]
            raise ShardingError(
                f"{what}: {label(first[0])} is on {', '.join(names[0])}, {label(number)} on "
                f"{', '.join(names[1])}; move one of them with gpushard.reshard",
                argument="args",
                devices=(first[1], devices),
            )
