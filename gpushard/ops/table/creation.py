"""Operations that make arrays of no others, and those whose elements depend on their position.

The kernels of rows without operands take a `Site` and then numbers; parameters: (shape, dtype).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.row import Kernel, Params, Row, Site
from gpushard.ops.rule import Rule
from gpushard.ops.table.elementwise import writing


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = params[0]
    return Rule((), (tuple(range(len(shape))),), shape)


def _infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    return (Aval(*params),)


def _row(name: str, make: Callable[[Any, Dtype], Callable[..., Any]]) -> Row:
    """Return the row of an operation without operands.

    Args:
      name: what users call it.
      make: takes the namespace and the dtype; gives the function of a site and numbers.
    """

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        return writing(make(xp, params[1]))

    return Row(name, _infer, _rule, kernel, positional=True)


def _full(xp: Any, dtype: Dtype) -> Callable[..., Any]:
    return lambda site, value: xp.full(site.shape, value, dtype)


def _positions(xp: Any, site: Site, dim: int = -1) -> Any:
    """Return the positions along a dim of the block in the whole array."""
    start = site.result[dim]
    return xp.arange(start, start + site.shape[dim], dtype=np.int64)


def _arange(xp: Any, dtype: Dtype) -> Callable[..., Any]:
    """Return what counts as NumPy does, to the bit.

    NumPy works out the first two elements, takes their difference in the dtype for the step, and
    adds multiples of it to the first: in that dtype, half precision in single precision. Small
    integers wrap around.
    """
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    if dtype.kind in "iub":
        wide = np.dtype(np.uint64 if dtype == np.uint64 else np.int64)

    def arange(site: Site, first: Any, second: Any) -> Any:
        at = _positions(xp, site)
        start = wide.type(first)
        delta = wide.type(second) - start
        if dtype.kind == "c":  # parts are counted on their own
            values = xp.empty(at.shape, dtype)
            part = values.real.dtype
            values.real = start.real + at.astype(part) * delta.real
            values.imag = start.imag + at.astype(part) * delta.imag
        else:
            values = (start + at.astype(wide) * delta).astype(dtype)
        values[at == 0] = first
        values[at == 1] = second
        return values

    return arange


def _linspace(xp: Any, dtype: Dtype) -> Callable[..., Any]:
    """Return what spaces evenly as NumPy does, to the bit.

    Every number is of the type that it works in; the dtype is that of the result.
    """

    def linspace(
        site: Site, start: Any, stop: Any, delta: Any, step: Any, div: int, last: int
    ) -> Any:
        at = _positions(xp, site)
        values = at.astype(start.dtype)
        if div > 0 and step == 0:  # of denormal numbers
            values = values / start.dtype.type(div) * delta
        else:
            values = values * (step if div > 0 else delta)
        values = values + start
        values[at == last] = stop
        return (xp.floor(values) if dtype.kind in "iu" else values).astype(dtype)

    return linspace


def _eye(xp: Any, dtype: Dtype) -> Callable[..., Any]:
    def eye(site: Site, k: int) -> Any:
        rows, columns = _positions(xp, site, -2), _positions(xp, site)
        return (rows[:, None] + k == columns).astype(dtype)

    return eye


FULL = _row("full", _full)
"""Number: the value."""
ARANGE = _row("arange", _arange)
"""Numbers: the first and the second element."""
LINSPACE = _row("linspace", _linspace)
"""Numbers: start, stop, their difference, the step, the number of steps, the position of `stop`."""
EYE = _row("eye", _eye)
"""Number: which diagonal."""


def _part_row(name: str, keeps: Callable[[Any, Any], Any]) -> Row:
    """Return the row of a function that keeps a part of matrices; parameters: (diagonal,).

    Args:
      name: what users call it.
      keeps: takes the numbers of rows, moved by the diagonal, and of columns.
    """

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        return (Aval(avals[0].shape, avals[0].dtype),)

    def rule_of(avals: Sequence[Aval], params: Params) -> Rule:
        dims = tuple(range(len(avals[0].shape)))
        return Rule((dims,), (dims,), avals[0].shape)

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        zero = avals[0].dtype.type(0)

        def part(site: Site, x: Any) -> Any:
            rows, columns = _positions(xp, site, -2), _positions(xp, site)
            return xp.where(keeps(rows[:, None] + params[0], columns), x, zero)

        return writing(part)

    return Row(name, infer, rule_of, kernel, positional=True)


TRIL = _part_row("tril", lambda rows, columns: rows >= columns)
TRIU = _part_row("triu", lambda rows, columns: rows <= columns)
