"""What DLPack calls the places where memory is."""

from __future__ import annotations

_NAMES = {
    1: "CPU",
    2: "CUDA",
    3: "pinned host memory",
    7: "Vulkan",
    8: "Metal",
    10: "ROCm",
    13: "managed CUDA memory",
    14: "oneAPI",
}


def place_name(device: tuple[int, int]) -> str:
    """Return a DLPack device with its name, for messages.

    >>> place_name((2, 1))
    '(2, 1) (CUDA)'
    """
    kind, index = device
    return f"({kind}, {index}) ({_NAMES.get(kind, 'unknown')})"
