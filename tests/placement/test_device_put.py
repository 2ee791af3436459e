"""`device_put`, `device_get`, `reshard` and `default_device`."""

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import tree
from gpushard._runtime.runtime import Runtime
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    OutOfMemoryError,
    ShardingError,
    TreeError,
)
from gpushard.testing import runtime

pytestmark = pytest.mark.usefixtures("rt")

LARGE = (512, 1024)
"""4 MiB of float64: queued, pooled, and copied by several threads."""


def named(*entries: Any, mesh: tuple[int, ...] = (4, 2)) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh(mesh, tuple("xyz"[: len(mesh)])), gs.P(*entries))


def check(x: gs.Array, value: np.ndarray) -> None:
    """Compare an array and each of its shards with a value."""
    assert (x.shape, x.dtype) == (value.shape, value.dtype.newbyteorder("="))
    assert np.array_equal(x, value)
    for shard in x.addressable_shards:
        assert np.array_equal(shard.data, value[shard.index])


def in_use() -> list[Any]:
    return [device.memory_stats()["bytes_in_use"] for device in gs.devices()]


# Sources


class Arrayish:
    """Offers `__array__`, as pandas and PIL do."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value
        self.calls = 0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self.calls += 1
        return self.value


class Subclass(np.ndarray):
    """A subclass that must not come through."""


class Producer:
    """Offers DLPack only, as another library's CPU array would."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __dlpack__(self, **options: Any) -> Any:
        return self.value.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.value.__dlpack_device__()


GRID = np.arange(8 * 6, dtype=np.float32).reshape(8, 6)

SOURCES: dict[str, tuple[Any, np.ndarray]] = {
    "dense": (GRID, GRID),
    "fortran": (np.asfortranarray(GRID), GRID),
    "strided": (np.repeat(GRID, 2, axis=1)[:, ::2], GRID),
    "flipped": (GRID[::-1, ::-1], GRID[::-1, ::-1]),
    "broadcast": (np.broadcast_to(GRID[0], (8, 6)), np.broadcast_to(GRID[0], (8, 6))),
    "big-endian": (GRID.astype(">f4"), GRID),
    "big-endian strided": (GRID.astype(">i8").T, GRID.astype(np.int64).T),
    "unaligned": (np.frombuffer(b"\0" + GRID.tobytes(), np.float32, offset=1), GRID.ravel()),
    "__array__": (Arrayish(GRID), GRID),
    "__dlpack__": (Producer(GRID), GRID),
    "subclass": (GRID.view(Subclass), GRID),
    "numpy scalar": (np.float32(2.5), np.array(2.5, np.float32)),
    "numpy bool": (np.True_, np.array(True)),
    "0-d": (np.array(7, np.int8), np.array(7, np.int8)),
    "int": (7, np.array(7)),
    "float": (2.5, np.array(2.5)),
    "bool": (True, np.array(True)),
    "complex": (1j, np.array(1j)),
    "large int": ((1 << 63) + 1, np.array((1 << 63) + 1, np.uint64)),
    "empty": (np.zeros((0, 6)), np.zeros((0, 6))),
    "long double": (GRID.astype(np.longdouble) / 3, GRID.astype(np.longdouble) / 3),
}

