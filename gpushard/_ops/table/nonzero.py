"""Find the positions of true elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, Site, by_factors
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard._runtime.namespace import own_kernels
from gpushard._typing import LocalArray

_INDEX = np.dtype(np.int64)

_STRIP = 1 << 14  # elements of a mask that are counted together


def _nonzero_rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = avals[0].shape
    dims = tuple(range(len(shape)))
    result = (len(shape),)
    return Rule((dims,), (result,) * len(shape), (*shape, params[0]), frozenset(dims))


def _nonzero(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    """Make the kernel that finds the positions for its part of the result."""
    _, fills = params
    shape = avals[0].shape
    size = math.prod(shape)
    kernels = own_kernels(xp)

    def nonzero_here(site: Site, mask: LocalArray, out: Any) -> Any:
        counts = mask.astype(bool, copy=False).ravel().cumsum(dtype=_INDEX)
        places = out if isinstance(out, tuple) else (out,)
        kernels.nth_places(counts, shape, fills, site.result[0], places)
        return out

    def nonzero(site: Site, mask: LocalArray) -> Any:
        start, length = site.result[0], site.shape[0]
        if size:
            at = _true_ones(xp, mask.ravel(), start, length)
            is_valid = at < size
            places = xp.unravel_index(xp.minimum(at, size - 1), shape)
            chosen = tuple(
                xp.where(is_valid, place, fill).astype(_INDEX, copy=False)
                for place, fill in zip(places, fills, strict=True)
            )
        else:
            chosen = tuple(xp.full(length, fill, _INDEX) for fill in fills)
        return chosen if len(chosen) > 1 else chosen[0]

    return nonzero_here if kernels is not None and size else writing(nonzero)


def _true_ones(xp: Any, mask: LocalArray, start: int, length: int) -> LocalArray:
    """Return the positions of the true elements from number `start` on; the size for missing ones.

    The host must not know their number. So the n-th true element is where the cumulative count
    first reaches n.
    """
    if xp is not np:
        counts = (mask != 0).cumsum(dtype=_INDEX)
        return xp.searchsorted(counts, xp.arange(start + 1, start + length + 1, dtype=_INDEX))
    # Search only the strips that hold this part: searching is slower than counting.
    counts = [np.count_nonzero(mask[i : i + _STRIP]) for i in range(0, len(mask), _STRIP)]
    ends = np.cumsum(counts)
    first = int(ends.searchsorted(start, "right"))
    strips = slice(first * _STRIP, (int(ends.searchsorted(start + length)) + 1) * _STRIP)
    skipped = start - int(ends[first - 1]) if first else start
    places = np.flatnonzero(mask[strips])[skipped : skipped + length]
    at = np.full(length, len(mask), _INDEX)
    np.add(places, strips.start, out=at[: len(places)])
    return at


NONZERO = Row(
    "nonzero",
    by_factors(_nonzero_rule, lambda avals, params: _INDEX),
    _nonzero_rule,
    _nonzero,
    (Local("where an element goes depends on all before it; a byte for each is moved"),),
    positional=True,
    each="how many there are differs between elements, and so where they go",
)
"""Parameters: (the number of positions, the values of missing ones, for each dim). The mask is
whole, with one byte per element; the positions may be split."""
