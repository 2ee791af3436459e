"""What a mask selects, where its length is known."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops.ragged_selection import counts_of, places


@pytest.mark.parametrize("mask", [[], [1], [0], [0, 1, 1, 0, 0, 1, 0], [1, 0, 1]])
def test_places_are_where_a_mask_is_true_without_a_look_at_it(mask: list[int]) -> None:
    elsewhere: Any = types.ModuleType("elsewhere")
    elsewhere.arange, elsewhere.searchsorted = np.arange, np.searchsorted
    wanted = [n for n, there in enumerate(mask) if there]
    for xp in (np, elsewhere):
        assert places(xp, np.array(mask, bool), len(wanted)).tolist() == wanted


def test_counts_are_those_of_the_blocks_and_their_program_is_larger_for_more_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values, sizes = np.arange(16) % 3 == 0, []
    for count in (1, 8):
        with testing.runtime(host_devices=count) as runtime:
            kept = runtime.plans.put
            rows = gs.NamedSharding(gs.make_mesh((count,), "x"), gs.P("x"))
            mask = gs.device_put(values, rows)._live()  # type: ignore[attr-defined]

            def put(key: Any, value: Any, nbytes: int, kept: Any = kept) -> None:
                if key[0] == "counts":
                    sizes.append(nbytes)
                kept(key, value, nbytes)

            monkeypatch.setattr(runtime.plans, "put", put)
            for _ in range(2):
                found = counts_of(mask, "f")
                assert found.tolist() == values.reshape(count, -1).sum(1).tolist()
    one, eight = sizes
    assert 0 < one < eight


@pytest.mark.parametrize("share", [1e-4, 0.5, 0.87, 0.88, 1.0])
def test_any_share_of_elements_is_selected(share: float) -> None:
    """By their places, or in long runs; blocks of eight devices have different shares."""
    rng = np.random.default_rng(0)
    x, mask = rng.random((400, 50)), rng.random((400, 50)) < share
    mask[:40] = ~mask[:40]
    with testing.runtime(host_devices=8):
        rows = gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x"))
        made = gs.device_put(x, rows)[gs.device_put(mask, rows)]
        np.testing.assert_array_equal(np.asarray(made), x[mask])
