"""Regions that need rows of their neighbours' blocks, as stencils do: only these rows are moved.

Where an operand is to have more rows than a device's block of it, the kernel runs in up to three
parts of the rows of its results: those before the block's own ones, those that need nothing else
and read the block where it lies, and those behind. So a *halo* is moved, with the few rows that
its results need beside it, and not the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.free_boxes import tiling_of_boxes
from gpushard.geometry.tiling import Tiling
from gpushard.ops.row import Kernel
from gpushard.runtime.nests import Nest
from gpushard.transforms.graph.graph import Var
from gpushard.typing import IntArray

Part = tuple[int, int, tuple[tuple[int, int, int] | None, ...]]
"""First row of the results and the one behind the last; of each operand the array it is read from
among all that are given, and rows of that, or None where it is read whole."""


@dataclass(frozen=True, eq=False)
class Halos:
    """How a kernel runs in parts."""

    tilings: list[Tiling]  # boxes of its operands, and of halos behind them
    sources: list[int]  # the operand that each halo is of
    parts: list[tuple[Part, ...]]  # for each device


def halos(
    nest: Nest, operands: Sequence[Var], tilings: Sequence[Tiling], results: Sequence[Tiling]
) -> Halos | None:
    """Return how a nest runs in parts; None where it can't, or no operand needs a halo.

    Args:
      nest: what it computes.
      operands: what it takes, as it lies.
      tilings: boxes of operands that it needs.
      results: boxes of its results.
    """
    short = [n for n, x in enumerate(operands) if tilings[n] is not x.tiling]
    loop = nest.results[0].dims[0] if nest.results[0].dims else None
    if not short or loop is None or not _goes_over_rows(nest, loop):
        return None
    along = {load.operand for load in nest.loads if loop in load.dims}
    first, last = results[0].starts[0], results[0].stops[0]
    begin, end = first, last  # of the rows that need no halo
    for n in short:
        own, needed = operands[n].tiling, tilings[n]
        rest = range(1, len(own.shape))
        same = all(
            np.array_equal(own.starts[dim], needed.starts[dim])
            and np.array_equal(own.stops[dim], needed.stops[dim])
            for dim in rest
        )
        if n not in along or not same or own.devices != needed.devices:
            return None
        begin = np.maximum(begin, own.starts[0] - (needed.starts[0] - first))
        end = np.minimum(end, own.stops[0] - (needed.stops[0] - last))
    apart = begin >= end  # devices whose blocks have no result to themselves
    if apart[first < last].any():
        return None
    begin, end = np.where(apart, first, begin), np.where(apart, last, end)
    spans = [(first, begin), (begin, end), (end, last)]
    every, sources = [x.tiling for x in operands], []
    read: list[dict[int, int]] = [{}, {}, {}]  # for each span the halo of an operand
    for span, (a, b) in enumerate(spans):
        if span == 1 or (a == b).all():
            continue
        for n in short:
            needed = tilings[n]
            there = a < b
            starts = np.where(there, a + needed.starts[0] - first, 0)
            stops = np.where(there, b + needed.stops[0] - last, 0)
            read[span][n] = len(every)
            every.append(_rows_of(needed, starts, stops))
            sources.append(n)
    made = []
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
                origin = every[at].starts[0][device]
                rows.append((at, int(low - origin), int(high - origin)))
            here = int(a[device] - first[device]), int(b[device] - first[device])
            parts.append((*here, tuple(rows)))
        made.append(tuple(parts))
    return Halos(every, sources, made)


def _goes_over_rows(nest: Nest, loop: int) -> bool:
    """Whether a loop is the first dim of all arrays that have it and of all results, unreduced."""
    if loop in nest.short or any(loop in op.reduced for op in nest.ops):
        return False
    if not all(result.dims and result.dims[0] == loop for result in nest.results):
        return False
    return all(loop not in load.dims or load.dims.index(loop) == 0 for load in nest.loads)


def _rows_of(tiling: Tiling, starts: IntArray, stops: IntArray) -> Tiling:
    """Return boxes with other rows."""
    return tiling_of_boxes(
        tiling.shape,
        tiling.devices,
        np.array([starts, *tiling.starts[1:]]),
        np.array([stops, *tiling.stops[1:]]),
    )


def in_parts(kernel: Kernel, count: int) -> Kernel:
    """Return a kernel that another one is called by for some rows after the others.

    Args:
      kernel: the other one.
      count: how many operands it takes.
    """

    def run(parts: Sequence[Part], *blocks: Any, out: Any = None) -> Any:
        made = []
        for first, last, rows in parts:
            given = [
                blocks[n] if part is None else blocks[part[0]][part[1] : part[2]]
                for n, part in zip(range(count), rows, strict=True)
            ]
            to = out
            if isinstance(out, tuple):
                to = tuple([x[first:last] for x in out])
            elif out is not None:
                to = out[first:last]
            made.append(kernel(*given, out=to))
        if out is not None:
            return out
        if not isinstance(made[0], tuple):
            return np.concatenate(made)
        return tuple(map(np.concatenate, zip(*made, strict=True)))

    return run
