"""Programs that compute: every device calls the kernel on what it has.

Around any kernel there are moves: of operands to where it takes them, and of results to where they
are wanted.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.mesh import Mesh
from gpushard._ops import choose_split
from gpushard._ops.aval import Aval
from gpushard._ops.choose_split import Given, Price
from gpushard._ops.committed import is_committed
from gpushard._ops.gather_guard import watched
from gpushard._ops.operand import Hosted, Scalar, Sharded, in_memory
from gpushard._ops.programs.bring import Place, bring
from gpushard._ops.programs.calls import CallPlan, LocalCalls, SmallCalls, calls_of
from gpushard._ops.programs.launched import Launched, launched
from gpushard._ops.row import Case, ShardedCall, Strategy
from gpushard._ops.rule import Splits
from gpushard._ops.scalars import converter
from gpushard._ops.steps import Draft, Program, Run, Runnable
from gpushard._runtime.launch import Outputs


@dataclass(frozen=True, eq=False)
class Local(Strategy):
    """Every device calls the kernel on its blocks, which are all that it needs."""

    whole: str = ""  # why dims that are split come whole to every device first; empty if none does
    stays: bool = False  # whether the result lies as the first operand does

    def price(self, case: Case) -> Price:
        """Price what operands receive, and the result."""
        return choose_split.local

    def wanted(self, case: Case, mesh: Mesh, operands: Sequence[Given]) -> Splits | None:
        """Return the splits of the first operand, if the result keeps them."""
        rule, axes = case.rule, operands[0].axes
        if not self.stays or axes is None:
            return None
        splits = {
            f: names for f, names in zip(rule.operands[0], axes, strict=True) if f is not None
        }
        splits |= rule.pins
        used = [name for names in splits.values() for name in names]
        if len(set(used)) < len(used):
            return None
        return tuple(splits.get(factor, ()) for factor in range(len(rule.sizes)))

    def compile(self, case: Case, call: ShardedCall | None) -> Program:
        """Make the calls, by a kernel of the backend's where it has one."""
        assert call is not None
        numbers, flops = converter_of_numbers(case), functools.partial(flops_of, case, call)
        compute = Compute(calls_on_blocks(case, call), numbers, flops=flops)
        return program_around(case, call, compute)


def calls_on_blocks(case: Case, call: ShardedCall) -> LocalCalls:
    """Make the calls of the row's kernel on the blocks of each device."""
    row, runtime = case.row, case.runtime
    tilings = [result.tiling for result in call.results]
    sizes = [x.aval.dtype.itemsize for x in case.operands if not isinstance(x, Scalar)]
    read = list(zip(call.tilings, sizes, strict=True))
    calls, of_device = calls_of(row, read, tilings)
    avals = _in_kernel(case)
    kernel = row.kernel(runtime.backend.namespace, avals, case.params)
    dtypes = [aval.dtype for aval in case.results]
    plan = CallPlan(runtime, row.name, kernel, calls, of_device, tilings, dtypes)
    lies = [None if place is None else place[1] for place in call.operands]
    blocks = [(aval.dtype, tiling) for aval, tiling in zip(avals, lies, strict=True)]
    return launched(plan, blocks) or LocalCalls(plan, threaded=row.threaded, steps=row.steps)


def converter_of_numbers(
    case: Case,
) -> Callable[[Sequence[Any]], Sequence[tuple[int, Any]]] | None:
    """Return what converts Python numbers for the kernel; None if the operands have none."""
    scalars = [
        (position, converter(case.row, case.results, case.avals, position))
        for position, x in enumerate(case.operands)
        if isinstance(x, Scalar)
    ]

    def converted(numbers: Sequence[Any]) -> list[tuple[int, Any]]:
        return [
            (position, convert(number))
            for (position, convert), number in zip(scalars, numbers, strict=True)
        ]

    return converted if scalars else None


def _in_kernel(case: Case) -> tuple[Aval, ...]:
    """Return the types that operands come in: Python numbers have those of the kernel."""
    if case.row.loop is None:
        return case.avals
    types = case.row.loop(case.avals)
    return tuple(
        Aval((), t) if isinstance(x, Scalar) else x.aval
        for x, t in zip(case.operands, types, strict=False)
    )


