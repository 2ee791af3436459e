"""Operands as dispatch sees them, and where they lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TypeAlias

from gpushard.frozen import dataclass
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.host import from_host
from gpushard.ops.aval import Aval
from gpushard.ops.choose import Given, choose
from gpushard.ops.rule import Splits, elementwise
from gpushard.runtime.runtime import Runtime
from gpushard.typing import HostArray


@dataclass(frozen=True, eq=False)
class Sharded:
    """An array on devices."""

    aval: Aval
    tiling: Tiling
    sharding: Sharding
    committed: bool  # whether a user chose the devices


@dataclass(frozen=True, eq=False)
class Hosted:
    """Data on the host that is placed wherever it is needed."""

    aval: Aval


class Literal:
    """Data on the host itself, where an operation of a graph is given some.

    Args:
      data: it; nobody changes it.
      weak: whether it was a Python number, whose type gives way to those of arrays.
    """

    __slots__ = ("data", "dtype", "shape", "weak")

    def __init__(self, data: HostArray, weak: bool) -> None:
        self.data = data
        self.shape, self.dtype, self.weak = data.shape, data.dtype, weak

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}" if self.shape else repr(self.data)


@dataclass(frozen=True, eq=False)
class Scalar:
    """A Python number; dispatch knows its type, never its value."""

    aval: Aval  # shape () and a weak type


Operand: TypeAlias = Sharded | Hosted | Scalar


def in_memory(x: Operand, kind: str) -> Operand:
    """Return an operand as it lies in a kind of memory of its devices."""
    if not isinstance(x, Sharded) or x.sharding.memory_kind == kind:
        return x
    sharding = x.sharding.with_memory_kind(kind)
    return dataclasses.replace(x, sharding=sharding, tiling=sharding.tiling(x.aval.shape))


def as_written(sharding: NamedSharding, ndim: int, operands: Iterable[Operand]) -> NamedSharding:
    """Return a sharding as an operand that is laid out alike has it.

    So a spec stays as its user wrote it, with None at its end or with axes of one device.
    """
    for x in operands:
        own = x.sharding if isinstance(x, Sharded) and len(x.aval.shape) == ndim else None
        if (
            isinstance(own, NamedSharding)
            and own.mesh == sharding.mesh
            and own.memory_kind == sharding.memory_kind
            and splits_of(own, ndim) == splits_of(sharding, ndim)
        ):
            return own
    return sharding


def splits_of(sharding: NamedSharding, ndim: int) -> Splits:
    """Return the axes of more than one device that split each dim."""
    spec, sizes = sharding.spec, sharding.mesh.shape
    return tuple(tuple(a for a in spec.axes(dim) if sizes[a] > 1) for dim in range(ndim))


def given(x: Operand, mesh: Mesh, itemsize: int) -> Given:
    """Return an operand as it lies on a mesh; uncommitted ones from elsewhere have no say."""
    follows = isinstance(x, Sharded) and not (
        x.committed or set(x.tiling.devices) == set(mesh.assignment)
    )
    if follows or not isinstance(x, Sharded):
        return Given(None, ((),) * len(x.aval.shape), itemsize)
    axes = None
    if isinstance(x.sharding, NamedSharding) and x.sharding.mesh == mesh:
        axes = splits_of(x.sharding, len(x.aval.shape))
    return Given(x.tiling, axes, itemsize)


def nearest_axes(x: Operand, mesh: Mesh) -> Splits:
    """Return the axes of a mesh that split each dim of an operand; nearly so where it has none.

    What a user's own sharding lays out is taken for split as would move the fewest bytes.
    """
    there = given(x, mesh, x.aval.dtype.itemsize)
    if there.axes is not None:
        return there.axes
    return choose(elementwise([x.aval.shape], x.aval.shape), [(mesh, [there])]).splits


def placed(runtime: Runtime, data: HostArray, tiling: Tiling) -> ShardedBuffer:
    """Place data of the host."""
    return from_host(runtime, tiling, data.dtype, lambda index, shape: data[index])
