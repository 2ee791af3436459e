"""Index arrays: which dims they index, where their own dims go, and the factors of all of them.

Several index arrays broadcast together; their dims take the place of the dims that they index. A
dim of the array may also be *paired* with one of theirs: positions there are those of the dim
itself, as in `take_along_axis`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.frozen import dataclass
from gpushard.ops.rule import Dims, Rule, aligned
from gpushard.typing import LocalArray, LocalArrays, Shape


@dataclass(frozen=True)
class Indexed:
    """How index arrays index an array; dims are counted from the end."""

    axes: tuple[int, ...]  # the dims of the array that they index, one for each of them
    after: int  # how many of the other dims come after theirs in the result
    # (dim of the array, dim of the index arrays) where positions are equal.
    paired: tuple[tuple[int, int], ...] = ()
    inside: bool = False  # whether all positions are known to be in bounds

    @property
    def along(self) -> int | None:
        """The indexed dim, if there is one only and index arrays take its place: `numpy.take`.

        >>> Indexed((-2,), 1).along, Indexed((-2,), 0).along
        (-2, None)
        """
        alone = len(self.axes) == 1 and not self.paired and self.after == -self.axes[0] - 1
        return self.axes[0] if alone else None

    def order(self, ndim: int) -> tuple[list[int], list[int], list[int]]:
        """Return dims of the array: those before, those that are indexed or paired, those after.

        >>> Indexed((-2,), 0).order(3)
        ([0, 2], [1], [])
        """
        dims = sorted(ndim + dim for dim in (*self.axes, *(dim for dim, _ in self.paired)))
        rest = [dim for dim in range(ndim) if dim not in dims]
        before = len(rest) - self.after
        return rest[:before], dims, rest[before:]

    def paired_positions(self, shape: Shape, wide: Shape) -> dict[int, LocalArray]:
        """Return for each paired dim the position that every element of the part has in it."""
        return {
            dim: np.broadcast_to(_all_along(np, shape[dim], at), wide).ravel()
            for dim, at in self.paired
        }

    def view(
        self, xp: Any, x: LocalArray, positions: LocalArrays
    ) -> tuple[LocalArray, tuple[Any, ...]]:
        """Return a view of an array with the indexed dims side by side, and the index of it."""
        of = {x.ndim + axis: at for axis, at in zip(self.axes, positions, strict=True)}
        for dim, at in self.paired:
            of[x.ndim + dim] = _all_along(xp, x.shape[dim], at)
        before, dims, after = self.order(x.ndim)
        index = (*(slice(None),) * len(before), *(of[dim] for dim in dims))
        return x.transpose((*before, *dims, *after)), index

    def first_of(self, xp: Any, block: LocalArray, wide: Shape) -> tuple[LocalArray, list[int]]:
        """Return a view of the part's shape that sees one element along indexed dims: the first.

        Args:
          xp: NumPy or CuPy.
          block: the array, which may have no elements.
          wide: what index arrays broadcast to.

        Returns:
          The view; and how many bytes elements are apart along each of `axes`.

        >>> view, steps = Indexed((-2,), 1).first_of(np, np.arange(8).reshape(2, 4), (3,))
        >>> view.tolist(), steps
        ([[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]], [32])
        """
        ndim, steps = block.ndim, list(block.strides)
        before, _, after = self.order(ndim)
        middle = [0] * len(wide)
        for dim, at in self.paired:
            middle[at] = 0 if block.shape[dim] == 1 else steps[dim]
        shape = (*(block.shape[d] for d in before), *wide, *(block.shape[d] for d in after))
        strides = (*(steps[d] for d in before), *middle, *(steps[d] for d in after))
        view = xp.lib.stride_tricks.as_strided(block, shape, strides)
        return view, [steps[axis] for axis in self.axes]


def _all_along(xp: Any, n: int, dim: int) -> LocalArray:
    """Return all positions of a paired dim, along a dim of the index arrays from the end."""
    return xp.arange(n).reshape((n, *(1,) * (-dim - 1)))


@functools.lru_cache(maxsize=1024)
def spread(indexed: Indexed, shape: Shape, shapes: tuple[Shape, ...]) -> Shape:
    """Return the shape that index arrays broadcast to.

    >>> spread(Indexed((-1,), 0, ((-2, -2),)), (4, 5), ((1, 3),))
    (4, 3)
    """
    own = [(shape[dim], *(1,) * (-at - 1)) for dim, at in indexed.paired]
    return np.broadcast_shapes(*shapes, *own)


def part_shape(indexed: Indexed, shape: Shape, shapes: tuple[Shape, ...]) -> Shape:
    """Return the shape of what is selected; arguments as for `spread`.

    >>> part_shape(Indexed((-2,), 1), (4, 5), ((2, 3),))
    (2, 3, 5)
    """
    before, _, after = indexed.order(len(shape))
    return (
        *(shape[dim] for dim in before),
        *spread(indexed, shape, shapes),
        *(shape[dim] for dim in after),
    )


def gather_rule(indexed: Indexed, shape: Shape, shapes: tuple[Shape, ...]) -> Rule:
    """Return the factors of reading: indexed dims are reduced, all others pass through.

    >>> gather_rule(Indexed((-2,), 1), (4, 5), ((3,),)).operands
    ((0, 1), (2,))
    """
    array, index, part, sizes = _factors(indexed, shape, shapes)
    own = [aligned(one, spread(indexed, shape, shapes), index) for one in shapes]
    return Rule((array, *own), (part,), sizes)


def scatter_rule(indexed: Indexed, shape: Shape, values: Shape, shapes: tuple[Shape, ...]) -> Rule:
    """Return the factors of writing: dims of the array pass through, those of indices are whole.

    >>> scatter_rule(Indexed((-2,), 1), (4, 5), (3, 1), ((3,),)).operands
    ((0, 1), (2, None), (2,))
    """
    array, index, part, sizes = _factors(indexed, shape, shapes)
    own = [aligned(one, spread(indexed, shape, shapes), index) for one in shapes]
    new = aligned(values, part_shape(indexed, shape, shapes), part)
    whole = frozenset(factor for factor in index if factor is not None and factor not in array)
    return Rule((array, new, *own), (array,), sizes, whole)


def _factors(
    indexed: Indexed, shape: Shape, shapes: tuple[Shape, ...]
) -> tuple[Dims, Dims, Dims, Shape]:
    """Return the factors of the array, of the index arrays together, of the part; and the sizes."""
    ndim, wide = len(shape), spread(indexed, shape, shapes)
    array: list[int | None] = list(range(ndim))
    sizes = list(shape)
    pairs = {len(wide) + at: ndim + dim for dim, at in indexed.paired}
    index: list[int | None] = []
    for at, n in enumerate(wide):
        dim = pairs.get(at)
        if dim is not None and shape[dim] == n:
            index.append(dim)
        elif dim is not None:  # of length 1, and repeated: the factor is that of the index arrays
            array[dim], sizes[dim] = None, n
            index.append(dim)
        else:
            index.append(len(sizes))
            sizes.append(n)
    before, _, after = indexed.order(ndim)
    part = (*(array[dim] for dim in before), *index, *(array[dim] for dim in after))
    return tuple(array), tuple(index), part, tuple(sizes)


def stacked(
    indexed: Indexed, shape: Shape, shapes: Sequence[Shape], lead: int
) -> tuple[Indexed, int]:
    """Pair dims in front of an array, and those before indexed ones, with dims of index arrays.

    So elements along them go first in the part, in this order.

    Args:
      indexed: without these dims.
      shape: of the array, likewise.
      shapes: those of the index arrays, likewise.
      lead: how many dims come in front of all; 0 if only index arrays have some.

    Returns:
      The same with these dims, and how many dims index arrays have after those in front.

    >>> found, count = stacked(Indexed((-1,), 0), (4, 5), ((3,),), 1)
    >>> found.paired, count
    (((-3, -3), (-2, -2)), 2)
    """
    before, _, _ = indexed.order(len(shape))
    count = len(before) + len(spread(indexed, shape, tuple(shapes)))
    pairs = [(-lead - len(shape) + dim, -lead - count + dim) for dim in range(lead)]
    pairs += [(dim - len(shape), n - count) for n, dim in enumerate(before)]
    return dataclasses.replace(indexed, paired=(*pairs, *indexed.paired)), count


def located(
    xp: Any, positions: LocalArray, size: int, start: int, length: int
) -> tuple[LocalArray, LocalArray]:
    """Return positions within a block, and which are in it; those that are not become 0.

    Positions are in the whole dim, from the end where negative; the block has a start and a length.
    """
    if positions.dtype == np.uint64:  # beyond the largest position there is only "outside"
        positions = xp.minimum(positions, np.uint64(size))
    at = positions.astype(np.int64)
    at = xp.where(at < 0, at + size, at) - start
    inside = (at >= 0) & (at < length)
    return xp.where(inside, at, 0), inside


def integers(positions: LocalArray) -> LocalArray:
    """Return positions as integers, where the type of an index array is none of them."""
    return positions if positions.dtype.kind in "biu" else positions.astype(np.int64)


def in_order(positions: LocalArray, wide: Shape, size: int, *, known: bool) -> LocalArray:
    """Return positions from the front, one for each element of a part: NumPy only.

    They come in the whole dim, from the end where negative. Unless `known` to be in bounds, those
    that are not stay out of bounds.
    """
    at = positions if positions.shape == wide else np.broadcast_to(positions, wide)
    at = at.ravel()
    if at.dtype == np.uint64 and not known:  # beyond the largest position there is only "outside"
        at = np.minimum(at, np.uint64(size))
    at = at.astype(np.int64, copy=False)
    if at.size and np.minimum.reduce(at) < 0:
        at = np.where(at < 0, np.where(at < -size, size, at + size), at)
    return at


def located_flat(
    positions: LocalArray, wide: Shape, size: int, start: int, length: int
) -> tuple[LocalArray, LocalArray | None]:
    """Return positions within a block as `located` does, flat, and which are in it: NumPy only.

    Those that are not are not changed; None if all are.
    """
    at = in_order(positions, wide, size, known=False)
    if start:
        at = at - start
    inside = at.view(np.uint64) < np.uint64(length)  # negative ones are large then
    return at, None if inside.all() else inside
