"""Search positions in sorted arrays.

NumPy's search takes a branch in each step. If values come in no order, a processor predicts half of
these branches wrong. On the host this module searches for many values together: each step is a few
passes over a piece of the values, without branches.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

_Side: TypeAlias = Literal["left", "right"]

_PIECE = 1 << 15  # values per piece, so temporary arrays stay in cache
_LEAST = 1 << 12  # fewer values are searched one by one
_FALLS = 16
"""If fewer than one in so many values is smaller than its predecessor, NumPy is fast: it continues
from the predecessor's position, and its branches are predicted well."""


def search(xp: Any, x1: Any, x2: Any, side: _Side, out: Any = None) -> Any:
    """Compute the positions at which values keep an array sorted, as `numpy.searchsorted`."""
    together = xp is np and x1.dtype.kind in "iuf" and max(x1.size // 16, _LEAST) <= x2.size
    if not together or not x1.size:
        at = xp.searchsorted(x1, x2, side=side)
        if out is None:
            return at
        out[...] = at
        return out
    result = np.empty(x2.shape, np.intp) if out is None else out
    if not (result.flags.c_contiguous and result.dtype == np.intp):
        result[...] = search(xp, x1, x2, side)
        return result
    tree, values, positions = _tree(x1), x2.ravel(), result.ravel()
    for start in range(0, values.size, _PIECE):
        piece = slice(start, start + _PIECE)
        _search_piece(x1, tree, values[piece], side, positions[piece])
    return result


def _tree(x1: Any) -> list[Any]:
    """Return the elements that each step compares with: one, two, four and so on.

    The array is padded with its last element, so all branches have one length.
    """
    steps = int(x1.size).bit_length()
    full = np.full((1 << steps) - 1, x1[-1])
    full[: x1.size] = x1
    widths = [1 << steps - step for step in range(steps)]
    return [np.ascontiguousarray(full[width // 2 - 1 :: width]) for width in widths]


def _search_piece(x1: Any, tree: list[Any], x2: Any, side: _Side, at: Any) -> None:
    if np.count_nonzero(x2[1:] < x2[:-1]) * _FALLS < len(x2):
        at[...] = np.searchsorted(x1, x2, side=side)
        return
    before = np.less if side == "left" else np.less_equal
    is_before = np.empty(x2.shape, bool)
    compared = np.empty(x2.shape, x2.dtype)
    before(tree[0], x2, out=is_before)
    at[...] = is_before
    for elements in tree[1:]:
        elements.take(at, out=compared, mode="wrap")  # "raise" would copy `out`
        before(compared, x2, out=is_before)
        np.add(at, at, out=at)
        np.add(at, is_before, out=at)
    np.minimum(at, len(x1), out=at)
    if x1.dtype.kind == "f":  # comparisons with NaN are False, and NaNs come last
        nan = np.isnan(x2)
        if nan.any():
            at[nan] = np.searchsorted(x1, np.nan, side=side)
