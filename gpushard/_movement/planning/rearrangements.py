"""Describe NumPy's rearrangements by numbers: where each element of a result comes from. Pure.

Coordinates of source and result are written with the same *digits*. The coordinate in a dim is a
start plus a mixed-radix number. Examples, with digits a, b, c, ... from 0:

    reshape (8, 8) to (4, 16)    digits of sizes 4, 2, 8: the factors that both shapes share
                                 source (2 * a + b, c), result (a, 8 * b + c)
    tile (2, 3) by (4,)          sizes 2, 3, 4; the repetition c is not in the source
                                 source (a, b), result (a, 3 * c + b)
    diagonal of (4, 5), offset 1 size 4: one digit in two dims; source (a, 1 + a), result (a)
    roll (5,) by 2               two boxes of the result: 2 + a from source a, for 3 elements,
                                 and a from source 3 + a, for 2 elements

The functions do not check their arguments: axes count from 0, and shapes fit.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

from gpushard._cache import remembering
from gpushard._frozen import dataclass
from gpushard._movement.planning.dim_maps import Piece, identity, lift_piece
from gpushard._typing import Shape

Factors = tuple[tuple[int, int], ...]
"""(dim, size) of consecutive factors of a shape."""

Bounds = tuple[tuple[int, int], ...]
"""(start, stop) of a box in each dim."""


@dataclass(frozen=True)
class Side:
    """The coordinates of an array as digits, and the digits as axes of a space.

    A point of a source's space is one element. The space of a result has the same axes, followed by
    axes for the repetitions of an element.
    """

    sizes: Shape  # number of values of each digit
    # For each dim its first coordinate, and its digits, most significant first.
    dims: tuple[tuple[int, tuple[int, ...]], ...]
    # For each axis its digits, most significant first. An axis has several digits if source and
    # result cut a stretch of elements into dims without a common factor; then it counts the
    # elements of the stretch.
    axes: tuple[tuple[int, ...], ...]

    @functools.cached_property
    def space(self) -> Shape:
        """Length of each axis."""
        return tuple(math.prod(self.sizes[digit] for digit in axis) for axis in self.axes)

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether each axis is a dim."""
        return self == plain(self.space)


def plain(shape: Shape) -> Side:
    """Make the side of an array that has its dims as axes.

    >>> plain((4, 2)).dims
    ((0, (0,)), (0, (1,)))
    """
    return Side(
        shape,
        tuple((0, (dim,)) for dim in range(len(shape))),
        tuple((dim,) for dim in range(len(shape))),
    )


@dataclass(frozen=True)
class MappedBox:
    """A box of the result that comes from one source."""

    source: int  # number of the source
    read: Side  # from points to elements of the source, one-to-one
    write: Side  # from points to elements of the result
    begin: Shape  # the point of the source's space that is the first point of the result's space


