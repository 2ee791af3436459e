"""What a movement of several parts has to write and receive at least, element by element.

Like `element_oracle`, it knows nothing of gpushard. Every element of every source has a number of
its own; the result as an array of these numbers says where its elements come from, and -1 stands
for a constant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tests.movement.element_oracle import VIEW_ALIGNMENT, HasBoxes

Elements = tuple[int, ...]
Box = tuple[tuple[int, int], ...]


@dataclasses.dataclass
class Least:
    """What one domain has to do, in elements."""

    written: int = 0
    received: int = 0
    filled: int = 0
    kept: frozenset[Box] = frozenset()
    """The boxes of the result that share memory with a source."""


def boxes_of(
    side: HasBoxes, domain: Sequence[int], numbers: np.ndarray
) -> dict[int, dict[Box, Elements]]:
    """The distinct boxes with elements that each domain has, and their elements in order."""
    found: dict[int, dict[Box, Elements]] = {}
    for device, box in side.boxes(numbers.shape).items():
        elements = tuple(np.ravel(numbers[(*box, ...)]).tolist())
        bounds = tuple((part.start, part.stop) for part in box)
        mine = found.setdefault(domain[device], {})
        if elements:
            mine[bounds] = elements
    return found


def least(
    sources: Sequence[tuple[HasBoxes, np.ndarray]],
    destination: HasBoxes,
    result: np.ndarray,
    domain: Sequence[int],
    itemsize: int,
    kept: dict[int, frozenset[Box]] | None = None,
) -> dict[int, Least]:
    """W and R of every domain of the result.

    Args:
      sources: how each lies, and the numbers of its elements.
      destination: how the result lies.
      result: numbers of its elements.
      domain: memory domain of every device id.
      itemsize: bytes of an element.
      kept: the boxes that are not written, where that is known.
    """
    held: dict[int, list[Elements]] = {}
    for side, numbers in sources:
        for m, boxes in boxes_of(side, domain, numbers).items():
            held.setdefault(m, []).extend(boxes.values())
    found = {}
    for m, boxes in boxes_of(destination, domain, result).items():
        there = held.get(m, [])
        mine = kept[m] if kept is not None else _kept(there, boxes, itemsize)
        copied = [elements for box, elements in boxes.items() if box not in mine]
        wanted = {e for elements in copied for e in elements if e >= 0}
        found[m] = Least(
            written=sum(map(len, copied)),
            received=len(wanted.difference(*there)),
            filled=sum(elements.count(-1) for elements in copied),
            kept=mine,
        )
    return found


def _kept(held: list[Elements], boxes: dict[Box, Elements], itemsize: int) -> frozenset[Box]:
    """The boxes whose elements lie one after the other in a block that is worth keeping."""
    places = {}
    for box, elements in boxes.items():
        for number, block in enumerate(held):
            if elements[0] not in block:
                continue
            at = block.index(elements[0])
            aligned = at * itemsize % VIEW_ALIGNMENT == 0
            if block[at : at + len(elements)] == elements and aligned:
                places[box] = number
    useful: dict[int, int] = {}
    for number, elements in {(n, boxes[box]) for box, n in places.items()}:
        useful[number] = useful.get(number, 0) + len(elements)
    return frozenset(
        box
        for box, number in places.items()
        if len(boxes[box]) == len(held[number]) or 2 * useful[number] >= len(held[number])
    )
