"""Parts that start anywhere: planned once for all starts, with the values of plans of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._movement import reshard
from gpushard._movement.planning import windows
from gpushard._movement.planning.reshard import make_plan
from tests.movement.test_joining import Counted
from tests.share import examples


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted(make_plan)
    for module in (reshard, windows):
        monkeypatch.setattr(module, "make_plan", counted)
    return counted


@pytest.mark.parametrize("spec", [gs.P("x", "y"), gs.P(None, ("y", "x")), gs.P("x"), gs.P()])
def test_a_loop_over_rows_or_windows_plans_once(spec: gs.P, plans: Counted) -> None:
    data = np.arange(60 * 24).reshape(60, 24)
    with testing.runtime(host_devices=6):
        x = gs.device_put(data, gs.NamedSharding(gs.make_mesh((3, 2), ("x", "y")), spec))
        for many, take in enumerate(
            (
                lambda a, i: a[i],
                lambda a, i: a[i : i + 4],
                lambda a, i: a[:, i % 24],
                lambda a, i: a[i, i % 20 : i % 20 + 3],
                lambda a, i: a[i : i + 7 : 3, None, ::-12],
                lambda a, i: a[i + 3 : i + 1 : -1],
            ),
            start=1,
        ):
            for i in range(50):
                np.testing.assert_array_equal(np.asarray(take(x, i)), take(data, i))
            assert plans.times == many


def test_iteration_plans_once(plans: Counted) -> None:
    data = np.arange(120).reshape(40, 3)
    with testing.runtime(host_devices=4):
        x = gs.device_put(data, gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
        assert np.array_equal([np.asarray(row) for row in x], data)
    assert plans.times == 1


def test_what_needs_its_own_plan_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = Counted(windows.Window.starting)
    monkeypatch.setattr(windows.Window, "starting", lambda *given: tried(*given))
    data = np.arange(64).reshape(8, 8)
    with testing.runtime(host_devices=4):
        x = gs.device_put(data, gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
        for _ in range(3):  # blocks of the array are shared with the part
            np.testing.assert_array_equal(np.asarray(x[2:7]), data[2:7])
    assert tried.times == 1


slices = st.tuples(st.integers(0, 12), st.integers(0, 12), st.sampled_from([1, 2, 3, -1, -2, -5]))


@examples(60)
@given(
    st.tuples(st.integers(0, 13), st.integers(0, 9)),
    st.lists(st.one_of(st.integers(0, 30), slices, st.none()), max_size=4),
    st.sampled_from([1, 2, 6]),
    st.sampled_from([gs.P("x", "y"), gs.P("y"), gs.P(None, ("y", "x"))]),
    st.booleans(),
)
def test_parts_are_those_of_numpy(
    shape: tuple[int, int], entries: list[Any], domains: int, spec: gs.P, streams: bool
) -> None:
    dims = iter(shape)
    index: list[Any] = []
    for entry in entries:
        size = None if entry is None else next(dims, 0)
        if isinstance(entry, tuple):
            index.append(slice(*entry))
        elif entry is None or size:
            index.append(entry if entry is None else entry % size)
    index = index[: index.count(None) + len(shape)]
    data = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    ways = {"inline_bytes": 0, "small_bytes": 0} if streams else {}
    with testing.runtime(host_devices=6, host_domains=domains, enable_checks=True, **ways):
        x = gs.device_put(data, gs.NamedSharding(gs.make_mesh((3, 2), ("x", "y")), spec))
        try:
            want = data[tuple(index)]
        except IndexError:
            with pytest.raises(IndexError):
                x[tuple(index)]
            return
        for _ in range(2):
            np.testing.assert_array_equal(np.asarray(x[tuple(index)]), want)
