"""Functions of each element that are no ufuncs."""

from __future__ import annotations

from typing import Any

from gpushard.dtypes import iinfo, kind_of
from gpushard.functions.checks import ranged, refuse_out
from gpushard.functions.values import Array, view
from gpushard.ops.bind import bind
from gpushard.ops.table import elementwise as rows


def clip(
    a: Array, min: Any = None, max: Any = None, out: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return elements that are not below `min` nor above `max`.

    Args:
      min: the bound below, a number or an array; None for none.
      max: the bound above, likewise.
    """
    refuse_out("clip", out)
    if kind_of(a.dtype) in "iu":  # Python's integers that nothing is beyond need not fit
        limits = iinfo(a.dtype)
        min = None if type(min) is int and min <= limits.min else min
        max = None if type(max) is int and max >= limits.max else max
    if min is None and max is None:
        return view(a, None, (), out_sharding)
    bounds = [bound for bound in (min, max) if bound is not None]
    present = min is not None, max is not None
    return bind(rows.CLIP, (a, *bounds), present, out_sharding)


def round(a: Array, decimals: int = 0, out: Any = None, *, out_sharding: Any = None) -> Array:
    """Return elements rounded to some decimals, to even where they are halfway.

    Args:
      decimals: how many.
    """
    refuse_out("round", out)
    return bind(rows.ROUND, (a,), (ranged(decimals, "round", "decimals", 32),), out_sharding)
