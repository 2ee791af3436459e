"""Pictures on terminals, read back element by element and compared with what the sharding says."""

import io
import itertools
import math
import re
import sys
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P
from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard.debug import terminal_picture
from gpushard.debug.terminal_picture import to_scale
from tests.geometry.test_pictures import CUBE, SPECS, Staggered

COLORS = re.compile(r"\x1b\[[0-9;]*m")
LINES = set("┌┐└┘├┤┬┴┼─│")


class Terminal(io.StringIO):
    """A stream that says what it is."""

    def __init__(self, encoding: str = "utf-8", colors: bool = True) -> None:
        super().__init__()
        self._encoding = encoding
        self._colors = colors

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._colors


def shown(shape: Any, sharding: Sharding, to: Terminal | None = None, **how: Any) -> str:
    """Return what is printed."""
    out = to or Terminal(colors=False)
    before, sys.stdout = sys.stdout, out
    try:
        gs.debug.visualize_sharding(shape, sharding, **how)
    finally:
        sys.stdout = before
    return out.getvalue()


def regions(text: str) -> list[tuple[set[tuple[int, int]], str]]:
    """Return what lines enclose: the characters there, and the text in them."""
    grid = dict(enumerate(text.splitlines()))
    inside = {
        (y, x): c
        for y, line in grid.items()
        for x, c in enumerate(line)
        if c not in LINES
        and any(d in LINES for d in line[:x])
        and any(d in LINES for d in line[x:])
    }
    found = []
    while inside:
        todo, cells = [next(iter(inside))], {}
        while todo:
            at = todo.pop()
            if at in inside:
                cells[at] = inside.pop(at)
                todo += [(at[0] + dy, at[1] + dx) for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0))]
        found.append((set(cells), "".join(cells[at] for at in sorted(cells)).strip()))
    return found


def read_ids(text: str) -> set[int]:
    """Return the ids that a text names."""
    ids: set[int] = set()
    for run in filter(None, text.replace(" ", "").split(",")):
        first, _, last = run.partition("-")
        ids |= set(range(int(first), int(last or first) + 1))
    return ids


@given(st.sampled_from(SPECS), st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_every_block_is_enclosed_once_with_its_replicas(spec: P, shape: tuple[int, int]) -> None:
    sharding = NamedSharding(CUBE, spec)
    if len(spec) > 2:
        return
    lines = shown(shape, sharding).splitlines()
    held: dict[Any, set[int]] = {}
    idle = set()
    for device, index in sharding.devices_indices_map(shape).items():
        box = tuple(part.indices(n)[:2] for part, n in zip(index, shape, strict=True))
        held.setdefault(box, set()).add(device) if all(a < b for a, b in box) else idle.add(device)
    if idle:
        assert read_ids(lines.pop().removeprefix("without elements: ")) == idle
    drawn = [read_ids(text) for _, text in regions("\n".join(lines[1:]))]
    assert sorted(map(sorted, drawn)) == sorted(map(sorted, held.values()))
    edges = [sorted({edge for box in held for edge in box[dim]}) for dim in (0, 1)]
    assert [int(tick) for tick in lines[0].split()] == edges[1]
    ticks = [line.split()[0] for line in lines[1:] if line.split()[0].isdecimal()]
    assert [int(tick) for tick in ticks] == edges[0]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(1, 6))
def test_sizes_are_to_scale(lengths: list[int], least: int) -> None:
    most = 80 if max(lengths) < 60 else 40
    sizes = to_scale(lengths, 40, least, most)
    assert min(sizes) >= least
    assert sum(sizes) + len(sizes) + 1 <= max(most, len(sizes) * (least + 1) + 1)
    free = [(n, size) for n, size in zip(lengths, sizes, strict=True) if size > least]
    for (m, a), (n, b) in itertools.combinations(free, 2):
        unit = (a + b) / (m + n)
        assert abs(a - m * unit) <= 1 and abs(b - n * unit) <= 1


def test_uneven_blocks_take_what_they_hold() -> None:
    areas = {text: len(cells) for cells, text in regions(shown((16,), Lopsided()))}
    assert areas["0"] == pytest.approx(3 * areas["1"], abs=3)


