"""What the packers share: bounds and the dealing out of blocks."""

from __future__ import annotations

import pytest

from gpushard.runtime.cuda.kernels.batches import Allocation, check_units, first_blocks


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
