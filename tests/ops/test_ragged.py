"""What a mask selects, where its length is known."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from gpushard.ops.ragged import places


@pytest.mark.parametrize("mask", [[], [1], [0], [0, 1, 1, 0, 0, 1, 0], [1, 0, 1]])
def test_places_are_where_a_mask_is_true_without_a_look_at_it(mask: list[int]) -> None:
    elsewhere: Any = types.ModuleType("elsewhere")
    elsewhere.arange, elsewhere.searchsorted = np.arange, np.searchsorted
    wanted = [n for n, there in enumerate(mask) if there]
    for xp in (np, elsewhere):
        assert places(xp, np.array(mask, bool), len(wanted)).tolist() == wanted
