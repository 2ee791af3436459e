"""Whole programs beside the same lines with NumPy: an epoch of minibatches.

The floor is what NumPy takes for the blocks, with a dispatch of the smallest operation for each of
the program's, and our own permutation: see `bench.threefry` for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import FLOOR, JAX, OURS, Case, Config, Side, Target
from bench.measure import timed
from gpushard.testing import runtime

ROWS, COLUMNS = 100_000, 50
BATCHES = 1_000, 10_000
RATE = 0.5
NUMPY = "NumPy"
DISPATCHES = 13
"""Operations of a step: slices, gathers, products and a transpose count as one each."""


def cases(config: Config) -> Iterator[Case]:
    """Logistic regression: a permutation, then batches of rows by it."""
    rows = config.pick(ROWS, 400)
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

        for batch in config.pick(BATCHES, (100,)):
            yield _case(config, batch, (x, y, start), (*ours, weights), key)


def _case(config: Config, batch: int, host: Any, ours: Any, key: Any) -> Case:
    """An epoch with batches of some size; NumPy and gpushard draw a permutation each."""
    rows = len(host[0])
    rng = np.random.default_rng(0)
    blocks = [[np.asarray(x.addressable_data(n)).copy() for n in range(8)] for x in ours[:2]]
    smallest = ours[2][:8]

    def epoch() -> Any:
        return _epoch(gs.numpy, *ours, gs.random.permutation(key, rows), batch)

    def numpy_epoch() -> Any:
        return _epoch(np, *host, rng.permutation(rows), batch)

    def floor_epoch() -> Any:
        order = np.asarray(gs.random.permutation(key, rows))
        x, y = map(_Blocks, blocks)
        return _epoch(np, x, y, host[2], order, batch, lambda: -smallest)

    def check() -> None:
        order = np.asarray(gs.random.permutation(key, rows))
        assert np.array_equal(np.sort(order), np.arange(rows))
        expected = _epoch(np, *host, order, batch)
        for found in (epoch(), floor_epoch()):
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-9)

    return Case(
        name=f"logistic regression, {rows:,} x {COLUMNS}, batches of {batch:,}",
        table="an epoch",
        sides=[
            Side(OURS, timed(lambda _: epoch().block_until_ready())),
            Side(JAX, None),
            Side(NUMPY, timed(lambda _: numpy_epoch())),
            Side(FLOOR, timed(lambda _: floor_epoch())),
        ],
        check=check,
        target=Target(times=2, column=NUMPY),
        burst=config.pick(5, 1),
    )


def _epoch(
    xp: Any, x: Any, y: Any, weights: Any, order: Any, batch: int, dispatch: Any = None
) -> Any:
    """Return weights after one pass over all rows in some order; a step may dispatch more."""
    for begin in range(0, len(order), batch):
        at = order[begin : begin + batch]
        rows, wanted = x[at], y[at]
        wrong = 1 / (1 + xp.exp(-(rows @ weights))) - wanted
        weights = weights - RATE / batch * (rows.T @ wrong)
        if dispatch is not None:
            for _ in range(DISPATCHES):
                dispatch()
    return weights


class _Blocks:
    """Rows in blocks of one length, and NumPy's fastest way to take some of them.

    Args:
      blocks: the blocks.
    """

    def __init__(self, blocks: list[Any]) -> None:
        self._blocks = blocks

    def __getitem__(self, at: Any) -> Any:
        size = len(self._blocks[0])
        owner = at // size
        order = owner.astype(np.uint8).argsort(kind="stable")
        local = (at - owner * size)[order]
        ends = owner[order].searchsorted(np.arange(len(self._blocks)), "right").tolist()
        rows = np.empty((len(at), *self._blocks[0].shape[1:]), self._blocks[0].dtype)
        for block, start, end in zip(self._blocks, [0, *ends], ends, strict=False):
            block.take(local[start:end], 0, rows[start:end], "clip")
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return rows.take(back, 0)
