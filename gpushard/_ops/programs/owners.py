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
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.planning.holdings import holdings
from gpushard._ops.aval import Aval
from gpushard._ops.choose_split import Given, Price
from gpushard._ops.operand import Sharded
from gpushard._ops.programs.bring import lacking
from gpushard._ops.programs.calls import (
    CallPlan,
    KernelCall,
    LocalCalls,
    SmallCalls,
    calls_of,
)
from gpushard._ops.programs.local import (
    Compute,
    calls_on_blocks,
    converter_of_numbers,
    flops_of,
    program_around,
)
from gpushard._ops.row import Adapter, Case, Kernel, KernelMaker, Params, ShardedCall, Strategy
from gpushard._ops.rule import Rule, Splits
from gpushard._ops.shardings import places_of, splits_as
from gpushard._ops.steps import Program, Result, evenly
from gpushard._runtime.launch import Outputs
from gpushard._runtime.memory import Memory
from gpushard._typing import Index, LocalArray, Shape

PART = 64 << 10
"""What is taken is split only into parts of so many bytes: what follows on smaller ones costs more
calls than it saves bytes."""

_STEPS = 8  # such calls find owners, sort by them, take from each and put what they took in order


@dataclass(frozen=True)
class Owners:
    """The blocks that a call takes elements from: a grid along the dims in question."""

    starts: tuple[tuple[int, ...], ...]  # where blocks start along each of these dims
    # What of every block is in question: all of it along these dims, a range along others; empty
    # where that is the whole block.
    part: Index
    shape: Shape = ()  # of what the call makes
    volume: int = 0  # elements of all blocks that are in question

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


