"""Polynomials as vectors of coefficients: division, and the polynomial of given roots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard._ops.aval import Aval
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, broadcasting, broadcasting_whole
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard.dtypes import result_type

_SMALL = Local("each coefficient depends on all others, which are few")


def _polynomial_rule(avals: Sequence[Aval], params: Params) -> Rule:
    operands = tuple((n,) for n in range(len(avals)))
    sizes = tuple(aval.shape[0] for aval in avals)
    return Rule(operands, ((0,),) * len(avals), sizes, frozenset(range(len(avals))))


def _infer_division(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    u, v = avals
    dtype = result_type(u.dtype, v.dtype)
    quotient = max(u.shape[-1] - v.shape[-1] + 1, 1)
    return Aval((quotient,), dtype), Aval(u.shape, dtype)


def _division(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    quotient = _infer_division(avals, params)[0]
    (length,), dtype = quotient.shape, quotient.dtype

    def divide(u: Any, v: Any) -> tuple[Any, Any]:
        quotients = xp.zeros((*u.shape[:-1], length), dtype)
        rest = u.astype(dtype, order="C")
        scale = 1 / v[..., :1]
        for k in range(u.shape[-1] - v.shape[-1] + 1):
            xp.multiply(scale, rest[..., k : k + 1], out=quotients[..., k : k + 1])
            rest[..., k : k + v.shape[-1]] -= quotients[..., k : k + 1] * v
        return quotients, rest

    return writing(divide)


POLYDIV = in_single(
    Row(
        "polydiv",
        _infer_division,
        _polynomial_rule,
        _division,
        (_SMALL,),
        stacked=broadcasting_whole,
    )
)
"""Operands: coefficients of two polynomials. Results: the quotient, and the remainder with the
length of the first operand."""


def _infer_product(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    (roots,) = avals
    return (Aval((roots.shape[0] + 1,), roots.dtype),)


def _product(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    n_roots, dtype = avals[0].shape[-1], avals[0].dtype

    def product(roots: Any) -> Any:
        coefficients = xp.zeros((*roots.shape[:-1], n_roots + 1), dtype)
        coefficients[..., 0] = 1
        for n in range(n_roots):
            coefficients[..., 1 : n + 2] -= roots[..., n : n + 1] * coefficients[..., : n + 1]
        return coefficients

    return writing(product)


POLY = in_single(
    Row("poly", _infer_product, _polynomial_rule, _product, (_SMALL,), stacked=broadcasting)
)
"""Operand: roots. Result: the coefficients of the product of their factors."""