class Lopsided(Sharding):
    """Three quarters, and one."""

    device_set = frozenset("ab")  # type: ignore[assignment]

    def devices_indices_map(self, global_shape):  # type: ignore[no-untyped-def]
        n = 3 * global_shape[0] // 4
        return {"a": (slice(0, n),), "b": (slice(n, None),)}


def test_blocks_that_form_no_grid_are_still_one_each() -> None:
    text = shown((2, 4), Staggered(), scale=0.4).splitlines()
    assert text == [
        "  0                           3         4",
        "0 ┌─────────────────────────────────────┐",
        "  │                  0                  │",
        "  │                                     │",
        "1 ├───────────────────────────┬─────────┤",
        "  │             1             │    2    │",
        "  │                           │         │",
        "2 └───────────────────────────┴─────────┘",
    ]


class Upturned(Sharding):
    """Two narrow blocks over a wide one, which is as many columns wide as there are others."""

    def __init__(self, edges: list[int]) -> None:
        self.edges = edges

    @property
    def device_set(self) -> set[int]:
        return {*range(len(self.edges))}

    def devices_indices_map(self, global_shape):  # type: ignore[no-untyped-def]
        top = [(slice(0, 1), slice(*ends)) for ends in itertools.pairwise(self.edges)]
        return dict(enumerate([*top, (slice(1, 2), slice(None))]))


def test_lines_end_where_blocks_do() -> None:
    text = shown((2, 4), Upturned([0, 3, 4]), scale=0.4).splitlines()
    assert text == [
        "  0                           3         4",
        "0 ┌───────────────────────────┬─────────┐",
        "  │             0             │    1    │",
        "  │                           │         │",
        "1 ├───────────────────────────┴─────────┤",
        "  │                  2                  │",
        "  │                                     │",
        "2 └─────────────────────────────────────┘",
    ]


def test_lines_have_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    text = shown((2, 99), Upturned([*range(100)]), Terminal(), max_width=40)
    colored = re.findall(r"\x1b\[48;[0-9;]*m(.*?)\x1b\[0m", text)
    assert "99" in {part.strip() for part in colored} and "..." in text
    assert not LINES & {*"".join(colored)}


def test_a_long_vector_stands_and_a_short_one_lies() -> None:
    mesh = Mesh(np.arange(8), "x")
    assert shown((8,), NamedSharding(mesh, P("x"))).startswith("0  ")
    standing = shown((8 * 10**9,), NamedSharding(mesh, P("x"))).splitlines()
    assert standing[0].split() == ["0", "┌─────────────────────────┐"]
    assert [line.split()[0] for line in standing[::2]][-1] == str(8 * 10**9)


class Beside(Sharding):
    """Two blocks one above the other, and one beside both."""

    device_set = frozenset("abc")  # type: ignore[assignment]

    def devices_indices_map(self, global_shape):  # type: ignore[no-untyped-def]
        top, bottom, left, right = slice(0, 2), slice(2, 4), slice(0, 3), slice(3, 6)
        return {"a": (top, left), "b": (bottom, left), "c": (slice(0, 4), right)}


def test_a_block_beside_two_is_as_tall_as_both() -> None:
    cells = {text: found for found, text in regions(shown((4, 6), Beside()))}
    rows = {text: len({y for y, _ in found}) for text, found in cells.items()}
    assert rows["0"] == rows["1"] == (rows["2"] - 1) / 2  # and the line between them


@pytest.mark.parametrize(("end", "least"), [(8, 3), (8 * 10**6, 7)])
def test_a_vector_lies_as_soon_as_its_blocks_and_ticks_fit(end: int, least: int) -> None:
    sharding = NamedSharding(Mesh(np.arange(8), "x"), P("x"))
    fits = 8 * (least + 1) + len(str(end))
    text = shown((end,), sharding, max_width=fits)
    assert text.splitlines()[1] == "┌" + "┬".join(["─" * least] * 8) + "┐"
    assert max(map(len, text.splitlines())) <= fits
    assert len(regions(text)) == 8
    assert shown((end,), sharding, max_width=fits - 1).lstrip().startswith("0 ┌")


