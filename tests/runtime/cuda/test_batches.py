"""What the packers share: division by multiplication, bounds and the dealing out of blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard.runtime.cuda.batches import Allocation, check_units, divider, first_blocks


@given(st.integers(1, 2**62), st.integers(0, 2**63 - 1))
def test_division_by_multiplication_is_exact_with_64_bits_too(divisor: int, number: int) -> None:
    magic, shift = divider(divisor, 64)
    assert magic < 1 << 64
    for n in (number, 0, divisor - 1, divisor, 2**63 - 1):
        high = n * magic >> 64
        assert high + n < 1 << 64, "the kernel adds with 64 bits"
        assert high + n >> shift == n // divisor


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
