"""Operations that compute, compiled: what moves first, what runs where, what merges."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from gpushard.errors import ArgumentTypeError
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling, check_shape
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.reshard import Mover
from gpushard.ops.aval import Aval
from gpushard.ops.gather_guard import check_gather, watched
from gpushard.ops.operand import (
    Hosted,
    Operand,
    Scalar,
    Sharded,
    common_memory,
    in_memory,
    is_committed,
)
from gpushard.ops.placing import placed
from gpushard.ops.programs.calls import LocalCalls, Work, calls_of
from gpushard.ops.programs.launched import launched
from gpushard.ops.programs.owners import Owned, owned
from gpushard.ops.programs.reduce import Merge, Reduced
from gpushard.ops.row import Params, Row
from gpushard.ops.rule import Rule
from gpushard.ops.scalars import converter
from gpushard.ops.shardings import (
    ShardedCall,
    in_sharding,
    places_of,
    refines,
    sharded_call,
    splits_as,
)
from gpushard.runtime.runtime import Runtime

Run: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], list[ShardedBuffer]]
"""Takes buffers in order, or NumPy arrays where a program was made for data on the host, and the
Python numbers in order. Raises `OutOfMemoryError`: a device has no room."""


class Computation:
    """One row for operands of particular shapes, types and layouts.

    Args:
      row: the operation.
      operands: what is known of its operands.
      params: its parameters.
      runtime: of the devices.
      out: how the results are to be laid out; None for as they come.
    """

    def __init__(
        self,
        row: Row,
        operands: Sequence[Operand],
        params: Params,
        runtime: Runtime,
        out: Sharding | None = None,
    ) -> None:
        avals = tuple(x.aval for x in operands)
        found = row.infer(avals, params)
        check_available(runtime, row.name, (*avals, *found))
        for aval in found:
            check_shape(aval.shape)
        rule = row.rule_for(avals, params)
        memory = common_memory(operands)
        inside = [in_memory(x, "device") for x in operands]
        layout = sharded_call(row, rule, inside, found, params, out)
        self.name = row.name
        self.runtime = runtime
        ends = layout.ends or [result.sharding for result in layout.results]
        if out is not None:
            ends = [out] * len(found)
        elif memory != "device":
            ends = [end.with_memory_kind(memory) for end in ends]
        self.results = tuple(map(in_sharding, found, ends))
        """Shapes, types and layouts of the results."""
        self.choice = layout.choice
        """How the work is split; None on one device or without a mesh."""
        self.committed = is_committed(operands)
        """Whether the results are."""
        self._scalars = [
            (position, converter(row, found, avals, position))
            for position, x in enumerate(operands)
            if isinstance(x, Scalar)
        ]
        self._moves = _moves(operands, layout.operands)
        self._watched: str | None = None  # what a gather guard would say of these moves
        if self._moves and layout.choice is not None:
            wanted = [None if lies is None else lies[1] for lies in layout.operands]
            limit = runtime.settings.large_move_bytes
            self._watched = watched(row.name, inside, wanted, layout.choice.nbytes, limit)
        pairs = zip(self.results, layout.results, strict=True)
        self._ends = [
            (n, end.tiling)
            for n, (end, result) in enumerate(pairs)
            if end.tiling is not result.tiling
        ]
        merges = layout.choice is not None and any(layout.choice.splits[f] for f in rule.reduced)
        taken = self._owned(row, rule, operands, params, layout, merges)
        if taken is not None:
            self._work: Merge | LocalCalls = taken
        elif merges:
            self._work = self._merge(row, rule, avals, params, layout)
        else:
            tilings = [result.tiling for result in layout.results]
            sizes = [x.aval.dtype.itemsize for x in operands if not isinstance(x, Scalar)]
            read = list(zip(layout.tilings, sizes, strict=True))
            calls, of_device = calls_of(row, read, tilings)
            kernel = row.kernel(runtime.backend.namespace, _inside(row, operands), params)
            dtypes = [aval.dtype for aval in found]
            work = Work(runtime, row.name, kernel, calls, of_device, tilings, dtypes)
            taken_in = iter(layout.tilings)
            blocks = [
                (aval.dtype, None if isinstance(x, Scalar) else next(taken_in))
                for x, aval in zip(operands, _inside(row, operands), strict=True)
            ]
            self._work = launched(work, blocks) or LocalCalls(
                work, threaded=row.threaded, steps=row.steps
            )
        arrays = [x for x in operands if not isinstance(x, Scalar)]
        self._before = [(n, self._mover(arrays[n], tiling)) for n, tiling in self._moves]
        self._after = [
            (n, Mover(runtime, x.tiling, end, x.aval.dtype.itemsize, row.name))
            for n, end in self._ends
            for x in [layout.results[n]]
        ]
        alone = not (self._scalars or self._before or self._after)
        self.run: Run = self._work.run if alone else self._run_between
        """Runs the operation."""

    def _merge(
        self, row: Row, rule: Rule, avals: Sequence[Aval], params: Params, layout: ShardedCall
    ) -> Merge:
        """Return a reduction that merges where the result is wanted, if it can."""
        (natural,), end = layout.results, self.results[0].tiling
        if self._ends and refines(end, natural.tiling):
            self._ends = []
        else:
            end = natural.tiling
        dtype = natural.aval.dtype
        return Merge(
            Reduced(
                row,
                rule,
                avals,
                params,
                self.runtime,
                layout.tilings,
                natural.tiling,
                end,
                dtype,
            )
        )

    def _owned(
        self,
        row: Row,
        rule: Rule,
        operands: Sequence[Operand],
        params: Params,
        layout: ShardedCall,
        merges: bool,
    ) -> Owned | None:
        """Return calls that take the first operand as it lies, for a row that has such.

        Otherwise parts would be merged, or the first operand moved so that all of it is at hand.
        The latter is the shorter way for a small one.
        """
        backend, first = self.runtime.backend, operands[0]
        if row.owners is None or not isinstance(first, Sharded) or layout.choice is None:
            return None
        if first.sharding.memory_kind != "device":
            return None
        size = math.prod(first.aval.shape) * first.aval.dtype.itemsize
        large = size >= self.runtime.settings.small_bytes
        if not (merges or (large and backend.host_readable)):
            return None
        mesh, (end,), (natural,) = layout.choice.mesh, self.results, layout.results
        splits = (
            splits_as(rule, mesh, end.sharding) if end.sharding.memory_kind == "device" else None
        )
        wanted = [] if splits is None else [(places_of(rule, mesh, splits, operands), end)]
        kernel = row.owners(backend.namespace, [x.aval for x in operands], params)
        sizes = [x.aval.dtype.itemsize for x in operands]
        for places, result in (*wanted, (layout.operands, natural)):
            lies = [place[1] for place in places if place is not None]
            found = owned(row, rule, first.tiling, lies, sizes, [result.tiling])
            if found is not None:
                calls, of_device, inputs = found
                self._moves = [(n, tiling) for n, tiling in _moves(operands, places) if n]
                self._ends = [] if result is end else self._ends
                dtypes = [result.aval.dtype]
                results = [result.tiling]
                work = Work(self.runtime, row.name, kernel, calls, of_device, results, dtypes)
                return Owned(inputs, work)
        return None

    @property
    def nbytes(self) -> int:
        """Bytes that this program takes, about."""
        movers = [mover for _, mover in (*self._before, *self._after)]
        plans = sum(mover.nbytes for mover in movers if isinstance(mover, Mover))
        return 6000 + 900 * len(self.results[0].tiling.devices) + plans

    def _run_between(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Run the operation, with all that comes before and after it."""
        scalars: Sequence[tuple[int, Any]] = ()
        if numbers:
            scalars = [
                (position, convert(number))
                for (position, convert), number in zip(self._scalars, numbers, strict=True)
            ]
        if self._before:
            if self._watched is not None:
                check_gather(self._watched)
            operands = list(operands)
            for at, move in self._before:
                operands[at] = move(operands[at])
        made = self._work.run(operands, scalars)
        for n, move in self._after:
            made[n] = move(made[n])
        return made

    def _mover(self, x: Operand, tiling: Tiling) -> Callable[[Any], ShardedBuffer]:
        """Return what brings an operand to where the kernel takes it."""
        if isinstance(x, Sharded):
            return Mover(self.runtime, x.tiling, tiling, x.aval.dtype.itemsize, self.name)
        return functools.partial(placed, self.runtime, tiling=tiling)