PLACES: dict[str, Any] = {
    "default": lambda ndim: None,
    "device": lambda ndim: gs.devices()[5],
    "replicated": lambda ndim: named(),
    "rows": lambda ndim: named(*["x"][:ndim]),
    "columns": lambda ndim: named(*[None, ("y", "x")][:ndim]),
    "grid": lambda ndim: named(*["y", "x"][:ndim]),
    "uneven": lambda ndim: named(*["x", "y"][:ndim], mesh=(3, 2)),
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("may_alias", [False, True])
def test_any_source_goes_anywhere(source: Any, may_alias: bool) -> None:
    data, value = source
    for place in PLACES.values():
        check(gs.device_put(data, place(value.ndim), may_alias=may_alias), value)


def test_objects_are_converted_once() -> None:
    one, two = Arrayish(GRID), Arrayish(GRID)
    gs.device_put(one, named("x"))
    gs.device_put([two, 1.0], named())
    assert (one.calls, two.calls) == (1, 1)


def test_memory_maps_are_sources(tmp_path: Any) -> None:
    np.save(tmp_path / "x.npy", GRID)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    check(gs.device_put(mapped, named("x", "y")), GRID)


def test_other_types_can_be_taught() -> None:
    class Celsius:
        def __init__(self, degrees: list[float]) -> None:
            self.degrees = degrees

    class Kelvin(Celsius):
        pass

    gs.register_placeable(Celsius, lambda c: np.array(c.degrees))
    check(gs.device_put(Celsius([1.0, 2.0]), named("y")), np.array([1.0, 2.0]))
    x = gs.device_put({"a": Kelvin([3.0])})
    check(x["a"], np.array([3.0]))


@pytest.mark.parametrize("shape", [(8, 6), LARGE])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_the_source_may_be_overwritten_at_once(shape: Any, place: Any) -> None:
    source = np.random.default_rng(0).random(shape)
    value = source.copy()
    x = gs.device_put(source, place(2))
    source.fill(-1)
    check(x, value)


def aligned(shape: tuple[int, ...], offset: int = 0) -> np.ndarray:
    """Return zeros that start `offset` bytes after a multiple of 64."""
    nbytes = int(np.prod(shape)) * 8
    raw = np.zeros(nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    return raw[start : start + nbytes].view(np.float64).reshape(shape)


@pytest.mark.parametrize("shape", [(64, 8), LARGE])
@pytest.mark.parametrize("place", ["device", "replicated", "rows"])
def test_may_alias_shares_dense_aligned_parts(shape: Any, place: str) -> None:
    source, before = aligned(shape), in_use()
    x = gs.device_put(source, PLACES[place](2), may_alias=True)
    assert in_use() == before
    source[:] = np.random.default_rng(0).random(shape)
    check(x, source)
    for shard in x.addressable_shards:
        assert np.shares_memory(np.asarray(shard.data), source)
    kept = source.copy()
    del source
    check(x, kept)


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (aligned((64, 8)), "columns"),
        (aligned((64, 8), offset=8), "replicated"),
        (aligned((8, 64)).T, "rows"),
        (aligned((64, 8)).astype(">f8"), "rows"),
    ],
    ids=["columns", "unaligned", "transposed", "big-endian"],
)
def test_may_alias_copies_what_cannot_be_used_as_it_is(source: np.ndarray, place: str) -> None:
    x = gs.device_put(source, PLACES[place](2), may_alias=True)
    source[:] = 1
    check(x, np.zeros_like(source))
    source[:] = 0


# Where to


def test_without_a_place_data_goes_to_the_default_device_uncommitted() -> None:
    first, second, third = gs.devices()[:3]
    assert gs.device_put(1.0).sharding == gs.SingleDeviceSharding(first)
    assert not gs.device_put(GRID).committed
    with gs.default_device(second):
        assert gs.device_put(GRID).devices() == {second}
        assert not gs.device_put(GRID).committed
        with gs.default_device(third):
            assert gs.device_put(1).device is third
        assert gs.device_put([1])[0].device is second
        assert gs.device_put(1, first).device is first
        with pytest.raises(KeyError), gs.default_device(third):
            raise KeyError
        assert gs.device_put(1).device is second
    assert gs.device_put(1).device is first


def test_arrays_stay_where_they_are_without_a_place() -> None:
    for x in (gs.device_put(GRID), gs.device_put(GRID, named("x"))):
        with gs.default_device(gs.devices()[1]):
            put = [gs.device_put(x), gs.device_put({"a": x})["a"], gs.device_put(x, donate=True)]
        assert x.is_deleted()
        for y in put:
            assert (y.sharding, y.committed) == (x.sharding, x.committed)
            assert np.array_equal(y, GRID)
            assert len({pointers(y) for y in put}) == 1


def pointers(x: gs.Array) -> tuple[int, ...]:
    return tuple(shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards)


def test_an_array_that_is_donated_twice_is_refused_and_stays() -> None:
    x = gs.device_put(GRID, named("x"))
    for places in ([None, gs.devices()[1]], [gs.devices()[1], None], [None, None], gs.devices()[1]):
        with pytest.raises(ArgumentError, match="twice"):
            gs.device_put([x, x], places, donate=True)
        with pytest.raises(ArgumentError, match="twice"):
            gs.reshard([x, x], gs.P(), donate=True)
    assert np.array_equal(x, GRID)
    first, second = gs.device_put([x, x], [None, named("y")], donate=[True, False])
    assert x.is_deleted() and np.array_equal(first, GRID) and np.array_equal(second, GRID)


