"""Decide the layouts of the operands and results of one operation."""

from __future__ import annotations

from collections.abc import Sequence

from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.sharding_devices import devices_of
from gpushard._ops.aval import Aval
from gpushard._ops.choose_split import Choice, Given, Price, Target, choose, of_dims, sharding_of
from gpushard._ops.committed import CommonDevices, common_devices, common_memory
from gpushard._ops.operand import Operand, Scalar, as_written, given, in_memory, splits_of
from gpushard._ops.row import Case, ShardedCall, Strategy
from gpushard._ops.rule import Dims, Rule, Splits
from gpushard._ops.steps import Result
from gpushard._runtime.runtime import Runtime
from gpushard._typing import Shape
from gpushard.errors import ArgumentTypeError, ShardingError


def sharded_call(case: Case) -> tuple[Strategy, ShardedCall | None]:
    """Choose the strategy, and all layouts unless the strategy lays out results itself."""
    row, avals = case.row, case.results  # this checks the operands
    prices = [strategy.price(case) for strategy in row.strategies]
    ways = [price for price in prices if price is not None]
    if len(ways) < len(prices):
        return row.strategies[-1], None
    check_available(case.runtime, row.name, (*case.avals, *avals))
    rule, memory = case.rule, common_memory(case.operands)
    operands = [in_memory(x, "device") for x in case.operands]
    out = case.out
    common = common_devices(row.name, operands, None if out is None else (out, avals[0].shape))
    sharding = common.fixed[0] if _stays(common, rule, operands) else common.single
    if sharding is not None:
        places, results = _without_mesh(sharding, operands, avals)
        ends = [result.sharding for result in results]
        call = ShardedCall(places, results, _in_the_end(case, ends, memory), None)
        return row.strategies[-1], call
    choice, back = _chosen(case, common, operands, ways)
    results = _results(case, choice.mesh, rule.results, choice.splits, operands)
    ends = [result.sharding for result in results]
    if back is not None:
        dims = [_fitting(rule, a.shape, d) for a, d in zip(avals, rule.results, strict=True)]
        ends = [end.sharding for end in _results(case, choice.mesh, dims, back, operands)]
    places = places_of(rule, choice.mesh, choice.splits, operands)
    call = ShardedCall(places, results, _in_the_end(case, ends, memory), choice)
    return row.strategies[choice.way], call


def check_available(runtime: Runtime, name: str, avals: Sequence[Aval]) -> None:
    """Check that devices can compute with given types, before any work starts."""
    for aval in avals:
        if not runtime.backend.computes(aval.dtype):
            raise ArgumentTypeError(
                f"{name} is not available for {aval.dtype} on {runtime.backend.platform} devices, "
                "which only store it; convert the data on the host, before they are moved there: "
                "numpy.asarray(x).astype(float), or ask for another type",
                argument="x",
                dtype=aval.dtype,
            )


def _chosen(
    case: Case, common: CommonDevices, operands: Sequence[Operand], ways: Sequence[Price]
) -> tuple[Choice, Splits | None]:
    """Choose the split of the work, and the final splits of results if they differ."""
    rule, out, target = case.rule, case.out, None
    meshes = pinned_meshes(case, common)
    shape, itemsize = case.results[0].shape, case.results[0].dtype.itemsize
    if isinstance(out, NamedSharding) and out.device_set == set(meshes[0].assignment):
        assert isinstance(out.mesh, Mesh)
        if rule.taken <= set(out.mesh.axis_names):
            meshes = (out.mesh,)
            target = Target(splits_of(out, len(shape)), itemsize)
    candidates = [
        (mesh, [given(x, mesh, x.aval.dtype.itemsize) for x in operands]) for mesh in meshes
    ]
    wanted = None
    for mesh, layouts in candidates if out is None else ():
        wanted = case.row.strategies[0].wanted(case, mesh, layouts)
        if wanted is not None:
            candidates = [(mesh, layouts)]
            target = Target(of_dims(rule.results[0], wanted), itemsize)
            break
    choice = choose(rule, candidates, ways, target)
    if wanted is None and out is None:
        wanted = _given_back(rule, dict(candidates)[choice.mesh])
    return choice, wanted


def pinned_meshes(case: Case, common: CommonDevices) -> tuple[Mesh, ...]:
    """Return the meshes with the axes of pinned factors, which work can be split over."""
    taken = case.rule.taken
    if not taken:
        return common.meshes
    meshes = tuple(mesh for mesh in common.meshes if taken <= set(mesh.axis_names))
    if not meshes:
        raise ShardingError(
            f"{case.row.name}: named axes are split over the mesh axes {sorted(taken)}, and "
            "the mesh of no operand has these; reshard an operand to a mesh that has them",
            argument="x",
            axes=tuple(sorted(taken)),
        )
    return meshes


