"""Arrays with a border."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice, count
from gpushard._functions.element_types import number_of
from gpushard._functions.values import is_traced, is_value
from gpushard._ops.bind import bind
from gpushard._ops.table.manipulation import PAD
from gpushard._placement.creation import asarray
from gpushard._placement.public_functions import public
from gpushard.dtypes import kind_of, result_type
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy import elementwise as ew
from gpushard.numpy import statistical
from gpushard.numpy.functional import apply_along_axis
from gpushard.numpy.joining import concat
from gpushard.numpy.manipulation import broadcast_to, flip, repeat
from gpushard.numpy.quantiles import median

__all__ = ["pad"]

Widths = tuple[tuple[int, int], ...]

_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": statistical.max,
    "minimum": statistical.min,
    "mean": statistical.mean,
    "median": median,
}
_OPTIONS = {
    "constant": "constant_values",
    "linear_ramp": "end_values",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    **dict.fromkeys(_STATISTICS, "stat_length"),
}
"""The keyword of each mode that has one."""

_MODES = (*dict.fromkeys(("constant", "edge", "wrap", "empty", *_OPTIONS)),)


@public
def pad(
    array: Any,
    pad_width: Any,
    mode: Any = "constant",
    *,
    constant_values: Any = None,
    end_values: Any = None,
    stat_length: Any = None,
    reflect_type: str | None = None,
    out_sharding: Any = None,
    **kwargs: Any,
) -> Array:
    """Add a border to an array.

    Args:
      pad_width: the numbers of new elements before and after each axis. A pair (before, after) for
        each axis, one pair for all axes, or one integer for all.
      mode: the values of the border. "constant": `constant_values`. "empty": any values. "edge":
        the nearest element. "wrap": the elements at the other end. "reflect": mirrored elements,
        without the one at the edge; "symmetric": mirrored elements with the one at the edge.
        "linear_ramp": a line from the edge to `end_values`. "maximum", "minimum", "mean", "median":
        of the elements at that end. Or a function, which is called for each vector along each axis,
        padded with zeros: `function(vector, (before, after), axis, kwargs)`. It changes the vector,
        or returns a new one.
      constant_values: the constants, in a form like `pad_width`; 0 by default.
      end_values: the outermost values of "linear_ramp", in a form like `pad_width`; 0 by default.
      stat_length: how many elements at an end "maximum", "minimum", "mean" and "median" use, in a
        form like `pad_width`; all by default.
      reflect_type: "even" for mirrored elements; "odd" for twice the element at the edge minus the
        mirrored element.
      **kwargs: more arguments of the function `mode`.

    Raises:
      ArgumentError: a width is negative, or the mode is unknown or does not have one of the
        arguments. Or the border of an axis without elements would depend on elements.
      ArgumentTypeError: widths are not integers.

    >>> import gpushard as gs
    >>> pad(gs.numpy.arange(4), (3, 1), "reflect")
    Array([3, 2, 1, 0, 1, 2, 3, 2], dtype=int64)
    >>> pad(gs.numpy.arange(4), (3, 1), "linear_ramp", end_values=6)
    Array([6, 4, 2, 0, 1, 2, 3, 6], dtype=int64)
    """
    widths = _widths(pad_width, array.ndim)
    options = {
        "constant_values": constant_values,
        "end_values": end_values,
        "stat_length": stat_length,
        "reflect_type": reflect_type,
    }
    if callable(mode):
        return _by_function(array, widths, mode, {**_named(options), **kwargs})
    check_choice("pad", "mode", mode, _MODES)
    _check_options(mode, {**_named(options), **kwargs})
    if mode in ("constant", "empty"):
        return _with_constants(array, widths, 0 if constant_values is None else constant_values)
    check_choice("pad", "reflect_type", reflect_type, (None, "even", "odd"))
    ends: Any = 0 if end_values is None else end_values
    traced = any(map(is_traced, tree.leaves(ends)))
    ends = _each(ends, array.ndim) if traced else _pairs(ends, array.ndim, "end_values")
    lengths = _lengths(stat_length, array.ndim)
    for axis, (before, after) in enumerate(widths):
        if not (before or after):
            continue
        _check_elements(array, axis, mode)
        if mode == "linear_ramp":
            array = _with_ramps(array, axis, before, after, ends[axis])
        elif mode in _STATISTICS:
            array = _with_statistics(array, axis, before, after, mode, lengths[axis])
        elif reflect_type == "odd":
            array = _oddly_mirrored(array, axis, before, after, mode)
        else:
            array = _continued(array, axis, before, after, mode)
    return array


def _named(options: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords that a caller gave."""
    return {name: value for name, value in options.items() if value is not None}


