"""Where the operands of one operation go, and where its results lie."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from gpushard.frozen import dataclass
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.sharding import Sharding, SingleDeviceSharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import devices_of
from gpushard.ops.aval import Aval
from gpushard.ops.choose import Choice, Given, Target, choose, sharding_of
from gpushard.ops.operand import Frame, Operand, Scalar, as_written, frame_of, given, splits_of
from gpushard.ops.row import Params, Row, Splits
from gpushard.ops.rule import Dims, Rule
from gpushard.typing import Shape

PART = 64 << 10
"""What is taken is split only into parts of so many bytes: what follows on smaller ones costs more
calls than it saves bytes."""


@dataclass(frozen=True, eq=False)
class Result:
    """One result of an operation."""

    aval: Aval
    """Shape and type."""

    sharding: Sharding
    """How it is laid out."""

    tiling: Tiling
    """The same for its shape."""


@dataclass(frozen=True, eq=False)
class ShardedCall:
    """Where the operands and results of one call lie."""

    operands: tuple[tuple[Sharding, Tiling] | None, ...]
    """Of each operand when the kernel runs; None for Python numbers."""

    results: tuple[Result, ...]
    """The results."""

    choice: Choice | None
    """How the work is split, if over a mesh."""

    ends: tuple[Sharding, ...] = ()
    """Where results go in the end, if elsewhere: back to the splits of dims that had to be whole,
    or to those of dims that index arrays replaced."""

    @property
    def tilings(self) -> list[Tiling]:
        """Boxes of the operands that are no Python numbers, when the kernel runs."""
        return [lies[1] for lies in self.operands if lies is not None]


def sharded_call(
    row: Row,
    rule: Rule,
    operands: Sequence[Operand],
    found: Sequence[Aval],
    params: Params,
    out: Sharding | None,
) -> ShardedCall:
    """Decide where operands go and where results lie, before they go where they were asked for."""
    frame = frame_of(row.name, operands, None if out is None else (out, found[0].shape))
    if frame.single is not None or _stays(frame, rule, operands):
        return _without_mesh(frame.fixed[0], operands, found)
    state_bytes = 0
    avals = [x.aval for x in operands]
    if row.reduction is not None:
        state_bytes = sum(t.itemsize for t in row.reduction.states(avals, params))
    meshes, target = frame.meshes, None
    if isinstance(out, NamedSharding) and out.device_set == set(meshes[0].assignment):
        assert isinstance(out.mesh, Mesh)
        meshes = (out.mesh,)
        target = Target(splits_of(out, len(found[0].shape)), found[0].dtype.itemsize)
    candidates = [
        (mesh, [given(x, mesh, x.aval.dtype.itemsize) for x in operands]) for mesh in meshes
    ]
    taken = None
    if out is None and row.owners is not None:
        nbytes = math.prod(found[0].shape) * found[0].dtype.itemsize
        of_mesh = {mesh: _as_taken(rule, mesh, own, nbytes) for mesh, own in candidates}
        for mesh, taken in of_mesh.items():
            if taken is not None:
                candidates = [(m, own) for m, own in candidates if m is mesh]
                target = Target(_of_dims(rule.results[0], taken), found[0].dtype.itemsize)
                break
    choice = choose(rule, candidates, state_bytes, target)
    make = functools.partial(sharding_of, choice.mesh, splits=choice.splits)
    places = places_of(rule, choice.mesh, choice.splits, operands)
    results = tuple(
        in_sharding(aval, as_written(make(dims), len(dims), operands))
        for aval, dims in zip(found, rule.results, strict=True)
    )
    own = next(own for mesh, own in candidates if mesh is choice.mesh)
    back = taken or (_given_back(rule, own) if out is None else None)
    if back is None:
        return ShardedCall(places, results, choice)
    ends = [
        as_written(
            sharding_of(choice.mesh, _fitting(rule, aval.shape, dims), back), len(dims), operands
        )
        for aval, dims in zip(found, rule.results, strict=True)
    ]
    return ShardedCall(places, results, choice, tuple(ends))


def places_of(
    rule: Rule, mesh: Mesh, splits: Splits, operands: Sequence[Operand]
) -> tuple[tuple[Sharding, Tiling] | None, ...]:
    """Return where operands lie under an assignment; None for Python numbers."""
    places: list[tuple[Sharding, Tiling] | None] = []
    for x, dims in zip(operands, rule.operands, strict=True):
        if isinstance(x, Scalar):
            places.append(None)
            continue
        sharding = as_written(sharding_of(mesh, dims, splits), len(dims), [x])
        places.append((sharding, sharding.tiling(x.aval.shape)))
    return tuple(places)


def _given_back(rule: Rule, operands: Sequence[Given]) -> Splits | None:
    """Return the splits of all factors as operands came; None if no whole one was split.

    Operations that need a dim whole move it so, and give its axes back in the result.
    """
    found: dict[int, tuple[str, ...]] = {}
    for dims, operand in zip(rule.operands, operands, strict=True):
        for factor, axes in zip(dims, operand.axes or (), strict=False):
            taken = {axis for names in found.values() for axis in names}
            if factor is not None and axes and factor not in found and not taken & set(axes):
                found[factor] = axes
    if not rule.whole & found.keys():
        return None
    return tuple(found.get(factor, ()) for factor in range(len(rule.sizes)))


def _as_taken(rule: Rule, mesh: Mesh, operands: Sequence[Given], nbytes: int) -> Splits | None:
    """Return the splits of what is taken from an operand by others, which say where it is.

    Its dims stay split as they are, and those of the others as these are, by axes that are free.
    Where none is, the dim that replaces indexed ones gets their axes, if all parts are large.

    Args:
      rule: the first operand is what is taken from.
      mesh: the mesh.
      operands: as they lie.
      nbytes: bytes of what is taken.

    Returns:
      The splits of all factors; None if no indexed dim is split, or if splits contradict.
    """
    if operands[0].axes is None:
        return None
    axes = {
        factor: names
        for factor, names in zip(rule.operands[0], operands[0].axes, strict=True)
        if names and factor is not None
    }
    replaced = tuple(name for factor in rule.reduced for name in axes.pop(factor, ()))
    if not replaced:
        return None
    kept = {name for names in axes.values() for name in names}
    for dims, operand in zip(rule.operands[1:], operands[1:], strict=True):
        for factor, names in zip(dims, operand.axes or (), strict=False):
            free = tuple(name for name in names if name not in kept or factor in rule.operands[0])
            if free and factor is not None and axes.setdefault(factor, free) != free:
                return None
    new = [f for f in rule.results[0] if f is not None and f not in rule.operands[0]]
    if not any(factor in axes for factor in new):
        parts, others = (math.prod(mesh.shape[n] for n in names) for names in (replaced, kept))
        long = [factor for factor in new if rule.sizes[factor] >= parts]
        if long and nbytes >= parts * others * PART:
            axes[long[0]] = replaced
    used = [name for names in axes.values() for name in names]
    if len(set(used)) < len(used):
        return None
    return tuple(axes.get(factor, ()) for factor in range(len(rule.sizes)))


def splits_as(rule: Rule, mesh: Mesh, end: Sharding) -> Splits | None:
    """Return the splits that give the first result as a sharding has it; None if none do."""
    dims = rule.results[0]
    if not isinstance(end, NamedSharding) or end.memory_kind != "device" or end.mesh is not mesh:
        return None
    found = dict(zip(dims, splits_of(end, len(dims)), strict=True))
    if any(names and factor not in rule.splittable for factor, names in found.items()):
        return None
    return tuple(found.get(factor, ()) for factor in range(len(rule.sizes)))


def _of_dims(dims: Dims, splits: Splits) -> Splits:
    return tuple(() if factor is None else splits[factor] for factor in dims)


def _fitting(rule: Rule, shape: Shape, dims: Dims) -> Dims:
    """Return the dims of a result without those that are new and short, or there twice."""
    return tuple(
        factor
        if factor is not None and (n > 1 or rule.sizes[factor] == n) and factor not in dims[:dim]
        else None
        for dim, (factor, n) in enumerate(zip(dims, shape, strict=True))
    )


def _stays(frame: Frame, rule: Rule, operands: Sequence[Operand]) -> bool:
    """Whether everything has one user's own sharding, and the results can have it too."""
    dims = rule.results[0]
    arrays = [
        own for own, x in zip(rule.operands, operands, strict=True) if not isinstance(x, Scalar)
    ]
    return (
        not frame.named
        and len(frame.fixed) == 1
        and all(own == dims for own in (*arrays, *rule.results))
        and not rule.reduced
        and not rule.whole
    )


