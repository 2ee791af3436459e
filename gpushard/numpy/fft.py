"""Compute Fourier transforms, under the names of `numpy.fft` and the Array API.

Several axes are transformed one after the other, in NumPy's order. If an axis to transform is
split, the array is first split along other axes instead. So each device has whole vectors along the
axis. Afterwards, the axis is split as before.

>>> import gpushard as gs
>>> sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
>>> fft2(gs.numpy.ones((8, 8), out_sharding=sharding)).sharding.spec
PartitionSpec('x')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice, integer, refuse_out
from gpushard._functions.docstrings import described, named
from gpushard._functions.element_types import number_of
from gpushard._functions.reductions import in_type
from gpushard._ops.axes import from_end, one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.table import fft as rows
from gpushard._placement.arguments import as_value, settle
from gpushard._placement.creation import place_of
from gpushard._placement.public_functions import public
from gpushard.errors import ArgumentError
from gpushard.numpy import elementwise as ew
from gpushard.numpy.manipulation import roll
from gpushard.numpy.ranges import arange

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


_HALVES = ("rfft", "ihfft")
"""Transforms whose result has n // 2 + 1 elements: one element, of no meaning, if n is 0."""

_NORMS = (None, "backward", "ortho", "forward")

_ONE = """

Args:
  a: an array.
  n: the length {counted}.
    A longer axis is cut, a shorter axis is padded with zeros. If n is None and the axis has no
    elements, the result has none, except that `rfft` and `ihfft` raise an error.
  axis: the axis.
  norm: the scaling. "backward", the default, divides inverse transforms by n. "forward" divides all
    others by n. "ortho" divides both by sqrt(n).
  out: must be None: the result is always a new array.
  out_sharding: the sharding or `PartitionSpec` of the result; gpushard chooses by default.

Raises:
  ArgumentError: the axis does not exist, the norm is unknown, or n is not positive.
"""

_MANY = """

Args:
  a: an array.
  s: the length to transform along each axis in `axes`. Longer axes are cut, shorter axes are padded
    with zeros. -1, and the default, is the length of the axis.
  axes: the axes; {axes}.
  norm: the scaling, where n is the number of elements along all axes in `axes`. "backward", the
    default, divides inverse transforms by n. "forward" divides all others by n. "ortho" divides
    both by sqrt(n).
  out: must be None: the result is always a new array.
  out_sharding: the sharding or `PartitionSpec` of the result; gpushard chooses by default.

Raises:
  ArgumentError: an axis does not exist, the norm is unknown, or a length is not positive.
"""


class One(Protocol):
    """A transform along one axis."""

    def __call__(
        self,
        a: Any,
        n: Any = None,
        axis: int = -1,
        norm: Any = None,
        out: Any = None,
        *,
        out_sharding: Any = None,
    ) -> Array:
        """Transform it."""


class Many(Protocol):
    """A transform along several axes."""

    def __call__(
        self,
        a: Any,
        s: Any = None,
        axes: Any = None,
        norm: Any = None,
        out: Any = None,
        *,
        out_sharding: Any = None,
    ) -> Array:
        """Transform them."""


def _one(name: str, row: Row, text: str, *, from_half: bool = False) -> One:
    """Make a transform along one axis."""

    def function(
        a: Any,
        n: Any = None,
        axis: int = -1,
        norm: Any = None,
        out: Any = None,
        *,
        out_sharding: Any = None,
    ) -> Array:
        refuse_out(name, out)
        x = as_value(a, name)
        at = one_from_end(axis, x.ndim, name)
        check_choice(name, "norm", norm, _NORMS)
        return settle(_along(name, row, x, n, at, norm, from_half=from_half), out_sharding)

    counted = (
        "of the result; by default 2 * length - 2"
        if from_half
        else "to transform; by default the length of the axis"
    )
    return named(function, name, text + _ONE.format(counted=counted))


