"""Devices, settings and trees: what everything stands on."""

from __future__ import annotations

import collections
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import tree


def test_devices_are_listed_and_counted() -> None:
    assert len(gs.devices()) == gs.device_count() == gs.local_device_count() == 8
    assert gs.local_devices() == gs.devices()


def test_processes_are_numbered() -> None:
    assert (gs.process_index(), gs.process_count()) == (0, 1)


def test_the_default_backend_is_the_platform_of_devices() -> None:
    assert gs.default_backend() == gs.devices()[0].platform == "cpu"


def test_a_device_says_what_it_is() -> None:
    device = gs.devices()[3]
    assert (device.id, device.process_index, device.host_id) == (3, 0, 0)
    assert isinstance(device.device_kind, str) and isinstance(device.local_hardware_id, int)
    assert hasattr(device, "partition") and hasattr(device, "memory_domain")


def test_a_device_is_hashable_and_equal_to_itself_alone() -> None:
    assert len(set(gs.devices())) == 8 and gs.devices()[0] == gs.devices()[0]


def test_a_device_tells_its_memory_and_waits() -> None:
    device = gs.devices()[0]
    before = device.memory_stats()["bytes_in_use"]
    x = gs.device_put(np.ones(1 << 20), device)
    device.synchronize()
    assert device.memory_stats()["bytes_in_use"] >= before + x.nbytes


def test_a_device_has_no_list_of_live_buffers() -> None:
    with pytest.raises(Exception, match="live_arrays"):
        gs.devices()[0].live_buffers()


def test_configure_names_what_it_does_not_know() -> None:
    with pytest.raises(gs.errors.ConfigurationError, match="no_such"):
        gs.configure(no_such=1)  # type: ignore[call-arg]


def test_live_arrays_lists_what_is_reachable() -> None:
    x = gs.numpy.arange(17)
    assert any(y is x for y in gs.live_arrays())


def test_log_compiles_writes_a_line_for_each_new_program(caplog: Any) -> None:
    f = gs.jit(lambda x: x * 3)
    with gs.log_compiles():
        f(gs.numpy.ones(3))
        f(gs.numpy.ones(3))
    (record,) = caplog.records
    assert record.levelname == "WARNING" and "jit of <lambda>" in record.getMessage()


def test_shape_dtype_struct_has_what_an_array_would() -> None:
    sharding = gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x"))
    x = gs.ShapeDtypeStruct((8, 2), "float32", sharding=sharding)
    assert (x.shape, x.dtype, x.sharding) == ((8, 2), np.float32, sharding)


def test_trees_flatten_and_come_back() -> None:
    Point = collections.namedtuple("Point", "x y")
    value = {"b": [1, (2, None)], "a": Point(3, 4)}
    leaves, structure = tree.flatten(value)
    assert leaves == [3, 4, 1, 2] and tree.unflatten(structure, leaves) == value
    assert tree.leaves(value) == leaves and tree.structure(value) == structure
    assert tree.map(lambda x: -x, value)["a"] == Point(-3, -4)


def test_tree_structures_are_hashable_and_picklable() -> None:
    structure = tree.structure({"a": (1, [2])})
    assert pickle.loads(pickle.dumps(structure)) == structure
    assert hash(structure) == hash(tree.structure({"a": (3, [4])}))


def test_a_prefix_of_a_tree_is_broadcast() -> None:
    assert tree.broadcast_prefix({"a": 1, "b": 2}, {"a": [0, 0], "b": 0}) == [1, 1, 2]


def test_a_prefix_that_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match="prefix"):
        tree.broadcast_prefix({"a": 1}, {"b": 2})


def test_dataclasses_become_nodes() -> None:
    @dataclasses.dataclass
    class Pair:
        first: Any
        name: str

    tree.register_dataclass(Pair, data_fields=["first"], meta_fields=["name"])
    assert tree.leaves(Pair([1, 2], "n")) == [1, 2]
    assert tree.map(lambda x: x + 1, Pair(1, "n")) == Pair(2, "n")
