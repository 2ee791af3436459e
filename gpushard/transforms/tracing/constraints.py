"""Where arguments, results and other values of a function lie, as its user says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard.array.array import Array
from gpushard.array.aval import ShapeDtypeStruct
from gpushard.errors import ArgumentError, ShardingError
from gpushard.functions.checks import place_tiling
from gpushard.geometry.format import Format
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import UNCONSTRAINED, PartitionSpec
from gpushard.geometry.sharding import Sharding
from gpushard.placement.device_put import as_sharding, implicitly_put
from gpushard.transforms.graph.steps import closed
from gpushard.transforms.tracing.trace import Tracer
from gpushard.transforms.values.frames import settle
from gpushard.transforms.values.mapped import Mapped, mapped
from gpushard.transforms.values.signature import check_leaf, in_form_of

__all__ = ["with_sharding_constraint"]


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Say where arrays lie, in a function that is traced; elsewhere move them there.

    In `gpushard.jit` this is a constraint: what makes the arrays, and what takes them, is laid out
    so that as few bytes move as can be found.

    Args:
      x: an array or a pytree of them.
      shardings: a `Sharding`, a `Format`, or a `PartitionSpec` over the mesh of `with mesh:` or
        `set_mesh`; or a prefix pytree of these. Dims that are `P.UNCONSTRAINED` stay as they come
        or, in a traced function, are split as is best.

    Returns:
      Arrays in the structure of `x`.

    Raises:
      ArgumentTypeError: a sharding is none, or what is in `x` is no array.
      NoMeshError: a `PartitionSpec` without a mesh.
      ShardingError: a sharding does not fit a shape.
      TreeError: `shardings` is no prefix of `x`.

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
    given = [
        leaf if isinstance(leaf, Array) else implicitly_put(leaf, "with_sharding_constraint")
        for leaf in leaves
    ]
    ends = []
    for value, place in zip(given, places, strict=True):
        if place is None:
            raise ArgumentError(
                "with_sharding_constraint: shardings has None; give a Sharding, or P.UNCONSTRAINED "
                "for dims that may lie as is best",
                argument="shardings",
            )
        ends.append(as_sharding(place, value.ndim, "shardings", auto=True))
    for value, end in zip(given, ends, strict=True):  # before any is moved
        place_tiling(closed(end, None), value.shape)
    moved = [_constrained(value, end) for value, end in zip(given, ends, strict=True)]
    return tree.unflatten(structure, moved)


def _constrained(x: Any, sharding: Sharding) -> Any:
    """Return a value where a sharding says, which may leave dims open."""
    if not isinstance(x, Mapped):
        if isinstance(x, Tracer):
            return x.constrained(sharding)
        return x._moved(closed(sharding, x.sharding), "with_sharding_constraint")
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
        settle(x._frame, sharding.mesh)
    taken = {axis for name in x._names for axis in name.place or ()}
    if not isinstance(sharding, NamedSharding) or taken & set(sharding.spec.all_axes()):
        raise ShardingError(
            f"with_sharding_constraint: shardings={sharding} uses the mesh axes {sorted(taken)}, "
            "over which the function is mapped; name others",
            argument="shardings",
        )
    spec = PartitionSpec(*[UNCONSTRAINED for _ in x._names], *sharding.spec)
    value = _constrained(x._value, sharding.with_spec(spec))
    return mapped(value, x._names, x._frame, x._source)


def _places(full: Any, prefix: Any, argument: str) -> list[Any]:
    """Return the placement of each leaf of a tree, from a prefix of it; None where it is open."""
    subject = "the arguments" if argument == "in_shardings" else "the results"
    found = []
    for place in tree.broadcast_prefix(
        in_form_of(prefix, full), full, lambda x: x is None, names=(argument, subject)
    ):
        open_ended = isinstance(place, Format) and place.sharding is None
        found.append(None if open_ended else place)
    return found


def _place(place: Any, ndim: int, argument: str) -> Sharding:
    """Return the sharding of an argument or a result, which says how each dim is split."""
    sharding = as_sharding(place, ndim, argument, auto=True)
    if isinstance(sharding, NamedSharding) and sharding.leaves_open:
        raise ShardingError(
            f"{argument} has {sharding}, which leaves a dim UNCONSTRAINED; use None, or "
            "lax.with_sharding_constraint in the function",
            argument=argument,
            spec=sharding.spec,
        )
    return sharding


def laid_out(leaves: Sequence[Any], full: Any, prefix: Any, argument: str) -> list[Any]:
    """Return values where a prefix tree of shardings says."""
    found = []
    for x, place in zip(leaves, _places(full, prefix, argument), strict=True):
        if place is not None:
            x = x._moved(_place(place, x.ndim, argument), argument)
        found.append(x)
    return found


def placed(
    leaves: Sequence[Any],
    args: Any,
    kwargs: Any,
    prefix: Any,
    what: str,
    label: Callable[[int], str],
) -> list[Any]:
    """Return arguments where `in_shardings` say; those that users placed have to be there."""
    if kwargs:
        raise ArgumentError(
            f"{what}: in_shardings with the keyword arguments {sorted(kwargs)}; pass "
            "them by position",
            argument="in_shardings",
        )
    places = _places(args, prefix, "in_shardings")
    ends = [
        None if place is None else _place(place, np.ndim(x), "in_shardings")
        for x, place in zip(leaves, places, strict=True)
    ]
    found: list[Any] = []
    for number, (x, end) in enumerate(zip(leaves, ends, strict=True)):
        if end is None:
            found.append(x)
            continue
        own = x.sharding if isinstance(x, ShapeDtypeStruct) or _is_committed(x) else None
        try:
            there = own is not None and (own == end or own.is_equivalent_to(end, len(x.shape)))
            if own is None and isinstance(x, ShapeDtypeStruct):
                x = ShapeDtypeStruct(x.shape, x.dtype, end, x.weak_type)
            elif own is None:
                x = implicitly_put(x, what, end)
        except ShardingError as error:
            raise ShardingError(f"{what}: {label(number)}: {error}", **error.facts) from None
        found.append(x)
        if own is not None and not there:
            raise ShardingError(
                f"{what}: {label(number)} lies as {x.sharding}, and in_shardings say "
                f"{end}; move it with gpushard.reshard first, or leave in_shardings out",
                argument="in_shardings",
            )
    mesh = next((end.mesh for end in ends if isinstance(end, NamedSharding)), None)
    if mesh is None:
        return found
    everywhere = NamedSharding(mesh, PartitionSpec())
    return [
        x if end is not None or hasattr(x, "sharding") else implicitly_put(x, what, everywhere)
        for x, end in zip(found, ends, strict=True)
    ]


def _is_committed(x: Any) -> bool:
    return isinstance(x, Array) and x.committed


def check_devices(leaves: Sequence[Any], what: str, label: Callable[[int], str]) -> None:
    """Check that users have put no two arguments on different devices."""
    first: tuple[int, Any] | None = None
    for number, x in enumerate(leaves):
        if not (isinstance(x, Array) and x.ndim and x.committed):
            continue
        devices = x.sharding.device_set
        if first is None:
            first = number, devices
        elif devices != first[1]:
            names = [sorted(map(str, own)) for own in (first[1], devices)]
            raise ShardingError(
                f"{what}: {label(first[0])} is on {', '.join(names[0])}, {label(number)} on "
                f"{', '.join(names[1])}; move one of them with gpushard.reshard",
                argument="args",
                devices=(first[1], devices),
            )
