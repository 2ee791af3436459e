"""Arrays from callbacks, from the data of a process, and from arrays on single devices."""

import math
import weakref
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._placement import make_array
from gpushard.errors import ArgumentTypeError

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


def test_callback_data_is_copied_before_the_call_returns() -> None:
    value = np.arange(8.0)
    x = gs.make_array_from_callback((8,), named("x"), lambda index: value[index])
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


@pytest.mark.parametrize("batch", [1, 3])
def test_callback_data_is_let_go_batch_by_batch(
    monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    value = np.arange(8 * 100.0).reshape(8, 100)
    monkeypatch.setattr(make_array, "_BATCH_NBYTES", batch * value[0].nbytes)
    given_out: list[weakref.ref[np.ndarray]] = []
    alive: list[int] = []

    def data(index: tuple[slice, ...]) -> np.ndarray:
        alive.append(sum(reference() is not None for reference in given_out))
        box = value[index].copy()
        given_out.append(weakref.ref(box))
        return box

    x = gs.make_array_from_callback((8, 100), named(("x", "y")), data)
    assert max(alive) == max(1, batch - 1)  # and the next one, or the last as the next is made
    assert [reference() for reference in given_out] == [None] * 8
    check(x, value)


# From the data of a process


@pytest.mark.parametrize("entries", [(), ("x",), ("y", "x"), (None, ("x", "y"))])
@pytest.mark.parametrize("shape", [(8, 8), (5, 3), (0, 2)])
def test_one_process_has_all_the_data(entries: Any, shape: Shape) -> None:
    value = np.arange(math.prod(shape), dtype=np.int16).reshape(shape)
    for global_shape in (None, shape, list(shape)):
        x = gs.make_array_from_process_local_data(named(*entries), value, global_shape)
        assert x.sharding == named(*entries)
        assert x.committed
        check(x, value)


def test_a_list_of_shapes_may_have_a_number_for_one_dim() -> None:
    data = [np.arange(8), np.arange(16).reshape(8, 2)]
    for shapes in ([8, (8, 2)], [(8,), (np.int64(8), 2)], [None, [8, 2]]):
        made = gs.make_array_from_process_local_data(named("x"), data, shapes)
        for x, value in zip(made, data, strict=True):
            check(x, value)


def test_process_data_goes_to_one_device_too() -> None:
    x = gs.make_array_from_process_local_data(gs.devices()[3], np.arange(4))
    assert x.devices() == {gs.devices()[3]}
    check(x, np.arange(4))


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
    assert [np.asarray(s.data).tolist() for s in x.addressable_shards] == [[i, i] for i in range(8)]


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
    with pytest.raises(ArgumentTypeError, match=r"int64.*float32"):
        gs.make_array_from_single_device_arrays((8,), named("x"), parts, dtype="f4")