@pytest.mark.parametrize(("shape", "margin"), [((8,), 0), ((1, 8), 2)])
def test_blocks_are_as_wide_as_asked_where_all_have_room(shape: Any, margin: int) -> None:
    sharding = NamedSharding(Mesh(np.arange(8), "x"), P(*[None] * (len(shape) - 1), "x"))
    fits = margin + 8 * (9 + 1) + len("8")
    lines = shown(shape, sharding, max_width=fits).splitlines()
    assert lines[1][margin:] == "┌" + "┬".join(["─" * 9] * 8) + "┐"
    assert max(map(len, lines)) <= fits
    narrower = shown(shape, sharding, max_width=fits - 1).splitlines()[1][margin:]
    assert min(map(len, narrower[1:-1].split("┬"))) < 9


def test_a_scalar_is_one_block_and_no_elements_are_none() -> None:
    assert [text for _, text in regions(shown((), NamedSharding(CUBE, P())))] == ["0-7"]
    for shape in [(0,), (0, 5), (5, 0), (3, 4, 0)]:
        assert shown(shape, NamedSharding(CUBE, P("x"))) == "without elements: 0-7\n"


@pytest.mark.parametrize("shape", [(5, 4, 6), (3, 5, 4, 6), (2, 3, 2, 4, 5)])
def test_more_dims_have_a_panel_for_each_part(shape: tuple[int, ...]) -> None:
    spec = P(*"xyz"[: len(shape) - 1], None) if len(shape) < 5 else P("x", "y", "z")
    sharding = NamedSharding(CUBE, spec)
    text = shown(shape, sharding)
    titles = re.findall(r"\[[^]]*:, :\]", text)
    boxes = {str(index[:-2]) for index in sharding.devices_indices_map(shape).values()}
    assert len(titles) == len(set(titles)) == len(boxes)
    drawn = sorted(id for ids in re.findall(r"│ +([0-9,-]+) +(?=│)", text) for id in read_ids(ids))
    assert drawn == list(range(8))
    assert max(map(len, text.splitlines())) <= 80


@given(
    st.tuples(st.integers(1, 64), st.integers(1, 64)),
    st.sampled_from([spec for spec in SPECS if "z" not in str(spec)]),
    st.tuples(st.integers(1, 10**7), st.integers(1, 10**7)),
)
def test_a_picture_fits_a_terminal(sizes: tuple[int, int], spec: P, shape: tuple[int, int]) -> None:
    mesh = Mesh(np.arange(math.prod(sizes)).reshape(sizes), ("x", "y"))
    lines = shown(shape, NamedSharding(mesh, spec)).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 70


@pytest.mark.parametrize("shape", [(10**7,), (3, 10**7), (10**7, 3)])
def test_a_picture_with_room_for_a_long_tick_fits(shape: tuple[int, ...]) -> None:
    for width in range(20, 40):
        lines = shown(shape, NamedSharding(CUBE, P()), max_width=width, scale=9).splitlines()
        assert max(map(len, lines)) <= width


def test_as_many_panels_as_fit_are_beside_each_other() -> None:
    for width in range(40):
        lines = terminal_picture._side_by_side([[("panel", "panel")]] * 4, width)
        fit = sum(5 * count + 2 * (count - 1) <= width for count in range(1, 5))
        assert lines[0].count("panel") == max(1, fit), width
    assert lines[1:] == []
    assert terminal_picture._side_by_side([[("a", "a")], [("b", "b")]], 1) == ["a", "", "b"]


