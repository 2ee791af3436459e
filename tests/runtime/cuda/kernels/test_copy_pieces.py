"""Pieces are exactly the bytes of their boxes, in few dims, large units and balanced blocks."""

from __future__ import annotations

import importlib
import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._runtime.cuda.kernels.batches import DIMS, MOST_UNITS, Allocation, divider, merge_dims
from gpushard._runtime.cuda.kernels.copy_pieces import (
    INLINE_PIECES,
    SIDES,
    TILES,
    UNITS_PER_BLOCK,
    WORDS,
    Box,
    make_pieces,
)
from tests.share import examples

ROOT = Path(__file__).parents[4]

EVERYTHING = Allocation(0, 1 << 62)


def bytes_of(pieces: Any) -> list[tuple[int, int]]:
    """(address written, address read) of every byte, by the definition of a piece."""
    found = []
    for piece in pieces.table:
        extents = [range(int(n)) for n in piece["extent"]]
        for at in itertools.product(*extents):
            to, of = (
                int(piece[f"{side}"]) + sum(map(int.__mul__, at, piece[f"{side}_stride"].tolist()))
                for side in ("target", "source")
            )
            found += [(to + byte, of + byte) for byte in range(int(piece["unit"]))]
    return found


def box(shape: tuple[int, ...], to: Any, of: Any, itemsize: int, start: int = 0) -> Box:
    first = start + 16 * sum(max(0, -(n - 1) * s) for n, s in zip(shape, of, strict=True))
    return Box(1 << 20, to, EVERYTHING, (1 << 30) + first, of, EVERYTHING, shape, itemsize)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=6)))
    itemsize = draw(st.sampled_from((1, 2, 3, 4, 8, 12, 16)))
    to, pitch = [], itemsize
    for n in reversed(shape):
        to.append(pitch)
        pitch *= n + draw(st.sampled_from((0, 0, 0, 1, 2)))
    of = [0] * len(shape)
    pitch = itemsize
    for dim in draw(st.permutations(range(len(shape)))):
        of[dim] = pitch * draw(st.sampled_from((1, 1, -1, 2)))
        pitch *= (shape[dim] + draw(st.sampled_from((0, 0, 1)))) * 2
    return box(shape, tuple(reversed(to)), tuple(of), itemsize, draw(st.sampled_from((0, 1, 4, 8))))


@given(boxes())
@examples(300)
def test_pieces_are_the_bytes_of_the_box_each_once(given: Box) -> None:
    expected = [
        (
            given.target + sum(map(int.__mul__, at, given.target_strides)) + byte,
            given.source + sum(map(int.__mul__, at, given.source_strides)) + byte,
        )
        for at in np.ndindex(given.shape)
        for byte in range(given.itemsize)
    ]
    pieces = make_pieces([given])
    found = bytes_of(pieces)
    assert sorted(found) == sorted(expected)
    for piece in pieces.table:
        unit = int(piece["unit"])
        both = (*piece["target_stride"].tolist(), *piece["source_stride"].tolist())
        assert unit in (1, 2, 4, 8, 16)
        assert all(n % unit == 0 for n in (int(piece["target"]), int(piece["source"]), *both))


def test_dense_boxes_of_any_rank_are_one_run_of_the_largest_units() -> None:
    for shape in ((64,), (4, 16), (2, 2, 2, 2, 2, 2)):
        strides = np.empty(shape, np.float32).strides
        (piece,) = make_pieces([box(shape, strides, strides, 4)]).table
        assert piece["extent"].tolist() == [1, 1, 1, 16] and piece["unit"] == 16
    (piece,) = make_pieces([box((64,), (4,), (4,), 4, start=4)]).table
    assert piece["unit"] == 4, "the source is aligned to no more"


def test_transposes_are_tiled_and_small_ones_are_not() -> None:
    for n, form in ((64, TILES), (8, TILES), (7, 2)):
        (piece,) = make_pieces([box((n, n), (4 * n, 4), (4, 4 * n), 4)]).table
        assert piece["form"] == form
        if form == TILES:
            assert piece["source_stride"][2] == 4 and piece["target_stride"][3] == 4
    (piece,) = make_pieces([box((64, 3, 64), (768, 256, 4), (4, 64 * 512, 256), 4)]).table
    assert piece["form"] == TILES and piece["extent"].tolist() == [1, 3, 64, 64]
    assert piece["source_stride"][2] == 4 and piece["target_stride"][3] == 4
    (piece,) = make_pieces([box((64, 64), (256, 4), (512, -4), 4)]).table
    assert piece["form"] == 2, "a flip is dense in neither direction"


def test_rows_are_of_one_dim_two_or_four() -> None:
    for ndim, form in ((0, 1), (1, 1), (2, 2), (3, 4), (4, 4)):
        strides = [3 ** (ndim - dim) * 16 for dim in range(ndim)]
        (piece,) = make_pieces([box((3,) * ndim, strides, strides[::-1], 16)]).table
        assert piece["form"] == form and piece["extent"].tolist() == [1] * (4 - ndim) + [3] * ndim


