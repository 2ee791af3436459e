"""Reductions of windows that slide over an array: `jax.lax.reduce_window`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_key
from gpushard._ops.bind import bind
from gpushard._ops.table.windows import REDUCE_WINDOW, dilated, seen_by
from gpushard.errors import ArgumentError
from gpushard.lax.arguments import as_operand, as_operands, check_kind, check_shape
from gpushard.lax.convolutions import check_padded, pads_of, steps_of
from gpushard.lax.reductions import known_ufunc

__all__ = ["reduce_window"]


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Array:
    """Slide a window over an array, and reduce the elements in each position of the window.

    Axes along which the window has length 1 stay split over devices. The other axes are gathered
    first.

    Args:
      operand: an array.
      init_value: a scalar with the dtype of `operand`, which is combined with every window.
      computation: `gpushard.lax.add`, `mul`, `max`, `min`, `bitwise_and`, `bitwise_or` or
        `bitwise_xor`.
      window_dimensions: the shape of a window.
      window_strides: the step from window to window along each axis; 1 by default.
      padding: "VALID", "SAME" or "SAME_LOWER"; see `padtype_to_pads`. Or for each axis a pair: how
        many elements windows reach beyond its start and its end. A negative number removes
        elements. "SAME" ignores `base_dilation`.
      base_dilation: the distance between neighbouring elements of the array, which are spread out;
        1 by default.
      window_dilation: the distance between neighbouring elements of a window; 1 by default.

    Raises:
      ArgumentError: the function is unknown, or a sequence has another length than the number of
        axes.

    >>> import gpushard as gs
    >>> reduce_window(gs.numpy.arange(5), 0, gs.lax.add, (2,))
    Array([1, 3, 5, 7], dtype=int64)
    """
    check_key(computation, "lax.reduce_window", "computation", "a function, such as lax.add")
    ufunc = known_ufunc(computation)
    if ufunc is None:
        raise ArgumentError.refusing(
            "computation",
            computation,
            "is unknown; use lax.add, mul, max, min, bitwise_and, bitwise_or or bitwise_xor",
            "lax.reduce_window",
        )
    x, init = as_operands("reduce_window", (operand, init_value))
    x = as_operand("reduce_window", x)
    check_shape("reduce_window", "init_value", init.shape, ())
    name = "reduce_window"
    check_kind(name, x, _KINDS.get(ufunc, "iufc"))
    window = steps_of(name, "window_dimensions", window_dimensions, x.ndim)
    strides = steps_of(name, "window_strides", window_strides, x.ndim)
    base = steps_of(name, "base_dilation", base_dilation, x.ndim)
    by = steps_of(name, "window_dilation", window_dilation, x.ndim)
    reaches = [dilated(n, apart) for n, apart in zip(window, by, strict=True)]
    pads = pads_of(name, padding, x.shape, reaches, strides)
    each_dim = zip(x.shape, window, strides, pads, base, by, strict=True)
    check_padded(name, padding, x.shape, tuple(seen_by(*how)[1] for how in each_dim), base)
    return bind(REDUCE_WINDOW, (x, init), (ufunc.__name__, window, strides, pads, base, by))


_KINDS: dict[np.ufunc, str] = {
    np.maximum: "biuf",
    np.minimum: "biuf",
    np.bitwise_and: "biu",
    np.bitwise_or: "biu",
    np.bitwise_xor: "biu",
}
