"""Run regions that need rows of neighbouring blocks, as stencils do, and move only these rows.

If a kernel needs more rows of an operand than the block of its device has, it runs in up to three
parts: the first rows of its results, the middle rows, and the last ones. The middle rows need only
the block and read it where it lies. For the other two parts a *halo* is moved: the rows of the
operand that these results need.

An example: `x[:-2] + x[1:-1] + x[2:]` of 200,002 numbers on 2 devices, 100,001 each. Device 0
computes results 0 to 99,999, which need elements 0 to 100,001. It has elements 0 to 100,000.
Results 0 to 99,998 read its block. Result 99,999 reads a halo of elements 99,999 to 100,001.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.free_boxes import tiling_of_boxes
from gpushard._geometry.tiling import Tiling
from gpushard._ops.row import Kernel
from gpushard._runtime.nests import Nest
from gpushard._transforms.graph.graph import Var
from gpushard._typing import IntArray, Shape

Part = tuple[int, int, tuple[tuple[int, int, int] | None, ...]]
"""A range of rows of the results: the first, and the one behind the last. Then for each operand the
number of the array that it is read from, and its rows there. None stands for the whole operand."""


@dataclass(frozen=True, eq=False)
class Halos:
    """A plan to run a kernel in parts, with halos."""

    tilings: list[Tiling]  # boxes of its operands where they lie, followed by those of halos
    sources: list[int]  # for each halo the number of its operand
    parts: list[tuple[Part, ...]]  # for each device


def halos(
    nest: Nest, operands: Sequence[Var], tilings: Sequence[Tiling], before: Sequence[Shape],
    results: Sequence[Tiling],
) -> Halos | None:  # fmt: skip
    """Plan the parts and halos of a nest; None if no operand needs a halo, or it cannot run so.

    Args:
      nest: the loop nest.
      operands: its operands, in the layouts that they have.
      tilings: the boxes of the operands that each device needs.
      before: how many elements these have ahead of the first ones of the operands.
      results: the boxes of its results.
    """
    short = [n for n, x in enumerate(operands) if tilings[n] is not x.tiling]
    loop = nest.results[0].dims[0] if nest.results[0].dims else None
    if not short or loop is None or not _goes_over_rows(nest, loop):
        return None
    along = {load.operand for load in nest.loads if loop in load.dims}
    first, last = results[0].starts[0], results[0].stops[0]
    begin, end = first, last  # of the rows that need no halo
    for n in short:
        present, needed = operands[n].tiling, tilings[n]
        rest = range(1, len(present.shape))
        same = all(
            np.array_equal(present.starts[dim] + before[n][dim], needed.starts[dim])
            and np.array_equal(present.stops[dim] + before[n][dim], needed.stops[dim])
            for dim in rest
        )
        if n not in along or not same or present.devices != needed.devices:
            return None
        here = before[n][0]
        begin = np.maximum(begin, present.starts[0] + here - (needed.starts[0] - first))
        end = np.minimum(end, present.stops[0] + here - (needed.stops[0] - last))
    empty = begin >= end  # devices without a result that needs only their own block
    if empty[first < last].any():
        return None
    begin, end = np.where(empty, first, begin), np.where(empty, last, end)
    spans = [(first, begin), (begin, end), (end, last)]
    every, sources = [x.tiling for x in operands], []
    read: list[dict[int, int]] = [{}, {}, {}]  # for each span the numbers of halos by operand
    for span, (a, b) in enumerate(spans):
        if span == 1 or (a == b).all():
            continue
        for n in short:
            needed = tilings[n]
            has_rows = a < b
            starts = np.where(has_rows, a + needed.starts[0] - first, 0)
            stops = np.where(has_rows, b + needed.stops[0] - last, 0)
            read[span][n] = len(every)
            every.append(_rows_of(needed, starts, stops))
            sources.append(n)
    by_device = []
    for device in range(len(first)):
        parts: list[Part] = []
        for span, (a, b) in enumerate(spans):
            if a[device] == b[device]:
                continue
            rows: list[tuple[int, int, int] | None] = []
            for n, needed in enumerate(tilings):
                at = read[span].get(n, n)
                if n not in along:
                    rows.append(None)
                    continue
                low = a[device] + needed.starts[0][device] - first[device]
                high = b[device] + needed.stops[0][device] - last[device]
                origin = every[at].starts[0][device] + (before[n][0] if at == n else 0)
                rows.append((at, int(low - origin), int(high - origin)))
            span_rows = int(a[device] - first[device]), int(b[device] - first[device])
            parts.append((*span_rows, tuple(rows)))
        by_device.append(tuple(parts))
    return Halos(every, sources, by_device)


def _goes_over_rows(nest: Nest, loop: int) -> bool:
    """Whether a loop is not reduced, and is the first dim of all results and all arrays with it."""
    if loop in nest.short or any(loop in op.reduced for op in nest.ops):
        return False
    if not all(result.dims and result.dims[0] == loop for result in nest.results):
        return False
    return all(loop not in load.dims or load.dims.index(loop) == 0 for load in nest.loads)


def _rows_of(tiling: Tiling, starts: IntArray, stops: IntArray) -> Tiling:
    """Replace the rows of all boxes of a tiling."""
    return tiling_of_boxes(
        tiling.shape,
        tiling.devices,
        np.array([starts, *tiling.starts[1:]]),
        np.array([stops, *tiling.stops[1:]]),
    )


def in_parts(kernel: Kernel, count: int) -> Kernel:
    """Wrap a kernel so that it is called for one part of the rows after the other.

    Args:
      kernel: the kernel.
      count: its number of operands.
    """

    def run(parts: Sequence[Part], *blocks: Any, out: Any = None) -> Any:
        results = []
        for first, last, rows in parts:
            operands = [
                blocks[n] if part is None else blocks[part[0]][part[1] : part[2]]
                for n, part in zip(range(count), rows, strict=True)
            ]
            to = out
            if isinstance(out, tuple):
                to = tuple([x[first:last] for x in out])
            elif out is not None:
                to = out[first:last]
            results.append(kernel(*operands, out=to))
        if out is not None:
            return out
        if not isinstance(results[0], tuple):
            return np.concatenate(results)
        return tuple(map(np.concatenate, zip(*results, strict=True)))

    return run
