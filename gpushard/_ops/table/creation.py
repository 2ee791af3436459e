"""Operations that create arrays, and operations that depend on the position of elements.

The kernels of rows without operands take a `Site` and then numbers; parameters: (shape, dtype,
whether the place is committed).
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import dtypes
from gpushard._ops import rule
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.host_where import BITS
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, Site, broadcasting, by_factors
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard._runtime.namespace import own_kernels
from gpushard._runtime.work_sharing import share


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = params[0]
    return Rule((), (tuple(range(len(shape))),), shape)


_infer = by_factors(_rule, lambda avals, params: params[1])


def _row(name: str, make: Callable[[Any, Dtype], Callable[..., None]]) -> Row:
    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        dtype: Dtype = params[1]
        write = make(xp, dtype)

        def fill(site: Site, *numbers: Any, out: Any = None) -> Any:
            block = xp.empty(site.shape, dtype) if out is None else out
            write(block, site, *numbers)
            return block

        return fill

    return Row(name, _infer, _rule, kernel, (Local(),), creates=True, positional=True)


def _full(xp: Any, dtype: Dtype) -> Callable[..., None]:
    return lambda block, site, value: _set(xp, block, value)


def _set(xp: Any, block: Any, value: Any) -> None:
    """Set all elements of a dense block."""
    if xp is np or value != 0 or not np.any(np.signbit([value.real, value.imag])):
        block[...] = value
        return
    # CuPy's `fill` drops the sign of zeros: fill their bits, complex numbers in two words.
    word = np.dtype(f"u{min(8, block.itemsize)}")
    words = np.array([value], block.dtype).view(word)
    for n, bits in enumerate(words):
        block.reshape(-1).view(word)[n :: len(words)] = bits


_PIECE = 1 << 15
"""Elements per piece on the host, so temporary arrays stay in cache."""

_PIECES = 4
"""The least pieces per thread if other threads help, since each thread needs its own memory."""

_MOST_THREADS = 8  # the most threads for one block
_ROW = 1 << 12
"""Integers that are counted one by one; later ones add a number to these, in one call."""


@functools.lru_cache(maxsize=256)
def _exact(dtype: Dtype) -> int:
    """Return the largest integer up to which a type of NumPy's has all integers."""
    return 2 ** np.finfo(dtype).nmant if dtype.kind == "f" else int(np.iinfo(dtype).max)


