"""Histograms: each block counts its own elements, and only counts move; the edges of bins."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice, count
from gpushard._functions.docstrings import described
from gpushard._functions.element_types import check_ordered
from gpushard._functions.host_reads import concrete
from gpushard._functions.shapes import check_vector
from gpushard._functions.values import is_traced, is_value
from gpushard._ops.bind import bind
from gpushard._ops.table import elementwise as rows
from gpushard._ops.table import histograms
from gpushard._ops.table.creation import ARANGE
from gpushard._placement.arguments import as_value, host_data, settle
from gpushard._placement.creation import create_on
from gpushard._placement.default_placement import default_sharding
from gpushard._placement.device_put import as_sharding
from gpushard._placement.public_functions import public
from gpushard.dtypes import is_custom, kind_of, result_type, wide
from gpushard.errors import ArgumentError, ArgumentTypeError, TracedValueError
from gpushard.numpy import elementwise as ew
from gpushard.numpy import statistical
from gpushard.numpy.manipulation import lengthwise, part
from gpushard.numpy.quantiles import percentile

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]

_COUNTED = np.dtype(np.int64)
_SUMMED = np.dtype(np.float64)

_cells = described(
    density="whether to divide the counts by their sum and by the sizes of the cells.",
    weights="a weight for each point, to sum instead of counting. GPUs add weights in any order.",
    out_sharding="the sharding or `PartitionSpec` of the counts; gpushard chooses by default.",
)


@public
def bincount(
    x: Any,
    weights: Any = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Count how often each non-negative integer occurs, or sum the weights of its occurrences.

    GPUs add weights in any order, so the last digits of such sums may differ from run to run.

    Args:
      x: a vector of integers that are not negative.
      weights: a weight for each element, to sum instead of counting; a vector with the length of
        `x`.
      minlength: the least length of the result.
      length: the length of the result, as in JAX. Integers from `length` on are not counted. By
        default the host waits to read the least and the greatest element.

    Raises:
      ArgumentError: an element is negative, `x` is not a vector, or `weights` has another length.
      ArgumentTypeError: elements are not integers, or weights are complex.

    >>> bincount([0, 1, 1, 3]), bincount([0, 1, 1, 3], length=2)
    (Array([1, 2, 0, 1], dtype=int64), Array([1, 2], dtype=int64))
    """
    if kind_of(x.dtype) not in "?biu":
        raise ArgumentTypeError(
            f"bincount: x of {x.dtype} must be integers; convert it with astype",
            argument="x",
            dtype=x.dtype,
        )
    check_vector("bincount", "x", x)
    heavy = _weights_like(x, weights, "bincount")
    if heavy and kind_of(heavy[0].dtype) == "c":
        raise ArgumentTypeError(
            f"bincount: weights of {heavy[0].dtype} must be real numbers; count real and imaginary "
            "parts one after the other",
            argument="weights",
            dtype=heavy[0].dtype,
        )
    least = count(minlength, "bincount", "minlength")
    bins = _length(x, least) if length is None else count(length, "bincount", "length")
    dtype = _SUMMED if heavy else _COUNTED
    return bind(histograms.BINCOUNT, (x, *heavy), (bins, dtype))


def _length(x: Any, least: int) -> int:
    """Return the number of counts; the host reads two numbers."""
    if not x.size:
        return least
    lowest = concrete(statistical.min(x), "bincount").item()
    if lowest < 0:
        raise ArgumentError(
            f"bincount: x has the element {lowest}; elements must not be negative",
            argument="x",
            value=lowest,
        )
    return max(least, int(concrete(statistical.max(x), "bincount")) + 1)


def _weights_like(x: Any, weights: Any, name: str) -> tuple[Any, ...]:
    """Read weights, on devices or on the host, as a tuple of operands; empty without weights."""
    if weights is None:
        return ()
    heavy = weights if is_value(weights) else host_data(weights, name)
    if heavy.shape != x.shape:
        raise ArgumentError(
            f"{name}: weights of shape {heavy.shape} must have the shape of the array, {x.shape}",
            argument="weights",
            shape=heavy.shape,
            expected=x.shape,
        )
    return (heavy,)


