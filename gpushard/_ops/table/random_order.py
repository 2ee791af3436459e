"""Rows that permute elements at random, and that choose some of them.

The permuted dim is not split: operands move so that each device has it whole.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval
from gpushard._ops.prng.blocks import each_block, words_of
from gpushard._ops.prng.distribution import INT, PAIR, WORD
from gpushard._ops.prng.stream import Stream
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, Site, beside_others, broadcasting, by_factors
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard._runtime.namespace import own_kernels
from gpushard._runtime.work_sharing import share
from gpushard._typing import Shape


def _rounds(size: int) -> int:
    """Return how often to sort by 32 random bits, so that equal bits do not matter.

    Sorting is stable, and the sort keys of all rounds together have 3 log2(size) bits, as in JAX.
    """
    return math.ceil(3 * math.log(max(1, size)) / math.log(2**32 - 1))


def _orders(
    xp: Any, key: Any, shape: Shape, axis: int, start: Shape, whole: Shape, rounds: int
) -> list[Any]:
    """Return random orders along a whole dim, one for each round of sorting.

    `key` has the two words of the key. Bits and positions are sorted together as distinct words of
    64 bits, which is many times faster than a stable sort of the bits. Rounds do not wait for one
    another.
    """
    zero, n, kernels = xp.zeros(1, WORD), shape[axis], own_kernels(xp)
    keys = []
    for _ in range(rounds):
        stream = Stream(xp, (key[:1], key[1:]), zero, zero)
        key, folded = (xp.concatenate(stream.fold(n).key) for n in range(2))
        keys.append(folded)
    positions = xp.arange(n, dtype=PAIR).reshape(n, *(1,) * (-1 - axis))
    orders = [xp.empty(shape, PAIR) for _ in keys]

    def sort(key: Any, order: Any) -> None:
        flat = order.ravel()

        def fill(first: int, stop: int, stream: Stream) -> None:
            bits = stream.bits(WORD).astype(PAIR)
            bits <<= PAIR.type(32)
            flat[first:stop] = bits[: stop - first]

        if kernels is None:
            each_block(xp, key, start, shape, whole, fill)
        else:
            kernels.draw("high_bits", PAIR, key, (), order, start, whole)
        order |= positions
        order.sort(axis=axis)
        order &= PAIR.type(0xFFFFFFFF)

    share([functools.partial(sort, *pair) for pair in zip(keys, orders, strict=True)])
    return [order.view(np.int64) for order in orders]


def _order(xp: Any, key: Any, n: int) -> Any:
    """Permute the numbers below n at random."""
    orders = _orders(xp, key, (n,), -1, (0,), (n,), _rounds(n))
    return functools.reduce(xp.take, orders) if orders else xp.arange(n)


def _order_rule(avals: Sequence[Aval], params: Params) -> Rule:
    n = len(avals[0].shape)
    keys = tuple(range(n))
    return Rule((keys,), ((*keys, n),), (*avals[0].shape, *params), frozenset([n]))


def _order_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    def order(keys: Any) -> Any:
        if not keys.ndim:
            return _order(xp, words_of(keys), *params)
        orders = xp.empty((keys.size, *params), INT)
        for number, key in enumerate(words_of(keys.ravel())):
            orders[number] = _order(xp, key, *params)
        return orders.reshape(*keys.shape, *params)

    return writing(order)


ORDER = Row(
    "random.permutation",
    by_factors(_order_rule, lambda avals, params: INT),
    _order_rule,
    _order_kernel,
    (Local(),),
    stacked=broadcasting,
)
"""Permute the numbers below a number. Operands: keys; their dims come in front. Parameters: (the
number,)."""


def _shuffle_rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = avals[1].shape
    dims = tuple(range(len(shape)))
    return Rule(((), dims), (dims,), shape, frozenset([len(shape) + params[0]]))


def _shuffle_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    axis, independent = params
    whole = avals[1].shape
    n = whole[axis]

    def shuffle(site: Site, key: Any, x: Any) -> Any:
        key = words_of(key)
        if not independent:
            return xp.take(x, _order(xp, key, n), axis=axis)
        rounds = _rounds(math.prod(whole))
        for order in _orders(xp, key, x.shape, axis, site.result, whole, rounds):
            x = xp.take_along_axis(x, order, axis=axis)
        return x

    return writing(shuffle)


SHUFFLE = Row(
    "random.permutation",
    by_factors(_shuffle_rule, lambda avals, params: avals[1].dtype),
    _shuffle_rule,
    _shuffle_kernel,
    (Local("an order of all elements is drawn, and each may go anywhere"),),
    positional=True,
    each="an order is drawn from one key",
    beside_keys=frozenset([0]),
)
"""Operands: a key, an array. Parameters: (axis counted from the end, whether each vector along it
has its own order)."""


def _take_rule(avals: Sequence[Aval], params: Params) -> Rule:
    x, index = avals
    axis = len(x.shape) + params[0]
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    n_dims = len(index.shape)
    dims, taken = tuple(range(len(shape))), len(shape)
    result_dims = (*dims[:axis], taken, *dims[axis + n_dims :])
    sizes = (*shape, x.shape[axis])
    return Rule((result_dims, dims[axis : axis + n_dims]), (dims,), sizes, frozenset([taken]))


TAKE = Row(
    "random.choice",
    by_factors(_take_rule, lambda avals, params: avals[0].dtype),
    _take_rule,
    lambda xp, avals, params: writing(lambda x, index: xp.take(x, index, axis=params[0])),
    (Local("positions may take elements from anywhere along the axis"),),
    each="positions are for one array",
    beside_keys=frozenset([1]),
)
"""Take elements along a dim. Operands: an array, and valid positions. Parameters: (axis counted
from the end,)."""


def _top_rule(avals: Sequence[Aval], params: Params) -> Rule:
    *batch, n = avals[0].shape
    dims = tuple(range(len(batch)))
    sizes = (*batch, n, params[0])
    last = len(batch)
    return Rule(((*dims, last),), ((*dims, last + 1),), sizes, frozenset([last, last + 1]))


def _top_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    (count,) = params

    def top(x: Any) -> Any:
        # A copy: it is row-major to be moved later, and frees the rest.
        return xp.argsort(-x, axis=-1, kind="stable")[..., :count].copy()

    return writing(top)


TOP = Row(
    "random.choice",
    by_factors(_top_rule, lambda avals, params: INT),
    _top_rule,
    _top_kernel,
    (Local("the largest are found by sorting all"),),
    stacked=broadcasting,
)
"""Positions of the largest elements along the last dim, the largest first. Parameters: (their
number,)."""


def _weighted_shape(avals: Sequence[Aval], params: Params) -> Shape:
    return (*avals[0].shape, *params[0])


def _weighted_rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = _weighted_shape(avals, params)
    dims, weights = tuple(range(len(shape))), len(shape)
    sizes = (*shape, avals[1].shape[0])
    return Rule((dims[: len(avals[0].shape)], (weights,)), (dims,), sizes, frozenset([weights]))


def _weighted_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    shape = _weighted_shape(avals, params)
    kernels = own_kernels(xp)
    work = avals[1].dtype if avals[1].dtype == np.float32 else np.dtype(np.float64)

    def choose(site: Site, keys: Any, weights: Any) -> Any:
        sums = xp.cumsum(weights.astype(work, copy=False))
        if kernels is not None:
            at = xp.empty(site.shape, work)
            kernels.draw("uniform<W>", work, words_of(keys), (), at, site.result, shape)
            return xp.searchsorted(sums, sums[-1] * (1 - at))
        positions = xp.empty(site.shape, INT)
        flat = positions.ravel()

        def fill(first: int, stop: int, stream: Stream) -> None:
            at = sums[-1] * (1 - stream.uniform(work))
            flat[first:stop] = xp.searchsorted(sums, at)[: stop - first]

        each_block(xp, words_of(keys), site.result, site.shape, shape, fill)
        return positions

    return writing(choose)


WEIGHTED = Row(
    "random.choice",
    by_factors(_weighted_rule, lambda avals, params: INT),
    _weighted_rule,
    _weighted_kernel,
    (Local("each draw is looked up in the sums of all probabilities"),),
    positional=True,
    stacked=beside_others(0),
    each="NumPy looks up in one vector",
)
"""Draw positions with probabilities. Operands: keys, with their dims in front, and probabilities.
Parameters: (shape,)."""
