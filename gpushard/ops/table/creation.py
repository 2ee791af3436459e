"""Operations that make arrays of no others, and those whose elements depend on their position.

The kernels of rows without operands take a `Site` and then numbers; parameters: (shape, dtype).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpushard import dtypes
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.row import Kernel, Params, Row, Site
from gpushard.ops.rule import Rule
from gpushard.ops.table.elementwise import writing


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = params[0]
    return Rule((), (tuple(range(len(shape))),), shape)


def _infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    return (Aval(*params),)


def _row(name: str, make: Callable[[Any, Dtype], Callable[..., None]]) -> Row:
    """Return the row of an operation without operands.

    Args:
      name: what users call it.
      make: takes the namespace and the dtype; gives what writes into the block of a site, given
        the block, the site and numbers.
    """

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        dtype: Dtype = params[1]
        write = make(xp, dtype)

        def fill(site: Site, *numbers: Any, out: Any = None) -> Any:
            block = xp.empty(site.shape, dtype) if out is None else out
            write(block, site, *numbers)
            return block

        return fill

    return Row(name, _infer, _rule, kernel, positional=True)


def _full(xp: Any, dtype: Dtype) -> Callable[..., None]:
    def full(block: Any, site: Site, value: Any) -> None:
        block[...] = value

    return full


_PIECE = 1 << 15
"""Elements that are worked out at a time on the host, so that what that takes stays in cache."""


@functools.cache
def _exact(dtype: Dtype) -> int:
    """Return up to where a type has all integers; 0 for types of others than NumPy."""
    if dtypes.is_custom(dtype):
        return 0
    return 2 ** np.finfo(dtype).nmant if dtype.kind == "f" else int(np.iinfo(dtype).max)


def _counted(xp: Any, site: Site, dtype: Dtype) -> Iterator[tuple[slice, Any]]:
    """Yield parts of the block of a vector, with the positions of their elements in the whole.

    Args:
      xp: the namespace.
      site: of the block.
      dtype: of the positions; integers may wrap around.
    """
    (start,), (n,) = site.result, site.shape
    step = _PIECE if xp is np else max(n, 1)
    if start + n <= _exact(dtype):
        first = xp.arange(min(n, step), dtype=dtype)
    else:
        first = xp.arange(min(n, step)).astype(np.int64 if dtype.kind == "f" else dtype, copy=False)
    if n <= step and not start:
        yield slice(None), first.astype(dtype, copy=False)
        return
    for low in range(0, n, step):
        part = slice(low, min(low + step, n))
        at = first[: part.stop - low] + np.int64(start + low).astype(first.dtype)
        yield part, at.astype(dtype, copy=False)


def _put(block: Any, site: Site, position: int, value: Any) -> None:
    """Set an element of a vector, if it is in the block."""
    at = position - site.result[0]
    if 0 <= at < site.shape[0]:
        block[at] = value


def _arange(xp: Any, dtype: Dtype) -> Callable[..., None]:
    """Return what counts as NumPy does, to the bit.

    NumPy works out the first two elements, takes their difference in the dtype for the step, and
    adds multiples of it to the first: in that dtype, narrow floats in single precision. Integers
    wrap around.
    """
    wide = np.dtype(np.int64) if dtype.kind == "b" else dtypes.wide(dtype)
    part_of = wide.type(0).real.dtype

    def arange(block: Any, site: Site, first: Any, second: Any) -> None:
        start = wide.type(first)
        delta = wide.type(second) - start
        if dtype.kind in "iu":
            _count(xp, block, site.result[0], int(start), int(delta))
            return
        for part, at in _counted(xp, site, part_of):
            if wide.kind == "c":  # parts are counted on their own
                block.real[part] = start.real + at * delta.real
                block.imag[part] = start.imag + at * delta.imag
                continue
            if delta != 1:
                at *= delta
            if start:
                at += start
            block[part] = at
        _put(block, site, 0, first)  # what is rounded may be other than these
        _put(block, site, 1, second)

    return arange


def _count(xp: Any, block: Any, position: int, start: int, delta: int) -> None:
    """Write integers at equal distances, which wrap around, from a position on."""
    (n,), dtype = block.shape, block.dtype
    step = _PIECE if xp is np else max(n, 1)
    count = min(n, step)
    if count <= _exact(dtype):
        first = xp.arange(count, dtype=dtype)
    else:
        first = xp.arange(count).astype(dtype)
    if delta != 1:
        first *= _wrapped(delta, dtype)
    for low in range(0, n, step):
        part, begin = block[low : low + step], start + (position + low) * delta
        if begin:
            xp.add(first[: len(part)], _wrapped(begin, dtype), out=part)
        else:
            part[...] = first


def _wrapped(number: int, dtype: Dtype) -> Any:
    """Return an integer as a type has it whose bits are not enough."""
    return np.uint64(number % (1 << 64)).astype(dtype)


def _linspace(xp: Any, dtype: Dtype) -> Callable[..., None]:
    """Return what spaces evenly as NumPy does, to the bit.

    Every number is of the type that it works in; the dtype is that of the result.
    """

    def linspace(
        block: Any, site: Site, start: Any, stop: Any, delta: Any, step: Any, div: int, last: int
    ) -> None:
        for part, at in _counted(xp, site, start.real.dtype):
            values = at.astype(start.dtype, copy=False)
            if div > 0 and step == 0:  # of denormal numbers
                values = values / start.dtype.type(div) * delta
            else:
                values *= step if div > 0 else delta
            values += start
            block[part] = xp.floor(values) if dtype.kind in "iu" else values
        _put(block, site, last, np.floor(stop) if dtype.kind in "iu" else stop)

    return linspace


def _eye(xp: Any, dtype: Dtype) -> Callable[..., None]:
    def eye(block: Any, site: Site, k: int) -> None:
        block[...] = 0
        right = site.result[0] + k - site.result[1]  # how far the diagonal is from the block's own
        rows, columns = site.shape
        first, last = max(0, -right), min(rows, columns - right)
        if first < last:  # blocks are dense: a step down and to the right is one of a fixed length
            along = slice(first * columns + first + right, last * columns, columns + 1)
            block.ravel()[along] = 1

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
            (row, column), (rows, columns) = site.result[-2:], site.shape[-2:]
            row += params[0]
            corners = [
                keeps(at, over)
                for at in (row, row + rows - 1)
                for over in (column, column + columns - 1)
            ]
            if all(corners):
                return x.copy()
            if not any(corners):
                return xp.zeros_like(x)
            at = xp.arange(row, row + rows)
            return xp.where(keeps(at[:, None], xp.arange(column, column + columns)), x, zero)

        return writing(part)

    return Row(name, infer, rule_of, kernel, positional=True)


TRIL = _part_row("tril", lambda rows, columns: rows >= columns)
TRIU = _part_row("triu", lambda rows, columns: rows <= columns)
