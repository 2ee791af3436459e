"""What kind of number elements are; and two functions of theirs that are no ufuncs."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentTypeError
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import as_value, host_data, is_number, is_value, refuse_out, settle
from gpushard.numpy.public import public
from gpushard.ops.bind import bind
from gpushard.ops.table import elementwise as rows


@public
def iscomplex(x: Any, *, out_sharding: Any = None) -> Array:
    """Return whether each element has an imaginary part other than 0."""
    return ew.not_equal(x.imag, 0)


@public
def isreal(x: Any, *, out_sharding: Any = None) -> Array:
    """Return whether each element has no imaginary part other than 0."""
    return ew.equal(x.imag, 0)


def iscomplexobj(x: Any) -> bool:
    """Return whether the type of an array is of complex numbers.

    Args:
      x: an array.
    """
    given = x if is_value(x) or is_number(x) else host_data(x, "iscomplexobj")
    return np.iscomplexobj(given) if is_number(given) else kind_of(given.dtype) == "c"


def isrealobj(x: Any) -> bool:
    """Return whether the type of an array is of real numbers.

    Args:
      x: an array.
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Return whether it is a number; arrays without dims stand for NumPy's scalars, and are.

    Args:
      element: anything.

    >>> isscalar(2.5), isscalar(np.array(2.5)), isscalar([2.5])
    (True, False, False)
    """
    return element.ndim == 0 if is_value(element) else np.isscalar(element)


def isposinf(x: Any, out: Any = None, *, out_sharding: Any = None) -> Array:
    """Return whether each element is infinity.

    Args:
      x: an array of real numbers.
      out: must be None; results are values.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentTypeError: the array is complex.
    """
    refuse_out("isposinf", out)
    return settle(ew.equal(_real("isposinf", x), np.inf), out_sharding)


def isneginf(x: Any, out: Any = None, *, out_sharding: Any = None) -> Array:
    """Return whether each element is minus infinity.

    Args:
      x: an array of real numbers.
      out: must be None; results are values.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentTypeError: the array is complex.
    """
    refuse_out("isneginf", out)
    return settle(ew.equal(_real("isneginf", x), -np.inf), out_sharding)


def _real(name: str, x: Any) -> Any:
    x = as_value(x, name)
    if kind_of(x.dtype) == "c":
        raise ArgumentTypeError(
            f"{name} is not defined for {x.dtype}; take x.real or x.imag",
            argument="x",
            dtype=x.dtype,
        )
    return x


def fix(x: Any, out: Any = None, *, out_sharding: Any = None) -> Array:
    """Return each element without its fraction.

    Args:
      x: an array of real numbers.
      out: must be None; results are values.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    return ew.trunc(x, out, out_sharding=out_sharding)


@public
def sinc(x: Any, *, out_sharding: Any = None) -> Array:
    """Return sin(pi x) / (pi x); 1 at 0."""
    turned = x * np.pi
    zero = ew.equal(turned, 0)
    safe = bind(rows.WHERE, (zero, 1, turned))
    return bind(rows.WHERE, (zero, 1, ew.sin(safe) / safe))
