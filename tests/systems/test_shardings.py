"""Meshes, specs and shardings: today's, and those of lists of devices."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import P, legacy
from gpushard.sharding import PmapSharding

DEVICES = gs.devices()
MESH = gs.make_mesh((4, 2), ("x", "y"))


def test_a_mesh_names_the_axes_of_a_grid_of_devices() -> None:
    mesh = gs.Mesh(np.array(DEVICES).reshape(2, 4), ("a", "b"))
    assert mesh.axis_names == ("a", "b") and dict(mesh.shape) == {"a": 2, "b": 4}
    assert mesh.size == 8 and mesh.device_ids.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert mesh.local_devices == list(DEVICES) and mesh.local_mesh == mesh


def test_axes_of_a_mesh_make_a_smaller_one_in_the_order_asked() -> None:
    assert MESH["y"].devices.tolist() == [DEVICES[0], DEVICES[1]]
    assert MESH[("y", "x")].devices.shape == (2, 4)
    assert MESH[("y", "x")].devices.T.tolist() == MESH.devices.tolist()


def test_a_mesh_is_a_context() -> None:
    with MESH:
        made = gs.jit(lambda v: gs.lax.with_sharding_constraint(v, P("x")))(np.ones(8))
    assert made.sharding.is_equivalent_to(gs.NamedSharding(MESH, P("x")), 1)


def test_meshes_are_made_of_sizes() -> None:
    assert gs.make_mesh((8,), ("x",)).size == 8
    assert gs.create_device_mesh((2, 4)).shape == (2, 4)


def test_an_abstract_mesh_has_no_devices() -> None:
    mesh = gs.AbstractMesh((4, 2), ("x", "y"))
    assert dict(mesh.shape) == {"x": 4, "y": 2} and mesh.axis_names == ("x", "y")


def test_a_spec_is_a_tuple_of_axes() -> None:
    spec = P("x", None, ("y", "z"))
    assert tuple(spec) == ("x", None, ("y", "z")) and spec == P("x", None, ("y", "z"))
    assert hash(spec) == hash(P("x", None, ("y", "z"))) and P.UNCONSTRAINED is not None


SHARDINGS: dict[str, Any] = {
    "NamedSharding": gs.NamedSharding(MESH, P("x", "y")),
    "SingleDeviceSharding": gs.SingleDeviceSharding(DEVICES[2]),
    "PmapSharding": PmapSharding.default((8, 6)),
    "GSPMDSharding": legacy.GSPMDSharding(
        DEVICES, legacy.OpSharding.from_string("{devices=[4,2]<=[8]}")
    ),
}


@pytest.mark.parametrize("name", SHARDINGS)
def test_a_sharding_lists_its_devices(name: str) -> None:
    sharding = SHARDINGS[name]
    assert len(sharding.device_set) == sharding.num_devices
    assert sharding.addressable_devices == sharding.device_set and sharding.is_fully_addressable


@pytest.mark.parametrize("name", SHARDINGS)
def test_a_sharding_says_which_block_a_device_has(name: str) -> None:
    sharding = SHARDINGS[name]
    found = sharding.devices_indices_map((8, 6))
    assert set(found) == sharding.device_set
    assert found == sharding.addressable_devices_indices_map((8, 6))


@pytest.mark.parametrize(
    ("name", "shape"),
    [("NamedSharding", (2, 3)), ("SingleDeviceSharding", (8, 6)), ("PmapSharding", (6,)),
     ("GSPMDSharding", (2, 3))],
)  # fmt: skip
def test_shards_have_a_shape(name: str, shape: tuple[int, ...]) -> None:
    assert SHARDINGS[name].shard_shape((8, 6)) == shape


@pytest.mark.parametrize("name", SHARDINGS)
def test_a_sharding_is_equal_hashable_and_picklable(name: str) -> None:
    sharding = SHARDINGS[name]
    again = pickle.loads(pickle.dumps(sharding))
    assert again == sharding and hash(again) == hash(sharding)
    assert sharding.is_equivalent_to(again, 2)


def test_shardings_have_memory_kinds() -> None:
    sharding = SHARDINGS["NamedSharding"].with_memory_kind("pinned_host")
    assert sharding.memory_kind == "pinned_host"
    assert sharding != SHARDINGS["NamedSharding"]


def test_replicated_is_known() -> None:
    assert gs.NamedSharding(MESH, P()).is_fully_replicated
    assert not SHARDINGS["NamedSharding"].is_fully_replicated
    assert SHARDINGS["SingleDeviceSharding"].is_fully_replicated


def test_equivalent_shardings_are_of_the_same_blocks() -> None:
    named = gs.NamedSharding(gs.make_mesh((8,), "x"), P("x"))
    assert named.is_equivalent_to(gs.NamedSharding(MESH, P(("x", "y"))), 1)
    assert not named.is_equivalent_to(gs.NamedSharding(MESH, P("x")), 1)


def test_users_may_derive_shardings() -> None:
    class Halves(gs.Sharding):
        @property
        def device_set(self) -> Any:
            return set(DEVICES[:2])

        def devices_indices_map(self, global_shape: Any) -> Any:
            half = global_shape[0] // 2
            return {DEVICES[0]: (slice(0, half),), DEVICES[1]: (slice(half, None),)}

    x = gs.device_put(np.arange(6), Halves())
    assert [s.data.tolist() for s in x.addressable_shards] == [[0, 1, 2], [3, 4, 5]]
    assert (x + 1).sum() == 21 and x[2:].tolist() == [2, 3, 4, 5]


def test_the_default_pmap_sharding_takes_a_dim_apart() -> None:
    sharding = PmapSharding.default((4, 8), sharded_dim=1)
    assert sharding.shard_shape((4, 8)) == (4,) and sharding.num_devices == 8


def test_op_shardings_have_a_text() -> None:
    for text in ("{devices=[2,4]<=[8]}", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
                 "{replicated}", "{maximal device=3}", "{manual}"):  # fmt: skip
        assert str(legacy.OpSharding.from_string(text)) == text


def test_a_text_that_is_wrong_says_where() -> None:
    with pytest.raises(ValueError, match="position"):
        legacy.OpSharding.from_string("{devices=[2,4}")


def test_gspmd_shardings_are_equal_by_layout() -> None:
    of = legacy.OpSharding.from_string
    spelled = [of("{devices=[8]<=[8]}"), of("{devices=[8]0,1,2,3,4,5,6,7}")]
    assert len({legacy.GSPMDSharding(DEVICES, op) for op in spelled}) == 1
    assert legacy.GSPMDSharding.get_replicated(DEVICES).is_fully_replicated


def test_specs_of_a_grid_are_immutable() -> None:
    with pytest.raises(RuntimeError):
        legacy.Chunked([2]).chunks = (3,)  # type: ignore[misc]


def test_kinds_of_entries_are_equal_to_their_own_kind() -> None:
    assert legacy.Unstacked(2) == legacy.Unstacked(2) != (2,)
    assert legacy.ShardedAxis(1) != legacy.Replicated(1)
    assert legacy.Chunked([2]) == legacy.Chunked((2,)) and legacy.NoSharding is not None


def spec(sharding: Any, mapping: Any) -> Any:
    return legacy.ShardingSpec(sharding, mapping)


def test_indices_are_row_major_with_replication_innermost() -> None:
    own = spec([legacy.Chunked([4])], [legacy.ShardedAxis(0), legacy.Replicated(2)])
    blocks = [np.arange(1, 5)[i].tolist() for i in own.indices((4,)).flat]
    assert blocks == [[1], [1], [2], [2], [3], [3], [4], [4]]


def test_a_sharded_axis_occurs_once() -> None:
    for mapping in ([], [legacy.ShardedAxis(0), legacy.ShardedAxis(0)]):
        with pytest.raises(ValueError):
            spec([legacy.Chunked([2])], mapping)


def test_indices_check_the_shape() -> None:
    for dims, shape in (([legacy.Chunked([2])], (2, 2)), ([legacy.Unstacked(3)], (2,)),
                        ([legacy.Chunked([4])], (6,))):  # fmt: skip
        with pytest.raises(ValueError):
            spec(dims, [legacy.ShardedAxis(0)]).indices(shape)


def test_protos_of_specs() -> None:
    proto = spec([legacy.Chunked([2]), None], [legacy.Replicated(4), legacy.ShardedAxis(0)])
    assert proto.mesh_shape == (4, 2)
    found = proto.sharding_proto()
    assert found.replicate_on_last_tile_dim
    assert list(found.tile_assignment_dimensions) == [2, 1, 4]
    assert str(spec([None], []).sharding_proto()) == "{replicated}"
    with pytest.raises(RuntimeError):
        spec([legacy.Unstacked(2)], [legacy.ShardedAxis(0)]).sharding_proto()


def test_array_mappings_become_specs() -> None:
    make = legacy.mesh_sharding_specs(dict(MESH.shape), MESH.axis_names)
    aval = gs.ShapeDtypeStruct((8, 6), "float32")
    own = make(aval, {"x": 0, "y": 1})
    assert own.indices((8, 6)).shape == (8,) or own.indices((8, 6)).shape == (4, 2)


def test_avals_of_tiles_and_back() -> None:
    mapping = {"x": 0, "y": 0}
    aval = gs.ShapeDtypeStruct((16, 3), "float32")
    tile = legacy.tile_aval_nd(dict(MESH.shape), mapping, aval)
    assert tile.shape == (2, 3)
    assert legacy.untile_aval_nd(dict(MESH.shape), mapping, tile).shape == (16, 3)
    with pytest.raises(ValueError):
        legacy.tile_aval_nd(dict(MESH.shape), mapping, gs.ShapeDtypeStruct((6,), "float32"))
