"""Index arrays: the dims that they index, the place of their own dims, and all factors.

Several index arrays broadcast together, and their dims replace the dims that they index. A dim of
the array may also be *paired* with one of their dims: the position along it equals the position
along that dim, as in `take_along_axis`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._ops.rule import Dims, Rule, aligned
from gpushard._typing import LocalArray, LocalArrays, Shape


@dataclass(frozen=True)
class Indexed:
    """The dims that index arrays index; dims are counted from the end."""

    axes: tuple[int, ...]  # the indexed dim of each index array
    after: int  # the number of other dims that follow the dims of index arrays in the result
    # (dim of the array, dim of the index arrays) with equal positions.
    paired: tuple[tuple[int, int], ...] = ()
    inside: bool = False  # whether all positions are known to be in bounds

    @property
    def along(self) -> int | None:
        """The only indexed dim, if index arrays replace it, as in `numpy.take`; else None.

        >>> Indexed((-2,), 1).along, Indexed((-2,), 0).along
        (-2, None)
        """
        alone = len(self.axes) == 1 and not self.paired and self.after == -self.axes[0] - 1
        return self.axes[0] if alone else None

    def order(self, ndim: int) -> tuple[list[int], list[int], list[int]]:
        """Return the dims of the array before the indexed or paired ones, these, and all after.

        >>> Indexed((-2,), 0).order(3)
        ([0, 2], [1], [])
        """
        dims = sorted(ndim + dim for dim in (*self.axes, *(dim for dim, _ in self.paired)))
        rest = [dim for dim in range(ndim) if dim not in dims]
        before = len(rest) - self.after
        return rest[:before], dims, rest[before:]

    def paired_positions(self, shape: Shape, wide: Shape) -> dict[int, LocalArray]:
        """Return the positions of all elements of the part along each paired dim."""
        return {
            dim: np.broadcast_to(_all_along(np, shape[dim], at), wide).ravel()
            for dim, at in self.paired
        }

    def view(
        self, xp: Any, x: LocalArray, positions: LocalArrays
    ) -> tuple[LocalArray, tuple[Any, ...]]:
        """Return a view of an array with adjacent indexed dims, and the index of the view."""
        of = {x.ndim + axis: at for axis, at in zip(self.axes, positions, strict=True)}
        for dim, at in self.paired:
            of[x.ndim + dim] = _all_along(xp, x.shape[dim], at)
        before, dims, after = self.order(x.ndim)
        index = (*(slice(None),) * len(before), *(of[dim] for dim in dims))
        return x.transpose((*before, *dims, *after)), index

    def first_of(self, xp: Any, block: LocalArray, wide: Shape) -> tuple[LocalArray, list[int]]:
        """Return a view in the part's shape that repeats the first element along indexed dims.

        Args:
          xp: NumPy or CuPy.
          block: the array, which may have no elements.
          wide: the broadcast shape of the index arrays.

        Returns:
          The view, and the stride in bytes along each of `axes`.

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
    """Return the broadcast shape of the index arrays.

    >>> spread(Indexed((-1,), 0, ((-2, -2),)), (4, 5), ((1, 3),))
    (4, 3)
    """
    paired_shapes = [(shape[dim], *(1,) * (-at - 1)) for dim, at in indexed.paired]
    return np.broadcast_shapes(*shapes, *paired_shapes)


_MANY = 32  # bytes of an array for each position


def has_many(indexed: Indexed, shape: Shape, itemsize: int, shapes: tuple[Shape, ...]) -> bool:
    """Test whether there are many positions for the size of an array that has elements.

    Then NumPy copies the blocks of the array together in less time than it sorts the positions by
    block. For the arguments see `spread`.

    >>> [has_many(Indexed((-1,), 0), (1000,), 8, ((n,),)) for n in (200, 300)]
    [False, True]
    """
    return 0 < math.prod(shape) * itemsize <= _MANY * math.prod(spread(indexed, shape, shapes))


