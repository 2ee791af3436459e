"""Shardings, against block numbers worked out digit by digit."""

import itertools
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from gpushard._geometry.mesh import AbstractMesh, Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import UNCONSTRAINED, P, PartitionSpec
from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard.errors import ArgumentError, ArgumentTypeError, ShardingError
from tests.share import examples

Shape = tuple[int, ...]
Box = list[range]

mesh_shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
sizes = st.integers(0, 13)


@dataclass(frozen=True)
class FakeDevice:
    id: int
    is_addressable: bool = True


@st.composite
def specs(draw: st.DrawFn, names: tuple[str, ...], max_dims: int) -> PartitionSpec:
    """Each axis, in any order, goes to one dim or to none."""
    dims = draw(st.integers(0, max_dims))
    entries: list[list[str]] = [[] for _ in range(dims)]
    for axis in draw(st.permutations(names)):
        dim = draw(st.integers(0, dims))
        if dim < dims:
            entries[dim].append(axis)
    return P(*entries)


@st.composite
def shardings(draw: st.DrawFn, max_dims: int = 4) -> NamedSharding:
    shape = draw(mesh_shapes)
    devices = draw(st.permutations([f"d{i}" for i in range(math.prod(shape))]))
    names = tuple("xyz"[: len(shape)])
    mesh = Mesh(np.array(devices, dtype=object).reshape(shape), names)
    return NamedSharding(mesh, draw(specs(names, max_dims)))


@st.composite
def laid_out(draw: st.DrawFn) -> tuple[NamedSharding, Shape]:
    """A sharding and a shape of at least as many dims as its spec has entries."""
    sharding = draw(shardings())
    ndim = draw(st.integers(len(sharding.spec), 4))
    return sharding, tuple(draw(sizes) for _ in range(ndim))


def positions(mesh: Mesh) -> list[dict[str, int]]:
    """Where each device of a mesh lies, in row-major order."""
    grid = itertools.product(*(range(n) for n in mesh.axis_sizes))
    return [dict(zip(mesh.axis_names, coordinates, strict=True)) for coordinates in grid]


def brute_force(sharding: NamedSharding, shape: Shape) -> dict[Any, Box]:
    """The elements that each device holds, dim by dim, as section Boxes of the design says."""
    boxes = {}
    for device, at in zip(sharding.mesh.assignment, positions(sharding.mesh), strict=True):
        box = []
        for dim, n in enumerate(shape):
            entry = sharding.spec[dim] if dim < len(sharding.spec) else None
            blocks, number = 1, 0
            # From the minor digit up, so that this is not the loop of the library.
            for axis in reversed(() if entry is None else tuple(entry)):
                number += at[axis] * blocks
                blocks *= sharding.mesh.shape[axis]
            block = math.ceil(n / blocks)
            box.append(range(n)[number * block : (number + 1) * block])
        boxes[device] = box
    return boxes


def boxes_of(indices: dict[Any, tuple[slice, ...]], shape: Shape) -> list[tuple[Any, Box]]:
    """A map as (device, elements) in the order of the map; empty ranges are equal."""
    return [
        (device, [range(n)[part] for n, part in zip(shape, index, strict=True)])
        for device, index in indices.items()
    ]


@examples(300)
@given(laid_out())
def test_boxes_follow_the_definition(case: tuple[NamedSharding, Shape]) -> None:
    sharding, shape = case
    expected = brute_force(sharding, shape)
    assert boxes_of(sharding.devices_indices_map(shape), shape) == list(expected.items())
    local = sharding.addressable_devices_indices_map(shape)
    assert boxes_of(local, shape) == list(expected.items())
    lengths = [tuple(map(len, box)) for box in expected.values()]
    assert sharding.tiling(shape).shard_shapes == lengths
    assert sharding.shard_shape(shape) == tuple(map(max, zip(*lengths, strict=True)))
    assert sharding.device_set == sharding.addressable_devices == set(expected)
    assert sharding.num_devices == len(expected)
    assert sharding.is_fully_addressable


@given(laid_out())
def test_every_element_is_held_once_per_replica(case: tuple[NamedSharding, Shape]) -> None:
    sharding, shape = case
    used = set(sharding.spec.all_axes())
    unused = [n for axis, n in sharding.mesh.shape.items() if axis not in used]
    replica_ids = sharding.tiling(shape).assignment.replica_ids.tolist()
    held = np.zeros((math.prod(unused), *shape), int)
    maps = sharding.devices_indices_map(shape).values()
    for replica, index in zip(replica_ids, maps, strict=True):
        held[(replica, *index)] += 1
    assert (held == 1).all()


@given(laid_out())
def test_replicas_are_numbered_in_device_order(case: tuple[NamedSharding, Shape]) -> None:
    sharding, shape = case
    used = sorted(sharding.spec.all_axes())
    digits = [[at[axis] for axis in used] for at in positions(sharding.mesh)]
    expected = [digits[:i].count(digit) for i, digit in enumerate(digits)]
    assert sharding.tiling(shape).assignment.replica_ids.tolist() == expected


