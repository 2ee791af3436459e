"""Convolutions, under the names of `jax.lax`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice
from gpushard._functions.docstrings import described
from gpushard._functions.linear_algebra import in_preferred, in_types
from gpushard._functions.manipulation import flip, permute_dims
from gpushard._geometry.tiling import MOST_ELEMENTS
from gpushard._ops.bind import bind
from gpushard._ops.table.windows import (
    CONVOLUTION,
    dilated,
    padded_shape,
)
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.lax.arguments import (
    as_arrays,
    check_kind,
    each,
    integers,
)

__all__ = [
    "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "conv",
    "conv_dimension_numbers", "conv_general_dilated", "conv_transpose",
    "conv_with_general_padding", "padtype_to_pads",
]  # fmt: skip


_convolutions = described(
    preferred_element_type="the dtype of the result, to which operands are converted first."
)


class ConvDimensionNumbers(NamedTuple):
    """The roles of the dimensions in a convolution; the fields have the same meaning as in JAX."""

    lhs_spec: Sequence[int]  # batch, features, and the others
    rhs_spec: Sequence[int]  # new features, features, and the others
    out_spec: Sequence[int]  # batch, new features, and the others


ConvGeneralDilatedDimensionNumbers: TypeAlias = ConvDimensionNumbers | tuple[str, str, str] | None
"""None for the order of `ConvDimensionNumbers`, or letters, such as ("NHWC", "HWIO", "NHWC")."""


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """Compute how much padding a rule such as "SAME" puts before and after each axis.

    Args:
      in_shape: the shape of the array.
      window_shape: the shape of a window.
      window_strides: the step from window to window along each axis.
      padding: the rule. "VALID" means no padding. "SAME" means a result of length ceil(length /
        stride); if the padding is odd, it has one more element after the array. "SAME_LOWER" puts
        that element before the array.

    >>> padtype_to_pads((5,), (3,), (2,), "SAME")
    [(1, 1)]
    """
    kind = padding.upper() if isinstance(padding, str) else padding
    check_choice("lax", "padding", kind, ("SAME", "SAME_LOWER", "VALID"))
    in_shape = integers("padtype_to_pads", "in_shape", in_shape)
    ndim = len(in_shape)
    window_shape = integers("padtype_to_pads", "window_shape", window_shape, ndim)
    window_strides = steps_of("padtype_to_pads", "window_strides", window_strides, ndim)
    if kind == "VALID":
        return [(0, 0)] * ndim
    pads = []
    for n, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        total = max((-(-n // stride) - 1) * stride + window - n, 0)
        less, more = total // 2, total - total // 2
        pads.append((less, more) if kind == "SAME" else (more, less))
    return pads


def steps_of(name: str, argument: str, values: Any, ndim: int) -> tuple[int, ...]:
    """Read a number from 1 for each dim; ones by default."""
    steps = (1,) * ndim if values is None else integers(name, argument, values, ndim)
    if any(step < 1 for step in steps):
        raise ArgumentError.refusing(argument, values, "must be 1 at least", f"lax.{name}")
    return steps


def pads_of(
    name: str,
    padding: Any,
    shape: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
) -> tuple[tuple[int, int], ...]:
    if isinstance(padding, str):
        return tuple(padtype_to_pads(shape, window, strides, padding))
    entries = each(name, "padding", padding, "the name of a rule, or a sequence of pairs")
    pairs = [integers(name, "padding", pair, 2) for pair in entries]
    if len(pairs) != len(shape):
        raise ArgumentError.refusing(
            "padding", padding, f"must have {len(shape)} pairs, one for each axis", f"lax.{name}"
        )
    return tuple((low, high) for low, high in pairs)


def check_padded(
    name: str,
    padding: Any,
    shape: Sequence[int],
    pads: tuple[tuple[int, int], ...],
    base: tuple[int, ...],
) -> None:
    """Check that an array with others around and between its elements is not too large."""
    whole = padded_shape(tuple(shape), pads, base)
    if math.prod(n for n in whole if n) > MOST_ELEMENTS:
        raise ArgumentError.refusing(
            "padding",
            padding,
            f"and the dilations make an array of shape {whole}, of more than 2**58 elements; use "
            "smaller windows, dilations or pads",
            f"lax.{name}",
            shape=whole,
        )


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Convert a description of the dimensions of a convolution to `ConvDimensionNumbers`.

    Args:
      lhs_shape: the shape of the left operand.
      rhs_shape: the shape of the right operand.
      dimension_numbers: three strings, for both operands and the result, with a letter for each
        dimension. N is the batch and C the features; in the kernel, I and O are input and output
        features. All other letters are spatial dimensions. None means batch, features, spatial
        dimensions; for the kernel, output and input features, spatial dimensions.

    Raises:
      ArgumentError: the letters do not match the shapes, or one another.

    >>> conv_dimension_numbers((1,) * 4, (1,) * 4, ("NHWC", "HWIO", "NHWC")).rhs_spec
    (3, 2, 0, 1)
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    name = "conv_dimension_numbers"
    lhs_shape = integers(name, "lhs_shape", lhs_shape)
    rhs_shape = integers(name, "rhs_shape", rhs_shape)
    ndim = len(lhs_shape)
    if len(rhs_shape) != ndim or ndim < 2:
        raise ArgumentError(
            f"lax.conv: operands of shapes {tuple(lhs_shape)} and {tuple(rhs_shape)} need "
            "equally many axes, at least two",
            argument="lhs",
            shapes=(tuple(lhs_shape), tuple(rhs_shape)),
        )
    if dimension_numbers is None:
        order = tuple(range(ndim))
        return ConvDimensionNumbers(order, order, order)
    wanted = 'None, or three strings of letters, such as ("NHWC", "HWIO", "NHWC")'
    specs = [
        tuple(each(name, "dimension_numbers", text, wanted))
        for text in each(name, "dimension_numbers", dimension_numbers, wanted)
    ]
    if not all(isinstance(letter, str) for text in specs for letter in text):
        raise ArgumentTypeError.refusing(
            "dimension_numbers", dimension_numbers, f"must be {wanted}", f"lax.{name}"
        )
    spatial = [sorted(set(text) - set(roles)) for text, roles in zip(specs, _OWN, strict=False)]
    if (
        len(specs) != 3
        or any(len(set(text)) != ndim or len(text) != ndim for text in specs)
        or any(not set(roles) <= set(text) for text, roles in zip(specs, _OWN, strict=True))
        or spatial.count(spatial[0]) != 3
    ):
        raise ArgumentError.refusing(
            "dimension_numbers",
            dimension_numbers,
            f"must be three strings of {ndim} letters, with N and C, O and I, N and C, and the "
            'same others in each, such as ("NHWC", "HWIO", "NHWC")',
            "lax.conv_dimension_numbers",
        )
    others = [c for c in specs[1] if c not in "OI"]
    return ConvDimensionNumbers(
        *(
            tuple(text.index(c) for c in (*roles, *others))
            for text, roles in zip(specs, _OWN, strict=True)
        )
    )


_OWN = ("NC", "OI", "NC")


@_convolutions
def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolve an array with a kernel, as neural networks do, in any number of dimensions.

    The kernel is not flipped, so the result is a cross-correlation.

    Operands may stay split over devices along batch and feature dimensions. This includes the input
    features, which the convolution sums over. Spatial dimensions are gathered first.

    Args:
      lhs: an array with batch, features, and spatial dimensions.
      rhs: the kernel, an array of the same dtype. Its dimensions are output features, input
        features of one group, and spatial dimensions.
      window_strides: the step from window to window along each spatial dimension.
      padding: "VALID", "SAME" or "SAME_LOWER"; see `padtype_to_pads`. Or for each spatial dimension
        a pair: the numbers of zeros before and after it. A negative number removes elements.
      lhs_dilation: the distance between neighbouring elements of the array after zeros are inserted
        between them; 1, the default, inserts none.
      rhs_dilation: the distance between neighbouring elements of the kernel; 1 by default.
      dimension_numbers: the roles of the dimensions; see `conv_dimension_numbers`.
      feature_group_count: the number of groups of input features; each group has its own output
        features.
      batch_group_count: the number of groups of the batch; each group has its own output features.

    Raises:
      ArgumentError: shapes, groups and dimension numbers do not match each other.
      ArgumentTypeError: dtypes differ.

    >>> import gpushard as gs
    >>> x, k = gs.numpy.arange(5.0).reshape(1, 1, 5), gs.numpy.ones((1, 1, 3))
    >>> conv_general_dilated(x, k, (1,), "SAME")
    Array([[[1., 3., 6., 9., 7.]]], dtype=float64)
    """
    name = "conv_general_dilated"
    x, kernel = in_types(
        as_arrays(name, lhs, rhs), f"lax.{name}", precision, preferred_element_type
    )
    check_kind(name, x, "iufc")
    numbers = conv_dimension_numbers(x.shape, kernel.shape, dimension_numbers)
    x, kernel = permute_dims(x, numbers.lhs_spec), permute_dims(kernel, numbers.rhs_spec)
    ndim = x.ndim - 2
    strides = steps_of(name, "window_strides", window_strides, ndim)
    base = steps_of(name, "lhs_dilation", lhs_dilation, ndim)
    by = steps_of(name, "rhs_dilation", rhs_dilation, ndim)
    if isinstance(padding, str) and max(base, default=1) > 1:
        raise ArgumentError.refusing(
            "padding",
            padding,
            "says nothing where lhs_dilation is not 1; give pairs",
            f"lax.{name}",
        )
    groups, batches = integers(name, "groups", (feature_group_count, batch_group_count))
    reaches = [dilated(n, apart) for n, apart in zip(kernel.shape[2:], by, strict=True)]
    pads = pads_of(name, padding, x.shape[2:], reaches, strides)
    check_padded(name, padding, x.shape[2:], pads, base)
    _check_groups(x.shape, kernel.shape, groups, batches)
    group_count = max(groups, batches)
    over, within = x.shape[2:], kernel.shape[2:]
    if batches == 1:
        x = x.reshape(x.shape[0], group_count, x.shape[1] // group_count, *over)
    else:  # groups of the batch become groups of features
        x = x.reshape(group_count, x.shape[0] // group_count, *x.shape[1:]).swapaxes(0, 1)
    kernel = kernel.reshape(group_count, kernel.shape[0] // group_count, kernel.shape[1], *within)
    result = bind(CONVOLUTION, (x, kernel), (strides, pads, base, by))
    result = result.reshape(result.shape[0], math.prod(result.shape[1:3]), *result.shape[3:])
    back = [numbers.out_spec.index(at) for at in range(result.ndim)]
    return in_preferred(permute_dims(result, back), preferred_element_type)


def _check_groups(x: Sequence[int], kernel: Sequence[int], groups: int, batches: int) -> None:
    name = "lax.conv_general_dilated"
    if min(groups, batches) < 1 or (groups > 1 and batches > 1):
        raise ArgumentError(
            f"{name}: feature_group_count={groups} and batch_group_count={batches} must be 1 at "
            "least, and one of them 1",
            argument="feature_group_count",
        )
    if x[1] != kernel[1] * groups or kernel[0] % max(groups, batches) or x[0] % batches:
        raise ArgumentError(
            f"{name}: {x[1]} features of lhs, {kernel[1]} and {kernel[0]} new ones of rhs, and a "
            f"batch of {x[0]} do not fit feature_group_count={groups} and "
            f"batch_group_count={batches}",
            argument="feature_group_count",
            shapes=(tuple(x), tuple(kernel)),
        )


@_convolutions
def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolve an array with a kernel; see `conv_general_dilated`.

    Args:
      lhs: an array with batch, features, and spatial dimensions.
      rhs: the kernel, with output features, input features, and spatial dimensions.
      window_strides: the distance of windows along each spatial dimension.
      padding: "VALID", "SAME" or "SAME_LOWER".

    >>> import gpushard as gs
    >>> conv(gs.numpy.ones((1, 2, 4)), gs.numpy.ones((3, 2, 2)), (1,), "VALID").shape
    (1, 3, 3)
    """
    how: dict[str, Any] = {
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }
    return conv_general_dilated(lhs, rhs, window_strides, padding, **how)


@_convolutions
def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolve an array with a kernel, with padding and dilation; see `conv_general_dilated`.

    Args:
      lhs: an array with batch, features, and spatial dimensions.
      rhs: the kernel, with output features, input features, and spatial dimensions.
      window_strides: the step from window to window along each spatial dimension.
      padding: for each spatial dimension a pair, the numbers of zeros before and after it; or a
        rule such as "SAME".
      lhs_dilation: the distance between neighbouring elements of the array; None means 1.
      rhs_dilation: the distance between neighbouring elements of the kernel; None means 1.

    >>> import gpushard as gs
    >>> x, k = gs.numpy.ones((1, 2, 4)), gs.numpy.ones((3, 2, 2))
    >>> conv_with_general_padding(x, k, (1,), [(1, 1)], None, (2,)).shape
    (1, 3, 4)
    """
    how: dict[str, Any] = {
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, **how
    )


@_convolutions
def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Compute a transposed convolution, which enlarges the spatial dimensions by the strides.

    Args:
      lhs: an array with batch, features, and spatial dimensions.
      rhs: the kernel.
      strides: the distance between neighbouring elements of the array along each spatial dimension,
        with zeros between.
      padding: "SAME" or "VALID": the rule of the forward convolution. Or for each spatial dimension
        a pair: the numbers of zeros before and after it.
      rhs_dilation: the distance between neighbouring elements of the kernel; 1 by default.
      dimension_numbers: the roles of the dimensions; features come last by default.
      transpose_kernel: whether `rhs` is the kernel of the forward convolution. If True, it is
        reversed, and its input and output features are exchanged.

    >>> import gpushard as gs
    >>> conv_transpose(gs.numpy.ones((1, 3, 2)), gs.numpy.ones((2, 2, 4)), (2,), "SAME").shape
    (1, 6, 4)
    """
    x, kernel = as_arrays("conv_transpose", lhs, rhs)
    ndim = x.ndim - 2
    if dimension_numbers is None:
        others = "".join("HWD"[: max(ndim, 0)]) if ndim <= 3 else ""
        dimension_numbers = (f"N{others}C", f"{others}IO", f"N{others}C")
    numbers = conv_dimension_numbers(x.shape, kernel.shape, dimension_numbers)
    steps = steps_of("conv_transpose", "strides", strides, ndim)
    by = steps_of("conv_transpose", "rhs_dilation", rhs_dilation, ndim)
    within = numbers.rhs_spec[2:]
    reaches = [dilated(kernel.shape[at], apart) for at, apart in zip(within, by, strict=True)]
    pads: Any = padding
    if isinstance(padding, str):
        check_choice("lax.conv_transpose", "padding", padding.upper(), ("SAME", "VALID"))
        pads = [
            _transposed_pads(reach, step, padding.upper())
            for reach, step in zip(reaches, steps, strict=True)
        ]
    if transpose_kernel:
        kernel = flip(kernel, tuple(within))
        new, old, *rest = numbers.rhs_spec
        numbers = numbers._replace(rhs_spec=(old, new, *rest))
    return conv_general_dilated(
        x,
        kernel,
        (1,) * ndim,
        pads,
        steps,
        by,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _transposed_pads(reach: int, stride: int, padding: str) -> tuple[int, int]:
    """Compute the zeros that restore the length of the input of a convolution with such padding.

    >>> _transposed_pads(3, 2, "SAME"), _transposed_pads(3, 2, "VALID")
    ((2, 1), (2, 2))
    """
    if padding == "SAME":
        total = reach + stride - 2
        before = reach - 1 if stride > reach - 1 else -(-total // 2)
    else:
        total = reach + stride - 2 + max(reach - stride, 0)
        before = reach - 1
    return before, total - before
