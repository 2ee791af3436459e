"""Forms of the rows of statistics: running totals, sorted elements, counts, points, repeats."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._ops.row import Row
from gpushard._ops.table import (
    cumulative,
    elementwise,
    histograms,
    manipulation,
    nan_moments,
    order_statistics,
    polynomials,
    reductions,
    signals,
)
from tests.ops.forms.form import Form

_EXTREMES = [
    Form(("ij",), (axes, keepdims, None), dtypes)
    for axes, keepdims in (((-2, -1), False), ((-2,), True), ((-1,), False))
    for dtypes in "db"
]


def _holes(x: Any) -> tuple[Any, ...]:
    """Take out some elements."""
    x.reshape(-1)[::4] = np.nan
    return (x,)


_HOLED = [Form(("ij",), ((-1,), False, None), prepare=_holes)]
_SPREAD = [
    Form(("ij",), ((-2,), False, 0), prepare=_holes),
    Form(("ij",), ((-2, -1), True, 1), prepare=_holes),
    Form(("ij",), ((-1,), False, 0), "D", prepare=_holes),
]


def _scanned(dtypes: str, dtype: Any = None) -> list[Form]:
    return [Form(("ij",), (axis, dtype), dtypes) for axis in (-1, -2)]


_MIDDLES = [
    Form(("ij",), ((-1,), False)),
    Form(("ij",), ((-2,), True), "b"),
    Form(("ijk",), ((-2, -1), False), "f"),
]


def _weighed(x: Any, q: Any, *weights: Any) -> tuple[Any, ...]:
    """Take shares from 0 to 1, and weights that are not negative."""
    return x, abs(q) % 1, *map(abs, weights)


def _ascending(*which: int) -> Any:
    """Sort some operands."""
    return lambda *xs: tuple(np.sort(x) if n in which else x for n, x in enumerate(xs))


def _counts(each: int) -> Any:
    """Take counts whose mean is a number, and which differ."""

    def prepare(x: Any, counts: Any) -> tuple[Any, ...]:
        found = np.full(counts.shape, each)
        found[: len(found) // 2] += 1
        found[len(found) - len(found) // 2 :] -= 1
        return x, found

    return prepare


def _shares(method: str, weights: str = "") -> list[Form]:
    """Return calls with one share of a place of its own, which is a number, and with weights."""
    more = (weights,) if weights else ()
    return [
        Form(("ij", "1", *more), ((-1,), False, method, False), "dd", prepare=_weighed),
        Form(("ij", "1", *more), ((-2,), True, method, False), "fd", prepare=_weighed),
    ]


FORMS: dict[Row, list[Form]] = {
    elementwise.NAN_TO_NUM: [Form(("ij",), (0.0, 1.0, -1.0), prepare=_holes)],
    reductions.NANMIN: _EXTREMES + _HOLED,
    reductions.NANMAX: _EXTREMES + _HOLED,
    nan_moments.NANMEAN: [
        Form(("ij",), ((-2, -1), False, None), prepare=_holes),
        Form(("ij",), ((-2,), True, np.dtype("f")), "d", prepare=_holes),
        Form(("ij",), ((-1,), False, None), "D", prepare=_holes),
    ],
    nan_moments.NANVAR: _SPREAD,
    nan_moments.NANSTD: _SPREAD,
    cumulative.CUMSUM: _scanned("d") + _scanned("b", np.dtype("i4")),
    cumulative.CUMPROD: _scanned("d"),
    cumulative.CUMMAX: _scanned("d") + _scanned("b"),
    cumulative.CUMMIN: _scanned("d"),
    cumulative.CUMALL: [Form(("ij",), (axis, None), "?", density=0.8) for axis in (-1, -2)],
    cumulative.CUMANY: [Form(("ij",), (axis, None), "?", density=0.2) for axis in (-1, -2)],
    order_statistics.MEDIAN: _MIDDLES,
    order_statistics.NANMEDIAN: _MIDDLES,
    order_statistics.QUANTILE: _shares("linear") + _shares("nearest"),
    order_statistics.NANQUANTILE: _shares("weibull"),
    order_statistics.WEIGHTED_QUANTILE: _shares("inverted_cdf", "ij"),
    order_statistics.WEIGHTED_NANQUANTILE: _shares("inverted_cdf", "ij"),
    histograms.BINCOUNT: [
        Form(("ij",), (2, np.dtype("l")), "l"),
        Form(("i", "i"), (3, np.dtype("d")), "Bd"),
    ],
    histograms.HISTOGRAM: [
        Form(("ij", "3"), (1, np.dtype("l")), "d", prepare=_ascending(1)),
        Form(("i", "i", "4", "3", "i"), (2, np.dtype("d")), "d", prepare=_ascending(2, 3)),
        Form(("i", "4", "i"), (1, np.dtype("D")), "ddD", prepare=_ascending(1)),
    ],
    signals.INTERP: [
        Form(("ij", "k", "k"), (False, False, None), "d", prepare=_ascending(1)),
        Form(("i", "k", "k"), (True, False, None), "ddD", (2.5,), prepare=_ascending(1)),
    ],
    signals.CONVOLVE: [Form(("i", "j"), (mode,)) for mode in ("full", "same", "valid")],
    signals.CORRELATE: [Form(("i", "j"), ("full",), "D"), Form(("i", "j"), ("valid",), "d")],
    polynomials.POLYDIV: [Form(("i", "j")), Form(("i", "i"), (), "D")],
    polynomials.POLY: [Form(("i",)), Form(("i",), (), "D")],
    manipulation.REPEAT_EACH: [
        Form(("ij", "j"), lambda s: (3 * s[0][1], -1), "dl", prepare=_counts(3)),
        Form(("ij", "i"), lambda s: (2 * s[0][0], -2), "bl", prepare=_counts(2)),
    ],
}
