"""NumPy's ufuncs on the host, without a defect of some.

NumPy 2.4 leaves elements of `out` unwritten where `isfinite`, `isinf`, `isnan` or `signbit` of
single or double precision write 16 elements or more at a distance other than that of neighbours.
`negative` writes wrong numbers there if it also reads every fourth or eighth element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

INCOMPLETE: frozenset[np.ufunc] = frozenset(
    {np.isfinite, np.isinf, np.isnan, np.negative, np.signbit}
)
"""Ufuncs of NumPy that may leave elements of a strided `out` unwritten, or write wrong ones."""


def host_ufunc(ufunc: np.ufunc) -> Callable[..., Any]:
    """Give a function like a ufunc that writes every element of `out`, however that lies.

    Args:
      ufunc: NumPy's, or another library's.

    Returns:
      The ufunc itself, unless it is one of `INCOMPLETE`. Then a function of its operands and `out`.

    >>> out = np.zeros((66, 2), bool)[:, 0]
    >>> host_ufunc(np.isfinite)(np.ones(66), out=out).all()
    np.True_
    >>> host_ufunc(np.add) is np.add
    True
    """
    return _COMPLETE.get(ufunc, ufunc)


def without_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the ufunc behind a function of `host_ufunc`, for calls that give no `out`.

    Without `out` the ufunc is right, and a call in Python less.

    >>> without_out(host_ufunc(np.isfinite)) is without_out(np.isfinite) is np.isfinite
    True
    """
    return next((u for u, complete in _COMPLETE.items() if complete is function), function)


def _complete(ufunc: np.ufunc) -> Callable[..., Any]:
    """Let a ufunc write its results to memory of its own where `out` is not contiguous."""

    def call(*operands: Any, out: Any = None) -> Any:
        target = out[0] if isinstance(out, tuple) else out
        if target is None or target.flags.c_contiguous:
            return ufunc(*operands, out=target)
        target[...] = ufunc(*operands)
        return target

    call.__name__ = ufunc.__name__
    return call


_COMPLETE: dict[np.ufunc, Callable[..., Any]] = {ufunc: _complete(ufunc) for ufunc in INCOMPLETE}
