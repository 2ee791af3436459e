"""Kernels of regions from NumPy's functions, tile by tile: what is between them stays in cache."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpushard.ops.aval import Dtype
from gpushard.ops.row import Kernel, Params
from gpushard.typing import LocalArray, Shape

_TILE = 1 << 18
"""Elements of a tile: some tiles together stay in a core's cache, and calls take longer than the
interpreter's lock is held between them."""


_SMALL = 1 << 12
"""Elements of a block that is small."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One operation of a region."""

    kernel: Kernel  # does it
    operands: tuple[tuple[int | None, Any], ...]  # of each the place, or else the number
    place: int  # of its result
    dtype: Dtype  # of its result
    reduced: bool  # whether that has length 1 along the dims that the region reduces
    name: str = ""  # of the operation
    params: Params = ()  # its parameters
    types: tuple[Dtype, ...] = ()  # of the operands, when it sees them
    reduces: bool = False  # whether it is what reduces


class Scratch(threading.local):
    """Memory of one thread for what is between operations."""

    def __init__(self) -> None:
        self.slots: list[LocalArray] = []

    def array(self, slot: int, shape: Shape, dtype: Dtype) -> LocalArray:
        """Return an array in a slot, whose elements are whatever they are."""
        nbytes = math.prod(shape) * dtype.itemsize
        while len(self.slots) <= slot:
            self.slots.append(np.empty(0, np.uint8))
        if self.slots[slot].nbytes < nbytes:
            self.slots[slot] = np.empty(nbytes, np.uint8)
        return self.slots[slot][:nbytes].view(dtype).reshape(shape)


scratch = Scratch()


def tile_kernel(
    parts: Sequence[Part], operands: int, results: Sequence[int], ndim: int, reduced: int
) -> Kernel:
    """Return the kernel of a region.

    Args:
      parts: its operations, in order; places of results follow those of operands.
      operands: how many it takes from outside.
      results: places of what it gives.
      ndim: dims of its domain.
      reduced: how many of the last ones it reduces.
    """
    slots = _slots(parts, results)
    at_result = {place: n for n, place in enumerate(results)}
    total = operands + len(parts)
    plain = not reduced

    def kernel(*blocks: Any, out: Any = None) -> Any:
        shape = np.broadcast_shapes(*[block.shape for block in blocks])
        small = (*shape[: ndim - reduced], *(1,) * reduced)
        if out is None:
            outs = [
                np.empty(
                    small if parts[place - operands].reduced else shape,
                    parts[place - operands].dtype,
                )
                for place in results
            ]
        else:
            outs = list(out) if isinstance(out, tuple) else [out]
        given = [np.asarray(block) for block in blocks]
        ends = outs
        if plain and all(block.shape == shape or not block.ndim for block in given):
            given = [block.reshape(-1) if block.ndim else block for block in given]
            ends = [end.reshape(-1) for end in outs]
            shape = (math.prod(shape),)
        held: list[Any] = [None] * total
        for tile in _tiles(shape, len(shape) - reduced):
            held[:operands] = [_part(block, tile, len(shape)) for block in given]
            targets = [_part(end, tile, len(shape)) for end in ends]
            sizes = tuple(
                [len(range(*cut.indices(n))) for cut, n in zip(tile, shape, strict=False)]
            )
            whole = (*sizes, *shape[len(tile) :])
            one = (*whole[: len(shape) - reduced], *(1,) * reduced)
            for part in parts:
                place = part.place
                if place in at_result:
                    to = targets[at_result[place]]
                else:
                    own = one if part.reduced else whole
                    to = scratch.array(slots[place], own, part.dtype)
                part.kernel(
                    *[number if at is None else held[at] for at, number in part.operands], out=to
                )
                held[place] = to
        if out is not None:
            return out
        return tuple(outs) if len(outs) > 1 else outs[0]

    return kernel


def straight_kernel(
    parts: Sequence[Part], operands: Sequence[Sequence[Shape]], results: Sequence[int]
) -> Kernel | None:
    """Return the kernel of a region of small blocks: its operations as lines of one function.

    Where blocks are that small, cutting them into tiles takes longer than what it saves.

    Args:
      parts: its operations, in order; places of results follow those of operands.
      operands: of each that it takes from outside, the shapes of the blocks.
      results: places of what it gives.

    Returns:
      The kernel; None where blocks are large, or of different shapes.
    """
    shapes = {shape for each in operands for shape in each if shape} or {()}
    if len(shapes) != 1 or math.prod(*shapes) > _SMALL or any(part.reduced for part in parts):
        return None
    whole = {n for n, each in enumerate(operands) if all(each) or () in shapes}
    for part in parts:
        if whole.intersection(at for at, _ in part.operands):
            whole.add(part.place)
    if not whole.issuperset(results) or any(any(x) != all(x) for x in operands):
        return None
    names: dict[str, Any] = {}
    lines = []
    for part in parts:
        taken = []
        for number, (at, value) in enumerate(part.operands):
            taken.append(f"n{part.place}_{number}" if at is None else f"x{at}")
            names[f"n{part.place}_{number}"] = value
        names[f"f{part.place}"] = part.kernel
        out = f"out[{results.index(part.place)}]" if part.place in results else "None"
        lines.append(f"x{part.place} = f{part.place}({', '.join(taken)}, out={out})")
    arguments = ", ".join(f"x{n}" for n in range(len(operands)))
    nothing = f"({'None, ' * len(results)})"
    given = "out" if len(results) > 1 else "(out,)"
    found = ", ".join(f"x{place}" for place in results)
    source = [
        f"def kernel({arguments}, out=None):",
        f"out = {nothing} if out is None else {given}",
        *lines,
        f"return {found}",
    ]
    exec("\n    ".join(source), names)
    kernel: Kernel = names["kernel"]
    return kernel


def _slots(parts: Sequence[Part], results: Sequence[int]) -> dict[int, int]:
    """Return where each value between operations is kept: where one was that is used no more."""
    last = {at: n for n, part in enumerate(parts) for at, _ in part.operands if at is not None}
    slots: dict[int, int] = {}
    free: list[int] = []
    count = 0
    for n, part in enumerate(parts):
        if part.place not in results:
            if free:
                slots[part.place] = free.pop()
            else:
                slots[part.place], count = count, count + 1
        ended = {at for at, _ in part.operands if at in slots and last[at] == n}
        free += [slots[at] for at in ended if at is not None]
    return slots


def _tiles(shape: Shape, ahead: int) -> Iterator[tuple[slice, ...]]:
    """Yield the tiles of a block, cut along its first dims only."""
    if not ahead or 0 in shape:
        yield ()
        return
    dim = ahead - 1
    for n in range(ahead):
        if math.prod(shape[n + 1 :]) < _TILE:
            dim = n
            break
    step = max(1, _TILE // max(1, math.prod(shape[dim + 1 :])))
    for index in np.ndindex(*shape[:dim]):
        lead = tuple([slice(i, i + 1) for i in index])
        for start in range(0, shape[dim], step):
            yield (*lead, slice(start, min(start + step, shape[dim])))


def _part(block: LocalArray, tile: tuple[slice, ...], ndim: int) -> LocalArray:
    """Return what a tile needs of an array that broadcasts to the block."""
    missing = ndim - block.ndim
    cuts = tile[missing:] if missing else tile
    return block[
        tuple([cut if n > 1 else slice(None) for cut, n in zip(cuts, block.shape, strict=False)])
    ]
