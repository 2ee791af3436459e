"""The contents of a picture of a sharding: panels with blocks and their devices.

A panel shows the last two dims. With more dims, there is a panel for each part of the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.memory_kind import device_of
from gpushard._geometry.sharding import Sharding
from gpushard._typing import Device, Shape

Range: TypeAlias = tuple[int, int]

_MOST_RUNS = 8


@dataclass(frozen=True)
class Tile:
    """A part of an array that devices hold in one piece."""

    box: tuple[Range, ...]  # start and stop in each dim
    devices: tuple[Device, ...]  # the devices that hold it
    ids: tuple[int, ...]  # their ids; devices without ids have positions in the sharding

    @property
    def label(self) -> str:
        """The platform and the ids."""
        platform = getattr(self.devices[0], "platform", "")
        return f"{platform.upper()} {format_ids(self.ids)}".strip()


@dataclass(frozen=True)
class Panel:
    """The blocks within one part of the dims before the last two."""

    leading: tuple[Range, ...]  # start and stop of the dims before the last two
    blocks: tuple[Tile, ...]  # the blocks in the panel

    @property
    def title(self) -> str:
        """The part of the array as an index; empty for two dims or less."""
        return f"[{', '.join([f'{a}:{b}' for a, b in self.leading] + [':', ':'])}]"


@dataclass(frozen=True)
class Picture:
    """The picture of a sharding for one shape."""

    shape: Shape  # shape of the array
    panels: tuple[Panel, ...]  # in the order of their parts; none for an array without elements
    idle: tuple[int, ...]  # ids of devices without elements


def picture(sharding: Sharding, shape: Shape) -> Picture:
    """Compute the picture of a sharding for a shape; pure.

    Raises:
      ShardingError: the sharding does not fit the shape.

    >>> from gpushard._geometry.sharding import SingleDeviceSharding
    >>> picture(SingleDeviceSharding("a"), (4, 5)).panels[0].blocks[0].box
    ((0, 4), (0, 5))
    """
    held: dict[tuple[Range, ...], list[tuple[int, Device]]] = {}
    idle = []
    tiling = sharding.tiling(shape)
    boxes = np.stack([tiling.starts, tiling.stops], -1).transpose(1, 0, 2).tolist()
    for position, (place, edges) in enumerate(zip(tiling.devices, boxes, strict=True)):
        device, box = device_of(place), tuple(map(tuple, edges))
        numbered = getattr(device, "id", position), device
        if all(start < stop for start, stop in box):
            held.setdefault(box, []).append(numbered)
        else:
            idle.append(numbered[0])
    if sum(map(_volume, held)) > math.prod(shape):
        held = _cut_at_all_edges(held)
    blocks = [
        Tile(box, tuple(d for _, d in holders), tuple(i for i, _ in holders))
        for box, holders in sorted(held.items())
    ]
    leading = [_spans(b.box[dim] for b in blocks) for dim in range(len(shape) - 2)]
    panels = [
        Panel(part, tuple(b for b in blocks if _meet(b.box, part)))
        for part in (itertools.product(*leading) if blocks else ())
    ]
    return Picture(shape, tuple(panels), tuple(idle))


def format_ids(ids: Iterable[int]) -> str:
    """Write device ids with ranges, and shorten long lists.

    >>> format_ids([0, 1, 2, 3]), format_ids([6, 3, 1, 0]), format_ids(range(0, 64, 2))
    ('0-3', '0-1,3,6', '0,...,62')
    """
    runs: list[Range] = []
    for id in sorted(ids):
        if runs and runs[-1][1] == id - 1:
            runs[-1] = runs[-1][0], id
        else:
            runs.append((id, id))
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ",".join(texts if len(texts) <= _MOST_RUNS else [texts[0], "...", texts[-1]])


def _volume(box: tuple[Range, ...]) -> int:
    return math.prod(stop - start for start, stop in box)


def _spans(ranges: Iterable[Range]) -> list[Range]:
    """Return the ranges between neighbouring edges of other ranges."""
    return list(itertools.pairwise(sorted({edge for range in ranges for edge in range})))


def _meet(box: Sequence[Range], part: Sequence[Range]) -> bool:
    return all(a < d and c < b for (a, b), (c, d) in zip(box, part, strict=False))


def _cut_at_all_edges(
    held: dict[tuple[Range, ...], list[tuple[int, Device]]],
) -> dict[tuple[Range, ...], list[tuple[int, Device]]]:
    """Cut overlapping boxes at the edges of all boxes, and join the holders of equal parts."""
    edges = [np.unique([box[dim] for box in held]) for dim in range(len(next(iter(held))))]
    cells: dict[tuple[Range, ...], list[tuple[int, Device]]] = {}
    for box, holders in held.items():
        within = [
            itertools.pairwise(along[(along >= a) & (along <= b)].tolist())
            for along, (a, b) in zip(edges, box, strict=True)
        ]
        for cell in itertools.product(*within):
            cells.setdefault(cell, []).extend(holders)
    return cells