def check_available(runtime: Runtime, name: str, avals: Sequence[Aval]) -> None:
    """Check that devices can compute with some types, before anything starts.

    Raises:
      ArgumentTypeError: they cannot.
    """
    for aval in avals:
        if not runtime.backend.computes(aval.dtype):
            raise ArgumentTypeError(
                f"{name} is not available for {aval.dtype} on {runtime.backend.platform} devices, "
                "which only store it; convert the data on the host, before they are moved there: "
                "numpy.asarray(x).astype(float), or ask for another type",
                argument="x",
                dtype=aval.dtype,
            )


def _moves(
    operands: Sequence[Operand], places: Sequence[tuple[Sharding, Tiling] | None]
) -> list[tuple[int, Tiling]]:
    """Return which operands, among those that are no Python numbers, go where."""
    arrays = [(x, lies[1]) for x, lies in zip(operands, places, strict=True) if lies is not None]
    return [
        (n, tiling)
        for n, (x, tiling) in enumerate(arrays)
        if isinstance(x, Hosted) or (isinstance(x, Sharded) and tiling is not x.tiling)
    ]


def _inside(row: Row, operands: Sequence[Operand]) -> tuple[Aval, ...]:
    """Return the types that operands come in: Python numbers have those of the kernel."""
    avals = tuple(x.aval for x in operands)
    if row.loop is None:
        return avals
    types = row.loop(avals)
    return tuple(
        Aval((), t) if isinstance(x, Scalar) else x.aval
        for x, t in zip(operands, types, strict=False)
    )
