"""`gpushard.sharding`, and what is there under the names of `jax.sharding`."""

import operator
import pickle
import threading

import numpy as np
import pytest

import gpushard as gs
from gpushard import errors
from gpushard.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, get_mesh, set_mesh
from gpushard.testing import runtime

AUTO = AxisType.Auto


def test_names_are_those_of_the_package() -> None:
    for name in gs.sharding.__all__:
        if name not in ("AxisType", "GSPMDSharding", "PmapSharding"):
            assert getattr(gs.sharding, name) is getattr(gs, name)


def test_axis_types_are_checked_and_make_no_difference() -> None:
    types = (AxisType.Explicit, AUTO)
    mesh = gs.make_mesh((4, 2), ("x", "y"), axis_types=types)
    other = Mesh(mesh.devices, ("x", "y"), axis_types=(AUTO,) * 2)
    assert mesh is gs.make_mesh((4, 2), ("x", "y"), axis_types=types)
    assert (mesh == other, hash(mesh) == hash(other)) == (True, True)
    assert (mesh.axis_types, other.axis_types) == (types, (AUTO, AUTO))
    assert pickle.loads(pickle.dumps(mesh)).axis_types == types
    spec = PartitionSpec("x", "y")
    x = gs.device_put(np.ones((8, 8)), NamedSharding(mesh, spec))
    y = gs.device_put(np.ones((8, 8)), NamedSharding(other, spec))
    with gs.transfer_guard_device_to_device("disallow_explicit"):
        assert (x + y).sharding.is_equivalent_to(x.sharding, 2)
        both = gs.jit(lambda x, y: x @ y)(x, y)
    assert both.sharding.spec == gs.jit(lambda x, y: x @ y)(x, x).sharding.spec
    assert (gs.shard_map(lambda x: x + 1, mesh, spec, spec)(y) == 2).all()
    assert gs.AbstractMesh((4, 2), ("x", "y"), (AUTO, AUTO)) == mesh.abstract_mesh
    for make in (
        lambda kinds: gs.make_mesh((4, 2), ("x", "y"), axis_types=kinds),
        lambda kinds: Mesh(mesh.devices, ("x", "y"), kinds),
        lambda kinds: gs.AbstractMesh((4, 2), ("x", "y"), kinds),
    ):
        with pytest.raises(errors.ArgumentTypeError, match=r"axis_types=.*AxisType"):
            make(("auto", "auto"))
        with pytest.raises(errors.MeshError, match="1 types for the 2 axes"):
            make((AUTO,))


def test_a_mesh_that_is_set_stays() -> None:
    one, two = gs.make_mesh((4,), "x"), gs.make_mesh((2,), "y")
    seen = []

    def program() -> None:
        seen.append(get_mesh())
        set_mesh(one)
        seen.append(get_mesh())
        with set_mesh(two) as entered:
            seen.extend([entered, get_mesh()])
        seen.append(get_mesh())
        seen.append(gs.device_put(np.arange(8), PartitionSpec("x")).sharding)

    thread = threading.Thread(target=program)  # has settings of its own
    thread.start()
    thread.join()
    assert seen == [None, one, two, two, one, NamedSharding(one, PartitionSpec("x"))]
    assert get_mesh() is None
    with gs.use_mesh(two):
        assert get_mesh() is two
        with one:
            assert get_mesh() is one


def test_specs_add_up() -> None:
    assert gs.P("x") + gs.P(None, ("y", "z")) == gs.P("x", None, ("y", "z"))
    rest = ("y", None)
    assert gs.P("x") + rest == gs.P("x", "y", None)
    assert rest + gs.P("x") == gs.P("y", None, "x")
    assert type(gs.P("x") + rest) is type(rest + gs.P("x")) is gs.P
    with pytest.raises(errors.ArgumentTypeError):
        operator.add(gs.P("x"), (3,))


def test_memories_of_devices_have_kinds() -> None:
    device = gs.devices()[0]
    assert device.default_memory().kind == "device"
    assert [memory.kind for memory in device.addressable_memories()] == [
        "device",
        "pinned_host",
        "unpinned_host",
    ]


def test_a_platform_without_devices() -> None:
    for kind in (RuntimeError, ValueError, errors.NoDeviceError):
        with pytest.raises(kind, match="backend='gpu' has no devices here; there are cpu"):
            gs.devices("gpu")


def test_local_data_of_pytrees() -> None:
    with runtime():
        rows = NamedSharding(gs.make_mesh((4,), "x"), PartitionSpec("x"))
        whole = NamedSharding(rows.mesh, PartitionSpec())
        data = {"a": np.arange(8), "b": (np.ones((4, 2)), np.zeros(3))}
        made = gs.make_array_from_process_local_data({"a": rows, "b": (rows, whole)}, data)
        assert made["b"][1].sharding == whole and made["a"].sharding == rows
        gs.tree.map(np.testing.assert_array_equal, made, data)
        alike = gs.make_array_from_process_local_data(rows, [data["a"]] * 2, (8,))
        assert [x.shape for x in alike] == [(8,), (8,)]
        shapes = {"a": (8,), "b": ((4, 2), None)}
        made = gs.make_array_from_process_local_data(whole, data, shapes)
        assert gs.tree.map(lambda x: x.shape, made) == {"a": (8,), "b": ((4, 2), (3,))}
        with pytest.raises(errors.TreeError, match="sharding"):
            gs.make_array_from_process_local_data([rows], data)


def test_structs_check_what_they_hold() -> None:
    rows = NamedSharding(gs.make_mesh((4,), "x"), PartitionSpec("x"))
    assert gs.ShapeDtypeStruct((8,), np.float32, rows).sharding == rows
    for arguments, kind in {
        ((3,), None): errors.ArgumentTypeError,
        ((3,), "no type"): errors.ArgumentTypeError,
        ((-3,), "f"): ValueError,
        ((2.5,), "f"): TypeError,
        ((3,), "f", 3): errors.ArgumentTypeError,
        ((), "f", rows): errors.ShardingError,
    }.items():
        with pytest.raises(kind) as caught:
            gs.ShapeDtypeStruct(*arguments)
        assert isinstance(caught.value, errors.GpushardError)