def test_too_many_blocks_leave_out_the_middle() -> None:
    mesh = Mesh(np.arange(100), "x")
    across = shown((1, 100), NamedSharding(mesh, P(None, "x")), max_width=40)
    texts = [text for _, text in regions("\n".join(across.splitlines()[1:]))]
    assert texts.count("...") == 1
    assert {"0", "1", "99"} <= set(texts)
    down = regions("\n".join(shown((100, 1), NamedSharding(mesh, P("x"))).splitlines()[1:]))
    assert sorted(text for _, text in down) == sorted([*map(str, range(14)), "...", "99"])
    narrow = shown((1, 100), NamedSharding(mesh, P(None, "x")), max_width=1).splitlines()
    assert [text for _, text in regions("\n".join(narrow[1:]))] == ["0", "...", "99"]


def test_what_is_left_out_is_as_long_as_the_one_before() -> None:
    edges, spans = [0, 1, 4, 6, 9, 10], [(0, 1), (1, 2), (2, 4), (4, 5)]
    assert terminal_picture._Sketch._lengths(None, edges, spans) == [1, 3, 3, 1]  # type: ignore[arg-type]


def test_a_picture_is_48_lines_high_at_most() -> None:
    mesh = Mesh(np.arange(4), "x")
    for shape, sharding in (((4, 4), P("x")), ((4, 4, 4), P(None, "x"))):
        lines = shown(shape, NamedSharding(mesh, sharding), scale=100).splitlines()
        assert sum(line.lstrip(" 01234")[:1] in LINES for line in lines if line.strip()) == 48


def test_long_labels_have_as_many_lines_as_they_need() -> None:
    lines = shown((3, 3), Scattered(), scale=0.1).splitlines()
    drawn = [read_ids(text) for _, text in regions("\n".join(lines[1:]))]
    assert sorted(map(min, drawn)) == [100, 106, 107]
    assert {device: min(ids) for ids in drawn for device in ids} == Scattered.first


def test_labels_of_more_than_16_characters_break_after_commas() -> None:
    assert terminal_picture._breakable("8,10,100,102,104") == "8,10,100,102,104"
    assert terminal_picture._breakable("8,10,100,102,1004") == "8, 10, 100, 102, 1004"


class Numbered(NamedTuple):
    id: int


class Scattered(Sharding):
    """One block has devices in a row, the others every second one: their labels are longer."""

    first: ClassVar = {n: 100 if n < 106 else 106 + n % 2 for n in range(100, 118)}
    device_set = frozenset(map(Numbered, first))  # type: ignore[assignment]

    def devices_indices_map(self, global_shape):  # type: ignore[no-untyped-def]
        rows = {100: slice(0, 1), 106: slice(1, 2), 107: slice(2, 3)}
        return {Numbered(n): (rows[first], slice(None)) for n, first in self.first.items()}


@pytest.mark.parametrize(
    ("color", "code", "ink"),
    [
        ((0, 0, 0), 16, 15),
        ((0, 0, 1), 21, 15),
        ((0, 1, 0), 46, 16),
        ((1, 0, 0), 196, None),
        ((1, 1, 1), 231, 16),
        ("#808080", 145, None),  # 128 is nearer to 153 than to 102
    ],
)
def test_colors_are_those_of_the_cube_of_256(color: Any, code: int, ink: int | None) -> None:
    """The text on them is white where they are dark, else black."""
    text = shown((8, 8), NamedSharding(CUBE, P("x")), Terminal(), color_map=lambda _: color)
    assert set(re.findall(r"48;5;(\d+);", text)) == {str(code)}
    assert ink is None or set(re.findall(r"38;5;(\d+)m", text)) == {str(ink)}


def test_colors_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    sharding = NamedSharding(CUBE, P("x", "y"))
    plain = shown((8, 8), sharding)
    colored = shown((8, 8), sharding, Terminal())
    assert COLORS.search(colored) and COLORS.sub("", colored) == plain
    assert len(set(COLORS.findall(colored))) == 4 + 1  # blocks, and the end of each
    assert shown((8, 8), sharding, Terminal(), use_color=False) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown((8, 8), sharding, Terminal()) == plain
    monkeypatch.delenv("NO_COLOR")
    asked: list[float] = []

    def gray(value: float) -> str | tuple[float, ...]:
        asked.append(value)
        return "#808080" if value else (0.5, 0.5, 0.5, 1.0)

    assert len(set(COLORS.findall(shown((8, 8), sharding, Terminal(), color_map=gray)))) == 2
    assert asked == [0, 1 / 3, 2 / 3, 1]


