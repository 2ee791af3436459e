"""Positions in sorted vectors."""

from __future__ import annotations

from typing import Any

from gpushard.array import Array
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions import sorting
from gpushard.functions.sorting import METHODS
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import check_hint, host_data, is_value
from gpushard.numpy.manipulation import flip
from gpushard.numpy.public import public, public_array

searchsorted = public_array(sorting.searchsorted)


@public
def digitize(
    x: Any, bins: Any, right: bool = False, *, method: Any = None, out_sharding: Any = None
) -> Array:
    """Return the number of the bin that each element is in; 0 and `len(bins)` are outside.

    Args:
      bins: a vector of edges, ascending or descending. One on devices is not checked: its first and
        its last element say which.
      right: whether bins include their right edge rather than the left one.

    Raises:
      ArgumentError: `bins` is no vector, or on the host and not in order.
      ArgumentTypeError: `x` is complex.

    >>> import gpushard as gs
    >>> digitize(gs.numpy.asarray([0.5, 1.0, 9.0]), [1, 2, 3])
    Array([0, 1, 3], dtype=int64)
    """
    check_hint("digitize", "method", method, METHODS)
    bins = bins if is_value(bins) else host_data(bins, "digitize")
    if kind_of(x.dtype) == "c" or kind_of(bins.dtype) == "c":
        raise ArgumentTypeError(
            "digitize: complex numbers are in no bins; take the real part or the absolute value",
            argument="x",
            dtype=x.dtype,
        )
    if len(bins.shape) != 1:
        raise ArgumentError(
            f"digitize: bins has shape {bins.shape}; give a vector of edges",
            argument="bins",
            shape=bins.shape,
        )
    return _digitized(x, bins, ("right", "left")[bool(right)])


def _digitized(x: Any, bins: Any, side: str) -> Any:
    """Search in ascending edges, or in descending ones from their end."""
    if not is_value(bins):
        if _ascends(bins):
            return searchsorted(bins, x, side)
        return _from_end(x, bins[::-1], side)
    if not bins.shape[0]:
        return searchsorted(bins, x, side)
    ascends = ew.less_equal(bins[0], bins[-1])
    return ew.where(ascends, searchsorted(bins, x, side), _from_end(x, flip(bins), side))


def _from_end(x: Any, bins: Any, side: str) -> Any:
    return ew.subtract(bins.shape[0], searchsorted(bins, x, side))


def _ascends(bins: Any) -> bool:
    """Whether edges ascend.

    Raises:
      ArgumentError: they neither ascend nor descend.
    """
    if (bins[:-1] <= bins[1:]).all():
        return True
    if (bins[:-1] >= bins[1:]).all():
        return False
    raise ArgumentError(
        "digitize: bins neither ascend nor descend; sort them", argument="bins", shape=bins.shape
    )