def _fill(xp: Any, block: Any, site: Site, dtype: Dtype, values_at: Callable[[Any], Any]) -> None:
    """Write a block of a vector; idle threads help."""
    (start,), (n,) = site.result, site.shape
    size = _PIECE if xp is np else n
    exact = start + n <= _exact(dtype)
    first = xp.arange(min(n, size), dtype=dtype if exact or dtype.kind != "f" else np.int64)
    if n <= size:
        at = first + first.dtype.type(start) if start else first
        block[...] = values_at(at.astype(dtype, copy=False))
        return
    left = deque(range(0, n, size))

    def work() -> None:
        scratch = None if block.dtype == dtype else xp.empty(first.shape, dtype)
        while left:
            try:
                low = left.popleft()
            except IndexError:  # another thread took the last one
                return
            target = block[low : low + size]
            at = target if scratch is None else scratch[: len(target)]
            xp.add(first[: len(target)], first.dtype.type(start + low), out=at)
            values = values_at(at)
            if values is not target:
                target[...] = values

    share([work] * min(_MOST_THREADS, max(1, len(left) // _PIECES)))


def _put(xp: Any, block: Any, site: Site, position: int, value: Any) -> None:
    """Set an element of a vector if it is in the block."""
    at = position - site.result[0]
    if 0 <= at < site.shape[0]:
        _set(xp, block[at : at + 1], value)


def _arange(xp: Any, dtype: Dtype) -> Callable[..., None]:
    """Make the kernel of `arange`, equal to NumPy's to the bit.

    NumPy computes the first two elements and takes their difference in the dtype as the step. It
    adds multiples of the step to the first element: in that dtype, narrow floats in single
    precision. Integers wrap around.
    """
    wide = np.dtype(np.int64) if dtype.kind == "b" else dtypes.wide(dtype)
    part_of = wide.type(0).real.dtype
    kernels = own_kernels(xp) if dtype.isbuiltin == 1 and dtype.kind != "c" else None

    def arange(block: Any, site: Site, first: Any, second: Any) -> None:
        start = wide.type(first)
        delta = wide.type(second) - start
        if kernels is not None:
            work = np.dtype(np.uint64) if dtype.kind in "iu" else wide
            begin, step = start, delta
            if dtype.kind in "iu":
                begin, step = (_wrap_around(int(n), work) for n in (start, delta))
            ends = [dtype.type(first), dtype.type(second)]
            kernels.arange(block, site.result[0], begin, step, ends)
            return
        if dtype.kind in "iu":
            _count(xp, block, site.result[0], int(start), int(delta))
            return

        def values_at(at: Any) -> Any:
            if wide.kind == "c":  # real and imaginary parts separately
                values = xp.empty(at.shape, wide)
                values.real = start.real + at * delta.real
                values.imag = start.imag + at * delta.imag
                return values
            if delta != 1:
                at *= delta
            if start:
                at += start
            return at

        _fill(xp, block, site, part_of, values_at)
        _put(xp, block, site, 0, first)  # rounded values may differ from these
        _put(xp, block, site, 1, second)

    return arange


def _count(xp: Any, block: Any, position: int, start: int, delta: int) -> None:
    """Write integers at equal distances from a position on; they wrap around."""
    (n,), dtype = block.shape, block.dtype
    width = min(n, _ROW if xp is np else n) or 1
    rows, done = n // width, n - n % width
    begin = start + position * delta

    def counted(count: int, distance: int) -> Any:
        first = xp.arange(count, dtype=dtype if count <= _exact(dtype) else None)
        first = first.astype(dtype, copy=False)
        return first if distance == 1 else first * _wrap_around(distance, dtype)

    first = counted(width, delta)
    if rows > 1:
        begins = counted(rows, width * delta)
        if begin:
            begins += _wrap_around(begin, dtype)
        xp.add(begins[:, None], first, out=block[:done].reshape(rows, width))
    elif rows and begin:
        xp.add(first, _wrap_around(begin, dtype), out=block[:done])
    elif rows:
        block[:done] = first
    if done < n:
        xp.add(first[: n - done], _wrap_around(begin + done * delta, dtype), out=block[done:])


def _wrap_around(number: int, dtype: Dtype) -> Any:
    """Wrap an integer around to fit a type."""
    if 0 <= number <= _exact(dtype):
        return dtype.type(number)
    return np.uint64(number % (1 << 64)).astype(dtype)


def _linspace(xp: Any, dtype: Dtype) -> Callable[..., None]:
    """Make the kernel of `linspace`, equal to NumPy's to the bit.

    Every number has the working type; the dtype is that of the result.
    """
    kernels = own_kernels(xp) if dtype.isbuiltin == 1 and dtype.kind != "c" else None

    def linspace(
        block: Any, site: Site, start: Any, stop: Any, delta: Any, step: Any, div: int, last: int
    ) -> None:
        if kernels is not None and start.dtype.kind == "f":
            kernels.linspace(block, site.result[0], (start, stop, delta, step), div, last)
            return
        # What is added to other numbers than -0.0 may be nothing.
        from_zero = start.dtype.kind == "f" and start == 0 < stop

        def values_at(at: Any) -> Any:
            values = at.astype(start.dtype, copy=False)
            if div > 0 and step == 0:  # for denormal numbers
                values = values / start.dtype.type(div) * delta
            else:
                values *= step if div > 0 else delta
            if not from_zero:
                values += start
            return xp.floor(values) if dtype.kind in "iu" else values

        _fill(xp, block, site, start.real.dtype, values_at)
        _put(xp, block, site, last, np.floor(stop) if dtype.kind in "iu" else stop)

    return linspace


def _eye(xp: Any, dtype: Dtype) -> Callable[..., None]:
    kernels = own_kernels(xp) if dtype.isbuiltin == 1 else None

    def eye(block: Any, site: Site, k: int) -> None:
        right = (
            site.result[0] + k - site.result[1]
        )  # offset of the diagonal from the block's diagonal
        if kernels is not None:
            kernels.eye(block, right)
            return
        block[...] = 0
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


_STRIP = 1 << 17
"""Elements of rows that are cut together, in a few calls: at each, threads wait for one another."""

_NARROW = 64  # matrices of fewer columns are cut by a mask of all of them
_SQUARE = 512  # at most so many rows of them: between what is kept and what is not lies a square
_WIDE = 4  # rows that are not so many times wider than the square take one call, as the square does


@functools.lru_cache(maxsize=64)
def _edge(part: str, itemsize: int) -> Any:
    """Return bits that are set on the "left" of the middle or on its "right", and where that is."""
    half = (_WIDE + 2) * _SQUARE
    left = np.repeat(np.array([-1, 0], BITS.get(itemsize, np.int8)), half)
    return (left if part == "left" else ~left), half


def _cut_square(x: Any, edge: int, part: str, out: Any) -> None:
    """Write a triangle of matrices in one call: each row of the mask is the one above, shifted."""
    bits, middle = _edge(part, x.dtype.itemsize)
    item = bits.itemsize
    in_part = np.ndarray(x.shape[-2:], bits.dtype, bits, (middle - edge) * item, (-item, item))
    if item == x.dtype.itemsize:
        np.bitwise_and(x.view(bits.dtype), in_part, out=out.view(bits.dtype))
    else:
        out[...] = np.where(in_part, x, np.zeros((), x.dtype))


def _cut_rows(x: Any, edge: int, part: str, out: Any) -> None:
    """Write a triangle of matrices, and zeros elsewhere, on the host."""
    rows, columns = x.shape[-2:]
    top = min(max(1 - edge, 0), rows)  # rows above have nothing on the left, those below all
    bottom = min(max(columns - edge, top), rows)
    zero = np.zeros((), x.dtype)

    def write(low: int, high: int, left: int, right: int) -> None:
        source, target = x[..., low:high, :], out[..., low:high, :]
        for at, name in ((slice(0, left), "left"), (slice(right, columns), "right")):
            if low < high and at.start != at.stop:
                target[..., at] = source[..., at] if name == part else zero
        if left < right:
            cut = source[..., left:right], edge + low - left, part, target[..., left:right]
            _cut_square(*cut)

    write(0, top, 0, 0)
    height = min(max(_STRIP // columns, 1), _SQUARE)
    for low in range(top, bottom, height):
        high = min(low + height, bottom)
        left, right = edge + low, min(edge + high - 1, columns)
        wide = columns > _WIDE * (right - left)
        write(low, high, left if wide else 0, right if wide else columns)
    write(bottom, rows, columns, columns)


def _part_row(name: str, part: str) -> Row:
    """Make the row of a function that keeps a triangle of matrices; parameters: (diagonal,)."""

    def rule_of(avals: Sequence[Aval], params: Params) -> Rule:
        return rule.elementwise([avals[0].shape], avals[0].shape)

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        zero = avals[0].dtype.type(0)
        kernels: Any = own_kernels(xp) if avals[0].dtype.isbuiltin == 1 else None

        def edge_of(site: Site) -> int:
            row, column = site.result[-2:]
            return row - column + int(params[0]) + (part == "left")

        def small(site: Site, x: Any) -> Any:
            rows, columns = site.shape[-2:]
            first = edge_of(site)
            on_left = xp.arange(columns) < xp.arange(first, first + rows)[:, None]
            return xp.where(on_left if part == "left" else ~on_left, x, zero)

        def cut(site: Site, x: Any, out: Any = None) -> Any:
            result = xp.empty(x.shape, x.dtype) if out is None else out
            if kernels is None:
                _cut_rows(x, edge_of(site), part, result)
            else:
                kernels.triangle(x, edge_of(site), part, result)
            return result

        whole = writing(small)

        def kept(site: Site, x: Any, out: Any = None) -> Any:
            wide = kernels is not None or (xp is np and site.shape[-1] > _NARROW)
            return (cut if wide else whole)(site, x, out=out)

        return kept

    infer = by_factors(rule_of, lambda avals, params: avals[0].dtype)
    return Row(name, infer, rule_of, kernel, (Local(),), positional=True, stacked=broadcasting)


TRIL = _part_row("tril", "left")
TRIU = _part_row("triu", "right")
