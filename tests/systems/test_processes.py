"""Several processes, of which there is one: what they exchange, and arrays that they share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import P, multihost
from tests.systems.behaviours import differs

MESH = gs.make_mesh((4, 2), ("x", "y"))


def test_multihost_utils_is_another_name() -> None:
    assert gs.multihost_utils is multihost  # type: ignore[attr-defined]


def test_local_arrays_become_global_ones() -> None:
    data = {"a": np.arange(8.0), "b": np.ones((4, 2))}
    made = multihost.host_local_array_to_global_array(data, MESH, {"a": P("x"), "b": P("x", "y")})
    assert made["a"].sharding == gs.NamedSharding(MESH, P("x"))
    assert made["b"].shape == (4, 2)


def test_specs_may_be_a_prefix() -> None:
    made = multihost.host_local_array_to_global_array((np.ones(8), np.ones(4)), MESH, P("x"))
    assert [x.sharding.spec for x in made] == [P("x"), P("x")]


def test_a_spec_of_none_is_refused() -> None:
    with pytest.raises(TypeError, match=r"P\(\)"):
        multihost.host_local_array_to_global_array(np.ones(8), MESH, None)


def test_a_replicated_dim_keeps_its_shape() -> None:
    made = multihost.host_local_array_to_global_array(np.ones(8), MESH, P(None))
    assert made.shape == (8,) and made.is_fully_replicated


def test_global_arrays_become_local_ones() -> None:
    x = gs.device_put(np.arange(8.0), gs.NamedSharding(MESH, P("x")))
    local = multihost.global_array_to_host_local_array(x, MESH, P("x"))
    assert np.array_equal(np.asarray(local), np.arange(8.0))


def test_process_allgather_stacks_and_tiles() -> None:
    x = gs.device_put(np.arange(8.0), gs.NamedSharding(MESH, P("x")))
    stacked = multihost.process_allgather(np.arange(3))
    assert isinstance(stacked, np.ndarray) and stacked.shape == (1, 3)
    assert multihost.process_allgather({"a": x}, tiled=True)["a"].tolist() == list(range(8))


def test_broadcast_one_to_all_gives_what_the_source_has() -> None:
    assert multihost.broadcast_one_to_all({"a": np.arange(3)})["a"].tolist() == [0, 1, 2]
    assert multihost.broadcast_one_to_all(np.arange(2), is_source=True).tolist() == [0, 1]


def test_processes_meet() -> None:
    multihost.sync_global_devices("here")


def test_processes_meet_under_a_name_that_is_a_string() -> None:
    with pytest.raises(TypeError, match="name=3"):
        multihost.sync_global_devices(3)  # type: ignore[arg-type]


def test_assert_equal_takes_trees() -> None:
    multihost.assert_equal({"a": np.ones(3)}, "they differ")


@pytest.mark.parametrize("f", ["x @ x.T", "sin", "copy"])
def test_computation_follows_the_sharding(f: str) -> None:
    mesh = gs.make_mesh((8,), "x")
    x = gs.device_put(np.ones((16, 8)), gs.NamedSharding(mesh, P("x")))
    made = {"x @ x.T": lambda: x @ x.T, "sin": lambda: np.sin(x), "copy": lambda: x.copy()}[f]()  # type: ignore[attr-defined,call-overload]
    assert len(made.sharding.device_set) == 8 and made.sharding.spec[0] == "x"


@differs("`distributed.initialize`")
def test_a_program_is_one_process() -> None:
    assert gs.process_count() == 1 and not hasattr(gs, "distributed")


def test_data_of_this_process_makes_an_array() -> None:
    sharding = gs.NamedSharding(MESH, P("x"))
    made: Any = gs.make_array_from_process_local_data(sharding, np.arange(8.0), (8,))
    assert made.sharding == sharding and np.asarray(made).tolist() == list(range(8))