@dataclass(frozen=True, eq=False)
class Rearrangement:
    """Where the elements of a result come from.

    Rearrangements compare by identity, which keeps plan look-ups short; equal rearrangements come
    from a cache.
    """

    sources: tuple[Shape, ...]  # shape of each source
    shape: Shape  # shape of the result
    parts: tuple[MappedBox, ...]  # boxes of the result without overlap, none of them empty
    # Boxes of the result that hold a constant: together they are the elements outside all parts.
    filled: tuple[Bounds, ...] = ()
    piece: Piece | None = None  # the rearrangement as a piece, if each element keeps its position
    # The dim of the result along which whole sources follow one another, if they do: a dim of
    # theirs, or a new one.
    along: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of memory of this object, about."""
        ndim = len(self.shape)
        return 1000 + 100 * len(self.sources) + (600 + 250 * ndim) * len(self.parts)


_remember = remembering(limit=16 << 20)


@_remember
def stay(shape: Shape) -> Rearrangement:
    """Describe the identity: each element keeps its position.

    >>> stay((2, 3)).shape
    (2, 3)
    """
    read = plain(shape)
    parts = _unless_empty(shape, MappedBox(0, read, read, (0,) * len(shape)))
    return Rearrangement((shape,), shape, parts, piece=identity(shape))


@_remember
def concatenate(shapes: tuple[Shape, ...], axis: int) -> Rearrangement:
    """Describe `numpy.concatenate`.

    >>> concatenate(((2, 3), (4, 3)), 0).shape
    (6, 3)
    """
    if len(shapes) == 1:
        return stay(shapes[0])
    parts: list[MappedBox] = []
    at = 0
    for source, shape in enumerate(shapes):
        starts = [at if dim == axis else 0 for dim in range(len(shape))]
        parts += _unless_empty(shape, _place_source(source, shape, starts))
        at += shape[axis]
    first = shapes[0]
    shape = (*first[:axis], at, *first[axis + 1 :])
    return Rearrangement(shapes, shape, tuple(parts), along=axis)


@_remember
def stack(shapes: tuple[Shape, ...], axis: int) -> Rearrangement:
    """Describe `numpy.stack`.

    >>> stack(((2, 3), (2, 3)), 1).shape
    (2, 2, 3)
    """
    shape = shapes[0]
    read = plain(shape)
    parts: list[MappedBox] = []
    for source in range(len(shapes)):
        dims = (*read.dims[:axis], (source, ()), *read.dims[axis:])
        write = Side(shape, dims, read.axes)
        parts += _unless_empty(shape, MappedBox(source, read, write, (0,) * len(shape)))
    result = (*shape[:axis], len(shapes), *shape[axis:])
    return Rearrangement(shapes, result, tuple(parts), along=axis)


@_remember
def pad(shape: Shape, widths: tuple[tuple[int, int], ...]) -> Rearrangement:
    """Describe `numpy.pad` with a constant; its value is known only when the plan runs.

    >>> pad((2, 3), ((1, 0), (0, 2))).filled
    (((0, 1), (0, 5)), ((1, 3), (3, 5)))
    """
    if not any(map(any, widths)):
        return stay(shape)
    starts = [before for before, _ in widths]
    result = tuple(n + sum(width) for n, width in zip(shape, widths, strict=True))
    parts = _unless_empty(shape, _place_source(0, shape, starts))
    return Rearrangement((shape,), result, parts, tuple(_boxes_around(shape, starts, result)))


@_remember
def roll(shape: Shape, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Rearrangement:
    """Describe `numpy.roll` along axes; shifts of one axis add up.

    >>> [part.begin for part in roll((5,), (2,), (0,)).parts]
    [(0,), (3,)]
    """
    shift = [0] * len(shape)
    for by, axis in zip(shifts, axes, strict=True):
        shift[axis] += by
    moved = [by % n if n else 0 for by, n in zip(shift, shape, strict=True)]
    if not any(moved) or 0 in shape:
        return stay(shape)
    pieces = [
        [(0, by, n - by), (n - by, 0, by)] if by else [(0, 0, n)]
        for by, n in zip(moved, shape, strict=True)
    ]
    return _from_pieces(shape, shape, pieces)


@_remember
def extend(shape: Shape, before: Shape, behind: Shape) -> Rearrangement:
    """Describe `numpy.pad` with the mode "wrap", by no more elements than there are.

    >>> [part.begin for part in extend((5,), (2,), (1,)).parts]
    [(3,), (0,), (0,)]
    """
    pieces = [
        [piece for piece in ((n - low, 0, low), (0, low, n), (0, low + n, high)) if piece[2]]
        for n, low, high in zip(shape, before, behind, strict=True)
    ]
    result = tuple(sum(widths) for widths in zip(before, shape, behind, strict=True))
    return _from_pieces(shape, result, pieces)


def _from_pieces(
    shape: Shape, result: Shape, pieces: Sequence[Sequence[tuple[int, int, int]]]
) -> Rearrangement:
    """Put boxes of a source together; pieces of a dim are (element, where it goes, length)."""
    read, parts = plain(shape), []
    for chosen in itertools.product(*pieces):
        begin, starts, lengths = zip(*chosen, strict=True)
        parts.append(MappedBox(0, read, _place_source(0, lengths, starts).write, begin))
    return Rearrangement((shape,), result, tuple(parts))


@_remember
def permute(
    shape: Shape, axes: tuple[int, ...], pairs: tuple[tuple[int, int], ...]
) -> Rearrangement:
    """Describe a permutation of slices: slice `to` of the result is slice `of`, by pairs (of, to).

    Slices are numbered along the axes, in row-major order. Slices of the result without a pair are
    filled.

    >>> permute((3, 2), (0,), ((0, 1), (1, 2))).filled
    (((0, 1), (0, 2)),)
    """
    read, sent = plain(shape), {to: of for of, to in pairs}
    lengths = tuple(1 if dim in axes else n for dim, n in enumerate(shape))
    parts: list[MappedBox] = []
    filled: list[Bounds] = []
    for to, place in enumerate(itertools.product(*(range(shape[axis]) for axis in axes))):
        starts = _starts(place, axes, len(shape))
        if to not in sent:
            bounds = zip(starts, lengths, strict=True)
            filled.append(tuple((start, start + n) for start, n in bounds))
            continue
        number, begin = sent[to], [0] * len(shape)
        for axis in reversed(axes):
            number, begin[axis] = divmod(number, shape[axis])
        write = _place_source(0, lengths, starts).write
        parts += _unless_empty(lengths, MappedBox(0, read, write, tuple(begin)))
    return Rearrangement((shape,), shape, tuple(parts), tuple(filled) if 0 not in shape else ())


def _starts(place: Sequence[int], axes: Sequence[int], ndim: int) -> Shape:
    at = dict(zip(axes, place, strict=True))
    return tuple(at.get(dim, 0) for dim in range(ndim))


@_remember
def tile(shape: Shape, reps: tuple[int, ...]) -> Rearrangement:
    """Describe `numpy.tile`.

    >>> tile((2, 3), (4,)).shape, tile((3,), (2, 1)).shape
    ((2, 12), (2, 3))
    """
    reps = (1,) * (len(shape) - len(reps)) + reps
    lead = len(reps) - len(shape)
    return _repeat_dims(shape, lead, reps, inner=False)


@_remember
def repeat(shape: Shape, count: int, axis: int) -> Rearrangement:
    """Describe `numpy.repeat` with one count for all elements.

    >>> repeat((2, 3), 4, 1).shape
    (2, 12)
    """
    reps = tuple(count if dim == axis else 1 for dim in range(len(shape)))
    return _repeat_dims(shape, 0, reps, inner=True)


@_remember
def broadcast_to(shape: Shape, new_shape: Shape) -> Rearrangement:
    """Describe `numpy.broadcast_to`.

    >>> broadcast_to((3, 1), (2, 3, 4)).shape
    (2, 3, 4)
    """
    lead = len(new_shape) - len(shape)
    sizes = (1,) * lead + shape
    reps = tuple(1 if n == size else n for n, size in zip(new_shape, sizes, strict=True))
    return _repeat_dims(shape, lead, reps, inner=False)


@_remember
def diagonal(shape: Shape, offset: int, axis1: int, axis2: int) -> Rearrangement:
    """Describe `numpy.diagonal`: the diagonal is the last dim of the result.

    >>> diagonal((4, 5, 6), 1, 0, 2).shape
    (5, 4)
    """
    first, second = max(-offset, 0), max(offset, 0)
    length = max(0, min(shape[axis1] - first, shape[axis2] - second))
    others = [dim for dim in range(len(shape)) if dim not in (axis1, axis2)]
    sizes = (*(shape[dim] for dim in others), length)
    last = len(others)
    digits = {dim: (0, (number,)) for number, dim in enumerate(others)}
    digits |= {axis1: (first, (last,)), axis2: (second, (last,))}
    write = plain(sizes)
    read = Side(sizes, tuple(digits[dim] for dim in range(len(shape))), write.axes)
    parts = _unless_empty(sizes, MappedBox(0, read, write, (0,) * len(sizes)))
    return Rearrangement((shape,), sizes, parts)


@functools.lru_cache(maxsize=4096)
def reshape(shape: Shape, new_shape: Shape) -> Rearrangement:
    """Describe `numpy.reshape`, in row-major order.

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
    part = MappedBox(0, read, write, (0,) * len(pairs))
    return Rearrangement((shape,), new_shape, (part,))


