"""How arrays are printed; large ones show edges only, and only edges are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.host_copies import blocks_of, read_host
from gpushard.typing import HostArray, Shape


def describe(buffer: ShardedBuffer, weak_type: bool) -> str:
    """Return the `repr` of an array: values, dtype and weak type."""
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
    gap = "\n" + " " * len("Array(") if wide else " "
    return f"{text}{gap}{suffix}"


def array_text(buffer: ShardedBuffer, prefix: str = "", separator: str = " ") -> str:
    """Return the values as NumPy prints them."""
    if prefix == "" and not buffer.tiling.shape:
        return str(read_host(buffer)[()])  # as its element, with all digits
    options: dict[str, Any] = {"prefix": prefix, "suffix": ",", "separator": separator}
    if prefix == "":
        options["suffix"] = ""
    printing = np.get_printoptions()
    if np.prod(buffer.tiling.shape) <= printing["threshold"]:
        return np.array2string(read_host(buffer), **options)
    edges = _edges(buffer, printing["edgeitems"])
    return np.array2string(edges, threshold=0, edgeitems=printing["edgeitems"], **options)


def _edges(buffer: ShardedBuffer, edgeitems: int) -> HostArray:
    """Return the array without the middle of its long dims, one element of which stays."""
    buffer.wait()
    tiling, blocks = buffer.tiling, blocks_of(buffer.tiling)
    kept = [_kept(size, edgeitems) for size in tiling.shape]
    result: HostArray = np.empty(tuple(len(k) for k in kept), buffer.dtype)
    for pair in blocks.distinct:
        home = blocks.homes[pair]
        where, local = [], []
        for dim, positions in enumerate(kept):
            start, stop = tiling.starts[dim, home], tiling.stops[dim, home]
            inside = np.flatnonzero((positions >= start) & (positions < stop))
            where.append(inside)
            local.append(positions[inside] - start)
        if all(len(inside) for inside in where):
            result[np.ix_(*where)] = buffer.values[home][np.ix_(*local)]
    return result


def _kept(size: int, edgeitems: int) -> np.ndarray[Shape, np.dtype[np.int64]]:
    if size <= 2 * edgeitems + 1:
        return np.arange(size)
    return np.concatenate((np.arange(edgeitems + 1), np.arange(size - edgeitems, size)))
