"""Plain-text drawings of how an array lies over devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from gpushard.geometry.memory_kind import device_of
from gpushard.geometry.sharding import Sharding
from gpushard.typing import Shape

_Interval: TypeAlias = tuple[int, int]
_Boxes: TypeAlias = dict[int, list[_Interval]]

_MOST_ROWS = 16
_GAP = "..."


def draw_sharding(sharding: Sharding, shape: Shape, *, width: int = 80) -> str:
    """Draw which devices hold which block of an array.

    Blocks are boxes with device ids in them; the numbers at the lines are where blocks begin and
    end. Of an array with more than two dims the first two are drawn. Blocks that do not fit are
    left out in the middle.

    Args:
      sharding: how the array is laid out.
      shape: shape of the array.
      width: columns of the terminal.

    Returns:
      The drawing: lines of ASCII, without a line break at the end.

    Raises:
      ShardingError: the sharding does not fit the shape.

    >>> from gpushard.geometry.mesh import Mesh
    >>> from gpushard.geometry.partition_spec import P
    >>> from gpushard.geometry.named_sharding import NamedSharding
    >>> mesh = Mesh([["a", "b"], ["c", "d"]], ("x", "y"))
    >>> print(draw_sharding(NamedSharding(mesh, P("x")), (5, 8)))
      0     8
    0 +-----+
      | 0-1 |
    3 +-----+
      | 2-3 |
    5 +-----+
    """
    boxes = _boxes(sharding, shape)
    held = {id: box for id, box in boxes.items() if all(start < stop for start, stop in box)}
    idle = [id for id in boxes if id not in held]
    lines = _draw(held, len(shape), width) if held else []
    if len(shape) > 2:
        lines.append(f"dims 0 and 1 of {len(shape)}; devices of one box may differ in the others")
    if idle:
        lines.append(f"without elements: {format_ids(idle)}")
    return "\n".join(lines)


def format_ids(ids: Iterable[int]) -> str:
    """Write device ids with ranges, shortened where there are many.

    >>> format_ids([0, 1, 2, 3]), format_ids([6, 3, 1, 0]), format_ids(range(0, 64, 2))
    ('0-3', '0-1,3,6', '0,...,62')
    """
    runs: list[_Interval] = []
    for id in sorted(ids):
        if runs and runs[-1][1] == id - 1:
            runs[-1] = runs[-1][0], id
        else:
            runs.append((id, id))
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ",".join(texts if len(texts) <= 4 else [texts[0], _GAP, texts[-1]])


def _boxes(sharding: Sharding, shape: Shape) -> _Boxes:
    """Return the box of each device, by device id."""
    tiling = sharding.tiling(shape)
    bounds = zip(tiling.starts.T.tolist(), tiling.stops.T.tolist(), strict=True)
    return {
        getattr(device_of(place), "id", position): list(zip(low, high, strict=True))
        for position, (place, (low, high)) in enumerate(zip(tiling.devices, bounds, strict=True))
    }


def _draw(boxes: _Boxes, ndim: int, width: int) -> list[str]:
    """Draw boxes that hold elements; a 1-D array lies across where that fits, else it stands."""
    unit: _Interval = (0, 1)
    if ndim == 1:
        across = _Grid({id: [unit, box[0]] for id, box in boxes.items()}, (False, True))
        if len(across.edges[1]) - 1 <= across.columns_within(width):
            return across.lines(width)
    planes = {id: [*box, unit, unit][:2] for id, box in boxes.items()}
    return _Grid(planes, (ndim >= 1, ndim >= 2)).lines(width)


class _Grid:
    """Cells between the edges of 2-D boxes."""

    def __init__(self, boxes: _Boxes, ticked: tuple[bool, bool]) -> None:
        self.edges = [
            sorted({edge for box in boxes.values() for edge in box[dim]}) for dim in (0, 1)
        ]
        self._ticked = ticked
        self._texts = _cell_texts(boxes, self.edges)
        self._tick_widths = [
            max(len(str(edge)) for edge in edges) if shown else 0
            for edges, shown in zip(self.edges, ticked, strict=True)
        ]
        self._inner = max(
            *(len(text) + 2 for text in (*self._texts.values(), _GAP)), self._tick_widths[1] + 1
        )

    def columns_within(self, width: int) -> int:
        """Return how many columns fit, with the number after the last line."""
        room = width - (self._tick_widths[0] + 1) - max(1, self._tick_widths[1])
        return max(3, room // (self._inner + 1))

    def lines(self, width: int) -> list[str]:
        """Return the drawing."""
        rows = _spans(len(self.edges[0]) - 1, _MOST_ROWS)
        columns = _spans(len(self.edges[1]) - 1, self.columns_within(width))
        rule = "+" + ("-" * self._inner + "+") * len(columns)
        ticks = [tick.ljust(self._inner + 1) for tick in self._ticks(1, columns)]
        lines = [("", "".join(ticks))] if self._ticked[1] else []
        for row, tick in zip(rows, self._ticks(0, rows), strict=False):
            lines += [(tick, rule), ("", self._body(row, columns))]
        lines.append((self._ticks(0, rows)[-1], rule))
        margin = self._tick_widths[0]
        gap = " " if self._ticked[0] else ""
        return [f"{tick:>{margin}}{gap}{text}".rstrip() for tick, text in lines]

    def _body(self, row: _Interval, columns: list[_Interval]) -> str:
        texts = [self._text(row, column).center(self._inner) for column in columns]
        return f"|{'|'.join(texts)}|"

    def _text(self, row: _Interval, column: _Interval) -> str:
        if max(stop - start for start, stop in (row, column)) > 1:
            return _GAP
        return self._texts.get((row[0], column[0]), "")

    def _ticks(self, dim: int, spans: list[_Interval]) -> list[str]:
        """Return what stands at each line of the grid."""
        at = [start for start, _ in spans] + [spans[-1][1]]
        return [str(self.edges[dim][i]) if self._ticked[dim] else "" for i in at]


def _spans(count: int, most: int) -> list[_Interval]:
    """Return the ranges of blocks to draw; one of more than one block is left out.

    >>> _spans(3, 4), _spans(9, 4)
    ([(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 2), (2, 8), (8, 9)])
    """
    if count <= most:
        return [(i, i + 1) for i in range(count)]
    return [*((i, i + 1) for i in range(most - 2)), (most - 2, count - 1), (count - 1, count)]


def _cell_texts(boxes: _Boxes, edges: list[list[int]]) -> dict[_Interval, str]:
    """Return the devices of each cell (row, column) as text."""
    rows, columns = ({edge: i for i, edge in enumerate(along)} for along in edges)
    held: dict[_Interval, list[int]] = {}
    for id, ((top, bottom), (left, right)) in boxes.items():
        for row in range(rows[top], rows[bottom]):
            for column in range(columns[left], columns[right]):
                held.setdefault((row, column), []).append(id)
    return {cell: format_ids(ids) for cell, ids in held.items()}
