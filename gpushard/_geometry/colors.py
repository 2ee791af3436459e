"""Choose colours for pictures of shardings, on a terminal and in a notebook."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from gpushard._geometry.pictures import Tile

Color: TypeAlias = tuple[int, int, int]
ColorMap: TypeAlias = Callable[[float], Any]

_TURN = (math.sqrt(5) - 1) / 2


def colors(blocks: Sequence[Tile], color_map: ColorMap | None = None) -> list[Color]:
    """Return a colour for each block: by memory domain, or by device if there is only one domain.

    Args:
      blocks: the blocks of a picture.
      color_map: a function from a number between 0 and 1 to red, green and blue between 0 and 1,
        such as matplotlib's color maps, or to "#rrggbb". None gives neighbours distinct colours.
    """
    domains = {getattr(device, "memory_domain", None) for b in blocks for device in b.devices}
    keys = [
        str(getattr(b.devices[0], "memory_domain", None)) if len(domains) > 1 else b.ids[0]
        for b in blocks
    ]
    numbers = {key: n for n, key in enumerate(dict.fromkeys(keys))}
    last = max(len(numbers) - 1, 1)
    return [
        _distinct_color(numbers[key]) if color_map is None else _rgb(color_map(numbers[key] / last))
        for key in keys
    ]


def is_dark(color: Color) -> bool:
    """Test whether white text is easier to read on a colour than black text."""
    red, green, blue = color
    return 0.299 * red + 0.587 * green + 0.114 * blue < 128


def _distinct_color(number: int) -> Color:
    """Return a colour with a hue far from those of the smaller numbers."""
    lightness = (0.62, 0.75, 0.5)[number % 3]
    return _rgb(colorsys.hls_to_rgb(number * _TURN, lightness, 0.5))


def _rgb(color: Any) -> Color:
    if isinstance(color, str):
        red, green, blue = bytes.fromhex(color[1:])[:3]
    else:
        red, green, blue = (round(255 * float(part)) for part in tuple(color)[:3])
    return red, green, blue
