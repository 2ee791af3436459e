"""Random box copies as cases for the kernels, with NumPy's answer."""

from __future__ import annotations

import dataclasses
import itertools
import random
import struct
from typing import Any

import numpy as np

from gpushard._runtime.cuda.kernels.batches import Allocation
from gpushard._runtime.cuda.kernels.copy_pieces import SIDES, Box, Pieces, make_pieces

ITEMSIZES = (1, 2, 3, 4, 8, 12, 16)

FORMS = {*SIDES, *itertools.product((1, 2, 4), (1, 2, 4, 8, 16))}
"""All (form, unit) that the kernels know."""


def forms(pieces: Pieces) -> set[tuple[int, int]]:
    """The (form, unit) of some pieces."""
    return set(zip(pieces.table["form"].tolist(), pieces.table["unit"].tolist(), strict=True))


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
    """One to three boxes of random shapes; every other one is of a form of its own."""
    source = random.Random(seed)
    if seed % 4 == 1:
        return transposed(source, seed)
    if seed % 4 == 3:
        return rows(source, seed, 1 + seed // 20 % 4, (1, 2, 4, 8, 16)[seed // 4 % 5])
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
        boxes.append(copy_of(to, target, view, from_buffer))
    return Case(make_pieces(boxes), from_buffer.reshape(-1), before, target)


def rows(source: random.Random, seed: int, ndim: int, itemsize: int) -> Case:
    """Elements apart from each other, in so many dims."""
    dtype = np.dtype((np.void, itemsize))
    shape = [source.randint(2, (0, 5000, 70, 20, 8)[ndim]) for _ in range(ndim)]
    pitch = [n + 1 for n in shape]
    nbytes = int(np.prod(pitch)) * itemsize
    rng = np.random.default_rng(seed)
    from_buffer, target = (rng.integers(0, 256, n * nbytes, np.uint8) for n in (2, 1))
    before = target.copy()
    index = tuple(slice(n) for n in shape)
    view = np.ndarray((*pitch, 2), dtype, from_buffer)[(*index, source.choice((0, 1)))]
    to = np.ndarray(pitch, dtype, target)[index]
    np.copyto(to, view)
    return Case(make_pieces([copy_of(to, target, view, from_buffer)]), from_buffer, before, target)


def transposed(source: random.Random, seed: int) -> Case:
    """A transpose of two dims, maybe of several arrays at once, that lie in words or do not."""
    dtype = np.dtype((np.void, source.choice((1, 1, 2, 2, 4, 8, 16))))
    grain = source.choice((1, 4))
    most = source.choice((70, 70, 150))
    rows, columns = (grain * source.randint(8, most // grain) for _ in range(2))
    outer = source.choice(((), (), (2,), (2, 2)))
    start = source.choice((0, 4, 8, 1)) * dtype.itemsize
    gaps = [source.choice((0, 0, grain)) for _ in range(2)]
    rng = np.random.default_rng(seed)
    sizes = [(rows + gaps[0]) * columns, (columns + gaps[1]) * rows]
    from_buffer, target = (
        rng.integers(0, 256, start + int(np.prod(outer)) * size * dtype.itemsize, np.uint8)
        for size in sizes
    )
    before = target.copy()
    view = np.ndarray((*outer, columns, rows + gaps[0]), dtype, from_buffer, start)[..., :rows]
    to = np.ndarray((*outer, rows, columns + gaps[1]), dtype, target, start)[..., :columns]
    view = view.swapaxes(-1, -2)
    np.copyto(to, view)
    return Case(make_pieces([copy_of(to, target, view, from_buffer)]), from_buffer, before, target)


def copy_of(to: np.ndarray, target: np.ndarray, view: np.ndarray, source: np.ndarray) -> Box:
    """The copy of a view to a part of another buffer; addresses are offsets."""
    return Box(
        address(to) - address(target),
        to.strides,
        Allocation(0, target.nbytes),
        address(view) - address(source),
        view.strides,
        Allocation(0, source.nbytes),
        to.shape,
        to.dtype.itemsize,
    )
