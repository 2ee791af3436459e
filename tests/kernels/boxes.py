"""Random box copies as cases for the kernels, with NumPy's answer."""

from __future__ import annotations

import dataclasses
import random
import struct
from typing import Any

import numpy as np

from gpushard.runtime.cuda.pieces import Allocation, Box, Pieces, make_pieces

ITEMSIZES = (1, 2, 3, 4, 8, 12, 16)


@dataclasses.dataclass
class Case:
    """Boxes within one source and one target buffer."""

    pieces: Pieces
    source: np.ndarray
    before: np.ndarray
    expected: np.ndarray

    def encoded(self) -> bytes:
        """The case as the program reads it; addresses are offsets."""
        header = struct.pack(
            "IIQQ", len(self.pieces.table), self.pieces.blocks, len(self.source), len(self.before)
        )
        parts = (self.pieces.table, self.pieces.first, self.source, self.before, self.expected)
        return header + b"".join(part.tobytes() for part in parts)


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def strided(buffer: np.ndarray, source: random.Random, shape: Any, dtype: np.dtype) -> np.ndarray:
    """A view of a fresh part of the buffer: any order of dims, steps and flips."""
    ndim = len(shape)
    order = source.sample(range(ndim), ndim)
    steps = [source.choice((1, 1, 1, 2, 3)) for _ in range(ndim)]
    room = [shape[d] * steps[d] + source.choice((0, 0, 0, 1, 2)) for d in order]
    nbytes = int(np.prod(room, dtype=np.int64)) * dtype.itemsize
    start = source.choice((0, 0, 64, dtype.itemsize))
    assert start + nbytes <= len(buffer)
    whole = np.ndarray(room, dtype, buffer, start).transpose(np.argsort(order))
    part = whole[(*(slice(0, n * s, s) for n, s in zip(shape, steps, strict=True)), ...)]
    flips = tuple(slice(None, None, source.choice((1, 1, 1, -1))) for _ in range(ndim))
    return part[(*flips, ...)]


def random_case(seed: int) -> Case:
    """One to three boxes of random shapes."""
    source = random.Random(seed)
    count = source.choice((1, 1, 2, 3))
    items = [np.dtype((np.void, source.choice(ITEMSIZES))) for _ in range(count)]
    shapes = []
    for _ in items:
        ndim = source.randint(0, 5)
        most = (0, 3000, 70, 20, 8, 5)[ndim]
        shapes.append(tuple(source.choice((1, source.randint(1, most))) for _ in range(ndim)))
    size = 1 << 16
    rng = np.random.default_rng(seed)
    from_buffer = rng.integers(0, 256, (count, 8 * size), np.uint8)
    target = rng.integers(0, 256, count * size * 4, np.uint8)
    before, boxes, at = target.copy(), [], 0
    for number, (dtype, shape) in enumerate(zip(items, shapes, strict=True)):
        view = strided(from_buffer[number], source, shape, dtype)
        pitch = [n + source.choice((0, 0, 1, 3)) for n in shape]
        nbytes = int(np.prod(pitch, dtype=np.int64)) * dtype.itemsize
        at += -at % source.choice((1, 4, 16, 64))
        whole = np.ndarray(pitch, dtype, target, at)
        to = whole[(*(slice(0, n) for n in shape), ...)]
        at += nbytes
        np.copyto(to, view)
        boxes.append(
            Box(
                address(to) - address(target),
                to.strides,
                Allocation(0, len(target)),
                address(view) - address(from_buffer),
                view.strides,
                Allocation(0, from_buffer.size),
                shape,
                dtype.itemsize,
            )
        )
    return Case(make_pieces(boxes), from_buffer.reshape(-1), before, target)
