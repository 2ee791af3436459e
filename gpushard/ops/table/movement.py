"""Operations that only move data: each says where the elements of its result come from.

Result dims that are a dim of an operand keep the mesh axes that split it; others are not split.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.movement.dim_map import Piece, permutation
from gpushard.movement.indexing import Entry, index_piece
from gpushard.ops.aval import Aval
from gpushard.ops.row import Kernel, Moves, Params, Row
from gpushard.ops.rule import Dims, Rule
from gpushard.ops.table.elementwise import writing
from gpushard.typing import Shape


def _row(
    name: str,
    how: Callable[[Sequence[Shape], Params], Any],
    kept: Callable[[Sequence[Shape], Params], Sequence[Dims]],
    make: Callable[[Any, Params], Callable[..., Any]],
) -> Row:
    """Return a row.

    Args:
      name: what users call it.
      how: takes the shapes of the operands and the parameters, and says where elements come from.
      kept: takes the same; the dim of the first operand that each dim of the result keeps.
      make: takes the namespace and the parameters; gives the function of local arrays.
    """

    def shapes(avals: Sequence[Aval]) -> tuple[Shape, ...]:
        return tuple(aval.shape for aval in avals)

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        shape = how(shapes(avals), params).shape
        return (Aval(shape, avals[0].dtype, all(aval.weak for aval in avals)),)

    def rule_of(avals: Sequence[Aval], params: Params) -> Rule:
        own = tuple(tuple(range(len(aval.shape))) for aval in avals)
        sizes = avals[0].shape if avals else ()
        return Rule(own, tuple(kept(shapes(avals), params)), sizes)

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        return writing(make(xp, params))

    return Row(name, infer, rule_of, kernel, moves=lambda avals, params: how(shapes(avals), params))
