"""One process as the only one, and as one of two whose other's devices are pretended."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import multihost
from gpushard.errors import AddressError, ArgumentError, ArgumentTypeError, MeshError
from gpushard.multihost import utils
from gpushard.testing import runtime

VALUE = np.arange(48.0).reshape(8, 6)


@pytest.fixture
def mesh() -> Iterator[gs.Mesh]:
    """A mesh of which the second half is another process's."""
    with runtime(host_devices=8):
        for device in gs.devices()[4:]:
            device.process_index = 1
        yield gs.make_mesh((4, 2), ("x", "y"))


def partial(mesh: gs.Mesh, *entries: Any, value: Any = VALUE) -> gs.Array:
    sharding = gs.NamedSharding(mesh, gs.P(*entries))
    made: gs.Array = gs.make_array_from_callback(value.shape, sharding, lambda i: value[i])
    return made


def test_devices_of_others_are_not_local(mesh: gs.Mesh) -> None:
    assert gs.local_devices() == gs.devices()[:4]
    assert (gs.local_device_count(), gs.device_count()) == (4, 8)
    assert mesh.local_mesh.devices.tolist() == mesh.devices[:2].tolist()


def test_a_partly_addressable_array_says_what_it_is_and_not_its_data(mesh: gs.Mesh) -> None:
    x = partial(mesh, "x", "y")
    assert isinstance(x, gs.Array)
    assert repr(x) == f"Array(shape=(8, 6), dtype=float64, sharding={x.sharding!r})" == str(x)
    assert (x.is_fully_addressable, x.is_fully_replicated, x.nbytes) == (False, False, 384)
    assert x.devices() == set(gs.devices()) and x.platform() == gs.default_backend()
    assert x.on_device_size_in_bytes() == 384
    assert f"{gs.default_backend().upper()} 7" in x._repr_html_()
    assert [s.device.id for s in x.addressable_shards] == [0, 1, 2, 3]
    for shard in x.global_shards:
        if shard.device.id < 4:
            np.testing.assert_array_equal(shard.data, VALUE[shard.index])
        else:
            assert shard.data is None
    assert x.block_until_ready() is x and x.is_ready()
    assert [a for a in gs.live_arrays() if a.shape == (8, 6)] == [x]
    x.delete()
    assert x.is_deleted() and repr(x) == "Array(deleted, shape=(8, 6), dtype=float64)"


def test_what_others_hold_nothing_of_is_read(mesh: gs.Mesh) -> None:
    value = VALUE[:2]
    x = partial(mesh, "x", value=value)
    assert not x.is_fully_addressable
    np.testing.assert_array_equal(np.asarray(x), value)
    with pytest.raises(gs.errors.AddressError):
        np.asarray(partial(mesh, "x", value=VALUE[:3]))
    with pytest.raises(gs.errors.AddressError):
        np.asarray(partial(mesh, "x", value=VALUE[:3, 0]))  # one element is elsewhere


@pytest.mark.parametrize(
    "use",
    [
        np.asarray,
        gs.device_get,
        lambda x: x.tolist(),
        lambda x: x + 1,
        lambda x: x.sum(),
        lambda x: x[0],
        lambda x: gs.reshard(x, gs.P()),
        lambda x: x.copy_to_host_async(),
        lambda x: x.__setitem__(0, 1),
        lambda x: x.__reduce__(),
        lambda x: gs.debug.visualize_array_sharding(x) or np.asarray(x),
    ],
)
def test_reads_name_process_allgather(mesh: gs.Mesh, use: Any) -> None:
    with pytest.raises(AddressError, match=r"process_allgather.*addressable_shards") as caught:
        use(partial(mesh, "x", "y"))
    assert "4 of the 8 devices" in str(caught.value)


def test_what_this_process_has_whole_can_be_read(mesh: gs.Mesh) -> None:
    for entries in [(), ("y",), (None, "y")]:
        x = partial(mesh, *entries)
        np.testing.assert_array_equal(np.asarray(x), VALUE)
        np.testing.assert_array_equal(multihost.process_allgather(x), VALUE)


def test_all_ways_to_make_one(mesh: gs.Mesh) -> None:
    sharding = gs.NamedSharding(mesh, gs.P("x", "y"))
    made = gs.make_array_from_process_local_data(sharding, VALUE[:4])
    assert made.shape == (8, 6)
    parts = [s.data for s in made.addressable_shards]
    joined = gs.make_array_from_single_device_arrays((8, 6), sharding, parts)
    put = gs.device_put({"a": VALUE}, sharding)["a"]
    assert repr(put) == repr(made) == repr(gs.device_put(put)) == repr(copy.deepcopy(put))
    np.testing.assert_array_equal(put.addressable_data(3), VALUE[2:4, 3:])
    keys = gs.random.split(gs.random.key(0), 8)
    spread = gs.make_array_from_callback((8,), gs.NamedSharding(mesh, gs.P("x")), lambda i: keys[i])
    assert spread.dtype == keys.dtype and not spread.is_fully_addressable
    for one, other in zip(made.addressable_shards, joined.addressable_shards, strict=True):
        np.testing.assert_array_equal(one.data, other.data)
        assert one.data.unsafe_buffer_pointer() == other.data.unsafe_buffer_pointer()