def shared_factors(shape: Shape, new_shape: Shape) -> Iterator[tuple[Factors, Factors]]:
    """Cut the dims of two shapes with equal numbers of elements into factors, outermost first.

    Yields:
      Pairs of factors with equal products. A common factor is a pair by itself. Otherwise a pair
      has as many factors of both shapes as it takes until their products are equal.

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
        if a == 1:  # then b is 1, too: both shapes have equal numbers of elements
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
        yield from _split_common_tail(ours, theirs)
        a = b = 1


def _split_common_tail(
    old: list[tuple[int, int]], new: list[tuple[int, int]]
) -> Iterator[tuple[Factors, Factors]]:
    """Split off common factors at the end of stretches that have none in front.

    >>> list(_split_common_tail([(0, 2), (1, 9)], [(0, 3), (1, 6)]))
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
    """Make the side of an array from the factors of its shape: each factor is a digit."""
    sizes: list[int] = []
    dims: list[tuple[int, ...]] = [()] * ndim
    numbers: list[tuple[int, ...]] = []
    for factors in axes:
        numbers.append(tuple(range(len(sizes), len(sizes) + len(factors))))
        for dim, size in factors:
            dims[dim] = (*dims[dim], len(sizes))
            sizes.append(size)
    return Side(tuple(sizes), tuple((0, digits) for digits in dims), tuple(numbers))


