"""How much memory a graph takes at once, known before it runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from gpushard.frozen import dataclass
from gpushard.ops.programs.reduce import Reduce
from gpushard.transforms.control_flow.scans import SEVERAL
from gpushard.transforms.graph.graph import Graph, Step, Var
from gpushard.transforms.regions.regions import fused
from gpushard.transforms.regions.segments import in_segments


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


def memory(
    graph: Graph, steps: Sequence[Step], donated: Sequence[bool] = ()
) -> CompiledMemoryStats:
    """Return how many bytes a graph takes whose operations run one after the other.

    Args:
      graph: the graph.
      steps: what is run of it.
      donated: which of its arguments are let go of as soon as nothing needs them; () for none.
    """
    inputs, results = dict.fromkeys(graph.inputs), dict.fromkeys(graph.results)
    given_up = {x for x, marked in zip(graph.inputs, donated, strict=False) if marked}
    taken, given = _bytes(inputs), _bytes(results)
    shared = _bytes(x for x in inputs if x in results or x in given_up)
    ahead = _bytes((*inputs, *graph.constants))
    peak = _peak(graph, steps, given_up)
    return CompiledMemoryStats(taken, given, shared, max(0, peak - ahead - given + shared), 0, peak)


def _bytes(values: Iterable[Var]) -> int:
    return sum(x.held_bytes for x in values)


def _peak(graph: Graph, steps: Sequence[Step], given_up: Collection[Var]) -> int:
    """Return the most bytes that are held at once; `given_up` are inputs that nobody else has."""
    root: dict[Any, Any] = {}  # of what is another value's memory, that value
    for step in steps:
        turned = step.row is not None and step.row.later
        same = turned and list(step.params[0]) == sorted(step.params[0])
        if same or (step.name in ("relabel", "reshard") and not step.moved):
            root[step.results[0]] = root.get(step.operands[0], step.operands[0])
    own = [x for x in graph.inputs if x not in given_up]
    kept = {root.get(x, x) for x in (*own, *graph.constants, *graph.results)}
    last = {
        root.get(x, x): n
        for n, step in enumerate(steps)
        for x in (*step.operands, *step.results)
        if isinstance(x, Var)
    }
    now = peak = _bytes(dict.fromkeys((*graph.inputs, *graph.constants)))
    for n, step in enumerate(steps):
        within, beside = _meanwhile(step)
        made = _bytes(x for x in step.results if x not in root)
        peak = max(peak, now + within, now + made + beside)
        now += made
        arrays = [x for x in (*step.operands, *step.results) if isinstance(x, Var)]
        ended = [x for x in dict.fromkeys(root.get(x, x) for x in arrays) if last[x] == n]
        now -= _bytes(x for x in ended if x not in kept)
    return peak


def _meanwhile(step: Step) -> tuple[int, int]:
    """Return bytes that an operation holds while it runs, and beside its results at its end."""
    if not step.bodies:
        program = getattr(step.run, "__self__", None)
        return 0, step.scratch + getattr(program, "scratch", 0) + _states(step)
    body, within = step.bodies[-1], 0  # of a loop, not its condition
    for own in step.bodies:
        carried = own.inputs[: len(own.inputs) - own.captured]
        outside = _bytes(own.inputs[len(carried) :])
        let_go = carried if step.name in ("for", "while") and own is step.bodies[-1] else ()
        within = max(within, _peak(own, in_segments(own, fused(own)), let_go) - outside)
    rows = beside = 0  # parts of results, and what putting them together takes beside these
    for x, one in zip(step.results[::-1], body.results[::-1], strict=False):
        if x.shape != one.shape:
            rows += x.held_bytes
            several = math.prod(x.shape) > SEVERAL * math.prod(one.shape)
            beside += x.held_bytes * (3 if several else 2)
    return within + rows, beside


def _states(step: Step) -> int:
    """Return bytes of what the devices of a split dim reduce, before that is merged."""
    row, (x, *_) = step.row, (*step.operands, None)
    if row is None or not isinstance(x, Var) or type(row.strategies[0]) is not Reduce:
        return 0
    rule, sizes = row.rule_for(step.avals(), step.params), x.tiling.stops - x.tiling.starts
    gone = [sizes[dim] for dim, own in enumerate(rule.operands[0]) if own in rule.reduced]
    wholes = [x.shape[dim] for dim, own in enumerate(rule.operands[0]) if own in rule.reduced]
    if all((own == n).all() for own, n in zip(gone, wholes, strict=True)):
        return 0  # no device has a part only
    if all((own == 1).all() for own in gone):
        return 0  # what devices have is what is merged
    one = sum(math.prod(result.shape) * result.dtype.itemsize for result in step.results)
    return one * len(x.tiling.devices)
