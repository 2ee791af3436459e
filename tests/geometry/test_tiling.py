"""Tilings as arrays, and the grid that arbitrary boxes form, against sets of elements."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._geometry.free_boxes import tiling_from_indices
from gpushard._geometry.replicas import replica_numbers
from gpushard._geometry.tiling import Assignment, Tiling, block_bounds, check_shape
from gpushard.errors import ArgumentError, ArgumentTypeError, ShardingError
from tests.share import examples

Index = tuple[slice, ...]
Shape = tuple[int, ...]
shapes = st.lists(st.integers(0, 13), max_size=4).map(tuple)


def elements(shape: Shape, index: Index) -> list[range]:
    """The coordinates that a box holds, dim by dim."""
    return [range(n)[part] for n, part in zip(shape, index, strict=True)]


@given(st.lists(st.integers(0, 5)))
def test_replica_numbers_count_equal_keys_before(keys: list[int]) -> None:
    expected = [keys[:i].count(key) for i, key in enumerate(keys)]
    assert replica_numbers(np.array(keys, np.int64)).tolist() == expected


@st.composite
def assignments(draw: st.DrawFn, ndim: int) -> Assignment:
    counts = tuple(draw(st.integers(1, 5)) for _ in range(ndim))
    devices = draw(st.integers(1, 8))
    cell = st.tuples(*(st.integers(0, count - 1) for count in counts))
    cells = [draw(cell) for _ in range(devices)]
    blocks = np.array(cells, np.int64).reshape(devices, ndim).T
    return Assignment(tuple(range(devices)), counts, blocks)


@given(st.data(), shapes)
def test_arrays_of_a_regular_tiling(data: st.DataObject, shape: Shape) -> None:
    assignment = data.draw(assignments(len(shape)))
    tiling = Tiling.regular(shape, assignment)
    cells = list(map(tuple, assignment.blocks.T.tolist()))
    assert tiling.devices == assignment.devices
    assert tiling.ndim == assignment.ndim == len(shape)
    numbers = {cell: i for i, cell in enumerate(itertools.product(*map(range, assignment.counts)))}
    assert assignment.flat.tolist() == [numbers[cell] for cell in cells]
    assert assignment.replica_ids.tolist() == [cells[:i].count(c) for i, c in enumerate(cells)]
    for i, cell in enumerate(cells):
        low, high = tiling.starts[:, i].tolist(), tiling.stops[:, i].tolist()
        bounds = [block_bounds(*args) for args in zip(shape, assignment.counts, cell, strict=True)]
        assert list(zip(low, high, strict=True)) == bounds
        ranges = [range(*b) for b in bounds]
        assert elements(shape, tiling.indices[i]) == ranges
        assert tiling.shard_shapes[i] == tuple(map(len, ranges))
        assert tiling.volumes[i] == math.prod(map(len, ranges))
        for count, part in zip(assignment.counts, tiling.indices[i], strict=True):
            assert (part == slice(None)) == (count == 1)


def permuted(draw: st.DrawFn, boxes: list[Index]) -> dict[str, Index]:
    return {f"d{i}": box for i, box in enumerate(draw(st.permutations(boxes)))}


@st.composite
def uneven_grids(draw: st.DrawFn, shapes: st.SearchStrategy[Shape]) -> tuple[Shape, dict]:
    """A shape and a map whose boxes form a grid of any intervals, with replicas and empty boxes."""
    shape = draw(shapes)
    intervals = []
    for n in shape:
        cuts = sorted(draw(st.sets(st.integers(1, n - 1), max_size=2))) if n > 1 else []
        edges = [0, *cuts, n]
        intervals.append([slice(a, b) for a, b in itertools.pairwise(edges)])
    boxes = list(itertools.product(*intervals))
    boxes += draw(st.lists(st.sampled_from(boxes), max_size=3))
    if shape:
        for box in draw(st.lists(st.sampled_from(boxes), max_size=2)):
            dim, at = draw(st.integers(0, len(shape) - 1)), draw(st.integers(0, 13))
            boxes.append((*box[:dim], slice(at, at), *box[dim + 1 :]))
    return shape, permuted(draw, boxes)


@given(uneven_grids(shapes.filter(lambda shape: len(shape) < 4)))
def test_a_grid_of_boxes_is_kept(case: tuple[Shape, dict[str, Index]]) -> None:
    shape, indices = case
    tiling = tiling_from_indices(shape, indices)
    assert tiling.devices == tuple(indices)
    boxes = [elements(shape, index) for index in indices.values()]
    assert tiling.shard_shapes == [tuple(map(len, box)) for box in boxes]
    filled = [i for i, box in enumerate(boxes) if all(box)]
    assert [elements(shape, tiling.indices[i]) for i in filled] == [boxes[i] for i in filled]
    replicas = [boxes[:i].count(boxes[i]) for i in filled]
    assert tiling.assignment.replica_ids[filled].tolist() == replicas
    copies = tiling.assignment.flat[filled].tolist()
    for i, j in itertools.combinations(range(len(filled)), 2):
        assert (copies[i] == copies[j]) == (boxes[filled[i]] == boxes[filled[j]])


def test_boxes_of_some_devices_are_those_of_all() -> None:
    """As one process of several has them: in a grid, and where there is none."""
    whole, left, right = (slice(0, 2), slice(0, 4)), (slice(2, 4), slice(0, 2)), slice(2, 4)
    boxes = [whole, left, (right, right), whole, left]
    for here in ([0, 2, 3], [1, 4], [3, 2, 1, 0], []):
        tiling = tiling_from_indices((4, 4), dict(zip("abcde", boxes, strict=True)))
        assert tiling.assignment.flat.tolist() == [0, 1, 2, 0, 1]  # of all, first
        part = tiling.assignment.of(here)
        assert part.devices == tuple("abcde"[n] for n in here)
        some = Tiling((4, 4), part, tiling.edges)
        assert some.starts.T.tolist() == [[one.start for one in boxes[n]] for n in here]
        assert some.stops.T.tolist() == [[one.stop for one in boxes[n]] for n in here]
        mine = [boxes[n] for n in here]
        assert part.replica_ids.tolist() == [mine[:n].count(box) for n, box in enumerate(mine)]
        assert len({*part.flat.tolist()}) == len({str(box) for box in mine})
        assert tiling.assignment.flat.tolist() == [0, 1, 2, 0, 1]
    half = Assignment(tuple("ab"), (2,), np.array([[1, 0]])).of([1])
    assert (half.devices, half.flat.tolist(), half.spans) == (("b",), [0], None)


def uncovered(shape: Shape, boxes: list[list[range]]) -> set[tuple[int, ...]]:
    """Brute force: the elements that are in no box."""
    cover = np.zeros(shape, bool)
    for box in boxes:
        cover[np.ix_(*box)] = True
    return set(zip(*(at.tolist() for at in np.nonzero(~cover)), strict=True))


@st.composite
def perhaps_broken(draw: st.DrawFn) -> tuple[Shape, dict[str, Index]]:
    """Filled boxes, some of a grid with an edge moved or left out."""
    sizes = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)
    shape, indices = draw(uneven_grids(sizes))
    boxes = [box for box in indices.values() if all(elements(shape, box))]
    for _ in range(draw(st.integers(0, 2))):
        victim = draw(st.integers(0, len(boxes) - 1))
        if draw(st.booleans()) and len(boxes) > 1:
            del boxes[victim]
            continue
        dim = draw(st.integers(0, len(shape) - 1))
        start = draw(st.integers(0, shape[dim] - 1))
        part = slice(start, draw(st.integers(start + 1, shape[dim])))
        boxes[victim] = (*boxes[victim][:dim], part, *boxes[victim][dim + 1 :])
    return shape, permuted(draw, boxes)


@examples(400)
@given(perhaps_broken())
def test_boxes_are_accepted_when_they_cover(case: tuple[Shape, dict[str, Index]]) -> None:
    shape, indices = case
    boxes = [elements(shape, index) for index in indices.values()]
    missing = uncovered(shape, boxes)
    event(f"covered: {not missing}")
    if missing:
        with pytest.raises(ShardingError, match="no device holds") as caught:
            tiling_from_indices(shape, indices)
        assert caught.value.index in missing
        assert str(caught.value.index) in str(caught.value)
        return
    tiling = tiling_from_indices(shape, indices)
    assert tiling.shard_shapes == [tuple(map(len, box)) for box in boxes]
    assert [elements(shape, index) for index in tiling.indices] == boxes
    assert tiling.volumes.tolist() == [math.prod(map(len, box)) for box in boxes]
    before = [boxes[:i].count(box) for i, box in enumerate(boxes)]
    assert tiling.assignment.replica_ids.tolist() == before
    event(f"grid: {tiling.assignment.spans is None}")


def cut(*bounds: tuple[int, int]) -> Index:
    return tuple(slice(*b) for b in bounds)


@pytest.mark.parametrize(
    ("shape", "boxes", "match"),
    [
        pytest.param((6,), [cut((0, 2)), cut((3, 6))], r"as \(2,\)", id="gap"),
        pytest.param((6,), [cut((1, 6))], r"as \(0,\)", id="gap at the start"),
        pytest.param((6,), [cut((0, 5))], r"as \(5,\)", id="gap at the end"),
        pytest.param(
            (2, 2), [cut((0, 1), (0, 1)), cut((1, 2), (1, 2))], r"as \(0, 1\)", id="diagonal"
        ),
        pytest.param((3,), [cut((0, 0))], r"as \(0,\)", id="nothing"),
        pytest.param((6,), [cut((4, 4)), cut((0, 3))], r"as \(3,\)", id="empty boxes hold nothing"),
        pytest.param((6,), [(slice(0, 6, 2),)], "step 2", id="step"),
        pytest.param((6, 2), [cut((0, 6))], "1 slices", id="rank"),
    ],
)
def test_boxes_that_are_refused(shape: Shape, boxes: list[Any], match: str) -> None:
    with pytest.raises(ShardingError, match=match):
        tiling_from_indices(shape, {f"d{i}": box for i, box in enumerate(boxes)})


@pytest.mark.parametrize(
    ("shape", "boxes", "replicas", "longest"),
    [
        pytest.param((6,), [cut((0, 4)), cut((3, 6)), cut((0, 4))], [0, 0, 1], (4,), id="overlap"),
        pytest.param(
            (2, 4),
            [cut((0, 1), (0, 2)), cut((0, 1), (2, 4)), cut((1, 2), (0, 3)), cut((1, 2), (3, 4))],
            [0, 0, 0, 0],
            (1, 3),
            id="bricks",
        ),
        pytest.param(
            (4, 6), [cut((0, 4), (0, 6)), cut((4, 4), (1, 3))], [0, 0], (4, 6), id="empty box"
        ),
        pytest.param((0, 3), [cut((0, 0), (1, 2)), cut((0, 0), (1, 2))], [0, 1], (0, 1), id="none"),
        pytest.param((4,), [cut((0, 4)), cut((3, 1))], [0, 0], (4,), id="backwards"),
        pytest.param((), [(), ()], [0, 1], (), id="scalar"),
    ],
)
def test_boxes_in_no_grid(
    shape: Shape, boxes: list[Index], replicas: list[int], longest: Shape
) -> None:
    tiling = tiling_from_indices(shape, {f"d{i}": box for i, box in enumerate(boxes)})
    assert [elements(shape, index) for index in tiling.indices] == [
        elements(shape, box) for box in boxes
    ]
    assert tiling.assignment.replica_ids.tolist() == replicas
    assert (tiling.stops - tiling.starts).max(axis=1).tolist() == list(longest)


def test_a_map_of_something_else_than_slices_is_refused():
    with pytest.raises(ArgumentTypeError, match="one slice per axis"):
        tiling_from_indices((4,), {"a": (0,)})


def test_scalars_lie_whole_on_every_device() -> None:
    assert gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P()).tiling(()).assignment.is_replicated


def test_the_largest_arrays_that_there_may_be() -> None:
    for shape in ((1,) * 64, (1 << 58,), (1 << 29, 0, 1 << 29), (0,) * 64):
        check_shape(shape)
    for shape, match in (((1,) * 65, "ndim=65"), (((1 << 58) + 1,), r"2\*\*58 elements")):
        with pytest.raises(ArgumentError, match=match):
            check_shape(shape)
    with pytest.raises(ArgumentError, match=r"2\*\*58 elements"):
        check_shape((1 << 30, 0, 1 << 29))  # sizes of 0 do not count