@described()
def histogram_bin_edges(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, *, out_sharding: Any = None
) -> Array:
    """Compute the edges of the bins of `histogram`.

    Args:
      bins: the number of bins, a vector of edges, or the name of a rule of NumPy for their width,
        such as "auto".
      range: the pair (least, greatest) edge; by default the least and the greatest element.
      weights: must be None if `bins` is a rule; otherwise ignored.

    Raises:
      ArgumentError: the rule is unknown, or the edges do not ascend.
      ArgumentTypeError: `bins` is neither a number, nor edges, nor a name.

    >>> histogram_bin_edges([0.0, 1.0, 4.0], bins=2)
    Array([0., 2., 4.], dtype=float64)
    """
    x = _real(a, "histogram_bin_edges")
    edges = edges_of("histogram_bin_edges", x, bins, range, weights)
    return settle(as_value(edges, "histogram_bin_edges"), out_sharding)


@described()
def histogram(
    a: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
    *,
    out_sharding: Any = None,
) -> tuple[Array, Array]:
    """Count the elements in each bin; return the counts and the edges of the bins.

    A bin includes its lower edge; the last bin includes both edges. Elements outside all bins are
    not counted.

    Args:
      bins: the number of bins, a vector of edges, or the name of a rule of NumPy for their width,
        such as "auto". For rules that depend on elements, the host waits to read a few numbers.
      range: the pair (least, greatest) edge; by default the least and the greatest element. If
        these are NaN or infinite, the edges are NaN; NumPy raises an error.
      density: whether to divide the counts by their sum and by the widths of the bins.
      weights: a weight for each element, to sum instead of counting. GPUs add weights in any order.
      out_sharding: the sharding or `PartitionSpec` of the counts; gpushard chooses by default.

    Raises:
      ArgumentError: the rule is unknown, or the edges do not ascend.
      ArgumentTypeError: the array is complex, or `bins` is neither a number, nor edges, nor a name.

    >>> histogram([1, 2, 1, 4], bins=[1, 2, 3, 4])
    (Array([2, 1, 1], dtype=int64), Array([1, 2, 3, 4], dtype=int64))
    """
    x = _real(a, "histogram")
    heavy = _weights_like(x, weights, "histogram")
    edges = edges_of("histogram", x, bins, range, weights)
    dtype = heavy[0].dtype if heavy else _COUNTED
    counts = bind(histograms.HISTOGRAM, (x, edges, *heavy), (1, dtype))
    edges = as_value(edges, "histogram")
    if density:
        widths = (edges[1:] - edges[:-1]).astype(np.float64)
        counts = counts / widths / statistical.sum(counts)
    return settle(counts, out_sharding), edges


def _real(x: Any, name: str) -> Any:
    x = as_value(x, name)
    check_ordered(name, x)
    return x.astype(np.uint8) if kind_of(x.dtype) == "b" else x


@_cells
def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
    *,
    out_sharding: Any = None,
) -> tuple[Array, tuple[Array, ...]]:
    """Count the points in each cell of a grid; return the counts and the edges of the cells.

    Args:
      sample: an array of shape (points, dimensions), or a sequence of vectors of coordinates.
      bins: the number of bins along every dimension; or for each dimension a number of bins, or a
        vector of edges.
      range: for each dimension the pair (least, greatest) edge, or None for the least and the
        greatest coordinate.

    Raises:
      ArgumentError: the number of entries in `bins` or `range` differs from the number of
        dimensions, or `sample` has another shape.
    """
    return _histogramdd(
        "histogramdd", _columns(sample), bins, range, density, weights, out_sharding
    )


def _columns(sample: Any) -> list[Any]:
    """Return the coordinates of points, an array for each dim."""
    if isinstance(sample, tuple | list):
        return [as_value(x, "histogramdd") for x in sample]
    x = as_value(sample, "histogramdd")
    if x.ndim == 1:
        return [x]
    if x.ndim != 2:
        raise ArgumentError(
            f"histogramdd: sample of shape {x.shape} must be (points, dimensions), or vectors",
            argument="sample",
            shape=x.shape,
        )
    return [part(x, -1, dim) for dim in np.arange(x.shape[1]).tolist()]


