"""Chunks hold every element once and fit their buffer."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gpushard._runtime.chunks import ALIGNMENT, Move, bytes_of, chunks, lay_out
from tests.share import seeds


@pytest.mark.parametrize("seed", seeds(200))
def test_through_a_small_buffer(seed: int) -> None:
    source = random.Random(seed)
    limit = source.choice((16, 32, 48, 256, 4096))
    dtype = np.dtype(source.choice(("u1", "i2", "f8", "c16")))
    moves, expected = [], []
    for tag in range(source.randint(0, 5)):
        shape = tuple(source.choice((0, 1, 2, 3, 5, 9)) for _ in range(source.randint(0, 3)))
        data = np.random.default_rng(seed).integers(0, 99, (*shape, 2)).astype(dtype)[..., 0]
        moves.append(Move(np.zeros(shape, dtype), data, tag))
        expected.append(data)
    buffer = np.zeros(limit, np.uint8)
    for group in chunks(moves, limit):
        assert 0 < bytes_of(group) <= limit
        buffer[:] = 0xFF
        boxes = lay_out(buffer, group)
        for box, move in zip(boxes, group, strict=True):
            assert box.flags.c_contiguous and box.base is not None
            at = box.__array_interface__["data"][0] - buffer.__array_interface__["data"][0]
            assert at % ALIGNMENT == 0
            box[...] = move.source
        for box, move in zip(boxes, group, strict=True):
            assert not move.target.any() or move.target.size == 0, "an element comes twice"
            move.target[...] = box
    for move, data in zip(moves, expected, strict=True):
        assert np.array_equal(move.target, data)


def test_a_chunk_is_filled_before_the_next_one_begins() -> None:
    moves = [Move(np.zeros(4, "u1"), np.zeros(4, "u1"), n) for n in range(8)]
    assert [len(group) for group in chunks(moves, 64)] == [4, 4]
