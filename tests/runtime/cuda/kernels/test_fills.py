"""Fills are exactly the bytes of their boxes, each with its value, in few and large units."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._runtime.cuda.kernels.batches import Allocation
from gpushard._runtime.cuda.kernels.fills import (
    INLINE_FILLS,
    LONG_RUN,
    UNITS_PER_BLOCK,
    Filling,
    _runs,
    make_fills,
)
from tests.share import examples

EVERYTHING = Allocation(0, 1 << 62)
START = 1 << 20


def bytes_of(fills: Any) -> list[tuple[int, int]]:
    """(address, value) of every byte, by the definition of an entry."""
    found = []
    for fill in fills.table:
        pattern = fill["pattern"].tobytes()
        for at in itertools.product(*(range(int(n)) for n in fill["extent"])):
            first = int(fill["target"]) + sum(map(int.__mul__, at, fill["stride"].tolist()))
            found += [(first + byte, pattern[byte]) for byte in range(int(fill["unit"]))]
    return found


def filling(shape: tuple[int, ...], value: bytes, start: int = START) -> Filling:
    strides = np.empty(shape, np.dtype((np.void, len(value)))).strides
    return Filling(start, strides, EVERYTHING, shape, value)


@st.composite
def fillings(draw: st.DrawFn) -> Filling:
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=5)))
    value = bytes(range(1, 1 + draw(st.sampled_from((1, 2, 4, 8, 16)))))
    strides, pitch = [0] * len(shape), len(value)
    for dim in draw(st.permutations(range(len(shape)))):
        strides[dim] = pitch * draw(st.sampled_from((1, 1, -1, 2)))
        pitch *= (shape[dim] + draw(st.sampled_from((0, 0, 1)))) * 2
    first = START + draw(st.sampled_from((0, 1, 2, 4, 8)))
    return Filling(first, strides, EVERYTHING, shape, value)


@given(fillings())
@examples(300)
def test_fills_are_the_bytes_of_the_box_each_once(given: Filling) -> None:
    expected = [
        (given.target + sum(map(int.__mul__, at, given.strides)) + byte, value)
        for at in np.ndindex(given.shape)
        for byte, value in enumerate(given.value)
    ]
    fills = make_fills([given])
    assert sorted(bytes_of(fills)) == sorted(expected)
    for fill in fills.table:
        unit = int(fill["unit"])
        assert unit in (1, 2, 4, 8, 16)
        assert all(n % unit == 0 for n in (int(fill["target"]), *fill["stride"].tolist()))


def test_dense_boxes_are_filled_by_16_bytes_whatever_the_element() -> None:
    for value in (b"a", b"ab", b"abcd", b"abcdefgh", b"abcdefghijklmnop"):
        (fill,) = make_fills([filling((8, 16), value)]).table
        assert fill["unit"] == 16 and fill["extent"][-1] == 8 * len(value)
        assert fill["pattern"].tobytes() == value * (16 // len(value))


def test_unaligned_ends_of_long_runs_are_filled_by_themselves() -> None:
    for itemsize, start in ((1, 0), (1, 1), (1, 3), (2, 2), (4, 4), (4, 8), (8, 8)):
        value = bytes(range(itemsize))
        fills = make_fills([filling((1001,), value, START + start)])
        (body,) = fills.table[fills.table["unit"] == 16]
        assert len(fills.table) <= 3 and body["extent"][-1] * 16 >= 1001 * itemsize - 30
        expected = [(START + start + n, n % itemsize) for n in range(1001 * itemsize)]
        assert sorted(bytes_of(fills)) == expected
    rows = Filling(START + 4, (128, 1), EVERYTHING, (5, 100), b"x")
    assert make_fills([rows]).table["unit"].tolist() == [4, 16, 8]


def test_elements_that_are_not_aligned_are_filled_part_by_part() -> None:
    fills = make_fills([filling((1001,), b"abcdefgh", START + 4)])
    assert fills.table["unit"].tolist() == [4, 4]


def test_one_element_seen_many_times_is_filled_once() -> None:
    repeated = Filling(START, (0, 4), EVERYTHING, (1000, 2), b"abcd")
    (fill,) = make_fills([repeated]).table
    assert fill["extent"].tolist() == [1, 1, 1, 1] and fill["unit"] == 8


def test_flipped_boxes_are_filled_forwards() -> None:
    given = Filling(START + 60, (-4,), EVERYTHING, (16,), b"abcd")
    (fill,) = make_fills([given]).table
    assert fill["target"] == START and fill["extent"][-1] == 4


def test_blocks_are_dealt_out_by_bytes() -> None:
    sizes = (1, UNITS_PER_BLOCK, UNITS_PER_BLOCK + 1, 10 * UNITS_PER_BLOCK)
    fills = make_fills([filling((16 * n,), b"x") for n in sizes])
    assert fills.first.tolist() == [0, 1, 2, 4, 14]
    assert make_fills([]).blocks == 0
    assert make_fills([filling((0, 3), b"x")]).blocks == 0


def test_what_leaves_its_allocation_or_has_no_such_element_is_refused() -> None:
    fine = Filling(4096, (16, 4), Allocation(4096, 64), (4, 4), b"abcd")
    assert make_fills([fine]).blocks == 1
    changes = ({"target": 4100}, {"strides": (-16, 4)}, {"shape": (4, 5)}, {"strides": (20, 4)})
    for change in changes:
        with pytest.raises(AssertionError, match="outside"):
            make_fills([Filling(**{**vars(fine), **change})])
    with pytest.raises(AssertionError, match="3 bytes"):
        make_fills([Filling(**{**vars(fine), "value": b"abc"})])


def test_few_fills_fit_into_the_argument_of_a_launch() -> None:
    many = [filling((5,), b"abcd") for _ in range(INLINE_FILLS)]
    batch = make_fills(many).inline()
    assert batch["count"] == INLINE_FILLS and batch.nbytes <= 4096
    with pytest.raises(ValueError):
        make_fills([*many, many[0]]).inline()


def test_runs_are_cut_from_four_widest_units_on() -> None:
    assert _runs(8, LONG_RUN - 1, []) == [(0, LONG_RUN - 1)]
    assert _runs(8, LONG_RUN, []) == [(0, 8), (8, LONG_RUN - 16), (LONG_RUN - 8, 8)]
