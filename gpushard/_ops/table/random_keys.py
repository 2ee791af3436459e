"""Rows that derive keys from keys; keys are elements of 64 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval
from gpushard._ops.prng.blocks import each_block, words_of
from gpushard._ops.prng.distribution import PAIR, WORD
from gpushard._ops.prng.stream import Stream
from gpushard._ops.prng.threefry import threefry
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, Site, broadcasting, by_factors
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import function_row, writing
from gpushard._runtime.namespace import own_kernels


def _split_rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = (*avals[0].shape, *params[0])
    dims = tuple(range(len(shape)))
    return Rule((dims[: len(avals[0].shape)],), (dims,), shape, frozenset())


def _split_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    whole = (*avals[0].shape, *params[0])
    kernels = own_kernels(xp)

    def split_here(site: Site, keys: Any, out: Any) -> Any:
        kernels.draw("both_words", PAIR, words_of(keys), (), out, site.result, whole)
        return out

    def split(site: Site, keys: Any) -> Any:
        keys_of_block = xp.empty(site.shape, PAIR)
        words = keys_of_block.reshape(-1).view(WORD).reshape(-1, 2)

        def fill(first: int, stop: int, stream: Stream) -> None:
            for n, word in enumerate(stream.words()):
                words[first:stop, n] = word[: stop - first]

        each_block(xp, words_of(keys), site.result, site.shape, whole, fill)
        return keys_of_block

    return writing(split) if kernels is None else split_here


SPLIT = Row(
    "random.split",
    by_factors(_split_rule, lambda avals, params: PAIR),
    _split_rule,
    _split_kernel,
    (Local(),),
    positional=True,
    stacked=broadcasting,
)
"""Parameters: (shape of the new keys,); these dims follow the dims of the keys."""


def _fold(xp: Any, params: Params, dtype: Any) -> Kernel:
    kernels = own_kernels(xp)

    def fold_in(keys: Any, data: Any, out: Any = None) -> Any:
        if out is None:
            out = xp.empty(np.broadcast_shapes(keys.shape, np.shape(data)), PAIR)
        old, new = words_of(keys), out[..., None].view(WORD)
        low = xp.asarray(data).astype(WORD, copy=False)
        if kernels is not None:
            words = tuple(new[..., n] for n in range(2))
            kernels.threefry((old[..., 0], old[..., 1]), np.uint32(0), low, words)
            return out
        low = xp.zeros((*out.shape, 1), WORD) + low[..., None]
        words = threefry(xp, (old[..., :1], old[..., 1:]), xp.zeros(1, WORD), low)
        new[...] = xp.concatenate(words, axis=-1)
        return out

    return fold_in


FOLD_IN = function_row("random.fold_in", lambda avals, params: PAIR, _fold, writes=True)
"""Operands: keys, and uint32 numbers that broadcast with them. No parameters."""
