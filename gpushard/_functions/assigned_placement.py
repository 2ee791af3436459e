"""Where an array goes that is assigned to: it stays, or follows committed indices and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from gpushard._functions.host_reads import Concrete
from gpushard._functions.values import is_traced
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P
from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard._ops.basic_index import Entry


def is_plain(x: Any) -> bool:
    """Whether a value is an array that has data."""
    return isinstance(x, Concrete)


def follows(x: Any, *others: Any) -> bool:
    """Whether an array goes to where others lie that are assigned to it, or that index it.

    It does if nobody chose its devices, and somebody chose theirs, which are not the same. What has
    no dims has no say, as in other operations.
    """
    return any(
        is_plain(other)
        and is_plain(x)
        and not x.committed
        and other.committed
        and other.ndim > 0
        and other.sharding.device_set != x.sharding.device_set
        for other in others
    )


def stays(x: Any, *others: Any) -> Sharding | None:
    """Say how an array is laid out that is assigned to; None if it follows others."""
    if not is_plain(x) or any(map(is_traced, others)) or follows(x, *others):
        return None
    return cast("Sharding", x.sharding)


def beside(x: Any, entries: Sequence[Entry], value: Any) -> Sharding:
    """Say where an array goes that follows a value: dims that it fills are split like its own."""
    value_sharding = value.sharding
    if isinstance(value_sharding, SingleDeviceSharding):
        return value_sharding
    if not isinstance(value_sharding, NamedSharding):
        value_sharding = NamedSharding(
            Mesh(np.array(value_sharding.tiling(value.shape).devices), "devices"), P()
        )
    dim = value.ndim - sum(not isinstance(entry, int) for entry in entries)
    axes: list[tuple[str, ...]] = []
    for entry in entries:
        if isinstance(entry, tuple):
            fills = dim >= 0 and value.shape[dim] == entry[2]
            axes.append(value_sharding.spec.axes(dim) if fills else ())
        elif entry is not None:
            axes.append(())
        dim += not isinstance(entry, int)
    return value_sharding.with_spec(P(*axes))
