"""How the rows and elements of a loop nest are dealt out to the threads of a GPU. Pure.

`fused` says what rows are, and writes the kernel. Here each choice depends on the lengths of loops
and on where arrays are dense: how many threads share a row, how many rows a thread has, whether
rows come in patches of two loops, and how many elements a thread keeps in registers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

from gpushard._runtime.cuda.kernels.batches import THREADS
from gpushard._runtime.cuda.kernels.passes import Passes
from gpushard._runtime.cuda.kernels.reduction import LANES
from gpushard._runtime.cuda.kernels.thread_nests import ThreadNest
from gpushard._runtime.cuda.kernels.units import elements_of
from gpushard._runtime.kernel_tree import Deal
from gpushard._runtime.nests import Nest
from gpushard._typing import Dtype, Shape

MOST_LOCAL = 64 << 10
"""Bytes of arrays that a thread may have.

CUDA reserves them for as many threads as a GPU can run at once: on an H100 270,000, so 17 GB.
"""

SIDE = 16
"""Shorter loops have no patches: too many threads of a patch would be idle."""

MOST_STATEMENTS = 64
"""Operations of all rows that a thread moves together: each is a statement of its own."""

MOST_ROWS, MOST_LOADED = 4, 512
"""Rows of a thread that read the same elements, and bytes of what it keeps of loads of its rows."""

FEWEST_BLOCKS = 128
"""Blocks of threads that are left where threads have several rows: for each multiprocessor one."""

MOST_ELEMENTS_KEPT = 32
"""Elements of a row that a thread keeps: 256 threads have rows of 8,192."""

_WARP = 32
_SHORT = 8 * _WARP  # elements of a row from which on a whole block of threads has work with it
_ACROSS = 8  # threads of a row, if neighbours in memory belong to other rows


@dataclasses.dataclass(frozen=True)
class Threads:
    """How loops are dealt out to threads."""

    rows: tuple[int, ...]  # loops over rows: each row has one index of each, the slowest first
    along: tuple[int, ...]  # loops that the threads of a row go along
    across: bool  # whether neighbours in memory are of different rows
    width: int  # threads of a row
    each: int = 1  # rows of a thread, if it has rows for itself
    patched: int | None = None  # a loop that shares patches with the last one
    kept: int = 0  # most elements of a row that a thread keeps values for; 0 if it keeps none
    unit: int = 1  # number of these elements that are neighbours
    at_once: int = 0  # rows of a thread, if all rows read the same elements

    @property
    def deal(self) -> Deal:
        """Which elements of a row its threads have."""
        return Deal(self.along, self.width, self.kept, self.unit)

    @property
    def deal_of_rows(self) -> Deal:
        """Which rows a thread has, if these read the same elements."""
        return Deal(self.rows, THREADS, self.at_once, rows=True)

    @property
    def together(self) -> int:
        """Rows of a block of threads."""
        return THREADS // self.width * self.each * max(1, self.at_once)

    @property
    def sides(self) -> tuple[int, int]:
        """Rows of a patch along the loop `patched` and along the last one."""
        first = 4 * min(2, THREADS // LANES)
        return first, THREADS // first

    def blocks_of(self, lengths: Shape) -> int:
        """Count the blocks of threads for all rows."""
        if self.patched is None:
            return -(-self.rows_of(lengths) // self.together)
        sides = dict(zip((self.patched, self.rows[-1]), self.sides, strict=True))
        return math.prod([-(-lengths[loop] // sides.get(loop, 1)) for loop in self.rows])

    def rows_of(self, lengths: Shape) -> int:
        """Count the rows, from the lengths of the loops."""
        return math.prod([lengths[loop] for loop in self.rows])


def threads(dealt: ThreadNest, lengths: Sequence[Shape]) -> Threads:
    """Return how the loops of a nest are dealt out; `lengths` are those of each call's loops."""
    arrays = sorted([r.dims for r in dealt.nest.results], key=len, reverse=True)
    arrays += sorted([x.dims for x in dealt.nest.loads], key=len, reverse=True)
    within = dealt.within
    every = [[n for n in dims if n is not None and n not in within] for dims in arrays]
    order = list(dict.fromkeys([n for of_call in every for n in of_call]))
    rows = tuple([n for n in order if n not in dealt.along])
    along = tuple([n for n in order if n in dealt.along])
    largest = max(every, key=len, default=[])
    across = bool(along and largest) and largest[-1] not in dealt.along
    longest = max([math.prod([of_call[n] for n in along]) for of_call in lengths])
    width = 1
    if along and across:
        width = min(_ACROSS, _power(longest))
    elif along:
        width = min(_WARP, _power(longest)) if longest < _SHORT else THREADS
    each = 1
    if rows and not along and not within and dealt.parts == 1:
        each = _each(dealt, rows, lengths)
        if each == 1 and THREADS % LANES == 0:
            return Threads(rows, along, across, width, 1, _patched(dealt, rows, lengths))
    way = Threads(rows, along, across, width, each)
    if within and rows and not along and dealt.parts == 1:
        return dataclasses.replace(way, at_once=_at_once(dealt, way, lengths))
    return way if within or not along else _keeping(dealt, way, lengths, longest)


