"""What pictures show is what the sharding says, block by block."""

import collections
import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._geometry.colors import colors, is_dark
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P
from gpushard._geometry.pictures import Tile, format_ids, picture
from gpushard._geometry.sharding import Sharding

CUBE = Mesh(np.arange(8).reshape(2, 2, 2), ("x", "y", "z"))
SPECS = [
    P(),
    P("x"),
    P("y"),
    P(("x", "y")),
    P("x", "y"),
    P("y", "x"),
    P(None, "x"),
    P(None, ("y", "x")),
    P("z", None, "x"),
    P("x", "y", "z"),
    P(("y", "z"), None, "x"),
]


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


class Overlapping(Sharding):
    """Each device holds a window that reaches into its neighbours'."""

    device_set = frozenset(range(4))  # type: ignore[assignment]

    def devices_indices_map(self, global_shape):  # type: ignore[no-untyped-def]
        n = global_shape[0]
        return {
            d: (slice(max(d * n // 4 - 1, 0), min((d + 1) * n // 4 + 1, n)), slice(None))
            for d in range(4)
        }


@given(st.sampled_from(SPECS), st.lists(st.integers(1, 7), min_size=3, max_size=5))
def test_every_block_is_there_once(spec: P, shape: list[int]) -> None:
    sharding = NamedSharding(CUBE, spec)
    drawn = picture(sharding, tuple(shape))
    said: dict[object, list[object]] = collections.defaultdict(list)
    for device, index in sharding.devices_indices_map(tuple(shape)).items():
        box = tuple(part.indices(n)[:2] for part, n in zip(index, shape, strict=True))
        said[box if all(a < b for a, b in box) else "none"].append(device)
    assert list(drawn.idle) == said.pop("none", [])
    blocks = [block for panel in drawn.panels for block in panel.blocks]
    assert {block.box: list(block.devices) for block in blocks} == said
    assert len(blocks) == len(said)
    assert sum(math.prod(b - a for a, b in block.box) for block in blocks) == math.prod(shape)
    for panel in drawn.panels:
        assert all(block.box[:-2] == panel.leading for block in panel.blocks)


def test_blocks_in_no_grid_stay_whole_and_those_that_overlap_are_cut() -> None:
    (panel,) = picture(Staggered(), (2, 4)).panels
    assert [block.label for block in panel.blocks] == ["0", "1", "2"]
    (panel,) = picture(Overlapping(), (8, 3)).panels
    assert [(block.box[0], block.ids) for block in panel.blocks] == [
        ((0, 1), (0,)),
        ((1, 3), (0, 1)),
        ((3, 5), (1, 2)),
        ((5, 7), (2, 3)),
        ((7, 8), (3,)),
    ]


def test_neighbours_differ_in_color() -> None:
    (panel,) = picture(NamedSharding(CUBE, P("x", ("y", "z"))), (8, 8)).panels
    assert len(set(colors(panel.blocks))) == 8


@dataclass(frozen=True)
class InMemory:
    """A device of a memory domain."""

    memory_domain: int


def blocks_in(*domains: tuple[int, ...]) -> list[Tile]:
    """Blocks in a row, whose devices are in these domains."""
    ids = itertools.count()
    return [
        Tile(((n, n + 1),), tuple(map(InMemory, held)), tuple(next(ids) for _ in held))
        for n, held in enumerate(domains)
    ]


def test_blocks_have_the_color_of_their_domain_or_where_there_is_one_of_their_device() -> None:
    a, b, c, d = colors(blocks_in((0,), (3, 0), (0,), (3,)))
    assert a == c != b == d
    assert len(set(colors(blocks_in((3,), (3, 3), (3,))))) == 3
    alike = blocks_in((3,), (3, 3), (3,))
    alike[2] = Tile(alike[2].box, alike[1].devices, alike[1].ids)
    assert colors(alike)[0] != colors(alike)[1] == colors(alike)[2]


@pytest.mark.parametrize(("count", "numbers"), [(1, [0]), (2, [0, 1]), (3, [0, 0.5, 1])])
def test_a_map_of_colors_gets_numbers_from_0_to_1(count: int, numbers: list[float]) -> None:
    seen = []

    def gray(number: float) -> tuple[float, ...]:
        seen.append(number)
        return number, number, number, 0.7

    expected = [(round(255 * number),) * 3 for number in numbers]
    assert colors(blocks_in(*[(0,)] * count), gray) == expected and seen == numbers
    assert colors(blocks_in(*[(0,)] * count), lambda _: "#1a2bfc77") == [(26, 43, 252)] * count


def test_text_is_white_on_what_is_dark() -> None:
    """As the eye weighs red, green and blue: half of white is not dark."""
    assert is_dark((0, 0, 255)) and is_dark((255, 0, 0)) and not is_dark((0, 255, 0))
    assert is_dark((127,) * 3) and not is_dark((129,) * 3)
    assert not is_dark((1, 189, 147))  # exactly half


def read_ids(text: str) -> set[int]:
    runs = (run.partition("-") for run in filter(None, text.split(",")))
    return {id for first, _, last in runs for id in range(int(first), int(last or first) + 1)}


@given(st.sets(st.integers(0, 60)))
def test_ids_can_be_read_back_unless_shortened(ids: set[int]) -> None:
    text = format_ids(ids)
    if "..." in text:
        first, _, last = text.split(",")
        assert text.count(",") == 2
        assert min(read_ids(first)) == min(ids) and max(read_ids(last)) == max(ids)
    else:
        assert read_ids(text) == ids
        assert text.count(",") < 8


def test_eight_runs_of_ids_are_written_and_nine_are_shortened() -> None:
    assert format_ids(range(0, 16, 2)) == "0,2,4,6,8,10,12,14"
    assert format_ids([*range(0, 16, 2), 15]) == "0,2,4,6,8,10,12,14-15"
    assert format_ids(range(0, 18, 2)) == "0,...,16"
