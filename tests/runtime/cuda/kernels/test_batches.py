"""What the packers share: bounds and the dealing out of blocks."""

from __future__ import annotations

import itertools
import math

import pytest

from gpushard._runtime.cuda.kernels import batches
from gpushard._runtime.cuda.kernels.batches import Allocation, check_units, first_blocks


def test_a_launch_has_no_more_blocks_than_a_grid() -> None:
    assert first_blocks([1 << 30, (1 << 30) - 1]).tolist()[-1] == (1 << 31) - 1
    with pytest.raises(AssertionError, match="at most"):
        first_blocks([1 << 30, 1 << 30])


def test_units_may_touch_the_ends_of_their_memory_and_no_more() -> None:
    memory = Allocation(4096, 32)
    check_units(memory, 4096, [(8, 4)], 4)
    check_units(memory, 4124, [(8, -4)], 4)
    for first, step in ((4096, 8), (4100, 4), (4120, -4), (4092, 4)):
        with pytest.raises(AssertionError, match="outside"):
            check_units(memory, first, [(8, step)], 4)
    with pytest.raises(AssertionError, match="misaligned"):
        check_units(memory, 4098, [(2, 4)], 4)


BOXES: list[list[batches.Dim]] = [
    [(7, 1, 2)],
    [(2, 10, 30), (5, 1, 3)],
    [(5, 10, 30), (2, 1, 3)],
    [(2, 100, 300), (3, 20, 70), (9, 1, 3)],
    [(2, 900, 700), (2, 300, 200), (3, 90, 60), (3, 20, 10), (2, 5, 3)],
]


def units_of(target: int, source: int, dims: list[batches.Dim]) -> list[tuple[int, int]]:
    """Return where each unit of a box goes, and where it is from."""
    return [
        (
            target + sum(n * to for n, (_, to, _) in zip(at, dims, strict=True)),
            source + sum(n * of for n, (_, _, of) in zip(at, dims, strict=True)),
        )
        for at in itertools.product(*[range(extent) for extent, _, _ in dims])
    ]


@pytest.mark.parametrize("dims", BOXES)
def test_parts_have_each_unit_once(
    dims: list[batches.Dim], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST_UNITS", 4)
    found = list(batches.parts(1000, 5000, dims))
    for _, _, part in found:
        assert len(part) <= batches.DIMS and math.prod(n for n, _, _ in part) <= 4
    units = [unit for part in found for unit in units_of(*part)]
    assert sorted(units) == sorted(units_of(1000, 5000, dims))