def part_shape(indexed: Indexed, shape: Shape, shapes: tuple[Shape, ...]) -> Shape:
    """Return the shape of the selected part; for the arguments see `spread`.

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
    """Return the rule of reading: indexed dims are reduced, all others pass through.

    >>> gather_rule(Indexed((-2,), 1), (4, 5), ((3,),)).operands
    ((0, 1), (2,))
    """
    array, index, part, sizes = _factors(indexed, shape, shapes)
    factors = [
        aligned(shape_of_index, spread(indexed, shape, shapes), index) for shape_of_index in shapes
    ]
    return Rule((array, *factors), (part,), sizes)


def scatter_rule(indexed: Indexed, shape: Shape, values: Shape, shapes: tuple[Shape, ...]) -> Rule:
    """Return the rule of writing: dims of the array pass through, dims of indices are whole.

    >>> scatter_rule(Indexed((-2,), 1), (4, 5), (3, 1), ((3,),)).operands
    ((0, 1), (2, None), (2,))
    """
    array, index, part, sizes = _factors(indexed, shape, shapes)
    factors = [
        aligned(shape_of_index, spread(indexed, shape, shapes), index) for shape_of_index in shapes
    ]
    new = aligned(values, part_shape(indexed, shape, shapes), part)
    whole = frozenset(factor for factor in index if factor is not None and factor not in array)
    return Rule((array, new, *factors), (array,), sizes, whole)


def _factors(
    indexed: Indexed, shape: Shape, shapes: tuple[Shape, ...]
) -> tuple[Dims, Dims, Dims, Shape]:
    """Return the factors of the array, of the index arrays and of the part, and their sizes."""
    ndim, wide = len(shape), spread(indexed, shape, shapes)
    array: list[int | None] = list(range(ndim))
    sizes = list(shape)
    pairs = {len(wide) + at: ndim + dim for dim, at in indexed.paired}
    index: list[int | None] = []
    for at, n in enumerate(wide):
        dim = pairs.get(at)
        if dim is not None and shape[dim] == n:
            index.append(dim)
        elif dim is not None:  # length 1, repeated: it has the factor of the index arrays
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
    """Pair dims in front of an array, and dims before indexed ones, with dims of index arrays.

    So these dims come first in the part, in this order.

    Args:
      indexed: the indexed dims, without the dims in front.
      shape: shape of the array, without the dims in front.
      shapes: shapes of the index arrays, without the dims in front.
      lead: the number of dims in front of all; 0 if only index arrays have some.

    Returns:
      The indexed dims with those in front, and the number of dims of index arrays after them.

    >>> with_front, count = stacked(Indexed((-1,), 0), (4, 5), ((3,),), 1)
    >>> with_front.paired, count
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
    """Return positions relative to a block, and whether they are in it; others become 0.

    Positions refer to the whole dim, negative ones from its end. The block has a start and a
    length.
    """
    if positions.dtype == np.uint64:  # larger values are all outside
        positions = xp.minimum(positions, np.uint64(size))
    at = positions.astype(np.int64)
    at = xp.where(at < 0, at + size, at) - start
    inside = (at >= 0) & (at < length)
    return xp.where(inside, at, 0), inside


def integers(positions: LocalArray) -> LocalArray:
    """Convert positions to integers, if an index array has another type."""
    return positions if positions.dtype.kind in "biu" else positions.astype(np.int64)


def in_order(positions: LocalArray, wide: Shape, size: int, *, known: bool) -> LocalArray:
    """Convert positions to numbers from the front, for each element of a part: NumPy only.

    Positions refer to the whole dim, negative ones from its end. Unless they are `known` to be in
    bounds, positions out of bounds stay out of bounds.
    """
    return _from_front(_flat(positions, wide, size, known=known), size)


def _flat(positions: LocalArray, wide: Shape, size: int, *, known: bool) -> LocalArray:
    at = positions if positions.shape == wide else np.broadcast_to(positions, wide)
    at = at.ravel()
    if at.dtype == np.uint64 and not known:  # larger values are all outside
        at = np.minimum(at, np.uint64(size))
    return at.astype(np.int64, copy=False)


def _from_front(at: LocalArray, size: int) -> LocalArray:
    if at.size and np.minimum.reduce(at) < 0:
        at = np.where(at < 0, np.where(at < -size, size, at + size), at)
    return at


def located_flat(
    positions: LocalArray, wide: Shape, size: int, start: int, length: int
) -> tuple[LocalArray, LocalArray | None]:
    """Return flat positions relative to a block, and whether they are in it: NumPy only.

    Unlike `located`, positions outside are not changed. The second result is None if all are
    inside.
    """
    at = _flat(positions, wide, size, known=False)
    if not start and length == size and np.maximum.reduce(at.view(np.uint64), initial=0) < size:
        return at, None  # negative numbers become large: one pass says that all are inside
    at = _from_front(at, size)
    if start:
        at = at - start
    inside = at.view(np.uint64) < np.uint64(length)
    return at, None if inside.all() else inside
