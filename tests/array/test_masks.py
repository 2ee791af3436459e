"""What large masks select: every block gives what it has."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._functions import masks
from gpushard._movement import reshard
from gpushard.testing.faults import InjectedError, faults
from tests.traffic import received

SPECS = gs.P("x", "y"), gs.P(("y", "x")), gs.P(None, "x"), gs.P("y", None, "x"), gs.P(None, None)
WAYS: dict[str, dict[str, Any]] = {
    "inline": {},
    "streams": {"inline_bytes": 0, "small_bytes": 0},
    "domains": {"host_domains": 6},
    "pairs": {"host_domains": 3, "inline_bytes": 0, "small_bytes": 0},
}


@pytest.fixture(autouse=True)
def _every_mask_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "FEW", 1)


@pytest.mark.parametrize("how", WAYS)
def test_masks_select_what_numpy_selects(how: str) -> None:
    rng = np.random.default_rng(len(how))
    with testing.runtime(host_devices=6, enable_checks=True, **WAYS[how]):
        mesh = gs.make_mesh((3, 2), ("x", "y"))
        for case in range(40):
            shape = tuple(rng.integers(0 if case % 9 == 0 else 1, 9, 1 + case % 3).tolist())
            data = rng.integers(-9, 9, shape).astype([np.int8, float, complex][case % 3])
            chosen = rng.random(shape) < [0.5, 0.05, 1.0, 0.0][case % 4]
            specs = [gs.P(*SPECS[n][: len(shape)]) for n in rng.integers(0, len(SPECS), 2)]
            x, mask = (
                gs.device_put(one, gs.NamedSharding(mesh, spec))
                for one, spec in zip((data, chosen), specs, strict=True)
            )
            made = x[mask]
            np.testing.assert_array_equal(np.asarray(made), data[chosen])
            assert made.dtype == data.dtype
            axes = tuple(axis for dim in range(len(shape)) for axis in specs[1].axes(dim))
            found = gs.numpy.nonzero(mask)
            for mine, want in zip(found, np.nonzero(chosen), strict=True):
                np.testing.assert_array_equal(np.asarray(mine), want)
                assert mine.dtype == np.int64
                assert mine.sharding.spec.axes(0) == axes
            if axes:
                assert made.sharding.spec.axes(0) == axes
            at = gs.numpy.argwhere(mask)
            np.testing.assert_array_equal(np.asarray(at), np.argwhere(chosen))


def test_positions_in_all_dims_are_moved_by_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """It depends on how many are true in each block, and so is made whenever they are found."""
    made = []
    plan = reshard.make_plan
    monkeypatch.setattr(reshard, "make_plan", lambda *of, **by: made.append(of) or plan(*of, **by))
    with testing.runtime(host_devices=6):
        chosen = np.arange(60).reshape(5, 4, 3) % 7 > 3
        mesh = gs.make_mesh((3, 2), ("x", "y"))
        mask = gs.device_put(chosen, gs.NamedSharding(mesh, gs.P("x", "y")))
        for times in (1, 2):
            found = gs.numpy.nonzero(mask)
            assert len(made) == times
            for mine, want in zip(found, np.nonzero(chosen), strict=True):
                np.testing.assert_array_equal(np.asarray(mine), want)


@pytest.mark.parametrize("committed", [(True, False), (False, True), (False, False)])
def test_what_is_selected_is_committed_as_the_array_or_its_mask(
    committed: tuple[bool, bool],
) -> None:
    with testing.runtime(host_devices=2), gs.use_mesh(gs.make_mesh((2,), ("x",)), "auto"):
        x, mask = gs.numpy.arange(6), gs.numpy.arange(6) > 2
        x, mask = (
            gs.device_put(one, one.sharding) if fixed else one
            for one, fixed in zip((x, mask), committed, strict=True)
        )
        assert (x.committed, mask.committed) == committed
        assert x[mask].committed is any(committed)


def test_a_mask_is_not_gathered() -> None:
    with testing.runtime(host_devices=4, host_domains=4) as runtime:
        sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x", None))
        data = np.arange(4000.0).reshape(40, 100)
        x = gs.device_put(data, sharding)
        chosen = np.arange(4000).reshape(40, 100) % 5 == 0
        alone = 3 * np.count_nonzero(chosen) * data.itemsize  # what a mask everywhere selects
        for spec, most in ((gs.P("x", None), 4 * 8), (gs.P(), alone + 4 * 8)):
            mask = gs.device_put(chosen, sharding.with_spec(spec))
            before = dict(runtime.backend.traffic)
            made = x[mask]
            made.block_until_ready()
            assert received(runtime, before) <= most
            np.testing.assert_array_equal(np.asarray(made), data[chosen])


def test_a_mask_with_nothing_true_moves_nothing() -> None:
    with testing.runtime(host_devices=6, host_domains=6) as runtime:
        sharding = gs.NamedSharding(gs.make_mesh((3, 2), ("x", "y")), gs.P(("x", "y")))
        x, mask = (gs.device_put(a, sharding) for a in (np.arange(6000.0), np.zeros(6000, bool)))
        before = dict(runtime.backend.traffic)
        made, places = x[mask], gs.numpy.nonzero(mask)
        assert made.shape == places[0].shape == (0,)
        assert received(runtime, before) == 0


def test_what_fails_leaves_no_memory() -> None:
    with testing.runtime(host_devices=4, small_bytes=0, inline_bytes=0) as runtime:
        sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        data = np.arange(4000.0)
        x, mask = gs.device_put(data, sharding), gs.device_put(data % 3 == 0, sharding)
        want = np.asarray(x[mask]).copy()
        for device in runtime.devices:
            device.memory_stats()
        used = [device.account.in_use for device in runtime.devices]
        with faults(runtime) as found:
            x[mask].block_until_ready()
        for number in range(1, len(found.points) + 1):
            failures = contextlib.suppress(InjectedError, gs.errors.GpushardError)
            with failures, faults(runtime, fail_at=number, lasting=True):
                x[mask].block_until_ready()
            gc.collect()  # errors and frames
            for device in runtime.devices:
                device.memory_stats()
            assert [device.account.in_use for device in runtime.devices] == used
        np.testing.assert_array_equal(np.asarray(x[mask]), want)


def test_a_mask_on_another_mesh_of_the_same_devices_selects_too() -> None:
    data = np.arange(48.0).reshape(8, 6)
    x = gs.device_put(data, gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P("x", "y")))
    mesh = gs.make_mesh((8,), "z")
    mask = gs.device_put(data[:, 0] > 5, gs.NamedSharding(mesh, gs.P("z")))
    np.testing.assert_array_equal(np.asarray(x[mask]), data[data[:, 0] > 5])


LISTS: list[Any] = [[3], (7,), [2.5], [[1] * 6], [[4], [5]], [[1] * 6, [2] * 6], [], [True], [-128]]


@pytest.mark.parametrize("dtype", ["b", "f", "D"])
def test_lists_are_assigned_where_a_mask_is_as_in_numpy(dtype: str) -> None:
    data = np.arange(48).reshape(8, 6).astype(dtype)
    sharding = gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P("x", "y"))
    for mask in (data[:, 0].real > 30, data.real > 40, data.real > 99, data[:, 0].real < 0):
        for value in LISTS:
            x, want = gs.device_put(data, sharding), data.copy()
            try:
                want[mask] = value
            except (TypeError, ValueError):
                continue
            x[gs.device_put(mask)] = value
            np.testing.assert_array_equal(np.asarray(x), want)
            added = gs.device_put(data, sharding).at[gs.device_put(mask)].add(value)
            want = data.copy()
            want[mask] = (want[mask] + np.asarray(value)).astype(dtype)
            np.testing.assert_array_equal(np.asarray(added), want)
