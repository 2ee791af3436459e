"""Select elements of two arrays by a condition, on the host.

NumPy takes a branch for each element. If conditions come in no order, a processor predicts half of
these branches wrong. Combining bits takes equal time for every condition.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard._ops.aval import Dtype

BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}  # integers by their number of bytes
_LEAST = 1 << 12  # fewer elements are faster one by one
_PIECE = 1 << 17
"""Elements per piece, so temporary arrays stay in cache. Threads wait for one another before each
call, so smaller pieces for a smaller cache would cost more than they save."""

_FEW = 1 << 10  # fewer elements are selected in one call
_RUN = 16  # longer runs of one condition are copied faster than selected


def where_on_host(dtype: Dtype, condition: Any, x: Any, y: Any, out: Any = None) -> Any:
    """Select elements of `x` where a condition is true, or not 0, and of `y` elsewhere.

    Operands broadcast. The caller gives the type of the result, since NumPy may know no common one.
    """
    x, y = (each if each.dtype == dtype else each.astype(dtype) for each in (x, y))
    if out is None and max(condition.size, x.size, y.size) < _FEW:
        return np.where(condition, x, y)
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    result = np.empty(shape, dtype) if out is None else out
    lead = condition.ndim
    while lead and condition.shape[lead - 1] == 1:
        lead -= 1
    in_front = not lead or condition.ndim == len(shape)  # dims count from the last one
    runs = in_front and condition.shape[:lead] == shape[:lead]
    if not runs or math.prod(shape[lead:]) < _RUN:
        select(condition, x, y, result)
        return result
    result[...] = y
    mask = condition.reshape(shape[:lead]).astype(bool, copy=False)
    result[mask] = np.broadcast_to(x, shape)[mask] if x.ndim else x
    return result


def select(condition: Any, x: Any, y: Any, out: Any) -> None:
    """Write elements of `x` where a condition is true, or not 0, and of `y` elsewhere.

    Operands broadcast; both have the type of the result.
    """
    bits = BITS.get(out.dtype.itemsize)
    if bits is None or out.size < _LEAST:
        out[...] = np.where(condition, x, y)
        return
    chosen = condition.astype(bool, copy=False).view(np.int8)
    operands = chosen, x.view(bits), y.view(bits), out.view(bits)
    height = max(1, _PIECE * len(out) // out.size)
    for low in range(0, len(out), height):
        _combine(
            *(
                each[low : low + height] if each.ndim == out.ndim and len(each) > 1 else each
                for each in operands
            )
        )


def _combine(chosen: Any, x: Any, y: Any, out: Any) -> None:
    """Select integers by a condition of ones and zeros."""
    if not y.ndim and not y:
        np.multiply(x, chosen, out=out)
        return
    np.bitwise_xor(x, y, out=out)
    np.multiply(out, chosen, out=out)
    np.bitwise_xor(out, y, out=out)
