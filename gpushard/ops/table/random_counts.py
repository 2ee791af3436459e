"""Rows of random integers, and of distributions of whole numbers.

Operands: a key, then the distribution's parameters; parameters of rows: (shape, dtype).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpushard.ops.aval import Dtype
from gpushard.ops.random.rejection import binomial, poisson
from gpushard.ops.random.sampler import Sampler, doubles
from gpushard.ops.random.stream import Stream

_SINGLE = np.dtype(np.float32)


def _randint(stream: Stream, dtype: Dtype, low: Any, last: Any) -> Any:
    """Return integers from `low` to `last`, both included.

    The remainder of two numbers of bits, as JAX takes it: the high one counts 2**bits times.
    """
    unsigned = np.dtype(f"u{dtype.itemsize}")
    xp = stream.xp
    if xp is np and not (np.ndim(low) or np.ndim(last)):
        offset = _below(stream, unsigned, max(int(last) - int(low), 0) + 1)
        offset += np.asarray(low).astype(unsigned)
        return offset.view(dtype)
    one = unsigned.type(1)
    low, last = xp.atleast_1d(low), xp.atleast_1d(last)
    span = xp.where(last < low, one, (last.astype(unsigned) - low.astype(unsigned)) + one)
    high, bits = (stream.fold(n).bits(unsigned) for n in range(2))
    every = span == 0  # all numbers that there are
    safe = xp.where(every, one, span)
    half = unsigned.type(1 << (unsigned.itemsize * 4)) % safe
    offset = ((high % safe) * (half * half % safe) + bits % safe) % safe
    return (xp.where(every, bits, offset) + low.astype(unsigned)).astype(dtype)


def _below(stream: Stream, unsigned: Dtype, span: int) -> Any:
    """Return the same for one range, from 0 on, as unsigned integers.

    The high number is not drawn where it would count 0 times: where the range is a power of 2, or
    so long that the product of halves overflows to 0.
    """
    width = unsigned.itemsize * 8
    offset = stream.fold(1).bits(unsigned)
    if span == 1 << width:
        return offset
    if span & (span - 1) == 0:
        offset &= unsigned.type(span - 1)
        return offset
    half = (1 << width // 2) % span
    factor = half * half % (1 << width) % span
    divisor = unsigned.type(span)
    _reduce(offset, divisor)
    if factor:
        high = stream.fold(0).bits(unsigned)
        _reduce(high, divisor)
        high *= unsigned.type(factor)
        offset += high
        _reduce(offset, divisor)
    return offset


def _reduce(x: Any, divisor: Any) -> None:
    """Take remainders in place, by the division of NumPy that is vectorized."""
    quotient = x // divisor
    quotient *= divisor
    x -= quotient


def _integers(dtype: Dtype) -> Dtype:
    """Return the type that integers are drawn in: small ones in 32 bits."""
    return dtype if dtype.itemsize >= 4 else np.dtype(np.int32)


def _bernoulli(stream: Stream, dtype: Dtype, p: Any) -> Any:
    return stream.uniform(p.dtype) < p


def _bernoulli_high(stream: Stream, dtype: Dtype, p: Any) -> Any:
    """Return the same of two uniform numbers, the second of which refines the first."""
    dtype = p.dtype
    u, more = (stream.stacked(n).uniform(dtype) for n in range(2))
    return more * dtype.type(2.0 ** -np.finfo(dtype).nmant) < p - u


def _rademacher(stream: Stream, dtype: Dtype) -> Any:
    return stream.sign()


def _whole(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Give floats that are no finite numbers a value that integers have: -1."""

    def drawn(stream: Stream, dtype: Dtype, *parameters: Any) -> Any:
        value = draw(stream, dtype, *parameters)
        return stream.xp.where(stream.xp.isfinite(value), value, -1)

    return drawn


def _geometric(stream: Stream, dtype: Dtype, p: Any) -> Any:
    xp = stream.xp
    u = stream.uniform(dtype)
    return xp.floor(xp.log(xp.where(u == 0, 1, u)) / xp.log1p(-p)) + 1


RANDINT = Sampler("randint", _randint, _integers, "random_integer").row()
"""The smallest and the largest number."""
BERNOULLI = Sampler("bernoulli", _bernoulli, doubles, "bernoulli").row()
BERNOULLI_SINGLE = Sampler("bernoulli", _bernoulli, lambda dtype: _SINGLE, "bernoulli").row()
"""For probabilities in single precision: other bits are drawn for them."""
BERNOULLI_HIGH = Sampler("bernoulli", _bernoulli_high, doubles, "bernoulli_high").row()
"""Of twice as many bits."""
BERNOULLI_HIGH_SINGLE = Sampler(
    "bernoulli", _bernoulli_high, lambda dtype: _SINGLE, "bernoulli_high"
).row()
RADEMACHER = Sampler("rademacher", _rademacher, doubles, "rademacher").row()
GEOMETRIC = Sampler("geometric", _whole(_geometric), doubles, "whole_geometric").row()
POISSON = Sampler("poisson", _whole(poisson), doubles, "whole_poisson").row()
BINOMIAL = Sampler("binomial", binomial, doubles, "binomial").row()
BINOMIAL_COUNTS = Sampler("binomial", _whole(binomial), doubles, "whole_binomial").row()
"""The same for integers as results."""
