"""Print arrays; of large arrays only the edges are read and shown."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpushard._geometry.sharding import Sharding
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.distinct_blocks import blocks_of
from gpushard._movement.sharding_devices import devices_of
from gpushard._movement.to_host import read_host
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._typing import HostArray, Shape


def describe(buffer: ShardedBuffer, sharding: Sharding, weak_type: bool) -> str:
    """Write the `repr` of an array: values, dtype, weak type, and sharding if not on one device."""
    shape = buffer.tiling.shape
    if 0 in shape:
        values = f"[], shape={shape}"
    else:
        values = array_text(buffer, prefix="Array(", separator=", ")
    weak = ", weak_type=True" if weak_type else ""
    suffix = f"dtype={buffer.dtype.name}{weak})"
    text = f"Array({values},"
    last_line = len(text) - (text.rfind("\n") + 1)
    wide = last_line + len(suffix) + 1 > np.get_printoptions()["linewidth"]
    line = "\n" + " " * len("Array(")
    text += (line if wide else " ") + suffix
    return f"{text[:-1]},{line}sharding={sharding!r})" if sharding.num_devices > 1 else text


def describe_deleted(shape: Shape, dtype: np.dtype[Any]) -> str:
    """Write the `repr` of an array without data."""
    return f"Array(deleted, shape={shape}, dtype={dtype.name})"


def array_text(buffer: ShardedBuffer, prefix: str = "", separator: str = " ") -> str:
    """Write the values as NumPy prints them."""
    if prefix == "" and not buffer.tiling.shape:
        return str(read_host(buffer)[()])  # as a scalar, with all digits
    options: dict[str, Any] = {"prefix": prefix, "suffix": ",", "separator": separator}
    if prefix == "":
        options["suffix"] = ""
    printing = np.get_printoptions()
    items = printing["edgeitems"]
    # Without edge items, NumPy shows the last element, as wide as the widest element.
    if np.prod(buffer.tiling.shape) <= printing["threshold"] or not items:
        return np.array2string(read_host(buffer), **options)
    return np.array2string(_edges(buffer, items), threshold=0, edgeitems=items, **options)


def _edges(buffer: ShardedBuffer, edgeitems: int) -> HostArray:
    """Read the edges of long dims, and one element after each first edge."""
    buffer.wait()
    tiling, places = buffer.tiling, devices_of(buffer.tiling)
    shown = [_positions_to_show(size, edgeitems) for size in tiling.shape]
    result: HostArray = np.empty([sum(map(len, ranges)) for ranges in shown], buffer.dtype)
    copies = []
    for pair in blocks_of(tiling).distinct:
        home = blocks_of(tiling).homes[pair]
        parts = [
            list(_overlaps(ranges, int(tiling.starts[dim, home]), int(tiling.stops[dim, home])))
            for dim, ranges in enumerate(shown)
        ]
        for box in itertools.product(*parts):
            to, of = tuple(part[0] for part in box), tuple(part[1] for part in box)
            copies.append((result[to], buffer.values[home][of], places[home].memory_domain))
    buffer.runtime.backend.copy_boxes(copies, HOST_DOMAIN)
    return result


def _positions_to_show(size: int, edgeitems: int) -> list[range]:
    """Return the positions along a dim to read: those shown, and one more.

    >>> _positions_to_show(7, 3), _positions_to_show(100, 3)
    ([range(0, 7)], [range(0, 4), range(97, 100)])
    """
    if size <= 2 * edgeitems + 1:
        return [range(size)]
    return [range(edgeitems + 1), range(size - edgeitems, size)]


def _overlaps(ranges: list[range], start: int, stop: int) -> Iterator[tuple[slice, slice]]:
    """Yield the target slice and the slice of the shard for its part of each range."""
    first = 0
    for wanted in ranges:
        low, high = max(wanted.start, start), min(wanted.stop, stop)
        if low < high:
            to = first + low - wanted.start
            yield slice(to, to + high - low), slice(low - start, high - start)
        first += len(wanted)
