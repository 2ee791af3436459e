"""Tests whether arrays are equal, exactly or nearly, and which kind of numbers they have."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import refuse_out
from gpushard._functions.docstrings import described
from gpushard._functions.host_reads import concrete
from gpushard._functions.shapes import broadcast
from gpushard._functions.values import is_traced, is_value
from gpushard._ops.scalars import is_number
from gpushard._placement.arguments import host_data
from gpushard._placement.public_functions import public
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentTypeError
from gpushard.numpy import elementwise as ew

__all__ = [
    "allclose", "array_equal", "array_equiv", "isclose", "iscomplex", "iscomplexobj",
    "isneginf", "isposinf", "isreal", "isrealobj", "isscalar",
]  # fmt: skip


@public(operands=2)
def isclose(
    a: Any,
    b: Any,
    rtol: Any = 1e-5,
    atol: Any = 1e-8,
    equal_nan: bool = False,
    *,
    out_sharding: Any = None,
) -> Array:
    """Test whether elements differ by at most `atol + rtol * abs(b)`.

    Args:
      rtol: the relative tolerance, a factor of abs(b).
      atol: the absolute tolerance.
      equal_nan: whether two NaNs count as close.
    """
    if isinstance(b, int):  # differences of integers may not fit their type
        b = float(b)
    elif not isinstance(b, float | complex) and kind_of(b.dtype) in "biu":
        b = ew.add(b, 0.0)
    near = ew.less_equal(ew.abs(ew.subtract(a, b)), atol + rtol * ew.abs(b))
    near = (near & ew.isfinite(b)) | ew.equal(a, b)
    return near | (ew.isnan(a) & ew.isnan(b)) if equal_nan else near


def _on_host(x1: Any, x2: Any, *numbers: Any) -> bool:
    """Whether arrays are compared on the host, as they are not in memory of the same devices.

    One of the arrays would have to move anyway.
    """
    if any(map(is_traced, (x1, x2, *numbers))):
        return False
    if not (isinstance(x1, Array) and isinstance(x2, Array)):
        return True
    first, second = x1.sharding, x2.sharding
    on_devices = first.memory_kind == second.memory_kind == "device"
    return not on_devices or first.device_set != second.device_set


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool | Array:
    """Test whether two arrays have the same shape and equal elements.

    Arrays on the same devices are compared there; other arrays are compared on the host.

    Args:
      a1: an array.
      a2: an array.
      equal_nan: whether two NaNs count as equal.

    Returns:
      A bool; in a traced or mapped function a scalar array.
    """
    if _on_host(a1, a2):
        return bool(np.array_equal(np.asarray(a1), np.asarray(a2), equal_nan=equal_nan))
    x1, x2 = (x if is_value(x) else host_data(x, "array_equal") for x in (a1, a2))
    if x1.shape != x2.shape:
        return False
    same = ew.equal(x1, x2)
    if equal_nan:
        same = same | (ew.isnan(x1) & ew.isnan(x2))
    return _known(same.all(), "array_equal")


def array_equiv(a1: Any, a2: Any) -> bool | Array:
    """Test whether two arrays broadcast to a common shape, with equal elements.

    Args:
      a1: an array.
      a2: an array.

    Returns:
      A bool; in a traced or mapped function a scalar array.
    """
    if _on_host(a1, a2):
        return bool(np.array_equiv(np.asarray(a1), np.asarray(a2)))
    x1, x2 = (x if is_value(x) else host_data(x, "array_equiv") for x in (a1, a2))
    try:
        np.broadcast_shapes(x1.shape, x2.shape)
    except ValueError:
        return False
    return _known(ew.equal(x1, x2).all(), "array_equiv")


@described()
def allclose(
    a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> bool | Array:
    """Test whether all elements differ by at most `atol + rtol * abs(b)`.

    Arrays on the same devices are compared there. An array is compared with a number on its
    devices. Other arrays are compared on the host.

    Args:
      rtol: the relative tolerance, a factor of abs(b).
      atol: the absolute tolerance.
      equal_nan: whether two NaNs count as close.

    Returns:
      A bool; in a traced or mapped function a scalar array.
    """
    x, number = (a, b) if is_number(b) else (b, a)
    if not (isinstance(x, Array) and is_number(number)) and _on_host(a, b, rtol, atol):
        x1, x2, r, t = (x if is_number(x) else host_data(x, "allclose") for x in (a, b, rtol, atol))
        broadcast("allclose", [np.shape(x) for x in (x1, x2, r, t)])
        return bool(np.allclose(x1, x2, r, t, equal_nan))
    return _known(isclose(a, b, rtol, atol, equal_nan).all(), "allclose")


def _known(holds: Any, name: str) -> bool | Array:
    """Convert an answer to a bool unless it is traced."""
    return holds if is_traced(holds) else bool(concrete(holds, name, explicit=False))


@public
def iscomplex(x: Any, *, out_sharding: Any = None) -> Array:
    """Test whether each element has an imaginary part other than 0."""
    return ew.not_equal(x.imag, 0)


@public
def isreal(x: Any, *, out_sharding: Any = None) -> Array:
    """Test whether the imaginary part of each element is 0."""
    return ew.equal(x.imag, 0)


@described()
def iscomplexobj(x: Any) -> bool:
    """Test whether the dtype of an array is complex."""
    data = x if is_value(x) or is_number(x) else host_data(x, "iscomplexobj")
    return np.iscomplexobj(data) if is_number(data) else kind_of(data.dtype) == "c"


@described()
def isrealobj(x: Any) -> bool:
    """Test whether the dtype of an array is real."""
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Test whether an object is a number; an array without axes counts as one.

    Args:
      element: anything.

    >>> isscalar(2.5), isscalar(np.array(2.5)), isscalar([2.5])
    (True, False, False)
    """
    return element.ndim == 0 if is_value(element) else np.isscalar(element)


@public
def isposinf(x: Any, out: Any = None, *, out_sharding: Any = None) -> Array:
    """Test whether each element is infinity.

    Args:
      x: an array of real numbers.

    Raises:
      ArgumentTypeError: the array is complex.
    """
    refuse_out("isposinf", out)
    return ew.equal(_real("isposinf", x), np.inf)


@public
def isneginf(x: Any, out: Any = None, *, out_sharding: Any = None) -> Array:
    """Test whether each element is minus infinity.

    Args:
      x: an array of real numbers.

    Raises:
      ArgumentTypeError: the array is complex.
    """
    refuse_out("isneginf", out)
    return ew.equal(_real("isneginf", x), -np.inf)


def _real(name: str, x: Any) -> Any:
    if kind_of(x.dtype) == "c":
        raise ArgumentTypeError(
            f"{name} is not defined for {x.dtype}; take x.real or x.imag",
            argument="x",
            dtype=x.dtype,
        )
    return x
