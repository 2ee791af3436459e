"""Edges of the bins of histograms, given, evenly spaced, or by a rule for their width."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gpushard.dtypes import is_custom, kind_of, result_type, wide
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.concrete import concrete
from gpushard.functions.values import is_value
from gpushard.numpy import elementwise as ew
from gpushard.numpy import statistical
from gpushard.numpy.arguments import host_data
from gpushard.numpy.making import made_on
from gpushard.numpy.quantiles import percentile
from gpushard.ops.bind import bind
from gpushard.ops.table import counting
from gpushard.ops.table import elementwise as rows
from gpushard.ops.table.creation import ARANGE
from gpushard.placement.device_put import as_sharding


def edges_of(name: str, x: Any, bins: Any, range: Any, weights: Any) -> Any:
    """Return the edges of bins; where they are given on the host, or the range is, on the host.

    Args:
      name: of the function, for errors.
      x: the array of real numbers.
      bins: how many, their edges, or the name of a rule.
      range: (least, greatest) edge; None for those of the elements.
      weights: None unless elements have some.
    """
    limits = _limits(name, range)
    if isinstance(bins, str):
        many = _by_rule(name, x, bins, limits, weights)
    elif is_many(bins):
        return _given(name, bins)
    else:
        many = _number(name, bins)
    if limits is None and not x.size:
        limits = 0.0, 1.0
    if limits is None:
        return _spaced(x, many)
    low, high = _apart(*limits)
    dtype = _of_edges(result_type(low, high, x.dtype))
    return np.linspace(low, high, many + 1, dtype=dtype)


def _of_edges(own: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of edges: that of floats, if it is NumPy's; many bins need some digits."""
    if kind_of(own) not in "fc":
        return np.dtype(np.float64)
    return wide(own) if is_custom(own) else own


def is_many(bins: Any) -> bool:
    """Whether bins are given one by one, rather than by a number or a name."""
    return isinstance(bins, list | tuple) or bool(getattr(bins, "ndim", 0))


def _limits(name: str, range: Any) -> tuple[Any, Any] | None:
    if range is None:
        return None
    try:
        low, high = range
        wrong = not (np.isfinite(low) and np.isfinite(high)) or low > high
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"{name}: range={range!r} must be two numbers", argument="range", value=range
        ) from None
    if wrong:
        raise ArgumentError(
            f"{name}: range={range!r} must be two finite numbers, the lesser first",
            argument="range",
            value=range,
        )
    return low, high


def _number(name: str, bins: Any) -> int:
    try:
        many = operator.index(bins)
    except TypeError:
        raise ArgumentTypeError(
            f"{name}: bins={bins!r} must be an integer, the edges, or the name of a rule: "
            + ", ".join(RULES),
            argument="bins",
            value=bins,
        ) from None
    if many < 1:
        raise ArgumentError(f"{name}: bins={many} must be positive", argument="bins", value=many)
    return many


def _given(name: str, bins: Any) -> Any:
    """Return edges that are given; those on the host are checked."""
    edges = bins if is_value(bins) else host_data(bins, name)
    if edges.ndim != 1 or not edges.shape[0]:
        raise ArgumentError(
            f"{name}: bins of shape {edges.shape} must be a vector of edges",
            argument="bins",
            shape=edges.shape,
        )
    if not is_value(edges) and np.any(edges[:-1] > edges[1:]):
        raise ArgumentError(
            f"{name}: bins must ascend; sort the edges", argument="bins", value=edges
        )
    return edges


def _apart(low: Any, high: Any) -> tuple[Any, Any]:
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _spaced(x: Any, many: int) -> Any:
    """Return evenly spaced edges from the least to the greatest element, where these lie.

    The host does not read them. They are NumPy's to the bit.
    """
    low, high = statistical.min(x), statistical.max(x)
    target = _of_edges(x.dtype)
    half = ew.multiply(ew.equal(low, high), target.type(0.5))
    low, high = low.astype(target) - half, high.astype(target) + half
    numbers = target.type(0), target.type(1)
    there = as_sharding(x.device, 1)
    at = made_on(ARANGE, (many + 1,), target, numbers, there, committed=x.committed)
    step = (high - low) / target.type(many)
    return bind(rows.WHERE, (ew.equal(at, many), high, ew.add(ew.multiply(step, at), low)))


