"""Plan parts of one size with any start, once: `x[i]` and `x[i:i + n]` in a loop. Pure.

The memory that such a part needs depends only on its size. So it is planned once, and the copies
are listed for each start by looking up block edges. This works if no block of the part is large
enough to share memory with the array. Each block must also have its elements in its own memory
domain. Other parts get their own plans.

An example: `x` of 64 elements lies in blocks of 16, one on each of 4 devices of a memory domain.
`x[i:i + 4]` is to lie whole on the first device. For each `i` there are one or two copies:

    i = 14    2 elements from offset 14 of block 0, to offset 0 of the part
              2 elements from offset 0 of block 1, to offset 2
    i = 20    4 elements from offset 4 of block 1, to offset 0

A block of 16 has more than twice as many elements as the part, so the part is never a view of it.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence

from gpushard._frozen import dataclass
from gpushard._geometry.tiling import Tiling
from gpushard._movement.plan import Plan, Step
from gpushard._movement.planning.dim_maps import DimMap, Piece
from gpushard._movement.planning.holdings import holdings
from gpushard._movement.planning.reshard import make_plan
from gpushard._runtime.copy_phase import Copy, Phase
from gpushard._runtime.strided_view import View, dense_strides
from gpushard._typing import Shape

Run = tuple[int, int, int, int]
"""In one dim: (source block, first element in it, first element in the destination block,
length)."""


@functools.lru_cache(maxsize=4096)
def started(piece: Piece, starts: tuple[int, ...], at: tuple[int, ...]) -> Piece:
    """Replace the starts of the maps number `at` in a piece."""
    maps = list(piece.maps)
    for number, start in zip(at, starts, strict=True):
        maps[number] = dataclasses.replace(maps[number], start=start)
    return Piece(tuple(maps))


@dataclass(frozen=True, eq=False)
class Window:
    """The plan of a part of an array for any start. Make one with `make_window`."""

    source: Tiling  # tiling of the array
    destination: Tiling  # tiling of the part
    # The maps of the part, with the block edges of the source and of the destination dim.
    maps: tuple[tuple[DimMap, list[int], list[int] | None], ...]
    at: tuple[int, ...]  # numbers of the maps with open starts
    fixed: dict[int, list[list[Run]]]  # the runs of all other maps, for each destination block
    plan: Plan  # the plan of the new blocks, without copies
    pairs: tuple[tuple[int, tuple[int, ...]], ...]  # (domain, block in each dim) of new blocks
    homes: dict[tuple[int, int], int]  # the device that has a (domain, source block)
    strides: list[Shape]  # strides in bytes of each shard, then of each new block
    volumes: list[int]  # elements of each device's block
    volume: int  # elements of all new blocks
    nbytes: int  # bytes of memory of this object, about

    def starting(self, starts: Sequence[int]) -> tuple[Step, ...] | None:
        """Make the steps of the plan for some starts; None if these starts need their own plan."""
        every = self.fixed | {
            number: _runs(start, *self.maps[number])
            for number, start in zip(self.at, starts, strict=True)
        }
        runs = [every[number] for number in range(len(self.maps))]
        moves: dict[int, list[Copy]] = {}
        for number, (domain, blocks) in enumerate(self.pairs, len(self.source.devices)):
            mine = moves.setdefault(domain, [])
            for copied in self._copies(runs, number, domain, blocks):
                if copied is None:
                    return None
                mine.append(copied)
        return tuple([self._step(domain, mine) for domain, mine in moves.items()])

    def _copies(
        self, runs: list[list[list[Run]]], number: int, domain: int, blocks: tuple[int, ...]
    ) -> Iterator[Copy | None]:
        """Yield the copies into a new block; None instead if these starts need their own plan."""
        strides = self.source.assignment.strides
        rows = []
        at = 0
        for (m, _, _), every in zip(self.maps, runs, strict=True):
            rows.append(every[blocks[at]] if m.destination is not None else every[0])
            at += m.destination is not None
        to_steps = self.strides[number]
        for chosen in itertools.product(*rows):
            block = dim = 0
            for (m, _, _), (n, _, _, _) in zip(self.maps, chosen, strict=True):
                if m.source is not None:
                    block += n * strides[dim]
                    dim += 1
            device = self.homes.get((domain, block), -1)
            if device < 0 or 2 * self.volume >= self.volumes[device]:
                yield None
                return
            offset = of_offset = at = dim = 0
            shape, steps, of_steps = [], [], []
            for (m, _, _), (_, of, to, length) in zip(self.maps, chosen, strict=True):
                if m.source is not None:
                    of_offset += of * self.strides[device][dim]
                if m.destination is not None:
                    offset += to * to_steps[at]
                    if m.source is not None:
                        shape.append(length)
                        steps.append(to_steps[at])
                        of_steps.append(m.step * self.strides[device][dim])
                    at += 1
                dim += m.source is not None
            part = tuple(shape)
            target, source = (
                View(offset, part, tuple(steps)),
                View(of_offset, part, tuple(of_steps)),
            )
            yield number, target, device, source, domain

    def _step(self, domain: int, moves: list[Copy]) -> Step:
        reads = tuple(sorted({of for _, _, of, _, _ in moves}))
        writes = tuple(sorted({to for to, *_ in moves}))
        phase = Phase(tuple(moves), self.plan.itemsize, self.plan.operand_shapes)
        return Step(domain, 0, (), (phase,), reads, writes)


def _runs(start: int, m: DimMap, edges: list[int], wanted: list[int] | None) -> list[list[Run]]:
    """Cut a map at block edges, as `cut_runs` does, into the runs of each destination block."""
    if wanted is None:
        block = bisect.bisect_right(edges, start) - 1
        return [[(block, start - edges[block], 0, 1)]]
    cuts = []
    for first, stop in itertools.pairwise(wanted):
        runs: list[Run] = []
        at = first
        while at < stop:
            of = start + m.step * at
            block = bisect.bisect_right(edges, of) - 1
            if m.step > 0:
                length = min((edges[block + 1] - 1 - of) // m.step + 1, stop - at)
            else:
                length = min((of - edges[block]) // -m.step + 1, stop - at)
            runs.append((block, of - edges[block], at - first, length))
            at += length
        cuts.append(runs)
    return cuts


def make_window(
    source: Tiling, destination: Tiling, piece: Piece, at: tuple[int, ...], itemsize: int
) -> Window | None:
    """Plan a part of an array for any start.

    Returns:
      The plan; None if boxes form no grid, or if a domain wants the part but holds nothing of the
      array.
    """
    if source.assignment.spans is not None or destination.assignment.spans is not None:
        return None
    plan = make_plan(source, destination, piece, itemsize, reuse=False)
    held, wanted = holdings(source.assignment), holdings(destination.assignment)
    maps = tuple(
        (
            m,
            [0, 1] if m.source is None else source.edges[m.source].tolist(),
            None if m.destination is None else destination.edges[m.destination].tolist(),
        )
        for m in piece.maps
    )
    fixed = {}
    for number, (m, edges, cuts) in enumerate(maps):
        if m.source is None:
            fixed[number] = [[(0, 0, 0, 1)]]
        elif number not in at:
            fixed[number] = _runs(m.start, m, edges, cuts)
    blocks = wanted.coordinates[:, plan.copied].T.tolist()
    domains = wanted.domain[plan.copied].tolist()
    pairs = tuple((n, tuple(block)) for n, block in zip(domains, blocks, strict=True))
    keys = zip(held.domain.tolist(), held.block.tolist(), strict=True)
    homes = dict(zip(keys, held.home.tolist(), strict=True))
    if not {n for n, _ in pairs} <= set(held.domain.tolist()):
        return None
    return Window(
        source,
        destination,
        maps,
        at,
        fixed,
        plan,
        pairs,
        homes,
        [dense_strides(shape, itemsize) for shape in plan.operand_shapes],
        source.volumes.tolist(),
        int(plan.written_elements.sum()),
        plan.nbytes + 100 * len(homes) + 100 * len(plan.slots),
    )
