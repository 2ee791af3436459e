"""Steps: the work of an operation, as data.

A program is a small graph. Its values have numbers: the operands come first, then what each step
gives. `a @ b.T` of matrices that are split over columns, with a result on one device:

    step                   takes  gives
    Compute                0, 1   2      each device multiplies its columns: parts of the result
    Merge                  2      3      devices receive parts and add them
    Bring                  3      4      the result moves to the device that wants it

What an operation costs, holds and launches is what its steps do: `received`, `flops`, `scratch`
and `launches` read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling, block_edges
from gpushard._ops.aval import Aval
from gpushard._ops.gather_guard import check_gather

Run: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
"""Takes the values of operands and Python numbers; returns the values of results."""


@dataclass(frozen=True, eq=False)
class Result:
    """One result of an operation."""

    aval: Aval
    sharding: Sharding
    tiling: Tiling  # the tiling of its shape


class Runnable:
    """Work that is ready to run."""

    # Takes buffers in order, or NumPy arrays for operands on the host, and the Python numbers in
    # order. Between steps, values may also be the parts of a result: `Outputs`. Raises
    # `OutOfMemoryError` if a device has no room.
    run: Run
    moves: str | None = None  # a description of operands that it gathers, for gather guards
    writes: Sequence[int] = ()  # of a step: the bytes of memory that each result takes

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the object itself."""
        return 0

    @property
    def scratch(self) -> int:
        """Bytes that it holds while it runs, in addition to operands and results."""
        return 0

    def launches(self, numbers: Sequence[Any]) -> tuple[Any, Sequence[tuple[int, Any]]] | None:
        """Return the single `Launched` of this work and its numbers; None for other work."""
        return None

    def small(self, numbers: Sequence[Any]) -> Any:
        """Return the `SmallCalls` that this work is for some numbers; None for other work."""
        return None

    def received(self, numbers: Sequence[Any] = ()) -> Counter[Any]:
        """Count the bytes that each device receives from others, each its own memory domain."""
        return Counter()

    def flops(self) -> Counter[Any]:
        """Count the operations on numbers that each device does."""
        return Counter()


@dataclass(frozen=True, eq=False)
class Step:
    """Work on values of a program."""

    work: Runnable
    takes: tuple[int, ...]  # the numbers of its operands
    gives: tuple[int, ...]  # the numbers of its results


class Draft:
    """Writes steps, one after the other.

    Args:
      operands: the number of operands, which are the first values.
    """

    def __init__(self, operands: int) -> None:
        self.operands = operands
        """The number of operands."""
        self.steps: list[Step] = []
        """The steps so far."""
        self._count = operands

    def add(self, work: Runnable, takes: Sequence[int]) -> list[int]:
        """Add a step; return the numbers of its results."""
        gives = range(self._count, self._count + len(work.writes))
        self._count += len(gives)
        self.steps.append(Step(work, tuple(takes), tuple(gives)))
        return list(gives)


class Steps(Runnable):
    """Steps that run one after the other.

    Args:
      draft: the steps.
      ends: the numbers of the results.
      moves: a description of operands that steps gather, for gather guards.
    """

    def __init__(self, draft: Draft, ends: Sequence[int], moves: str | None = None) -> None:
        self.steps: Sequence[Step] = tuple(draft.steps)
        """The steps, in order."""
        self.ends: Sequence[int] = tuple(ends)
        """The numbers of the results."""
        self.moves = moves
        self._runs = [step.work.run for step in self.steps]
        last = {n: at for at, step in enumerate(self.steps) for n in (*step.takes, *step.gives)}
        # The values between steps that nothing needs after each step.
        self._ended = [
            [n for n, end in last.items() if end == at and n >= draft.operands and n not in ends]
            for at in range(len(self.steps))
        ]
        takes = [step.takes for step in self.steps]
        freed = [*self._ended[:-1], []]  # the last ones go with the list of values
        self._calls = [*zip(self._runs, takes, freed, strict=False)]
        if moves is not None or not self._is_chain(draft.operands):
            self.run = self._run_steps
        else:
            self.run = self._runs[0] if len(self._runs) == 1 else self._run_chain

    def _is_chain(self, operands: int) -> bool:
        """Test whether each step takes what the one before it gives, and the first all operands."""
        values: tuple[int, ...] | None = tuple(range(operands)) if self.steps else None
        for step in self.steps:
            if step.takes != values:
                return False
            values = step.gives
        return values == self.ends

    def _run_chain(self, operands: Sequence[Any], numbers: Sequence[Any]) -> Sequence[Any]:
        for run in self._runs:
            operands = run(operands, numbers)
        return operands

    def _run_steps(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        if self.moves is not None:
            check_gather(self.moves)
        values = [*operands]
        for run, takes, ended in self._calls:
            values += run([values[n] for n in takes], numbers)
            for n in ended:
                values[n] = None
        return [values[n] for n in self.ends]

    @property
    def nbytes(self) -> int:
        """Approximate bytes of all steps."""
        return sum(step.work.nbytes for step in self.steps)

    @property
    def scratch(self) -> int:
        """The most bytes of values between steps that are held at once."""
        most = held = 0
        size: dict[int, int] = {}
        for step, ended in zip(self.steps, self._ended, strict=True):
            size |= dict(zip(step.gives, step.work.writes, strict=True))
            held += sum(size[n] for n in step.gives if n not in self.ends)
            most = max(most, held + step.work.scratch)
            held -= sum(size[n] for n in ended)
        return most

    def launches(self, numbers: Sequence[Any]) -> tuple[Any, Sequence[tuple[int, Any]]] | None:
        """Return the launches of a single step; None for more steps."""
        return self.steps[0].work.launches(numbers) if len(self.steps) == 1 else None

    def received(self, numbers: Sequence[Any] = ()) -> Counter[Any]:
        """Count the bytes that each device receives in all steps."""
        return sum((step.work.received(numbers) for step in self.steps), Counter())

    def flops(self) -> Counter[Any]:
        """Count the operations on numbers that each device does in all steps."""
        return sum((step.work.flops() for step in self.steps), Counter())


def evenly(nbytes: int, devices: Sequence[Any]) -> Counter[Any]:
    """Divide bytes evenly among devices, if only their sum is known."""
    edges = block_edges(nbytes, max(1, len(devices)))
    return Counter(dict(zip(devices, np.diff(edges).tolist(), strict=False)))


class Program(Steps):
    """A row compiled for operands of particular shapes, types and layouts.

    Args:
      name: the name of the operation, for errors.
      results: shapes, types and layouts of the results.
      committed: whether the devices of the results are committed.
      draft: the steps.
      ends: the numbers of the results.
      bytes_received: bytes that devices receive from others per run, as dispatch counts them.
      moves: a description of operands that steps gather, for gather guards.
    """

    def __init__(
        self,
        name: str,
        results: Sequence[Result],
        committed: bool,
        draft: Draft,
        ends: Sequence[int],
        bytes_received: int = 0,
        moves: str | None = None,
    ) -> None:
        super().__init__(draft, ends, moves)
        self.name = name
        self.results = results
        self.committed = committed
        self.bytes_received = bytes_received
