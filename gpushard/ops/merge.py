"""Reductions whose factors are split: every block's own state, merged in mesh order.

Within a memory domain the states of its devices are merged directly; for what lies in several
domains see `between`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.planning.holders import holdings
from gpushard.ops.between import Between, Block, Wanted
from gpushard.ops.fold import Fold, finished
from gpushard.ops.jobs import jobs_of
from gpushard.ops.reduced import Reduced
from gpushard.ops.stage import Job, Stage


class Merge:
    """A reduction over split factors, ready to run.

    Args:
      reduced: the reduction.
    """

    def __init__(self, reduced: Reduced) -> None:
        row, dtypes, runtime = reduced.row, reduced.dtypes, reduced.runtime
        counts = reduced.counts
        tilings = [reduced.natural] * len(dtypes)
        sizes = [aval.dtype.itemsize for aval in reduced.avals]
        read = list(zip(reduced.operands, sizes, strict=True))
        jobs, of_device = jobs_of(row, read, tilings, [n > 0 for n in counts])
        kernel = reduced.make("local")
        self._local = Stage(
            runtime, row.name, kernel, jobs, of_device, tilings, dtypes, threaded=row.threaded
        )
        found = _find(reduced, jobs, of_device)
        own = [counts[job.home] for job in jobs]
        self._across = [Between(reduced, block, jobs, own) for block in found.across]
        self._last = _last(reduced, found, own, [a.scatters for a in self._across])

    def run(
        self, operands: Sequence[ShardedBuffer], scalars: Sequence[tuple[int, Any]]
    ) -> list[ShardedBuffer]:
        """Run the reduction.

        Raises:
          OutOfMemoryError: a device has no room.
        """
        state = self._local.run_parts(operands, scalars)
        for across in self._across:
            for parts, more in zip(state, across.run(state), strict=True):
                parts.values.extend(more.values)
                parts.claims.extend(more.claims)
                parts.settled = parts.settled and more.settled
        (made,) = self._last.fold(state)
        return [self._last.assemble(0, made)]


@dataclasses.dataclass(eq=False)
class _Found:
    """How the calls of the local stage come together."""

    within: dict[Wanted, tuple[list[int], int]]
    """What is merged within its domain: the calls, in mesh order, and the device that pays."""

    across: list[Block]
    """What is not."""

    of_device: list[Wanted]
    """What each device wants."""


def _find(reduced: Reduced, jobs: Sequence[Job], of_device: Sequence[int]) -> _Found:
    target = holdings(reduced.result.assignment)
    domains = target.device_domain.tolist()
    boxes = reduced.result.assignment.flat.tolist()
    blocks = reduced.natural.assignment.flat.tolist()
    flats = [tiling.assignment.flat.tolist() for tiling in reduced.operands]
    parts: dict[int, dict[tuple[int, ...], dict[int, int]]] = {}  # block: part: domain: call
    for position, call in enumerate(of_device):
        if call >= 0:
            part = tuple(flat[position] for flat in flats)
            of_part = parts.setdefault(blocks[position], {}).setdefault(part, {})
            of_part.setdefault(domains[position], call)
    found = _Found({}, [], list(zip(domains, boxes, strict=True)))
    wanting: dict[int, dict[Wanted, int]] = {}
    for position, volume in enumerate(reduced.result.volumes.tolist()):
        if volume:
            home = int(target.home[target.of_device[position]])
            wanting.setdefault(blocks[position], {})[found.of_device[position]] = home
    for block, wanted in wanting.items():
        lacking = {}
        for key, home in wanted.items():
            if all(key[0] in at for at in parts[block].values()):
                calls = [at[key[0]] for at in parts[block].values()]
                found.within[key] = calls, home
            else:
                lacking[key] = home
        if lacking:
            members: dict[int, list[int]] = {}
            for at in parts[block].values():
                domain, call = next(iter(at.items()))
                members.setdefault(domain, []).append(call)
            found.across.append(Block(tuple(map(tuple, members.values())), lacking))
    return found


def _last(reduced: Reduced, found: _Found, own: Sequence[int], scatters: Sequence[bool]) -> Fold:
    """Return the calls that merge what is within a domain, and finish everything."""
    inputs = [calls for calls, _ in found.within.values()]
    homes = [home for _, home in found.within.values()]
    sizes = [tuple(own[call] for call in calls) for calls in inputs]
    regions = [reduced.region(home) for home in homes]
    number = len(own)
    for block, cut in zip(found.across, scatters, strict=True):
        for home in block.wanting.values():
            inputs.append([number])
            homes.append(home)
            sizes.append((sum(own[call] for call in block.calls),))
            regions.append(None if cut else reduced.region(home))
            number += 1
    shapes = reduced.result.shard_shapes
    jobs = [Job(home, (shapes[home],), (size,)) for home, size in zip(homes, sizes, strict=True)]
    keys = [*found.within, *(key for block in found.across for key in block.wanting)]
    of_key = {key: n for n, key in enumerate(keys)}
    of_device = [of_key.get(key, -1) for key in found.of_device]
    kernel = functools.partial(
        finished, len(reduced.dtypes), reduced.make("merge"), reduced.make("finish")
    )
    stage = reduced.runtime, reduced.row.name, kernel, jobs, of_device
    return Fold(inputs, regions, *stage, [reduced.result], [reduced.dtype])
