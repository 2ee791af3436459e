"""Updates that one call makes from all blocks of a memory domain, and copies to each device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._ops.programs import in_one_call
from gpushard.errors import TransferGuardError
from gpushard.testing.deferred import gated
from tests import share

UFUNCS = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}
SPECS = [gs.P(), gs.P("x"), gs.P("y"), gs.P(("x", "y")), gs.P(("y", "x"))]


def updated(x: Any, at: Any, values: Any, name: str) -> Any:
    """Make updates with NumPy, in its order; positions out of bounds are dropped."""
    result, at = x.copy(), np.asarray(at)
    inside = (at >= -len(x)) & (at < len(x))
    values = np.broadcast_to(values, (*at.shape, *x.shape[1:]))[inside]
    if name == "set":
        result[at[inside]] = values
    else:
        UFUNCS[name].at(result, at[inside], values)
    return result


@share.examples(200)
@given(st.data())
def test_updates_are_numpys_bit_by_bit(data: st.DataObject) -> None:
    """Arrays, positions and values are split in any way, over one domain or several."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    rows = data.draw(st.integers(1, 60))
    shape = (rows, *data.draw(st.sampled_from([(), (), (3,)])))
    x = rng.standard_normal(shape).astype(data.draw(st.sampled_from((np.float32, np.float64))))
    many = data.draw(st.sampled_from([(9,), (200,), (40, 5)]))
    at = rng.integers(-rows - data.draw(st.sampled_from([0, 3])), rows, many)
    at = at.astype(data.draw(st.sampled_from((np.int64, np.int32, np.int8))))
    lead = data.draw(st.sampled_from([many, many[1:], (1,) * len(many)]))
    values = rng.standard_normal((*lead, *shape[1:])).astype(x.dtype)
    name = data.draw(st.sampled_from(["set", *UFUNCS]))
    specs = st.sampled_from(SPECS)
    with testing.runtime(host_devices=8, host_domains=data.draw(st.sampled_from([1, 1, 2]))):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        lies = gs.NamedSharding(mesh, data.draw(specs))
        arrays: list[Any] = [at, values]
        for number, array in enumerate(arrays):
            if data.draw(st.booleans()):
                spec = data.draw(specs) if array.ndim else gs.P()
                arrays[number] = gs.device_put(array, gs.NamedSharding(mesh, spec))
        update = getattr(gs.device_put(x, lies).at[arrays[0]], name)
        made = update(arrays[1], mode="drop")
        assert made.sharding == lies
        np.testing.assert_array_equal(np.asarray(made), updated(x, at, values, name))


@pytest.mark.parametrize("spec", SPECS[1:])
@pytest.mark.parametrize("out", [None, gs.P("y"), gs.P()])
def test_numbers_are_added_where_two_index_arrays_say(spec: gs.P, out: gs.P | None) -> None:
    x, rng = np.arange(40.0).reshape(10, 4), np.random.default_rng(1)
    i, j = rng.integers(0, 10, 80), rng.integers(-4, 4, 80)
    wanted = x.copy()
    np.add.at(wanted, (i, j), 2)
    with testing.runtime(host_devices=8):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        rows = gs.NamedSharding(mesh, gs.P(("x", "y")))

        def add(x: Any, i: Any, j: Any) -> Any:
            return x.at[i, j].add(2)

        arrays = gs.device_put(x, gs.NamedSharding(mesh, spec)), *gs.device_put((i, j), rows)
        made = add(*arrays)
        np.testing.assert_array_equal(np.asarray(made), wanted)
        if out is not None:
            made = gs.reshard(made, gs.NamedSharding(mesh, out))
        np.testing.assert_array_equal(np.asarray(made), wanted)
        np.testing.assert_array_equal(np.asarray(gs.jit(add)(*arrays)), wanted)


def test_updates_of_what_is_pending_are_made_once_it_is_there() -> None:
    x, at = np.arange(20.0), np.arange(40) % 7
    with testing.runtime(backend="host", host_devices=4, small_bytes=0):
        rows = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        values, gate = gated(gs.device_put(np.ones(40), rows))
        made = gs.device_put(x, rows).at[gs.device_put(at, rows)].add(values)
        assert not made.is_ready()
        gate.open()
        np.testing.assert_array_equal(np.asarray(made), updated(x, at, np.ones(40), "add"))


def test_positions_and_values_stay_where_they_are() -> None:
    rng = np.random.default_rng(3)
    x, at, values = np.zeros(4000), rng.integers(0, 4000, 4000), rng.random(4000)
    with testing.runtime(host_devices=8, small_bytes=0) as runtime:
        rows = gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x"))
        arrays = gs.device_put((x, at, values), rows)
        for array in arrays:
            array.block_until_ready()
        before = sum(runtime.backend.traffic.values())
        made = arrays[0].at[arrays[1]].add(arrays[2], mode="drop").block_until_ready()
        if runtime.backend.host_readable:
            assert sum(runtime.backend.traffic.values()) == before
        np.testing.assert_array_equal(np.asarray(made), updated(x, at, values, "add"))


def test_a_guard_judges_what_devices_that_share_no_memory_would_move() -> None:
    with testing.runtime(host_devices=4):
        rows = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        x, at = gs.device_put((np.zeros(100), np.arange(100)), rows)
        with gs.gather_guard("disallow"), pytest.raises(TransferGuardError, match="gathers"):
            x.at[at].add(1.0)


def test_arrays_of_one_operand_come_together() -> None:
    together = in_one_call.Together((2, 1, 3), (), ())
    assert together.by_operand(range(6)) == [range(2), range(2, 3), range(3, 6)]


@pytest.mark.parametrize("quota", [None, 1 << 20])
def test_quotas_keep_blocks_apart(quota: int | None) -> None:
    """No device pays for blocks of others if it has a quota, which they may not fit into."""
    at = np.random.default_rng(0).integers(0, 400_000, 100_000)
    with testing.runtime(host_devices=8, memory_limit=quota):
        x = gs.device_put(
            np.arange(400_000.0), gs.NamedSharding(gs.make_mesh((8,), ("x",)), gs.P("x"))
        )
        taken = x[gs.device_put(at, x.sharding)]
        np.testing.assert_array_equal(taken, at)
        peak = gs.devices()[0].memory_stats()["peak_bytes_in_use"]
        assert (peak < 1 << 20) == (quota is not None)
