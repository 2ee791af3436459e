"""Factors divide every number below 2**31 as `//` does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._runtime.cuda.kernels.division import pack_divisor

END = 2**31


def divided(n: int, length: int) -> tuple[int, int]:
    """Return what a kernel computes, with 32 bits for everything."""
    count = pack_divisor(length)
    factor, known = count >> 32, count % 2**32
    assert known == length and factor < 2**32
    shift = 0 if length < 2 else (length - 1).bit_length()  # 32 - __clz(length - 1)
    doubled = n << 1
    assert doubled < 2**32
    quotient = (doubled * factor >> 32) >> shift
    return quotient, n - quotient * length


@pytest.mark.parametrize("power", range(32))
def test_lengths_about_powers_of_2(power: int) -> None:
    for length in (n for n in range(2**power - 3, 2**power + 4) if 0 < n < END):
        numbers = {0, 1, length - 1, length, length + 1, END - 1}
        last = (END - 1) // length * length
        numbers |= {last + more for more in (-1, 0, 1)}
        for n in (n for n in numbers if 0 <= n < END):
            assert divided(n, length) == divmod(n, length)


@given(st.integers(1, END - 1), st.integers(0, END - 1), st.integers(0, END - 1))
def test_any_length(length: int, n: int, multiple: int) -> None:
    whole = multiple // length * length
    for number in {n, whole, max(0, whole - 1)}:
        assert divided(number, length) == divmod(number, length)


def test_a_length_of_0_divides_nothing() -> None:
    assert pack_divisor(0) % 2**32 == 0
