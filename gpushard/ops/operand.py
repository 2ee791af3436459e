"""Operands as dispatch sees them, and where they lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from gpushard.errors import ShardingError
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import devices_of
from gpushard.ops.aval import Aval
from gpushard.ops.choose import Given
from gpushard.runtime.device import Device


@dataclasses.dataclass(frozen=True, eq=False)
class Sharded:
    """An array on devices."""

    aval: Aval
    """Its shape and type."""

    tiling: Tiling
    """Its boxes."""

    sharding: Sharding
    """How it is laid out."""

    committed: bool
    """Whether a user chose the devices."""


@dataclasses.dataclass(frozen=True, eq=False)
class Hosted:
    """Data on the host that is placed wherever it is needed."""

    aval: Aval
    """Its shape and type."""


@dataclasses.dataclass(frozen=True, eq=False)
class Scalar:
    """A Python number; dispatch knows its type, never its value."""

    aval: Aval
    """Shape () and a weak type."""


Operand: TypeAlias = Sharded | Hosted | Scalar


@dataclasses.dataclass(frozen=True, eq=False)
class Frame:
    """The devices that an operation runs on, and the shardings that its operands have there."""

    name: str
    """Of the operation."""

    meshes: tuple[Mesh, ...]
    """The different meshes of the operands, in their order."""

    fixed: tuple[Sharding, ...]
    """The different shardings without a mesh, likewise."""

    memory_kind: str
    """In which memory of the devices."""

    @property
    def single(self) -> Sharding | None:
        """The sharding of everything, where there is one device."""
        return self.fixed[0] if not self.meshes and self.fixed[0].num_devices == 1 else None


def frame_of(name: str, operands: Sequence[Operand], *, computes: bool = True) -> Frame:
    """Find the devices that an operation runs on.

    Committed operands decide. Uncommitted ones follow them, and so does everything that has no
    dims; among themselves the one on most devices decides.

    Args:
      name: of the operation, for errors.
      operands: at least one of them on devices.
      computes: whether it does more than move data, and so works on the memory of devices only.

    Raises:
      ShardingError: committed operands are on different devices, or data is not in device memory.
    """
    placed = [x for x in operands if isinstance(x, Sharded)]
    for x in placed if computes else ():
        _check_memory(name, x)
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
    return Frame(name, concrete, tuple(fixed), deciding[0].sharding.memory_kind)


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


def _check_memory(name: str, x: Sharded) -> None:
    for place in devices_of(x.tiling)[:1]:
        if not isinstance(place, Device):
            raise ShardingError(
                f"{name} works on the memory of devices, an operand of shape {x.aval.shape} is in "
                f"memory_kind={place.kind!r}; move it first: "
                'device_put(x, x.sharding.with_memory_kind("device"))',
                argument="x",
                kind=place.kind,
            )


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
        spec = x.sharding.spec
        axes = tuple(spec.axes(dim) for dim in range(len(x.aval.shape)))
    return Given(x.tiling, axes, itemsize)


def no_mesh(frame: Frame, shapes: Sequence[tuple[int, ...]]) -> ShardingError:
    """Return the error for operands whose own shardings do not fit one another."""
    names = ", ".join(type(s).__name__ for s in frame.fixed)
    return ShardingError(
        f"{frame.name} of operands of shapes {', '.join(map(str, shapes))} cannot follow the "
        f"shardings {names}, which do not say how other arrays are laid out; reshard to a "
        "NamedSharding first",
        argument="x",
        shapes=tuple(shapes),
    )
