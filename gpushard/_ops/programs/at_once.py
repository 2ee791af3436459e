"""Small computations one after the other, which the caller makes at once.

For blocks of a few kilobytes, claims and buffers take longer than the arithmetic. A run of such
steps passes on plain arrays, and claims only the values that other steps need. What accounts pay
for the others is known before, so they pay once for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from gpushard._movement.buffer import ShardedBuffer
from gpushard._ops.programs.calls import SmallCalls, quietly
from gpushard._ops.steps import Runnable
from gpushard._runtime.launch import Outputs
from gpushard._runtime.memory import Account, Passing

NumberedStep: TypeAlias = tuple[Runnable, Sequence[Any], Sequence[int], Sequence[int]]
"""Work, its Python numbers, and the numbers of the values that it takes and gives."""


class AtOnce(Runnable):
    """Steps that are small calls: they run at once where all operands are there, or one by one.

    Args:
      steps: the steps; `Runnable.small` gives the calls of each.
      operands: the numbers of the values that they take from others.
      results: the numbers of the values that others need.
    """

    def __init__(
        self, steps: Sequence[NumberedStep], operands: Sequence[int], results: Sequence[int]
    ) -> None:
        computed = [n for _, _, _, gives in steps for n in gives]
        at = {n: place for place, n in enumerate([*operands, *computed])}
        last = {n: number for number, step in enumerate(steps) for n in (*step[2], *step[3])}
        needed = {*results}
        scalars: list[list[Any]] = []  # values that come after all others
        self._results = [at[n] for n in results]
        self._steps: list[Any] = []  # as they run one by one
        self._calls: list[Any] = []  # as they run at once
        self._counts: list[Any] = []  # what claims the results of calls
        forms: dict[int, Any] = {}
        for number, (work, numbers, takes, gives) in enumerate(steps):
            small: SmallCalls = work.small(numbers)
            calls = small.calls
            to = [at[n] for n in gives]
            ended = [at[n] for n in {*takes, *gives} - needed if last[n] == number]
            places = [at[n] for n in takes]
            self._steps.append((work.run, numbers, places.copy(), to, ended))
            for position, value in small.scalars:
                places.insert(position, len(at) + len(scalars))
                scalars.append([value] * len(calls.of_device))
            mapped = calls.as_map() if places and small.orders == [None] else None
            orders = list(zip(to, small.orders, strict=True))
            self._calls.append((mapped, calls.compute, places, to[0], orders, ended))
            if not needed.isdisjoint(gives):
                self._counts.append(calls.count)
            for n, value in enumerate(gives):
                layout = None if n in small.parts else (calls.tilings[n], calls.dtypes[n])
                # Arrays that one device each has own their bytes: none has a larger root.
                root = 0 if calls.order is None else -1
                forms[value] = at[value], len(self._counts) - 1, layout, root
        self._rest = [*[None] * len(computed), *scalars]
        self._forms = [forms[n] for n in results]
        self._runtime = calls.runtime
        self._passing = _passing(steps, last, needed)

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Run the steps."""
        columns = []
        for operand in operands:
            if not (operand.settled or operand.is_settled()):
                return self._run_one_by_one(operands)
            columns.append(operand.values)
        self._runtime.count_passing(self._passing)
        claims = [count() for count in self._counts]
        values = quietly(self._compute, columns)
        results: list[Any] = []
        for at, number, layout, root in self._forms:
            arrays = values[at]
            each = [claims[number]] * len(arrays)
            if layout is None:
                results.append(Outputs(arrays, each, True))
            else:
                tiling, dtype = layout
                results.append(ShardedBuffer(tiling, dtype, arrays, each, True, root))
        return results

    def _compute(self, columns: list[Any]) -> list[Any]:
        """Make all calls; return the arrays of each value, None for values that have ended."""
        values = columns + self._rest
        value_of = values.__getitem__
        for mapped, compute, takes, to, orders, ended in self._calls:
            if mapped is not None:
                values[to] = list(mapped(*map(value_of, takes)))
            else:
                columns_of_results = compute(*map(value_of, takes))
                for (at, order), arrays in zip(orders, columns_of_results, strict=False):
                    values[at] = arrays if order is None else [arrays[n] for n in order]
            for n in ended:
                values[n] = None
        return values

    def _run_one_by_one(self, operands: Sequence[Any]) -> list[Any]:
        """Run the steps as if each stood alone."""
        values = [*operands, *self._rest]
        for run, numbers, takes, gives, ended in self._steps:
            buffers = run([values[n] for n in takes], numbers)
            for at, buffer in zip(gives, buffers, strict=True):
                values[at] = buffer
            buffers = buffer = None  # else they hold memory
            for n in ended:
                values[n] = None
        return [values[n] for n in self._results]


def _passing(steps: Sequence[NumberedStep], last: Mapping[int, int], needed: set[int]) -> Passing:
    """Find what accounts pay while steps run, as if each claimed its results until their end.

    Args:
      steps: the steps.
      last: for each value the number of the last step that takes or gives it.
      needed: the values that others need.
    """
    live: Counter[Account] = Counter()
    most: dict[Account, int] = {}
    counts: Counter[Account] = Counter()
    largest: dict[Account, int] = {}
    ends: dict[int, list[tuple[Account, int]]] = {}  # by the number of the step that is the last
    for number, (work, numbers, _, gives) in enumerate(steps):
        charges = work.small(numbers).calls.charges
        for account, nbytes in charges:
            live[account] += nbytes
            most[account] = max(most.get(account, 0), live[account])
        if needed.isdisjoint(gives):
            for account, nbytes in charges:
                counts[account] += 1
                largest[account] = max(largest.get(account, 0), nbytes)
            ends.setdefault(max(last[n] for n in gives), []).extend(charges)
        for account, nbytes in ends.get(number, ()):
            live[account] -= nbytes
    return Passing([(x, most[x], counts[x], largest.get(x, 0)) for x in most])
