"""`DeviceArray` and `ShardedDeviceArray`: faces on arrays, which hold no data of their own."""

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from gpushard.errors import (
    ArgumentTypeError,
    DeletedArrayError,
    DeletedShardsError,
    ShardingError,
)
from gpushard.legacy import (
    Chunked,
    DeviceArray,
    GlobalDeviceArray,
    PmapSharding,
    Replicated,
    ShardedAxis,
    ShardedDeviceArray,
    ShardingSpec,
    Unstacked,
    make_device_array,
    make_sharded_device_array,
    spec_to_indices,
)

VALUE = np.arange(32.0).reshape(8, 4)
AVAL = gs.ShapeDtypeStruct((8, 4), float)


@pytest.fixture(autouse=True)
def devices() -> Iterator[list[gs.Device]]:
    with testing.runtime(host_devices=8, host_domains=4, enable_checks=True) as rt:
        yield list(rt.devices)


def buffers(spec: ShardingSpec, devices: list[gs.Device]) -> list[gs.Array]:
    indices = spec_to_indices(VALUE.shape, spec)
    return [gs.device_put(VALUE[i], d) for i, d in zip(indices, devices, strict=False)]


ROWS = ShardingSpec([Unstacked(8), None], [ShardedAxis(0)])
SPECS = {
    "rows": ROWS,
    "columns": ShardingSpec([None, Unstacked(4)], [ShardedAxis(0)]),
    "replicated": ShardingSpec([None, Unstacked(4)], [Replicated(2), ShardedAxis(0)]),
    "chunks": ShardingSpec(
        [Chunked(2), Chunked(2)], [ShardedAxis(1), ShardedAxis(0), Replicated(2)]
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_it_is_made_of_its_shards_without_a_copy(name: str, devices: list[gs.Device]) -> None:
    spec = SPECS[name]
    parts = buffers(spec, devices[::-1])
    indices = spec_to_indices(VALUE.shape, spec)
    for x in (
        ShardedDeviceArray(AVAL, spec, parts),
        ShardedDeviceArray(AVAL, spec, parts, indices),
        make_sharded_device_array(AVAL, spec, parts, list(indices)),
    ):
        assert (x.shape, x.dtype, x.aval) == (VALUE.shape, VALUE.dtype, AVAL)
        assert np.array_equal(x, VALUE)
        assert x.sharding_spec is spec and x.indices == indices
        assert x.sharding == PmapSharding(devices[::-1][: len(parts)], spec)
        mine = [b.unsafe_buffer_pointer() for b in x.device_buffers]
        assert mine == [b.unsafe_buffer_pointer() for b in parts]
        whole = [indices[i] for i in x.one_replica_buffer_indices]
        assert len(set(map(repr, whole))) == len(whole) == len(set(map(repr, indices)))
        again = pickle.loads(pickle.dumps(x))
        assert type(again) is ShardedDeviceArray and again.sharding == x.sharding
        assert np.array_equal(again, VALUE)
        assert repr(x).startswith("ShardedDeviceArray([[")


def test_the_shorter_constructor_takes_rows(devices: list[gs.Device]) -> None:
    x = ShardedDeviceArray(AVAL, buffers(ROWS, devices))
    assert x.sharding_spec == ROWS and np.array_equal(x, VALUE)
    assert any(x is each for each in gs.live_arrays())
    assert make_sharded_device_array(AVAL, None, buffers(ROWS, devices)).sharding_spec == ROWS


CALLS: dict[str, Callable[[Any], Any]] = {
    "sum of two": lambda x: x + x,
    "with a number": lambda x: 2 * x - 1,
    "with NumPy": lambda x: np.ones(4) + x,
    "ufunc": np.sin,
    "function": lambda x: gnp.sort(x, axis=0) if isinstance(x, gs.Array) else np.sort(x, axis=0),
    "sum": lambda x: x.sum(axis=0),
    "product": lambda x: x @ x.T,
    "transpose": lambda x: x.T,
    "slice": lambda x: x[2:5, ::2],
    "row": lambda x: x[3],
    "mask": lambda x: x[x > 9],
    "rows": lambda x: x[np.array([1, 1, 5])],
    "at": lambda x: (
        x.at[2].set(0) if isinstance(x, gs.Array) else np.vstack([x[:2], 0 * x[:1], x[3:]])
    ),
    "astype": lambda x: x.astype(np.float32),
    "reshape": lambda x: x.reshape(4, 8),
    "copy": copy.copy,
    "concatenate": lambda x: np.concatenate([x, x]),
    "iteration": lambda x: list(x)[2],
    "where": lambda x: np.where(x > 3, x, 0),
    "quotient": lambda x: x / 2,
}


@pytest.mark.parametrize("call", CALLS)
def test_functions_take_it_and_give_arrays(call: str, devices: list[gs.Device]) -> None:
    x = ShardedDeviceArray(AVAL, buffers(ROWS, devices))
    result = CALLS[call](x)
    assert type(result) is type(gs.device_put(1.0))
    assert np.array_equal(result, CALLS[call](VALUE.copy()))


def test_placement_takes_it_and_gives_arrays(devices: list[gs.Device]) -> None:
    x = ShardedDeviceArray(AVAL, buffers(ROWS, devices))
    named = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
    for y in (
        gs.device_put(x, named),
        gs.reshard(x, named),
        x.to_device(devices[3]),
        gs.device_put(x),
    ):
        assert not isinstance(type(y), type(ShardedDeviceArray)) and np.array_equal(y, VALUE)
    assert np.array_equal(gs.device_get(x), VALUE) and x.tolist() == VALUE.tolist()
    assert type(x.addressable_shards[0].data) is type(gs.device_put(1.0))


def test_x_i_of_one_shard_is_that_shard_until_the_value_is_on_the_host(
    devices: list[gs.Device],
) -> None:
    x = ShardedDeviceArray(AVAL, buffers(ROWS, devices))
    row = x[-3]
    assert row.unsafe_buffer_pointer() == x.device_buffers[5].unsafe_buffer_pointer()
    assert not row.committed
    np.asarray(x)
    other = x[-3]
    assert np.array_equal(other, row) and other.committed


def test_a_deleted_one_raises_what_it_always_did(devices: list[gs.Device]) -> None:
    x = ShardedDeviceArray(AVAL, buffers(ROWS, devices))
    x.delete()
    x.delete()
    assert x.is_deleted() and "deleted" in repr(x)
    for use in (
        lambda: x.device_buffers,
        lambda: x + 1,
        lambda: np.asarray(x),
        x.block_until_ready,
        lambda: x[0],
    ):
        with pytest.raises(DeletedShardsError, match="ShardedDeviceArray of shape") as error:
            use()
        assert isinstance(error.value, ValueError) and isinstance(error.value, DeletedArrayError)


def test_arrays_are_instances_by_where_they_lie(devices: list[gs.Device]) -> None:
    one, several = gs.device_put(VALUE), gs.device_put(VALUE, PmapSharding.default((8, 4)))
    mesh = gs.make_mesh((8,), "x")
    named = gs.device_put(VALUE, gs.NamedSharding(mesh, gs.P("x")))
    sharded = ShardedDeviceArray(AVAL, buffers(ROWS, devices))
    everywhere = GlobalDeviceArray.from_callback((8, 4), mesh, ("x",), lambda i: VALUE[i])
    kinds = (gs.Array, DeviceArray, ShardedDeviceArray, GlobalDeviceArray)
    expected = {
        "one": (one, (True, True, False, False)),
        "several": (several, (True, False, True, False)),
        "named": (named, (True, False, True, False)),
        "sharded": (sharded, (True, False, True, False)),
        "everywhere": (everywhere, (True, False, False, True)),
        "numpy": (VALUE, (False, False, False, False)),
        "number": (1.0, (False, False, False, False)),
    }
    for name, (x, wanted) in expected.items():
        assert tuple(isinstance(x, kind) for kind in kinds) == wanted, name
    with pytest.raises(ArgumentTypeError, match="make_device_array"):
        DeviceArray(VALUE)


def test_one_device_is_told_from_several_by_the_sharding(devices: list[gs.Device]) -> None:
    sharding = PmapSharding(devices[:1], ShardingSpec([Unstacked(1)], [ShardedAxis(0)]))
    x = gs.device_put(np.ones(1), sharding)
    assert isinstance(x, DeviceArray) and not isinstance(x, ShardedDeviceArray)


def test_a_device_array_is_the_array_that_it_is_made_of(devices: list[gs.Device]) -> None:
    data = gs.device_put(VALUE, devices[2])
    for device in (None, devices[2]):
        x = make_device_array(AVAL, device, data)
        assert x.committed == (device is not None) and x.device == devices[2]
        assert x.unsafe_buffer_pointer() == data.unsafe_buffer_pointer()
        assert isinstance(x, DeviceArray) and np.array_equal(x, VALUE)
    with pytest.raises(ShardingError, match="move it first"):
        make_device_array(AVAL, devices[1], data)
    with pytest.raises(ShardingError, match=r"\(8, 4\).*needs \(4,\)"):
        make_device_array(gs.ShapeDtypeStruct((4,), float), None, data)
    with pytest.raises(ArgumentTypeError, match=r"float64.*int64"):
        make_device_array(gs.ShapeDtypeStruct((8, 4), int), None, data)
    with pytest.raises(ArgumentTypeError, match=r"(?s)aval=.* must be a ShapeDtypeStruct"):
        make_device_array(VALUE, None, data)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r"device_buffer is a ndarray; it must be an Array"):
        make_device_array(AVAL, None, VALUE)  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused(devices: list[gs.Device]) -> None:
    parts = buffers(ROWS, devices)
    with pytest.raises(ShardingError, match="8 devices, got 7"):
        ShardedDeviceArray(AVAL, ROWS, parts[:7])
    with pytest.raises(ShardingError, match=r"Unstacked\(8\)"):
        ShardedDeviceArray(gs.ShapeDtypeStruct((4, 4), float), ROWS, parts)
    with pytest.raises(ShardingError, match="leave them out"):
        ShardedDeviceArray(AVAL, ROWS, parts, spec_to_indices((8, 4), ROWS)[::-1])
    with pytest.raises(ArgumentTypeError, match="float64"):
        ShardedDeviceArray(gs.ShapeDtypeStruct((8, 4), np.float32), ROWS, parts)
    with pytest.raises(ArgumentTypeError, match="ShapeDtypeStruct"):
        ShardedDeviceArray(VALUE, ROWS, parts)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r"device_buffers\[1\] is a ndarray"):
        ShardedDeviceArray(AVAL, ROWS, [parts[0], VALUE[1]])  # type: ignore[list-item]
    with pytest.raises(ArgumentTypeError, match="must be a list with an Array for each"):
        ShardedDeviceArray(AVAL, ROWS, iter(parts))  # type: ignore[arg-type]
    keys = [gs.device_put(gs.random.key(n), device) for n, device in enumerate(devices)]
    with pytest.raises(ArgumentTypeError, match="cannot be made of KeyArrays"):
        GlobalDeviceArray((8,), gs.make_mesh((8,), "x"), ("x",), [key.reshape(1) for key in keys])
    with pytest.raises(ShardingError, match="8 devices; each"):
        ShardedDeviceArray(AVAL, [gs.device_put(VALUE, PmapSharding.default((8, 4)))])
    with pytest.raises(ShardingError, match="no axes"):
        ShardedDeviceArray(gs.ShapeDtypeStruct((), float), parts)


def test_devices_have_their_older_names(devices: list[gs.Device]) -> None:
    assert devices[0].host_id == devices[0].process_index == 0
    with pytest.raises(AttributeError, match="live_arrays"):
        devices[0].live_buffers  # noqa: B018


def test_assignment_changes_this_one_alone(devices: list[gs.Device]) -> None:
    parts = buffers(ROWS, devices)
    x = ShardedDeviceArray(AVAL, parts)
    x[2] = 7.0
    assert np.array_equal(x[2], np.full(4, 7.0)) and np.array_equal(parts[2], VALUE[2])
    assert x.sharding_spec == ROWS and len(x.device_buffers) == 8
    assert np.array_equal(x.device_buffers[2], np.full(4, 7.0))
