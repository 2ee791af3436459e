"""The devices of a sharding, as the runtime knows them."""

from __future__ import annotations

from typing import cast

from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._runtime.runtime import Device, MemorySpace, Place
from gpushard._typing import Shape
from gpushard.errors import ArgumentTypeError, ShardingError


def devices_of(tiling: Tiling) -> tuple[Place, ...]:
    """Return the devices of a tiling, or the memories beside them, where its shards lie.

    Raises:
      ArgumentTypeError: some device is not one of `gpushard.devices()`.
      ShardingError: the devices belong to different runtimes.
    """
    places: tuple[Place, ...] | None = tiling.places
    if places is None:
        places = tiling.places = _checked_devices(tiling)
    return places


def _checked_devices(tiling: Tiling) -> tuple[Place, ...]:
    for device in tiling.devices:
        if not isinstance(device, Device | MemorySpace):
            raise ArgumentTypeError(
                f"the sharding names {device!r}, which holds no data; use gpushard.devices()",
                argument="sharding",
                device=device,
            )
    devices = cast("tuple[Place, ...]", tiling.devices)
    if len({id(device.runtime) for device in devices}) > 1:
        raise ShardingError(
            "the sharding mixes devices of different runtimes; take all from one "
            "gpushard.devices()",
            argument="sharding",
        )
    return devices


def place_tiling(sharding: Sharding, shape: Shape) -> Tiling:
    """Return the tiling of an array that is about to be made."""
    tiling = sharding.tiling(shape)
    devices_of(tiling)
    return tiling
