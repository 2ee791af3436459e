"""Simplify graphs: equal operations run once, and a value is resharded from its nearest copy.

The result of a table's operation depends on its operands only, also for random numbers of a key.
So equal operations become one. Loops, callbacks and other recorded operations stay as they are.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from gpushard._cache import exact_key
from gpushard._ops.programs.bring import lacking
from gpushard._transforms.graph.graph import Graph, Operation, Var
from gpushard._transforms.graph.layouts import resharded
from gpushard._transforms.graph.ops import Reshard, RowOp

_SMALL = 1 << 10
"""Most bytes of two arrays on the host that are compared; larger ones count as different."""


def simplified(graph: Graph) -> Graph:
    """Merge equal operations of a graph, and shorten chains of reshards."""
    own = _Simplified()
    for step in graph.needed():
        own.add(step)
    results = [own.now.get(x, x) for x in graph.results]
    return dataclasses.replace(graph, steps=own.steps, results=results)


class _Simplified:
    """Collects the operations that remain."""

    def __init__(self) -> None:
        self.steps: list[Operation] = []
        self.now: dict[Var, Var] = {}  # what stands for values of operations that are gone
        self._known: dict[Any, Operation] = {}
        self._source: dict[Var, Var] = {}  # of what was brought elsewhere, where it came from

    def add(self, step: Operation) -> None:
        """Add an operation, unless an equal one is known."""
        now = self.now
        operands = tuple([now.get(x, x) if isinstance(x, Var) else x for x in step.operands])
        if isinstance(step.op, Reshard):
            self._reshard(step, step.op, operands[0])
            return
        key = _key(step, step.op, operands) if isinstance(step.op, RowOp) else None
        known = self._known.get(key) if key is not None else None
        if known is not None:
            now.update(zip(step.results, known.results, strict=True))
            return
        if any(x is not old for x, old in zip(operands, step.operands, strict=True)):
            step = dataclasses.replace(step, operands=operands)
        self.steps.append(step)
        if key is not None:
            self._known[key] = step

    def _reshard(self, step: Operation, move: Reshard, x: Any) -> None:
        """Add a reshard, from the copy of the value that moves fewest bytes."""
        (end,) = step.results
        key = "reshard", self._root(x), end.tiling, end.sharding, end.committed
        known = self._known.get(key)
        if known is not None:
            self.now[end] = known.results[0]
            return
        source = x
        while source in self._source and source.tiling is not end.tiling:
            source = self._source[source]
            if source.sharding.memory_kind != x.sharding.memory_kind:
                break
            if lacking(source.tiling, end.tiling) <= lacking(x.tiling, end.tiling):
                x = source
        if x is not step.operands[0]:
            step = resharded(x, end.sharding, move.wanted)
            step.results[0].committed = end.committed
            self.now[end] = step.results[0]
        (end,) = step.results
        self.steps.append(step)
        self._source[end] = x
        self._known[key] = step

    def _root(self, x: Var) -> Var:
        """Return the value at the beginning of a chain of reshards."""
        while x in self._source:
            x = self._source[x]
        return x


def _key(step: Operation, op: RowOp, operands: tuple[Any, ...]) -> Any:
    """Return a key that equal operations share."""
    keys: list[Any] = []
    for x in operands:
        if isinstance(x, Var):
            keys.append(x)
        elif x.data.nbytes <= _SMALL:
            keys.append((x.shape, x.dtype, x.weak, x.data.tobytes()))
        else:
            keys.append(id(x))
    numbers = map(exact_key, op.numbers)
    places = [(x.tiling, x.sharding, x.committed, x.weak) for x in step.results]
    return (op.row, exact_key(op.params), op.scalars, *keys, *numbers, *places)
