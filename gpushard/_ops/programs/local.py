"""Programs that compute: every device calls the kernel on what it has.

Around any kernel there are moves: of operands to where it takes them, and of results to where they
are wanted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gpushard._frozen import dataclass
from gpushard._geometry.mesh import Mesh
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.reshard import Mover
from gpushard._ops import choose
from gpushard._ops.aval import Aval
from gpushard._ops.choose import Given, Price
from gpushard._ops.committed import is_committed
from gpushard._ops.gather_guard import check_gather, watched
from gpushard._ops.operand import Hosted, Scalar, Sharded, in_memory, placed
from gpushard._ops.programs.calls import LocalCalls, Work, calls_of
from gpushard._ops.programs.launched import Launched, launched
from gpushard._ops.row import Case, Program, Run, ShardedCall, Strategy
from gpushard._ops.rule import Splits
from gpushard._ops.scalars import converter


@dataclass(frozen=True, eq=False)
class Local(Strategy):
    """Every device calls the kernel on its blocks, which are all that it needs."""

    whole: str = ""  # why dims that are split come whole to every device first; empty if none does
    stays: bool = False  # whether the result lies as the first operand does

    def price(self, case: Case) -> Price:
        """Price what operands receive, and the result."""
        return choose.local

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

    def compile(self, case: Case, call: ShardedCall | None) -> Computation:
        """Make the calls, by a kernel of the backend's where it has one."""
        assert call is not None
        row, runtime = case.row, case.runtime
        tilings = [result.tiling for result in call.results]
        sizes = [x.aval.dtype.itemsize for x in case.operands if not isinstance(x, Scalar)]
        read = list(zip(call.tilings, sizes, strict=True))
        calls, of_device = calls_of(row, read, tilings)
        avals = _in_kernel(case)
        kernel = row.kernel(runtime.backend.namespace, avals, case.params)
        dtypes = [aval.dtype for aval in case.results]
        work = Work(runtime, row.name, kernel, calls, of_device, tilings, dtypes)
        lies = [None if place is None else place[1] for place in call.operands]
        blocks = [(aval.dtype, tiling) for aval, tiling in zip(avals, lies, strict=True)]
        return Computation(
            case,
            call,
            launched(work, blocks) or LocalCalls(work, threaded=row.threaded, steps=row.steps),
        )


def _in_kernel(case: Case) -> tuple[Aval, ...]:
    """Return the types that operands come in: Python numbers have those of the kernel."""
    if case.row.loop is None:
        return case.avals
    types = case.row.loop(case.avals)
    return tuple(
        Aval((), t) if isinstance(x, Scalar) else x.aval
        for x, t in zip(case.operands, types, strict=False)
    )


class Computing(Protocol):
    """What runs once operands are where they belong."""

    def run(
        self, operands: Sequence[ShardedBuffer], scalars: Sequence[tuple[int, Any]]
    ) -> list[ShardedBuffer]:
        """Compute; `scalars` are numbers with their positions among the operands."""


class Computation(Program):
    """A program that computes."""

    def __init__(self, case: Case, call: ShardedCall, work: Computing) -> None:
        row = case.row
        self.name = row.name
        self.runtime = case.runtime
        self.results = call.ends
        self.committed = is_committed(case.operands)
        self.bytes_received = 0 if call.choice is None else call.choice.nbytes
        self._work = work
        self._scalars = [
            (position, converter(row, case.results, case.avals, position))
            for position, x in enumerate(case.operands)
            if isinstance(x, Scalar)
        ]
        self._before = _before(case, call)
        self.moves = _watched(case, call) if self._before else None
        self._after = [
            (n, Mover(case.runtime, x.tiling, end.tiling, x.aval.dtype.itemsize, row.name))
            for n, (end, x) in enumerate(zip(call.ends, call.results, strict=True))
            if end.tiling is not x.tiling
        ]
        self.alone = None if self._scalars or self._before or self._after else work
        self.run: Run = self._run_between if self.alone is None else work.run

    def launches(self, numbers: Sequence[Any]) -> tuple[Launched, Sequence[tuple[int, Any]]] | None:
        """Return the launches that it is, and the numbers that they take; None if it is more."""
        if self._before or self._after or not isinstance(self._work, Launched):
            return None
        return self._work.launches(self._converted(numbers))

    @property
    def scratch(self) -> int:
        """Bytes that it holds while it runs, beside operands and results."""
        movers = [mover for _, mover in (*self._before, *self._after)]
        return sum(mover.bytes_written for mover in movers if isinstance(mover, Mover))

    @property
    def nbytes(self) -> int:
        """Bytes that this program takes, about."""
        movers = [mover for _, mover in (*self._before, *self._after)]
        plans = sum(mover.nbytes for mover in movers if isinstance(mover, Mover))
        return 6000 + 900 * len(self.results[0].tiling.devices) + plans

    def _converted(self, numbers: Sequence[Any]) -> Sequence[tuple[int, Any]]:
        return [
            (position, convert(number))
            for (position, convert), number in zip(self._scalars, numbers, strict=True)
        ]

    def _run_between(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Run it, with all that comes before and after it."""
        scalars = self._converted(numbers) if numbers else ()
        if self._before:
            if self.moves is not None:
                check_gather(self.moves)
            operands = list(operands)
            for at, move in self._before:
                operands[at] = move(operands[at])
        results = self._work.run(operands, scalars)
        for n, move in self._after:
            results[n] = move(results[n])
        return results


def _before(case: Case, call: ShardedCall) -> list[tuple[int, Callable[[Any], ShardedBuffer]]]:
    """Return what brings operands, among those that are no Python numbers, to the kernel."""
    movers: list[tuple[int, Callable[[Any], ShardedBuffer]]] = []
    pairs = zip(case.operands, call.operands, strict=True)
    arrays = [(x, lies[1]) for x, lies in pairs if lies is not None]
    for n, (x, tiling) in enumerate(arrays):
        if isinstance(x, Hosted):
            movers.append((n, functools.partial(placed, case.runtime, tiling=tiling)))
        elif isinstance(x, Sharded) and tiling is not x.tiling:
            nbytes = x.aval.dtype.itemsize
            movers.append((n, Mover(case.runtime, x.tiling, tiling, nbytes, case.row.name)))
    return movers


def _watched(case: Case, call: ShardedCall) -> str | None:
    """Return what a gather guard would say of the moves."""
    if call.choice is None:
        return None
    inside = [in_memory(x, "device") for x in case.operands]
    lies = [None if place is None else place[1] for place in call.operands]
    limit = case.runtime.settings.large_move_bytes
    return watched(case.row.name, inside, lies, call.choice.nbytes, limit)