def _histogramdd(
    name: str, xs: Sequence[Any], bins: Any, range: Any, density: Any, weights: Any, to: Any
) -> tuple[Any, tuple[Any, ...]]:
    dims = len(xs)
    shapes = {x.shape for x in xs}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise ArgumentError(
            f"{name}: coordinates have shapes {', '.join(str(x.shape) for x in xs)}; give vectors "
            "of one length",
            argument="sample",
            shapes=tuple(x.shape for x in xs),
        )
    each = _as_many(name, bins, dims, "bins") if is_many(bins) else [bins] * dims
    limits = [None] * dims if range is None else _as_many(name, range, dims, "range")
    xs = [_real(x, name) for x in xs]
    edges = [edges_of(name, *wish, weights) for wish in zip(xs, each, limits, strict=True)]
    heavy = _weights_like(xs[0], weights, name)
    counts = bind(histograms.HISTOGRAM, (*xs, *edges, *heavy), (dims, _SUMMED))
    placed = tuple(as_value(edge, name) for edge in edges)
    if density:
        counts = counts / statistical.sum(counts)
        for dim, edge in enumerate(placed):
            widths = edge[1:] - edge[:-1]
            counts = counts / lengthwise(widths, dims, dim - dims)
    return settle(counts, to), placed


def _as_many(name: str, entries: Any, dims: int, argument: str) -> Any:
    length = len(entries) if is_many(entries) else 0
    if length != dims:
        raise ArgumentError(
            f"{name}: {argument} has {length} entries for {dims} dimensions; give one for each",
            argument=argument,
            given=length,
            dims=dims,
        )
    return entries


@_cells
def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
    *,
    out_sharding: Any = None,
) -> tuple[Array, Array, Array]:
    """Count the points of a plane in each cell of a grid; return the counts and the edges.

    Args:
      x: the first coordinates, a vector.
      y: the second coordinates, a vector.
      bins: the number of bins, or a vector of edges, for both dimensions; or a pair with one of
        these for each.
      range: for each dimension the pair (least, greatest) edge; by default the least and the
        greatest coordinate.

    Raises:
      ArgumentError: `x` and `y` differ in length, or the edges do not ascend.
    """
    xs = [as_value(x, "histogram2d"), as_value(y, "histogram2d")]
    if is_many(bins) and len(bins) not in (1, 2):
        bins = [bins, bins]
    counts, edges = _histogramdd("histogram2d", xs, bins, range, density, weights, out_sharding)
    return counts, *edges


def edges_of(name: str, x: Any, bins: Any, range: Any, weights: Any) -> Any:
    """Return the edges of bins; on the host if the edges, or the range, are there."""
    limits = _limits(name, range)
    if isinstance(bins, str):
        number = _by_rule(name, x, bins, limits, weights)
    elif is_many(bins):
        return _given(name, bins)
    else:
        number = _number(name, bins)
    if limits is None and not x.size:
        limits = 0.0, 1.0
    if limits is None:
        return _spaced(x, number)
    low, high = _apart(*limits)
    dtype = _of_edges(result_type(low, high, x.dtype))
    return np.linspace(low, high, number + 1, dtype=dtype)