@given(laid_out())
def test_fully_replicated_when_all_hold_all(case: tuple[NamedSharding, Shape]) -> None:
    sharding, shape = case
    splittable = (sharding.num_devices,) * len(shape)
    boxes = brute_force(sharding, splittable).values()
    whole = [range(n) for n in splittable]
    assert sharding.is_fully_replicated == all(box == whole for box in boxes)


@st.composite
def lookalikes(draw: st.DrawFn) -> NamedSharding:
    """Shardings over the same few devices, so that many of them are equivalent."""
    shape = draw(st.sampled_from([(4,), (2, 2), (1, 4), (2, 1, 2)]))
    order = draw(st.sampled_from(["abcd", "acbd"]))
    names = tuple("xyz"[: len(shape)])
    mesh = Mesh(np.array(list(order), dtype=object).reshape(shape), names)
    if draw(st.booleans()):
        mesh = mesh[names[::-1]]
    return NamedSharding(mesh, draw(specs(names, 2)))


def same_maps(one: NamedSharding, two: NamedSharding, ndim: int) -> bool:
    """Brute force: alike on shapes whose lengths tell any two counts of blocks up to 64 apart."""
    lengths = {
        math.prod(s.mesh.shape[a] for a in s.spec.axes(d)) for s in (one, two) for d in (0, 1)
    }
    return all(
        list(brute_force(one, (n,) * ndim).items()) == list(brute_force(two, (n,) * ndim).items())
        for n in lengths
    )


@examples(400)
@given(lookalikes(), lookalikes(), st.integers(2, 3))
def test_equivalent_when_the_maps_agree(one: NamedSharding, two: NamedSharding, ndim: int) -> None:
    expected = same_maps(one, two, ndim)
    event(f"equivalent: {expected}, equal: {one == two}")
    assert one.is_equivalent_to(two, ndim) == two.is_equivalent_to(one, ndim) == expected
    assert not one.is_equivalent_to(two.with_memory_kind("pinned_host"), ndim)
    if one == two:
        assert expected and hash(one) == hash(two)


@given(shardings(max_dims=2), shardings(max_dims=2))
def test_equivalent_over_any_meshes(one: NamedSharding, two: NamedSharding) -> None:
    assert one.is_equivalent_to(two, 2) == same_maps(one, two, 2)
    padded = P(*one.spec, *(None,) * (3 - len(one.spec)))
    assert one.is_equivalent_to(one.with_spec(padded), 3)
    assert one != one.with_spec(padded)


@given(shardings(), st.sampled_from(["device", "pinned_host", "unpinned_host"]))
def test_copies_and_kinds(sharding: NamedSharding, kind: str) -> None:
    moved = sharding.with_memory_kind(kind)
    copy = pickle.loads(pickle.dumps(moved))
    assert (copy, hash(copy), copy.memory_kind) == (moved, hash(moved), kind)
    assert copy.mesh is sharding.mesh and copy.spec == sharding.spec
    assert (moved == sharding) == (kind == sharding.memory_kind == "device")
    assert moved.with_memory_kind("device") == sharding
    assert moved.with_spec(P()).memory_kind == kind
    single = SingleDeviceSharding("a", memory_kind=kind)
    copy = pickle.loads(pickle.dumps(single))
    assert (copy, hash(copy), copy.memory_kind) == (single, hash(single), kind)
    assert (single == SingleDeviceSharding("a")) == (kind == "device")
    assert single.with_memory_kind("device") == SingleDeviceSharding("a")
    assert single.tiling((3,)).devices == ("a",)  # which has no memories


@given(st.lists(sizes, max_size=4).map(tuple))
def test_a_single_device_holds_everything(shape: Shape) -> None:
    single = SingleDeviceSharding("a")
    assert boxes_of(single.devices_indices_map(shape), shape) == [("a", [range(n) for n in shape])]
    assert single.shard_shape(shape) == shape
    assert single.tiling(shape).assignment.replica_ids.tolist() == [0]
    assert (single.device_set, single.num_devices) == ({"a"}, 1)
    assert single.is_fully_replicated and single.is_fully_addressable
    meshed = NamedSharding(Mesh([["a"]], ("x", "y")), P(*[None, "y"][: len(shape)]))
    for one, two in itertools.permutations([single, meshed]):
        assert one.is_equivalent_to(two, len(shape))
        assert one != two
    assert not single.is_equivalent_to(SingleDeviceSharding("b"), len(shape))


@given(mesh_shapes, st.data())
def test_only_addressable_devices(mesh_shape: Shape, data: st.DataObject) -> None:
    local = data.draw(st.lists(st.booleans(), min_size=64, max_size=64))
    devices = [FakeDevice(i, local[i]) for i in range(math.prod(mesh_shape))]
    names = tuple("xyz"[: len(mesh_shape)])
    mesh = Mesh(np.array(devices).reshape(mesh_shape), names)
    sharding = NamedSharding(mesh, data.draw(specs(names, 2)))
    mine = [device for device in devices if device.is_addressable]
    assert sharding.addressable_devices == set(mine)
    assert sharding.is_fully_addressable == (len(mine) == len(devices))
    everything = sharding.devices_indices_map((8, 9))
    assert list(sharding.addressable_devices_indices_map((8, 9)).items()) == [
        (device, everything[device]) for device in mine
    ]
    assert [sharding.tiling((8, 9)).devices[i] for i in sharding.tiling((8, 9)).addressable] == mine


