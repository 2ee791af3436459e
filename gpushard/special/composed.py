"""Special functions made of others."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import as_value, operands, settle
from gpushard.ops.bind import bind
from gpushard.ops.table.special import ZETA
from gpushard.special.ufuncs import binom, digamma, gamma


def zeta(x: Any, q: Any = 1, /, *, out_sharding: Any = None) -> Any:
    """Return the Hurwitz zeta function: the sum of (k + q) ** -x over k from 0.

    Args:
      x: powers, greater than 1.
      q: the first term; 1 for the Riemann zeta function.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    return settle(bind(ZETA, operands("zeta", x, q)), out_sharding)


def polygamma(n: Any, x: Any, /, *, out_sharding: Any = None) -> Any:
    """Return derivatives of `digamma`.

    Args:
      n: which, integers that are not negative.
      x: an array.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    x, n = as_value(x, "polygamma"), as_value(n, "polygamma")
    found = ew.float_power(-1.0, n + 1) * gamma(n + 1.0) * zeta(n + 1, x)
    return settle(ew.where(n == 0, digamma(x), found), out_sharding)


def comb(N: Any, k: Any, /, *, out_sharding: Any = None) -> Any:
    """Return in how many ways `k` of `N` things are chosen, as floats; 0 where there are none.

    Args:
      N: how many things there are.
      k: how many are chosen.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    N, k = as_value(N, "comb"), as_value(k, "comb")
    possible = (k <= N) & (N >= 0) & (k >= 0)
    return settle(ew.where(possible, binom(N, k), 0.0), out_sharding)


def factorial(n: Any, /, *, out_sharding: Any = None) -> Any:
    """Return factorials as floats: gamma(n + 1), and 0 for negative numbers.

    Args:
      n: an array.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    n = as_value(n, "factorial")
    return settle(ew.where(n < 0, 0.0, gamma(n + 1.0)), out_sharding)


def sinc(x: Any, /, *, out_sharding: Any = None) -> Any:
    """Return sin(pi * x) / (pi * x), and 1 for 0.

    Args:
      x: an array.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_value(x, "sinc") * np.pi
    y = ew.where(x == 0, np.finfo(x.dtype).eps, x)
    return settle(ew.sin(y) / y, out_sharding)