def _repeat_dims(shape: Shape, lead: int, reps: tuple[int, ...], *, inner: bool) -> Rearrangement:
    """Describe a repetition of dims: element by element if `inner`, otherwise as a whole.

    The result has `lead` new dims in front; `reps` has a number of repetitions for each of its
    dims.
    """
    ndim = len(shape)
    result = tuple(n * times for n, times in zip((1,) * lead + shape, reps, strict=True))
    if result == shape:
        return stay(shape)
    read, sizes, axes, dims = plain(shape), list(shape), list(plain(shape).axes), []
    for dim, times in enumerate(reps):
        digits = () if dim < lead else (dim - lead,)
        if times != 1:
            axes.append((len(sizes),))
            digits = (*digits, len(sizes)) if inner else (len(sizes), *digits)
            sizes.append(times)
        dims.append((0, digits))
    write = Side(tuple(sizes), tuple(dims), tuple(axes))
    parts = _unless_empty(result, MappedBox(0, read, write, (0,) * ndim))
    return Rearrangement((shape,), result, parts)


def _place_source(source: int, shape: Shape, starts: Sequence[int]) -> MappedBox:
    """Make the part that puts a whole source at `starts` in the result."""
    read = plain(shape)
    dims = tuple((start, digits) for start, (_, digits) in zip(starts, read.dims, strict=True))
    return MappedBox(source, read, Side(shape, dims, read.axes), (0,) * len(shape))


def _unless_empty(shape: Shape, part: MappedBox) -> tuple[MappedBox, ...]:
    return (part,) if math.prod(shape) else ()


def _boxes_around(shape: Shape, starts: Sequence[int], result: Shape) -> Iterator[Bounds]:
    """Yield boxes that cover the result around the box of a source, slab by slab."""
    inside = [(start, start + n) for start, n in zip(starts, shape, strict=True)]
    for dim, (start, stop) in enumerate(inside):
        for slab in ((0, start), (stop, result[dim])):
            box = (*inside[:dim], slab, *((0, n) for n in result[dim + 1 :]))
            if all(low < high for low, high in box):
                yield box


@_remember
def lift_rearrangement(how: Rearrangement, front: Shape) -> Rearrangement:
    """Add dims in front of a rearrangement; they stay as they are.

    >>> lift_rearrangement(roll((4,), (1,), (0,)), (2,)).shape
    (2, 4)
    """
    sources = tuple(front + shape for shape in how.sources)
    if 0 in front:
        return Rearrangement(sources, front + how.shape, ())
    lead, whole = len(front), tuple((0, n) for n in front)

    def up(digits: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(lead + digit for digit in digits)

    def side(of: Side) -> Side:
        ahead = tuple((digit,) for digit in range(lead))
        dims = tuple((begin, up(digits)) for begin, digits in of.dims)
        return Side(
            front + of.sizes,
            (*((0, digits) for digits in ahead), *dims),
            (*ahead, *map(up, of.axes)),
        )

    return Rearrangement(
        sources,
        front + how.shape,
        tuple(
            MappedBox(part.source, side(part.read), side(part.write), (0,) * lead + part.begin)
            for part in how.parts
        ),
        tuple(whole + box for box in how.filled),
        None if how.piece is None else lift_piece(how.piece, front),
        None if how.along is None else lead + how.along,
    )
