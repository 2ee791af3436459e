"""Arrays that follow one another: one plan for all of them, whatever their number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._movement import rearrange, reshard
from gpushard._movement.planning.rearrange import make_rearrange
from gpushard._movement.planning.rearrangements import concatenate
from gpushard._movement.planning.reshard import make_plan
from tests.movement.strategies import OwnSharding


class Counted:
    """Counts the calls of a function."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.times = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.times += 1
        return self.function(*args, **kwargs)


@pytest.mark.parametrize("domains", [1, 4])
@pytest.mark.parametrize("function", [np.concatenate, np.stack])
def test_many_arrays_take_one_plan(
    function: Any, domains: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans, others = Counted(make_plan), Counted(make_rearrange)
    monkeypatch.setattr(reshard, "make_plan", plans)
    monkeypatch.setattr(rearrange, "make_rearrange", others)
    with testing.runtime(host_devices=4, host_domains=domains):
        sharding = gs.NamedSharding(gs.make_mesh((2, 2), ("x", "y")), gs.P("x", "y"))
        data = [np.arange(15).reshape(5, 3) + n for n in range(60)]
        parts = [gs.device_put(one, sharding) for one in data]
        for axis in range(2):
            made = function(parts, axis=axis)
            np.testing.assert_array_equal(np.asarray(made), function(data, axis=axis))
    assert (plans.times, others.times) == (2, 0)


@pytest.mark.parametrize("domains", [1, 2, 4])
def test_what_is_there_twice_is_received_once(
    domains: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans, others = Counted(make_plan), Counted(make_rearrange)
    monkeypatch.setattr(reshard, "make_plan", plans)
    monkeypatch.setattr(rearrange, "make_rearrange", others)
    with testing.runtime(host_devices=4, host_domains=domains):
        data = np.arange(24).reshape(8, 3)
        x = gs.device_put(data, gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
        made = gs.numpy.concatenate([x, x, x])
        np.testing.assert_array_equal(np.asarray(made), np.concatenate([data] * 3))
    assert (plans.times, others.times) == ((1, 0) if domains == 1 else (0, 1))


def test_arrays_that_are_split_in_other_ways_are_joined_too() -> None:
    with testing.runtime(host_devices=4, host_domains=2):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        data = np.arange(15).reshape(5, 3)
        specs = gs.P("x", "y"), gs.P(None, "x"), gs.P("x", "y"), gs.P()
        parts = [gs.device_put(data + n, gs.NamedSharding(mesh, s)) for n, s in enumerate(specs)]
        made = gs.numpy.concatenate([*parts, parts[0]])
        want = np.concatenate([data, data + 1, data + 2, data + 3, data])
        np.testing.assert_array_equal(np.asarray(made), want)


def test_arrays_that_are_split_at_other_places_are_joined_too() -> None:
    """Each is in two parts by columns."""
    with testing.runtime(host_devices=2, host_domains=2) as runtime:
        data, parts = np.arange(36).reshape(2, 6, 3), []
        for cut in (3, 1, 3, 5):
            boxes = {
                n: (slice(2), slice(*at), slice(3)) for n, at in enumerate([(0, cut), (cut, 6)])
            }
            parts.append(gs.device_put(data + cut, OwnSharding(runtime, boxes)))
        made = gs.numpy.concatenate(parts)
        np.testing.assert_array_equal(made, np.concatenate([data + cut for cut in (3, 1, 3, 5)]))


def test_what_is_joined_keeps_the_memory_that_it_shares() -> None:
    with testing.runtime(host_devices=4, small_bytes=0):
        rows = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        data = np.arange(20).reshape(4, 5)
        parts = [gs.device_put(half, rows) for half in np.split(data, 2)]
        shared = parts[1].addressable_data(0).unsafe_buffer_pointer()
        made = gs.numpy.concatenate(parts)
        assert made.addressable_data(2).unsafe_buffer_pointer() == shared
        del parts
        others = [gs.device_put(np.full((4, 5), -1), rows) for _ in range(2)]
        np.testing.assert_array_equal(np.asarray(made), data)
        del others


def test_what_takes_turns_on_its_devices_waits_for_all_of_them() -> None:
    """No block is copied: the first and the last are one array, which two domains hold."""
    with testing.runtime(host_devices=3, host_domains=3) as runtime:
        first, second, third = runtime.devices
        twice = gs.NamedSharding(gs.make_mesh((2,), "x", devices=[first, third]), gs.P())
        everywhere = gs.NamedSharding(gs.make_mesh((3,), "x"), gs.P("x"))
        x = gs.device_put(np.arange(4.0), twice).block_until_ready()
        y, gate = testing.gated(gs.device_put(-np.arange(4.0), second))
        how = concatenate(((4,),) * 3, 0)
        sources = [x._live(), y._live(), x._live()]
        made = gs.Array(rearrange.rearrange(sources, how, everywhere.tiling((12,))), everywhere)
        assert not made.is_ready()
        gate.open()
        np.testing.assert_array_equal(made, np.concatenate([x, -np.arange(4.0), x]))


@pytest.mark.parametrize("order", [1, -1])
def test_no_part_of_what_is_joined_keeps_more_than_twice_as_much(order: int) -> None:
    """One of them is a half of a longer array; two of three results are in one of them each."""
    with testing.runtime(host_devices=3, small_bytes=0):
        mesh = gs.make_mesh((3,), "x")
        data = np.arange(32, dtype=np.float32).reshape(8, 4)
        whole, split = gs.NamedSharding(mesh, gs.P()), gs.NamedSharding(mesh, gs.P("x"))
        longer = gs.device_put(np.concatenate([data, -data]), whole)
        sources = [gs.device_put(data, whole), longer[:8]][::order]
        assert np.shares_memory(sources[::order][1], longer)
        how = concatenate((data.shape,) * 2, 0)
        made = rearrange.rearrange([x._live() for x in sources], how, split.tiling(how.shape))
        assert not any(np.shares_memory(value, longer) for value in made.values)
        np.testing.assert_array_equal(gs.Array(made, split), np.concatenate([data, data]))
