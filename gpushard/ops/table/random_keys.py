"""Rows that make keys of keys: arrays of uint32 whose last dim has the two words of a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.ops.aval import Aval
from gpushard.ops.random.blocks import each_block
from gpushard.ops.random.stream import Stream
from gpushard.ops.random.threefry import threefry
from gpushard.ops.row import Kernel, Params, Row, Site
from gpushard.ops.rule import Rule
from gpushard.ops.table.elementwise import broadcast, writing
from gpushard.runtime.own import own_kernels

_WORD, _PAIR = np.dtype(np.uint32), np.dtype(np.uint64)


def _split_infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    (key,), (shape,) = avals, params
    return (Aval((*key.shape[:-1], *shape, 2), _WORD),)


def _split_rule(avals: Sequence[Aval], params: Params) -> Rule:
    (key,), (shape,) = avals, params
    batch = tuple(range(len(key.shape) - 1))
    dims = tuple(range(len(batch) + len(shape)))
    words = len(dims)
    sizes = (*key.shape[:-1], *shape, 2)
    return Rule(((*batch, words),), ((*dims, words),), sizes, frozenset([words]))


def _split_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    (key,), (shape,) = avals, params
    whole = (*key.shape[:-1], *shape)
    own = own_kernels(xp)

    def split_here(site: Site, keys: Any, out: Any) -> Any:
        own.draw("both_words", _PAIR, keys, (), out.view(_PAIR)[..., 0], site.result[:-1], whole)
        return out

    def split(site: Site, keys: Any) -> Any:
        made = xp.empty((int(np.prod(site.shape[:-1])), 2), _WORD)

        def fill(first: int, stop: int, stream: Stream) -> None:
            for n, word in enumerate(stream.words()):
                made[first:stop, n] = word[: stop - first]

        each_block(xp, keys, site.result[:-1], site.shape[:-1], whole, fill)
        return made.reshape(site.shape)

    return writing(split) if own is None else split_here


SPLIT = Row("random.split", _split_infer, _split_rule, _split_kernel, positional=True)
"""Parameters: (shape of the new keys,), which come after the dims of the keys."""


def _fold_infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    key, data = avals
    return (Aval((*broadcast("fold_in", [key.shape[:-1], data.shape]), 2), _WORD),)


def _fold_rule(avals: Sequence[Aval], params: Params) -> Rule:
    key, data = avals
    shape = _fold_infer(avals, params)[0].shape
    words = len(shape) - 1
    own = _aligned(key.shape[:-1], shape[:-1])
    dims = tuple(range(len(shape)))
    whole = frozenset([words])
    return Rule(((*own, words), _aligned(data.shape, shape[:-1])), (dims,), shape, whole)


def _aligned(own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int | None, ...]:
    lead = len(shape) - len(own)
    return tuple(None if n != shape[lead + d] else lead + d for d, n in enumerate(own))


def _fold_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    own = own_kernels(xp)

    def fold_here(keys: Any, data: Any, out: Any) -> Any:
        data = data.astype(_WORD, copy=False)
        words = tuple(out[..., n] for n in range(2))
        own.threefry((keys[..., 0], keys[..., 1]), np.uint32(0), data, words)
        return out

    def fold_in(keys: Any, data: Any) -> Any:
        shape = np.broadcast_shapes(keys.shape[:-1], np.shape(data))
        low = xp.zeros((*shape, 1), _WORD) + xp.asarray(data).astype(_WORD)[..., None]
        words = threefry(xp, (keys[..., :1], keys[..., 1:]), xp.zeros(1, _WORD), low)
        return xp.concatenate(words, axis=-1)

    return writing(fold_in) if own is None else fold_here


FOLD_IN = Row(
    "random.fold_in", _fold_infer, _fold_rule, _fold_kernel, loop=lambda avals: (_WORD, _WORD)
)
"""No parameters; the numbers, uint32, broadcast with the dims of the keys."""
