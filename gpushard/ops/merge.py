"""Reductions whose factors are split: every block's own state, merged in mesh order.

Within a memory domain the states of its devices are merged directly. Between domains, each merges
its own first; then every one of them merges a part of the block, for which it takes that part of
the others' states, and the parts go to whoever wants the block. So a block of s bytes that d
domains have parts of and n domains want moves (d - 1) + (n - 1) times s bytes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.geometry.tiling import Assignment, Tiling
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.execute import plan_for, run_plan
from gpushard.movement.holdings import holdings
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.jobs import jobs_of
from gpushard.ops.row import Params, Row, State
from gpushard.ops.rule import Rule
from gpushard.ops.stage import Job, Parts, Stage
from gpushard.runtime.runtime import Runtime
from gpushard.typing import Device, LocalArray, Shape


class Fold(Stage):
    """Calls that each take several parts of a state.

    Args:
      inputs: for each call the numbers of its parts.
      *stage: as for `Stage`.
    """

    def __init__(self, inputs: Sequence[Sequence[int]], *stage: Any) -> None:
        super().__init__(*stage)
        self._inputs = dict(zip(self.jobs, inputs, strict=True))

    def fold(self, state: Sequence[Parts]) -> list[Parts]:
        """Make the calls; `state` has every part of each array of a state."""
        if self._small and all(parts.settled for parts in state):
            return self.call_rows([self._take(state, job) for job in self.jobs])
        return self.launch(
            functools.partial(self._take, state),
            lambda job: [p.claims[n].memory for n in self._inputs[job] for p in state],
        )

    def _take(self, state: Sequence[Parts], job: Job) -> list[LocalArray]:
        return [parts.values[n] for n in self._inputs[job] for parts in state]


class Merge:
    """A reduction over split factors, ready to run.

    Args:
      row: the operation.
      rule: its factors.
      avals: its operands.
      params: its parameters.
      runtime: of the devices.
      operands: tilings of the operands when the kernel runs.
      result: tiling of the result.
      dtype: type of the result.
    """

    def __init__(
        self,
        row: Row,
        rule: Rule,
        avals: Sequence[Aval],
        params: Params,
        runtime: Runtime,
        operands: Sequence[Tiling],
        result: Tiling,
        dtype: Dtype,
    ) -> None:
        assert row.reduction is not None
        xp, reduction = runtime.backend.namespace, row.reduction
        self._dtypes = reduction.states(avals, params)
        merge = reduction.merge(xp, avals, params)
        finish = reduction.finish(xp, avals, params)
        counts = _counts(rule, operands)
        tilings = [result] * len(self._dtypes)
        jobs, of_device = jobs_of(row, operands, tilings, [n > 0 for n in counts])
        local = reduction.local(xp, avals, params)
        self.local = Stage(runtime, row.name, local, jobs, of_device, tilings, self._dtypes)
        """Gives the state of every block."""
        found = _find(jobs, of_device, operands, result)
        own = [counts[job.home] for job in jobs]
        self._across = [
            Across(runtime, row.name, block, jobs, own, result, self._dtypes, merge)
            for block in found.across
        ]
        inputs = [list(calls) for calls in found.within]
        sizes = [tuple(own[call] for call in calls) for calls in found.within]
        number = len(jobs)
        for block in found.across:
            for _ in block.wanting:
                inputs.append([number])
                sizes.append((sum(own[call] for call in block.calls),))
                number += 1
        homes = [*found.homes, *(h for b in found.across for h in b.wanting.values())]
        kernel = functools.partial(_finished, len(self._dtypes), merge, finish)
        last = [
            Job(home, (result.shard_shapes[home],), (size,))
            for home, size in zip(homes, sizes, strict=True)
        ]
        of_block = {key: n for n, key in enumerate([*found.keys, *found.across_keys])}
        targets = [of_block.get(key, -1) for key in found.of_device]
        self._last = Fold(inputs, runtime, row.name, kernel, last, targets, [result], [dtype])

    def run(
        self, operands: Sequence[ShardedBuffer], scalars: Sequence[tuple[int, Any]]
    ) -> list[ShardedBuffer]:
        """Run the reduction.

        Raises:
          OutOfMemoryError: a device has no room.
        """
        state = self.local.run_parts(operands, scalars)
        for across in self._across:
            for parts, more in zip(state, across.run(state), strict=True):
                parts.values.extend(more.values)
                parts.claims.extend(more.claims)
                parts.settled = parts.settled and more.settled
        (made,) = self._last.fold(state)
        return [self._last.assemble(0, made)]


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """A block of the result whose parts lie in several domains, or not where it is wanted."""

    members: tuple[tuple[int, ...], ...]
    """The calls whose parts each domain merges, in mesh order."""

    wanting: dict[int, int]
    """For each domain that wants it, a device there."""

    @property
    def calls(self) -> list[int]:
        """All of these calls."""
        return [call for calls in self.members for call in calls]


@dataclasses.dataclass(eq=False)
class _Found:
    """How the calls of the local stage come together."""

    keys: list[tuple[int, int]]
    """(domain, block) of each block that is merged within its domain."""

    within: list[list[int]]
    """The calls that are merged for each of them, in mesh order."""

    homes: list[int]
    """The device that each is charged to."""

    across: list[Block]
    """The other blocks."""

    across_keys: list[tuple[int, int]]
    """(domain, block) of each block and domain of these."""

    of_device: list[tuple[int, int]]
    """The (domain, block) that each device wants."""


def _find(
    jobs: Sequence[Job], of_device: Sequence[int], operands: Sequence[Tiling], result: Tiling
) -> _Found:
    held = holdings(result.assignment)
    domains = held.device_domain.tolist()
    blocks = result.assignment.flat.tolist()
    flats = [tiling.assignment.flat.tolist() for tiling in operands]
    parts: dict[int, dict[tuple[int, ...], dict[int, int]]] = {}  # block: part: domain: call
    for position, call in enumerate(of_device):
        if call >= 0:
            part = tuple(flat[position] for flat in flats)
            of_part = parts.setdefault(blocks[position], {}).setdefault(part, {})
            of_part.setdefault(domains[position], call)
    found = _Found([], [], [], [], [], list(zip(domains, blocks, strict=True)))
    volumes = result.volumes.tolist()
    for block, of_parts in parts.items():
        wanting = {
            domains[p]: int(held.home[held.of_device[p]])
            for p in range(len(blocks))
            if blocks[p] == block and volumes[p]
        }
        lacking = {}
        for domain, home in wanting.items():
            if all(domain in at for at in of_parts.values()):
                found.keys.append((domain, block))
                found.within.append([at[domain] for at in of_parts.values()])
                found.homes.append(home)
            else:
                lacking[domain] = home
        if lacking:
            members: dict[int, list[int]] = {}
            for at in of_parts.values():
                domain, call = next(iter(at.items()))
                members.setdefault(domain, []).append(call)
            found.across.append(Block(tuple(map(tuple, members.values())), lacking))
            found.across_keys.extend((domain, block) for domain in lacking)
    return found


def _counts(rule: Rule, operands: Sequence[Tiling]) -> list[int]:
    """Return how many elements each device reduces to one."""
    counts = np.ones(len(operands[0].devices), np.int64)
    seen: set[int] = set()
    for dims, tiling in zip(rule.operands, operands, strict=False):
        for dim, factor in enumerate(dims):
            if factor in rule.reduced and factor not in seen:
                seen.add(factor)
                counts *= tiling.stops[dim] - tiling.starts[dim]
    result: list[int] = counts.tolist()
    return result


def _merged(width: int, merge: Any, counts: Sequence[int], arrays: Sequence[Any]) -> State:
    """Merge states one after the other."""
    state, count = tuple(arrays[:width]), counts[0]
    for n, more in enumerate(counts[1:], 1):
        state = merge(state, tuple(arrays[n * width : (n + 1) * width]), count, more)
        count += more
    return state


def _finished(
    width: int, merge: Any, finish: Any, counts: Sequence[int], *arrays: Any, out: Any = None
) -> Any:
    """Merge states and finish the last one: the kernel of a block of the result."""
    result = finish(_merged(width, merge, counts, arrays), sum(counts))
    if out is not None:
        out[...] = result
    return result


def _as_state(width: int, merge: Any, counts: Sequence[int], *arrays: Any, out: Any = None) -> Any:
    """Merge states: the kernel of what one domain contributes to a block."""
    return _given(_merged(width, merge, counts, arrays), out)


def _merged_rows(merge: Any, counts: Sequence[int], *matrices: Any, out: Any = None) -> Any:
    """Merge the rows of matrices: the kernel of one part of a block between domains."""
    arrays = [matrix[row] for row in range(len(counts)) for matrix in matrices]
    return _given(_merged(len(matrices), merge, counts, arrays), out)


def _given(state: State, out: Any) -> Any:
    targets = (out,) if out is not None and not isinstance(out, tuple) else out
    for target, array in zip(targets or (), state, strict=True) if targets else ():
        target[...] = array
    return state if len(state) > 1 else state[0]


class Across:
    """The merging of one block between domains.

    Args:
      runtime: of the devices.
      name: of the operation.
      block: whose parts lie where.
      jobs: the calls that made the parts.
      counts: how many elements each of them reduced.
      result: tiling of the result.
      dtypes: types of the arrays of a state.
      merge: merges two states.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        block: Block,
        jobs: Sequence[Job],
        counts: Sequence[int],
        result: Tiling,
        dtypes: Sequence[Dtype],
        merge: Any,
    ) -> None:
        homes = [jobs[calls[0]].home for calls in block.members]
        devices = [result.devices[home] for home in homes]
        size = int(result.volumes[homes[0]])
        members = len(homes)
        self._dtypes = dtypes
        self._shape: Shape = result.shard_shapes[homes[0]]
        self._rows = _tiling(devices, (members, size), 0)
        self._columns = _tiling(devices, (members, size), 1)
        self._vector = _tiling(devices, (size,), 0)
        wanting = [result.devices[home] for home in block.wanting.values()]
        self._everywhere = _tiling(wanting, (size,), None)
        width = len(dtypes)
        self._own = Fold(
            block.members,
            runtime,
            name,
            functools.partial(_as_state, width, merge),
            [
                Job(home, (self._shape,) * width, (tuple(counts[call] for call in calls),))
                for home, calls in zip(homes, block.members, strict=True)
            ],
            [-1] * len(result.devices),
            [result] * width,
            dtypes,
        )
        sums = tuple(sum(counts[call] for call in calls) for calls in block.members)
        pieces = [n for n in range(members) if self._vector.volumes[n]]
        self._pieces = Stage(
            runtime,
            name,
            functools.partial(_merged_rows, merge),
            [Job(n, (self._vector.shard_shapes[n],) * width, (sums,)) for n in pieces],
            [pieces.index(n) if n in pieces else -1 for n in range(members)],
            [self._vector] * width,
            dtypes,
        )

    def run(self, state: Sequence[Parts]) -> list[Parts]:
        """Return for each array of a state that of the whole block, for each domain in want."""
        own = self._own.fold(state)
        matrices = []
        for parts, dtype in zip(own, self._dtypes, strict=True):
            values = [value.reshape(1, -1) for value in parts.values]
            matrix = ShardedBuffer(self._rows, dtype, values, parts.claims, parts.settled)
            matrices.append(run_plan(matrix, plan_for(matrix, self._columns), self._own.name))
        merged = []
        for vector in self._pieces.run(matrices):
            whole = run_plan(vector, plan_for(vector, self._everywhere), self._own.name)
            values = [value.reshape(self._shape) for value in whole.values]
            merged.append(Parts(values, whole.claims, whole.settled))
        return merged


def _tiling(devices: Sequence[Device], shape: Shape, split: int | None) -> Tiling:
    """Return the tiling that splits one dim, or none, over devices."""
    blocks = np.zeros((len(shape), len(devices)), np.int64)
    counts = [1] * len(shape)
    if split is not None:
        blocks[split] = np.arange(len(devices))
        counts[split] = len(devices)
    return Tiling.regular(shape, Assignment(tuple(devices), tuple(counts), blocks))
