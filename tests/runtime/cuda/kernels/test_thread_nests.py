"""What loops of a nest are to the threads of a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpushard._runtime.cuda.kernels.thread_nests import COUNTERS, launched_kernel, thread_nest
from gpushard._runtime.nests import SHORT, Load, Nest, Op, Result

FLOAT = np.dtype(np.float64)
Loops = Sequence[int]


def nest(
    sizes: Sequence[int],
    loads: Sequence[Loops],
    ops: Sequence[tuple[Sequence[int | float], Loops, Loops]],
    *results: int,
) -> Nest:
    """Return a nest of sums and products.

    Args:
      sizes: lengths of the loops.
      loads: the loops of each operand.
      ops: of each the places of its operands, or numbers, its loops and those that it adds up over.
      results: places of the results.
    """
    made = [
        Op(
            "sum" if reduced else "multiply",
            tuple((x, None) if isinstance(x, int) else (None, np.float64(x)) for x in operands),
            FLOAT,
            frozenset(loops),
            (FLOAT,) * len(operands),
            None if reduced else np.multiply,
            reduced=tuple(reduced),
        )
        for operands, loops, reduced in ops
    ]
    read = [
        Load(n, FLOAT, tuple(dims), (0,) * len(dims), (0,) * len(dims))
        for n, dims in enumerate(loads)
    ]
    ends = [Result(place, tuple(sorted(made[place - len(read)].loops))) for place in results]
    short = frozenset(loop for loop, n in enumerate(sizes) if n <= SHORT)
    return Nest(tuple(sizes), len(read), tuple(read), tuple(made), tuple(ends), short, frozenset())


def summed(rows: int, columns: int) -> Nest:
    """Return the nest of sums of rows."""
    return nest((rows, columns), [(0, 1)], [((0,), (0,), (1,))], 1)


def lacking(*sizes: int) -> Nest:
    """Return sums over two short loops, one after the other, times what has two further loops."""
    ops = [((0,), (0, 3), (4,)), ((2,), (0,), (3,)), ((1, 3), (0, 1, 2), ())]
    return nest(sizes, [(0, 3, 4), (0, 1, 2)], ops, 4)


THREADS: dict[str, tuple[Nest, set[int], set[int]]] = {
    "element by element": (nest((300, 500), [(0, 1)], [((0, 2.0), (0, 1), ())], 1), set(), set()),
    "long rows": (summed(300, 500), {1}, set()),
    "short rows": (summed(300, 8), {1}, set()),
    "two sums of short loops": (
        nest((300, 5, 7), [(0, 1, 2)], [((0,), (0, 1), (2,)), ((1,), (0,), (1,))], 2),
        set(),
        {1, 2},
    ),
    "a sum of a short and one of a long loop": (
        nest((300, 5, 700), [(0, 1, 2)], [((0,), (0, 1), (2,)), ((1,), (0,), (1,))], 2),
        {2},
        {1},
    ),
    "a long loop that sums lack": (lacking(300, 900, 1, 5, 7), {1}, {2, 3, 4}),
    "a short loop that sums lack": (lacking(300, 6, 5, 5, 7), set(), {1, 2, 3, 4}),
    "short loops that sums lack, of much": (lacking(300, 50, 60, 5, 7), set(), {3, 4}),
    "one long loop, which sums lack": (
        nest((300, 5, 7), [(1, 2), (0,)],
             [((0,), (1,), (2,)), ((2,), (), (1,)), ((1, 3), (0,), ())], 4),
        set(),
        {1, 2},
    ),
}  # fmt: skip
"""Nests, the loops along which threads go together, and those within a thread."""


@pytest.mark.parametrize("name", THREADS)
def test_what_loops_are_to_threads(name: str) -> None:
    made, along, within = THREADS[name]
    dealt = thread_nest(made)
    assert dealt is not None
    assert {loop for n in dealt.along for loop in dealt.loops[n]} == along
    assert {loop for n in dealt.within for loop in dealt.loops[n]} == within


@pytest.mark.parametrize(
    ("rows", "columns", "parts"),
    [(3, 4095, 1), (3, 4096, 4), (3, 100_000, 98), (3, 1 << 20, 128), (100, 100_000, 19),
     (900, 5000, 2), (5000, 5000, 1)],
)  # fmt: skip
def test_in_how_many_parts_rows_are_cut(rows: int, columns: int, parts: int) -> None:
    kernel = launched_kernel(summed(rows, columns))
    assert kernel is not None and kernel.launched and not kernel.numbers
    dealt = kernel.function
    assert dealt.parts == parts
    room = rows * (COUNTERS + parts)
    assert (kernel.room is None) == (parts == 1) and dealt.room((rows, columns)) == room
    assert parts == 1 or rows * parts * (1 + COUNTERS) <= 1 << 15


def test_rows_that_are_gone_along_twice_are_in_one_part() -> None:
    twice = nest((3, 9000), [(0, 1)], [((0,), (0,), (1,)), ((0, 1), (0, 1), ())], 2)
    dealt = thread_nest(twice)
    assert dealt is not None and dealt.parts == 1


def test_reductions_over_other_parts_of_rows_are_no_kernel() -> None:
    ops = [((0,), (0,), (1, 2)), ((0,), (0, 2), (1,))]
    made = nest((300, 500, 700), [(0, 1, 2)], ops, 1, 2)
    assert thread_nest(made) is None
    assert launched_kernel(made) is None
