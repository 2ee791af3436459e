"""How much memory a graph takes at once, known before it runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from gpushard.frozen import dataclass
from gpushard.ops.programs.reduce import Reduce
from gpushard.ops.row import Runnable
from gpushard.transforms.graph.graph import Step, Var
from gpushard.transforms.graph.ops import Relabel, Reshard, RowOp, Scan
from gpushard.transforms.tracing.executable import SEVERAL, Executable, GraphRunner


@dataclass(frozen=True)
class CompiledMemoryStats:
    """Bytes that a compiled function takes, of all devices together.

    Args:
      argument_size_in_bytes: of its arguments.
      output_size_in_bytes: of its results.
      alias_size_in_bytes: of arguments that are results, or that are given up.
      temp_size_in_bytes: of what is there beside arguments and results when most is.
      generated_code_size_in_bytes: 0: kernels are not counted.
      peak_memory_in_bytes: when most is there, arguments and results among it. What libraries of
        GPUs take for themselves, as sorting does, is not among it.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    generated_code_size_in_bytes: int
    peak_memory_in_bytes: int


def memory(executable: Executable, donated: Sequence[bool] = ()) -> CompiledMemoryStats:
    """Return how many bytes a graph takes whose operations run one after the other.

    Args:
      executable: the graph, ready to run.
      donated: which of its arguments are let go of as soon as nothing needs them; () for none.
    """
    graph = executable.graph
    inputs, results = dict.fromkeys(graph.inputs), dict.fromkeys(graph.results)
    given_up = {x for x, marked in zip(graph.inputs, donated, strict=False) if marked}
    taken, given = _bytes(inputs), _bytes(results)
    shared = _bytes(x for x in inputs if x in results or x in given_up)
    ahead = _bytes((*inputs, *graph.constants))
    peak = _peak(executable, given_up)
    return CompiledMemoryStats(taken, given, shared, max(0, peak - ahead - given + shared), 0, peak)


def _bytes(values: Iterable[Var]) -> int:
    return sum(x.held_bytes for x in values)


def _peak(executable: Executable, given_up: Collection[Var]) -> int:
    """Return the most bytes that are held at once; `given_up` are inputs that nobody else has."""
    graph, steps = executable.graph, executable.parts
    root: dict[Any, Any] = {}  # of what is another value's memory, that value
    for step in steps:
        if _is_operand(step):
            root[step.results[0]] = root.get(step.operands[0], step.operands[0])
    own = [x for x in graph.inputs if x not in given_up]
    kept = {root.get(x, x) for x in (*own, *graph.constants, *graph.results)}
    last = {
        root.get(x, x): n for n, step in enumerate(steps) for x in (*step.arrays, *step.results)
    }
    now = peak = _bytes(dict.fromkeys((*graph.inputs, *graph.constants)))
    for n, step in enumerate(steps):
        within, beside = _meanwhile(step, executable.ready[step])
        made = _bytes(x for x in step.results if x not in root)
        peak = max(peak, now + within, now + made + beside)
        now += made
        values = (*step.arrays, *step.results)
        ended = [x for x in dict.fromkeys(root.get(x, x) for x in values) if last[x] == n]
        now -= _bytes(x for x in ended if x not in kept)
    return peak


def _is_operand(step: Step) -> bool:
    """Whether the result of an operation is the memory of its operand."""
    op = step.op
    if isinstance(op, RowOp):
        return op.row.later and list(op.params[0]) == sorted(op.params[0])
    return isinstance(op, Reshard | Relabel) and not step.moved


def _meanwhile(step: Step, ready: Runnable) -> tuple[int, int]:
    """Return bytes that an operation holds while it runs, and next to its results at its end."""
    op = step.op
    if not isinstance(ready, GraphRunner):
        return 0, ready.scratch + _states(step)
    within = 0
    for own in ready.executables:
        peak = _peak(own, op.donated(own.graph)) - _bytes(op.lent(own.graph))
        within = max(within, peak)
    rows = beside = 0  # parts of results, and what putting them together takes next to these
    for x in op.stacked if isinstance(op, Scan) else ():
        nbytes = x.whole.held_bytes
        rows += nbytes
        several = math.prod(x.whole.shape) > SEVERAL * math.prod(x.each.shape)
        beside += nbytes * (3 if several else 2)
    return within + rows, beside


def _states(step: Step) -> int:
    """Return bytes of what the devices of a split dim reduce, before that is merged."""
    op, (x, *_) = step.op, (*step.operands, None)
    if not isinstance(op, RowOp) or not isinstance(x, Var):
        return 0
    if type(op.row.strategies[0]) is not Reduce:
        return 0
    rule = op.row.rule_for(op.avals(step.operands), op.params)
    sizes = x.tiling.stops - x.tiling.starts
    gone = [sizes[dim] for dim, own in enumerate(rule.operands[0]) if own in rule.reduced]
    wholes = [x.shape[dim] for dim, own in enumerate(rule.operands[0]) if own in rule.reduced]
    if all((own == n).all() for own, n in zip(gone, wholes, strict=True)):
        return 0  # no device has a part only
    if all((own == 1).all() for own in gone):
        return 0  # what devices have is what is merged
    one = sum(math.prod(result.shape) * result.dtype.itemsize for result in step.results)
    return one * len(x.tiling.devices)
