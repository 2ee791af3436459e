"""Memory kinds: the memory of a device in which shards lie."""

from __future__ import annotations

from typing import Any

from gpushard._typing import Device
from gpushard.errors import ArgumentError

MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")
"""The device's own memory, page-locked memory of the host, and ordinary memory of the host."""


def check_kind(kind: str | None) -> str:
    """Check a memory kind, and return it; None means "device".

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
    """Return the place of a device in a tiling for a kind of memory.

    The place is `device.memory(kind)`, with the device as its `device`. A device without that
    method is its own place.
    """
    if kind == "device" or not hasattr(device, "memory"):
        return device
    place: Device = device.memory(kind)
    return place


def device_of(place: Any) -> Device:
    """Return the device of a place in a tiling.

    >>> device_of("any device")
    'any device'
    """
    device: Device = getattr(place, "device", place)
    return device