def _without_mesh(
    sharding: Sharding, operands: Sequence[Operand], found: Sequence[Aval]
) -> ShardedCall:
    """Lay out what is on one device, or what has a user's own sharding throughout."""
    places = [None if isinstance(x, Scalar) else _place(sharding, x.aval.shape) for x in operands]
    return ShardedCall(tuple(places), tuple(in_sharding(aval, sharding) for aval in found), None)


def _place(sharding: Sharding, shape: Shape) -> tuple[Sharding, Tiling]:
    """Return where an operand lies; a user's own sharding may know of no arrays without dims."""
    if not shape and sharding.num_devices == 1:
        (device,) = sharding.device_set
        sharding = SingleDeviceSharding(device)
    return sharding, sharding.tiling(shape)


def in_sharding(aval: Aval, sharding: Sharding) -> Result:
    """Return a result in a sharding.

    Raises:
      ShardingError: it does not fit the shape.
    """
    return Result(aval, sharding, sharding.tiling(aval.shape))


def refines(fine: Tiling, coarse: Tiling) -> bool:
    """Whether the box of every device lies within its box in another tiling."""
    if devices_of(fine) != devices_of(coarse):
        return False
    empty = fine.volumes == 0
    inside = (fine.starts >= coarse.starts) & (fine.stops <= coarse.stops)
    return bool((inside.all(axis=0) | empty).all())
