"""What a movement has to write and receive at least, found element by element.

Written from the definitions in `movement.md` with plain Python and NumPy, and nothing of gpushard:
shards are lists of element numbers, and NumPy's own indexing says which element of the source
becomes which element of the result.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

Shape = tuple[int, ...]
Box = tuple[slice, ...]
Spec = tuple[tuple[int, ...], ...]
"""For each dim, the mesh axes that split it, most significant first."""

Part = Callable[[np.ndarray], np.ndarray]

VIEW_ALIGNMENT = 16
"""Bytes."""


@dataclasses.dataclass(frozen=True)
class Side:
    """A sharding as plain numbers: a mesh of device ids and a spec."""

    mesh: Shape
    devices: tuple[int, ...]
    """Device ids in the row-major order of the mesh."""
    spec: Spec

    @functools.lru_cache(maxsize=4096)  # noqa: B019
    def boxes(self, shape: Shape) -> dict[int, Box]:
        """The box of every device."""
        result = {}
        for device, block in self.blocks(len(shape)).items():
            box = []
            for dim, (n, number) in enumerate(zip(shape, block, strict=True)):
                size = math.ceil(n / self.count(dim))
                box.append(slice(min(number * size, n), min((number + 1) * size, n)))
            result[device] = tuple(box)
        return result

    def blocks(self, ndim: int) -> dict[int, Shape]:
        """The number of every device's block in every dim: first axis most significant."""
        result = {}
        for device, coordinates in zip(self.devices, np.ndindex(self.mesh), strict=True):
            block = [0] * ndim
            for dim, axes in enumerate(self.spec):
                for axis in axes:
                    block[dim] = block[dim] * self.mesh[axis] + coordinates[axis]
            result[device] = tuple(block)
        return result

    def count(self, dim: int) -> int:
        """Into how many blocks a dim is split."""
        return math.prod(self.mesh[axis] for axis in self.spec[dim]) if dim < len(self.spec) else 1


@functools.lru_cache(maxsize=4096)
def charges(side: Side, shape: Shape, domain: tuple[int, ...]) -> dict[int, int]:
    """Elements that every device pays for: holder (block mod holders) pays for a domain's block."""
    boxes = side.boxes(shape)
    holders: dict[tuple[int, Shape], list[int]] = {}
    for device, block in side.blocks(len(shape)).items():
        holders.setdefault((domain[device], block), []).append(device)
    result = dict.fromkeys(side.devices, 0)
    for (_, block), devices in holders.items():
        number = 0
        for dim, position in enumerate(block):
            number = number * side.count(dim) + position
        home = devices[number % len(devices)]
        result[home] += math.prod(part.stop - part.start for part in boxes[home])
    return result


class HasBoxes(Protocol):
    """Whatever says which box every device holds; compared by value."""

    def boxes(self, shape: Shape) -> dict[int, Box]:
        """The box of every device id."""

    def __hash__(self) -> int: ...


@dataclasses.dataclass
class Bound:
    """What one memory domain has to write and receive, in elements."""

    written: int = 0
    received: int = 0
    aliased: int = 0
    viewed: int = 0
    missing: int = 0
    """The elements that are received, as a set of bits."""


@dataclasses.dataclass(frozen=True)
class Block:
    """A distinct non-empty shard of one domain: its elements in memory order."""

    elements: tuple[int, ...]
    mask: int
    """The same as a set: bit e is set for element e."""


def bounds(
    shape: Shape,
    source: HasBoxes,
    destination: HasBoxes,
    domain: tuple[int, ...],
    itemsize: int,
    part: Part = np.asarray,
    *,
    reuse: bool = True,
) -> dict[int, Bound]:
    """W and R of every domain that holds a part of the result.

    Args:
      shape: shape of the source.
      source: how it lies.
      destination: how the result shall lie.
      domain: memory domain of every device id.
      itemsize: bytes of an element; every source block starts aligned.
      part: gives the result from the source, as NumPy would; the whole by default.
      reuse: whether blocks may be aliased and viewed.
    """
    numbers = np.arange(math.prod(shape)).reshape(shape)
    held = blocks_of(source, domain, numbers)
    wanted = blocks_of(destination, domain, part(numbers))
    return {m: _bound(held.get(m, ()), blocks, itemsize, reuse) for m, blocks in wanted.items()}


def blocks_of(
    side: HasBoxes, domain: tuple[int, ...], numbers: Any
) -> dict[int, tuple[Block, ...]]:
    """The distinct non-empty blocks of every domain; `numbers` says which element is where."""
    return _cached_blocks(side, domain, numbers.shape, numbers.tobytes())


@functools.lru_cache(maxsize=4096)
def _cached_blocks(
    side: HasBoxes, domain: tuple[int, ...], shape: Shape, key: bytes
) -> dict[int, tuple[Block, ...]]:
    numbers = np.ndarray(shape, np.int64, key)
    found: dict[int, dict[tuple[int, ...], None]] = {}
    for device, box in side.boxes(shape).items():
        blocks = found.setdefault(domain[device], {})
        elements = tuple(numbers[box].ravel().tolist())
        if elements:
            blocks[elements] = None
    return {
        m: tuple(Block(elements, sum(1 << e for e in elements)) for elements in blocks)
        for m, blocks in found.items()
    }


def _bound(held: tuple[Block, ...], wanted: tuple[Block, ...], itemsize: int, reuse: bool) -> Bound:
    """One domain, whose blocks are distinct; they may overlap."""
    held = tuple(sorted(held, key=lambda b: (-len(b.elements), b.elements[0], b.elements[-1])))
    result, views, useful = Bound(), {}, [0] * len(held)
    copied = []
    for block in wanted:
        place = _place(held, block) if reuse else None
        if place is None:
            copied.append(block)
            continue
        root, offset = place
        if offset * itemsize % VIEW_ALIGNMENT:
            copied.append(block)
            continue
        useful[root] += len(block.elements)
        if len(block.elements) == len(held[root].elements):
            result.aliased += len(block.elements)
        else:
            views[block] = root
    for block, root in views.items():
        if 2 * useful[root] >= len(held[root].elements):
            result.viewed += len(block.elements)
        else:
            copied.append(block)
    needed = functools.reduce(int.__or__, (block.mask for block in copied), 0)
    there = functools.reduce(int.__or__, (block.mask for block in held), 0)
    result.written = sum(len(block.elements) for block in copied)
    result.missing = needed & ~there
    result.received = result.missing.bit_count()
    return result


def _place(held: tuple[Block, ...], block: Block) -> tuple[int, int] | None:
    """Where the elements lie one after another in the memory of a held block, if they do.

    An equal block comes first, then the first of those with the first element.
    """
    for number, candidate in enumerate(held):
        if candidate.elements == block.elements:
            return number, 0
    for number, candidate in enumerate(held):
        if candidate.mask >> block.elements[0] & 1:
            offset = candidate.elements.index(block.elements[0])
            stretch = candidate.elements[offset : offset + len(block.elements)]
            return (number, offset) if stretch == block.elements else None
    return None


def all_specs(ndim: int, axes: int) -> Iterator[Spec]:
    """Every way to split `ndim` dims by some of the mesh axes, in every order of the axes."""
    for used in range(axes + 1):
        for order in itertools.permutations(range(axes), used):
            for cuts in itertools.combinations_with_replacement(range(used + 1), ndim - 1):
                edges = (0, *cuts, used)
                yield tuple(order[a:b] for a, b in itertools.pairwise(edges))
