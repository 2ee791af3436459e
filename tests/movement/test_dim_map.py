"""Runs of one dim against a loop over its elements."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from gpushard import testing
from gpushard._movement.planning import dim_maps
from gpushard._movement.planning.dim_maps import (
    DimMap,
    Runs,
    cut_dim,
    cut_runs,
    identity,
    permutation,
)
from gpushard._movement.planning.reshard import make_plan
from tests.movement.element_oracle import Side
from tests.movement.strategies import sharding_of

Edges = list[int]


@st.composite
def edges(draw: st.DrawFn, size: int) -> Edges:
    """Edges of blocks from 0 to `size`, some of them empty."""
    cuts = draw(st.lists(st.integers(0, size), max_size=5))
    return [0, *sorted(cuts), size]


@st.composite
def maps(draw: st.DrawFn) -> tuple[DimMap, Edges | None, Edges | None]:
    """A map whose elements all lie in the source dim, and edges of both sides."""
    kind = draw(st.sampled_from(["slice", "slice", "slice", "integer", "new"]))
    if kind == "new":
        length = 1
        return DimMap(None, 0, 0, 1, 1), None, draw(edges(length))
    size = draw(st.integers(1, 30))
    start = draw(st.integers(0, size - 1))
    if kind == "integer":
        return DimMap(0, None, start, 1, 1), draw(edges(size)), None
    step = draw(st.integers(-7, 7).filter(bool))
    longest = len(range(start, size, step) if step > 0 else range(start, -1, step))
    length = draw(st.integers(0, longest))
    return DimMap(0, 0, start, step, length), draw(edges(size)), draw(edges(length))


def block_of(position: int, edges: Edges) -> int:
    (block,) = (i for i, (a, b) in enumerate(itertools.pairwise(edges)) if a <= position < b)
    return block


def elements(case: tuple[DimMap, Edges | None, Edges | None]) -> list[tuple[int, int, int, int]]:
    """(source block, offset in it, destination block, offset in it) of every element."""
    m, of, to = case[0], case[1] or [0, 1], case[2] or [0, 1]
    result = []
    for t in range(m.length):
        at = m.start + m.step * t
        i, j = block_of(at, of), block_of(t, to)
        result.append((i, at - of[i], j, t - to[j]))
    return result


def runs_of(case: tuple[DimMap, Edges | None, Edges | None]) -> Runs:
    m, of, to = case
    return cut_runs(m, None if of is None else np.array(of), None if to is None else np.array(to))


@given(maps())
def test_runs_are_the_elements_in_order(
    case: tuple[DimMap, Edges | None, Edges | None],
) -> None:
    runs, expected = runs_of(case), elements(case)
    step = case[0].step
    found = [
        (int(i), int(a) + step * k, int(j), int(b) + k)
        for i, a, j, b, n in zip(
            runs.source_block,
            runs.source_offset,
            runs.destination_block,
            runs.destination_offset,
            runs.length,
            strict=True,
        )
        for k in range(n)
    ]
    assert found == expected
    assert len(runs.length) == len({(i, j) for i, _, j, _ in expected})
    event(f"runs: {min(len(runs.length), 5)}")


@given(maps())
def test_runs_by_destination_block(case: tuple[DimMap, Edges | None, Edges | None]) -> None:
    runs = runs_of(case)
    assert len(runs.counts) == len(runs.first) == len(case[2] or [0, 1]) - 1
    for block, (first, count) in enumerate(zip(runs.first, runs.counts, strict=True)):
        where = np.flatnonzero(runs.destination_block == block).tolist()
        assert where == list(range(first, first + count))


@given(maps())
def test_facts_about_runs(case: tuple[DimMap, Edges | None, Edges | None]) -> None:
    runs, of = runs_of(case), case[1] or [0, 1]
    extents = [of[i + 1] - of[i] for i in runs.source_block.tolist()]
    assert runs.source_extent.tolist() == extents


@pytest.mark.parametrize("table_limit", [dim_maps._DENSE_TABLE, 0], ids=["dense", "sparse"])
@given(case=maps().filter(lambda case: case[0].length > 0))
def test_overlap(case: tuple[DimMap, Edges | None, Edges | None], table_limit: int) -> None:
    runs = runs_of(case)
    common = Counter((j, i) for i, _, j, _ in elements(case))
    blocks = itertools.product(range(len(case[2] or [0, 1]) - 1), range(len(case[1] or [0, 1]) - 1))
    pairs = np.array(list(blocks), np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dim_maps, "_DENSE_TABLE", table_limit)
        found = runs.overlap(pairs[:, 0], pairs[:, 1])
    assert found.tolist() == [common[j, i] for j, i in pairs.tolist()]


def test_plans_do_not_depend_on_the_size_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [(), ((0,),), ((), (0,)), ((1, 0), (2,)), ((2,), (0, 1)), ((), (0, 1, 2))]
    sides = [Side((2, 2, 2), tuple(range(8)), spec) for spec in specs]
    with testing.runtime(host_domains=4) as runtime:
        tilings = [sharding_of(runtime, side).tiling((5, 9)) for side in sides]
        plans = [
            [make_plan(a, b, identity((5, 9)), 4) for a, b in itertools.product(tilings, repeat=2)]
            for _ in range(2)
        ]
        dense = [plan.received for plan in plans[0]]
        monkeypatch.setattr(dim_maps, "_DENSE_TABLE", 0)
        assert [plan.received for plan in plans[1]] == dense
        assert any(plan.bytes_received for plan in plans[1])


def test_equal_pieces_are_the_same_object() -> None:
    assert identity((4, 4)) is identity((4, 4))
    assert permutation((4, 2), (1, 0)) is permutation((4, 2), (1, 0))
    assert permutation((4, 2), (1, 0)) != permutation((4, 2), (0, 1))


def test_boxes_are_cut_along_the_first_dim_of_enough_rows() -> None:
    lengths = np.array([[16, 15, 15, 16, 7], [99, 16, 15, 16, 9], [99, 99, 14, 99, 8]])
    assert cut_dim(lengths, 16).tolist() == [0, 1, 0, 0, 1]