def _along(
    name: str, row: Row, x: Any, n: Any, axis: int, norm: Any, *, from_half: bool = False
) -> Any:
    """Transform one dim, counted from the end."""
    size = x.shape[axis]
    default = max(2 * (size - 1), 0) if from_half else size
    length = default if n is None else integer(n, name, "n")
    empty = n is None and row.name not in _HALVES  # a transform of no elements has none either
    if length < 1 and not empty:
        raise ArgumentError(
            f"{name}: {length} elements along axis={axis} of an array of shape {x.shape} cannot "
            "be transformed; there must be at least one",
            argument="n",
            value=length,
            shape=x.shape,
        )
    return bind(row, (x,), (axis, length, norm))


def _many(
    name: str,
    every: Row,
    text: str,
    *,
    first: Row | None = None,
    last: Row | None = None,
    default: tuple[int, ...] | None = None,
) -> Many:
    """Make a transform along several axes.

    Args:
      name: the name of the function.
      every: the row for each axis, from the last to the first.
      text: the first line of its docstring.
      first: the row for the last axis instead, before the others.
      last: the row for the last axis instead, after the others.
      default: the default of `axes`; None for all.
    """

    def function(
        a: Any,
        s: Any = None,
        axes: Any = default,
        norm: Any = None,
        out: Any = None,
        *,
        out_sharding: Any = None,
    ) -> Array:
        refuse_out(name, out)
        x = as_value(a, name)
        check_choice(name, "norm", norm, _NORMS)
        lengths, dims = _dims(name, x, s, axes)
        steps = [(every, axis, n) for axis, n in zip(dims, lengths, strict=True)]
        if (ends := first or last) is not None:
            steps[-1:] = [(ends, *step[1:]) for step in steps[-1:]]
        for row, axis, n in steps if last else steps[::-1]:
            x = _along(name, row, x, n, axis, norm, from_half=row is last)
        return settle(x, out_sharding)

    known = "all by default" if default is None else "the last two by default"
    return named(function, name, text + _MANY.format(axes=known))


def _dims(name: str, x: Any, s: Any, axes: Any) -> tuple[Sequence[Any], tuple[int, ...]]:
    """Return the lengths, None for the length of a dim, and the dims, counted from the end."""
    sizes = None if s is None else tuple(s) if isinstance(s, tuple | list) else (s,)
    if axes is None:
        dims = tuple(range(-x.ndim if sizes is None else -len(sizes), 0))
    else:
        dims = tuple(axes) if isinstance(axes, tuple | list) else (axes,)
    ends = from_end(dims, x.ndim, name, "axes")
    if sizes is not None and len(sizes) != len(ends):
        raise ArgumentError(
            f"{name}: s={s} has {len(sizes)} lengths, and axes={axes} names {len(ends)}; "
            "give one length for each axis",
            argument="s",
            s=s,
            axes=axes,
        )
    if not ends and not x.ndim:
        raise ArgumentError(
            f"{name}: an array without axes cannot be transformed", argument="x", shape=x.shape
        )
    return [None if n is None or n == -1 else n for n in sizes or (None,) * len(ends)], ends


