"""Drawings, read back element by element and compared with what the sharding says."""

import bisect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard.cli.draw import draw_sharding, format_ids
from gpushard.geometry.listed_sharding import PmapSharding
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P
from gpushard.geometry.sharding import Sharding, SingleDeviceSharding

GRID = Mesh(np.arange(8).reshape(4, 2), ("x", "y"))
SPECS = [
    P(),
    P("x"),
    P("y"),
    P(("x", "y")),
    P("x", "y"),
    P("y", "x"),
    P(None, "x"),
    P(None, ("y", "x")),
]


def read_ids(text: str) -> set[int]:
    """Return the ids that a cell names."""
    ids: set[int] = set()
    for run in filter(None, text.strip().split(",")):
        first, _, last = run.partition("-")
        ids |= set(range(int(first), int(last or first) + 1))
    return ids


def read_cells(lines: list[str]) -> tuple[list[int], list[int], list[list[set[int]]]]:
    """Return the row edges, the column edges and the ids of the cells of a 2-D drawing."""
    rules = [line for line in lines if "+" in line]
    column_edges = [int(tick) for tick in lines[0].split()]
    row_edges = [int(rule.split("+")[0]) for rule in rules]
    bodies = [line.split("|")[1:-1] for line in lines if "|" in line]
    borders = [i for i, c in enumerate(rules[0]) if c == "+"]
    assert [lines[0].index(str(column_edges[0])), len(rules[0]) - 1] == [borders[0], borders[-1]]
    return row_edges, column_edges, [[read_ids(text) for text in body] for body in bodies]


def holders(sharding: Sharding, shape: tuple[int, ...], element: tuple[int, ...]) -> set[int]:
    """Return the devices that hold an element."""
    marked = np.zeros(shape, bool)
    marked[element] = True
    indices = sharding.devices_indices_map(shape)
    return {device for device, index in indices.items() if marked[index].any()}


@given(st.sampled_from(SPECS), st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_every_element_is_drawn_where_it_lies(spec: P, shape: tuple[int, int]) -> None:
    sharding = NamedSharding(GRID, spec)
    lines = draw_sharding(sharding, shape).splitlines()
    idle = {
        d for d, i in sharding.devices_indices_map(shape).items() if not np.empty(shape)[i].size
    }
    note = lines.pop() if idle else ""
    assert read_ids(note.removeprefix("without elements: ")) == idle
    row_edges, column_edges, cells = read_cells(lines)
    assert (row_edges[-1], column_edges[-1]) == shape
    for element in np.ndindex(shape):
        row = bisect.bisect_right(row_edges, element[0]) - 1
        column = bisect.bisect_right(column_edges, element[1]) - 1
        assert cells[row][column] == holders(sharding, shape, element)


def test_an_uneven_grid_looks_like_this() -> None:
    assert draw_sharding(NamedSharding(GRID, P("x", "y")), (9, 64)).splitlines() == [
        "  0     32    64",
        "0 +-----+-----+",
        "  |  0  |  1  |",
        "3 +-----+-----+",
        "  |  2  |  3  |",
        "6 +-----+-----+",
        "  |  4  |  5  |",
        "9 +-----+-----+",
        "without elements: 6-7",
    ]


def test_a_short_vector_lies_across_and_a_long_one_stands() -> None:
    vector = NamedSharding(GRID, P(("x", "y")))
    assert draw_sharding(vector, (8,)).splitlines() == [
        "0     1     2     3     4     5     6     7     8",
        "+-----+-----+-----+-----+-----+-----+-----+-----+",
        "|  0  |  1  |  2  |  3  |  4  |  5  |  6  |  7  |",
        "+-----+-----+-----+-----+-----+-----+-----+-----+",
    ]
    assert draw_sharding(vector, (8,), width=50) == draw_sharding(vector, (8,))
    assert draw_sharding(vector, (8,), width=49).startswith("0 +-----+\n")
    standing = draw_sharding(vector, (8 * 10**9,)).splitlines()
    assert standing[0] == "         0 +-----+"
    assert standing[-2:] == ["           |  7  |", "8000000000 +-----+"]


def test_a_scalar_is_one_box() -> None:
    assert draw_sharding(NamedSharding(GRID, P()), ()) == "+-----+\n| 0-7 |\n+-----+"
    assert "|  0  |" in draw_sharding(SingleDeviceSharding("lonely"), ())


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (3, 4, 0)])
def test_an_empty_array_has_no_boxes(shape: tuple[int, ...]) -> None:
    drawing = draw_sharding(NamedSharding(GRID, P("x")), shape)
    assert "+" not in drawing
    assert drawing.endswith("without elements: 0-7")


