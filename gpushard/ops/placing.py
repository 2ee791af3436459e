"""Operands on the host, placed where they are needed."""

from __future__ import annotations

from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.host import from_host
from gpushard.runtime.runtime import Runtime
from gpushard.typing import HostArray


def placed(runtime: Runtime, data: HostArray, tiling: Tiling) -> ShardedBuffer:
    """Place data of the host."""
    return from_host(runtime, tiling, data.dtype, lambda index, shape: data[index])