def test_there_and_back_among_several(mesh: gs.Mesh) -> None:
    local = gs.NamedSharding(mesh.local_mesh, gs.P("x", "y"))
    x = gs.device_put(VALUE[:4], local)
    spread = multihost.host_local_array_to_global_array({"a": x}, mesh, gs.P("x", "y"))["a"]
    assert spread.shape == (8, 6) and not spread.is_fully_addressable
    back = multihost.global_array_to_host_local_array(spread, mesh, gs.P("x", "y"))
    np.testing.assert_array_equal(np.asarray(back), VALUE[:4])
    pointers = [
        [s.data.unsafe_buffer_pointer() for s in a.addressable_shards] for a in (x, spread, back)
    ]
    assert pointers[0] == pointers[1] == pointers[2]
    assert multihost.host_local_array_to_global_array(spread, mesh, gs.P("x", "y")) is spread
    whole = multihost.host_local_array_to_global_array(VALUE, mesh, gs.P(None))
    assert whole.shape == VALUE.shape
    with pytest.raises(AddressError, match="give its own spec"):
        multihost.global_array_to_host_local_array(spread, mesh, gs.P("y"))


def test_a_process_that_is_not_there_is_missed(mesh: gs.Mesh) -> None:
    with pytest.raises(AddressError, match="24 of the 48 elements"):
        multihost.process_allgather(partial(mesh, "x", "y"))


class Two:
    """A group of two processes, in which the other has what a test says."""

    index, count = 0, 2

    def __init__(self, *others: Any) -> None:
        self.others = list(others)

    def all_gather(self, value: Any) -> list[Any]:
        return [value, self.others.pop(0)]

    def broadcast(self, value: Any, source: int) -> Any:
        return value if source == 0 else self.others.pop(0)


def test_only_the_group_knows_of_processes(mesh: gs.Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(*others: Any) -> None:
        monkeypatch.setattr(utils, "group", Two(*others))

    value = -1.5 * VALUE  # memory that is free has VALUE itself
    pretend([(np.s_[4:], value[4:])])
    whole = multihost.process_allgather(partial(mesh, "x", "y", value=value))
    np.testing.assert_array_equal(whole, value)
    pretend(np.ones(2))
    np.testing.assert_array_equal(multihost.process_allgather(np.zeros(2)), [[0, 0], [1, 1]])
    pretend(np.ones(2))
    np.testing.assert_array_equal(multihost.process_allgather(np.zeros(2), True), [0, 0, 1, 1])
    pretend(True, 5)
    assert multihost.broadcast_one_to_all(3, is_source=False) == 5
    pretend(True)
    with pytest.raises(ArgumentError, match="2 of 2 processes"):
        multihost.broadcast_one_to_all(3)
    pretend("there")
    with pytest.raises(ArgumentError, match="here"):
        multihost.sync_global_devices("here")
    pretend(False)
    with pytest.raises(AssertionError, match=r"seeds: processes \[1\]"):
        multihost.assert_equal([1, 2], "seeds")


def test_one_process() -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    x = gs.device_put(VALUE, gs.NamedSharding(mesh, gs.P("x")))
    inputs = {"a": x, "b": [VALUE, 2.0]}
    made = multihost.host_local_array_to_global_array(inputs, mesh, {"a": gs.P("x"), "b": gs.P()})
    assert made["b"][0].sharding.spec == gs.P()
    assert made["a"].addressable_data(0).unsafe_buffer_pointer() == (
        x.addressable_data(0).unsafe_buffer_pointer()
    )
    assert multihost.global_array_to_host_local_array(x, mesh, gs.P("x")) is x
    gathered = multihost.process_allgather(inputs)
    assert gathered["a"].shape == (1, 8, 6) and gathered["b"][1].shape == (1,)
    assert multihost.process_allgather(x, tiled=True).shape == (8, 6)
    same = multihost.broadcast_one_to_all(inputs)
    assert type(same["a"]) is np.ndarray
    multihost.sync_global_devices("here")
    multihost.assert_equal([x, np.nan, "text"])
    assert gs.multihost_utils is gs.multihost


def test_wrong_calls() -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    with pytest.raises(ArgumentTypeError, match=r"P\(\)"):
        multihost.host_local_array_to_global_array([VALUE], mesh, [None])
    with pytest.raises(ArgumentTypeError, match="must be a Mesh"):
        multihost.host_local_array_to_global_array(VALUE, None, gs.P())
    with pytest.raises(ArgumentTypeError, match="ndarray"):
        multihost.global_array_to_host_local_array(VALUE, mesh, gs.P())
    with pytest.raises(ArgumentError, match="0 of 1"):
        multihost.broadcast_one_to_all(1, is_source=False)
    for name in (3, None, b"here"):
        with pytest.raises(ArgumentTypeError, match=r"is a .*; give a string"):
            multihost.sync_global_devices(name)


def test_devices_that_form_no_block(mesh: gs.Mesh) -> None:
    gs.devices()[7].process_index = 0
    mixed = gs.Mesh(mesh.devices.copy(), ("x", "y"))
    with pytest.raises(MeshError, match="subcube"):
        multihost.host_local_array_to_global_array(VALUE, mixed, gs.P("x"))


def test_one_leaf_that_differs_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(mine: list[Any], source: int) -> list[Any]:
        return [mine[0], mine[1] + 1]

    monkeypatch.setattr(utils.group, "broadcast", first)
    with pytest.raises(AssertionError, match="have other data than process 0"):
        multihost.assert_equal([np.ones(3), np.ones(3)])


def test_sync_waits_for_the_devices_of_this_process(
    mesh: gs.Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[Any] = []
    monkeypatch.setattr(type(gs.devices()[0]), "synchronize", lambda device: waited.append(device))
    multihost.sync_global_devices("here")
    assert waited == gs.local_devices()