def test_two_handles_on_one_value_may_be_donated() -> None:
    x = gs.device_put(GRID, named("x"))
    put = gs.device_put([x, copy.copy(x)], donate=True)
    put[0][:] = 0
    assert x.is_deleted() and np.array_equal(put[1], GRID)


@pytest.mark.parametrize("place", [p for name, p in PLACES.items() if name != "default"])
def test_a_place_commits(place: Any) -> None:
    assert gs.device_put(GRID, place(2)).committed
    assert gs.device_put(gs.device_put(GRID), place(2)).committed


@pytest.mark.parametrize("value", [7, 2.5, 1j])
def test_python_numbers_are_weak_and_stay_so(value: Any) -> None:
    x = gs.device_put(value)
    assert x.weak_type
    moved = gs.device_put(x, gs.devices()[2])
    assert moved.weak_type
    assert gs.reshard(moved, named()).weak_type
    assert gs.device_put({"a": value}, named())["a"].weak_type
    assert not gs.device_put(np.asarray(value)).weak_type
    assert not gs.device_put(np.asarray(value)[()]).weak_type


def test_truth_values_are_not_weak() -> None:
    assert not gs.device_put(True).weak_type


def test_specs_mean_the_mesh_around() -> None:
    outer, inner = gs.make_mesh((4, 2), ("x", "y")), gs.make_mesh((2,), "x")
    with outer:
        assert gs.device_put(GRID, gs.P("x", "y")).sharding == named("x", "y")
        with inner:
            x = gs.device_put(GRID, gs.P("x"))
            assert x.sharding == gs.NamedSharding(inner, gs.P("x"))
        x = gs.device_put({"a": GRID, "b": 1.0}, {"a": gs.P(None, "y"), "b": gs.P()})
    assert x["a"].sharding == named(None, "y")
    assert x["b"].sharding == named()
    check(x["a"], GRID)


def test_formats_are_placements() -> None:
    x = gs.device_put(GRID, gs.Format(gs.Layout((0, 1)), named("x")))
    assert x.sharding == named("x")
    assert gs.device_put(GRID, gs.Format(None, named("y"))).sharding == named("y")


# Trees


@dataclasses.dataclass
class Model:
    weight: Any
    bias: Any


tree.register_dataclass(Model)


def test_trees_keep_their_structure() -> None:
    source = {"m": Model(GRID, [1.0, None]), "t": (GRID[0], (), {}), "n": None}
    result = gs.device_put(source, named())
    assert tree.structure(result) == tree.structure(source)
    assert all(isinstance(leaf, gs.Array) for leaf in tree.leaves(result))
    assert {leaf.sharding for leaf in tree.leaves(result)} == {named()}
    check(result["m"].weight, GRID)
    check(result["t"][0], GRID[0])
    assert gs.device_put([]) == []


def test_a_list_of_devices_places_a_list_of_arrays() -> None:
    parts = [np.full((2, 3), i) for i in range(8)]
    placed = gs.device_put(parts, gs.devices())
    for part, array, device in zip(parts, placed, gs.devices(), strict=True):
        assert array.devices() == {device}
        check(array, part)
    moved = gs.device_put(placed, gs.devices()[::-1])
    assert [x.device for x in moved] == gs.devices()[::-1]
    with pytest.raises(TreeError, match="list of size 7"):
        gs.device_put(parts, gs.devices()[:7])


def test_prefixes_of_places() -> None:
    first, second = gs.devices()[:2]
    source = {"a": [GRID, 1.0], "b": (2, {"c": GRID})}
    result = gs.device_put(source, {"a": first, "b": (None, second)})
    assert [x.device for x in result["a"]] == [first, first]
    assert result["b"][1]["c"].device is second
    assert (result["b"][0].committed, result["a"][0].committed) == (False, True)
    result = gs.device_put(Model(GRID, GRID[0]), Model(named("x", "y"), named("y")))
    assert (result.weight.sharding, result.bias.sharding) == (named("x", "y"), named("y"))


def test_prefixes_of_flags() -> None:
    x, y, z = (gs.device_put(np.full(8, i), named("x")) for i in range(3))
    gs.device_put({"a": [x, y], "b": z}, gs.devices()[0], donate={"a": [True, False], "b": True})
    assert [a.is_deleted() for a in (x, y, z)] == [True, False, True]
    first, second = aligned((8, 8)), aligned((8, 8))
    shared, apart = gs.device_put([first, second], gs.devices()[0], may_alias=[True, False])
    first[:], second[:] = 1, 1
    assert (np.asarray(shared)[0, 0], np.asarray(apart)[0, 0]) == (1, 0)


