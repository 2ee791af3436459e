"""Rows that pack the two words of a key into one element, which moves like any other element.

They are separate from rows that derive keys, since arrays need keys but no random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, broadcasting
from gpushard._ops.rule import Rule

_WORD = np.dtype(np.uint32)
_PAIR = np.dtype(np.uint64)


def _pack_rule(avals: Sequence[Aval], params: Params) -> Rule:
    (keys,) = avals
    words = len(keys.shape) - 1
    dims = tuple(range(words))
    return Rule(((*dims, words),), (dims,), keys.shape, frozenset([words]))


def _pack_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    def pack(keys: Any, out: Any = None) -> Any:
        out = xp.empty(keys.shape[:-1], _PAIR) if out is None else out
        out[..., None].view(_WORD)[...] = keys
        return out

    return pack


PACK = Row(
    "random.pack",
    lambda avals, params: (Aval(avals[0].shape[:-1], _PAIR),),
    _pack_rule,
    _pack_kernel,
    (Local("the two words of a key stay together"),),
    stacked=broadcasting,
)
"""Pack keys into elements of 64 bits."""


def _unpack_rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = avals[0].shape
    dims = tuple(range(len(shape)))
    return Rule((dims,), ((*dims, len(shape)),), (*shape, 2), frozenset([len(shape)]))


def _unpack_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    def unpack(keys: Any, out: Any = None) -> Any:
        out = xp.empty((*keys.shape, 2), _WORD) if out is None else out
        out.view(_PAIR)[..., 0] = keys
        return out

    return unpack


UNPACK = Row(
    "random.unpack",
    lambda avals, params: (Aval((*avals[0].shape, 2), _WORD),),
    _unpack_rule,
    _unpack_kernel,
    (Local(),),
    stacked=broadcasting,
)
"""Unpack elements of `PACK` into the words of keys."""
