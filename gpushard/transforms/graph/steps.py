"""Operations of a graph, for values that lie elsewhere than when they were recorded."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import UNCONSTRAINED, PartitionSpec
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.reshard import Mover
from gpushard.ops.aval import Aval
from gpushard.ops.dispatch import case_and_key, program_of
from gpushard.ops.gather_guard import check_gather
from gpushard.ops.operand import Hosted, Literal, Sharded
from gpushard.ops.row import Case
from gpushard.transforms.graph.graph import Step, Var
from gpushard.typing import IntArray


def operand_of(x: Var | Literal) -> Sharded | Hosted:
    """Return an operand as dispatch sees it."""
    aval = Aval(x.shape, x.dtype, x.weak)
    if isinstance(x, Literal):
        return Hosted(aval)
    return Sharded(aval, x.tiling, x.sharding, x.committed)


def case_of(step: Step, operands: Sequence[Var | Literal], out: Sharding | None) -> Case:
    """Return an operation as dispatch sees it, of operands that may lie elsewhere."""
    assert step.row is not None
    return case_and_key(step.row, step.args(operands), step.params, out, operand_of)[0]


def bound(step: Step, operands: Sequence[Var | Literal], out: Sharding | None) -> Step:
    """Return an operation of operands that may lie elsewhere.

    Args:
      step: the operation.
      operands: its operands.
      out: where its results go; None for as they come.
    """
    assert step.row is not None
    program = program_of(*case_and_key(step.row, step.args(operands), step.params, out, operand_of))
    results = [
        Var(old.dtype, new.tiling, new.sharding, old.committed, old.weak)
        for old, new in zip(step.results, program.results, strict=True)
    ]
    return Step(
        step.name, program.run, tuple(operands), tuple(results), step.numbers, step.scalars,
        step.row, step.params, moved=getattr(program, "bytes_received", 0), nbytes=program.nbytes,
    )  # fmt: skip


def resharded(x: Var, sharding: Sharding, wanted: Sharding | None = None, watch: str = "") -> Step:
    """Return what brings a value to a sharding.

    Args:
      x: the value.
      sharding: where it goes.
      wanted: what a user asked for, where dims may be open; None where no user did.
      watch: what a gather guard says of it.
    """
    to = sharding.tiling(x.shape)
    chosen = wanted is not None or x.committed
    moved = Var(x.dtype, to, sharding, committed=chosen, weak=x.weak)
    run: Any = _same
    moving = nbytes = 0
    if to is not x.tiling:
        runtime = devices_of(x.tiling)[0].runtime
        mover = Mover(runtime, x.tiling, to, x.dtype.itemsize, "reshard")
        run, nbytes = _Move(mover, watch or None), mover.nbytes
        moving = received(x, to)
    return Step("reshard", run, (x,), (moved,), moved=moving, nbytes=nbytes, wanted=wanted)


def _same(given: Sequence[ShardedBuffer], numbers: Any) -> list[ShardedBuffer]:
    return [given[0]]


class _Move:
    """Brings a value elsewhere; `moves` is what a gather guard says of it, None if nothing."""

    __slots__ = ("_mover", "moves")

    def __init__(self, mover: Mover, moves: str | None) -> None:
        self._mover = mover
        self.moves = moves

    def __call__(self, given: Sequence[ShardedBuffer], _: Any) -> list[ShardedBuffer]:
        if self.moves is not None:
            check_gather(self.moves)
        return [self._mover(given[0])]


def received(x: Var, to: Tiling) -> int:
    """Return the bytes that devices receive as a value goes to other boxes, each a domain."""
    return lacking(x.tiling, to) * x.dtype.itemsize


def lacking(own: Tiling, to: Tiling) -> int:
    """Return the elements that devices need of other boxes and do not have."""
    return 0 if own is to else int(lacking_each(own, to).sum())


@functools.lru_cache(maxsize=4096)
def lacking_each(own: Tiling, to: Tiling) -> IntArray:
    """Return the same for each device."""
    at = {device: n for n, device in enumerate(own.devices)}
    places = np.array([at.get(device, -1) for device in to.devices], np.int64)
    common: IntArray = np.asarray(places >= 0, np.int64)
    for dim in range(len(own.shape)):
        low = np.maximum(own.starts[dim][places], to.starts[dim])
        high = np.minimum(own.stops[dim][places], to.stops[dim])
        common = common * np.maximum(high - low, 0)
    return np.asarray(to.volumes - common)


def closed(sharding: Sharding, lies: Sharding | None) -> Sharding:
    """Return a sharding whose open dims are split as a value lies, where axes are left for them."""
    if not isinstance(sharding, NamedSharding) or not sharding.leaves_open:
        return sharding
    used = set(sharding.spec.all_axes())
    own = PartitionSpec()
    if isinstance(lies, NamedSharding) and lies.mesh == sharding.mesh:
        own = lies.spec
    entries: list[Any] = []
    for dim, entry in enumerate(sharding.spec):
        if entry is UNCONSTRAINED:
            entry = tuple([axis for axis in own.axes(dim) if axis not in used])
        entries.append(entry)
    return sharding.with_spec(PartitionSpec(*entries))


def keeps(sharding: Sharding, wanted: Sharding | None) -> bool:
    """Whether a sharding splits dims as a user wants who may have left dims open."""
    return wanted is None or sharding == closed(wanted, sharding)
