"""Eager dispatch: rows on sharded buffers, compiled once for operands of a kind.

The first call chooses how the work is split, plans what has to move and makes the kernels; what it
finds is a `Program`, which later calls only run.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from gpushard.errors import ArgumentTypeError
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import PartitionSpec
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.dim_map import Piece
from gpushard.movement.execute import plan_for
from gpushard.movement.host_copies import from_host
from gpushard.movement.move import move
from gpushard.movement.rearrange import rearrange
from gpushard.ops.aval import Aval
from gpushard.ops.choose import Choice, choose, sharding_of
from gpushard.ops.gather_guard import check_gather, watched
from gpushard.ops.jobs import jobs_of
from gpushard.ops.merge import Merge
from gpushard.ops.operand import Frame, Hosted, Operand, Scalar, Sharded, frame_of, given, no_mesh
from gpushard.ops.row import Params, Row, Splits
from gpushard.ops.rule import Rule
from gpushard.ops.scalars import converter
from gpushard.ops.stage import Stage
from gpushard.runtime.runtime import Runtime
from gpushard.typing import HostArray, Shape


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """One result of an operation."""

    aval: Aval
    """Shape and type."""

    sharding: Sharding
    """How it is laid out."""

    tiling: Tiling
    """The same for its shape."""


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """Where the operands and results of one call lie."""

    operands: tuple[tuple[Sharding, Tiling] | None, ...]
    """Of each operand when the kernel runs; None for Python numbers."""

    results: tuple[Result, ...]
    """The results."""

    choice: Choice | None
    """How the work is split, if over a mesh."""


class Program:
    """One row for operands of particular shapes, types and layouts."""

    def __init__(
        self, row: Row, operands: Sequence[Operand], params: Params, runtime: Runtime
    ) -> None:
        avals = tuple(x.aval for x in operands)
        found = row.infer(avals, params)
        rule = row.rule_for(avals, params)
        layout = lay_out(row, rule, operands, found, params)
        self.name = row.name
        self.runtime = runtime
        self.results = layout.results
        self.choice = layout.choice
        """How the work is split; None on one device or without a mesh."""
        self.committed = any(isinstance(x, Sharded) and x.committed for x in operands)
        self.scalars = [
            (position, converter(row, found, avals, position))
            for position, x in enumerate(operands)
            if isinstance(x, Scalar)
        ]
        self.moves: list[tuple[int, Tiling]] = []
        """(operand among those that are no Python numbers, where it goes)."""
        placed = 0
        for x, lies in zip(operands, layout.operands, strict=True):
            if lies is None:
                continue
            if isinstance(x, Hosted) or (isinstance(x, Sharded) and lies[1] is not x.tiling):
                self.moves.append((placed, lies[1]))
            placed += 1
        self.watched: str | None = None
        """What a gather guard would say of these moves."""
        if self.moves and layout.choice is not None:
            wanted = [None if lies is None else lies[1] for lies in layout.operands]
            limit = runtime.settings.large_move_bytes
            self.watched = watched(row.name, operands, wanted, layout.choice.nbytes, limit)
        tilings = [lies[1] for lies in layout.operands if lies is not None]
        results = [result.tiling for result in layout.results]
        if layout.choice is not None and any(layout.choice.splits[f] for f in rule.reduced):
            dtype = found[0].dtype
            merge = Merge(row, rule, avals, params, runtime, tilings, results[0], dtype)
            self._work: Merge | Stage = merge
        else:
            jobs, of_device = jobs_of(row, tilings, results)
            kernel = row.kernel(runtime.backend.namespace, inside(row, operands), params)
            dtypes = [aval.dtype for aval in found]
            self._work = Stage(runtime, row.name, kernel, jobs, of_device, results, dtypes)

    @property
    def nbytes(self) -> int:
        """Bytes that this program takes, about."""
        return 6000 + 900 * len(self.results[0].tiling.devices)

    def run(self, operands: Sequence[Any], numbers: Sequence[Any] = ()) -> list[ShardedBuffer]:
        """Run the operation.

        Args:
          operands: buffers, in order; NumPy arrays where the program was made for data on the
            host.
          numbers: the Python numbers, in order.

        Raises:
          OutOfMemoryError: a device has no room.
        """
        scalars = [
            (position, convert(number))
            for (position, convert), number in zip(self.scalars, numbers, strict=True)
        ]
        if self.moves:
            if self.watched:
                check_gather(self.watched)
            operands = list(operands)
            for at, tiling in self.moves:
                operands[at] = self._moved(operands[at], tiling)
        return self._work.run(operands, scalars)

    def _moved(self, operand: ShardedBuffer | HostArray, tiling: Tiling) -> ShardedBuffer:
        if isinstance(operand, ShardedBuffer):
            return move(operand, plan_for(operand, tiling), self.name)
        return placed(self.runtime, operand, tiling)


class Movement:
    """One row that only moves data, for operands of particular shapes, types and layouts."""

    def __init__(
        self, row: Row, operands: Sequence[Operand], params: Params, runtime: Runtime
    ) -> None:
        assert row.moves is not None
        avals = [x.aval for x in operands]
        arrays = [x for x in operands if not isinstance(x, Scalar)]
        shapes = [x.aval.shape for x in arrays]
        found = row.infer(avals, params)
        frame = frame_of(row.name, operands, computes=False)
        sharding = _moved_sharding(row, frame, arrays, params, found[0].shape)
        self.name = row.name
        self.runtime = runtime
        self.results = (Result(found[0], sharding, sharding.tiling(found[0].shape)),)
        self.committed = any(isinstance(x, Sharded) and x.committed for x in operands)
        self._how = row.moves.how(shapes, params)
        self._tiling = self.results[0].tiling
        self._dtype = found[0].dtype
        everywhere: Sharding = sharding
        if isinstance(sharding, NamedSharding):
            everywhere = sharding.with_spec(PartitionSpec())
        self._hosted = [
            (n, everywhere.tiling(x.aval.shape))
            for n, x in enumerate(arrays)
            if isinstance(x, Hosted)
        ]

    @property
    def nbytes(self) -> int:
        """Bytes that this program takes, about."""
        return 2000

    def run(
        self, operands: Sequence[ShardedBuffer | HostArray], numbers: Sequence[Any] = ()
    ) -> list[ShardedBuffer]:
        """Move the data.

        Args:
          operands: arrays, in order; data on the host where the program was made for that.
          numbers: the constant of elements that come from nowhere, if there are such.

        Raises:
          OutOfMemoryError: a device has no room.
        """
        sources: Any = operands
        if self._hosted:
            sources = list(operands)
            for n, tiling in self._hosted:
                sources[n] = placed(self.runtime, sources[n], tiling)
        if isinstance(self._how, Piece):
            plan = plan_for(sources[0], self._tiling, self._how)
            return [move(sources[0], plan, self.name)]
        fill = self._dtype.type(numbers[0]) if numbers else 0
        return [rearrange(sources, self._how, self._tiling, self.name, fill)]


def _moved_sharding(
    row: Row, frame: Frame, arrays: Sequence[Operand], params: Params, shape: Shape
) -> Sharding:
    """Return how the result of a movement is laid out.

    Raises:
      ShardingError: a user's own sharding does not say.
    """
    assert row.moves is not None
    if frame.single is not None:
        return frame.single
    shapes = [x.aval.shape for x in arrays]
    if not frame.meshes:
        raise no_mesh(frame, shapes)
    mesh = frame.meshes[0]
    splits = [given(x, mesh, 1).axes for x in arrays]
    if row.moves.splits is not None:
        found = row.moves.splits(shapes, params, splits[0] or ((),) * len(shapes[0]), mesh.shape)
    else:
        rule = row.rule_for([x.aval for x in arrays], params)
        found = tuple(_kept_axes(factor, shapes, splits) for factor in rule.results[0])
    used: set[str] = set()
    entries: list[tuple[str, ...]] = []
    for axes, n in zip(found, shape, strict=True):
        entries.append(() if n <= 1 or used & set(axes) else axes)
        used.update(entries[-1])
    sharding = sharding_of(mesh, tuple(range(len(entries))), tuple(entries), frame.memory_kind)
    known = [x.sharding for x in arrays if isinstance(x, Sharded)]
    return next((own for own in known if own == sharding), sharding)


def _kept_axes(
    factor: int | None, shapes: Sequence[Shape], splits: Sequence[Splits | None]
) -> tuple[str, ...]:
    """Return the axes that split a dim in the first operand where any do."""
    if factor is None:
        return ()
    for shape, axes in zip(shapes, splits, strict=True):
        if axes is not None and axes[factor] and shape[factor] > 1:
            return axes[factor]
    return ()


def placed(runtime: Runtime, data: HostArray, tiling: Tiling) -> ShardedBuffer:
    """Place data of the host."""
    return from_host(runtime, tiling, data.dtype, lambda index, shape: data[index])


def inside(row: Row, operands: Sequence[Operand]) -> tuple[Aval, ...]:
    """Return the types that operands come in: Python numbers have those of the kernel."""
    avals = tuple(x.aval for x in operands)
    if row.loop is None:
        return avals
    types = row.loop(avals)
    return tuple(
        Aval((), t) if isinstance(x, Scalar) else x.aval
        for x, t in zip(operands, types, strict=False)
    )


def lay_out(
    row: Row, rule: Rule, operands: Sequence[Operand], found: Sequence[Aval], params: Params
) -> Layout:
    """Decide where operands go and where results lie."""
    frame = frame_of(row.name, operands)
    if not frame.meshes:
        return _without_mesh(frame, rule, operands, found)
    state_bytes = 0
    avals = [x.aval for x in operands]
    if row.reduction is not None:
        state_bytes = sum(t.itemsize for t in row.reduction.states(avals, params))
    candidates = [
        (mesh, [given(x, mesh, x.aval.dtype.itemsize) for x in operands]) for mesh in frame.meshes
    ]
    choice = choose(rule, candidates, state_bytes)
    make = functools.partial(sharding_of, choice.mesh, splits=choice.splits)
    places: list[tuple[Sharding, Tiling] | None] = []
    for x, dims in zip(operands, rule.operands, strict=True):
        if isinstance(x, Scalar):
            places.append(None)
            continue
        sharding: Sharding = make(dims)
        if isinstance(x, Sharded) and x.sharding == sharding:
            sharding = x.sharding
        places.append((sharding, sharding.tiling(x.aval.shape)))
    return Layout(tuple(places), _results(found, rule, make, operands), choice)


def _results(found: Sequence[Aval], rule: Rule, make: Any, operands: Sequence[Operand]) -> Any:
    results = []
    known = [x.sharding for x in operands if isinstance(x, Sharded)]
    for aval, dims in zip(found, rule.results, strict=True):
        sharding = make(dims)
        sharding = next((s for s in known if s == sharding), sharding)
        results.append(Result(aval, sharding, sharding.tiling(aval.shape)))
    return tuple(results)


def _without_mesh(
    frame: Frame, rule: Rule, operands: Sequence[Operand], found: Sequence[Aval]
) -> Layout:
    """Lay out what is on one device, or what has a user's own sharding throughout."""
    sharding = frame.fixed[0]
    if frame.single is None:
        whole = rule.results[0]
        alike = all(dims == whole or not any(d is not None for d in dims) for dims in rule.operands)
        same = all(dims == whole for dims in rule.results)
        if len(frame.fixed) > 1 or not alike or not same or rule.reduced:
            raise no_mesh(frame, [x.aval.shape for x in operands])
        if any(
            dims != whole and not isinstance(x, Scalar)
            for x, dims in zip(operands, rule.operands, strict=True)
        ):
            raise no_mesh(frame, [x.aval.shape for x in operands])
    places = [
        None if isinstance(x, Scalar) else (sharding, sharding.tiling(x.aval.shape))
        for x in operands
    ]
    results = tuple(Result(aval, sharding, sharding.tiling(aval.shape)) for aval in found)
    return Layout(tuple(places), results, None)


def program_for(
    row: Row, key: tuple[Any, ...], operands: Sequence[Operand], params: Params, runtime: Runtime
) -> Program | Movement:
    """Make and keep the program of a row for operands of a kind."""
    for x in operands:
        if isinstance(x, Sharded) and devices_of(x.tiling)[0].runtime is not runtime:
            raise ArgumentTypeError(
                f"{row.name} got arrays of different runtimes; take all devices from one "
                "gpushard.devices()",
                argument="x",
            )
    kind = Program if row.moves is None else Movement
    program = kind(row, operands, params, runtime)
    runtime.plans.put(key, program, program.nbytes)
    return program
