"""What operations on all partitions of a GPU cost together, and that they are right.

Calls that one launch can make, wherever their shards lie, wait for nothing and take one.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.cuda import backend
from tests.gpu.device import Split, gpu_runtime, needs_gpu
from tests.softgpu import counters
from tests.softgpu.run import ACTIVE

pytestmark = needs_gpu

COSTS = {
    "sum": (lambda x: x.sum(), 2, 0),
    "sum of rows": (lambda x: x.sum(axis=1), 1, 0),
    "prod": (lambda x: x.prod(), 2, 0),
    "max": (lambda x: x.max(), 2, 0),
    "mean": (lambda x: x.mean(), 3, 0),
    "any": (lambda x: (x > 0).any(), 3, 0),
    "add": (lambda x: x + x, 1, 0),
    "sin": (lambda x: gs.numpy.sin(x), 1, 0),
    "matmul": (lambda x: x @ x, 1, 1),
    "matmul of rows of matrices": (lambda x: x.reshape(64, 4, 16) @ x[:16, :24], 2, 1),
    "matmul of a result": (lambda x: (x + x) @ x, 2, 1),
    "columns": (lambda x: x[:, 3:20], 1, 0),
    "reshard": (lambda x: gs.reshard(x, x.sharding.with_spec(gs.P(None, "x"))), 1, 0),
}
"""What is done, and how many launches and calls of libraries that takes."""


def rows(value: np.ndarray, *spec: Any) -> gs.Array:
    mesh = gs.make_mesh((len(gs.devices()),), "x")
    sharding = gs.NamedSharding(mesh, gs.P(*spec or ("x",)))
    return gs.device_put(value, sharding).block_until_ready()


@pytest.mark.skipif(ACTIVE not in os.environ, reason="only the software GPU counts")
@pytest.mark.parametrize("name", COSTS)
def test_all_partitions_share_launches_and_none_waits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "_HEAD_NS", 1 << 62)  # no events for the time that passes
    function, launches, calls = COSTS[name]
    with gpu_runtime(split=Split(8, False), poisoned=False):
        x = rows(np.random.default_rng(3).random((64, 64), np.float32))
        for _ in range(3):
            function(x).block_until_ready()
        before = counters.read()
        made = [function(x) for _ in range(4)]
        counts = counters.read() - before
        assert counts["launches"] <= 4 * launches, counts
        assert counts["library_calls"] <= 4 * calls, counts
        assert not counts["events_waited"] and not counts["events_recorded"], counts
        assert len(made) == 4


@pytest.mark.parametrize("partitions", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_products_of_shards_are_those_of_numpy(partitions: int, dtype: str) -> None:
    rng = np.random.default_rng(5)

    def some(*shape: int) -> np.ndarray:
        value = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype in "FD" else 0)
        return value.astype(dtype)

    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-3)
    with gpu_runtime(split=Split(partitions, False)):
        for n, k, m in ((16, 24, 8), (8, 1, 8), (32, 300, 3), (24, 7, 40)):
            a, b = some(n, k), some(k, m)
            x, y = rows(a), rows(b, None, None)
            for _ in range(2):  # in memory that has been used
                close(np.asarray(x @ y), a @ b)
                close(np.asarray(rows(a, None, None) @ rows(b, None, "x")), a @ b)
                close(np.asarray(x.T @ rows(a)), a.T @ a)
                close(np.asarray((x @ y) @ (x @ y).T), (a @ b) @ (a @ b).T)
                several = np.stack([a, a + 1, a - 1], 1)
                close(np.asarray(rows(several) @ y), several @ b)
                turned = rows(several.transpose(0, 2, 1).copy()).transpose(0, 2, 1)
                close(np.asarray(turned @ y), several @ b)


@pytest.mark.parametrize("code", "?bQefdD")
def test_reductions_of_shards_are_those_of_numpy(code: str) -> None:
    rng = np.random.default_rng(6)
    value = rng.random((48, 33)) * 0.2 + 0.9 if code in "efdD" else rng.integers(0, 3, (48, 33))
    value = value.astype(code)
    with gpu_runtime(split=Split(8, False)):
        x = rows(value)
        for name in ("sum", "prod", "min", "max", "any", "all", "mean"):
            if name in ("min", "max") and code == "D":
                continue
            for axis in (None, 0, 1):
                found = np.asarray(getattr(x, name)(axis=axis))
                wanted = getattr(value, name)(axis=axis)
                assert found.dtype == wanted.dtype
                np.testing.assert_allclose(found, wanted, rtol=2e-2 if code == "e" else 1e-5)


@pytest.mark.parametrize("code", "efd")
def test_extremes_of_shards_with_nan_are_nan(code: str) -> None:
    value = np.random.default_rng(7).normal(size=(48, 40)).astype(code)
    value[5, 7] = value[5, 39] = value[46, 0] = np.nan
    with gpu_runtime(split=Split(8, False)):
        x = rows(value)
        for axis in (None, 0, 1):
            np.testing.assert_array_equal(np.asarray(x.max(axis=axis)), value.max(axis=axis))
            np.testing.assert_array_equal(np.asarray(x.min(axis=axis)), value.min(axis=axis))
