"""Random rearrangements, and the same by NumPy."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gpushard._movement.planning import rearrangements
from gpushard._movement.planning.rearrangements import Rearrangement, reshape
from tests.movement.element_oracle import Shape

Numpy = Callable[[Sequence[np.ndarray], Any], np.ndarray]
"""Takes the sources and the constant."""


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A rearrangement."""

    how: Rearrangement
    numpy: Numpy

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return self.how.sources


@st.composite
def shapes(draw: st.DrawFn, least: int = 0, most: int = 3, size: int = 9) -> Shape:
    """Mostly with elements."""
    sizes = st.integers(1, size) if draw(st.integers(0, 9)) else st.integers(0, size)
    return tuple(draw(st.lists(sizes, min_size=least, max_size=most)))


@st.composite
def concatenations(draw: st.DrawFn) -> Drawn:
    shape = draw(shapes(1))
    axis = draw(st.integers(0, len(shape) - 1))
    sizes = draw(st.lists(st.integers(0, 7), min_size=1, max_size=3))
    given = tuple((*shape[:axis], n, *shape[axis + 1 :]) for n in sizes)
    return Drawn(rearrangements.concatenate(given, axis), lambda xs, fill: np.concatenate(xs, axis))


@st.composite
def stacks(draw: st.DrawFn) -> Drawn:
    shape, count = draw(shapes(most=2)), draw(st.integers(1, 3))
    axis = draw(st.integers(0, len(shape)))
    how = rearrangements.stack((shape,) * count, axis)
    return Drawn(how, lambda xs, fill: np.stack(xs, axis))


@st.composite
def pads(draw: st.DrawFn) -> Drawn:
    shape = draw(shapes())
    widths = tuple((draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in shape)

    def padded(xs: Sequence[np.ndarray], fill: Any) -> np.ndarray:
        return np.pad(xs[0], widths, constant_values=fill) if shape else xs[0]

    return Drawn(rearrangements.pad(shape, widths), padded)


@st.composite
def rolls(draw: st.DrawFn) -> Drawn:
    shape = draw(shapes(1))
    axes = tuple(draw(st.lists(st.integers(0, len(shape) - 1), max_size=3)))
    shifts = tuple(draw(st.integers(-12, 12)) for _ in axes)
    how = rearrangements.roll(shape, shifts, axes)
    return Drawn(how, lambda xs, fill: np.roll(xs[0], shifts, axes))


@st.composite
def tiles(draw: st.DrawFn) -> Drawn:
    shape = draw(shapes(size=5))
    reps = tuple(draw(st.lists(st.integers(0, 3), max_size=4)))
    return Drawn(rearrangements.tile(shape, reps), lambda xs, fill: np.tile(xs[0], reps))


@st.composite
def repeats(draw: st.DrawFn) -> Drawn:
    shape, count = draw(shapes(1)), draw(st.integers(0, 4))
    axis = draw(st.integers(0, len(shape) - 1))
    how = rearrangements.repeat(shape, count, axis)
    return Drawn(how, lambda xs, fill: np.repeat(xs[0], count, axis))


@st.composite
def broadcasts(draw: st.DrawFn) -> Drawn:
    new = draw(shapes(size=6))
    kept = new[draw(st.integers(0, len(new))) :]
    shape = tuple(draw(st.sampled_from((1, n))) for n in kept)
    how = rearrangements.broadcast_to(shape, new)
    return Drawn(how, lambda xs, fill: np.broadcast_to(xs[0], new))


@st.composite
def diagonals(draw: st.DrawFn) -> Drawn:
    shape = draw(shapes(2))
    first, second = draw(st.permutations(range(len(shape))))[:2]
    offset = draw(st.integers(-4, 4))
    how = rearrangements.diagonal(shape, offset, first, second)
    return Drawn(how, lambda xs, fill: np.diagonal(xs[0], offset, first, second))


@st.composite
def factorings(draw: st.DrawFn, factors: list[int]) -> Shape:
    """The products of consecutive factors, and ones in between."""
    cuts = sorted(draw(st.lists(st.integers(0, len(factors)), max_size=3)))
    edges = [0, *cuts, len(factors)]
    return tuple(math.prod(factors[a:b]) for a, b in itertools.pairwise(edges))


@st.composite
def reshapes(draw: st.DrawFn) -> Drawn:
    factors = draw(st.lists(st.integers(1, 7), max_size=4))
    if not draw(st.integers(0, 15)):
        factors = [*factors, 0]
    other = factors if draw(st.booleans()) else list(draw(st.permutations(factors)))
    shape, new = draw(factorings(factors)), draw(factorings(other))
    return Drawn(reshape(shape, new), lambda xs, fill: xs[0].reshape(new))


OPERATIONS: dict[str, Callable[[], st.SearchStrategy[Drawn]]] = {
    "concatenate": concatenations,
    "stack": stacks,
    "pad": pads,
    "roll": rolls,
    "tile": tiles,
    "repeat": repeats,
    "broadcast": broadcasts,
    "diagonal": diagonals,
    "reshape": reshapes,
}
