"""Reshapes: the factors that two shapes share. Pure."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

from gpushard.movement.rearrangement import Part, Rearrangement, Side
from gpushard.movement.rearrangements import stay
from gpushard.typing import Shape

Factors = tuple[tuple[int, int], ...]
"""(dim, size) of consecutive factors of a shape."""


@functools.lru_cache(maxsize=4096)
def reshape(shape: Shape, new_shape: Shape) -> Rearrangement:
    """Return what `numpy.reshape` does, in row-major order.

    Args:
      shape: of the source.
      new_shape: of the result, of as many elements.

    >>> reshape((8, 8), (4, 16)).parts[0].read.dims
    ((0, (0, 1)), (0, (2,)))
    """
    if shape == new_shape:
        return stay(shape)
    if not math.prod(shape):
        return Rearrangement((shape,), new_shape, ())
    pairs = tuple(shared_factors(shape, new_shape))
    read = _side(len(shape), [old for old, _ in pairs])
    write = _side(len(new_shape), [new for _, new in pairs])
    part = Part(0, read, write, (0,) * len(pairs))
    return Rearrangement((shape,), new_shape, (part,))


def shared_factors(shape: Shape, new_shape: Shape) -> Iterator[tuple[Factors, Factors]]:
    """Cut the dims of two shapes of as many elements into factors, outermost first.

    Yields:
      The factors of both shapes that count the same elements: one of each if they have it in
      common, else as many as it takes until both count as many elements again.

    >>> [(old, new) for old, new in shared_factors((4, 3, 5), (2, 10, 3))]
    [(((0, 2),), ((0, 2),)), (((0, 2),), ((1, 2),)), (((1, 3), (2, 5)), ((1, 5), (2, 3)))]
    """
    old = ((dim, n) for dim, n in enumerate(shape) if n > 1)
    new = ((dim, n) for dim, n in enumerate(new_shape) if n > 1)
    i, a, j, b = 0, 1, 0, 1
    while True:
        if a == 1:
            i, a = next(old, (0, 1))
        if b == 1:
            j, b = next(new, (0, 1))
        if a == 1 and b == 1:
            return
        common = math.gcd(a, b)
        if common > 1:
            yield ((i, common),), ((j, common),)
            a, b = a // common, b // common
            continue
        ours, theirs = [(i, a)], [(j, b)]
        while a != b:
            if a < b:
                ours.append(next(old))
                a *= ours[-1][1]
            else:
                theirs.append(next(new))
                b *= theirs[-1][1]
        yield from _less_tail(ours, theirs)
        a = b = 1


def _less_tail(
    old: list[tuple[int, int]], new: list[tuple[int, int]]
) -> Iterator[tuple[Factors, Factors]]:
    """Take off what factors without anything in common in front have in common at the end.

    >>> list(_less_tail([(0, 2), (1, 9)], [(0, 3), (1, 6)]))
    [(((0, 2), (1, 3)), ((0, 3), (1, 2))), (((1, 3),), ((1, 3),))]
    """
    tail: list[tuple[Factors, Factors]] = []
    while (common := math.gcd(old[-1][1], new[-1][1])) > 1:
        tail.append((((old[-1][0], common),), ((new[-1][0], common),)))
        for side in (old, new):
            dim, size = side.pop()
            if size > common:
                side.append((dim, size // common))
    yield tuple(old), tuple(new)
    yield from reversed(tail)


def _side(ndim: int, axes: list[Factors]) -> Side:
    """Return a side whose digits are the factors of a shape."""
    sizes: list[int] = []
    dims: list[tuple[int, ...]] = [()] * ndim
    numbers: list[tuple[int, ...]] = []
    for factors in axes:
        numbers.append(tuple(range(len(sizes), len(sizes) + len(factors))))
        for dim, size in factors:
            dims[dim] = (*dims[dim], len(sizes))
            sizes.append(size)
    return Side(tuple(sizes), tuple((0, digits) for digits in dims), tuple(numbers))
