"""Whole programs beside the same lines with NumPy: an epoch of minibatches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import FLOOR, JAX, OURS, Case, Config, Side, Target
from bench.measure import timed
from gpushard.testing import runtime

ROWS, COLUMNS, BATCH = 100_000, 50, 1_000
RATE = 0.5


def cases(config: Config) -> Iterator[Case]:
    """Logistic regression: a permutation, then batches of rows by it."""
    rows, batch = config.pick(ROWS, 400), config.pick(BATCH, 100)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, COLUMNS))
    y = (x @ rng.standard_normal(COLUMNS) > 0).astype(np.float64)
    start = np.zeros(COLUMNS)
    with runtime(host_devices=8):
        mesh = gs.make_mesh((8,), ("rows",))
        by_rows = gs.NamedSharding(mesh, gs.P("rows"))
        ours = [gs.device_put(one, by_rows) for one in (x, y)]
        weights = gs.device_put(start, gs.NamedSharding(mesh, gs.P()))
        key = gs.random.key(1)

        def epoch() -> Any:
            order = gs.random.permutation(key, rows)
            return _epoch(gs.numpy, *ours, weights, order, batch)

        def check() -> None:
            order = np.asarray(gs.random.permutation(key, rows))
            assert np.array_equal(np.sort(order), np.arange(rows))
            expected = _epoch(np, x, y, start, order, batch)
            np.testing.assert_allclose(np.asarray(epoch()), expected, rtol=1e-9)

        def numpy_epoch() -> Any:
            return _epoch(np, x, y, start, rng.permutation(rows), batch)

        yield Case(
            name=f"logistic regression, {rows:,} x {COLUMNS}, batches of {batch:,}",
            table="an epoch",
            sides=[
                Side(OURS, timed(lambda _: epoch().block_until_ready())),
                Side(JAX, None),
                Side(FLOOR, timed(lambda _: numpy_epoch())),
            ],
            check=check,
            target=Target(times=2),
            burst=config.pick(5, 1),
        )


def _epoch(xp: Any, x: Any, y: Any, weights: Any, order: Any, batch: int) -> Any:
    """Return weights after one pass over all rows in some order."""
    for begin in range(0, len(order), batch):
        at = order[begin : begin + batch]
        rows, wanted = x[at], y[at]
        wrong = 1 / (1 + xp.exp(-(rows @ weights))) - wanted
        weights = weights - RATE / batch * (rows.T @ wrong)
    return weights