def _by_rule(name: str, x: Any, rule: str, limits: Any, weights: Any) -> int:
    """Return how many bins a rule gives; the host reads what it needs to know."""
    if rule not in RULES:
        raise ArgumentError(
            f"{name}: bins={rule!r} is unknown; use one of {', '.join(RULES)}, a number, or edges",
            argument="bins",
            value=rule,
        )
    if weights is not None:
        raise ArgumentTypeError(
            f"{name}: bins={rule!r} does not go with weights; give a number of bins, or edges",
            argument="bins",
            value=rule,
        )
    if not x.size:
        return 1
    own = _known(statistical.min(x)), _known(statistical.max(x))
    if limits is not None and not (limits[0] <= own[0] and own[1] <= limits[1]):
        raise ArgumentError(
            f"{name}: bins={rule!r} with range={limits} would leave out elements, which are from "
            f"{own[0]} to {own[1]}; take those within first, or give a number of bins",
            argument="range",
            value=limits,
        )
    low, high = _apart(*(own if limits is None else limits))
    width = RULES[rule](x, own[1] - own[0], (low, high))
    if not width > 0:
        return 1
    if kind_of(x.dtype) in "iu":
        width = max(width, 1)
    many: int = math.ceil((high - low) / width)
    return max(many, 1)


def _sqrt(x: Any, apart: Any, limits: Any) -> Any:
    return apart / math.sqrt(x.size)


def _sturges(x: Any, apart: Any, limits: Any) -> Any:
    return apart / (math.log2(x.size) + 1)


def _rice(x: Any, apart: Any, limits: Any) -> Any:
    return apart / (2 * x.size ** (1 / 3))


def _scott(x: Any, apart: Any, limits: Any) -> Any:
    return (24 * math.sqrt(math.pi) / x.size) ** (1 / 3) * _known(statistical.std(x))


def _fd(x: Any, apart: Any, limits: Any) -> Any:
    high, low = (_known(percentile(x, at)) for at in (75, 25))
    return 2 * (high - low) * x.size ** (-1 / 3)


def _doane(x: Any, apart: Any, limits: Any) -> Any:
    n = x.size
    sigma = _known(statistical.std(x)) if n > 2 else 0
    if not sigma > 0:
        return 0
    skewness = _known(statistical.mean(((x - statistical.mean(x)) / sigma) ** 3))
    error = math.sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))
    return apart / (1 + math.log2(n) + math.log2(1 + abs(skewness) / error))


def _stone(x: Any, apart: Any, limits: Any) -> Any:
    """Return the width of least estimated error; leave-one-out, counted for each candidate."""
    n = x.size
    if n <= 1 or not apart:
        return 0

    def error(many: int) -> Any:
        edges = np.linspace(limits[0], limits[1], many + 1)
        counts = bind(counting.HISTOGRAM, (x, edges), (1, np.dtype(np.float64)))
        squares = _known(statistical.sum(ew.square(counts / n)))
        return (2 - (n + 1) * squares) * many / apart

    return apart / min(np.arange(1, max(100, int(math.sqrt(n))) + 1).tolist(), key=error)


def _auto(x: Any, apart: Any, limits: Any) -> Any:
    quartiles, rough = _fd(x, apart, limits), _sqrt(x, apart, limits)
    return min(max(quartiles, rough / 2), _sturges(x, apart, limits))


RULES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "auto": _auto,
    "doane": _doane,
    "fd": _fd,
    "rice": _rice,
    "scott": _scott,
    "sqrt": _sqrt,
    "stone": _stone,
    "sturges": _sturges,
}
"""Rules for the width of bins: each takes the array, how far apart its extremes are, and the edges
of all bins. Scott 1979; Freedman and Diaconis 1981; Doane 1976; Stone 1984; Sturges 1926."""


def _known(x: Any) -> Any:
    return concrete(x, "histogram_bin_edges").item()
