"""Positions of true elements: every part of the result looks through its own part of the mask."""

from __future__ import annotations

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops.aval import Aval
from gpushard._ops.bind import bind
from gpushard._ops.row import Site
from gpushard._ops.table.furthest import FURTHEST
from gpushard._ops.table.nonzero import NONZERO


@pytest.mark.parametrize("density", [0, 0.001, 0.5, 1])
@pytest.mark.parametrize("size", [1, (1 << 14) - 1, 1 << 14, 100_003])
def test_parts_together_are_the_positions_and_search_the_mask_once(
    size: int, density: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = np.random.default_rng(0).random(size) < density
    want = np.flatnonzero(mask)
    kernel = NONZERO.kernel(np, [Aval(mask.shape, mask.dtype)], (len(want) + 3, (-1,)))
    searched: list[int] = []
    search = np.flatnonzero

    def counted(part: np.ndarray) -> np.ndarray:
        searched.append(len(part))
        return search(part)

    monkeypatch.setattr(np, "flatnonzero", counted)
    bounds = np.linspace(0, len(want) + 3, 9).astype(int)
    parts = [
        kernel(Site(((0,),), (start,), (stop - start,)), mask)
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    assert np.concatenate(parts).tolist() == [*want.tolist(), -1, -1, -1]
    assert sum(searched) <= size + len(parts) * (1 << 14)


@pytest.mark.parametrize("spec", [gs.P("x"), gs.P(None, "x")])
def test_the_furthest_position_of_two_needs_the_longest_dim(spec: gs.P) -> None:
    pairs = np.stack(np.meshgrid(*[np.arange(-6, 6)] * 2), -1).reshape(-1, 2)
    with testing.runtime(host_devices=2, host_domains=2):
        x = gs.device_put(pairs, gs.NamedSharding(gs.make_mesh((2,), "x"), spec))
        furthest = np.asarray(bind(FURTHEST, (x,), ((-1,), False)))
    needed = np.maximum(pairs + 1, -pairs)  # elements in a dim
    assert np.array_equal(np.maximum(furthest + 1, -furthest), needed.max(-1))
    assert (furthest[:, None] == pairs).any(-1).all()


@pytest.mark.parametrize("position", [(1 << 64) - 1, 1 << 63, 5])
def test_unsigned_positions_stay_positive_and_no_dim_is_longer_than_numbers_go(
    position: int,
) -> None:
    with testing.runtime(host_devices=2, host_domains=2):
        sharding = gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x"))
        x = gs.device_put(np.array([2, position], np.uint64), sharding)
        furthest = np.asarray(bind(FURTHEST, (x,), ((-1,), False)))
    assert furthest == min(position, np.iinfo(np.int64).max)
