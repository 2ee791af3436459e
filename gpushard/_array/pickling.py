"""Rebuild arrays from pickles."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpushard._geometry.sharding import Sharding
from gpushard._movement.from_host import from_host
from gpushard._movement.sharding_devices import devices_of
from gpushard._typing import HostArray

T = TypeVar("T")


def rebuild(
    make: Callable[..., T], value: HostArray, sharding: Sharding, committed: bool, weak_type: bool
) -> T:
    """Place a value in the sharding that it had when it was pickled."""
    tiling = sharding.tiling(value.shape)
    runtime = devices_of(tiling)[0].runtime
    buffer = from_host(runtime, tiling, value.dtype, lambda index, _: value[index])
    return make(buffer, sharding, committed=committed, weak_type=weak_type)