@given(
    st.integers(1, 40), st.integers(1, 40), st.sampled_from((1, 2)), st.sampled_from((0, 1, 2, 4))
)
@examples(100)
def test_transposes_of_small_units_go_by_words_where_all_lie_in_words(
    n: int, m: int, itemsize: int, start: int
) -> None:
    n, m, start = 8 * n, 4 * m + 4, start - start % itemsize
    for rows, columns in ((n, m), (n + 1, m), (n, m + 1), (n + 2, m + 2)):
        shape, to = (rows, columns), (columns * itemsize, itemsize)
        of = (itemsize, rows * itemsize)
        pieces = make_pieces([box(shape, to, of, itemsize, start)])
        (piece,) = pieces.table
        both = rows * itemsize % 4 == 0 and columns * itemsize % 4 == 0 and start % 4 == 0
        assert piece["form"] == (WORDS if both else TILES)
        sides = SIDES[int(piece["form"]), itemsize]
        assert pieces.blocks == -(-rows // sides[0]) * -(-columns // sides[1])


def test_steps_that_32_bits_cannot_count_are_cut() -> None:
    long = 1 << 31
    pieces = make_pieces([box((3, 8, 8), (64, 8, 1), (-long, 1, 8), 1)])
    assert [int(piece["source"]) for piece in pieces.table] == [
        (1 << 30) + 32 * long - step * long for step in range(3)
    ]
    assert [int(piece["target"]) for piece in pieces.table] == [
        (1 << 20) + step * 64 for step in range(3)
    ]
    assert (pieces.table["form"] == WORDS).all() and len(bytes_of(pieces)) == 3 * 64
    (piece,) = make_pieces([box((3, 8), (8, 1), (long - 1, 1), 1)]).table
    assert piece["source_stride"].tolist() == [0, 0, long - 1, 1]
    rows = make_pieces([box((8, 8), (8, 1), (1, long), 1)]).table
    assert len(rows) == 8 and (rows["form"] == 1).all(), "a transpose of which rows are left"


def test_more_dims_than_the_kernel_has_become_more_pieces() -> None:
    shape = (3, 2, 2, 2, 2, 5)
    to = np.empty([2 * n for n in shape], np.int16)[tuple(slice(n) for n in shape)].strides
    of = np.empty([3 * n for n in shape], np.int16)[tuple(slice(n) for n in shape)].strides
    pieces = make_pieces([box(shape, to, of, 2)])
    assert len(merge_dims(shape, to, of, 2)) > DIMS
    assert len(pieces.table) == 3 * 2
    assert len(bytes_of(pieces)) == 2 * math.prod(shape)


def test_large_boxes_are_cut_so_that_32_bits_count_their_units() -> None:
    rows = (1 << 36) // 32
    pieces = make_pieces([box((rows, 32), (32, 1), (33, 1), 1)])
    assert (pieces.table["extent"].astype(object).prod(axis=1) <= MOST_UNITS).all()
    total = (pieces.table["extent"].astype(object).prod(axis=1) * pieces.table["unit"]).sum()
    assert total == 1 << 36
    assert pieces.blocks * UNITS_PER_BLOCK >= 1 << 36


def test_blocks_are_dealt_out_by_bytes() -> None:
    sizes = (1, UNITS_PER_BLOCK, UNITS_PER_BLOCK + 1, 10 * UNITS_PER_BLOCK)
    pieces = make_pieces([box((16 * n,), (1,), (1,), 1) for n in sizes])
    assert pieces.first.tolist() == [0, 1, 2, 4, 14]
    assert make_pieces([]).blocks == 0
    assert make_pieces([box((0, 3), (3, 1), (3, 1), 1)]).blocks == 0


@given(st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1))
@examples(500)
def test_division_by_multiplication_is_exact(divisor: int, number: int) -> None:
    magic, shift = divider(divisor)
    assert magic < 1 << 32
    for n in (number, 0, divisor - 1, min(divisor, 2**31 - 1), 2**31 - 1):
        high = n * magic >> 32
        assert high + n < 1 << 32, "the kernel adds with 32 bits"
        assert high + n >> shift == n // divisor


def test_what_leaves_its_allocation_or_is_misaligned_is_refused() -> None:
    memory = Allocation(4096, 64)
    fine = Box(4096, (16, 4), memory, 4096, (16, 4), memory, (4, 4), 4)
    assert make_pieces([fine]).blocks == 1
    for change in (
        {"target": 4100},
        {"source": 4092},
        {"source_strides": (-16, 4)},
        {"shape": (4, 5)},
        {"target_strides": (20, 4)},
    ):
        with pytest.raises(AssertionError, match="outside"):
            make_pieces([Box(**{**vars(fine), **change})])


def test_few_pieces_fit_into_the_argument_of_a_launch() -> None:
    many = [box((5,), (4,), (4,), 4) for _ in range(INLINE_PIECES)]
    batch = make_pieces(many).inline()
    assert batch["count"] == INLINE_PIECES and batch.nbytes <= 4096
    assert batch["first"][-1] == INLINE_PIECES
    with pytest.raises(ValueError):
        make_pieces([*many, many[0]]).inline()


def test_constants_are_those_of_the_kernels() -> None:
    """Where a docstring says which constant of a kernel a number is, they are equal."""
    kernels = "".join(path.read_text() for path in (ROOT / "kernels").glob("*.cu*"))
    found = 0
    for path in (ROOT / "gpushard" / "_runtime" / "cuda" / "kernels").glob("*.py"):
        named = re.findall(
            r'^([A-Z_]+) = .*\n"""[^"]*`(k\w+)` of the kernel', path.read_text(), re.M
        )
        for name, constant in named:
            module = importlib.import_module(f"gpushard._runtime.cuda.kernels.{path.stem}")
            value = re.search(rf"constexpr \w+ {constant} = (\d+)", kernels)
            assert value is not None, constant
            assert getattr(module, name) == int(value[1]), (name, constant)
            found += 1
    assert found >= 4
