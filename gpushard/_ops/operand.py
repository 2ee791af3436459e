"""Operands for dispatch, and their layouts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TypeAlias

from gpushard._frozen import dataclass
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.from_host import from_host
from gpushard._ops.aval import Aval
from gpushard._ops.choose_split import Given, choose
from gpushard._ops.rule import Splits, elementwise
from gpushard._runtime.runtime import Runtime
from gpushard._typing import HostArray


@dataclass(frozen=True, eq=False)
class Sharded:
    """An array on devices."""

    aval: Aval
    tiling: Tiling
    sharding: Sharding
    committed: bool  # whether a user chose the devices


@dataclass(frozen=True, eq=False)
class Hosted:
    """Data on the host, which can be placed anywhere."""

    aval: Aval


class Literal:
    """Data on the host with its values, as an operand of a recorded operation.

    Args:
      data: the data, which never changes.
      weak: whether it was a Python number, so types of arrays override its type.
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
    """Return an operand in another kind of memory of its devices."""
    if not isinstance(x, Sharded) or x.sharding.memory_kind == kind:
        return x
    sharding = x.sharding.with_memory_kind(kind)
    return dataclasses.replace(x, sharding=sharding, tiling=sharding.tiling(x.aval.shape))


def as_written(sharding: NamedSharding, ndim: int, operands: Iterable[Operand]) -> NamedSharding:
    """Return the equal sharding of an operand in place of a sharding, if there is one.

    So a spec stays as the user wrote it, with None at its end or with axes of size 1.
    """
    for x in operands:
        sharding_of_x = x.sharding if isinstance(x, Sharded) and len(x.aval.shape) == ndim else None
        if (
            isinstance(sharding_of_x, NamedSharding)
            and sharding_of_x.mesh == sharding.mesh
            and sharding_of_x.memory_kind == sharding.memory_kind
            and splits_of(sharding_of_x, ndim) == splits_of(sharding, ndim)
        ):
            return sharding_of_x
    return sharding


def splits_of(sharding: NamedSharding, ndim: int) -> Splits:
    """Return the axes of more than one device that split each dim."""
    spec, sizes = sharding.spec, sharding.mesh.shape
    return tuple(tuple(a for a in spec.axes(dim) if sizes[a] > 1) for dim in range(ndim))


def given(x: Operand, mesh: Mesh, itemsize: int) -> Given:
    """Return the layout of an operand on a mesh; uncommitted ones on other meshes count as free."""
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
    """Return the axes of a mesh that split each dim of an operand, or the nearest ones.

    An operand in a user's own sharding counts as split in the way that moves the fewest bytes.
    """
    layout = given(x, mesh, x.aval.dtype.itemsize)
    if layout.axes is not None:
        return layout.axes
    return choose(elementwise([x.aval.shape], x.aval.shape), [(mesh, [layout])]).splits


def placed(runtime: Runtime, data: HostArray, tiling: Tiling) -> ShardedBuffer:
    """Place data on the host in a tiling."""
    return from_host(runtime, tiling, data.dtype, lambda index, shape: data[index])