class Compute(Runnable):
    """Calls a kernel on the blocks of operands.

    Args:
      calls: the calls.
      numbers: converts the Python numbers of an operation to those that the kernel takes, with
        their positions among all that it takes.
      parts: the results that stay in parts, one for each call, and which calls give them, in
        order; None for all calls. A later step merges them.
      count: the number of results; None for all. Kernels may write to more memory than results.
      flops: counts the operations on numbers of each device.
    """

    def __init__(
        self,
        calls: LocalCalls,
        numbers: Callable[[Sequence[Any]], Sequence[tuple[int, Any]]] | None = None,
        parts: Mapping[int, Sequence[int] | None] | None = None,
        count: int | None = None,
        flops: Callable[[], Counter[Any]] = Counter,
    ) -> None:
        self.calls = calls
        """The calls."""
        self._numbers, self._parts = numbers, parts or {}
        self._count = len(calls.dtypes) if count is None else count
        self._flops = flops
        self.writes = calls.writes[: self._count]
        self.run: Run = self._run
        if self._count == len(calls.dtypes) and not self._parts:
            self.run = calls.run if numbers is None else self._run_with_numbers
        elif numbers is None and list(self._parts.values()) == [None] * len(calls.dtypes):
            self.run = calls.run_parts

    def launches(self, numbers: Sequence[Any]) -> tuple[Launched, Sequence[tuple[int, Any]]] | None:
        """Return the launches that the calls are, and the numbers that they take."""
        if self._parts or not isinstance(self.calls, Launched):
            return None
        return self.calls.launches(self._converted(numbers))

    def small(self, numbers: Sequence[Any]) -> SmallCalls | None:
        """Return the calls, with numbers as they take them."""
        calls, parts = self.calls, self._parts
        if not calls.at_once:
            return None
        orders = [parts.get(n, calls.order) for n in range(self._count)]
        return SmallCalls(calls, self._converted(numbers), orders, frozenset(parts))

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the calls."""
        return 4000 + 900 * len(self.calls.of_device)

    @property
    def scratch(self) -> int:
        """Bytes that the kernel writes to in addition to results."""
        return sum(self.calls.writes[self._count :])

    def flops(self) -> Counter[Any]:
        """Count the operations on numbers that each device does."""
        return self._flops()

    def _converted(self, numbers: Sequence[Any]) -> Sequence[tuple[int, Any]]:
        return () if self._numbers is None else self._numbers(numbers)

    def _run_with_numbers(self, operands: Sequence[Any], numbers: Sequence[Any]) -> Sequence[Any]:
        assert self._numbers is not None
        return self.calls.run(operands, self._numbers(numbers))

    def _run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> Sequence[Any]:
        calls = self.calls
        if not self._parts:
            return calls.run(operands, self._converted(numbers))[: self._count]
        results: list[Any] = calls.run_parts(operands, self._converted(numbers))[: self._count]
        for n, part in enumerate(results):
            if n not in self._parts:
                results[n] = calls.assemble(n, part)
            elif (order := self._parts[n]) is not None:
                values = [part.values[at] for at in order]
                results[n] = Outputs(values, [part.claims[at] for at in order], part.settled)
        return results


def program_around(
    case: Case, call: ShardedCall, *works: Runnable, chosen: ShardedCall | None = None
) -> Program:
    """Make the program that brings operands, works on them, and brings results to where they end.

    Args:
      case: the operation.
      call: the layouts of its operands and results.
      works: the work; each takes the results of the one before it.
      chosen: the layouts for gather guards, if memory that devices share needs fewer moves.
    """
    runtime, name = case.runtime, case.row.name
    pairs = zip(case.operands, call.operands, strict=True)
    arrays = [(x, lies[1]) for x, lies in pairs if lies is not None]
    draft = Draft(len(arrays))
    values = []
    for n, (x, tiling) in enumerate(arrays):
        if isinstance(x, Hosted):
            values += draft.add(Place(runtime, tiling, x.aval.dtype), [n])
        else:
            assert isinstance(x, Sharded)
            values.append(bring(draft, n, runtime, x.tiling, tiling, x.aval.dtype.itemsize, name))
    moves = _watched(case, chosen or call) if draft.steps or chosen else None
    for work in works:
        values = draft.add(work, values)
    ends = [
        bring(draft, n, runtime, x.tiling, end.tiling, x.aval.dtype.itemsize, name)
        for n, x, end in zip(values, call.results, call.ends, strict=True)
    ]
    committed, choice = is_committed(case.operands), call.choice
    received = 0 if choice is None else choice.nbytes
    return Program(name, call.ends, committed, draft, ends, received, moves)


def flops_of(case: Case, call: ShardedCall) -> Counter[Any]:
    """Count operations on numbers: one for each element, two if products are summed."""
    rule, natural = case.rule, call.results[0].tiling
    products = 2 if rule.reduced and len(rule.operands) > 1 else 1
    done = np.full(len(natural.devices), products, np.int64)
    of_factor: dict[int, Any] = {}
    arrays = [None if place is None else place[1] for place in call.operands]
    tilings = [*arrays, *(x.tiling for x in call.results)]
    for dims, tiling in zip((*rule.operands, *rule.results), tilings, strict=True):
        for dim, factor in enumerate(dims):
            if tiling is None or factor is None or tiling.shape[dim] != rule.sizes[factor]:
                continue
            of_factor[factor] = tiling.stops[dim] - tiling.starts[dim]
    for factor, size in enumerate(rule.sizes):
        done = done * of_factor.get(factor, size)
    return Counter(dict(zip(natural.devices, done.tolist(), strict=True)))


def _watched(case: Case, call: ShardedCall) -> str | None:
    """Return what a gather guard would say of the moves."""
    if call.choice is None:
        return None
    inside = [in_memory(x, "device") for x in case.operands]
    lies = [None if place is None else place[1] for place in call.operands]
    limit = case.runtime.settings.large_move_bytes
    return watched(case.row.name, inside, lies, call.choice.nbytes, limit)
