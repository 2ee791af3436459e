"""`Array`: attributes, construction, reads, conversions, placement and other libraries."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P
from tests.systems.behaviours import differs

DEVICES = gs.devices()
MESH = gs.make_mesh((4, 2), ("x", "y"))
SPLIT = gs.NamedSharding(MESH, P("x", "y"))
ROWS = gs.NamedSharding(MESH, P("x"))
VALUE = np.arange(48.0).reshape(8, 6)


@pytest.fixture
def x() -> gs.Array:
    """An array over a grid of devices."""
    return gs.device_put(VALUE, SPLIT)


def test_an_array_has_the_attributes_of_numpys(x: gs.Array) -> None:
    assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize) == ((8, 6), 2, 48, 384, 8)
    assert x.dtype == np.float64 and x.T.shape == x.mT.shape == (6, 8)
    assert np.array_equal(x.real, VALUE) and not np.asarray(x.imag).any()


def test_an_array_says_where_it_lies(x: gs.Array) -> None:
    assert x.sharding == SPLIT and x.committed and not x.weak_type
    assert x.devices() == set(DEVICES) and x.platform() == "cpu"
    assert x.is_fully_addressable and not x.is_fully_replicated
    assert gs.device_put(VALUE, DEVICES[1]).device == DEVICES[1]


def test_an_array_has_an_aval_and_a_format(x: gs.Array) -> None:
    assert (x.aval.shape, x.aval.dtype) == (x.shape, x.dtype)
    assert x.format.sharding == SPLIT


def test_sizes_on_devices_count_replicas(x: gs.Array) -> None:
    assert x.on_device_size_in_bytes() == 384
    assert gs.device_put(VALUE, gs.NamedSharding(MESH, P("x"))).on_device_size_in_bytes() == 768


def test_a_pointer_is_that_of_an_unsharded_array(x: gs.Array) -> None:
    assert isinstance(gs.device_put(VALUE, DEVICES[0]).unsafe_buffer_pointer(), int)
    with pytest.raises(ValueError):
        x.unsafe_buffer_pointer()


def test_shards_have_device_index_replica_and_data(x: gs.Array) -> None:
    assert len(x.addressable_shards) == len(x.global_shards) == 8
    for shard in x.addressable_shards:
        assert np.array_equal(shard.data, VALUE[shard.index]) and shard.replica_id == 0
        assert shard.data.devices() == {shard.device}
    replicas = gs.device_put(VALUE, ROWS).addressable_shards
    assert sorted(shard.replica_id for shard in replicas) == [0] * 4 + [1] * 4


def test_addressable_data_of_replicas_is_any(x: gs.Array) -> None:
    same = gs.device_put(VALUE, gs.NamedSharding(MESH, P()))
    assert all(np.array_equal(same.addressable_data(n), VALUE) for n in range(8))
    assert x.addressable_data(3).shape == (2, 3)


def test_the_text_has_values_where_they_are_cheap(x: gs.Array) -> None:
    assert "47." in repr(x) and "dtype=float64" in repr(x)
    assert "shape=(0, 3)" in repr(gnp.zeros((0, 3)))
    assert "..." in repr(gnp.zeros(10_000))
    assert "weak_type=True" in repr(gs.device_put(1.5))


def test_an_element_formats_as_a_number() -> None:
    assert f"{gnp.asarray(1.25):.1f}" == "1.2" and str(gnp.asarray(3)) == "3"


CONVERSIONS: dict[str, tuple[Any, Any]] = {
    "bool": (lambda v: bool(v), True), "int": (lambda v: int(v), 5), "float": (float, 5.0),
    "complex": (complex, 5 + 0j), "index": (operator.index, 5), "hex": (hex, "0x5"),
    "oct": (oct, "0o5"), "item": (lambda v: v.item(), 5), "tolist": (lambda v: v.tolist(), 5),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERSIONS)
def test_an_element_converts(name: str) -> None:
    convert, wanted = CONVERSIONS[name]
    assert convert(gnp.asarray(5)) == wanted


def test_several_elements_do_not_convert() -> None:
    for convert in (bool, int, float):
        with pytest.raises((ValueError, TypeError)):
            convert(gnp.ones(3))


def test_lengths_and_iteration_are_those_of_the_first_dim(x: gs.Array) -> None:
    assert len(x) == 8 and [row.shape for row in x] == [(6,)] * 8
    with pytest.raises(TypeError):
        len(gnp.asarray(1))


@differs("`for row in x`, `x[i]` and `x[i:j]`")
def test_iteration_and_indexing_keep_a_sharding(x: gs.Array) -> None:
    assert len(x[2:6].sharding.device_set) == 8 and len(next(iter(x)).sharding.device_set) > 1


def test_bytes_and_types(x: gs.Array) -> None:
    assert x.tobytes() == VALUE.tobytes() and x.tobytes("F") == VALUE.tobytes("F")
    assert x.astype("int32").dtype == np.int32


def test_arrays_are_unhashable(x: gs.Array) -> None:
    with pytest.raises(TypeError):
        hash(x)


def test_arrays_come_before_numpys_in_operators(x: gs.Array) -> None:
    assert isinstance(VALUE + x, gs.Array) and (VALUE + x).sharding == SPLIT


@differs("pickled arrays")
def test_pickles_keep_the_sharding(x: gs.Array) -> None:
    again = pickle.loads(pickle.dumps(x))
    assert again.sharding == SPLIT and np.array_equal(again, VALUE)


def test_assignment_and_at(x: gs.Array) -> None:
    assert float(x.at[0, 0].set(9)[0, 0]) == 9 and float(x[0, 0]) == 0
    x[0, 0] = 9
    assert float(x[0, 0]) == 9 and x.sharding == SPLIT


def test_the_host_value_is_read_once_and_read_only(x: gs.Array) -> None:
    first = np.asarray(x)
    assert np.asarray(x) is first and not first.flags.writeable


def test_array_takes_a_dtype_and_copy(x: gs.Array) -> None:
    assert np.asarray(x, np.float32).dtype == np.float32
    assert np.array(x, copy=True).flags.writeable


def test_copies_to_the_host_start_early(x: gs.Array) -> None:
    x.copy_to_host_async()
    assert x.block_until_ready() is x and x.is_ready() and np.array_equal(x, VALUE)


def test_deleted_arrays_say_what_they_were(x: gs.Array) -> None:
    x.delete()
    x.delete()
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match=r"\(8, 6\)"):
        np.asarray(x)


def test_buffers_of_old_name_their_successors(x: gs.Array) -> None:
    for name in ("device_buffer", "device_buffers"):
        with pytest.raises(AttributeError, match="addressable"):
            getattr(x, name)


def test_keys_shard_like_any_array() -> None:
    keys = gs.device_put(gs.random.split(gs.random.key(0), 8), gs.NamedSharding(MESH, P("x")))
    assert keys.shape == (8,) and keys.addressable_shards[0].data.shape == (2,)


def test_formats_pair_a_layout_and_a_sharding() -> None:
    made = gs.device_put(VALUE, gs.Format(gs.Layout((0, 1)), SPLIT))
    assert made.sharding == SPLIT


def test_an_open_layout_is_refused_where_one_is_needed() -> None:
    with pytest.raises(TypeError, match="AUTO"):
        gs.device_put(VALUE, gs.Format(gs.Layout.AUTO, SPLIT))


@differs("`make_array_from_callback`")
def test_a_callback_is_called_once_for_each_box() -> None:
    asked: list[Any] = []

    def read(index: Any) -> Any:
        asked.append(index)
        return VALUE[index]

    made = gs.make_array_from_callback((8, 6), ROWS, read)
    assert len(asked) == 4 and np.array_equal(made, VALUE)
    gs.make_array_from_callback((8, 6), gs.NamedSharding(MESH, P()), read)
    assert len(asked) == 5


def test_arrays_of_devices_become_one() -> None:
    found = SPLIT.addressable_devices_indices_map((8, 6))
    parts = [gs.device_put(VALUE[index], d) for d, index in found.items()]
    made = gs.make_array_from_single_device_arrays((8, 6), SPLIT, parts[::-1])
    assert np.array_equal(made, VALUE)


WRONG_PARTS: dict[str, tuple[Any, str]] = {
    "too few": (lambda parts: parts[1:], "device"),
    "another type": (lambda parts: [*parts[1:], parts[0].astype("int32")], "int32"),
    "another shape": (lambda parts: [*parts[1:], parts[0][:1]], r"\(1, 3\)"),
    "a device twice": (lambda parts: [*parts[1:], parts[1]], "device"),
}


@pytest.mark.parametrize("name", WRONG_PARTS)
def test_arrays_that_do_not_fit_are_named(name: str) -> None:
    change, words = WRONG_PARTS[name]
    found = SPLIT.addressable_devices_indices_map((8, 6))
    parts = [gs.device_put(VALUE[index], d) for d, index in found.items()]
    with pytest.raises((ValueError, TypeError), match=words):
        gs.make_array_from_single_device_arrays((8, 6), SPLIT, change(parts))


def test_data_of_the_process_may_be_a_part() -> None:
    assert gs.num_addressable_indices(ROWS, 0, (8, 6)) == 8
    made = gs.make_array_from_process_local_data(ROWS, VALUE)
    assert made.shape == (8, 6) and np.array_equal(made, VALUE)


def test_device_put_takes_trees_and_prefixes() -> None:
    a, b = gs.device_put({"a": VALUE, "b": [1.0]}, {"a": SPLIT, "b": DEVICES[2]}).values()
    assert a.sharding == SPLIT and b[0].devices() == {DEVICES[2]}
    assert not gs.device_put(VALUE).committed


def test_a_source_may_be_written_once_device_put_returns() -> None:
    source = VALUE.copy()
    made = gs.device_put(source, SPLIT)
    source[:] = -1
    assert np.array_equal(made, VALUE)


def test_donated_arrays_are_gone() -> None:
    x = gs.device_put(VALUE, SPLIT)
    y = gs.device_put(x, ROWS, donate=True)
    assert x.is_deleted() and np.array_equal(y, VALUE)


def test_what_may_be_placed_is_an_open_table() -> None:
    class Reading:
        def __init__(self, value: float) -> None:
            self.value = value

    gs.register_placeable(Reading, lambda reading: np.asarray(reading.value))
    assert float(gs.device_put(Reading(2.5))) == 2.5


def test_device_get_takes_trees(x: gs.Array) -> None:
    found = gs.device_get({"a": x, "b": 3})
    assert isinstance(found["a"], np.ndarray) and found["b"] == 3


@differs("`device_put` between shardings")
def test_reshards_never_go_through_the_host(x: gs.Array) -> None:
    with gs.transfer_guard("disallow"):
        y = gs.reshard(x, gs.NamedSharding(MESH, P("y", "x")))
    assert np.array_equal(y, VALUE)


def test_a_default_device_is_where_new_arrays_go() -> None:
    with gs.default_device(DEVICES[3]):
        assert gnp.ones(2).devices() == {DEVICES[3]}


@pytest.mark.parametrize(
    "guard",
    [gs.transfer_guard, gs.transfer_guard_device_to_host, gs.transfer_guard_host_to_device],
)
def test_guards_refuse_implicit_transfers(guard: Any) -> None:
    x = gnp.ones(3)
    with guard("disallow"), pytest.raises(RuntimeError):
        gnp.add(x, np.ones(3))
        float(x[0])
    with guard("allow"):
        assert float(gnp.add(x, np.ones(3))[0]) == 2


def test_gathers_can_be_guarded(x: gs.Array) -> None:
    with gs.gather_guard("disallow"), pytest.raises(RuntimeError):
        gnp.fft.fft(gnp.linalg.qr(x)[0])


@pytest.mark.parametrize("kind", ["device", "pinned_host", "unpinned_host"])
def test_memories_of_the_host_hold_arrays(kind: str, x: gs.Array) -> None:
    y = gs.device_put(x, SPLIT.with_memory_kind(kind))
    assert y.sharding.memory_kind == kind and np.array_equal(y, VALUE)


def test_dlpack_goes_both_ways_without_a_copy() -> None:
    x = gs.device_put(VALUE, DEVICES[0])
    seen = np.from_dlpack(x)
    assert seen.__array_interface__["data"][0] == x.unsafe_buffer_pointer()
    assert np.array_equal(gs.from_dlpack(VALUE), VALUE) and len(x.__dlpack_device__()) == 2


def test_a_sharded_array_has_no_dlpack(x: gs.Array) -> None:
    with pytest.raises(BufferError, match="shard"):
        x.__dlpack__()


@differs("64-bit types")
def test_types_of_64_bits_are_on() -> None:
    assert gnp.arange(3).dtype == np.int64 and gnp.ones(1).dtype == np.float64


@differs("an axis length not divisible by the number of blocks")
def test_uneven_dims_are_legal() -> None:
    x = gs.device_put(np.arange(10), gs.NamedSharding(gs.make_mesh((8,), "x"), P("x")))
    assert [s.data.shape[0] for s in x.addressable_shards] == [2, 2, 2, 2, 2, 0, 0, 0]
    assert int((x * 2).sum()) == 90


@differs("NumPy's functions (`np.sin(x)`)")
def test_functions_of_numpy_run_where_the_array_lies(x: gs.Array) -> None:
    assert isinstance(np.sin(x), gs.Array) and np.sin(x).sharding == SPLIT  # type: ignore[attr-defined]


def test_traced_and_mapped_values_are_arrays() -> None:
    seen: list[bool] = []

    def f(v: Any) -> Any:
        seen.append(isinstance(v, gs.Array))
        return v

    x = gnp.ones(8)
    gs.jit(f)(x)
    gs.vmap(f)(x)
    gs.pmap(f)(x)
    gs.shard_map(f, gs.make_mesh((8,), "x"), P("x"), P("x"))(x)
    assert seen == [True] * 4


def test_layouts_have_the_names_of_old() -> None:
    lies = gs.legacy.Layout(gs.legacy.DeviceLocalLayout((0, 1)), SPLIT)
    assert lies == gs.Format(gs.Layout((0, 1)), SPLIT)
    assert np.array_equal(gs.device_put(VALUE, lies), VALUE)


def test_a_callback_takes_a_format_and_gives_the_type() -> None:
    made = gs.make_array_from_callback(
        (8, 6), gs.Format(gs.Layout((0, 1)), SPLIT), lambda index: VALUE[index].astype("int16")
    )
    assert made.dtype == np.int16 and made.sharding == SPLIT


def test_arrays_are_not_made_of_callbacks_while_tracing() -> None:
    def f(v: Any) -> Any:
        return gs.make_array_from_callback((8, 6), SPLIT, lambda index: v[index])

    with pytest.raises((TypeError, ValueError)):
        gs.jit(f)(VALUE)


def test_arrays_are_not_made_of_traced_values() -> None:
    with pytest.raises(ValueError):
        gs.jit(lambda v: gs.make_array_from_single_device_arrays((8, 6), SPLIT, [v] * 8))(VALUE)


def test_guards_may_log_or_allow_what_is_asked_for(caplog: Any) -> None:
    x = gs.device_put(VALUE)
    with gs.transfer_guard_device_to_host("log"):
        np.asarray(x + 1)
    assert any("device" in record.getMessage() for record in caplog.records)
    with gs.transfer_guard("disallow"):
        gs.device_get(gs.device_put(VALUE))
    with gs.transfer_guard("disallow_explicit"), pytest.raises(RuntimeError):
        gs.device_put(VALUE)


def test_trees_of_placements_may_be_lists_of_devices() -> None:
    parts = gs.device_put([VALUE, VALUE], list(DEVICES[:2]))
    assert [part.devices() for part in parts] == [{d} for d in DEVICES[:2]]


def test_aliases_of_host_data_are_asked_for() -> None:
    made = gs.device_put(VALUE, DEVICES[0], may_alias=True)
    assert np.array_equal(made, VALUE)


def test_interfaces_of_cuda_are_those_of_gpus(x: gs.Array) -> None:
    with pytest.raises(AttributeError):
        x.__cuda_array_interface__  # noqa: B018


def test_users_shardings_and_lists_survive_operations() -> None:
    x = gs.pmap(lambda v: v)(VALUE)
    assert (x + 1).sharding == x.sharding and x.sum() == VALUE.sum()
    assert np.array_equal(x @ VALUE.T, VALUE @ VALUE.T) and x[2:4].shape == (2, 6)


def test_an_index_of_a_pmap_sharding_is_a_shard_without_a_copy() -> None:
    x = gs.pmap(lambda v: v)(VALUE)
    row = x[np.int64(-1)]
    assert row.unsafe_buffer_pointer() == x.addressable_data(7).unsafe_buffer_pointer()
    assert not row.committed