def test_a_tree_is_checked_before_any_of_it_is_placed() -> None:
    def allocations() -> list[Any]:
        return [device.memory_stats()["num_allocs"] for device in gs.devices()]

    before = allocations()
    with pytest.raises(ShardingError, match="ndim=1"):
        gs.device_put([GRID, np.ones(3)], named("x", "y"))
    with pytest.raises(ArgumentTypeError, match="holds a str"):
        gs.device_put([GRID, "text"], named("x", "y"))
    assert allocations() == before


# Donation


@pytest.mark.parametrize("shape", [(8, 8), LARGE])
@pytest.mark.parametrize("in_tree", [False, True])
@pytest.mark.parametrize("move", [gs.device_put, gs.reshard])
@pytest.mark.parametrize("target", [named, lambda: named("x", "y"), lambda: named("y")])
def test_donated_arrays_are_gone_and_their_memory_with_them(
    shape: Any, move: Any, target: Any, in_tree: bool
) -> None:
    value = np.random.default_rng(0).random(shape)
    before = in_use()
    x = gs.device_put(value, named("x", "y"))
    (y,) = move([x], target(), donate=True) if in_tree else [move(x, target(), donate=True)]
    assert x.is_deleted()
    check(y, value)
    held = in_use()
    z = gs.device_put(value, target())
    y.delete()
    assert in_use() == held
    check(z, value)
    z.delete()
    assert in_use() == before


def test_donation_leaves_aliases_alone() -> None:
    x = gs.device_put(GRID, named("x"))
    alias, part = gs.device_put(x, named("x")), x[2:4]
    gs.device_put(x, named(), donate=True)
    check(alias, GRID)
    check(part, GRID[2:4])


def test_donation_happens_only_if_everything_else_did() -> None:
    with runtime(host_devices=2, memory_limit=1 << 20):
        first, second = gs.devices()
        x = gs.device_put(np.zeros(1000), first)
        with pytest.raises(OutOfMemoryError):
            gs.device_put([x, np.zeros(1 << 20)], second, donate=True)
        assert not x.is_deleted()
        check(x, np.zeros(1000))


# device_get and reshard


def test_device_get_returns_the_tree_on_the_host() -> None:
    marker = object()
    x = gs.device_put(GRID, named("x", "y"))
    result = gs.device_get({"x": x, "n": None, "o": marker, "h": GRID, "l": [x, 3]})
    assert result["x"].tobytes() == GRID.tobytes()
    assert type(result["x"]) is np.ndarray
    assert result["x"] is result["l"][0] and np.shares_memory(result["x"], np.asarray(x))
    assert (result["o"], result["n"], result["l"][1]) == (marker, None, 3)
    assert result["h"] is GRID
    assert gs.device_get(x) is result["x"]
    assert gs.device_get(5) == 5


def test_reshard_takes_specs_over_each_arrays_own_mesh() -> None:
    x = gs.device_put(GRID, named("x"))
    y = gs.device_put(GRID, named("x", mesh=(3, 2)))
    a, b = gs.reshard([x, y], gs.P("y"))
    assert (a.sharding, b.sharding) == (named("y"), named("y", mesh=(3, 2)))
    a, b = gs.reshard([x, y], [gs.P(None, "x"), named()])
    assert (a.sharding, b.sharding) == (named(None, "x"), named())
    check(a, GRID)
    check(b, GRID)
    with gs.make_mesh((2,), "z") as mesh:
        alone = gs.device_put(GRID, gs.devices()[0])
        assert gs.reshard(alone, gs.P("z")).sharding == gs.NamedSharding(mesh, gs.P("z"))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("shape", [(8, 6), (7, 5), LARGE])
def test_arrays_move_between_all_places(rt: Runtime, shape: tuple[int, ...]) -> None:
    value = np.random.default_rng(0).random(shape)
    with gs.transfer_guard_device_to_host("disallow_explicit"):
        arrays = [gs.device_put(value, place(2)) for place in PLACES.values()]
        moved = [
            gs.device_put(x, place(2))
            for x in arrays
            for name, place in PLACES.items()
            if name != "default"
        ]
    for x in moved:
        check(x, value)


def test_block_until_ready_returns_its_tree() -> None:
    x = {"a": gs.device_put(GRID), "b": [1, None]}
    assert gs.block_until_ready(x) is x
