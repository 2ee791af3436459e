"""Operations of a program that a GPU is given together, as one each.

These are kernels of our own that follow one another. What else there is stands between segments:
functions of CuPy, which allocate and read the host, cuBLAS, which CuPy does not call while a stream
notes, copies between devices, callbacks and loops. Large results are left alone, too: their kernels
take longer than to launch them, and memory would be held longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpushard.movement.buffer import devices_of
from gpushard.ops.programs.segment import Part, segment_of
from gpushard.ops.row import Runnable
from gpushard.transforms.graph.graph import Graph, Step
from gpushard.transforms.graph.ops import Segment

LEAST = 4
"""Launches that are worth it."""

_MOST = 256
"""Operations of a segment."""

_LARGE = 16 << 20
"""Bytes of results of a single launch from which on it is left alone."""


def group_into_segments(
    graph: Graph, steps: Sequence[Step], ready: Mapping[Step, Runnable]
) -> list[Step]:
    """Return operations of a graph, those that are given to a GPU together as one.

    Args:
      graph: the graph.
      steps: what is run of it.
      ready: what runs each of them.
    """
    if not steps or not _wanted(steps[0]):
        return list(steps)
    last: dict[Any, int] = {}
    for number, step in enumerate(steps):
        last.update((x, number) for x in step.arrays)
    last.update(dict.fromkeys(graph.results, len(steps)))
    merged: list[Step] = []
    run: list[tuple[Step, Part]] = []

    def close(number: int) -> None:
        """Put what has come since the last segment, all before a number, into segments."""
        while run:
            first = number - len(run)
            for count in range(min(len(run), _MOST), LEAST - 1, -1):
                results = [x for step, _ in run[:count] for x in step.results]
                one = _as_one(run[:count], {x for x in results if last.get(x, 0) >= first + count})
                if one is not None:
                    merged.append(one)
                    del run[:count]
                    break
            else:
                merged.append(run.pop(0)[0])

    for number, step in enumerate(steps):
        part = _part(step, ready[step])
        if part is None:
            close(number)
            merged.append(step)
        else:
            run.append((step, part))
    close(len(steps))
    return merged


def _wanted(step: Step) -> bool:
    if not step.results:
        return False
    runtime = devices_of(step.results[0].tiling)[0].runtime
    return runtime.settings.cuda_graphs and not runtime.backend.host_readable


def _part(step: Step, ready: Runnable) -> Part | None:
    """Return an operation as a part of a segment; None if it is none."""
    launches = ready.launches(step.op.numbers)
    if launches is None or len(step.arrays) < len(step.operands):
        return None
    launched, scalars = launches
    if any(group.nbytes > _LARGE for group in launched.groups):
        return None
    return Part(launched, scalars, step.operands, step.results)


def _as_one(run: Sequence[tuple[Step, Part]], needed: set[Any]) -> Step | None:
    """Return operations as one; `needed` are values that are read afterwards."""
    names = list(dict.fromkeys(step.name for step, _ in run))
    name = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    segment = segment_of([part for _, part in run], needed, name)
    if segment is None:
        return None
    return Step(Segment(name, segment), tuple(segment.operands), tuple(segment.results))
