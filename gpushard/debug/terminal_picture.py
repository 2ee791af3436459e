"""Draw pictures of shardings with characters."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from gpushard._geometry.colors import Color, ColorMap, colors, is_dark
from gpushard._geometry.pictures import Panel, Picture, Range, Tile, format_ids

_Line: TypeAlias = tuple[str, str]
"""The printed text, and the text without colours, which has the right width."""

_ROWS, _ASPECT = 10, 2.5
_MOST_ROWS, _MOST_PANELS = 16, 16
_LABEL = 16
_GAP = "..."
_RIGHT, _LEFT, _DOWN, _UP = 1, 2, 4, 8
_UNICODE = " ╶╴─╷┌┐┬╵└┘┴│├┤┼"
_ASCII = " ---|+++|+++|+++"


def lines_of(
    picture: Picture,
    *,
    colored: bool,
    unicode: bool,
    scale: float,
    min_width: int,
    max_width: int,
    color_map: ColorMap | None,
) -> list[str]:
    """Draw a picture as lines; for the arguments see `gpushard.debug.visualize_sharding`."""
    blocks = list(dict.fromkeys(block for panel in picture.panels for block in panel.blocks))
    paint = dict(zip(blocks, colors(blocks, color_map), strict=True)) if colored else {}
    ndim = min(len(picture.shape), 2)
    ends = picture.shape[len(picture.shape) - ndim :]
    charset = _UNICODE if unicode else _ASCII
    shown = picture.panels[:_MOST_PANELS]
    drawn = []
    if blocks:
        sketch = _Sketch(blocks, ends, scale, min_width, max_width)
        drawn = [sketch.draw(panel, paint, charset) for panel in shown]
    result = _side_by_side(drawn, max_width)
    if len(picture.panels) > len(shown):
        result.append(f"and {len(picture.panels) - len(shown)} parts more")
    if picture.idle:
        result.append(f"without elements: {format_ids(picture.idle)}")
    return result


class _Sketch:
    """Positions of the lines and columns of all panels of a picture.

    Args:
      blocks: the blocks of all panels.
      ends: lengths of the last two dims, or of one or none.
      scale, min_width, max_width: see `gpushard.debug.visualize_sharding`.
    """

    def __init__(
        self, blocks: list[Tile], ends: Sequence[int], scale: float, min_width: int, max_width: int
    ) -> None:
        self._labels = {block: textwrap.wrap(_breakable(block.label), _LABEL) for block in blocks}
        text = max(len(line) for label in self._labels.values() for line in label)
        text = max(text, len(_GAP))
        self._tall = max(map(len, self._labels.values()))
        self._standing = False
        if len(ends) == 1:
            room = max_width - len(str(ends[0]))
            step = max(text, len(str(ends[0]))) + 1
            self._standing = (len(self._edges(blocks, 1)) - 1) * step > room
        self._ticked = (
            len(ends) == 2 or self._standing,
            len(ends) == 2 or (len(ends) == 1 and not self._standing),
        )
        self.rows, self.columns = self._edges(blocks, 0), self._edges(blocks, 1)
        self._margin = len(str(self.rows[-1])) + 1 if self._ticked[0] else 0
        tick = len(str(self.columns[-1])) if self._ticked[1] else 0
        room = max_width - self._margin - max(tick, 1)
        least = max(text, tick)
        if (len(self.columns) - 1) * (max(min_width, least) + 1) <= room:
            least = max(min_width, least)
        scale = scale / 2 if len(blocks[0].box) > 2 else scale
        aspect = self.columns[-1] / self.rows[-1] if len(ends) == 2 else 1
        wide = min(_ROWS * _ASPECT * scale * aspect, room)
        self._across = _spans(len(self.columns) - 1, max(3, room // (least + 1)))
        self._down = _spans(len(self.rows) - 1, _MOST_ROWS)
        self._widths = to_scale(self._lengths(self.columns, self._across), wide, least, room)
        tall = _ROWS * scale if self._ticked[0] else self._tall
        self._heights = to_scale(
            self._lengths(self.rows, self._down), tall, self._tall, 3 * _MOST_ROWS
        )

    def _edges(self, blocks: list[Tile], dim: int) -> list[int]:
        return sorted({edge for block in blocks for edge in self._plane(block)[dim]})

    def _plane(self, block: Tile) -> tuple[Range, Range]:
        """Return rows and columns of a block."""
        if len(block.box) == 1 and self._standing:
            return block.box[0], (0, 1)
        rows, columns = ((0, 1), (0, 1), *block.box)[-2:]
        return rows, columns

    def _lengths(self, edges: list[int], spans: list[Range]) -> list[int]:
        """Return the lengths of spans; an omitted part is as long as the span before it."""
        along = [edges[stop] - edges[start] for start, stop in spans]
        return [
            n if stop - start == 1 else along[i - 1]
            for i, (n, (start, stop)) in enumerate(zip(along, spans, strict=True))
        ]

    def draw(self, panel: Panel, paint: dict[Tile, Color], charset: str) -> list[_Line]:
        """Draw one panel."""
        owners = self._owners(panel)
        x = [0, *itertools.accumulate(width + 1 for width in self._widths)]
        y = [0, *itertools.accumulate(height + 1 for height in self._heights)]
        bits, owned = np.zeros((y[-1] + 1, x[-1] + 1), int), np.full((y[-1] + 1, x[-1] + 1), -1)
        fence = np.pad(owners, 1, constant_values=-2)
        for i, j in np.ndindex(len(y), len(x) - 1):
            if fence[i, j + 1] != fence[i + 1, j + 1]:
                bits[y[i], x[j] : x[j + 1]] |= _RIGHT
                bits[y[i], x[j] + 1 : x[j + 1] + 1] |= _LEFT
        for i, j in np.ndindex(len(y) - 1, len(x)):
            if fence[i + 1, j] != fence[i + 1, j + 1]:
                bits[y[i] : y[i + 1], x[j]] |= _DOWN
                bits[y[i] + 1 : y[i + 1] + 1, x[j]] |= _UP
        text = np.array(list(charset))[bits]
        for owner in np.unique(owners):
            rows, columns = (np.unique(at) for at in np.nonzero(owners == owner))
            top, bottom = y[rows[0]] + 1, y[rows[-1] + 1]
            left, right = x[columns[0]] + 1, x[columns[-1] + 1]
            gap = owner >= len(panel.blocks)
            label = [_GAP] if gap else self._labels[panel.blocks[owner]]
            owned[top:bottom, left:right] = -1 if gap else owner
            first = (top + bottom - len(label)) // 2
            for n, line in enumerate(label):
                start = (left + right - len(line)) // 2
                text[first + n, start : start + len(line)] = list(line)
        owned[bits > 0] = -1
        return self._with_ticks(panel, text, owned, [paint.get(b) for b in panel.blocks], x, y)

    def _owners(self, panel: Panel) -> np.ndarray[tuple[int, int], np.dtype[np.int_]]:
        """Return the block in each cell; the number of blocks for a cell with several."""
        count = len(panel.blocks)
        cells = np.arange(count, count + len(self._down) * len(self._across))
        owners = cells.reshape(len(self._down), len(self._across))
        for number, block in enumerate(panel.blocks):
            inside = [
                [stop - start == 1 and low <= edges[start] < high for start, stop in spans]
                for (low, high), edges, spans in zip(
                    self._plane(block),
                    (self.rows, self.columns),
                    (self._down, self._across),
                    strict=True,
                )
            ]
            owners[np.ix_(*inside)] = number
        return owners

    def _with_ticks(
        self,
        panel: Panel,
        text: np.ndarray[tuple[int, int], np.dtype[np.str_]],
        owned: np.ndarray[tuple[int, int], np.dtype[np.int_]],
        paint: list[Color | None],
        x: list[int],
        y: list[int],
    ) -> list[_Line]:
        """Write the bounds of blocks next to the lines."""
        lines = [(panel.title, panel.title)] if panel.leading else []
        if self._ticked[1]:
            at = [self.columns[start] for start, _ in self._across] + [self.columns[-1]]
            gaps = [b - a for a, b in itertools.pairwise(x)] + [0]
            ticks = "".join(str(tick).ljust(gap) for tick, gap in zip(at, gaps, strict=True))
            line = " " * self._margin + ticks.rstrip()
            lines.append((line, line))
        at = [self.rows[start] for start, _ in self._down] + [self.rows[-1]]
        numbers = dict(zip(y, at, strict=True)) if self._ticked[0] else {}
        for row, characters in enumerate(text):
            tick = f"{numbers.get(row, '')} ".rjust(self._margin) if self._margin else ""
            plain = "".join(characters)
            lines.append((tick + _paint_line(plain, owned[row].tolist(), paint), tick + plain))
        return lines


def to_scale(lengths: Sequence[int], total: float, least: int, most: int) -> list[int]:
    """Divide characters among spans, in proportion to their lengths if none is too short.

    Args:
      lengths: the lengths of the spans.
      total: the number of characters to divide.
      least: the least number of characters of a span.
      most: the most characters of all spans and the lines around them, if that is enough.

    >>> to_scale([3, 3, 2], 24, 2, 80), to_scale([100, 1], 24, 4, 30)
    ([9, 9, 6], [23, 4])
    """
    count, full = len(lengths), sum(lengths)
    room = max(most - count - 1, count * least)
    space = min(max(total, least * full / min(lengths)), room)
    short: set[int] = set()
    while True:
        rest = sum(n for i, n in enumerate(lengths) if i not in short)
        part = (space - least * len(short)) / rest if rest else 0.0
        more = {i for i, n in enumerate(lengths) if i not in short and n * part < least}
        if not more:
            break
        short |= more
    sizes = [least if i in short else n * part for i, n in enumerate(lengths)]
    ends = [math.floor(end + 0.5 + 1e-9) for end in itertools.accumulate(sizes)]
    return [stop - start for start, stop in itertools.pairwise([0, *ends])]


def _spans(count: int, most: int) -> list[Range]:
    """Return the ranges of blocks to draw; a range of several blocks is omitted.

    >>> _spans(3, 4), _spans(9, 4)
    ([(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 2), (2, 8), (8, 9)])
    """
    if count <= most:
        return [(i, i + 1) for i in range(count)]
    return [*((i, i + 1) for i in range(most - 2)), (most - 2, count - 1), (count - 1, count)]


def _breakable(label: str) -> str:
    """Allow a long label to break after its commas."""
    return label if len(label) <= _LABEL else label.replace(",", ", ")


def _paint_line(line: str, owned: list[int], paint: list[Color | None]) -> str:
    """Colour the characters of blocks."""
    parts = []
    at = 0
    for owner, run in itertools.groupby(owned):
        stop = at + len(list(run))
        part, at = line[at:stop], stop
        color = None if owner < 0 else paint[owner]
        if color is not None:
            red, green, blue = (round(5 * value / 255) for value in color)
            back, fore = 16 + 36 * red + 6 * green + blue, 15 if is_dark(color) else 16
            part = f"\x1b[48;5;{back};38;5;{fore}m{part}\x1b[0m"
        parts.append(part)
    return "".join(parts)


def _side_by_side(drawn: list[list[_Line]], width: int) -> list[str]:
    """Put panels side by side, as many as fit."""
    if not drawn:
        return []
    wide = max(len(plain) for lines in drawn for _, plain in lines)
    beside = max(1, (width + 2) // (wide + 2))
    result = []
    for first in range(0, len(drawn), beside):
        group = drawn[first : first + beside]
        result += [""] * (first > 0)
        for row in zip(*group, strict=True):
            padded = [text + " " * (wide - len(plain)) for text, plain in row]
            result.append("  ".join(padded).rstrip())
    return result
