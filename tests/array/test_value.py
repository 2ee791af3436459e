"""Arrays are values: nothing reassigns, rewrites or half-compares them."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import deferred, gated, runtime, simulated


def placed():
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    return gs.device_put(np.arange(12).reshape(3, 4), gs.NamedSharding(mesh, gs.P("x", "y")))


@pytest.mark.parametrize("name", ["committed", "weak_type", "shape", "dtype", "sharding"])
def test_attributes_are_read_only(name):
    x = placed()
    with pytest.raises(AttributeError):
        setattr(x, name, getattr(x, name))


def test_the_cached_host_value_cannot_be_made_writable():
    x = placed()
    value = np.asarray(x)
    with pytest.raises(ValueError, match="WRITEABLE"):
        value.flags.writeable = True


def test_comparisons_are_elementwise():
    x = placed()
    value = np.asarray(x)
    np.testing.assert_array_equal(np.asarray(x == placed()), value == value)
    np.testing.assert_array_equal(np.asarray(x != 3), value != 3)
    assert (3 in x) == (3 in value) and -1 not in x


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copies_share_memory_and_live_on_their_own(duplicate):
    x = placed()
    with gs.transfer_guard("disallow_explicit"):
        y = duplicate(x)
    assert y is not x and y.sharding == x.sharding and y.committed == x.committed
    assert np.shares_memory(x._live().values[0], y._live().values[0])
    x.delete()
    assert np.array_equal(np.asarray(y), np.arange(12).reshape(3, 4))


def test_bytes_are_those_of_the_elements():
    assert bytes(placed()) == np.arange(12).tobytes()


def test_what_a_closed_runtime_did_not_run_fails_instead_of_hanging():
    with runtime(backend="host"):
        x, gate = gated(placed())
        part = x[1:, ::2]
    for lost in (x, part):
        with pytest.raises(gs.errors.ExecutionError, match="closed"):
            np.asarray(lost)
    gate.open()


def test_work_given_to_a_closed_runtime_runs_at_once():
    with runtime(inline_bytes=0, small_bytes=0) as rt:
        x = gs.device_put(np.arange(12.0), rt.devices[0])
    assert np.array_equal(np.asarray(x[::-2]), np.arange(12.0)[::-2])


def test_the_text_of_a_large_pending_array_waits_for_its_edges():
    with simulated(host_devices=2, inline_bytes=0):
        x = deferred(gs.device_put(np.arange(2000)), lambda shard: shard + 1)
        assert str(x) == str(np.arange(1, 2001))