def _results(
    case: Case, mesh: Mesh, dims: Sequence[Dims], splits: Splits, operands: Sequence[Operand]
) -> tuple[Result, ...]:
    return tuple(
        in_sharding(
            aval,
            as_written(sharding_of(mesh, dims_of_result, splits), len(dims_of_result), operands),
        )
        for aval, dims_of_result in zip(case.results, dims, strict=True)
    )


def _in_the_end(case: Case, ends: Sequence[Sharding], memory: str) -> tuple[Result, ...]:
    """Return the final layouts of results: `out_sharding`, or the memory of the operands."""
    if case.out is not None:
        ends = [case.out] * len(ends)
    elif memory != "device":
        ends = [end.with_memory_kind(memory) for end in ends]
    return tuple(map(in_sharding, case.results, ends))


def places_of(
    rule: Rule, mesh: Mesh, splits: Splits, operands: Sequence[Operand]
) -> tuple[tuple[Sharding, Tiling] | None, ...]:
    """Return the layouts of operands under an assignment; None for Python numbers."""
    places: list[tuple[Sharding, Tiling] | None] = []
    for x, dims in zip(operands, rule.operands, strict=True):
        if isinstance(x, Scalar):
            places.append(None)
            continue
        sharding = as_written(sharding_of(mesh, dims, splits), len(dims), [x])
        places.append((sharding, sharding.tiling(x.aval.shape)))
    return tuple(places)


def _given_back(rule: Rule, operands: Sequence[Given]) -> Splits | None:
    """Return the original splits of all factors; None if no whole factor was split.

    Operations gather a dim that must be whole, and split it again in the result.
    """
    splits = dict(rule.pinned)
    for dims, operand in zip(rule.operands, operands, strict=True):
        for factor, axes in zip(dims, operand.axes or (), strict=False):
            taken = {axis for names in splits.values() for axis in names}
            if factor is not None and axes and factor not in splits and not taken & set(axes):
                splits[factor] = axes
    if not rule.whole & splits.keys():
        return None
    return tuple(splits.get(factor, ()) for factor in range(len(rule.sizes)))


def splits_as(rule: Rule, mesh: Mesh, end: Sharding) -> Splits | None:
    """Return the splits for which the first result has a sharding; None if there are none."""
    dims = rule.results[0]
    if not isinstance(end, NamedSharding) or end.memory_kind != "device" or end.mesh != mesh:
        return None
    splits = dict(zip(dims, splits_of(end, len(dims)), strict=True))
    if any(names and factor not in rule.splittable for factor, names in splits.items()):
        return None
    return tuple(splits.get(factor, ()) for factor in range(len(rule.sizes)))


def _fitting(rule: Rule, shape: Shape, dims: Dims) -> Dims:
    """Drop new short dims and repeated dims from the dims of a result."""
    return tuple(
        factor
        if factor is not None and (n > 1 or rule.sizes[factor] == n) and factor not in dims[:dim]
        else None
        for dim, (factor, n) in enumerate(zip(dims, shape, strict=True))
    )


def _stays(common: CommonDevices, rule: Rule, operands: Sequence[Operand]) -> bool:
    """Test whether all operands have one sharding without a mesh, and results can have it too."""
    dims = rule.results[0]
    arrays = [
        dims_of_operand
        for dims_of_operand, x in zip(rule.operands, operands, strict=True)
        if not isinstance(x, Scalar)
    ]
    return (
        not common.named
        and len(common.fixed) == 1
        and all(dims_of_operand == dims for dims_of_operand in (*arrays, *rule.results))
        and not rule.reduced
        and not rule.whole
        and not rule.pinned
    )


def _without_mesh(
    sharding: Sharding, operands: Sequence[Operand], avals: Sequence[Aval]
) -> tuple[tuple[tuple[Sharding, Tiling] | None, ...], tuple[Result, ...]]:
    """Lay out operands on one device, or operands that all have one sharding without a mesh."""
    places = [
        None if isinstance(x, Scalar) else (sharding, sharding.tiling(x.aval.shape))
        for x in operands
    ]
    return tuple(places), tuple(in_sharding(aval, sharding) for aval in avals)


def in_sharding(aval: Aval, sharding: Sharding) -> Result:
    """Return the result with an aval and a sharding."""
    return Result(aval, sharding, sharding.tiling(aval.shape))


def refines(fine: Tiling, coarse: Tiling) -> bool:
    """Test whether the box of every device lies within its box in another tiling."""
    if devices_of(fine) != devices_of(coarse):
        return False
    empty = fine.volumes == 0
    inside = (fine.starts >= coarse.starts) & (fine.stops <= coarse.stops)
    return bool((inside.all(axis=0) | empty).all())
