"""Cumulative sums, products and extremes, under the names of `jax.lax`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpushard._array import Array
from gpushard._functions import elementwise as ew
from gpushard._functions.docstrings import named
from gpushard._functions.manipulation import flip
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.table import cumulative
from gpushard._placement.arguments import as_value
from gpushard._placement.public_functions import public
from gpushard._transforms.control_flow.prefix_scan import associative_scan
from gpushard.lax.arguments import check_kind, dim

__all__ = ["cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"]


def _running(name: str, row: Row, text: str) -> Callable[..., Array]:
    def function(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
        x = as_value(operand, name)
        check_kind(name, x, "iufc")
        at = dim(name, axis, x.ndim)
        turned = flip(x, at) if reverse else x
        typed = x.dtype if row in (cumulative.CUMSUM, cumulative.CUMPROD) else None
        running: Array = bind(row, (turned,), (at - x.ndim, typed))
        return flip(running, at) if reverse else running

    return named(function, name, text + _RUNNING)


_RUNNING = """

Args:
  operand: an array of numbers.
  axis: the axis.
  reverse: whether to begin at the end.

Raises:
  AxisError: the axis does not exist.
"""


cumsum = _running("cumsum", cumulative.CUMSUM, "Compute cumulative sums in the dtype of the array.")


cumprod = _running(
    "cumprod", cumulative.CUMPROD, "Compute cumulative products in the dtype of the array."
)


cummax = _running("cummax", cumulative.CUMMAX, "Compute cumulative maxima.")


cummin = _running("cummin", cumulative.CUMMIN, "Compute cumulative minima.")


@public(arrays=1, weak=True, operand="an array of floats.")
def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """Compute the logarithms of the cumulative sums of exponentials.

    Args:
      axis: the axis.
      reverse: whether to begin at the end.

    >>> import gpushard as gs
    >>> gs.numpy.exp(gs.lax.cumlogsumexp(gs.numpy.zeros(3)))
    Array([1., 2., 3.], dtype=float64)
    """
    check_kind("cumlogsumexp", operand, "f")
    at = dim("cumlogsumexp", axis, operand.ndim)
    return associative_scan(ew.logaddexp, operand, bool(reverse), at)
