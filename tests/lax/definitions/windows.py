"""Definitions of convolutions, and of reductions of windows: loops over all windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.lax.definitions.elementwise import DEFINITIONS as FUNCTIONS
from tests.lax.definitions.registry import defines, need, need_kind, one_dtype, wrapped

OPERATIONS = {
    "add": "iufc", "mul": "iufc", "max": "biuf", "min": "biuf", "bitwise_and": "biu",
    "bitwise_or": "biu", "bitwise_xor": "biu",
}  # fmt: skip
"""The functions that windows are reduced by, and what they take."""


@defines("padtype_to_pads")
def padtype_to_pads(in_shape: Any, window_shape: Any, window_strides: Any, padding: str) -> Any:
    need(str(padding).upper() in ("SAME", "SAME_LOWER", "VALID"))
    pads = []
    for n, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        windows = math.ceil(n / stride)
        total = max((windows - 1) * stride + window - n, 0)
        if padding.upper() == "VALID":
            total = 0
        small, large = total // 2, math.ceil(total / 2)
        pads.append((large, small) if padding.upper() == "SAME_LOWER" else (small, large))
    return pads


def _steps(values: Any, ndim: int) -> Any:
    values = [1] * ndim if values is None else values
    need(len(values) == ndim and all(each >= 1 for each in values))
    return values


def _pads(padding: Any, shape: Any, reaches: Any, strides: Any) -> Any:
    if isinstance(padding, str):
        return padtype_to_pads(shape, reaches, strides, padding)
    need(len(padding) == len(shape) and all(len(pair) == 2 for pair in padding))
    return padding


def _reach(n: int, apart: int) -> int:
    return (n - 1) * apart + 1 if n else 0


def _count(n: int, low: int, high: int, reach: int, stride: int) -> int:
    """Return how many windows there are along a dim."""
    room = n + low + high - reach
    return room // stride + 1 if room >= 0 else 0


def _source(place: int, base: int, n: int) -> int | None:
    """Return which element is at a place of a dim whose elements are apart, if any is."""
    number, between = divmod(place, base)
    return number if between == 0 and 0 <= number < n else None


@defines("reduce_window")
def reduce_window(
    x: Any, init: Any, name: str, window: Any, window_strides: Any = None, padding: Any = "VALID",
    base_dilation: Any = None, window_dilation: Any = None,
) -> Any:  # fmt: skip
    x, init = one_dtype(x, init)
    need(init.shape == ())
    need_kind(x, OPERATIONS[name])
    window, strides, base, by = (
        _steps(each, x.ndim) for each in (window, window_strides, base_dilation, window_dilation)
    )
    reaches = [*map(_reach, window, by)]
    lengths = [*map(_reach, x.shape, base)]
    pads = _pads(padding, lengths, reaches, strides)
    lows = [low for low, _ in pads]
    counts = [_count(n, *pad, reach, stride) for n, pad, reach, stride
              in zip(lengths, pads, reaches, strides, strict=True)]  # fmt: skip
    made = np.zeros(counts, x.dtype)
    for index in np.ndindex(*counts):
        total = init
        for within in np.ndindex(*window):
            places = [i * stride + k * apart - low for i, stride, k, apart, low
                      in zip(index, strides, within, by, lows, strict=True)]  # fmt: skip
            source = [*map(_source, places, base, x.shape)]
            if None not in source:
                total = FUNCTIONS[name](total, x[tuple(source)])
        made[index] = total
    return made


@defines("conv_dimension_numbers")
def conv_dimension_numbers(lhs_shape: Any, rhs_shape: Any, numbers: Any) -> Any:
    if numbers is not None and not isinstance(numbers[0], str):
        return numbers
    ndim = len(lhs_shape)
    need(len(rhs_shape) == ndim >= 2)
    others = "0123456789"[: ndim - 2]
    numbers = ("NC" + others, "OI" + others, "NC" + others) if numbers is None else numbers
    need(len(numbers) == 3 and all(len({*text}) == len(text) == ndim for text in numbers))
    need(all({*own} <= {*text} for own, text in zip(("NC", "OI", "NC"), numbers, strict=True)))
    spatial = [c for c in numbers[1] if c not in "OI"]
    for text, own in zip(numbers, ("NC", "OI", "NC"), strict=True):
        need({*text} - {*own} == {*spatial})
    return tuple(
        tuple(text.index(c) for c in (*own, *spatial))
        for text, own in zip(numbers, ("NC", "OI", "NC"), strict=True)
    )


@defines("conv_general_dilated")
def conv_general_dilated(
    lhs: Any, rhs: Any, window_strides: Any, padding: Any, lhs_dilation: Any = None,
    rhs_dilation: Any = None, dimension_numbers: Any = None, feature_group_count: int = 1,
    batch_group_count: int = 1, preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    x, kernel = one_dtype(lhs, rhs)
    need_kind(x, "iufc")
    dtype = np.dtype(preferred_element_type or x.dtype)
    lhs_spec, rhs_spec, out_spec = conv_dimension_numbers(x.shape, kernel.shape, dimension_numbers)
    x, kernel = x.transpose(lhs_spec), kernel.transpose(rhs_spec)
    ndim = x.ndim - 2
    strides, base, by = (
        _steps(each, ndim) for each in (window_strides, lhs_dilation, rhs_dilation)
    )
    need(not isinstance(padding, str) or {*base} <= {1})
    reaches = [*map(_reach, kernel.shape[2:], by)]
    pads = _pads(padding, x.shape[2:], reaches, strides)
    groups = feature_group_count
    need(groups >= 1 and batch_group_count >= 1 and 1 in (groups, batch_group_count))
    need(x.shape[1] == kernel.shape[1] * groups and kernel.shape[0] % groups == 0)
    need(kernel.shape[0] % batch_group_count == 0 and x.shape[0] % batch_group_count == 0)
    counts = [_count(_reach(n, apart), *pad, reach, stride) for n, apart, pad, reach, stride
              in zip(x.shape[2:], base, pads, reaches, strides, strict=True)]  # fmt: skip
    batch, features = x.shape[0] // batch_group_count, kernel.shape[0]
    made = np.zeros((batch, features, *counts), dtype)
    for n, feature, *index in np.ndindex(*made.shape):
        of_batch = n + feature // (features // batch_group_count) * batch
        channel = feature // (features // groups) * kernel.shape[1]
        terms = []
        for within in np.ndindex(*kernel.shape[2:]):
            places = [i * stride + k * apart - low for i, stride, k, apart, (low, _)
                      in zip(index, strides, within, by, pads, strict=True)]  # fmt: skip
            source = [*map(_source, places, base, x.shape[2:])]
            if None not in source:
                for c in range(kernel.shape[1]):
                    element = x[(of_batch, channel + c, *source)].item()
                    terms.append(element * kernel[(feature, c, *within)].item())
        made[(n, feature, *index)] = wrapped(sum(terms), dtype)
    return made.transpose([list(out_spec).index(at) for at in range(made.ndim)])


@defines("conv")
def conv(lhs: Any, rhs: Any, window_strides: Any, padding: str, **how: Any) -> Any:
    return conv_general_dilated(lhs, rhs, window_strides, padding, **how)


@defines("conv_with_general_padding")
def conv_with_general_padding(
    lhs: Any, rhs: Any, strides: Any, padding: Any, lhs_dilation: Any, rhs_dilation: Any, **how: Any
) -> Any:
    return conv_general_dilated(lhs, rhs, strides, padding, lhs_dilation, rhs_dilation, **how)


@defines("conv_transpose")
def conv_transpose(
    lhs: Any, rhs: Any, strides: Any, padding: Any, rhs_dilation: Any = None,
    dimension_numbers: Any = None, transpose_kernel: bool = False, **how: Any,
) -> Any:  # fmt: skip
    x, kernel = one_dtype(lhs, rhs)
    ndim = x.ndim - 2
    if dimension_numbers is None:
        need(x.ndim == kernel.ndim >= 2)
        others = "HWD"[:ndim]
        dimension_numbers = (f"N{others}C", f"{others}IO", f"N{others}C")
    numbers = conv_dimension_numbers(x.shape, kernel.shape, dimension_numbers)
    lhs_spec, rhs_spec, out_spec = map(list, numbers)
    strides, by = _steps(strides, ndim), _steps(rhs_dilation, ndim)
    pads = padding
    if isinstance(padding, str):
        need(padding.upper() in ("SAME", "VALID"))
        pads = []
        for at, stride, apart in zip(rhs_spec[2:], strides, by, strict=True):
            k = _reach(kernel.shape[at], apart)
            longer = max(k - stride, 0) if padding.upper() == "VALID" else 0
            added = (
                stride - 1 + k - 1 + longer
            )  # beyond (n - 1) * stride + 1, for n * stride results
            low = k - 1
            if padding.upper() == "SAME" and stride < k:
                low = math.ceil(added / 2)
            pads.append((low, added - low))
    if transpose_kernel:
        kernel = np.flip(kernel, rhs_spec[2:])
        rhs_spec[:2] = rhs_spec[1::-1]
    numbers = (lhs_spec, rhs_spec, out_spec)
    return conv_general_dilated(x, kernel, [1] * ndim, pads, strides, by, numbers, **how)
