"""What the host has to know of positions on devices: how many there are, and that they exist.

These are the only reads of the host that indexing makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpushard.array.masks import is_in_place, true_places
from gpushard.functions.concrete import known, known_array
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import PartitionSpec
from gpushard.geometry.sharding import Sharding
from gpushard.ops.bind import bind
from gpushard.ops.indexing import out_of_bounds
from gpushard.ops.table.elementwise import ufunc_row
from gpushard.ops.table.positions import FURTHEST, NONZERO
from gpushard.ops.table.reductions import COUNT_NONZERO
from gpushard.typing import HostArray

if TYPE_CHECKING:
    from gpushard.array.array import Array

_NOT_EQUAL = ufunc_row(np.not_equal)


def _all(x: Array) -> tuple[int, ...]:
    return tuple(range(-x.ndim, 0))


def count_true(mask: Array) -> int:
    """Return how many elements are true; waits for the mask."""
    if not mask.size:
        return 0
    count: int = known(bind(COUNT_NONZERO, (mask,), (_all(mask), False, None)))
    return count


def check_inside(positions: Array, dim: int, size: int) -> None:
    """Check that positions are in bounds; waits for them.

    Raises:
      ArrayIndexError: one is not.
    """
    if positions.size:
        runtime = positions._held().runtime
        few = positions.nbytes <= runtime.settings.inline_bytes
        if few and runtime.backend.host_readable:
            check_on_host(known_array(positions), dim, size)
            return
        furthest = known(bind(FURTHEST, (positions,), (_all(positions), False)))
        if not -size <= furthest < size:
            raise out_of_bounds(furthest, dim, size)


def check_on_host(positions: HostArray, dim: int, size: int) -> None:
    """Check that positions on the host are in bounds.

    Raises:
      ArrayIndexError: one is not.
    """
    if positions.size and (positions.max() >= size or positions.min() < -size):
        wrong = (positions >= size) | (positions < -size)
        raise out_of_bounds(int(positions[wrong][0]), dim, size)


def true_positions(
    mask: Array, size: int | None = None, fills: tuple[int, ...] | None = None
) -> tuple[Array, ...]:
    """Return where a mask is true: an array of positions for each dim, in row-major order.

    They are split over the mesh axes that split the mask. Where their number is given the mask is
    gathered, with a byte for each element.

    Args:
      mask: at least one dim.
      size: how many positions; by default as many as there are, which the host has to read.
      fills: for each dim what those get that are too many; 0 by default.
    """
    if mask.dtype != bool:
        mask = bind(_NOT_EQUAL, (mask, 0))
    if size is None and is_in_place(mask) and (found := true_places(mask)) is not None:
        return found
    many = count_true(mask) if size is None else size
    fill = (0,) * mask.ndim if fills is None else fills
    made = bind(NONZERO, (mask,), (many, fill), _split(mask.sharding, mask.ndim))
    return made if isinstance(made, tuple) else (made,)


def _split(sharding: Sharding, ndim: int) -> Sharding | None:
    """Return the sharding of one dim over all axes that split some dims."""
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        return None
    axes = tuple(axis for dim in range(ndim) for axis in sharding.spec.axes(dim))
    return sharding.with_spec(PartitionSpec(axes) if axes else PartitionSpec())