fft = _one("fft", rows.FFT, "Compute the discrete Fourier transform along an axis.")
ifft = _one("ifft", rows.IFFT, "Compute the inverse of `fft`.")
rfft = _one(
    "rfft",
    rows.RFFT,
    "Compute the discrete Fourier transform of real numbers along an axis; keep n // 2 + 1.",
)
irfft = _one("irfft", rows.IRFFT, "Compute the inverse of `rfft`: real numbers.", from_half=True)
hfft = _one(
    "hfft",
    rows.HFFT,
    "Compute the transform of Hermitian-symmetric numbers, from their first half: real numbers.",
    from_half=True,
)
ihfft = _one("ihfft", rows.IHFFT, "Compute the inverse of `hfft`: the first half of the numbers.")
fftn = _many("fftn", rows.FFT, "Compute the discrete Fourier transform along several axes.")
ifftn = _many("ifftn", rows.IFFT, "Compute the inverse of `fftn`.")
rfftn = _many(
    "rfftn",
    rows.FFT,
    "Compute the transform of real numbers along several axes; keep the first half of the last.",
    first=rows.RFFT,
)
irfftn = _many(
    "irfftn", rows.IFFT, "Compute the inverse of `rfftn`: real numbers.", last=rows.IRFFT
)
fft2 = _many(
    "fft2", rows.FFT, "Compute the discrete Fourier transform along two axes.", default=(-2, -1)
)
ifft2 = _many("ifft2", rows.IFFT, "Compute the inverse of `fft2`.", default=(-2, -1))
rfft2 = _many(
    "rfft2",
    rows.FFT,
    "Compute the transform of real numbers along two axes; keep the first half of the last.",
    first=rows.RFFT,
    default=(-2, -1),
)
irfft2 = _many(
    "irfft2",
    rows.IFFT,
    "Compute the inverse of `rfft2`: real numbers.",
    last=rows.IRFFT,
    default=(-2, -1),
)

_frequencies = described(
    device="a device or a sharding for the array; by default the one for new arrays.",
    out_sharding="another name of `device`.",
)


@_frequencies
def fftfreq(
    n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None, out_sharding: Any = None
) -> Array:
    """Create the frequencies of the elements of `fft`: 0, positive ones, then negative ones.

    Args:
      n: the number of elements that are transformed.
      d: the distance between these elements, in time or space.
      dtype: the dtype; float64 by default.

    Raises:
      ArgumentError: `n` is not positive.

    >>> fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float64)
    """
    length, unit = _unit("fftfreq", n, d)
    place = place_of(device, out_sharding)
    at = arange(length, out_sharding=place)
    signed = ew.where(at < (length + 1) // 2, at, at - length)
    return settle(in_type(signed * unit, dtype), None if place is None else at.sharding)


@_frequencies
def rfftfreq(
    n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None, out_sharding: Any = None
) -> Array:
    """Create the frequencies of the elements of `rfft`, ascending from 0.

    Args:
      n: the number of elements that are transformed.
      d: the distance between these elements, in time or space.
      dtype: the dtype; float64 by default.

    Raises:
      ArgumentError: `n` is not positive.

    >>> rfftfreq(4)
    Array([0.  , 0.25, 0.5 ], dtype=float64)
    """
    length, unit = _unit("rfftfreq", n, d)
    place = place_of(device, out_sharding)
    at = arange(length // 2 + 1, out_sharding=place)
    return settle(in_type(at * unit, dtype), None if place is None else at.sharding)


def _unit(name: str, n: Any, d: Any) -> tuple[int, float]:
    """Return the length, and the frequency of element 1."""
    length = integer(n, name, "n")
    distance = float(number_of(d, np.dtype(np.float64), name, "d"))
    if length < 1 or not distance:
        raise ArgumentError.refusing("n", length, f"must be positive, and d={d} not 0", name, d=d)
    return length, 1.0 / (length * distance)


@public
def fftshift(x: Any, axes: Any = None, *, out_sharding: Any = None) -> Array:
    """Move the zero frequency from the first position to the middle.

    Args:
      axes: the axes, an integer or a tuple of integers; all by default.
    """
    dims = from_end(axes, x.ndim, "fftshift", "axes")
    shifts = tuple(x.shape[dim] // 2 for dim in dims)
    return roll(x, shifts, dims)


@public
def ifftshift(x: Any, axes: Any = None, *, out_sharding: Any = None) -> Array:
    """Move the zero frequency from the middle to the first position.

    Args:
      axes: the axes, an integer or a tuple of integers; all by default.
    """
    dims = from_end(axes, x.ndim, "ifftshift", "axes")
    shifts = tuple(-(x.shape[dim] // 2) for dim in dims)
    return roll(x, shifts, dims)


def __dir__() -> list[str]:
    return sorted(__all__)
