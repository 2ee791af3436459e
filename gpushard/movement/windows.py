"""Parts whose place is known only when they are taken: `x[i]` and `x[i:i + n]` in a loop. Pure.

What such a part needs in memory depends on its size alone. So it is planned once, and the copies
are listed for each start by a look at the block edges. That serves parts so small that no block of
theirs can share memory with the array, where every block can be copied within its memory domain;
others have plans of their own.
"""

from __future__ import annotations

import bisect
import copy
import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from gpushard.frozen import dataclass
from gpushard.geometry.tiling import Tiling
from gpushard.movement.dim_map import DimMap, Piece
from gpushard.movement.holdings import holdings
from gpushard.movement.plan import make_plan
from gpushard.movement.recipe import Recipe
from gpushard.movement.steps import Step
from gpushard.runtime.phase import BoxMove, Phase

Run = tuple[int, Any, Any]
"""(source block, index within it, index within the destination block) in one dim."""


@functools.lru_cache(maxsize=4096)
def started(piece: Piece, starts: tuple[int, ...], at: tuple[int, ...]) -> Piece:
    """Return a piece with other starts.

    Args:
      piece: a part of an array.
      starts: where it starts in some of its maps.
      at: the numbers of these.
    """
    maps = list(piece.maps)
    for number, start in zip(at, starts, strict=True):
        maps[number] = dataclasses.replace(maps[number], start=start)
    return Piece(tuple(maps))


@dataclass(frozen=True, slots=True, eq=False)
class WindowAt:
    """A part of an array that starts somewhere, ready to run."""

    source: Tiling
    """Tiling of the array."""

    destination: Tiling
    """Tiling of the part."""

    recipe: Recipe
    """What is made, and the copies."""


@dataclass(frozen=True, eq=False)
class Window:
    """A part of an array, wherever it starts; make one with `make_window`."""

    source: Tiling
    """Tiling of the array."""

    destination: Tiling
    """Tiling of the part."""

    maps: tuple[tuple[DimMap, list[int], list[int] | None], ...]
    """The maps of the part, with the edges of the blocks in both dims."""

    at: tuple[int, ...]
    """Numbers of the maps whose starts are left open."""

    fixed: dict[int, list[list[Run]]]
    """The runs of all others, for each destination block."""

    recipe: Recipe
    """What is made, without the copies."""

    pairs: tuple[tuple[int, tuple[int, ...]], ...]
    """(domain, block in each dim) of what is made."""

    homes: dict[tuple[int, int], int]
    """The device that has a (domain, source block)."""

    volumes: list[int]
    """Elements of each device's block."""

    volume: int
    """Elements of all that is made."""

    nbytes: int
    """Bytes that it takes, about."""

    def starting(self, starts: Sequence[int]) -> WindowAt | None:
        """Return the part that starts somewhere, ready to run; None if it needs its own plan."""
        found = self.fixed | {
            number: _runs(start, *self.maps[number])
            for number, start in zip(self.at, starts, strict=True)
        }
        runs = [found[number] for number in range(len(self.maps))]
        moves: dict[int, list[BoxMove]] = {}
        for number, (domain, blocks) in enumerate(self.pairs, len(self.source.devices)):
            mine = moves.setdefault(domain, [])
            for copied in self._copies(runs, number, domain, blocks):
                if copied is None:
                    return None
                mine.append(copied)
        recipe = copy.copy(self.recipe)
        recipe.steps = tuple([_step(domain, mine) for domain, mine in moves.items()])
        return WindowAt(self.source, self.destination, recipe)

    def _copies(
        self, runs: list[list[list[Run]]], number: int, domain: int, blocks: tuple[int, ...]
    ) -> Iterator[BoxMove | None]:
        """Yield the copies into one new block; None where there is none."""
        strides = self.source.assignment.strides
        rows = []
        at = 0
        for (m, _, _), every in zip(self.maps, runs, strict=True):
            rows.append(every[blocks[at]] if m.destination is not None else every[0])
            at += m.destination is not None
        for chosen in itertools.product(*rows):
            block = dim = 0
            index: list[Any] = []
            of_index: list[Any] = []
            for (m, _, _), (n, of, to) in zip(self.maps, chosen, strict=True):
                if m.source is not None:
                    block += n * strides[dim]
                    dim += 1
                    of_index.append(of)
                if m.destination is not None:
                    index.append(to)
            device = self.homes.get((domain, block), -1)
            if device < 0 or 2 * self.volume >= self.volumes[device]:
                yield None
                return
            yield number, (*index, ...), device, (*of_index, ...), domain


def _step(domain: int, moves: list[BoxMove]) -> Step:
    reads = tuple(sorted({of for _, _, of, _, _ in moves}))
    writes = tuple(sorted({to for to, *_ in moves}))
    return Step(domain, 0, (Phase.of_rows(moves),), reads, writes)


def _runs(start: int, m: DimMap, edges: list[int], wanted: list[int] | None) -> list[list[Run]]:
    """Cut a map at block edges, as `cut_runs` does; the runs of each destination block."""
    if wanted is None:
        block = bisect.bisect_right(edges, start) - 1
        return [[(block, start - edges[block], None)]]
    found = []
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
            offset = of - edges[block]
            end = offset + m.step * length
            part = slice(offset, end if end >= 0 else None, m.step)
            runs.append((block, part, slice(at - first, at - first + length)))
            at += length
        found.append(runs)
    return found


def make_window(
    source: Tiling, destination: Tiling, piece: Piece, at: tuple[int, ...], itemsize: int
) -> Window | None:
    """Return a part of an array that may start anywhere.

    Args:
      source: tiling of the array.
      destination: tiling of the part.
      piece: the part, of slices, integers and new dims, at some start.
      at: numbers of the maps whose starts are left open.
      itemsize: bytes of an element.

    Returns:
      The part; None if boxes form no grid, or none of it can be copied within a domain.
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
            fixed[number] = [[(0, None, 0)]]
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
        plan.recipe,
        pairs,
        homes,
        source.volumes.tolist(),
        int(plan.overlap.volume[plan.copied].sum()),
        plan.nbytes + 100 * len(homes),
    )