def test_three_dims_show_the_first_two_and_say_so() -> None:
    drawing = draw_sharding(NamedSharding(GRID, P("x", None, "y")), (4, 5, 6))
    flat = draw_sharding(NamedSharding(GRID, P("x")), (4, 5))
    assert drawing.splitlines()[:-1] == flat.splitlines()
    assert drawing.splitlines()[-1].startswith("dims 0 and 1 of 3")


class Staggered(Sharding):
    """Blocks that no grid has: a wide one over two narrow ones."""

    device_set = frozenset("abc")  # type: ignore[assignment]

    def devices_indices_map(self, global_shape):  # type: ignore[no-untyped-def]
        top, bottom = slice(0, 1), slice(1, 2)
        return {
            "a": (top, slice(0, 4)),
            "b": (bottom, slice(0, 3)),
            "c": (bottom, slice(3, 4)),
        }


def test_blocks_that_form_no_grid_span_several_boxes() -> None:
    _, columns, cells = read_cells(draw_sharding(Staggered(), (2, 4)).splitlines())
    assert columns == [0, 3, 4]
    assert cells == [[{0}, {0}], [{1}, {2}]]


@given(
    st.tuples(st.integers(1, 64), st.integers(1, 64)),
    st.sampled_from(SPECS),
    st.tuples(st.integers(1, 10**7), st.integers(1, 10**7)),
)
def test_a_drawing_fits_a_terminal(sizes: tuple[int, int], spec: P, shape: tuple[int, int]) -> None:
    mesh = Mesh(np.arange(math.prod(sizes)).reshape(sizes), ("x", "y"))
    drawing = draw_sharding(NamedSharding(mesh, spec), shape)
    assert drawing.isascii()
    assert max(map(len, drawing.splitlines())) <= 80
    assert len(drawing.splitlines()) <= 36


def test_too_many_blocks_leave_out_the_middle() -> None:
    mesh = Mesh(np.arange(100), "x")
    across = draw_sharding(NamedSharding(mesh, P(None, "x")), (1, 100), width=40).splitlines()
    assert across[0].split() == ["0", "1", "2", "3", "99", "100"]
    assert across[2].replace(" ", "") == "|0|1|2|...|99|"
    down = draw_sharding(NamedSharding(mesh, P("x")), (100, 1)).splitlines()
    cells = [line.split("|")[1].strip() for line in down if "|" in line]
    assert cells == [*map(str, range(14)), "...", "99"]
    assert [line.split()[0] for line in down[-5::2]] == ["14", "99", "100"]


@given(st.sets(st.integers(0, 40)))
def test_ids_can_be_read_back_unless_shortened(ids: set[int]) -> None:
    text = format_ids(ids)
    if "..." in text:
        first, _, last = text.split(",")
        assert text.count(",") == 2
        assert min(read_ids(first)) == min(ids) and max(read_ids(last)) == max(ids)
    else:
        assert read_ids(text) == ids
        assert text.count(",") <= 3


def test_a_dim_that_shards_do_not_have_is_drawn_like_any() -> None:
    stacked = PmapSharding.default((4, 3), devices=np.arange(4))
    named = NamedSharding(Mesh(np.arange(4), "x"), P("x"))
    assert draw_sharding(stacked, (4, 3)) == draw_sharding(named, (4, 3))