def _check_options(mode: str, options: dict[str, Any]) -> None:
    for name in options:
        if name != _OPTIONS.get(mode):
            others = [each for each, option in _OPTIONS.items() if option == name]
            way = f"it is for mode={' or '.join(map(repr, others))}" if others else "leave it out"
            raise ArgumentError(
                f"pad: mode={mode!r} takes no {name}=; {way}", argument=name, mode=mode
            )


def _check_elements(x: Any, axis: int, mode: str) -> None:
    if not x.shape[axis]:
        raise ArgumentError(
            f"pad: axis {axis} of shape {x.shape} has no elements that mode={mode!r} could "
            'continue; use mode="constant"',
            argument="mode",
            axis=axis,
            shape=x.shape,
        )


def _by_function(x: Any, widths: Widths, function: Callable[..., Any], options: Any) -> Any:
    """Let a function fill the border along each axis."""
    x = _with_constants(x, widths, 0)

    def filled(vector: Any, width: tuple[int, int], axis: int) -> Any:
        new = function(vector, width, axis, options)
        return vector if new is None else new

    for axis, width in enumerate(widths):
        x = apply_along_axis(filled, axis, x, width, axis).astype(x.dtype) if x.size else x
    return x


def _widths(pad_width: Any, ndim: int) -> Widths:
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu":
        raise ArgumentTypeError.refusing("pad_width", pad_width, "must be integers", "pad")
    pairs = _pairs(widths, ndim, "pad_width")
    if any(n < 0 for pair in pairs for n in pair):
        raise ArgumentError.refusing("pad_width", pad_width, "must not be negative", "pad")
    return tuple((int(a), int(b)) for a, b in pairs)


def _pairs(numbers: Any, ndim: int, argument: str) -> Any:
    """Return a pair for each dim."""
    try:
        return np.broadcast_to(numbers, (ndim, 2)).tolist()
    except ValueError:
        raise ArgumentError(
            f"pad: {argument} of shape {np.shape(numbers)} does not fit ndim={ndim}; give a pair "
            "for each axis, one pair for all, or one number",
            argument=argument,
            shape=np.shape(numbers),
            ndim=ndim,
        ) from None


def _with_constants(x: Any, widths: Widths, values: Any) -> Any:
    if any(map(is_traced, tree.leaves(values))):
        return _with_values(x, widths, values)
    pairs = _pairs(values, x.ndim, "constant_values")
    numbers = [[number_of(v, x.dtype, "pad", "constant_values") for v in pair] for pair in pairs]
    different = {v for pair in numbers for v in pair}
    if len(different) <= 1:
        return bind(PAD, (x, *different), (widths,)) if different else x
    for dim, (pair, width) in enumerate(zip(numbers, widths, strict=True)):
        for side, value in enumerate(pair):  # later dims decide at the corners
            sides = [(0, 0)] * x.ndim
            sides[dim] = (0, width[1]) if side else (width[0], 0)
            x = bind(PAD, (x, value), (tuple(sides),))
    return x


def _each(values: Any, ndim: int) -> Any:
    """Return a pair for each dim as an array of values that a function computes."""
    return broadcast_to(asarray(values), (ndim, 2))


def _with_values(x: Any, widths: Widths, values: Any) -> Any:
    """Return an array with constants around it that a function computes."""
    each = _each(values, x.ndim).astype(x.dtype)
    for dim, width in enumerate(widths):  # later dims decide at the corners
        ends = [
            broadcast_to(each[dim, side], (*x.shape[:dim], n, *x.shape[dim + 1 :]))
            for side, n in enumerate(width)
        ]
        x = concat([ends[0], x, ends[1]], dim)
    return x


def _lengths(stat_length: Any, ndim: int) -> Any:
    """Read the numbers of elements for statistics at both ends of each axis; None for all."""
    if stat_length is None:
        return [[None, None]] * ndim
    pairs = _pairs(stat_length, ndim, "stat_length")
    return [[None if n is None else count(n, "pad", "stat_length") for n in p] for p in pairs]


