"""Extremes and their positions where blocks disagree: NaN first, then the value, then the place."""

from __future__ import annotations

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops.aval import Aval
from gpushard._ops.row import Site
from gpushard._ops.table.argmin_argmax import ARGMAX, ARGMIN
from tests.traffic import received

P = gs.P


@pytest.mark.parametrize("domains", [1, 8])
@pytest.mark.parametrize("name", ["argmin", "argmax", "min", "max"])
def test_ties_and_nans_are_as_numpy_has_them(name: str, domains: int) -> None:
    generator = np.random.default_rng(0)
    with testing.runtime(host_devices=8, host_domains=domains):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        for trial in range(20):
            value = generator.integers(-2, 3, (300, 70)).astype(np.float64)
            if trial % 2:
                value[generator.random(value.shape) < 0.003] = np.nan
            value[generator.random(value.shape) < 0.1] = -0.0
            x = gs.device_put(value, gs.NamedSharding(mesh, (P("x", "y"), P("y", "x"))[trial % 2]))
            for axis in (None, 0, 1):
                want, got = getattr(value, name)(axis), np.asarray(getattr(x, name)(axis))
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_a_number_is_its_own_extreme(name: str) -> None:
    with testing.runtime(host_devices=8, host_domains=8):
        everywhere = gs.NamedSharding(gs.make_mesh((8,), "x"), P())
        for x in (gs.device_put(np.float32(3), everywhere), gs.device_put(True)):
            for keepdims in (False, True):
                found = getattr(x, name)(keepdims=keepdims)
                assert (found.shape, found.dtype, int(found)) == ((), np.int64, 0)


def test_the_work_is_split_and_merged() -> None:
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        mesh = gs.make_mesh((8,), "x")
        x = gs.device_put(np.arange(80_000.0).reshape(8, -1) % 977, gs.NamedSharding(mesh, P("x")))
        before = dict(runtime.backend.traffic)
        assert int(x.argmax()) == 976
        assert (
            0 < received(runtime, before) <= 16 * (7 + 7)
        )  # a value and a position for every part, there and back


class _ReadOnce(np.ndarray):
    """An array in which nobody may look for an extreme once its position is known."""

    def min(self, *_: object, **__: object) -> np.ndarray:
        raise AssertionError("reads everything once more")

    max = min


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [(-2,), (-1,), (-3, -1), (-3, -2, -1)])
@pytest.mark.parametrize("row", [ARGMIN, ARGMAX], ids=lambda row: row.name)
def test_an_extreme_is_taken_from_its_position(row, axes, keepdims) -> None:
    value = np.random.default_rng(0).permutation(24).reshape(2, 3, 4).astype(np.float32)
    value[1, 1, 1] = np.nan
    site = Site(((0, 0, 0),), (), ())
    kernel = row.strategies[0].local(np, [Aval(value.shape, value.dtype)], (axes, keepdims, None))
    found, at = kernel(site, value.view(_ReadOnce))
    extreme = row.name.removeprefix("arg")
    np.testing.assert_array_equal(found, getattr(value, extreme)(axes, keepdims=keepdims))
    assert at.shape == found.shape and at.dtype == np.int64
