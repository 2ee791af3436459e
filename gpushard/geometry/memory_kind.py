"""Memory kinds: in which memory of a device shards lie."""

from __future__ import annotations

from typing import Any

from gpushard.errors import ArgumentError
from gpushard.typing import Device

MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")
"""Its own memory, page-locked memory of the host, ordinary memory of the host."""


def checked_kind(kind: str | None) -> str:
    """Return a memory kind, "device" for None.

    Raises:
      ArgumentError: there is no such kind.
    """
    if kind is None:
        return "device"
    if kind not in MEMORY_KINDS:
        raise ArgumentError.refusing(
            "memory_kind", kind, f"is unknown; use one of {', '.join(MEMORY_KINDS)}", kind=kind
        )
    return kind


def place_on(device: Device, kind: str) -> Device:
    """Return what stands for a device in a tiling whose shards lie in a kind of memory.

    A device may have a method `memory(kind)` that returns it, with the device as its `device`;
    one that has none is taken as it is.
    """
    if kind == "device" or not hasattr(device, "memory"):
        return device
    place: Device = device.memory(kind)
    return place


def device_of(place: Any) -> Device:
    """Return the device that a tiling's place belongs to.

    >>> device_of("any device")
    'any device'
    """
    device: Device = getattr(place, "device", place)
    return device
