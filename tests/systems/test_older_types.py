"""The array types before `Array`: their constructors, attributes and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import P, legacy
from tests.systems.behaviours import differs

DEVICES = gs.devices()
MESH = gs.make_mesh((4, 2), ("x", "y"))
VALUE = np.arange(48.0).reshape(8, 6)


def gda() -> Any:
    """Return a global array over a grid."""
    return legacy.GlobalDeviceArray.from_callback((8, 6), MESH, ("x", "y"), lambda i: VALUE[i])


def test_a_global_array_is_made_of_device_buffers() -> None:
    own = gda()
    buffers = [shard.data for shard in own.local_shards]
    made = legacy.GlobalDeviceArray((8, 6), MESH, ("x", "y"), buffers)
    assert np.array_equal(made, VALUE) and made.shape == (8, 6) and made.ndim == 2
    assert made.dtype == np.float64 and made.size == 48 and not made.is_fully_replicated


def test_a_global_array_lists_its_shards() -> None:
    own = gda()
    assert (
        own.local_data(0).shape == (2, 3) and len(own.local_shards) == len(own.global_shards) == 8
    )
    assert own.addressable_shards[1].index == own.local_shards[1].index
    assert own.mesh == MESH and tuple(own.mesh_axes) == ("x", "y")
    assert own.block_until_ready() is own


def test_mesh_axes_are_any_sequence() -> None:
    for axes in (("x",), ["x", None], P("x"), (("x", "y"),)):
        made = legacy.GlobalDeviceArray.from_callback((8, 6), MESH, axes, lambda i: VALUE[i])
        assert np.array_equal(made, VALUE)


def test_mesh_axes_are_not_longer_than_the_rank() -> None:
    with pytest.raises(ValueError, match="2 entries for an array with ndim=1"):
        legacy.GlobalDeviceArray.from_callback((8,), MESH, ("x", "y"), lambda i: VALUE[0, i[0]])


def test_buffers_in_another_order_are_refused() -> None:
    buffers = [shard.data for shard in gda().local_shards]
    with pytest.raises(ValueError, match="local_devices"):
        legacy.GlobalDeviceArray((8, 6), MESH, ("x", "y"), buffers[::-1])


def test_buffers_of_another_shape_are_refused() -> None:
    buffers = [shard.data for shard in gda().local_shards]
    with pytest.raises(ValueError, match="shape"):
        legacy.GlobalDeviceArray((8, 12), MESH, ("x", "y"), buffers)


@differs("`make_array_from_callback`")
def test_a_callback_is_called_for_each_box() -> None:
    asked: list[Any] = []
    legacy.GlobalDeviceArray.from_callback(
        (8, 6), MESH, ("x",), lambda i: (asked.append(i), VALUE[i])[1]
    )
    assert len(asked) == 4


def test_a_batched_callback_gets_all_indices() -> None:
    def read(indices: Any) -> Any:
        assert len(indices) == 8
        return [VALUE[index] for index in indices]

    made = legacy.GlobalDeviceArray.from_batched_callback((8, 6), MESH, ("x",), read)
    assert np.array_equal(made, VALUE)


def test_a_batched_callback_gives_as_many_as_it_got() -> None:
    with pytest.raises(ValueError):
        legacy.GlobalDeviceArray.from_batched_callback(
            (8, 6), MESH, ("x",), lambda indices: [VALUE[indices[0]]]
        )


def test_a_batched_callback_with_devices_gets_groups() -> None:
    def put(pairs: Any) -> Any:
        assert len(pairs) == 4 and all(len(group) == 2 for _, group in pairs)
        return [gs.device_put(VALUE[index], d) for index, group in pairs for d in group]

    make = legacy.GlobalDeviceArray.from_batched_callback_with_devices
    assert np.array_equal(make((8, 6), MESH, ("x",), put), VALUE)


def test_equality_of_global_arrays_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        gda() == gda()  # noqa: B015


def test_the_text_of_a_global_array_has_no_data() -> None:
    text = repr(gda())
    assert "(8, 6)" in text and "'x'" in text and "47" not in text


def test_pmap_refuses_global_arrays() -> None:
    with pytest.raises(TypeError, match="GlobalDeviceArray"):
        gs.pmap(lambda v: v)(gda())


def test_pjit_takes_and_gives_global_arrays() -> None:
    f = gs.pjit(
        lambda v: v @ v.T, in_axis_resources=legacy.FROM_GDA, out_axis_resources=P("y", "x")
    )
    with MESH:
        made = f(gda())
    assert made.sharding.spec == P("y", "x") and np.array_equal(made, VALUE @ VALUE.T)


def test_an_older_mesh_is_a_context() -> None:
    with legacy.mesh(np.array(DEVICES).reshape(2, 4), ("a", "b")):
        made = gs.pjit(lambda v: v, in_axis_resources=P("a"), out_axis_resources=P("a", "b"))(
            np.ones((8, 8))
        )
    assert made.addressable_data(0).shape == (4, 2)


def sda() -> Any:
    """Return an array with a row on each device."""
    rows = [gs.device_put(row, device) for row, device in zip(VALUE, DEVICES, strict=True)]
    return legacy.ShardedDeviceArray(gs.ShapeDtypeStruct((8, 6), float), rows)


def test_a_sharded_array_has_the_attributes_of_old() -> None:
    own = sda()
    assert own.aval.shape == (8, 6) and own.indices[1] == (1, slice(None))
    assert isinstance(own.sharding_spec, legacy.ShardingSpec) and len(own.device_buffers) == 8
    assert own.one_replica_buffer_indices == list(range(8))


def test_a_sharded_array_has_both_constructors() -> None:
    own = sda()
    again = legacy.ShardedDeviceArray(own.aval, own.sharding_spec, own.device_buffers)
    made = legacy.make_sharded_device_array(own.aval, own.sharding_spec, own.device_buffers)
    assert np.array_equal(again, VALUE) and np.array_equal(made, VALUE)


def test_an_index_of_one_shard_gives_that_shard() -> None:
    own = sda()
    assert own[2].unsafe_buffer_pointer() == own.device_buffers[2].unsafe_buffer_pointer()
    assert own[-1].devices() == {DEVICES[7]} and own[np.int64(3)].devices() == {DEVICES[3]}


def test_a_deleted_sharded_array_is_a_value_error() -> None:
    own = sda()
    own.delete()
    with pytest.raises(ValueError):
        own.device_buffers  # noqa: B018


def test_arrays_are_instances_by_where_they_lie() -> None:
    one, several = gs.device_put(VALUE), gs.device_put(VALUE, gs.NamedSharding(MESH, P("x")))
    assert isinstance(one, legacy.DeviceArray) and not isinstance(one, legacy.ShardedDeviceArray)
    assert isinstance(several, legacy.ShardedDeviceArray)
    assert not isinstance(several, legacy.DeviceArray)


def test_device_arrays_are_made_of_a_buffer() -> None:
    buffer = gs.device_put(VALUE, DEVICES[3])
    made = legacy.make_device_array(gs.ShapeDtypeStruct((8, 6), float), DEVICES[3], buffer)
    assert made.device == DEVICES[3] and np.array_equal(made, VALUE)


def test_shard_args_puts_blocks_on_devices() -> None:
    indices = legacy.spec_to_indices(
        (8, 6), legacy.ShardingSpec([legacy.Unstacked(8), None], [legacy.ShardedAxis(0)])
    )
    made = legacy.shard_args(DEVICES, [list(indices)], [VALUE])
    assert [part.devices() for (part,) in made] == [{device} for device in DEVICES]
    assert np.array_equal(made[3][0], VALUE[3])


def test_shard_args_take_any_index() -> None:
    x, whole = gs.device_put(VALUE, DEVICES[0]), slice(None)
    for index in (..., (..., slice(1, 3)), (None, slice(2)), (whole, whole), (1, whole), 2):
        for data in (x, VALUE):
            (first,), (again,) = legacy.shard_args(DEVICES[:2], [[index, index]], [data])
            for part, device in ((first, DEVICES[0]), (again, DEVICES[1])):
                assert part.devices() == {device} and np.array_equal(part, VALUE[index])
    several = [..., (..., 1), None, (slice(2), ...), (None, 3)]
    made = legacy.shard_args(DEVICES[:5], [several], [x])
    assert all(np.array_equal(part, VALUE[i]) for (part,), i in zip(made, several, strict=True))


def test_shard_aval_is_that_of_a_block() -> None:
    found = legacy.shard_aval(8, 0, gs.ShapeDtypeStruct((8, 6), "float32"))
    assert found.shape == (6,)
    with pytest.raises(ValueError, match="8"):
        legacy.shard_aval(4, 0, gs.ShapeDtypeStruct((8, 6), "float32"))


def test_pmap_specs_have_the_dim_that_is_taken_apart() -> None:
    aval = gs.ShapeDtypeStruct((3,), "float32")
    spec = legacy.pmap_sharding_spec(4, 4, 1, None, aval, 0)
    assert spec.sharding[0] == legacy.Unstacked(4)
    whole = legacy.pmap_sharding_spec(8, 4, 1, None, aval, None)
    assert legacy.Replicated(4) in whole.mesh_mapping
    with pytest.raises(ValueError):
        legacy.pmap_sharding_spec(6, 4, 1, None, aval, 0)


def test_replicate_and_its_errors() -> None:
    made = legacy.replicate(np.ones(3), 4, 4)
    assert made.shape == (4, 3) and len(made.devices()) == 4
    with pytest.raises(ValueError, match="16"):
        legacy.replicate(np.ones(3), 16, 16)


def test_device_put_sharded_and_replicated() -> None:
    rows = gs.device_put_sharded(list(VALUE), DEVICES)
    assert rows.shape == (8, 6) and rows.addressable_data(2).shape == (6,)
    same = gs.device_put_replicated({"w": np.ones(2)}, DEVICES[:4])["w"]
    assert same.shape == (4, 2) and len(same.devices()) == 4


def test_vtile_maps_tiles() -> None:
    made = legacy.vtile(lambda v: v * 2, in_axes=(0,), out_axes=0, tile_size=2, axis_name="t")
    assert np.array_equal(made(VALUE), 2 * VALUE)
