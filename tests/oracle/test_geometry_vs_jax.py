"""Meshes and shardings against JAX's, on random cases over JAX's own devices."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpushard._geometry.mesh import AbstractMesh, Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P
from gpushard._geometry.sharding import SingleDeviceSharding
from gpushard.errors import ShardingError

Shape = tuple[int, ...]
MESH_SHAPES = [
    *((n,) for n in range(1, 9)),
    *((a, b) for a in range(1, 9) for b in range(1, 9) if a * b <= 8),
    *((a, b, c) for a in (1, 2, 3) for b in (1, 2) for c in (1, 2, 4) if a * b * c <= 8),
]


@dataclass(frozen=True)
class Case:
    """A sharding written for both libraries, and a shape that it divides."""

    grid: np.ndarray
    names: tuple[str, ...]
    entries: tuple[Any, ...]
    shape: Shape

    def ours(self) -> NamedSharding:
        return NamedSharding(Mesh(self.grid, self.names), P(*self.entries))

    def theirs(self, jax: ModuleType) -> Any:
        mesh = jax.sharding.Mesh(self.grid, self.names)
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*self.entries))


def random_grid(
    rng: np.random.Generator, devices: list[Any], shapes: list[Shape]
) -> tuple[np.ndarray, tuple[str, ...]]:
    shape = shapes[rng.integers(len(shapes))]
    chosen = rng.permutation(len(devices))[: math.prod(shape)]
    grid = np.array([devices[i] for i in chosen], dtype=object).reshape(shape)
    return grid, tuple(rng.permutation(list("xyz"))[: len(shape)].tolist())


def random_entries(rng: np.random.Generator, names: tuple[str, ...], dims: int) -> Iterator[Any]:
    """Yield spec entries that use each axis once at most, in any spelling."""
    groups: list[list[str]] = [[] for _ in range(dims)]
    for axis in rng.permutation(names).tolist():
        dim = rng.integers(dims + 1)
        if dim < dims:
            groups[dim].append(axis)
    for group in groups:
        spellings = [tuple(group), *([None] if not group else group if len(group) == 1 else [])]
        yield spellings[rng.integers(len(spellings))]


def random_cases(
    seed: int,
    count: int,
    devices: list[Any],
    shapes: list[Shape] = MESH_SHAPES,
    smallest: int = 0,
) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        grid, names = random_grid(rng, devices, shapes)
        ndim = int(rng.integers(5))
        entries = tuple(random_entries(rng, names, int(rng.integers(ndim + 1))))
        sizes = dict(zip(names, grid.shape, strict=True))
        blocks = [math.prod(sizes[axis] for axis in entry or ()) for entry in entries]
        blocks += [1] * (ndim - len(entries))
        shape = tuple(k * int(rng.integers(smallest, 5)) for k in blocks)
        yield Case(grid, names, entries, shape)


def bounds(indices: dict[Any, tuple[slice, ...]], shape: Shape) -> list[tuple[Any, Any]]:
    """A map as (device, bounds) in its order, each slice as numbers."""
    return [
        (device, [part.indices(n) for part, n in zip(index, shape, strict=True)])
        for device, index in indices.items()
    ]


def test_maps(jax: ModuleType) -> None:
    for case in random_cases(1, 6000, jax.devices()):
        ours, theirs, shape = case.ours(), case.theirs(jax), case.shape
        expected = bounds(theirs.devices_indices_map(shape), shape)
        assert bounds(ours.devices_indices_map(shape), shape) == expected, case
        expected = bounds(theirs.addressable_devices_indices_map(shape), shape)
        assert bounds(ours.addressable_devices_indices_map(shape), shape) == expected, case
        assert ours.shard_shape(shape) == theirs.shard_shape(shape), case
        assert ours.is_fully_replicated == theirs.is_fully_replicated, case
        assert ours.is_fully_addressable == theirs.is_fully_addressable, case
        assert ours.num_devices == theirs.num_devices, case
        assert ours.device_set == theirs.device_set, case
        assert ours.addressable_devices == theirs.addressable_devices, case
        assert ours.memory_kind == theirs.memory_kind, case


def test_equivalence(jax: ModuleType) -> None:
    # Few devices, often in order, so that many pairs are equivalent without being equal.
    outcomes: Counter[tuple[bool, bool]] = Counter()
    for count in (2, 4):
        devices = jax.devices()[:count]
        shapes = [shape for shape in MESH_SHAPES if math.prod(shape) == count]
        cases = list(random_cases(count, 150, devices, shapes))
        for i, case in enumerate(cases[::2]):
            in_order = np.array(devices, dtype=object).reshape(case.grid.shape)
            cases[2 * i] = replace(case, grid=in_order)
        # Built anew on each side, so that equal never means identical.
        left, right = ([(c, c.ours(), c.theirs(jax)) for c in cases] for _ in range(2))
        for (one, ours, theirs), (two, other, their_other) in itertools.product(left, right):
            pair = one, two
            ndim = max(len(one.entries), len(two.entries))
            alike = theirs.is_equivalent_to(their_other, ndim)
            assert ours.is_equivalent_to(other, ndim) == alike, pair
            equal = theirs == their_other
            assert (ours == other) == equal, pair
            outcomes[alike, equal] += 1
    assert min(outcomes[kind] for kind in [(False, False), (True, False), (True, True)]) > 100, (
        outcomes
    )


def test_shards_and_replica_ids(jax: ModuleType) -> None:
    for case in random_cases(3, 300, jax.devices(), smallest=1):
        array = jax.device_put(np.zeros(case.shape, np.int8), case.theirs(jax))
        tiling = case.ours().tiling(case.shape)
        assert [shard.device for shard in array.addressable_shards] == list(tiling.devices), case
        for i, shard in enumerate(array.addressable_shards):
            assert tiling.assignment.replica_ids[i] == shard.replica_id, case
            assert tiling.shard_shapes[i] == shard.data.shape, case
            assert tiling.indices[i] == shard.index, case


def test_meshes(jax: ModuleType) -> None:
    rng = np.random.default_rng(4)
    grids = [random_grid(rng, jax.devices(), MESH_SHAPES) for _ in range(400)]
    grids += [random_grid(rng, jax.devices()[:2], [(2,), (1, 2)]) for _ in range(40)]
    pairs = [(Mesh(*grid), jax.sharding.Mesh(*grid)) for grid in grids]
    for ours, theirs in pairs:
        assert list(ours.shape.items()) == list(theirs.shape.items())
        for name in ("size", "axis_names", "axis_sizes", "empty", "is_multi_process"):
            assert getattr(ours, name) == getattr(theirs, name), (name, theirs)
        assert ours.devices.tolist() == theirs.devices.tolist()
        assert ours.device_ids.tolist() == theirs.device_ids.tolist()
        assert ours.local_devices == theirs.local_devices
        assert ours.local_mesh.devices.tolist() == theirs.local_mesh.devices.tolist()
        abstract, expected = ours.abstract_mesh, theirs.abstract_mesh
        for name in ("size", "axis_names", "axis_sizes", "shape_tuple", "empty"):
            assert getattr(abstract, name) == getattr(expected, name), (name, theirs)
    equal = 0
    for ours, theirs in pairs[-40:]:
        for other, their_other in pairs[-40:]:
            assert (ours == other) == (theirs == their_other)
            equal += ours == other
    assert 40 < equal < 1600


def test_specs(jax: ModuleType) -> None:
    rng = np.random.default_rng(5)
    specs = [tuple(random_entries(rng, ("x", "y"), int(rng.integers(4)))) for _ in range(60)]
    pairs = [(P(*spec), jax.sharding.PartitionSpec(*spec)) for spec in specs]
    equal = 0
    for ours, theirs in pairs:
        assert tuple(ours) == tuple(theirs)
        for other, their_other in pairs:
            assert (ours == other) == (theirs == their_other), (theirs, their_other)
            equal += ours == other
    assert 60 < equal < 3600


def test_abstract_meshes(jax: ModuleType) -> None:
    for case in random_cases(6, 300, jax.devices()):
        ours, theirs = case.ours(), case.theirs(jax)
        ours = NamedSharding(AbstractMesh(case.grid.shape, case.names), ours.spec)
        theirs = jax.sharding.NamedSharding(
            jax.sharding.AbstractMesh(case.grid.shape, case.names), theirs.spec
        )
        assert ours.num_devices == theirs.num_devices, case
        assert ours.is_fully_replicated == theirs.is_fully_replicated, case


def test_single_devices(jax: ModuleType) -> None:
    meshes = [case for case in random_cases(7, 20, jax.devices()[:1], [(1,), (1, 1)])]
    for device in jax.devices():
        ours = SingleDeviceSharding(device)
        theirs = jax.sharding.SingleDeviceSharding(device)
        for shape in [(), (0,), (5,), (3, 0, 2), (4, 2)]:
            expected = bounds(theirs.devices_indices_map(shape), shape)
            assert bounds(ours.devices_indices_map(shape), shape) == expected
            assert ours.shard_shape(shape) == theirs.shard_shape(shape)
        for name in ("device_set", "num_devices", "is_fully_replicated", "is_fully_addressable"):
            assert getattr(ours, name) == getattr(theirs, name), name
        assert ours.memory_kind == theirs.memory_kind
        for case in meshes:
            expected = theirs.is_equivalent_to(case.theirs(jax), 4)
            assert expected == (device == jax.devices()[0])
            assert ours.is_equivalent_to(case.ours(), 4) == expected
            assert case.ours().is_equivalent_to(ours, 4) == expected


@pytest.mark.parametrize("entries", [("z",), ("x", "x"), (("x", "y", "x"),), ("x", ("y", "z"))])
def test_both_reject(jax: ModuleType, entries: tuple[Any, ...]) -> None:
    grid = np.array(jax.devices()).reshape(2, 4)
    case = Case(grid, ("x", "y"), entries, ())
    with pytest.raises(ShardingError, match="names the mesh axis"):
        case.ours()
    with pytest.raises(Exception, match=r"mesh axis|Resource axis"):
        case.theirs(jax)
