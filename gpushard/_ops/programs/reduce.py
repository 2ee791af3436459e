"""Reductions whose factors are split: every block's own state, merged in mesh order.

Within a memory domain the states of its devices are merged directly. Between domains each merges
its own first. Then every one of them merges a piece of the block, for which it takes that piece of
the others' states, and the pieces go to whoever wants the block. So a block of s bytes that d
domains have parts of and n domains want moves (d - 1) + (n - 1) times s bytes. Where every domain
wants a part of its own, that is the piece it merges, and (d - 1) times s bytes move.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.free_boxes import tiling_from_indices
from gpushard._geometry.tiling import Tiling, block_edges
from gpushard._movement.block_collectives import all_reduce, reduce_scatter, rows_of, tiling_over
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.planning.holdings import holdings
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.choose_split import Price, Prices
from gpushard._ops.merge_in_order import InOrder
from gpushard._ops.programs.calls import (
    CallPlan,
    KernelCall,
    LocalCalls,
    SmallCalls,
    calls_of,
)
from gpushard._ops.programs.launched import Launched, launched, launched_merges
from gpushard._ops.programs.local import Compute, flops_of, program_around
from gpushard._ops.row import Adapter, Case, KernelMaker, Params, ShardedCall, State, Strategy, only
from gpushard._ops.rule import Splits
from gpushard._ops.shardings import refines
from gpushard._ops.steps import Program, Runnable
from gpushard._runtime.launch import Outputs
from gpushard._typing import Index, LocalArray, Shape


class Fold(LocalCalls):
    """Calls that each take several parts of a state.

    For each call `inputs` has the numbers of its parts, and `regions` what index of them it takes.
    """

    def __init__(
        self, inputs: Sequence[Sequence[int]], regions: Sequence[Index | None], plan: CallPlan
    ) -> None:
        super().__init__(plan)
        self._inputs = dict(zip(self.calls, inputs, strict=True))
        self._regions = dict(zip(self.calls, regions, strict=True))

    def run_parts(
        self, operands: Sequence[ShardedBuffer | Outputs], scalars: Sequence[tuple[int, Any]] = ()
    ) -> list[Outputs]:
        """Make the calls; the operands have every part of each array of a state."""
        here = self._here and all(parts.settled for parts in operands)
        rows = self._rows([parts.values for parts in operands])
        return self.launch(
            rows,
            lambda call: [p.claims[n].memory for n in self._inputs[call] for p in operands],
            here=here,
        )

    takes_blocks = False

    def compute(self, *columns: Sequence[Any]) -> list[list[LocalArray]]:
        """Make the calls in the caller; `columns` has every part of each array of a state."""
        return self._compute_rows(self._rows(columns))

    def _rows(self, columns: Sequence[Sequence[LocalArray]]) -> list[list[LocalArray]]:
        """List the arrays that each call takes."""
        return [self._take(columns, call) for call in self.calls]

    def _take(self, columns: Sequence[Sequence[LocalArray]], call: KernelCall) -> list[LocalArray]:
        taken = [parts[n] for n in self._inputs[call] for parts in columns]
        region = self._regions[call]
        return taken if region is None else [array[region] for array in taken]


def _merged(
    width: int, merge: Any, counts: Sequence[int], arrays: Sequence[Any], out: Any = None
) -> State:
    """Merge states in order; what comes back is fresh, also if there is one only, or `out`."""
    state, count = tuple(arrays[:width]), counts[0]
    if len(counts) == 1:
        return tuple(array.copy() for array in state)
    if isinstance(merge, InOrder) and (whole := merge.at_once(arrays, out)) is not None:
        return (whole,)
    for n, more in enumerate(counts[1:], 1):
        state = merge(state, tuple(arrays[n * width : (n + 1) * width]), count, more)
        count += more
    return state


def finished(
    width: int, merge: Any, finish: Any, counts: Sequence[int], *arrays: Any, out: Any = None
) -> Any:
    """Merge states and finish the last one: the kernel of a block of the result."""
    result = finish(_merged(width, merge, counts, arrays, out), sum(counts))
    if out is not None and result is not out:
        out[...] = result
    return result


def as_state(width: int, merge: Any, counts: Sequence[int], *arrays: Any, out: Any = None) -> Any:
    """Merge states: the kernel of what one domain contributes to a block."""
    return _given(_merged(width, merge, counts, arrays, out if width == 1 else None), out)


def merged_rows(merge: Any, counts: Sequence[int], *matrices: Any, out: Any = None) -> Any:
    """Merge the rows of matrices: the kernel of one part of a block between domains."""
    arrays = [matrix[row] for row in range(len(counts)) for matrix in matrices]
    width = len(matrices)
    return _given(_merged(width, merge, counts, arrays, out if width == 1 else None), out)


def _given(state: State, out: Any) -> Any:
    targets = (out,) if out is not None and not isinstance(out, tuple) else out
    for target, array in zip(targets or (), state, strict=True) if targets else ():
        if target is not array:
            target[...] = array
    return state if len(state) > 1 else state[0]


@dataclass(frozen=True, eq=False)
class Reduce(Strategy):
    """Every device reduces its blocks to a state, and the states of split factors are merged.

    Each part gives a state, states are merged two at a time in mesh order, and the last one is
    finished. The arrays of a state have the shape of the result; `xp` is NumPy or CuPy.
    """

    states: Callable[[Sequence[Aval], Params], tuple[Dtype, ...]]  # types of the arrays of a state
    local: KernelMaker  # makes the kernel that gives the state of a block: a tuple
    # Makes `merge(a, b, m, n)`: of states of m and n elements. It may overwrite nothing.
    merge: Callable[[Any, Sequence[Aval], Params], Callable[[State, State, int, int], State]]
    # Makes `finish(state, n)`: the result from the state of all n elements.
    finish: Callable[[Any, Sequence[Aval], Params], Callable[[State, int], LocalArray]]
    plain: bool = False  # whether the state of one element is the element, if it has its type
    numbers = False

    def price(self, case: Case) -> Price:
        """Price what operands receive, and merging."""
        nbytes = sum(dtype.itemsize for dtype in self.states(case.avals, case.params))

        def price(prices: Prices, splits: Splits) -> int | None:
            if not prices.merges(splits):
                return None
            return prices.operand_bytes(splits) + prices.merge_bytes(splits, nbytes)

        return price

    def compile(self, case: Case, call: ShardedCall | None) -> Program:
        """Make a reduction that merges where the result is wanted, if it can."""
        assert call is not None
        (natural,), (end,) = call.results, call.ends
        flops = functools.partial(flops_of, case, call)
        if refines(end.tiling, natural.tiling):
            call = dataclasses.replace(call, results=(end,))
        (result,) = call.results
        reduced = Reduced(self, case, call.tilings, natural.tiling, result.tiling)
        return program_around(case, call, *steps_of(reduced, flops))

    def adapted(self, adapter: Adapter) -> Reduce:
        """Return it for another row."""
        return Reduce(
            lambda avals, params: self.states(adapter.avals(avals), adapter.params(params)),
            adapter.local(self.local),
            lambda xp, avals, params: self.merge(xp, adapter.avals(avals), adapter.params(params)),
            adapter.finish(self.finish),
            self.plain,
        )


@dataclass(frozen=True, eq=False)
class Reduced:
    """A reduction over split factors that is to be compiled."""

    strategy: Reduce  # how parts come together
    case: Case
    operands: Sequence[Tiling]  # boxes of the operands when the kernel runs
    # Boxes of the result as the operands' splits give them: what the parts are parts of.
    natural: Tiling
    result: Tiling  # boxes of the result, each within the natural one of its device

    @functools.cached_property
    def dtypes(self) -> tuple[Dtype, ...]:
        """Types of the arrays of a state."""
        return self.strategy.states(self.case.avals, self.case.params)

    def make(self, maker: Callable[[Any, Sequence[Aval], Params], Any]) -> Any:
        """Make a function of the reduction, from what makes it."""
        return maker(self.case.runtime.backend.namespace, self.case.avals, self.case.params)

    def region(self, home: int) -> Index | None:
        """Return where in its natural box the box of a device lies; None if it is all of it."""
        shape = self.result.shard_shapes[home]
        if shape == self.natural.shard_shapes[home]:
            return None
        starts = (self.result.starts[:, home] - self.natural.starts[:, home]).tolist()
        return tuple(slice(a, a + n) for a, n in zip(starts, shape, strict=True))

    @functools.cached_property
    def counts(self) -> list[int]:
        """Return how many elements each device reduces to one."""
        rule = self.case.rule
        counts = np.ones(len(self.natural.devices), np.int64)
        seen: set[int] = set()
        for dims, tiling in zip(rule.operands, self.operands, strict=False):
            for dim, factor in enumerate(dims):
                if factor in rule.reduced and factor not in seen:
                    seen.add(factor)
                    counts *= tiling.stops[dim] - tiling.starts[dim]
        result: list[int] = counts.tolist()
        return result


Wanted: TypeAlias = tuple[int, int]
"""(memory domain, box of the result)."""


@dataclass(frozen=True, eq=False)
class Block:
    """A natural block whose parts lie in several domains, or not where they are wanted."""

    members: tuple[tuple[int, ...], ...]  # the calls whose parts each domain merges, in mesh order
    wanting: dict[Wanted, int]  # what is wanted of it where, with the device that pays

    @property
    def calls(self) -> list[int]:
        """All of these calls."""
        return [call for calls in self.members for call in calls]


class Between:
    """The merging of one block between domains: an all-reduce or a reduce-scatter of its parts.

    Of `calls`, which made the parts, each reduced `own` elements.
    """

    def __init__(
        self, reduced: Reduced, block: Block, calls: Sequence[KernelCall], own: Sequence[int]
    ) -> None:
        homes = [calls[numbers[0]].home for numbers in block.members]
        boxes = [box for _, box in block.wanting]
        wanted = sum(int(reduced.result.volumes[home]) for home in block.wanting.values())
        once = len(set(boxes)) == len(boxes) and wanted == int(reduced.natural.volumes[homes[0]])
        # Whether every domain merges just what it wants, which no other one does.
        self.scatters = once and len(boxes) > 1
        self._name = reduced.case.row.name
        self._dtypes = reduced.dtypes
        self._members: list[Any] = [reduced.natural.devices[home] for home in homes]
        self._shape: Shape = reduced.natural.shard_shapes[homes[0]]
        self._wanting: list[Any] = [reduced.result.devices[h] for h in block.wanting.values()]
        width, merge = len(self._dtypes), reduced.make(reduced.strategy.merge)
        own_parts = CallPlan(
            reduced.case.runtime,
            self._name,
            functools.partial(as_state, width, merge),
            [
                KernelCall(home, (self._shape,) * width, (tuple(own[n] for n in numbers),))
                for home, numbers in zip(homes, block.members, strict=True)
            ],
            [-1] * len(reduced.natural.devices),
            [reduced.natural] * width,
            self._dtypes,
        )
        self._own = Fold(block.members, [None] * len(homes), own_parts)
        self._sums = tuple(sum(own[n] for n in numbers) for numbers in block.members)
        self._rows_kernel = functools.partial(merged_rows, merge)
        if not self.scatters:
            pieces = tiling_over(self._members, (math.prod(self._shape),), 0)
        else:
            whole = tuple(slice(0, n) for n in self._shape)
            regions = [reduced.region(home) or whole for home in block.wanting.values()]
            places = dict(zip(self._wanting, regions, strict=True))
            rows = {place: (slice(0, len(homes)), *box) for place, box in places.items()}
            self._cut = tiling_from_indices((len(homes), *self._shape), rows)
            pieces = tiling_from_indices(self._shape, places)
        self._merged = self._merging(reduced, pieces)

    def _merging(self, reduced: Reduced, tiling: Tiling) -> LocalCalls:
        """Return the calls that merge the rows of matrices, a piece each."""
        width = len(self._dtypes)
        holders = [n for n in range(len(tiling.devices)) if tiling.volumes[n]]
        return LocalCalls(
            CallPlan(
                reduced.case.runtime,
                self._name,
                self._rows_kernel,
                [KernelCall(n, (tiling.shard_shapes[n],) * width, (self._sums,)) for n in holders],
                [holders.index(n) if n in holders else -1 for n in range(len(tiling.devices))],
                [tiling] * width,
                self._dtypes,
            )
        )

    def run(self, state: Sequence[Outputs]) -> list[Outputs]:
        """Return for each array of a state that of what is wanted, for each that wants some."""
        row = self._shape if self.scatters else (math.prod(self._shape),)
        rows = [
            rows_of(self._members, parts.values, parts.claims, dtype, row, settled=parts.settled)
            for parts, dtype in zip(self._own.run_parts(state), self._dtypes, strict=True)
        ]
        if self.scatters:
            made = reduce_scatter(rows, self._cut, self._merged.run, self._name)
            return [Outputs(buffer.values, buffer.claims, buffer.settled) for buffer in made]
        made = all_reduce(rows, self._wanting, self._merged.run, self._name)
        return [
            Outputs(
                [value.reshape(self._shape) for value in whole.values], whole.claims, whole.settled
            )
            for whole in made
        ]


class Merge(Runnable):
    """Merges the parts of a reduction over split factors.

    Args:
      reduced: the reduction.
      calls: the calls that give the parts.
      of_device: for each device the call whose parts it has, or -1.
    """

    def __init__(
        self, reduced: Reduced, calls: Sequence[KernelCall], of_device: Sequence[int]
    ) -> None:
        self._reduced = reduced
        self.dtypes = reduced.dtypes
        """Types of the arrays of a state."""
        self.natural = reduced.natural
        """Boxes of these arrays."""
        self.calls = calls
        """The calls that give the parts."""
        sources = _find(reduced, of_device)
        own = [reduced.counts[call.home] for call in calls]
        self._across = [Between(reduced, block, calls, own) for block in sources.across]
        self._last = _last(reduced, sources, own, [a.scatters for a in self._across])
        self.writes = self._last.writes

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the calls that merge."""
        return 2000 + 300 * len(self._last.of_device)

    def received(self, numbers: Sequence[Any] = ()) -> Counter[Any]:
        """Count the bytes that each device receives."""
        return _received(self._reduced)

    def run(self, operands: Sequence[Outputs], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Merge the parts: for each array of a state those of all calls."""
        for across in self._across:
            for parts, more in zip(operands, across.run(operands), strict=True):
                parts.values.extend(more.values)
                parts.claims.extend(more.claims)
                parts.settled = parts.settled and more.settled
        (merged,) = self._last.run_parts(operands)
        return [self._last.assemble(0, merged)]

    def small(self, numbers: Sequence[Any]) -> SmallCalls | None:
        """Return the calls that merge parts of a single memory domain."""
        last = self._last
        return None if self._across or not last.at_once else SmallCalls(last, (), (last.order,))


class View(Runnable):
    """Reads each block of an operand, which has one element to reduce, as a part."""

    writes = (0,)

    def __init__(self, calls: Sequence[KernelCall]) -> None:
        self._views = [(call.home, call.shapes[0]) for call in calls]

    def run(self, operands: Sequence[ShardedBuffer], numbers: Sequence[Any]) -> list[Outputs]:
        """Return the blocks as parts."""
        (operand,) = operands
        values = [operand.values[home].reshape(shape) for home, shape in self._views]
        kept = [operand.claims[home] for home, _ in self._views]
        return [Outputs(values, kept, operand.is_settled())]


def steps_of(reduced: Reduced, flops: Callable[[], Counter[Any]]) -> tuple[Runnable, Merge]:
    """Make the two steps of a reduction: what gives the parts, and what merges them."""
    case, dtypes, counts = reduced.case, reduced.dtypes, reduced.counts
    row, runtime = case.row, case.runtime
    tilings = [reduced.natural] * len(dtypes)
    sizes = [aval.dtype.itemsize for aval in case.avals]
    read = list(zip(reduced.operands, sizes, strict=True))
    calls, of_device = calls_of(row, read, tilings, [n > 0 for n in counts])
    merge = Merge(reduced, calls, of_device)
    if calls and reduced.strategy.plain and {*counts} == {1} and case.avals[0].dtype == dtypes[0]:
        return View(calls), merge
    kernel = reduced.make(reduced.strategy.local)
    plan = CallPlan(runtime, row.name, kernel, calls, of_device, tilings, dtypes)
    taken = zip(case.avals, reduced.operands, strict=True)
    blocks = [(aval.dtype, tiling) for aval, tiling in taken]
    local = launched(plan, blocks) or LocalCalls(plan, threaded=row.threaded)
    parts = dict.fromkeys(range(len(dtypes)))
    return Compute(local, parts=parts, flops=flops), merge


def _received(reduced: Reduced) -> Counter[Any]:
    """Count the bytes that devices receive to merge the parts of a reduction.

    Each device that has a part of a block merges one piece of the block. The pieces then go to all
    devices that want the block. If each device wants a piece of its own, it merges that piece.
    """
    moved: Counter[Any] = Counter()
    natural, result = reduced.natural, reduced.result
    width = sum(dtype.itemsize for dtype in reduced.dtypes)
    boxes = result.assignment.flat.tolist()
    members: dict[int, dict[Any, int]] = {}
    wanting: dict[int, list[int]] = {}
    for n, block in enumerate(natural.assignment.flat.tolist()):
        if all(tiling.volumes[n] for tiling in reduced.operands):
            part = tuple(tiling.assignment.flat[n] for tiling in reduced.operands)
            members.setdefault(block, {}).setdefault(part, n)
        if result.volumes[n]:
            wanting.setdefault(block, []).append(n)
    for block, parts in members.items():
        own, wants = list(parts.values()), wanting.get(block, [])
        if len(own) == 1:
            continue
        size = int(natural.volumes[own[0]])
        apart = len({boxes[n] for n in wants}) == len(wants) > 1
        if apart and sum(int(result.volumes[n]) for n in wants) == size:
            for n in wants:
                others = len(own) - (n in own)
                moved[natural.devices[n]] += others * int(result.volumes[n]) * width
            continue
        pieces = dict(zip(own, np.diff(block_edges(size, len(own))).tolist(), strict=True))
        for n, piece in pieces.items():
            moved[natural.devices[n]] += (len(own) - 1) * piece * width
        for n in wants:
            moved[natural.devices[n]] += (size - pieces.get(n, 0)) * width
    return moved


@dataclasses.dataclass(eq=False)
class _Found:
    """How the parts of what is reduced come together."""

    # What is merged within its domain: the calls, in mesh order, and the device that pays.
    within: dict[Wanted, tuple[list[int], int]]
    across: list[Block]  # what is not
    of_device: list[Wanted]  # what each device wants


def _find(reduced: Reduced, of_device: Sequence[int]) -> _Found:
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
    parts_of_blocks = _Found({}, [], list(zip(domains, boxes, strict=True)))
    wanting: dict[int, dict[Wanted, int]] = {}
    for position, volume in enumerate(reduced.result.volumes.tolist()):
        if volume:
            home = int(target.home[target.of_device[position]])
            wanting.setdefault(blocks[position], {})[parts_of_blocks.of_device[position]] = home
    for block, wanted in wanting.items():
        lacking = {}
        for key, home in wanted.items():
            if all(key[0] in at for at in parts[block].values()):
                calls = [at[key[0]] for at in parts[block].values()]
                parts_of_blocks.within[key] = calls, home
            else:
                lacking[key] = home
        if lacking:
            members: dict[int, list[int]] = {}
            for at in parts[block].values():
                domain, call = next(iter(at.items()))
                members.setdefault(domain, []).append(call)
            parts_of_blocks.across.append(Block(tuple(map(tuple, members.values())), lacking))
    return parts_of_blocks


def _last(
    reduced: Reduced, merges: _Found, own: Sequence[int], scatters: Sequence[bool]
) -> Fold | Launched:
    """Return the calls that merge what is within a domain, and finish everything."""
    inputs = [calls for calls, _ in merges.within.values()]
    homes = [home for _, home in merges.within.values()]
    sizes = [tuple(own[n] for n in numbers) for numbers in inputs]
    regions = [reduced.region(home) for home in homes]
    number = len(own)
    for block, cut in zip(merges.across, scatters, strict=True):
        for home in block.wanting.values():
            inputs.append([number])
            homes.append(home)
            sizes.append((sum(own[call] for call in block.calls),))
            regions.append(None if cut else reduced.region(home))
            number += 1
    shapes = reduced.result.shard_shapes
    calls = [
        KernelCall(home, (shapes[home],), (size,)) for home, size in zip(homes, sizes, strict=True)
    ]
    keys = [*merges.within, *(key for block in merges.across for key in block.wanting)]
    of_key = {key: n for n, key in enumerate(keys)}
    of_device = [of_key.get(key, -1) for key in merges.of_device]
    case, results = reduced.case, [reduced.result]
    merge, finish = reduced.make(reduced.strategy.merge), reduced.make(reduced.strategy.finish)
    kernel = functools.partial(finished, len(reduced.dtypes), merge, finish)
    dtypes = [aval.dtype for aval in case.results]
    plan = CallPlan(case.runtime, case.row.name, kernel, calls, of_device, results, dtypes)
    if isinstance(merge, InOrder) and finish is only and not merges.across and not any(regions):
        fold = launched_merges(plan, inputs, functools.partial(merge.elementwise, dtypes[0]))
        if fold is not None:
            return fold
    return Fold(inputs, regions, plan)
