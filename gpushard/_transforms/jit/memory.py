"""Predict how much memory a graph takes at once, before it runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from gpushard._frozen import dataclass
from gpushard._ops.steps import Runnable
from gpushard._transforms.graph.graph import Operation, Var
from gpushard._transforms.graph.ops import Relabel, Reshard, RowOp, Scan
from gpushard._transforms.tracing.executable import SEVERAL, Executable, GraphRunner


@dataclass(frozen=True)
class CompiledMemoryStats:
    """Bytes of memory that a compiled function takes, on all devices together.

    Args:
      argument_size_in_bytes: the arguments.
      output_size_in_bytes: the results.
      alias_size_in_bytes: arguments that are results or are donated.
      temp_size_in_bytes: everything else, at the time of the peak.
      generated_code_size_in_bytes: always 0; kernels are not counted.
      peak_memory_in_bytes: the most memory held at once, including arguments and results. Memory
        that GPU libraries allocate themselves, for sorting for example, is not included.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    generated_code_size_in_bytes: int
    peak_memory_in_bytes: int


def memory(executable: Executable, donated: Sequence[bool] = ()) -> CompiledMemoryStats:
    """Predict the bytes that a graph takes if its operations run one after the other.

    Args:
      executable: the graph, prepared to run.
      donated: for each argument, whether it is freed after its last use; () for none.
    """
    graph = executable.graph
    inputs, results = dict.fromkeys(graph.inputs), dict.fromkeys(graph.results)
    given_up = {x for x, marked in zip(graph.inputs, donated, strict=False) if marked}
    taken, returned = _bytes(inputs), _bytes(results)
    shared = _bytes(x for x in inputs if x in results or x in given_up)
    ahead = _bytes((*inputs, *graph.constants))
    peak = _peak(executable, given_up)
    temporary = max(0, peak - ahead - returned + shared)
    return CompiledMemoryStats(taken, returned, shared, temporary, 0, peak)


def _bytes(values: Iterable[Var]) -> int:
    return sum(x.held_bytes for x in values)


def _peak(executable: Executable, given_up: Collection[Var]) -> int:
    """Return the most bytes that are held at once; inputs in `given_up` end with their last use."""
    graph, steps = executable.graph, executable.parts
    root: dict[Any, Any] = {}  # for a value in the memory of another value, that value
    for step in steps:
        if _is_memory_of_operand(step):
            root[step.results[0]] = root.get(step.operands[0], step.operands[0])
    held = [x for x in graph.inputs if x not in given_up]
    permanent = {root.get(x, x) for x in (*held, *graph.constants, *graph.results)}
    last = {
        root.get(x, x): n for n, step in enumerate(steps) for x in (*step.arrays, *step.results)
    }
    now = peak = _bytes(dict.fromkeys((*graph.inputs, *graph.constants)))
    for n, step in enumerate(steps):
        within, beside = _working_bytes(step, executable.ready[step])
        new = _bytes(x for x in step.results if x not in root)
        peak = max(peak, now + within, now + new + beside)
        now += new
        values = (*step.arrays, *step.results)
        ended = [x for x in dict.fromkeys(root.get(x, x) for x in values) if last[x] == n]
        now -= _bytes(x for x in ended if x not in permanent)
    return peak


def _is_memory_of_operand(step: Operation) -> bool:
    """Whether the result of an operation lies in the memory of its operand."""
    op = step.op
    if isinstance(op, RowOp):
        return op.row.later and list(op.params[0]) == sorted(op.params[0])
    return isinstance(op, Reshard | Relabel) and not step.moved


def _working_bytes(step: Operation, ready: Runnable) -> tuple[int, int]:
    """Return the bytes that an operation holds while it runs, and those next to its results."""
    op = step.op
    if not isinstance(ready, GraphRunner):
        return 0, ready.scratch
    within = 0
    for body in ready.executables:
        peak = _peak(body, op.donated(body.graph)) - _bytes(op.lent(body.graph))
        within = max(within, peak)
    rows = beside = 0  # results of all turns, and the bytes that stacking takes next to these
    for x in op.stacked if isinstance(op, Scan) else ():
        nbytes = x.whole.held_bytes
        rows += nbytes
        several = math.prod(x.whole.shape) > SEVERAL * math.prod(x.each.shape)
        beside += nbytes * (3 if several else 2)
    return within + rows, beside
