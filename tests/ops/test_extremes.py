"""Extremes and their positions where blocks disagree: NaN first, then the value, then the place."""

from __future__ import annotations

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing

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
        moved = sum(
            n - before.get(link, 0)
            for link, n in runtime.backend.traffic.items()
            if link[0] != link[1] and min(link) >= 0
        )
        assert 0 < moved <= 16 * (7 + 7)  # a value and a position for every part, there and back
