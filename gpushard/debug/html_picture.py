"""Show arrays in notebooks, as an SVG picture of shape and sharding."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from gpushard._array.library_protocols import provide
from gpushard._geometry.colors import Color, colors, is_dark
from gpushard._geometry.pictures import Panel, Picture, Tile, format_ids, picture
from gpushard._typing import Shape

_SIDE, _GAP, _LEAST, _MOST_ASPECT = 220.0, 16.0, 24.0, 4.0
_LETTER, _LINE = 7.0, 15.0
_ACROSS, _MOST_PANELS = 3, 12


def array_html(x: Any) -> str | None:
    """Draw an array on several devices as HTML, without reading its data."""
    if x.is_deleted() or x.sharding.num_devices == 1:
        return None
    facts = f"shape={x.shape}, dtype={x.dtype.name}, sharding={x.sharding!r}"
    return f"<div><code>Array({escape(facts)})</code><br>{svg(picture(x.sharding, x.shape))}</div>"


def svg(drawn: Picture) -> str:
    """Draw a picture as SVG: panels side by side, with the area of each block to scale.

    >>> from gpushard._geometry.sharding import SingleDeviceSharding
    >>> svg(picture(SingleDeviceSharding("a"), (4, 4))).count("<rect")
    1
    """
    wide, tall = _extent(drawn.shape)
    blocks = list(dict.fromkeys(block for panel in drawn.panels for block in panel.blocks))
    paint = dict(zip(blocks, colors(blocks), strict=True))
    shown = drawn.panels[:_MOST_PANELS]
    head = _LINE if len(drawn.shape) > 2 else 0.0
    parts = []
    for number, panel in enumerate(shown):
        row, column = divmod(number, _ACROSS)
        left, top = column * (wide + _GAP), row * (tall + _GAP + head) + head
        parts += _panel(panel, drawn.shape, paint, (left, top, wide, tall))
    rows = -(-len(shown) // _ACROSS)
    bottom = rows * (tall + _GAP + head)
    for note in _notes(drawn):
        bottom += _LINE
        parts.append(f'<text x="0" y="{bottom - 4:g}">{escape(note)}</text>')
    width = max(min(len(shown), _ACROSS) * (wide + _GAP), 2 * _SIDE)
    style = 'font-family="monospace" font-size="11" fill="currentColor"'
    size = f'width="{width + 2:g}" height="{bottom + 2:g}"'
    box = f'viewBox="-1 -1 {width + 2:g} {bottom + 2:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} {style}>\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _extent(shape: Shape) -> tuple[float, float]:
    """Return width and height of a panel, bounded also for very long dims."""
    if len(shape) < 2:
        return 2 * _SIDE, 2 * _LEAST
    rows, columns = shape[-2:]
    aspect = min(max(columns / max(rows, 1), 1 / _MOST_ASPECT), _MOST_ASPECT)
    return (_SIDE, _SIDE / aspect) if aspect > 1 else (_SIDE * aspect, _SIDE)


def _panel(
    panel: Panel, shape: Shape, paint: dict[Tile, Color], at: tuple[float, float, float, float]
) -> list[str]:
    left, top, wide, tall = at
    sizes = (1, 1, *shape)[-2:]
    parts = []
    if panel.leading:
        parts.append(f'<text x="{left:g}" y="{top - 4:g}">{escape(panel.title)}</text>')
    for block in panel.blocks:
        plane = np.array(((0, 1), (0, 1), *block.box)[-2:]) / np.array(sizes)[:, None]
        y, x = plane[0] * tall + top, plane[1] * wide + left
        width, height = x[1] - x[0], y[1] - y[0]
        box = ", ".join(f"{a}:{b}" for a, b in block.box)
        title = escape(f"[{box}] on {', '.join(map(repr, block.devices))}")
        fill = "#{:02x}{:02x}{:02x}".format(*paint[block])
        parts.append(
            f'<rect x="{x[0]:.6g}" y="{y[0]:.6g}" width="{width:.6g}" height="{height:.6g}" '
            f'fill="{fill}" stroke="#222"><title>{title}</title></rect>'
        )
        label = block.label
        if len(label) * _LETTER > width:
            label = label.rpartition(" ")[2]
        if len(label) * _LETTER <= width and height >= _LINE:
            ink = "#fff" if is_dark(paint[block]) else "#000"
            parts.append(
                f'<text x="{x.mean():.6g}" y="{y.mean():.6g}" text-anchor="middle" '
                f'dominant-baseline="central" fill="{ink}">{escape(label)}</text>'
            )
    return parts


def _notes(drawn: Picture) -> list[str]:
    notes = []
    if len(drawn.panels) > _MOST_PANELS:
        notes.append(f"and {len(drawn.panels) - _MOST_PANELS} parts more")
    if drawn.idle:
        ids = format_ids(drawn.idle)
        notes.append(f"without elements: {ids}")
    return notes


provide("_repr_html_", array_html)
