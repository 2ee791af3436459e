"""Positions of true elements: every part of the result looks through its own part of the mask."""

from __future__ import annotations

import numpy as np
import pytest

from gpushard.ops.aval import Aval
from gpushard.ops.row import Site
from gpushard.ops.table.positions import NONZERO


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
