"""`GlobalDeviceArray`, against the arrays of the same mesh and axes."""

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import legacy, testing
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    MeshError,
    ShardingError,
    UnsupportedError,
)
from gpushard.legacy import GlobalDeviceArray
from tests.share import examples

VALUE = np.arange(64 * 32).reshape(64, 32)


@pytest.fixture(autouse=True)
def runtime() -> Iterator[Any]:
    with testing.runtime(host_devices=8, host_domains=2, enable_checks=True) as rt:
        yield rt


@pytest.fixture
def mesh(runtime: Any) -> gs.Mesh:
    return gs.make_mesh((4, 2), ("x", "y"))


def check(gda: GlobalDeviceArray, value: np.ndarray, mesh: gs.Mesh, axes: tuple[Any, ...]) -> None:
    sharding = gs.NamedSharding(mesh, gs.P(*axes))
    assert type(gda) is GlobalDeviceArray and isinstance(gda, gs.Array)
    assert (gda.shape, gda.dtype, gda.ndim, gda.size) == (
        value.shape,
        value.dtype,
        value.ndim,
        value.size,
    )
    assert gda.mesh is mesh and gda.mesh_axes == axes and gda.sharding == sharding
    assert gda.is_fully_replicated == sharding.is_fully_replicated
    assert [s.device for s in gda.local_shards] == mesh.local_devices
    assert [s.device for s in gda.global_shards] == mesh.local_devices
    for position, shard in enumerate(gda.local_shards):
        assert np.array_equal(shard.data, value[shard.index])
        if not gda.is_fully_replicated:
            assert np.array_equal(gda.local_data(position), shard.data)
            assert np.array_equal(gda.addressable_data(position), shard.data)
    assert gda.block_until_ready() is gda
    assert np.array_equal(np.asarray(gda), value)


@st.composite
def axes_of(draw: st.DrawFn) -> tuple[Any, ...]:
    return draw(
        st.sampled_from(
            [(), ("x",), ("y",), ("x", "y"), ("y", "x"), (("x", "y"),), (None, ("y", "x")), (None,)]
        )
    )


@given(axes_of(), st.booleans())
@examples(20)
def test_every_constructor_gives_the_same(axes: tuple[Any, ...], swapped: bool) -> None:
    with testing.runtime(host_devices=8, host_domains=2) as rt:
        grid = np.array(rt.devices[::-1] if swapped else rt.devices, object).reshape(4, 2)
        mesh = gs.Mesh(grid, ("x", "y"))
        sharding = gs.NamedSharding(mesh, gs.P(*axes))
        value = VALUE[:8, :8]
        map_ = sharding.devices_indices_map(value.shape)
        asked: list[Any] = []

        def one(index: Any) -> Any:
            asked.append(index)
            return value[index]

        check(GlobalDeviceArray.from_callback((8, 8), mesh, axes, one), value, mesh, axes)
        assert len(asked) == len(set(map(repr, map_.values())))

        def all_at_once(indices: Any) -> Any:
            assert list(indices) == [map_[device] for device in mesh.local_devices]
            return [value[index] for index in indices]

        check(
            GlobalDeviceArray.from_batched_callback((8, 8), mesh, axes, all_at_once),
            value,
            mesh,
            axes,
        )

        def with_devices(pairs: Any) -> Any:
            boxes = [index for index, _ in pairs]
            assert len(set(map(repr, boxes))) == len(boxes)
            assert sorted(d.id for _, group in pairs for d in group) == list(range(8))
            for index, group in pairs:
                assert isinstance(group, tuple) and all(map_[d] == index for d in group)
            return [gs.device_put(value[index], d) for index, group in pairs for d in group]

        made = GlobalDeviceArray.from_batched_callback_with_devices(
            (8, 8), mesh, axes, with_devices
        )
        check(made, value, mesh, axes)
        buffers = [gs.device_put(value[map_[d]], d) for d in mesh.local_devices]
        gda = GlobalDeviceArray((8, 8), mesh, axes, buffers)
        check(gda, value, mesh, axes)
        mine = [s.data.unsafe_buffer_pointer() for s in gda.local_shards]
        assert mine == [b.unsafe_buffer_pointer() for b in buffers]
        check(pickle.loads(pickle.dumps(gda)), value, mesh, axes)


def test_the_page_s_example(mesh: gs.Mesh) -> None:
    axes = gs.P("x", "y")
    gda = GlobalDeviceArray.from_callback(VALUE.shape, mesh, axes, lambda index: VALUE[index])
    with legacy.mesh(mesh.shape, mesh.axis_names):
        out = gs.reshard(gda @ gda.T, gs.P("y", "x"))
    assert out.shape == (64, 64) and np.array_equal(out, VALUE @ VALUE.T)
    assert out.addressable_shards[0].data.shape == (32, 16)


