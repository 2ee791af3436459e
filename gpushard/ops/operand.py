"""Operands as dispatch sees them, and where they lie."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from gpushard.errors import ShardingError
from gpushard.frozen import dataclass
from gpushard.geometry.mesh import Mesh, line_of
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.sharding import Sharding, SingleDeviceSharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.host import from_host
from gpushard.ops.aval import Aval
from gpushard.ops.choose import Given, choose
from gpushard.ops.rule import Splits, elementwise
from gpushard.runtime.runtime import Runtime
from gpushard.typing import HostArray, Shape


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


@dataclass(frozen=True, eq=False)
class Scalar:
    """A Python number; dispatch knows its type, never its value."""

    aval: Aval  # shape () and a weak type


Operand: TypeAlias = Sharded | Hosted | Scalar


@dataclass(frozen=True, eq=False)
class Frame:
    """The devices that an operation runs on, and the shardings that its operands have there."""

    named: tuple[Mesh, ...]  # the different meshes of the operands, in their order
    fixed: tuple[Sharding, ...]  # the different shardings without a mesh, likewise
    devices: tuple[object, ...]  # the devices, in the order of the operand that decides

    @functools.cached_property
    def meshes(self) -> tuple[Mesh, ...]:
        """The meshes that work can be split over: a line of the devices if operands have none."""
        return self.named or (line_of(self.devices),)

    @property
    def single(self) -> Sharding | None:
        """The sharding of everything, where there is one device."""
        if self.named or self.fixed[0].num_devices > 1:
            return None
        first = self.fixed[0]
        if type(first) is SingleDeviceSharding:
            return first
        return SingleDeviceSharding(self.devices[0])  # others may be for arrays of one rank


def frame_of(
    name: str, operands: Sequence[Operand], out: tuple[Sharding, Shape] | None = None
) -> Frame:
    """Find the devices that an operation runs on.

    Committed operands decide. Uncommitted ones follow them, and so does everything that has no
    dims: where no operand has any, it is made where the result is wanted. Among themselves the one
    on most devices decides.

    At least one operand is on devices; those are all in one kind of memory.

    Raises:
      ShardingError: committed operands are on different devices.
    """
    placed = [x for x in operands if isinstance(x, Sharded)]
    if out is not None and not any(x.aval.shape for x in placed):
        sharding, devices = out[0], out[0].tiling(out[1]).devices
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
            return Frame((sharding.mesh,), (), devices)
        if len(devices) == 1:
            return Frame((), (SingleDeviceSharding(devices[0]),), devices)
        return Frame((line_of(devices),), (), devices)
    deciding = _deciding(placed)
    if not deciding[0].committed:
        deciding = [max(deciding, key=lambda x: x.sharding.num_devices)]
    first = frozenset(deciding[0].tiling.devices)
    for x in deciding[1:]:
        if frozenset(x.tiling.devices) != first:
            raise _apart(name, deciding[0], x)
    there = [x.sharding for x in placed if frozenset(x.tiling.devices) == first]
    meshes = dict.fromkeys(s.mesh for s in there if isinstance(s, NamedSharding))
    fixed = dict.fromkeys(s for s in there if not isinstance(s, NamedSharding))
    concrete = tuple(mesh for mesh in meshes if isinstance(mesh, Mesh))
    return Frame(concrete, tuple(fixed), deciding[0].tiling.devices)


def _deciding(placed: Sequence[Sharded]) -> list[Sharded]:
    """Return the operands that say where an operation runs, all of them committed or none."""
    return (
        [x for x in placed if x.committed and x.aval.shape]
        or [x for x in placed if x.aval.shape]
        or [x for x in placed if x.committed]
        or list(placed)
    )


def is_committed(operands: Sequence[Operand]) -> bool:
    """Whether somebody chose the devices that an operation runs on."""
    placed = [x for x in operands if isinstance(x, Sharded)]
    return bool(placed) and _deciding(placed)[0].committed


def in_memory(x: Operand, kind: str) -> Operand:
    """Return an operand as it lies in a kind of memory of its devices."""
    if not isinstance(x, Sharded) or x.sharding.memory_kind == kind:
        return x
    sharding = x.sharding.with_memory_kind(kind)
    return dataclasses.replace(x, sharding=sharding, tiling=sharding.tiling(x.aval.shape))


def common_memory(operands: Sequence[Operand]) -> str:
    """Return the kind of memory of all operands that decide where an operation runs, if it is one.

    Otherwise it is that of devices.
    """
    deciding = _deciding([x for x in operands if isinstance(x, Sharded)])
    kinds = {x.sharding.memory_kind for x in deciding}
    return kinds.pop() if len(kinds) == 1 else "device"


def as_written(sharding: NamedSharding, ndim: int, operands: Iterable[Operand]) -> NamedSharding:
    """Return a sharding as an operand that is laid out alike has it.

    So a spec stays as its user wrote it, with None at its end or with axes of one device.
    """
    for x in operands:
        own = x.sharding if isinstance(x, Sharded) and len(x.aval.shape) == ndim else None
        if (
            isinstance(own, NamedSharding)
            and own.mesh is sharding.mesh
            and own.memory_kind == sharding.memory_kind
            and splits_of(own, ndim) == splits_of(sharding, ndim)
        ):
            return own
    return sharding


def splits_of(sharding: NamedSharding, ndim: int) -> Splits:
    """Return the axes of more than one device that split each dim."""
    spec, sizes = sharding.spec, sharding.mesh.shape
    return tuple(tuple(a for a in spec.axes(dim) if sizes[a] > 1) for dim in range(ndim))


def _apart(name: str, first: Sharded, other: Sharded) -> ShardingError:
    mine, theirs = (_names(x.tiling.devices) for x in (first, other))
    return ShardingError(
        f"{name} got committed arrays on different devices: shape {first.aval.shape} on {mine} and "
        f"shape {other.aval.shape} on {theirs}; reshard one of them, or leave it uncommitted",
        argument="x",
        devices=(first.tiling.devices, other.tiling.devices),
    )


def _names(devices: Iterable[object]) -> str:
    names = [repr(device) for device in devices]
    return ", ".join(names if len(names) <= 4 else [*names[:3], f"... {len(names)} in all"])


def given(x: Operand, mesh: Mesh, itemsize: int) -> Given:
    """Return an operand as it lies on a mesh; uncommitted ones from elsewhere have no say."""
    follows = isinstance(x, Sharded) and not (
        x.committed or set(x.tiling.devices) == set(mesh.assignment)
    )
    if follows or not isinstance(x, Sharded):
        return Given(None, ((),) * len(x.aval.shape), itemsize)
    axes = None
    if isinstance(x.sharding, NamedSharding) and x.sharding.mesh is mesh:
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
