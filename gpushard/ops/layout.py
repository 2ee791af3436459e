"""Where the operands of one operation go, and where its results lie."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import devices_of
from gpushard.ops.aval import Aval
from gpushard.ops.choose import Choice, Given, Target, choose, sharding_of
from gpushard.ops.operand import Frame, Operand, Scalar, Sharded, frame_of, given, no_mesh
from gpushard.ops.row import Params, Row, Splits
from gpushard.ops.rule import Dims, Rule
from gpushard.typing import Shape


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """One result of an operation."""

    aval: Aval
    """Shape and type."""

    sharding: Sharding
    """How it is laid out."""

    tiling: Tiling
    """The same for its shape."""


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """Where the operands and results of one call lie."""

    operands: tuple[tuple[Sharding, Tiling] | None, ...]
    """Of each operand when the kernel runs; None for Python numbers."""

    results: tuple[Result, ...]
    """The results."""

    choice: Choice | None
    """How the work is split, if over a mesh."""

    ends: tuple[Sharding | None, ...] = ()
    """Where results go in the end: back to the splits of dims that had to be whole; None where they
    lie already."""

    @property
    def tilings(self) -> list[Tiling]:
        """Boxes of the operands that are no Python numbers, when the kernel runs."""
        return [lies[1] for lies in self.operands if lies is not None]


def lay_out(
    row: Row,
    rule: Rule,
    operands: Sequence[Operand],
    found: Sequence[Aval],
    params: Params,
    out: Sharding | None,
) -> Layout:
    """Decide where operands go and where results lie, before they go where they were asked for."""
    frame = frame_of(row.name, operands)
    if not frame.meshes:
        return _without_mesh(frame, rule, operands, found)
    state_bytes = 0
    avals = [x.aval for x in operands]
    if row.reduction is not None:
        state_bytes = sum(t.itemsize for t in row.reduction.states(avals, params))
    meshes, target = frame.meshes, None
    if isinstance(out, NamedSharding) and out.device_set == set(meshes[0].assignment):
        assert isinstance(out.mesh, Mesh)
        meshes = (out.mesh,)
        axes = tuple(out.spec.axes(dim) for dim in range(len(found[0].shape)))
        target = Target(axes, found[0].dtype.itemsize)
    candidates = [
        (mesh, [given(x, mesh, x.aval.dtype.itemsize) for x in operands]) for mesh in meshes
    ]
    choice = choose(rule, candidates, state_bytes, target)
    make = functools.partial(sharding_of, choice.mesh, splits=choice.splits)
    places: list[tuple[Sharding, Tiling] | None] = []
    for x, dims in zip(operands, rule.operands, strict=True):
        if isinstance(x, Scalar):
            places.append(None)
            continue
        sharding: Sharding = make(dims)
        if isinstance(x, Sharded) and x.sharding == sharding:
            sharding = x.sharding
        places.append((sharding, sharding.tiling(x.aval.shape)))
    results = _results(found, rule, make, operands)
    at = meshes.index(choice.mesh)
    back = _given_back(rule, candidates[at][1]) if out is None else None
    ends = [
        None if back is None else sharding_of(choice.mesh, *_fitting(result.aval.shape, dims, back))
        for result, dims in zip(results, rule.results, strict=True)
    ]
    return Layout(tuple(places), results, choice, tuple(ends))


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


def _fitting(shape: Shape, dims: Dims, splits: Splits) -> tuple[Dims, Splits]:
    """Return dims and splits without those of dims that cannot be split, or are there twice."""
    kept = [
        factor if n > 1 and factor not in dims[:dim] else None
        for dim, (factor, n) in enumerate(zip(dims, shape, strict=True))
    ]
    return tuple(kept), splits


def _results(found: Sequence[Aval], rule: Rule, make: Any, operands: Sequence[Operand]) -> Any:
    results = []
    known = [x.sharding for x in operands if isinstance(x, Sharded)]
    for aval, dims in zip(found, rule.results, strict=True):
        sharding = make(dims)
        sharding = next((s for s in known if s == sharding), sharding)
        results.append(Result(aval, sharding, sharding.tiling(aval.shape)))
    return tuple(results)


def _without_mesh(
    frame: Frame, rule: Rule, operands: Sequence[Operand], found: Sequence[Aval]
) -> Layout:
    """Lay out what is on one device, or what has a user's own sharding throughout."""
    sharding = frame.fixed[0]
    if frame.single is None:
        whole = rule.results[0]
        alike = all(dims == whole or not any(d is not None for d in dims) for dims in rule.operands)
        same = all(dims == whole for dims in rule.results)
        if len(frame.fixed) > 1 or not alike or not same or rule.reduced or rule.whole:
            raise no_mesh(frame, [x.aval.shape for x in operands])
        if any(
            dims != whole and not isinstance(x, Scalar)
            for x, dims in zip(operands, rule.operands, strict=True)
        ):
            raise no_mesh(frame, [x.aval.shape for x in operands])
    places = [
        None if isinstance(x, Scalar) else (sharding, sharding.tiling(x.aval.shape))
        for x in operands
    ]
    results = tuple(Result(aval, sharding, sharding.tiling(aval.shape)) for aval in found)
    return Layout(tuple(places), results, None)


def in_sharding(result: Result, out: Sharding) -> Result:
    """Return a result in the sharding that was asked for.

    Raises:
      ShardingError: it does not fit the shape.
    """
    return Result(result.aval, out, out.tiling(result.aval.shape))


def refines(fine: Tiling, coarse: Tiling) -> bool:
    """Whether the box of every device lies within its box in another tiling."""
    if devices_of(fine) != devices_of(coarse):
        return False
    empty = fine.volumes == 0
    inside = (fine.starts >= coarse.starts) & (fine.stops <= coarse.stops)
    return bool((inside.all(axis=0) | empty).all())
