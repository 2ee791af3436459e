"""Strided parts of arrays, from indices and layouts alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpushard.runtime.phase import BoxIndex, Phase, StridedPhase
from gpushard.runtime.view import View
from gpushard.typing import Shape

Layout = tuple[Shape, Sequence[int]]
"""(shape, bytes per step of each dim)."""


def view_of(index: BoxIndex, shape: Shape, strides: Sequence[int]) -> View:
    """Return the part of an array that an index of integers, slices and a last `...` selects.

    >>> view_of((1, slice(3, None, -1), ...), (2, 4, 5), (160, 40, 8))
    View(offset=280, shape=(4, 5), strides=(-40, 8))
    """
    entries = [entry for entry in index if entry is not ...]
    entries += [slice(None)] * (len(shape) - len(entries))
    offset = 0
    sizes, steps = [], []
    for entry, size, stride in zip(entries, shape, strides, strict=True):
        if isinstance(entry, slice):
            positions = range(*entry.indices(size))
            offset += positions.start * stride if positions else 0
            sizes.append(len(positions))
            steps.append(positions.step * stride)
        else:
            offset += entry * stride
    return View(offset, tuple(sizes), tuple(steps))


def dense_strides(shape: Shape, itemsize: int) -> tuple[int, ...]:
    """Return the bytes per step of each dim of a dense row-major array.

    >>> dense_strides((2, 3, 4), 8)
    (96, 32, 8)
    """
    strides = [itemsize]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * max(1, size))
    return tuple(reversed(strides[: len(shape)]))


def views_of(phase: Phase, layouts: Sequence[Layout]) -> Iterator[tuple[int, View, int, View, int]]:
    """Yield (operand written, part of it, operand read, part of it, domain read) of each copy.

    Args:
      phase: the copies.
      layouts: of the operands.
    """
    if isinstance(phase, StridedPhase):
        yield from phase.views
        return
    for to, to_index, of, of_index, domain in phase.moves:
        target, source = view_of(to_index, *layouts[to]), view_of(of_index, *layouts[of])
        if phase.order is not None:
            shape = tuple(source.shape[dim] for dim in phase.order)
            strides = tuple(source.strides[dim] for dim in phase.order)
            source = View(source.offset, shape, strides)
        yield to, target, of, source, domain
