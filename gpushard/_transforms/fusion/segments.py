"""Group operations into segments, which a GPU is given as one launch: a CUDA graph.

A segment is a run of kernels that this package compiles. Other operations stand between segments:
copies between devices, callbacks, loops, and calls of CuPy and cuBLAS. CuPy's functions allocate
and read the host, and CuPy does not call cuBLAS while a stream records. Kernels with large results
stay outside, too: they take longer than their launch, and a segment would hold their memory longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpushard._movement.sharding_devices import devices_of
from gpushard._ops.programs.segment import Part, segment_of
from gpushard._ops.steps import Runnable
from gpushard._transforms.graph.graph import Graph, Operation
from gpushard._transforms.graph.ops import Segment

LEAST = 4
"""Fewest launches that are worth a segment."""

_MOST = 256
"""Most operations of a segment."""

_LARGE = 16 << 20
"""Most bytes of the results of a launch in a segment."""


def group_into_segments(
    graph: Graph, steps: Sequence[Operation], ready: Mapping[Operation, Runnable]
) -> list[Operation]:
    """Return the operations of a graph, with those of a segment as one operation.

    Args:
      graph: the graph.
      steps: the operations that run, in order.
      ready: each of them, prepared to run.
    """
    if not steps or not _has_cuda_graphs(steps[0]):
        return list(steps)
    last: dict[Any, int] = {}
    for number, step in enumerate(steps):
        last.update((x, number) for x in step.arrays)
    last.update(dict.fromkeys(graph.results, len(steps)))
    merged: list[Operation] = []
    run: list[tuple[Operation, Part]] = []

    def close(number: int) -> None:
        """Put the run of operations that ends before a number into segments."""
        while run:
            first = number - len(run)
            for count in range(min(len(run), _MOST), LEAST - 1, -1):
                results = [x for step, _ in run[:count] for x in step.results]
                needed = {x for x in results if last.get(x, 0) >= first + count}
                segment = _merge_run(run[:count], needed)
                if segment is not None:
                    merged.append(segment)
                    del run[:count]
                    break
            else:
                merged.append(run.pop(0)[0])

    for number, step in enumerate(steps):
        part = _as_part(step, ready[step])
        if part is None:
            close(number)
            merged.append(step)
        else:
            run.append((step, part))
    close(len(steps))
    return merged


def _has_cuda_graphs(step: Operation) -> bool:
    """Whether an operation runs on GPUs, and settings allow CUDA graphs."""
    if not step.results:
        return False
    runtime = devices_of(step.results[0].tiling)[0].runtime
    return runtime.settings.cuda_graphs and not runtime.backend.host_readable


def _as_part(step: Operation, ready: Runnable) -> Part | None:
    """Convert an operation to a part of a segment; None if it cannot be in one."""
    launches = ready.launches(step.op.numbers)
    if launches is None or len(step.arrays) < len(step.operands):
        return None
    launched, scalars = launches
    if any(group.nbytes > _LARGE for group in launched.groups):
        return None
    return Part(launched, scalars, step.operands, step.results)


def _merge_run(run: Sequence[tuple[Operation, Part]], needed: set[Any]) -> Operation | None:
    """Merge operations into one; `needed` are their results that later operations read."""
    names = list(dict.fromkeys(step.name for step, _ in run))
    name = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    segment = segment_of([part for _, part in run], needed, name)
    if segment is None:
        return None
    return Operation(Segment(name, segment), tuple(segment.operands), tuple(segment.results))