def test_it_shows_no_data_and_is_not_compared(mesh: gs.Mesh) -> None:
    gda = GlobalDeviceArray.from_callback(VALUE.shape, mesh, ["x", None], lambda i: VALUE[i])
    assert repr(gda) == (
        "GlobalDeviceArray(shape=(64, 32), dtype=int64, mesh=('x': 4, 'y': 2), "
        "mesh_axes=('x', None))"
    )
    assert repr(gda) == str(gda) == f"{gda}"
    for compare in (lambda: gda == gda, lambda: gda != 1):
        with pytest.raises(UnsupportedError, match="no process has all") as error:
            compare()
        assert isinstance(error.value, NotImplementedError)
    assert np.array_equal(np.asarray(gda + 0 == VALUE), np.ones(VALUE.shape, bool))


def test_what_does_not_fit_is_refused(mesh: gs.Mesh) -> None:
    ones = [gs.device_put(np.ones((2, 4)), d) for d in mesh.local_devices]
    good = GlobalDeviceArray((8, 8), mesh, ("x", "y"), ones)
    assert np.array_equal(good, np.ones((8, 8)))
    rows: list[tuple[Any, type[Exception], str]] = [
        (((8, 8), mesh, ("x", "y"), ones[::-1]), ShardingError, "global_mesh.local_devices"),
        (((8, 8), mesh, ("x", "y"), ones[:7]), ShardingError, "Without an array"),
        (((8, 8), mesh, ("x",), ones), ShardingError, r"\(2, 4\).*needs \(2, 8\)"),
        (((8, 8), mesh, ("x", "y", None), ones), ShardingError, "3 entries"),
        (((8, 8), mesh, ("x", "z"), ones), ShardingError, "'z'"),
        (((8, 8), mesh, "x", ones), ArgumentTypeError, "mesh_axes='x'"),
        (((8, 8), None, ("x",), ones), ArgumentTypeError, "global_mesh"),
        (((8, 8), mesh, ("x", "y"), [1] * 8), ArgumentTypeError, r"device_buffers\[0\] is a int"),
        (
            ((8, 8), mesh, ("x", "y"), [*ones[:7], ones[7].astype(int)]),
            ArgumentTypeError,
            "one dtype",
        ),
    ]
    for arguments, kind, words in rows:
        with pytest.raises(kind, match=words):
            GlobalDeviceArray(*arguments)
    with pytest.raises(ArgumentError, match="returned 1 arrays, 8 are needed"):
        GlobalDeviceArray.from_batched_callback((8, 8), mesh, ("x",), lambda i: [1])
    with pytest.raises(ArgumentError, match="returned 0 arrays, 8 are needed"):
        GlobalDeviceArray.from_batched_callback_with_devices((8, 8), mesh, ("x",), lambda i: [])
    with pytest.raises(ShardingError, match="in the order of the devices"):
        GlobalDeviceArray.from_batched_callback_with_devices(
            (8, 8), mesh, ("x", "y"), lambda i: ones[::-1]
        )


def test_a_mesh_is_made_of_devices_or_of_sizes(runtime: Any) -> None:
    grid = np.array(runtime.devices, object).reshape(2, 4)
    assert legacy.mesh(grid, ("x", "y")) is gs.Mesh(grid, ("x", "y"))
    assert legacy.mesh((2, 4), ("x", "y")) is gs.make_mesh((2, 4), ("x", "y"))
    with legacy.mesh({"a": 8}, ("a",)) as made:
        assert gs.get_mesh() is made
    with pytest.raises(MeshError):
        legacy.mesh(grid, ("x",))


def test_shards_out_of_reach(runtime: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the devices are another process's: callbacks are asked for what is here alone."""
    x = gs.device_put(VALUE, gs.NamedSharding(gs.make_mesh((8,), "here"), gs.P("here")))
    assert not isinstance(x, GlobalDeviceArray)
    for device in runtime.devices[4:]:
        monkeypatch.setattr(device, "process_index", 1)
    mesh = gs.make_mesh((8,), "two_processes")
    y = gs.device_put(VALUE, gs.NamedSharding(mesh, gs.P("two_processes")))
    assert isinstance(y, GlobalDeviceArray)
    assert not isinstance(y, legacy.ShardedDeviceArray | legacy.DeviceArray)
    assert mesh.local_devices == list(runtime.devices[:4])
    asked: list[Any] = []

    def read(boxes: Any) -> Any:
        asked.append(list(boxes))
        return []

    local = [slice(8 * n, 8 * n + 8) for n in range(4)]
    for make in (
        GlobalDeviceArray.from_batched_callback,
        GlobalDeviceArray.from_batched_callback_with_devices,
    ):
        with pytest.raises(ArgumentError, match="4 are needed"):
            make(VALUE.shape, mesh, ("two_processes",), read)
    assert asked[0] == [(rows, slice(None)) for rows in local]
    assert asked[1] == [
        ((rows, slice(None)), (device,))
        for rows, device in zip(local, runtime.devices, strict=False)
    ]
