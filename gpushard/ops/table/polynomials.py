"""Polynomials as vectors of coefficients, which are whole: quotients, and products of factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard.dtypes import result_type
from gpushard.ops.aval import Aval
from gpushard.ops.narrow import in_single
from gpushard.ops.programs.local import Local
from gpushard.ops.row import Kernel, Params, Row
from gpushard.ops.rule import Rule
from gpushard.ops.table.elementwise import writing


def _whole(avals: Sequence[Aval], params: Params) -> Rule:
    operands = tuple((n,) for n in range(len(avals)))
    sizes = tuple(aval.shape[0] for aval in avals)
    return Rule(operands, ((0,),) * len(avals), sizes, frozenset(range(len(avals))))


def _infer_division(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    u, v = avals
    dtype = result_type(u.dtype, v.dtype)
    quotient = max(u.shape[0] - v.shape[0] + 1, 1)
    return Aval((quotient,), dtype), Aval(u.shape, dtype)


def _division(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    quotient = _infer_division(avals, params)[0]

    def divide(u: Any, v: Any) -> tuple[Any, Any]:
        found, rest = xp.zeros(quotient.shape, quotient.dtype), u.astype(quotient.dtype)
        scale = 1 / v[0]
        for k in range(u.shape[0] - v.shape[0] + 1):
            found[k] = scale * rest[k]
            rest[k : k + v.shape[0]] -= found[k] * v
        return found, rest

    return writing(divide)


_SMALL = Local("each coefficient depends on all others, which are few")

POLYDIV = in_single(Row("polydiv", _infer_division, _whole, _division, (_SMALL,)))
"""Operands: coefficients of two polynomials. Results: the quotient, and the remainder in the length
of the first one."""


def _infer_product(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    (roots,) = avals
    return (Aval((roots.shape[0] + 1,), roots.dtype),)


def _product(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    many, dtype = avals[0].shape[0], avals[0].dtype

    def product(roots: Any) -> Any:
        found = xp.zeros(many + 1, dtype)
        found[0] = 1
        for n in range(many):
            found[1 : n + 2] -= roots[n] * found[: n + 1]
        return found

    return writing(product)


POLY = in_single(Row("poly", _infer_product, _whole, _product, (_SMALL,)))
"""Operand: roots. Result: the coefficients of the product of their factors."""
