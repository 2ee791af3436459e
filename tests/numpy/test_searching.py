"""Positions in sorted vectors, against NumPy's."""

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard.errors import ArgumentError
from tests.numpy.compare import LAYOUTS, agree, placed, put, same, value
from tests.traffic import received

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("domains")
SPLITS: list[tuple[Any, ...]] = [(), ("x",), (("y", "x"),)]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("layout", ["even", "uneven", "replicated", "empty", "cube"])
@pytest.mark.parametrize("dtype", ["?", "H", "D"])
def test_positions(dtype: str, layout: str, side: str) -> None:
    data, x = placed(layout, dtype)
    for length in (0, 11):
        edges = np.sort(value((length,), dtype, "edges"))
        if dtype in "fdD" and length > 3:
            edges[-2:] = np.inf, np.nan
        wanted = np.searchsorted(edges, data, side)
        for split in SPLITS:
            same(gnp.searchsorted(put(edges, *split), x, side), wanted)
        same(gnp.searchsorted(edges, x, side), wanted)


PARTS = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -2.5]
COMPLEX = np.array([complex(x, y) for x in PARTS for y in PARTS])


@pytest.mark.parametrize("dtype", "FD")
@pytest.mark.parametrize("side", ["left", "right"])
def test_complex_numbers_with_parts_that_are_none(side: str, dtype: str) -> None:
    data = COMPLEX.astype(dtype)
    for edges in (np.sort(data), np.sort(data)[::5], np.sort(data)[:-9]):
        wanted = np.searchsorted(edges, data, side)
        for split in SPLITS:
            same(gnp.searchsorted(put(edges, *split), put(data, "x"), side), wanted)


@pytest.mark.parametrize("split", SPLITS)
def test_other_types_and_operands(split: Any) -> None:
    edges = np.sort(value((9,), "b"))
    e = put(edges, *split)
    for other in (np.array([-1.5, np.nan, 2.0]), np.float32(1.5), 2, 0.5, [[1, 2]], True):
        for side in ("left", "right"):
            same(gnp.searchsorted(e, other, side=side), np.searchsorted(edges, other, side))
            same(np.searchsorted(e, other, side), np.searchsorted(edges, other, side))
            same(e.searchsorted(other, side), edges.searchsorted(other, side))
    nans = np.array([1.0, np.nan, np.nan])
    same(gnp.searchsorted(put(nans, *split), put(nans), side="left"), np.searchsorted(nans, nans))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("layout", ["even", "uneven", "replicated"])
def test_a_vector_that_something_sorts(layout: str, split: Any) -> None:
    data, x = placed(layout, "f")
    edges = value((7,), "f", "edges")
    sorter = np.argsort(edges)
    wanted = np.searchsorted(edges, data, "right", sorter)
    e = put(edges, *split)
    same(gnp.searchsorted(e, x, "right", sorter), wanted)
    same(gnp.searchsorted(e, x, "right", gnp.argsort(e)), wanted)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bins(layout: str, right: bool) -> None:
    data, x = placed(layout, "d")
    some = [[-1.0, 0.0, 0.75, 2.0], [2.0, 0.75, 0.0], [1.0, 1.0], [0.75], [], [0, 3, 3]]
    for edges in (*some, [0.0, 2.0], [2.0, 0.0]):
        wanted = np.digitize(data, edges, right)
        same(gnp.digitize(x, edges, right), wanted)
        same(np.digitize(x, edges, right=right), wanted)
        for split in SPLITS:
            same(gnp.digitize(x, put(np.array(edges, float), *split), right), wanted)
    for edges in ([1, 3, 2], [5, 3, 4]):
        agree(lambda e=edges: gnp.digitize(x, e), lambda e=edges: np.digitize(data, e))
    agree(lambda: gnp.digitize(x + 1j, [1, 3]), lambda: np.digitize(data + 1j, [1, 3]))


def test_the_queries_stay_and_a_long_vector_stays() -> None:
    """What moves is the smaller side, or the positions that each part gives."""
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        mesh = gs.make_mesh((8,), "x")
        rows = gs.NamedSharding(mesh, gs.P("x"))
        long, short = np.arange(8 * 512.0), np.arange(8.0)

        def moved(edges: Any, queries: Any) -> tuple[gs.Array, int]:
            placed = gs.device_put((edges, queries), rows)
            before = received(runtime)
            found = gs.numpy.searchsorted(*placed)
            after = received(runtime)
            np.testing.assert_array_equal(np.asarray(found), np.searchsorted(edges, queries))
            return found, after - before

        found, nbytes = moved(short, long)
        assert found.sharding == rows
        assert nbytes == 7 * short.nbytes
        found, nbytes = moved(long, short)
        assert nbytes <= 21 * short.nbytes  # queries to all, positions merged


def test_results_go_where_they_are_asked_to() -> None:
    data, x = placed("even", "d")
    found = gnp.searchsorted([0.0, 1.0], x, out_sharding=gs.P(None, "x"))
    same(found, np.searchsorted([0.0, 1.0], data))
    assert found.sharding.spec == gs.P(None, "x")
    with pytest.raises(ArgumentError, match="side='middle'"):
        gnp.searchsorted([1.0], x, side="middle")


@pytest.mark.parametrize("edges", [[3, 3, 1], [1, 3, 3], [2, 2], [3, 1, 1, -2], [5]])
def test_bins_that_are_given_twice(edges: list[int]) -> None:
    data, x = placed("even")
    for right in (False, True):
        agree(
            lambda right=right: gs.numpy.digitize(x, edges, right),
            lambda right=right: np.digitize(data, edges, right),
        )


@pytest.mark.parametrize("dtype", ["?", "b", "i", "f", "d", "D"])
@pytest.mark.parametrize("size", [0, 1, 3, 60])
@pytest.mark.parametrize("apart", [1, 9])
def test_members_few_and_many_near_and_far(dtype: str, size: int, apart: int) -> None:
    data, x = placed("even", dtype)
    members = (np.arange(size) * apart % 100).astype(dtype)
    for invert in (False, True):
        agree(
            lambda invert=invert: gs.numpy.isin(x, members, invert=invert),
            lambda invert=invert: np.isin(data, members, invert=invert),
        )
