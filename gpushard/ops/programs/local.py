"""Programs that compute: every device calls the kernel on what it has.

Around any kernel there are moves: of operands to where it takes them, and of results to where they
are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gpushard.frozen import dataclass
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.execute import run
from gpushard.movement.reshard import plan_for
from gpushard.ops import choose
from gpushard.ops.aval import Aval
from gpushard.ops.choose import Price
from gpushard.ops.gather_guard import check_gather, watched
from gpushard.ops.operand import Hosted, Scalar, Sharded, in_memory, is_committed, placed
from gpushard.ops.programs.calls import LocalCalls, Work, calls_of
from gpushard.ops.programs.launched import launched
from gpushard.ops.row import Case, ShardedCall, Strategy
from gpushard.ops.scalars import converter
from gpushard.typing import HostArray


@dataclass(frozen=True, eq=False)
class Local(Strategy):
    """Every device calls the kernel on its blocks, which are all that it needs."""

    whole: str = ""
    """Why dims that are split come whole to every device first; empty if none does."""

    def price(self, case: Case) -> Price:
        """Price what operands receive, and the result."""
        return choose.local

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


class Computation:
    """A program that computes.

    Args:
      case: what for.
      call: where operands and results lie.
      work: what computes.
    """

    def __init__(self, case: Case, call: ShardedCall, work: Computing) -> None:
        row = case.row
        self.name = row.name
        self.runtime = case.runtime
        self.results = call.ends
        self.committed = is_committed(case.operands)
        self._work = work
        self._scalars = [
            (position, converter(row, case.results, case.avals, position))
            for position, x in enumerate(case.operands)
            if isinstance(x, Scalar)
        ]
        self._moves = _moves(case, call)
        self._watched = _watched(case, call) if self._moves else None
        pairs = zip(call.ends, call.results, strict=True)
        self._ends = [
            (n, end.tiling)
            for n, (end, result) in enumerate(pairs)
            if end.tiling is not result.tiling
        ]
        alone = not (self._scalars or self._moves or self._ends)
        self.run: Callable[[Sequence[Any], Sequence[Any]], list[ShardedBuffer]] = (
            work.run if alone else self._run_between
        )
        """Runs it."""

    @property
    def nbytes(self) -> int:
        """Bytes that this program takes, about."""
        return 6000 + 900 * len(self.results[0].tiling.devices)

    def _run_between(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Run it, with all that comes before and after it."""
        scalars: Sequence[tuple[int, Any]] = ()
        if numbers:
            scalars = [
                (position, convert(number))
                for (position, convert), number in zip(self._scalars, numbers, strict=True)
            ]
        if self._moves:
            if self._watched is not None:
                check_gather(self._watched)
            operands = list(operands)
            for at, tiling in self._moves:
                operands[at] = self._moved(operands[at], tiling)
        results = self._work.run(operands, scalars)
        for n, end in self._ends:
            results[n] = run(plan_for(results[n], end), (results[n],), self.name)
        return results

    def _moved(self, operand: ShardedBuffer | HostArray, tiling: Tiling) -> ShardedBuffer:
        if isinstance(operand, ShardedBuffer):
            return run(plan_for(operand, tiling), (operand,), self.name)
        return placed(self.runtime, operand, tiling)


def _moves(case: Case, call: ShardedCall) -> list[tuple[int, Tiling]]:
    """Return which operands, among those that are no Python numbers, go where."""
    pairs = zip(case.operands, call.operands, strict=True)
    arrays = [(x, lies[1]) for x, lies in pairs if lies is not None]
    return [
        (n, tiling)
        for n, (x, tiling) in enumerate(arrays)
        if isinstance(x, Hosted) or (isinstance(x, Sharded) and tiling is not x.tiling)
    ]


def _watched(case: Case, call: ShardedCall) -> str | None:
    """Return what a gather guard would say of the moves."""
    if call.choice is None:
        return None
    inside = [in_memory(x, "device") for x in case.operands]
    lies = [None if place is None else place[1] for place in call.operands]
    limit = case.runtime.settings.large_move_bytes
    return watched(case.row.name, inside, lies, call.choice.nbytes, limit)
