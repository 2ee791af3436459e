"""Arrays of which a part was replaced, as assignment to an index does."""

from __future__ import annotations

from typing import Any

from gpushard.array.array import Array, array_like
from gpushard.movement.update import update
from gpushard.ops.indexing import index_piece, parse_index


def updated(x: Array, index: Any, value: Array) -> Array:
    """Return an array with `value` at a basic index of `x`, and the elements of `x` elsewhere.

    >>> import gpushard as gs
    >>> import numpy as np
    >>> updated(gs.device_put(np.arange(4)), slice(None, None, 2), gs.device_put(np.array([7, 8])))
    Array([7, 1, 8, 3], dtype=int64)
    """
    piece = index_piece(parse_index(x.shape, index))
    buffer = update(x._live(), value._live(), piece)
    return array_like(x, buffer)