def _of_edges(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of edges: that of floats, if it is NumPy's; many bins need some digits."""
    if kind_of(dtype) not in "fc":
        return np.dtype(np.float64)
    return wide(dtype) if is_custom(dtype) else dtype


def is_many(bins: Any) -> bool:
    """Whether bins are given by their edges, rather than by a number or a name."""
    return isinstance(bins, list | tuple) or bool(getattr(bins, "ndim", 0))


def _limits(name: str, range: Any) -> tuple[Any, Any] | None:
    if range is None:
        return None
    try:
        low, high = range
        wrong = not (np.isfinite(low) and np.isfinite(high)) or low > high
    except (TypeError, ValueError):
        raise ArgumentTypeError.refusing("range", range, "must be two numbers", name) from None
    if wrong:
        raise ArgumentError.refusing(
            "range", range, "must be two finite numbers, the lesser first", name
        )
    return low, high


def _number(name: str, bins: Any) -> int:
    try:
        number = operator.index(bins)
    except TracedValueError:
        raise
    except TypeError:
        raise ArgumentTypeError(
            f"{name}: bins={bins!r} must be an integer, the edges, or the name of a rule: "
            + ", ".join(RULES),
            argument="bins",
            value=bins,
        ) from None
    if number < 1:
        raise ArgumentError.refusing("bins", bins, "must be positive", name)
    return number


def _given(name: str, bins: Any) -> Any:
    """Read edges that the caller gave; edges on the host are checked."""
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


def _spaced(x: Any, number: int) -> Any:
    """Return evenly spaced edges from the least to the greatest element, on their devices.

    The host does not read them. They are NumPy's to the bit.
    """
    low, high = statistical.min(x), statistical.max(x)
    target = _of_edges(x.dtype)
    half = ew.multiply(ew.equal(low, high), target.type(0.5))
    low, high = low.astype(target) - half, high.astype(target) + half
    numbers = target.type(0), target.type(1)
    known = not is_traced(x)
    sharding = as_sharding(x.device, 1) if known else default_sharding((number + 1,))
    at = create_on(
        ARANGE, (number + 1,), target, numbers, sharding, committed=known and x.committed
    )
    step = (high - low) / target.type(number)
    return bind(rows.WHERE, (ew.equal(at, number), high, ew.add(ew.multiply(step, at), low)))


def _by_rule(name: str, x: Any, rule: str, limits: Any, weights: Any) -> int:
    """Return the number of bins of a rule; the host reads the numbers that the rule needs."""
    check_choice(name, "bins", rule, RULES, ", a number, or edges")
    if weights is not None:
        raise ArgumentTypeError.refusing(
            "bins", rule, "does not go with weights; give a number of bins, or edges", name
        )
    if not x.size:
        return 1
    extremes = _known(statistical.min(x)), _known(statistical.max(x))
    if limits is not None and not (limits[0] <= extremes[0] and extremes[1] <= limits[1]):
        raise ArgumentError(
            f"{name}: bins={rule!r} with range={limits} would leave out elements, which are from "
            f"{extremes[0]} to {extremes[1]}; take those within first, or give a number of bins",
            argument="range",
            value=limits,
        )
    low, high = _apart(*(extremes if limits is None else limits))
    width = RULES[rule](x, extremes[1] - extremes[0], (low, high))
    if not width > 0:
        return 1
    if kind_of(x.dtype) in "iu":
        width = max(width, 1)
    number: int = math.ceil((high - low) / width)
    return max(number, 1)


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
    if not apart:
        return 0

    def error(number: int) -> Any:
        edges = np.linspace(limits[0], limits[1], number + 1)
        counts = bind(histograms.HISTOGRAM, (x, edges), (1, np.dtype(np.float64)))
        squares = _known(statistical.sum(ew.square(counts / n)))
        return (2 - (n + 1) * squares) * number / apart

    return apart / min(np.arange(1, max(100, int(math.sqrt(n))) + 1).tolist(), key=error)


RULES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "auto": lambda x, apart, limits: min(
        max(_fd(x, apart, limits), apart / math.sqrt(x.size) / 2), apart / (math.log2(x.size) + 1)
    ),
    "doane": _doane,
    "fd": _fd,
    "rice": lambda x, apart, limits: apart / (2 * x.size ** (1 / 3)),
    "scott": lambda x, apart, limits: (
        (24 * math.sqrt(math.pi) / x.size) ** (1 / 3) * _known(statistical.std(x))
    ),
    "sqrt": lambda x, apart, limits: apart / math.sqrt(x.size),
    "stone": _stone,
    "sturges": lambda x, apart, limits: apart / (math.log2(x.size) + 1),
}
"""Rules for the width of bins: each takes the array, how far apart its extremes are, and the edges
of all bins. Scott 1979; Freedman and Diaconis 1981; Doane 1976; Stone 1984; Sturges 1926."""


def _known(x: Any) -> Any:
    return concrete(x, "histogram_bin_edges").item()