@dataclass(frozen=True, eq=False)
class Preferred(Strategy):
    """A way to run that some layouts allow; for all others another strategy runs.

    That is priced: what is taken depends on the data.
    """

    kernel: KernelMaker
    otherwise: Strategy

    @property
    def whole(self) -> str:  # type: ignore[override]
        """Why the other strategy needs dims whole."""
        return self.otherwise.whole

    @property
    def numbers(self) -> bool:  # type: ignore[override]
        """Whether it takes Python numbers as they are."""
        return self.otherwise.numbers

    def price(self, case: Case) -> Price | None:
        """Price the other strategy."""
        return self.otherwise.price(case)

    def wanted(self, case: Case, mesh: Mesh, operands: Sequence[Given]) -> Splits | None:
        """Return the splits that the other strategy wants."""
        return self.otherwise.wanted(case, mesh, operands)

    def adapted(self, adapter: Adapter) -> Strategy:
        """Return the other strategy, adapted."""
        return self.otherwise.adapted(adapter)

    def compile(self, case: Case, call: ShardedCall | None) -> Program:
        """Make the calls that take operands as they lie, or else those of the other strategy."""
        calls = None if call is None else self._compiled(case, call)
        return self.otherwise.compile(case, call) if calls is None else calls

    def _compiled(self, case: Case, call: ShardedCall) -> Program | None:
        """Make the calls that take operands as they lie; None if the layouts do not allow it."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class FromOwners(Preferred):
    """Elements of the first operand are taken from where they lie.

    `kernel(Owners, *blocks, *other operands)` takes what it needs from several blocks of the first
    operand, cut along its reduced dims. If many elements are taken, the blocks are copied together
    once in each domain instead, and the kernel of the row takes from that. The other strategy
    merges parts, or moves the first operand so that all of it is at hand. It runs if a domain lacks
    blocks, if they form no grid, and for a small operand, for which it is the shorter way.
    """

    # Takes the operands and the parameters; makes the kernel that copies blocks together,
    # `join(Owners, *blocks)`, or None if that takes more time.
    join: Callable[[Sequence[Aval], Params], Kernel | None]

    def wanted(self, case: Case, mesh: Mesh, operands: Sequence[Given]) -> Splits | None:
        """Return the splits of the dims that are kept, and of those that say where elements are."""
        result = case.results[0]
        return _as_taken(case.rule, mesh, operands, math.prod(result.shape) * result.dtype.itemsize)

    def _compiled(self, case: Case, call: ShardedCall) -> Program | None:
        first, choice, settings = case.operands[0], call.choice, case.runtime.settings
        if choice is None or not isinstance(first, Sharded):
            return None
        if first.sharding.memory_kind != "device":
            return None
        backend = case.runtime.backend
        large = math.prod(first.aval.shape) * first.aval.dtype.itemsize >= settings.small_bytes
        merges = any(choice.splits[factor] for factor in case.rule.reduced)
        if not (merges or (large and backend.host_readable)):
            return None
        (end,) = call.ends
        splits = splits_as(case.rule, choice.mesh, end.sharding)
        calls = [call]
        if splits is not None:
            places = places_of(case.rule, choice.mesh, splits, case.operands)
            calls.insert(0, dataclasses.replace(call, operands=places, results=(end,)))
        kernel = self.kernel(backend.namespace, case.avals, case.params)
        for each in calls:
            owned = _owned(case, each, kernel, first.tiling)
            if owned is None:
                continue
            places = ((first.sharding, first.tiling), *each.operands[1:])
            near = dataclasses.replace(each, operands=places)
            flops = functools.partial(flops_of, case, near)
            joined = self._joined(case, each, first.tiling)
            if joined is None:
                return program_around(case, near, Take(owned, case, near, flops))
            take = Take(calls_on_blocks(case, each), case, near, flops)
            return program_around(case, near, _Join(joined, len(places) - 1), take)
        return None

    def _joined(self, case: Case, call: ShardedCall, lies: Tiling) -> Owned | None:
        """Return the calls that copy blocks together; None if calls take from the blocks."""
        place = call.operands[0]
        assert place is not None
        searched = _searched(case.rule)
        if not may_join(case) or any(place[1].assignment.counts[d] > 1 for d in searched):
            return None
        join = self.join(case.avals, case.params)
        whole = Result(case.avals[0], *place)
        to_whole = dataclasses.replace(call, operands=(place,), results=(whole,))
        return None if join is None else _owned(case, to_whole, join, lies)


def may_join(case: Case) -> bool:
    """Test whether blocks may be copied together: on the host, unless a device has a quota."""
    runtime = case.runtime
    return runtime.backend.host_readable and runtime.settings.memory_limit is None


def _searched(rule: Rule) -> list[int]:
    """Return the dims of the first operand that others say the positions along."""
    return [dim for dim, factor in enumerate(rule.operands[0]) if factor in rule.reduced]


def _as_taken(rule: Rule, mesh: Mesh, operands: Sequence[Given], nbytes: int) -> Splits | None:
    """Return the splits of what is taken from an operand by others, which say where it is.

    Its dims stay split as they are, and those of the others as these are, by axes that are free.
    Where none is, the dim that replaces indexed ones gets their axes, if all parts are large.

    None if no indexed dim is split, or if splits contradict.
    """
    if operands[0].axes is None:
        return None
    axes = {
        factor: names
        for factor, names in zip(rule.operands[0], operands[0].axes, strict=True)
        if names and factor is not None
    }
    replaced = tuple(name for factor in rule.reduced for name in axes.pop(factor, ()))
    if not replaced:
        return None
    kept = {name for names in axes.values() for name in names}
    for dims, operand in zip(rule.operands[1:], operands[1:], strict=True):
        for factor, names in zip(dims, operand.axes or (), strict=False):
            free = tuple(name for name in names if name not in kept or factor in rule.operands[0])
            if free and factor is not None and axes.setdefault(factor, free) != free:
                return None
    new = [f for f in rule.results[0] if f is not None and f not in rule.operands[0]]
    if not any(factor in axes for factor in new):
        parts, others = (math.prod(mesh.shape[n] for n in names) for names in (replaced, kept))
        long = [factor for factor in new if rule.sizes[factor] >= parts]
        if long and nbytes >= parts * others * PART:
            axes[long[0]] = replaced
    used = [name for names in axes.values() for name in names]
    if len(set(used)) < len(used):
        return None
    return tuple(axes.get(factor, ()) for factor in range(len(rule.sizes)))


class Owned(LocalCalls):
    """Calls that take from all blocks of their domain.

    `inputs` has for each call the positions of the devices whose blocks of each array it takes.
    """

    def __init__(self, inputs: Sequence[Sequence[Sequence[int]]], plan: CallPlan) -> None:
        super().__init__(plan, steps=_STEPS)
        self._inputs = dict(zip(self.calls, inputs, strict=True))

    def run_parts(
        self, operands: Sequence[ShardedBuffer], scalars: Sequence[tuple[int, Any]] = ()
    ) -> list[Outputs]:
        """Make the calls; operands are laid out as they come."""
        settled = [operand.settled or operand.is_settled() for operand in operands]
        here = self._here and all(settled)
        rows = self._rows([operand.values for operand in operands], scalars)
        if here and self._small:
            return self._call_here(list(zip(*rows, strict=True)))
        return self.launch(rows, functools.partial(self._reads, operands), here=here)

    takes_blocks = False

    def compute(self, *columns: Sequence[Any]) -> list[list[LocalArray]]:
        """Make the calls in the caller."""
        return self._compute_rows(self._rows(columns))

    def _rows(
        self, columns: Sequence[Any], scalars: Sequence[tuple[int, Any]] = ()
    ) -> list[list[Any]]:
        """List the arrays and numbers that each call takes."""
        rows = []
        for call in self.calls:
            inputs = zip(columns, self._inputs[call], strict=True)
            blocks = [[of[position] for position in positions] for of, positions in inputs]
            for number, value in scalars:
                blocks.insert(number, [value])
            rows.append([block for of_operand in blocks for block in of_operand])
        return rows

    def _reads(self, operands: Sequence[ShardedBuffer], call: KernelCall) -> list[Memory]:
        return [
            operand.claims[position].memory
            for operand, positions in zip(operands, self._inputs[call], strict=True)
            for position in positions
        ]


class _Join(Compute):
    """Copies blocks of the first operand together in each domain; other operands stay."""

    def __init__(self, joined: Owned, others: int) -> None:
        super().__init__(joined)
        self.writes = (*joined.writes, *(0 for _ in range(others)))
        self.run = self._run_beside

    def _run_beside(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        return [*self.calls.run(operands[:1]), *operands[1:]]

    def small(self, numbers: Sequence[Any]) -> None:
        """Return None: the calls give the first result alone."""
        return None


class Take(Compute):
    """Takes operands from where they lie."""

    def __init__(
        self, owned: LocalCalls, case: Case, call: ShardedCall, flops: Callable[[], Counter[Any]]
    ) -> None:
        super().__init__(owned, converter_of_numbers(case), flops=flops)
        self._case, self._call = case, call

    def small(self, numbers: Sequence[Any]) -> SmallCalls | None:
        """Return the calls; None if they take blocks of owners and numbers."""
        mixed = not self.calls.takes_blocks and self._converted(numbers)
        return None if mixed else super().small(numbers)

    def received(self, numbers: Sequence[Any] = ()) -> Counter[Any]:
        """Divide what dispatch expects evenly among devices: only the data tell more."""
        assert self._call.choice is not None
        nbytes = self._call.choice.nbytes
        for x, place in zip(self._case.operands, self._call.operands, strict=True):
            if isinstance(x, Sharded) and place is not None:  # those bytes are of other steps
                nbytes -= lacking(x.tiling, place[1]) * x.aval.dtype.itemsize
        return evenly(max(nbytes, 0), self._call.ends[0].tiling.devices)


def _owned(case: Case, call: ShardedCall, kernel: Kernel, lies: Tiling) -> Owned | None:
    """Return calls that take the first operand as it lies.

    None if each has all that it needs in one block, if a domain lacks blocks, if these form no
    grid, or if there is nothing to take. `lies` has the boxes of the first operand.
    """
    row, rule, tilings = case.row, case.rule, call.tilings
    results = [result.tiling for result in call.results]
    sizes = [aval.dtype.itemsize for aval in case.avals]
    if lies.assignment.spans is not None or set(lies.devices) != set(results[0].devices):
        return None
    searched = _searched(rule)
    if all(lies.assignment.counts[dim] == 1 for dim in searched):
        return None
    read = list(zip(tilings[1:], sizes[1 : len(tilings)], strict=True))
    calls, of_device = calls_of(row, read, results)
    kept = [dim for dim in range(lies.ndim) if dim not in searched]
    starts = tuple(tuple(np.unique(lies.edges[dim])[:-1].tolist()) for dim in searched)
    count = math.prod(map(len, starts))
    if not count:
        return None
    held = holdings(lies.assignment)
    own = holdings(results[0].assignment).device_domain
    inputs, placed = [], []
    for own_call in calls:
        low, high = tilings[0].starts[kept, own_call.home], tilings[0].stops[kept, own_call.home]
        first = lies.starts[:, held.home]
        holds = (first[kept] <= low[:, None]) & (lies.stops[kept][:, held.home] >= high[:, None])
        holds = holds.all(axis=0) & (held.domain == own[own_call.home])
        homes = held.home[holds & (lies.volumes[held.home] > 0)]
        if len(homes) != count:
            return None
        blocks = homes[np.lexsort(lies.starts[searched][::-1, homes])].tolist()
        inputs.append([blocks, *([own_call.home] for _ in tilings[1:])])
        part = [slice(None)] * lies.ndim
        for dim, start, stop in zip(kept, low.tolist(), high.tolist(), strict=True):
            begin = int(lies.starts[dim, homes[0]])
            if start > begin or stop < lies.stops[dim, homes[0]]:
                part[dim] = slice(start - begin, stop - begin)
        whole = all(of == slice(None) for of in part)
        volume = math.prod([lies.shape[dim] for dim in searched]) * math.prod((high - low).tolist())
        grid = Owners(starts, () if whole else tuple(part), own_call.shapes[0], volume)
        placed.append(dataclasses.replace(own_call, site=(grid,)))
    dtypes = [result.dtype for result in case.results]
    return Owned(
        inputs, CallPlan(case.runtime, row.name, kernel, placed, of_device, results, dtypes)
    )