def _between(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    """Select elements along an axis."""
    return x[(*(slice(None),) * axis, slice(start, stop))]


def _with_ramps(x: Any, axis: int, before: int, after: int, ends: Sequence[Any]) -> Any:
    work = result_type(x.dtype, np.float64)
    rising = [-1] + [1] * (x.ndim - axis - 1)
    sides = []
    for n, end, edge in zip(
        (before, after), ends, (_between(x, axis, 0, 1), _between(x, axis, -1, None)), strict=True
    ):
        end = end if is_value(end) else number_of(end, work, "pad", "end_values")
        step = (edge.astype(work) - end) / max(n, 1)
        side = np.arange(n).reshape(rising) * step + end
        whole = kind_of(x.dtype) in "iu"
        sides.append((ew.floor(side) if whole else side).astype(x.dtype))
    return concat([sides[0], x, flip(sides[1], axis)], axis)


def _with_statistics(
    x: Any, axis: int, before: int, after: int, mode: str, lengths: Sequence[int | None]
) -> Any:
    size = x.shape[axis]
    first, last = [size if n is None else min(n, size) for n in lengths]
    if mode in ("maximum", "minimum") and not (first and last):
        raise ArgumentError(
            f"pad: stat_length=0 leaves no elements for mode={mode!r}; give 1 or more",
            argument="stat_length",
            mode=mode,
        )
    sides = []
    for n, part in (
        (before, _between(x, axis, 0, first)),
        (after, _between(x, axis, size - last, size)),
    ):
        value = _STATISTICS[mode](part, axis=axis, keepdims=True)
        value = ew.round(value) if kind_of(x.dtype) in "iu" else value
        sides.append(repeat(value.astype(x.dtype), n, axis))
    return concat([sides[0], x, sides[1]], axis)


def _oddly_mirrored(x: Any, axis: int, before: int, after: int, mode: str) -> Any:
    work = x.astype(np.int8) if x.dtype == np.bool_ else x
    left = flip(_odd_side(flip(work, axis), axis, before, mode), axis)
    return concat([left, work, _odd_side(work, axis, after, mode)], axis).astype(x.dtype)


def _odd_side(x: Any, axis: int, width: int, mode: str) -> Any:
    """Continue an array behind its end, mirrored at the point of its last element.

    Reflected twice, at both ends, elements repeat after a period, each time higher by twice the
    difference of the ends: [0, 1, 3] becomes [0, 1, 3, 5, 6, 7, 9, 11, 12, ...].
    """
    n = x.shape[axis]
    edge = int(mode == "reflect")  # whether the element at the edge is left out
    turn = n - edge  # elements from one end to the other
    first, last = _between(x, axis, 0, 1), _between(x, axis, n - 1, n)
    pieces = []
    start = 0
    while start < width and turn:
        rounds, back = divmod(start // turn + 1, 2)
        length = min(turn, width - start)
        if back:
            piece = 2 * last - flip(_between(x, axis, turn - length, turn), axis)
        else:
            piece = _between(x, axis, edge, edge + length)
        pieces.append(piece + rounds * 2 * (last - first) if rounds else piece)
        start += length
    pieces.append(repeat(last, width - start, axis))
    return concat(pieces, axis)


def _continued(x: Any, axis: int, before: int, after: int, mode: str) -> Any:
    n = x.shape[axis]
    parts = [
        *_parts(x, axis, _sources(range(-before, 0), n, mode)),
        x,
        *_parts(x, axis, _sources(range(n, n + after), n, mode)),
    ]
    return concat(parts, axis)


def _sources(positions: Sequence[int], n: int, mode: str) -> list[int]:
    """Return the positions of the elements of a dim of length n that continue it.

    >>> _sources(range(-3, 0), 3, "symmetric"), _sources(range(3, 6), 3, "wrap")
    ([2, 1, 0], [0, 1, 2])
    """
    at = np.arange(positions[0], positions[-1] + 1) if len(positions) else np.arange(0)
    if mode == "edge":
        return [int(i) for i in np.clip(at, 0, n - 1)]
    if mode == "wrap":
        return [int(i) for i in at % n]
    if mode == "symmetric":
        at = at % (2 * n)
        return [int(i) for i in np.minimum(at, 2 * n - 1 - at)]
    period = max(2 * (n - 1), 1)
    at = at % period
    return [int(i) for i in np.minimum(at, period - at)]


def _parts(x: Any, axis: int, sources: list[int]) -> Iterator[Any]:
    """Yield the pieces of an array that hold some elements of a dim in their order."""
    lead = (slice(None),) * axis
    start = 0
    while start < len(sources):
        stop = start + 1
        step = sources[stop] - sources[start] if stop < len(sources) else 1
        while stop < len(sources) and sources[stop] - sources[stop - 1] == step:
            stop += 1
        first, length = sources[start], stop - start
        if step == 0:
            yield repeat(x[(*lead, slice(first, first + 1))], length, axis)
        else:
            end = first + step * length
            yield x[(*lead, slice(first, None if end < 0 else end, step))]
        start = stop
