"""Selection by masks without a gather: `x[mask]` and `nonzero`.

The mask, and the array if it is read, are laid out as one dim over the mesh axes that split them,
which moves nothing where only the first dim is split. Every block then gives what it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from gpushard._functions.values import Value
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._ops.bind import bind
from gpushard._ops.ragged_selection import counts_of, places, selected
from gpushard._ops.table.elementwise import writing
from gpushard._ops.table.manipulation import RESHAPE
from gpushard._typing import LocalArray, Shape

_INDEX = np.dtype(np.int64)

FEW = 1 << 14
"""Masks of fewer elements are gathered, which costs less than to plan where the parts go."""


def is_in_place(mask: Any, x: Any = None) -> bool:
    """Whether a mask, and an array of its shape, are large plain arrays split over one mesh."""
    arrays = [mask] if x is None else [mask, x]
    if any(not isinstance(operand, Value) or hasattr(operand, "interpreter") for operand in arrays):
        return False
    shardings = [operand.sharding for operand in arrays]
    return (
        mask.dtype == np.bool_
        and mask.size >= FEW
        and all(isinstance(s, NamedSharding) and isinstance(s.mesh, Mesh) for s in shardings)
        and {(s.mesh, s.memory_kind) for s in shardings} == {(shardings[0].mesh, "device")}
        and any(axes for s in shardings for axes in s.spec)
    )


def select_true(x: Any, mask: Any) -> Any:
    """Select the elements of an array where a mask of its shape is true.

    The result is split evenly over the axes that split the mask.
    """

    def make(xp: Any) -> Callable[..., LocalArray]:
        if xp is np:
            return _take_true
        return writing(lambda start, count, mask, x: x[places(xp, mask, count)])

    axes = _axes(mask) or _axes(x)
    return _selected(mask, [x], axes, make, [x.dtype], "indexing")[0]


_MOST = 7 / 8
"""If more elements are true, NumPy's selection copies them in long runs, without their places."""


def _take_true(
    start: int, count: int, mask: LocalArray, x: LocalArray, out: Any = None
) -> LocalArray:
    """Select elements of a block, with NumPy, in a time that hardly depends on the mask."""
    if count <= _MOST * len(mask):
        return x.take(np.flatnonzero(mask), 0, out, "clip")
    if out is None:
        return x[mask]
    out[...] = x[mask]
    return out


def true_places(mask: Any) -> tuple[Any, ...]:
    """Find the positions where a mask is true, for each dim."""
    shape: Shape = mask.shape

    def make(xp: Any) -> Callable[..., Any]:
        def part(start: int, count: int, mask: LocalArray) -> Any:
            at = places(xp, mask, count) + start
            if len(shape) == 1:
                return at
            return tuple(line.copy() for line in xp.unravel_index(at, shape))  # of one array

        return writing(part)

    return _selected(mask, [], _axes(mask), make, [_INDEX] * len(shape), "nonzero")


def _axes(x: Any) -> tuple[str, ...]:
    """Return the axes that split several dims; the axes of earlier dims come first."""
    return tuple(axis for dim in range(x.ndim) for axis in x.sharding.spec.axes(dim))


def _selected(
    mask: Any,
    others: list[Any],
    axes: tuple[str, ...],
    make: Callable[[Any], Callable[..., Any]],
    dtypes: list[np.dtype[Any]],
    name: str,
) -> tuple[Any, ...]:
    flat = mask.sharding.with_spec(PartitionSpec(axes))
    size = (mask.size,)
    rows = [cast("Any", bind(RESHAPE, (values,), (size,), flat)) for values in (mask, *others)]
    counts = counts_of(rows[0]._live(), name)
    total = int(counts.sum())
    mask_axes = _axes(mask)
    sharding = mask.sharding.with_spec(PartitionSpec(mask_axes) if mask_axes else PartitionSpec())
    wanted = [(dtype, sharding.tiling((total,))) for dtype in dtypes]
    buffers = [row._live() for row in rows]
    results = selected(buffers[0], buffers[1:], counts, make, wanted, name)
    committed = any(values.committed for values in (mask, *others))
    return tuple(type(mask)(buffer, sharding, committed=committed) for buffer in results)
