"""`Array` against the NumPy array that it was made from."""

import copy
import operator
import pickle
import struct
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._runtime.runtime import Runtime
from gpushard.errors import (
    ArgumentError,
    DeletedArrayError,
    DeserializationError,
    TransferGuardError,
)
from gpushard.testing import runtime
from tests.share import examples

pytestmark = pytest.mark.usefixtures("rt")

LARGE = np.arange(3 * 4 * 1000, dtype=np.float32).reshape(3, 4, 1000)


def named(*entries: Any, mesh: tuple[int, ...] = (4, 2)) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh(mesh, tuple("xyz"[: len(mesh)])), gs.P(*entries))


def in_use() -> list[Any]:
    return [device.memory_stats()["bytes_in_use"] for device in gs.devices()]


def fetched(rt: Runtime) -> int:
    """Bytes that were copied to the host so far."""
    return sum(n for (_, domain), n in rt.backend.traffic.items() if domain == HOST_DOMAIN)


def same_bits(array: Any, value: np.ndarray) -> bool:
    found = np.asarray(array)
    return (found.dtype, found.shape, found.tobytes()) == (
        value.dtype,
        value.shape,
        value.tobytes(),
    )


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """Return the type and text of the result, or of the error; of positions our text is longer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(*args)
        except IndexError:
            return IndexError, ""
        except Exception as error:
            return type(error), str(error)
    return type(result), repr(result)


# Attributes


@given(st.data())
def test_describes_its_value(cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    x, value = case.put(), case.value
    for name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes"):
        assert getattr(x, name) == getattr(value, name), name
    assert x.sharding == case.sharding
    assert (x.committed, x.weak_type, x.is_deleted()) == (True, False, False)
    assert x.aval == gs.ShapeDtypeStruct(value.shape, value.dtype)
    assert x.devices() == case.sharding.device_set
    assert x.platform() == gs.devices()[0].platform
    assert x.is_fully_replicated == case.sharding.is_fully_replicated
    assert x.is_fully_addressable
    assert x.block_until_ready() is x
    assert x.is_ready()
    assert same_bits(x, value)
    assert same_bits(gs.device_get(x), value)


@given(st.data())
def test_shards_are_the_parts_of_the_value(cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    x, value = case.put(), case.value
    indices = case.sharding.devices_indices_map(value.shape)
    assert [s.device for s in x.addressable_shards] == list(indices)
    seen: list[Any] = []
    for position, shard in enumerate(x.addressable_shards):
        assert shard.index == indices[shard.device]
        part = value[shard.index]
        assert same_bits(shard.data, part)
        assert shard.data.devices() == {shard.device}
        assert shard.data.sharding == gs.SingleDeviceSharding(shard.device)
        if part.size or not part.ndim:
            assert shard.replica_id == seen.count(shard.index)
        seen.append(shard.index)
        twin = x.global_shards[position]
        assert (twin.device, twin.index, twin.replica_id) == (
            shard.device,
            shard.index,
            shard.replica_id,
        )
        same = [twin.data, x.addressable_shards[position].data]
        if not x.is_fully_replicated:
            same.append(x.addressable_data(position))
        pointer = shard.data.unsafe_buffer_pointer()
        assert all(one.unsafe_buffer_pointer() == pointer for one in same)
    sizes = [value[index].nbytes for index in indices.values()]
    assert x.on_device_size_in_bytes() == sum(sizes)


@examples(40)
@given(st.data())
def test_device_names_a_place_for_any_rank(cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    x = case.put()
    beside = gs.device_put(np.ones((2, 3, 1, 2)), x.device)
    assert beside.devices() == x.devices()
    assert beside.is_fully_replicated
    assert gs.device_put(0.0, x.device).devices() == x.devices()
    assert hash(x.device) == hash(case.put().device)
    assert x.device == case.put().device
    assert isinstance(x.device, gs.Device) == (len(x.devices()) == 1)


def test_any_addressable_data_of_a_replicated_array_is_a_replica() -> None:
    x = gs.device_put(np.arange(3), named())
    for index in (0, 7, 8, 1000):
        assert same_bits(x.addressable_data(index), np.arange(3))


def test_buffer_pointer_is_where_the_host_reads(rt: Runtime) -> None:
    if not rt.backend.host_readable:
        pytest.skip("the host cannot read where shards are")
    x = gs.device_put(np.arange(100_000), gs.devices()[1])
    assert x.unsafe_buffer_pointer() == np.asarray(x).ctypes.data
    part = gs.device_put(np.arange(8), named("x")).addressable_data(2)
    assert part.unsafe_buffer_pointer() == np.asarray(part).ctypes.data


def test_shards_are_committed_as_the_array_is() -> None:
    for x in (gs.device_put(1.0), gs.device_put(1.0, gs.devices()[1])):
        data = x.addressable_shards[0].data
        assert (data.committed, data.weak_type) == (x.committed, True)


def test_shards_are_values_of_their_own() -> None:
    value = np.arange(8)
    for sharding in (named("x"), named(), gs.SingleDeviceSharding(gs.devices()[1])):
        x = gs.device_put(value, sharding)
        shard = x.addressable_shards[0]
        for part in (shard.data, x.addressable_data(0), x.global_shards[0].data):
            part[0] = 99
            assert part[0] == 99
        x.addressable_data(0).delete()
        shard.data.delete()
        assert same_bits(x, value)
        assert same_bits(x.addressable_shards[0].data, value[shard.index])
        assert same_bits(x.addressable_data(0), value[shard.index])


def test_a_shard_that_was_assigned_to_outlives_the_array() -> None:
    x = gs.device_put(np.arange(8), named("x"))
    one, other = x.addressable_data(0), x.addressable_data(0)
    one[0] = 99
    x.delete()
    assert other.is_deleted() and one.tolist() == [99, 1]


def test_an_array_is_not_written_in_place_while_its_shards_are_known() -> None:
    x = gs.device_put(np.arange(8), named("x"))
    before = x.addressable_shards
    x[:] = 0
    assert [n for shard in before[::2] for n in shard.data.tolist()] == list(range(8))
    x.delete()
    assert not any(shard.data.is_deleted() for shard in before)


def test_shards_are_deleted_with_the_array_also_those_that_nobody_asked_for() -> None:
    x = gs.device_put(np.arange(8), named("x"))
    shards = x.addressable_shards
    asked = shards[0].data
    x.delete()
    assert asked is not None and asked.is_deleted()
    for shard in shards:
        assert shard.data is not None and shard.data.is_deleted() and shard.data.shape == (2,)


def test_shards_become_arrays_when_they_are_asked_for() -> None:
    x = gs.device_put(np.arange(8), named("x"))
    shards = x.addressable_shards
    before = len(gs.live_arrays())
    assert shards[1].data is shards[1].data
    assert len(gs.live_arrays()) == before + 1
    assert same_bits(pickle.loads(pickle.dumps(shards[2])).data, np.arange(2, 4))


@pytest.mark.parametrize("field", ["data", "device", "index", "replica_id"])
def test_shards_cannot_be_changed(field: str) -> None:
    shard = gs.device_put(np.arange(8), named("x")).addressable_shards[0]
    with pytest.raises(AttributeError):
        setattr(shard, field, None)


def test_shard_shows_its_fields() -> None:
    shard = gs.device_put(np.arange(4), named("x")).addressable_shards[3]
    assert repr(shard) == (
        f"Shard(device={shard.device!r}, index=(slice(1, 2, None),), replica_id=1, "
        "data=Array([1], dtype=int64))"
    )


@examples(40)
@given(st.data())
def test_other_shardings_hold_the_same_value(cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    other = data.draw(cases.filter(lambda c: c.value.ndim == case.value.ndim)).sharding
    x = case.put()
    plan = x.plan(other)
    assert plan.source.shape == plan.destination.shape == x.shape
    for moved in (x.to_device(other), gs.reshard(x, other), gs.device_put(x, other)):
        assert moved.sharding == other
        assert moved.committed
        assert same_bits(moved, case.value)
        for shard in moved.addressable_shards:
            assert same_bits(shard.data, case.value[shard.index])
    device = gs.devices()[-1]
    assert x.to_device(device).devices() == {device}
    assert same_bits(x.to_device(device), case.value)


@examples(40)
@given(st.data())
def test_transposes_take_the_axes_along(cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    x, value = case.put(), case.value
    axes = [case.sharding.spec.axes(dim) for dim in range(value.ndim)]
    turned = {"T": tuple(reversed(range(value.ndim)))}
    if value.ndim >= 2:
        turned["mT"] = (*range(value.ndim - 2), value.ndim - 1, value.ndim - 2)
    for name, order in turned.items():
        result = getattr(x, name)
        assert same_bits(result, np.ascontiguousarray(getattr(value, name)).reshape(result.shape))
        entries = []
        for source in order:
            kept = axes[source] if value.shape[source] > 1 else ()
            entries.append(kept or None)
        wanted = gs.NamedSharding(case.sharding.mesh, gs.P(*entries))
        assert result.sharding.is_equivalent_to(wanted, value.ndim)
        for shard in result.addressable_shards:
            part = np.ascontiguousarray(getattr(value, name)[shard.index])
            assert np.asarray(shard.data).tobytes() == part.tobytes()
        assert same_bits(getattr(result, name), value)


def test_format_says_row_major_and_can_be_used_again() -> None:
    x = gs.device_put(np.arange(24).reshape(2, 3, 4), named("x", None, "y"))
    assert x.layout == gs.Layout((0, 1, 2))
    assert x.format == gs.Format(gs.Layout((0, 1, 2)), x.sharding)
    twin = gs.device_put(np.zeros((2, 3, 4)), x.format)
    assert twin.sharding == x.sharding


# Conversions


CONVERSIONS: list[Callable[[Any], Any]] = [
    bool,
    int,
    float,
    complex,
    operator.index,
    hex,
    oct,
    len,
    str,
    lambda a: a.tolist(),
    lambda a: a.item(),
    lambda a: a.item(0) if a.size else None,
    lambda a: a.item(*(0,) * a.ndim) if a.size else None,
    lambda a: a.item(5) if a.size > 5 else None,
    lambda a: a.tobytes(),
    lambda a: a.tobytes("F"),
    lambda a: a.tobytes(order="A"),
    lambda a: [np.asarray(part).tolist() for part in a],
    lambda a: [np.asarray(part).tolist() for part in reversed(a)],
    lambda a: range(10)[a],
]


@examples(40)
@given(st.data())
def test_converts_as_numpy_does(cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    x = case.put()
    for convert in CONVERSIONS:
        assert outcome(convert, x) == outcome(convert, case.value), convert


@pytest.mark.parametrize(
    "value", [7, 2.5, 1e-5, True, 1 + 2j, np.float16(0.1), [1], [1, 2], [[1.5]], []]
)
def test_formats_a_0d_array_as_its_element(value: Any) -> None:
    numpy = np.asarray(value)
    for spec in ("", "5", "05.2f", "e", "d", "x", "%", ">10", "nonsense"):
        expected = outcome(format, numpy if numpy.ndim else numpy[()], spec)
        assert outcome(format, gs.device_put(numpy), spec) == expected, spec


@pytest.mark.parametrize("value", [1.5, 1e-5, 1e300, 1j, np.float32(0.1), 3, True, np.nan, np.inf])
def test_prints_a_0d_array_as_numpy_does(value: Any) -> None:
    assert str(gs.device_put(value)) == str(np.asarray(value))
    assert f"{gs.device_put(value)}" == f"{np.asarray(value)}"


def test_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable type: 'Array'"):
        hash(gs.device_put(1))


def test_arrays_win_over_numpy_in_mixed_expressions() -> None:
    assert gs.Array.__array_priority__ > np.array(0).__array_priority__


# Text


@pytest.mark.parametrize("size", range(1, 25))
def test_dtype_gets_a_line_of_its_own_where_numpy_does_that(size: int) -> None:
    value = np.arange(size, dtype=np.int16) * 7
    assert repr(gs.device_put(value)) == f"Array{repr(value).removeprefix('array')}"


@given(st.data())
def test_repr_is_numpys_with_dtype(cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    x, value = case.put(), case.value
    text = repr(x)
    if x.sharding.num_devices > 1:
        lies = f",\n      sharding={x.sharding!r})"
        assert text.endswith(lies)
        text = text.removesuffix(lies) + ")"
    if not value.size:
        expected = f"Array([], shape={value.shape}, dtype={value.dtype})"
    elif value.dtype in (bool, int, float, complex):  # NumPy leaves these dtypes out
        expected = f"Array{repr(value).removeprefix('array')[:-1]}, dtype={value.dtype})"
        assert text.replace("\n      dtype=", " dtype=") == expected
        return
    else:
        expected = f"Array{repr(value).removeprefix('array')}"
    assert text == expected


@pytest.mark.parametrize(
    ("shape", "entries"),
    [
        ((1001,), ("x",)),
        ((12_345,), (("x", "y"),)),
        ((40, 50), ("x", "y")),
        ((40, 50), ("y", "x")),
        ((3, 4, 1000), (None, "x", "y")),
        ((6, 6, 6, 6), ("x", None, "y")),
        ((1, 2000), ()),
        ((7, 500), ("x",)),
    ],
)
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.complex128])
def test_large_arrays_print_as_numpy_summarises(
    rt: Runtime, shape: tuple[int, ...], entries: tuple[Any, ...], dtype: Any
) -> None:
    value = (np.random.default_rng(0).integers(-(10**6), 10**6, shape) * 1.25).astype(dtype)
    x = gs.device_put(value, named(*entries))
    before = fetched(rt)
    assert str(x) == str(value)
    body = np.array2string(value, separator=", ", prefix="Array(", suffix=",")
    assert repr(x).startswith(f"Array({body},")
    assert repr(x).endswith(f"dtype={np.dtype(dtype)},\n      sharding={x.sharding!r})")
    edges = np.prod([min(size, 7) for size in shape]) * value.itemsize
    assert fetched(rt) - before <= 3 * edges  # printed three times
    before = fetched(rt)
    np.asarray(x)
    shared = x.is_fully_replicated and rt.backend.host_readable
    assert fetched(rt) == before + (0 if shared else value.nbytes)


def test_text_follows_print_options() -> None:
    x, value = gs.device_put(LARGE, named("x")), LARGE
    with np.printoptions(edgeitems=1, threshold=5, precision=2, linewidth=40):
        assert str(x) == str(value)
    for how in ({"threshold": 20_000}, {"threshold": x.size}, {"edgeitems": 0}):
        with np.printoptions(**how):
            assert str(x) == str(value)


def test_text_of_a_large_array_reads_edges_only() -> None:
    x = gs.device_put(np.zeros((1000, 4000)), named("x", "y")).block_until_ready()
    repr(x), str(x)
    tracemalloc.start()
    try:
        repr(x), str(x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < x.nbytes // 100


def test_a_type_that_was_asked_for_does_not_give_way() -> None:
    def of(number: Any, x: Any) -> list[Any]:
        found = [
            number.astype("int32"),
            gs.numpy.asarray(number, "int32"),
            gs.numpy.astype(number, "i4"),
        ]
        found += [gs.lax.convert_element_type(number, np.int32), number.astype(number.dtype)]
        assert not any(value.weak_type for value in found)
        return [value + x for value in found]

    x = gs.numpy.full(2, 200, "uint8")
    for call in (of, gs.jit(of), gs.vmap(of, in_axes=(None, 0))):
        found = call(gs.device_put(100), x)
        assert [made.dtype for made in found] == [np.int32] * 4 + [np.int64]
        assert all(made.tolist() == [300, 300] for made in found)


def test_repr_names_weak_types() -> None:
    assert repr(gs.device_put(1.0)) == "Array(1., dtype=float64, weak_type=True)"
    assert repr(gs.device_put(np.float64(1.0))) == "Array(1., dtype=float64)"


def test_repr_says_the_sharding_over_several_devices() -> None:
    x = gs.device_put(np.arange(4), named("x"))
    assert repr(x) == (
        "Array([0, 1, 2, 3], dtype=int64,\n"
        "      sharding=NamedSharding(mesh=('x': 4, 'y': 2), spec=P('x')))"
    )
    assert repr(x.addressable_data(7)) == "Array([3], dtype=int64)"
    assert repr(gs.device_put(1, named())).startswith(
        "Array(1, dtype=int64, weak_type=True,\n      sharding="
    )


def test_round_is_numpys() -> None:
    value = np.array([0.25, 1.5, 2.5, -17.35])
    x = gs.device_put(value, named("x"))
    for digits in (None, 0, 1, -1):
        made = round(x, digits)
        assert same_bits(made, np.round(value, digits or 0)) and made.sharding == x.sharding
    assert same_bits(round(x), np.round(value))
    with pytest.raises(TypeError):
        round(x, 1.5)  # type: ignore[call-overload]


def test_numpys_old_context_is_taken() -> None:
    x = gs.device_put(np.arange(4), named("x"))
    assert same_bits(x.__array__(np.float32, None), np.arange(4, dtype=np.float32))
    assert same_bits(x.__array__(context=None, copy=True), np.arange(4))


@pytest.mark.parametrize("entries", [None, ("x",), ("x", "y"), ()])
def test_buffers_are_the_value(entries: Any) -> None:
    value = np.arange(48.0).reshape(8, 6)
    x = gs.device_put(value, gs.devices()[3] if entries is None else named(*entries))
    buffer = x.__buffer__(0) if sys.version_info < (3, 12) else memoryview(x)
    assert (buffer.readonly, buffer.shape, buffer.format) == (True, (8, 6), "d")
    x[...] = 0
    assert buffer.tobytes() == value.tobytes()
    if sys.version_info >= (3, 12):
        assert bytes(memoryview(gs.device_put(value, x.sharding))) == value.tobytes()
        with pytest.raises(BufferError):
            struct.pack_into("d", x, 0, 1.0)


def test_buffers_are_guarded() -> None:
    x = gs.device_put(np.arange(8), named("x"))
    with gs.transfer_guard("disallow"), pytest.raises(TransferGuardError, match="memoryview"):
        x.__buffer__(0)


# The value on the host


@pytest.mark.parametrize("entries", [(), ("x", "y"), (None, ("y", "x"))])
@pytest.mark.parametrize("size", [4, 400])
def test_host_value_is_fetched_once_and_read_only(
    rt: Runtime, entries: tuple[Any, ...], size: int
) -> None:
    value = np.arange(size * size).reshape(size, size)
    x = gs.device_put(value, named(*entries))
    first = np.asarray(x)
    before = fetched(rt)
    assert np.shares_memory(np.asarray(x), first)
    assert gs.device_get(x) is first
    x.copy_to_host_async()
    assert np.shares_memory(np.asarray(x), first)
    assert fetched(rt) == before
    assert not first.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 9
    assert same_bits(first, value)


@pytest.mark.parametrize("entries", [(), ("x", "y")])
@pytest.mark.parametrize("size", [4, 400])
def test_copy_to_host_async_starts_the_one_fetch(
    rt: Runtime, entries: tuple[Any, ...], size: int
) -> None:
    value = np.arange(size * size).reshape(size, size)
    x = gs.device_put(value, named(*entries))
    x.copy_to_host_async()
    first = np.asarray(x)
    before = fetched(rt)
    assert np.shares_memory(np.asarray(x), first)
    assert fetched(rt) == before
    assert not first.flags.writeable
    assert same_bits(first, value)


def test_array_protocol_takes_dtype_and_copy() -> None:
    x = gs.device_put(np.arange(6).reshape(2, 3), named("y"))
    cached = np.asarray(x)
    assert np.shares_memory(np.asarray(x, dtype=np.int64), cached)
    assert np.asarray(x, copy=False) is cached
    assert same_bits(np.asarray(x, dtype=np.float32), cached.astype(np.float32))
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.float32, copy=False)
    for copied in (np.array(x), np.asarray(x, copy=True), np.array(x, dtype=np.int64)):
        assert not np.shares_memory(copied, cached)
        copied[:] = 0
    assert same_bits(x, np.arange(6).reshape(2, 3))


# Deletion


@pytest.mark.parametrize("size", [8, 400])
@pytest.mark.parametrize("entries", [(), ("x",), ("x", "y")])
def test_delete_frees_at_once_what_nothing_else_holds(entries: tuple[Any, ...], size: int) -> None:
    before = in_use()
    x = gs.device_put(np.zeros((size, size)), named(*entries))
    parts = [shard.data for shard in x.addressable_shards]
    assert in_use() != before
    x.delete()
    assert [device.memory_stats()["bytes_in_use"] for device in gs.devices()] == before
    assert x.is_deleted()
    assert all(part.is_deleted() for part in parts)
    x.delete()
    assert x.is_deleted()


def test_delete_leaves_what_describes_the_array() -> None:
    x = gs.device_put(np.zeros((4, 2), np.float32), named("x", "y"))
    x.delete()
    assert (x.shape, x.dtype, x.ndim, x.size, x.nbytes) == ((4, 2), np.float32, 2, 8, 32)
    assert x.sharding == named("x", "y")
    assert x.aval == gs.ShapeDtypeStruct((4, 2), np.float32)
    assert repr(x) == "Array(deleted, shape=(4, 2), dtype=float32)"
    with pytest.raises(DeletedArrayError, match=r"\(4, 2\).*float32.*P\('x', 'y'\)"):
        np.asarray(x)


@pytest.mark.parametrize("size", [8, 400])
def test_arrays_that_share_memory_outlive_each_other(size: int) -> None:
    value = np.arange(size * size).reshape(size, size)
    x = gs.device_put(value, named("x"))
    alias, part, view = gs.device_put(x, named("x")), x.addressable_data(1), x[: size // 4]
    joined = gs.make_array_from_single_device_arrays(
        (size, size), named("x"), [s.data for s in alias.addressable_shards]
    )
    part.delete()
    assert same_bits(x, value)
    x.delete()
    assert same_bits(alias, value)
    assert same_bits(view, value[: size // 4])
    alias.delete()
    assert same_bits(joined, value)
    assert same_bits(view, value[: size // 4])


def test_host_values_outlive_their_array() -> None:
    value = np.arange(1 << 17)
    before = in_use()
    x = gs.device_put(value, gs.devices()[0])
    host, tail = np.asarray(x), np.asarray(x)[1000:]
    x.delete()
    del host
    others = [gs.device_put(np.full_like(value, -1), gs.devices()[0]) for _ in range(3)]
    assert same_bits(tail, value[1000:])
    del tail, others
    assert in_use() == before


def test_old_buffer_names_tell_the_new_ones() -> None:
    x = gs.device_put(1)
    with pytest.raises(AttributeError, match="addressable_data"):
        _ = x.device_buffer
    with pytest.raises(AttributeError, match="addressable_shards"):
        _ = x.device_buffers


# Pickles and copies


@examples(40)
@given(st.data())
def test_pickles_keep_everything(cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    twin = pickle.loads(pickle.dumps(case.put()))
    assert twin.sharding == case.sharding
    assert (twin.committed, twin.weak_type) == (True, False)
    assert same_bits(twin, case.value)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
@pytest.mark.parametrize(
    "make",
    [
        lambda: gs.device_put(2.5),
        lambda: gs.device_put(2.5, gs.devices()[3]),
        lambda: gs.device_put(np.arange(10), named("x")),
        lambda: gs.device_put(np.arange(4))[1],
    ],
)
def test_copies_keep_commitment_and_weak_types(copied: Any, make: Any) -> None:
    x = make()
    twin = copied(x)
    assert type(twin) is type(x)
    assert (twin.committed, twin.weak_type) == (x.committed, x.weak_type)
    assert (twin.dtype, twin.sharding) == (x.dtype, x.sharding)
    value = np.array(x)
    x.delete()
    assert same_bits(twin, value)


def test_pickles_move_between_runtimes() -> None:
    x = gs.device_put(np.arange(6), named("x", mesh=(2,)))
    text = pickle.dumps(x)
    with runtime(host_devices=2):
        twin = pickle.loads(text)
        assert twin.devices() == set(gs.devices())
        assert twin.sharding == named("x", mesh=(2,))
        assert same_bits(twin, np.arange(6))
    far = pickle.dumps(gs.device_put(np.arange(6), named("x", mesh=(4,))))
    with runtime(host_devices=2), pytest.raises(DeserializationError) as caught:
        pickle.loads(far)
    platform = gs.default_backend()
    assert f"device 2 of platform {platform!r}" in str(caught.value)
    assert f"2 of {platform!r}" in str(caught.value)
    assert (caught.value.platform, caught.value.id) == (platform, 2)
    assert isinstance(caught.value, RuntimeError)


def test_in_place_operators_keep_the_type() -> None:
    value = np.arange(6, dtype=np.float32)
    sharding = gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x"))
    for operate in (operator.iadd, operator.imul, operator.ipow, operator.ifloordiv):
        x = operate(gs.device_put(value, sharding), np.full(6, 3.0))
        want = operate(value.copy(), np.full(6, 3.0))
        assert (x.dtype, x.sharding) == (want.dtype, sharding)
        np.testing.assert_array_equal(np.asarray(x), want)


@pytest.mark.parametrize("shape", [(), (1,), (6,), (1, 6), (4, 1), (1, 1, 1)])
def test_in_place_operators_broadcast_to_a_larger_shape(shape: tuple[int, ...]) -> None:
    value, other = np.full(shape, 3, np.float32), np.arange(1.0, 25).reshape(4, 6)
    operators = [
        (operator.iadd, np.add), (operator.isub, np.subtract), (operator.imul, np.multiply),
        (operator.itruediv, np.divide),
    ]  # fmt: skip
    for operate, ufunc in operators:
        before = gs.numpy.asarray(value)
        want = ufunc(value.astype(float), other).astype(np.float32)
        for got in (operate(before, other), gs.jit(operate)(before, other)):
            assert (got.shape, got.dtype) == (want.shape, np.float32)
            np.testing.assert_array_equal(np.asarray(got), want)
        assert before.shape == shape


def test_errors_survive_pickling() -> None:
    with pytest.raises(ArgumentError) as caught:
        gs.numpy.zeros(-1)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (type(error), str(error), error.facts) == (
        ArgumentError,
        str(caught.value),
        caught.value.facts,
    )
    assert error.argument == "shape"
