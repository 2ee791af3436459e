"""Arrays from callbacks, from the data of a process, and from arrays on single devices."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard.errors import ArgumentTypeError, ShardingError
from gpushard.placement.make_array import local_slices

pytestmark = pytest.mark.usefixtures("rt")

Shape = tuple[int, ...]


def named(*entries: Any, mesh: Shape = (4, 2)) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh(mesh, tuple("xyz"[: len(mesh)])), gs.P(*entries))


def check(x: gs.Array, value: np.ndarray) -> None:
    """Compare an array and each of its shards with a value."""
    assert (x.shape, x.dtype) == (value.shape, value.dtype)
    assert np.array_equal(x, value)
    for shard in x.addressable_shards:
        assert np.array_equal(shard.data, value[shard.index])


def bounds(index: tuple[slice, ...], shape: Shape) -> tuple[tuple[int, ...], ...]:
    return tuple(part.indices(n)[:2] for part, n in zip(index, shape, strict=True))


# From a callback


@pytest.mark.parametrize(
    ("entries", "shape", "calls"),
    [
        ((), (4, 6), 1),
        (("x",), (4, 6), 4),
        (("y",), (4, 6), 2),
        (("x", "y"), (4, 6), 8),
        ((("y", "x"),), (16, 1), 8),
        ((None, "y"), (4, 6), 2),
        (("x",), (5, 2), 3),
        (("x", "y"), (5, 1), 3),
        (("x",), (1,), 1),
        ((), (), 1),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_callback_is_called_once_for_each_box(
    entries: Any, shape: Shape, calls: int, order: int
) -> None:
    grid = np.array(gs.devices()[::order]).reshape(4, 2)
    sharding = gs.NamedSharding(gs.Mesh(grid, ("x", "y")), gs.P(*entries))
    value = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    asked: list[Any] = []

    def data(index: tuple[slice, ...]) -> np.ndarray:
        asked.append(bounds(index, shape))
        return value[index]

    x = gs.make_array_from_callback(shape, sharding, data)
    assert len(asked) == calls
    wanted = {bounds(i, shape) for i in sharding.devices_indices_map(shape).values()}
    assert set(asked) == {box for box in wanted if all(low < high for low, high in box)}
    assert asked == sorted(asked)
    assert x.sharding == sharding
    assert (x.committed, x.weak_type) == (True, False)
    check(x, value)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_callback_of_an_empty_array_gives_the_dtype(shape: Shape) -> None:
    asked: list[Any] = []

    def data(index: tuple[slice, ...]) -> np.ndarray:
        asked.append(index)
        return np.zeros(shape, np.int16)[index]

    x = gs.make_array_from_callback(shape, named("x"), data)
    assert len(asked) == 1
    check(x, np.zeros(shape, np.int16))


def test_callback_data_may_be_whatever_can_be_placed() -> None:
    value = np.arange(24, dtype=np.float32).reshape(4, 6)
    placed = gs.device_put(value, named("y"))
    turned = np.asfortranarray(value)
    for source in (value.astype(">f4"), turned, placed):
        x = gs.make_array_from_callback((4, 6), named("x", "y"), lambda i, s=source: s[i])
        check(x, value)
    check(gs.make_array_from_callback((), named(), lambda index: 2.5), np.array(2.5))


def test_callback_may_use_one_buffer_for_one_batch_only_if_it_copies() -> None:
    # Data is kept until a batch is full, so each box needs memory of its own.
    value = np.arange(8.0)
    x = gs.make_array_from_callback((8,), named("x"), lambda index: value[index].copy())
    value[:] = -1
    check(x, np.arange(8.0))


def test_callback_shape_is_whatever_numpy_takes() -> None:
    for shape in (4, [4], np.array([4]), (np.int64(4),)):
        x = gs.make_array_from_callback(shape, named("x"), lambda index: np.arange(4)[index])
        check(x, np.arange(4))


@pytest.mark.parametrize("dtype", [np.float32, "f4", np.dtype(">f4")])
def test_dtype_converts_as_far_as_the_kind_allows(dtype: Any) -> None:
    value = np.arange(8)
    x = gs.make_array_from_callback((8,), named("x"), lambda i: value[i], dtype=dtype)
    check(x, value.astype(np.float32))
    with pytest.raises(ArgumentTypeError, match="complex128, which dtype=float32 cannot hold"):
        gs.make_array_from_callback((8,), named("x"), lambda i: value[i] * 1j, dtype=dtype)


def test_callback_takes_formats_and_specs() -> None:
    value = np.arange(8)
    sharding = gs.Format(gs.Layout((0,)), named("x"))
    check(gs.make_array_from_callback((8,), sharding, lambda i: value[i]), value)
    with named().mesh:
        x = gs.make_array_from_callback((8,), gs.P("y"), lambda i: value[i])
    assert x.sharding == named("y")


def test_large_callback_data_is_not_held_back() -> None:
    # 160 MiB in 32 boxes: at no time may more than about a batch of 64 MiB be alive.
    boxes, alive, most = 32, 0, 0

    class Box:
        def __init__(self, value: np.ndarray) -> None:
            nonlocal alive, most
            alive += 1
            most = max(most, alive)
            self.value = value

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    class Owned(np.ndarray):
        box: Any

    zeros = np.zeros((5 << 20) // 8)

    def data(index: tuple[slice, ...]) -> np.ndarray:
        view = zeros[None].view(Owned)
        view.box = Box(view)
        del view.box.value  # no cycle: the box dies with its array
        return view

    with_many = gs.testing.runtime if hasattr(gs, "testing") else None
    assert with_many is None or callable(with_many)
    sharding = named(("x", "y"))
    rows = 8
    x = gs.make_array_from_callback((rows, zeros.size), sharding, data)
    assert (alive, boxes >= most) == (0, True)
    assert x.shape == (rows, zeros.size)


# From the data of a process


@dataclass(frozen=True)
class FakeDevice:
    """A device of a process; seen from process 0."""

    id: int
    process: int

    @property
    def is_addressable(self) -> bool:
        return self.process == 0


def process_mesh(owners: np.ndarray) -> gs.Mesh:
    fakes = [FakeDevice(i, int(owner)) for i, owner in enumerate(owners.flat)]
    return gs.Mesh(np.array(fakes).reshape(owners.shape), tuple("xy"[: owners.ndim]))


OWNERS = {
    "rows": np.array([[0, 0], [1, 1]]),
    "columns": np.array([[0, 1], [0, 1]]),
    "striped": np.array([0, 1, 0, 1]),
    "one of four": np.array([1, 1, 0, 1]),
    "first three": np.array([[0, 0, 0], [1, 1, 1]]),
    "all": np.array([[0, 0], [0, 0]]),
}


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS)
@given(data=st.data())
def test_local_data_is_whole_or_packed_in_each_dim(owners: np.ndarray, data: Any) -> None:
    mesh = process_mesh(owners)
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 4, 5, 8, 12]), min_size=2, max_size=2)))
    entries = data.draw(st.permutations([*mesh.axis_names, None, None]))[:2]
    sharding = gs.NamedSharding(mesh, gs.P(*entries))
    value = np.arange(math.prod(shape)).reshape(shape)
    mine = sharding.addressable_devices_indices_map(shape)
    # What this process addresses in each dim, element by element.
    wanted = [
        sorted(set(itertools.chain(*(range(*index[dim].indices(n)) for index in mine.values()))))
        for dim, n in enumerate(shape)
    ]
    for dim in range(2):
        assert gs.num_addressable_indices(sharding, dim, shape) == len(wanted[dim])
    for packed in itertools.product([False, True], repeat=2):
        local = value
        for dim in range(2):
            if packed[dim]:
                local = np.take(local, wanted[dim], axis=dim)
        to_local = local_slices(sharding.tiling(shape), local.shape)
        for index in mine.values():
            assert np.array_equal(local[to_local(index)], value[index])


@pytest.mark.parametrize(
    ("owners", "entries", "local", "match"),
    [
        ("rows", ("x",), (3, 8), r"3 elements in dim 0; give all 8 .*or the 4"),
        ("rows", ("x", "y"), (4, 4), r"4 elements in dim 1; give all 8 .*or the 8"),
        ("columns", (None, "y"), (8, 2), r"2 elements in dim 1; give all 8 .*or the 4"),
        ("striped", ("x",), (4, 8, 1), r"3 dims, global_shape=\(8, 8\) has 2"),
    ],
)
def test_local_data_that_fits_neither_rule(
    owners: str, entries: Any, local: Shape, match: str
) -> None:
    tiling = gs.NamedSharding(process_mesh(OWNERS[owners]), gs.P(*entries)).tiling((8, 8))
    with pytest.raises(ShardingError, match=match):
        local_slices(tiling, local)


@pytest.mark.parametrize("entries", [(), ("x",), ("y", "x"), (None, ("x", "y"))])
@pytest.mark.parametrize("shape", [(8, 8), (5, 3), (0, 2)])
def test_one_process_has_all_the_data(entries: Any, shape: Shape) -> None:
    value = np.arange(math.prod(shape), dtype=np.int16).reshape(shape)
    for global_shape in (None, shape, list(shape)):
        x = gs.make_array_from_process_local_data(named(*entries), value, global_shape)
        assert x.sharding == named(*entries)
        assert x.committed
        check(x, value)


def test_process_data_is_copied_before_the_call_returns() -> None:
    value = np.arange(8)
    x = gs.make_array_from_process_local_data(named("x"), value)
    value[:] = 0
    check(x, np.arange(8))


def test_process_data_may_be_scalars_and_other_byte_orders() -> None:
    check(gs.make_array_from_process_local_data(named(), 3), np.array(3))
    value = np.arange(8, dtype=">i4")
    check(gs.make_array_from_process_local_data(named("x"), value), np.arange(8, dtype=np.int32))


# From single-device arrays


def parts_of(value: np.ndarray, sharding: gs.Sharding) -> list[gs.Array]:
    indices = sharding.devices_indices_map(value.shape)
    return [gs.device_put(value[index], device) for device, index in indices.items()]


@pytest.mark.parametrize("entries", [(), ("x",), ("y", "x"), (None, ("x", "y"))])
@pytest.mark.parametrize("shape", [(8, 8), (5, 3), (0, 2), (300, 300)])
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_parts_may_come_in_any_order(entries: Any, shape: Shape, seed: int | None) -> None:
    value = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    sharding = named(*entries)
    parts = parts_of(value, sharding)
    if seed is not None:
        np.random.default_rng(seed).shuffle(parts)  # type: ignore[arg-type]
    x = gs.make_array_from_single_device_arrays(shape, sharding, parts)
    assert x.sharding == sharding
    assert x.committed
    check(x, value)


@pytest.mark.parametrize("shape", [(8, 8), (300, 300)])
def test_parts_share_their_memory(shape: Shape) -> None:
    value = np.arange(math.prod(shape)).reshape(shape)
    sharding = named("x", "y")
    parts = parts_of(value, sharding)
    before = [device.memory_stats()["bytes_in_use"] for device in gs.devices()]
    x = gs.make_array_from_single_device_arrays(shape, sharding, parts)
    assert [device.memory_stats()["bytes_in_use"] for device in gs.devices()] == before
    for part, shard in zip(parts, x.addressable_shards, strict=True):
        assert shard.data.unsafe_buffer_pointer() == part.unsafe_buffer_pointer()
    for part in parts:
        part.delete()
    check(x, value)


def test_parts_of_one_array_make_another() -> None:
    value = np.arange(64).reshape(8, 8)
    x = gs.device_put(value, named("x", "y"))
    columns = gs.make_array_from_single_device_arrays(
        (8, 8), x.sharding, [shard.data for shard in reversed(x.addressable_shards)]
    )
    x.delete()
    check(columns, value)


def test_replicas_are_taken_as_given() -> None:
    parts = [gs.device_put(np.full(2, i), device) for i, device in enumerate(gs.devices())]
    x = gs.make_array_from_single_device_arrays((2,), named(), parts)
    assert [np.asarray(s.data).tolist() for s in x.addressable_shards] == [
        [i, i] for i in range(8)
    ]


def test_a_part_may_have_a_mesh_of_one_device() -> None:
    one = gs.NamedSharding(gs.Mesh(gs.devices()[:1], "z"), gs.P("z"))
    other = gs.device_put(np.arange(2, 4), gs.devices()[1])
    sharding = named("x", mesh=(2,))
    x = gs.make_array_from_single_device_arrays(
        (4,), sharding, [other, gs.device_put(np.arange(2), one)]
    )
    check(x, np.arange(4))


def test_dtype_of_parts_is_checked_not_converted() -> None:
    parts = parts_of(np.arange(8), named("x"))
    check(
        gs.make_array_from_single_device_arrays((8,), named("x"), parts, dtype="i8"), np.arange(8)
    )
    with pytest.raises(ArgumentTypeError, match="int64.*float32"):
        gs.make_array_from_single_device_arrays((8,), named("x"), parts, dtype="f4")
