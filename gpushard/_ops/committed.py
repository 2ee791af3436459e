"""Find the devices and the memory that an operation runs on: those of its committed operands."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from gpushard._frozen import dataclass
from gpushard._geometry.mesh import Mesh, line_of
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard._ops.operand import Operand, Sharded
from gpushard._typing import Shape
from gpushard.errors import ShardingError


@dataclass(frozen=True, eq=False)
class CommonDevices:
    """The devices that an operation runs on, and the shardings of its operands there."""

    named: tuple[Mesh, ...]  # the different meshes of the operands, in their order
    fixed: tuple[Sharding, ...]  # the different shardings without a mesh, in the order of operands
    devices: tuple[object, ...]  # the devices, in the order of the deciding operand

    @functools.cached_property
    def meshes(self) -> tuple[Mesh, ...]:
        """The meshes to split work over; one axis of the devices if operands have no mesh."""
        return self.named or (line_of(self.devices),)

    @property
    def single(self) -> Sharding | None:
        """The sharding of all arrays if there is one device, else None."""
        if self.named or self.fixed[0].num_devices > 1:
            return None
        if type(self.fixed[0]) is SingleDeviceSharding:
            return self.fixed[0]
        return SingleDeviceSharding(self.devices[0])  # other shardings may need a certain rank


def common_devices(
    name: str, operands: Sequence[Operand], out: tuple[Sharding, Shape] | None = None
) -> CommonDevices:
    """Find the devices that an operation runs on.

    Committed operands decide. Uncommitted operands follow them, and so do operands without dims. If
    no operand has dims, the sharding of the result decides. Among uncommitted operands, the one on
    the most devices decides.

    At least one operand is on devices, and all of these are in one kind of memory.

    Raises:
      ShardingError: committed operands are on different devices.
    """
    placed = [x for x in operands if isinstance(x, Sharded)]
    if out is not None and not any(x.aval.shape for x in placed):
        sharding, devices = out[0], out[0].tiling(out[1]).devices
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
            return CommonDevices((sharding.mesh,), (), devices)
        if len(devices) == 1:
            return CommonDevices((), (SingleDeviceSharding(devices[0]),), devices)
        return CommonDevices((line_of(devices),), (), devices)
    deciding = _deciding(placed)
    if not deciding[0].committed:
        deciding = [max(deciding, key=lambda x: x.sharding.num_devices)]
    first = frozenset(deciding[0].tiling.devices)
    for x in deciding[1:]:
        if frozenset(x.tiling.devices) != first:
            raise _different_devices_error(name, deciding[0], x)
    shardings_there = [x.sharding for x in placed if frozenset(x.tiling.devices) == first]
    meshes = dict.fromkeys(s.mesh for s in shardings_there if isinstance(s, NamedSharding))
    fixed = dict.fromkeys(s for s in shardings_there if not isinstance(s, NamedSharding))
    concrete = tuple(mesh for mesh in meshes if isinstance(mesh, Mesh))
    return CommonDevices(concrete, tuple(fixed), deciding[0].tiling.devices)


def _deciding(placed: Sequence[Sharded]) -> list[Sharded]:
    """Return the operands that decide the devices, either all committed or none."""
    return (
        [x for x in placed if x.committed and x.aval.shape]
        or [x for x in placed if x.aval.shape]
        or [x for x in placed if x.committed]
        or list(placed)
    )


def is_committed(operands: Sequence[Operand]) -> bool:
    """Test whether the devices of an operation are committed."""
    placed = [x for x in operands if isinstance(x, Sharded)]
    return bool(placed) and _deciding(placed)[0].committed


def common_memory(operands: Sequence[Operand]) -> str:
    """Return the kind of memory of all deciding operands; "device" if they disagree."""
    deciding = _deciding([x for x in operands if isinstance(x, Sharded)])
    kinds = {x.sharding.memory_kind for x in deciding}
    return kinds.pop() if len(kinds) == 1 else "device"


def _different_devices_error(name: str, first: Sharded, other: Sharded) -> ShardingError:
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
