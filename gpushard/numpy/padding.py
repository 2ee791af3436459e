"""Arrays with a border."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard.array import Array
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.checks import number_of
from gpushard.functions.values import is_traced
from gpushard.numpy.creation import asarray
from gpushard.numpy.joining import concat
from gpushard.numpy.manipulation import broadcast_to, repeat
from gpushard.numpy.public import public
from gpushard.ops.bind import bind
from gpushard.ops.table.movement import PAD

__all__ = ["pad"]

Widths = tuple[tuple[int, int], ...]

_MODES = ("constant", "edge", "wrap", "reflect", "symmetric")


@public
def pad(
    array: Any,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = 0,
    out_sharding: Any = None,
) -> Array:
    """Return an array with a border.

    Args:
      pad_width: how many elements go before and behind each dim: (before, after) for each, one
        such pair for all, or one integer.
      mode: what they are: "constant"; "edge", the nearest element; "wrap", those of the other end;
        "reflect" or "symmetric", mirrored without or with the element at the edge.
      constant_values: the constants, in a form like `pad_width`.

    Raises:
      ArgumentError: a width is negative, the mode is unknown, or a dim of length 0 would be
        continued.
      ArgumentTypeError: widths are no integers.

    >>> import gpushard as gs
    >>> pad(gs.numpy.arange(4), (3, 1), "reflect")
    Array([3, 2, 1, 0, 1, 2, 3, 2], dtype=int64)
    """
    widths = _widths(pad_width, array.ndim)
    if mode not in _MODES:
        raise ArgumentError.refusing(
            "mode", mode, f"is not supported; use one of {', '.join(_MODES)}", "pad"
        )
    if mode == "constant":
        return _with_constants(array, widths, constant_values)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            array = _continued(array, axis, before, after, mode)
    return array


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
            f"pad: {argument} of shape {np.shape(numbers)} does not fit {ndim} dims; give a pair "
            "for each dim, one pair for all, or one number",
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


def _with_values(x: Any, widths: Widths, values: Any) -> Any:
    """Return an array with constants around it that a function computes."""
    many = isinstance(values, list | tuple)
    each = broadcast_to(asarray(values) if many else values, (x.ndim, 2)).astype(x.dtype)
    for dim, width in enumerate(widths):  # later dims decide at the corners
        ends = [
            broadcast_to(each[dim, side], (*x.shape[:dim], n, *x.shape[dim + 1 :]))
            for side, n in enumerate(width)
        ]
        x = concat([ends[0], x, ends[1]], dim)
    return x


def _continued(x: Any, axis: int, before: int, after: int, mode: str) -> Any:
    n = x.shape[axis]
    if not n:
        raise ArgumentError(
            f"pad: dim {axis} of shape {x.shape} has no elements that mode={mode!r} could "
            'continue; use mode="constant"',
            argument="mode",
            axis=axis,
            shape=x.shape,
        )
    parts = [
        *_parts(x, axis, _sources(range(-before, 0), n, mode)),
        x,
        *_parts(x, axis, _sources(range(n, n + after), n, mode)),
    ]
    return concat(parts, axis)


def _sources(positions: Sequence[int], n: int, mode: str) -> list[int]:
    """Return which elements of a dim of length n continue it.

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
    return [int(i) for i in np.minimum(at, period - at if n > 1 else at)]


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
