"""What the process has asked of the software GPU.

before = counters.read()
...
counters.read() - before
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections import Counter

from tests.softgpu.build import CACHE
from tests.softgpu.run import ACTIVE

_LIBRARY = "libcuda.so.1"


@functools.cache
def _library() -> ctypes.CDLL:
    if ACTIVE not in os.environ:
        raise RuntimeError(
            "this process has no software GPU; start it with python -m pytest --softgpu, or "
            "python -m tests.softgpu"
        )
    library = ctypes.CDLL(_LIBRARY)
    library.softgpu_counter_names.restype = ctypes.c_char_p
    return library


@functools.cache
def names() -> tuple[str, ...]:
    """Return what is counted: launches, copies and bytes by kind, waits of the host and so on.

    `driver_ns` is the time that the host has spent within calls of CUDA.
    """
    return tuple(_library().softgpu_counter_names().decode().split())


def read() -> Counter[str]:
    """Return how much there has been of each since the process began."""
    values = (ctypes.c_uint64 * len(names()))()
    _library().softgpu_counters(values)
    return Counter(dict(zip(names(), values, strict=True)))


def is_guarded() -> bool:
    """Whether the host is caught when it touches device memory."""
    return bool(_library().softgpu_guarded())


def describe() -> str:
    """Return how the software GPU of this process works."""
    found = {
        name.removeprefix("SOFTGPU_").lower(): value
        for name, value in sorted(os.environ.items())
        if name.startswith("SOFTGPU_") and name not in (ACTIVE, CACHE)
    }
    found["guard"] = "by protection keys" if is_guarded() else "none"
    return ", ".join(f"{name} {value}" for name, value in found.items())
