"""Operations that take elements from where they lie, whichever device of the domain has them.

Where positions along split dims are known only when the data are, no block of the result needs a
block of the operand more than another: each call gets all blocks of its memory domain that may have
something for it, as they lie, and takes what it needs from its owner. Nothing is moved before, and
nothing of the result's size is made but the result.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.planning.holders import holdings
from gpushard.ops.programs.calls import Call, LocalCalls, Outputs, Work, calls_of
from gpushard.ops.row import Row
from gpushard.ops.rule import Rule
from gpushard.runtime.memory import Memory
from gpushard.typing import Index, LocalArray, Shape

_STEPS = 8
"""Such calls find owners, sort by them, take from each and put what they took in order."""


@dataclass(frozen=True)
class Owners:
    """The blocks that a call takes elements from: a grid along the dims in question."""

    starts: tuple[tuple[int, ...], ...]
    """Where blocks start along each of these dims."""

    part: Index
    """What of every block is in question: all of it along these dims, a range along others; empty
    where that is the whole block."""

    shape: Shape = ()
    """Of what the call makes."""

    volume: int = 0
    """Elements of all blocks that are in question."""

    @functools.cached_property
    def counts(self) -> Shape:
        """How many blocks there are along each of these dims."""
        return tuple([len(starts) for starts in self.starts])

    @functools.cached_property
    def steps(self) -> tuple[int, ...]:
        """How far blocks start from one another along each of these dims; 0 where that differs."""
        steps = [starts[1] if len(starts) > 1 else 1 for starts in self.starts]
        return tuple(
            step if starts == tuple(range(0, len(starts) * step, step)) and len(starts) > 1 else 0
            for step, starts in zip(steps, self.starts, strict=True)
        )

    @functools.cached_property
    def numbers(self) -> LocalArray:
        """The numbers of the blocks, in the smallest type: few bits are sorted by radix."""
        count = math.prod(self.counts)
        return np.arange(count).astype(np.min_scalar_type(count))

    def find(self, axis: int, at: LocalArray, size: int) -> tuple[LocalArray, LocalArray]:
        """Return which block along a dim has each position, and the positions within that.

        Args:
          axis: which of the dims in question.
          at: not negative. Beyond the end it is in no block, and the numbers say nothing.
          size: length of the dim.

        >>> [part.tolist() for part in Owners(((0, 3, 6),), ()).find(0, np.array([7, 2, 3]), 9)]
        [[2, 0, 1], [1, 2, 0]]
        """
        starts, step = self.starts[axis], self.steps[axis]
        if step:
            number = at // step
            if size > step * len(starts):  # the last one is longer
                number = np.minimum(number, len(starts) - 1)
            return number, at - number * step
        begins = np.array(starts, np.int64)
        number = begins.searchsorted(at, side="right") - 1
        return number, at - begins[number]


class Owned(LocalCalls):
    """Calls that take from all blocks of their domain.

    Args:
      inputs: for each call the devices whose blocks of the first operand it takes.
      work: what there is to call.
    """

    def __init__(self, inputs: Sequence[Sequence[int]], work: Work) -> None:
        super().__init__(work, steps=_STEPS)
        self._inputs = dict(zip(self.calls, inputs, strict=True))

    def run_parts(
        self, operands: Sequence[ShardedBuffer], scalars: Sequence[tuple[int, Any]] = ()
    ) -> list[Outputs]:
        """Make the calls; the first operand is laid out as it comes."""
        settled = [operand.settled or operand.is_settled() for operand in operands]
        here = self._here and all(settled)
        if here and self._small:
            rows = [self._arguments(operands, call) for call in self.calls]
            return self._call_here(list(zip(*rows, strict=True)), ())
        return self.launch(
            functools.partial(self._arguments, operands),
            functools.partial(self._reads, operands),
            here=here,
        )

    def _arguments(self, operands: Sequence[ShardedBuffer], call: Call) -> list[Any]:
        first, *others = operands
        blocks = [first.values[position] for position in self._inputs[call]]
        return blocks + [operand.values[call.home] for operand in others]

    def _reads(self, operands: Sequence[ShardedBuffer], call: Call) -> list[Memory]:
        first, *others = operands
        blocks = [first.claims[position].memory for position in self._inputs[call]]
        return blocks + [operand.claims[call.home].memory for operand in others]


def owned(
    row: Row,
    rule: Rule,
    lies: Tiling,
    tilings: Sequence[Tiling],
    sizes: Sequence[int],
    results: Sequence[Tiling],
) -> tuple[list[Call], list[int], list[list[int]]] | None:
    """List calls that take the first operand as it lies.

    Args:
      row: the operation.
      rule: its factors.
      lies: boxes of the first operand.
      tilings: boxes of all operands as the splits of the factors would have them.
      sizes: bytes of an element of each.
      results: boxes of the results.

    Returns:
      The calls, the call of each device as for `calls_of`, and the devices whose blocks each call
      takes. None if each has all that it needs in one block as `tilings` say, if a domain lacks
      blocks, or if these form no grid.
    """
    if lies.assignment.spans is not None or set(lies.devices) != set(results[0].devices):
        return None
    searched = [dim for dim, factor in enumerate(rule.operands[0]) if factor in rule.reduced]
    if all(lies.assignment.counts[dim] == 1 for dim in searched):
        return None
    read = list(zip(tilings[1:], sizes[1:], strict=True))
    calls, of_device = calls_of(row, read, results)
    kept = [dim for dim in range(lies.ndim) if dim not in searched]
    starts = tuple(tuple(np.unique(lies.edges[dim])[:-1].tolist()) for dim in searched)
    count = math.prod(map(len, starts))
    held = holdings(lies.assignment)
    own = holdings(results[0].assignment).device_domain
    inputs, placed = [], []
    for call in calls:
        low, high = tilings[0].starts[kept, call.home], tilings[0].stops[kept, call.home]
        first = lies.starts[:, held.home]
        there = (first[kept] <= low[:, None]) & (lies.stops[kept][:, held.home] >= high[:, None])
        there = there.all(axis=0) & (held.domain == own[call.home])
        found = held.home[there & (lies.volumes[held.home] > 0)]
        if len(found) != count:
            return None
        inputs.append(found[np.lexsort(lies.starts[searched][::-1, found])].tolist())
        part = [slice(None)] * lies.ndim
        for dim, start, stop in zip(kept, low.tolist(), high.tolist(), strict=True):
            begin = int(lies.starts[dim, found[0]]) if len(found) else 0
            if len(found) and (start > begin or stop < lies.stops[dim, found[0]]):
                part[dim] = slice(start - begin, stop - begin)
        whole = all(of == slice(None) for of in part)
        volume = math.prod([lies.shape[dim] for dim in searched]) * math.prod((high - low).tolist())
        grid = Owners(starts, () if whole else tuple(part), call.shapes[0], volume)
        placed.append(dataclasses.replace(call, site=(grid,)))
    return placed, of_device, inputs