def _at_once(dealt: ThreadNest, way: Threads, lengths: Sequence[Shape]) -> int:
    """Return how many rows a thread has, if all rows read the same elements; 0 if they do not."""
    within, rows, each, passes = dealt.within, {*way.rows}, MOST_ROWS, Passes(dealt)
    if all(rows.intersection(x.dims) or within.keys().isdisjoint(x.dims) for x in dealt.nest.loads):
        return 0

    def nbytes(place: int, loops: Iterable[int | None]) -> int:
        if rows.isdisjoint(loops) or place not in passes.dtypes:
            return 0
        return max(4, passes.dtypes[place].itemsize) * math.prod(
            [n for loop, n in within.items() if loop in loops]
        )

    loaded = sum([nbytes(place, x.dims) for place, x in enumerate(dealt.nest.loads)])
    arrays = loaded + sum([nbytes(place, op.loops) for place, op in passes.ops.items()])
    blocks = max(map(way.rows_of, lengths)) // THREADS
    while each > 1 and (
        each * loaded > MOST_LOADED
        or each * arrays > MOST_LOCAL // 4
        or each * FEWEST_BLOCKS > blocks
    ):
        each //= 2
    return each


def _keeping(dealt: ThreadNest, way: Threads, lengths: Sequence[Shape], longest: int) -> Threads:
    """Return the fewest threads that keep values of a row; the ones it has if there are none."""
    passes, unit = Passes(dealt), 1
    if not way.across:
        unit = elements_of(_types(dealt.nest))
        while any(of_call[way.along[-1]] % unit for of_call in lengths):
            unit //= 2
    units = -(-longest // unit)
    for width in [way.width] if way.across else [min(_WARP, _power(units)), THREADS]:
        elements = unit * _power(-(-units // width))
        if elements <= MOST_ELEMENTS_KEPT and passes.spans(elements):
            return dataclasses.replace(way, width=width, kept=elements, unit=unit)
    return way


def _patched(dealt: ThreadNest, rows: tuple[int, ...], lengths: Sequence[Shape]) -> int | None:
    """Return the loop along which some array is dense that varies along the last one, too."""
    for dims in [*[x.dims for x in dealt.nest.loads], *[x.dims for x in dealt.nest.results]]:
        loops = [loop for loop in dims if loop is not None]
        if rows[-1] in loops and loops[-1] in rows[:-1]:
            long = all(of_call[n] >= SIDE for of_call in lengths for n in (loops[-1], rows[-1]))
            return loops[-1] if long else None
    return None


def _each(dealt: ThreadNest, rows: tuple[int, ...], lengths: Sequence[Shape]) -> int:
    """Choose the number of rows of a thread, so that it moves units.

    It is one if an array that varies along the last loop has no units. It is also one if a unit
    would reach into the next index of an outer loop, or behind the end of a periodic dim.
    """
    each = elements_of(_types(dealt.nest), MOST_STATEMENTS // max(1, len(dealt.nest.ops)))
    last, every = rows[-1], set(rows)
    arrays = [(x.dims, x.starts, x.more, every) for x in dealt.nest.loads]
    if any(load.dims[at] == last for load in dealt.nest.loads for at in load.periodic):
        return 1
    for result in dealt.nest.results:
        none = (0,) * len(result.dims)
        arrays.append((result.dims, none, none, {n for n in result.dims if n is not None}))
    for dims, starts, more, loops in arrays:
        if last not in dims:
            continue
        at = dims.index(last)
        behind = [*zip(dims[at + 1 :], more[at + 1 :], strict=True)]
        if any(x != (None, 0) for x in behind) or starts[at] % each or loops != every:
            return 1
    whole = len(rows) == 1 or all(of_call[last] % each == 0 for of_call in lengths)
    return each if whole else 1


def largest_index(dealt: ThreadNest, way: Threads, lengths: Shape) -> int:
    """Return the largest number that a kernel comes to in a call, from the lengths of its loops.

    A kernel counts rows, and elements along a row. It also computes where a load or store lies in
    its block. A narrow part of a large block lies far behind the start, however short the loops:

        x[:, 5:9] of a block of shape (131136, 32768)    loops (131136, 4), dims of 4 + 32764
        from[i0 * (n1 + 32764) + i1], from element 5     the last one: 131135 * 32768 + 8

    >>> import numpy as np
    >>> from gpushard._runtime.nests import Load, Result
    >>> load = Load(0, np.dtype(np.int8), (0, 1), (0, 5), (0, 32764))
    >>> nest = Nest((131136, 4), 1, (load,), (), (Result(0, (0, 1)),), frozenset(), frozenset())
    >>> one = ThreadNest(nest, nest, ((0,), (1,)))
    >>> largest_index(one, threads(one, [(131136, 4)]), (131136, 4)) == 131135 * 32768 + 8
    True
    """
    counts = way.rows_of(lengths), math.prod([lengths[loop] for loop in way.along])
    places = [_largest_place(x.dims, x.starts, x.more, lengths) for x in dealt.nest.loads]
    for result in dealt.nest.results:
        none = (0,) * len(result.dims)
        places.append(_largest_place(result.dims, none, none, lengths))
    return max(*counts, *places)


def _largest_place(dims: Sequence[int | None], starts: Shape, more: Shape, lengths: Shape) -> int:
    """Return the largest number in the place of an element: that of the last one, or a stride."""
    last, stride, largest = 0, 1, 0
    for loop, start, beyond in zip(reversed(dims), reversed(starts), reversed(more), strict=True):
        length = 1 if loop is None else lengths[loop]
        last += (start + max(length - 1, 0)) * stride
        largest = max(last, stride)
        stride *= length + beyond
    return largest


def _types(nest: Nest) -> set[Dtype]:
    """Return the types of all values, and of numbers."""
    return {dtype for op in nest.ops for dtype in (*nest.types_of(op), op.dtype)}


def _power(n: int) -> int:
    """Return the least power of 2 that is no less."""
    return 1 << max(0, n - 1).bit_length()