def test_what_is_left_out_has_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    many = NamedSharding(Mesh(np.arange(100), "x"), P(None, "x"))
    text = shown((1, 100), many, Terminal(), max_width=40)
    assert re.search(r"m *99 *\x1b", text)
    assert re.search(r"│ *\.\.\. *│", text)


def test_a_terminal_without_the_characters_gets_ascii() -> None:
    sharding = NamedSharding(CUBE, P("x", "y"))
    text = shown((8, 8), sharding, Terminal("ascii", colors=False))
    assert text.isascii()
    assert text.translate(str.maketrans("+-|", "???")) == "".join(
        "?" if c in LINES or c in "-" else c for c in shown((8, 8), sharding)
    )


def test_an_array_is_drawn_and_inspected_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    x = gs.device_put(np.ones((8, 6)), gs.NamedSharding(mesh, gs.P("x", "y")))
    found: list[Sharding] = []
    with gs.transfer_guard("disallow_explicit"):
        out = Terminal(colors=False)
        monkeypatch.setattr(sys, "stdout", out)
        gs.debug.visualize_array_sharding(x, scale=0.5)
        monkeypatch.undo()
        gs.debug.inspect_array_sharding({"a": x, "b": [x[0]]}, callback=found.append)
    assert out.getvalue().count(gs.default_backend().upper()) == 8
    assert found == [x.sharding, x[0].sharding]


def test_one_device_is_one_block() -> None:
    texts = [text for _, text in regions(shown((3, 3), SingleDeviceSharding("lonely"))[1:])]
    assert "0" in texts


def test_functions_that_are_mapped_are_shown_what_they_see() -> None:
    found: list[Any] = []

    def look(x: Any) -> Any:
        gs.debug.inspect_array_sharding({"x": x}, callback=found.append)
        gs.debug.visualize_array_sharding(x)
        return x

    with gs.testing.runtime(host_devices=8):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        value = np.arange(64.0).reshape(8, 8)
        x = gs.device_put(value, NamedSharding(mesh, P("x", "y")))
        gs.shard_map(look, mesh, P("x", "y"), P("x", "y"))(x)
        gs.shard_map(look, mesh, P("x"), P("x"), axis_names={"x"})(x)
        gs.shard_map(look, mesh, P(), P(), axis_names={"x"})(x)
        assert found == [
            NamedSharding(mesh, P(None, None)),
            NamedSharding(mesh, P(None, "y")),
            NamedSharding(mesh, P(None, "y")),
        ]
        gs.vmap(look)(x)
        assert found[3:] == [NamedSharding(mesh, P("y"))]
        gs.vmap(look)(gs.device_put(value, gs.devices()[3]))
        assert found[4:] == [SingleDeviceSharding(gs.devices()[3])]
        gs.pmap(look)(value)
        assert found[5].is_fully_replicated and found[5].device_set == set(gs.devices())
        gs.vmap(look)(gs.pmap(lambda x: x)(value))
        assert found[6].is_fully_replicated and found[6].device_set == set(gs.devices())
        leaked: list[Any] = []
        gs.vmap(lambda x: leaked.append(x) or x)(x)
        with pytest.raises(gs.errors.TracedValueError, match="has returned"):
            gs.debug.inspect_array_sharding(leaked, callback=found.append)
        assert len(found) == 7
        gs.jit(look)(x)
        gs.jit(gs.shard_map(look, mesh, P("x"), P("x"), axis_names={"x"}))(x)
    assert found[7:] == [x.sharding, NamedSharding(mesh, P(None, "y"))]


def test_parts_beyond_what_is_shown_are_counted() -> None:
    for count, said in ((16, None), (17, "and 1 parts more"), (20, "and 4 parts more")):
        mesh = Mesh(np.arange(count), "x")
        last = shown((count, 2, 2), NamedSharding(mesh, P("x"))).rstrip().splitlines()[-1]
        assert (last == said) if said else ("more" not in last)