@given(shardings())
def test_an_abstract_mesh_has_no_devices(sharding: NamedSharding) -> None:
    abstract = NamedSharding(sharding.mesh.abstract_mesh, sharding.spec)
    assert abstract.num_devices == sharding.num_devices
    assert abstract.is_fully_replicated == sharding.is_fully_replicated
    assert abstract == pickle.loads(pickle.dumps(abstract)) != sharding
    for use in (
        lambda: abstract.device_set,
        lambda: abstract.is_fully_addressable,
        lambda: abstract.devices_indices_map((4,) * 4),
    ):
        with pytest.raises(ShardingError, match="abstract mesh"):
            use()


XY = Mesh([["a", "b"], ["c", "d"]], ("x", "y"))


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: NamedSharding(XY, P("z")), ShardingError, "names the mesh axis 'z'"),
        (lambda: NamedSharding(XY, P("x", ("y", "x"))), ShardingError, "'x' 2 times"),
        (lambda: NamedSharding(XY, P(("x", "x"))), ShardingError, "'x' 2 times"),
        (lambda: NamedSharding(XY, P(UNCONSTRAINED)).tiling((4,)), ShardingError, "UNCONSTRAINED"),
        (lambda: NamedSharding(XY, ("x",)), ArgumentTypeError, r"P\('x'\)"),
        (lambda: NamedSharding("abcd", P()), ArgumentTypeError, "must be a Mesh"),
        (lambda: NamedSharding(XY, P(), memory_kind="l2"), ArgumentError, "pinned_host"),
        (lambda: SingleDeviceSharding("a", memory_kind="l2"), ArgumentError, "pinned_host"),
        (lambda: NamedSharding(AbstractMesh((2,), "x"), P("y")), ShardingError, "'y'"),
        (lambda: NamedSharding(XY, P(None, "x")).tiling((4,)), ShardingError, "ndim=1"),
    ],
)
def test_errors(make: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()


class Own(Sharding):
    """A user's sharding: whatever a function says."""

    def __init__(self, devices: str, index_map: Callable[[Shape], dict[str, Any]]) -> None:
        self.devices, self.index_map = devices, index_map

    @property
    def device_set(self) -> set[Any]:
        return set(self.devices)

    def devices_indices_map(self, global_shape: Shape) -> dict[Any, tuple[slice, ...]]:
        return self.index_map(global_shape)


@examples(200)
@given(laid_out())
def test_an_own_sharding_can_delegate(case: tuple[NamedSharding, Shape]) -> None:
    sharding, shape = case
    own = Own(sharding.device_set, sharding.devices_indices_map)
    mine, theirs = own.tiling(shape), sharding.tiling(shape)
    assert mine.devices == theirs.devices
    assert mine.shard_shapes == theirs.shard_shapes
    expected = boxes_of(sharding.devices_indices_map(shape), shape)
    assert boxes_of(dict(zip(mine.devices, mine.indices, strict=True)), shape) == expected
    assert own.shard_shape(shape) == sharding.shard_shape(shape)
    if all(all(box) for _, box in expected):
        assert mine.assignment.replica_ids.tolist() == theirs.assignment.replica_ids.tolist()
    assert own.is_equivalent_to(own, len(shape))
    assert not own.is_equivalent_to(sharding, len(shape))
    assert not sharding.is_equivalent_to(own, len(shape))


def test_an_own_sharding_needs_only_a_map() -> None:
    own = Own("ba", lambda shape: {"b": (slice(0, 1),), "a": (slice(1, shape[0]),)})
    assert own.tiling((5,)).shard_shapes == [(1,), (4,)]
    assert own.shard_shape((5,)) == (4,)
    assert list(own.addressable_devices_indices_map((5,))) == ["b", "a"]
    assert (own.num_devices, own.addressable_devices) == (2, {"a", "b"})
    assert own.is_fully_addressable
    assert not own.is_fully_replicated
    assert own.memory_kind == "device"
    with pytest.raises(ArgumentError, match="no memory kinds"):
        own.with_memory_kind("pinned_host")


def test_a_full_shard_is_as_long_as_the_longest_box() -> None:
    boxes = {
        "a": (slice(0, 4), slice(0, 1)),
        "b": (slice(2, 5), slice(0, 3)),
        "c": (slice(0, 2),) * 2,
    }
    boxes["d"] = (slice(0, 2), slice(2, 3))
    own = Own("abcd", lambda _: boxes)
    assert own.shard_shape((5, 3)) == (4, 3)


@pytest.mark.parametrize("devices", ["abc", "a"])
def test_an_own_map_names_the_device_set(devices: str) -> None:
    own = Own(devices, lambda shape: {"a": (slice(0, 2),), "b": (slice(2, 4),)})
    with pytest.raises(ShardingError, match="different devices"):
        own.tiling((4,))
