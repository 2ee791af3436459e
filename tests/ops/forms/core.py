"""Forms of the rows that arrays themselves need: elementwise, reductions, products, movement."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._ops.basic_index import open_index, parse_index
from gpushard._ops.row import Row
from gpushard._ops.table import (
    argmin_argmax,
    contractions,
    creation,
    elementwise,
    manipulation,
    moments,
    reductions,
)
from gpushard._ops.table.elementwise import ufunc_row
from tests.ops.forms.form import Form


def _index(*entries: Any) -> Any:
    return lambda shapes: (open_index(parse_index(shapes[0], entries), shapes[0])[0],)


def _ufunc_form(ufunc: np.ufunc) -> Form:
    """Return a call with types that a ufunc takes, arrays of different ranks if it takes two."""
    kinds = "d" if "d" * ufunc.nin in _inputs(ufunc) else _inputs(ufunc)[-1]
    kinds = kinds if len(kinds) == ufunc.nin else kinds * ufunc.nin
    letters = ("ij", "j", "ij")[: ufunc.nin]
    return Form(letters, (), kinds, positive=ufunc.__name__ in _POSITIVE)


def _inputs(ufunc: np.ufunc) -> list[str]:
    return [
        types.split("->")[0]
        for types in ufunc.types
        if "O" not in types and not set(types.lower()) & set("mg")  # longdouble is the host's
    ]


_POSITIVE = ("power", "float_power", "left_shift", "right_shift", "ldexp")

_OTHER_UFUNCS = ("isnat",)
"""Of types that arrays do not have."""

UFUNCS = sorted(
    {
        f.__name__: f
        for f in vars(np).values()
        if isinstance(f, np.ufunc)
        and f.signature is None
        and f.__name__ not in _OTHER_UFUNCS
        and f.__module__ == "numpy"
        and _inputs(f)
    }.values(),
    key=lambda f: f.__name__,
)

_REDUCED = [
    Form(("ij",), (axes, keepdims, None), dtypes)
    for axes, keepdims in (((-2, -1), False), ((-2,), True), ((-1,), False))
    for dtypes in "db"
]
_SPREAD = [
    Form(("ij",), ((-2,), False, 0)),
    Form(("ij",), ((-2, -1), True, 1)),
    Form(("ij",), ((-1,), False, 0), "D"),
]
_PLACED = [
    Form(("ij",), ((-2, -1), False, None)),
    Form(("ij",), ((-1,), True, None), "b"),
    Form(("ij",), ((-2,), False, None)),
]

FORMS: dict[Row, list[Form]] = {
    elementwise.ASTYPE: [Form(("ij",), (np.dtype("i4"),))],
    elementwise.COPY: [Form(("ij",))],
    elementwise.VIEW: [Form(("ij",), (np.dtype(to),)) for to in ("u8", "f4")],
    elementwise.WHERE: [Form(("ij", "j", "i1"), (), "?dd")],
    elementwise.CLIP: [
        Form(("ij", "j"), (True, False)),
        Form(("ij",), (True, True), "d", (-1.5, 2.0)),
    ],
    elementwise.REAL: [Form(("ij",), (), "D")],
    elementwise.IMAG: [Form(("ij",), (), "D")],
    elementwise.ROUND: [Form(("ij",), (1,))],
    elementwise.I0: [Form(("ij",)), Form(("i",), (), "f")],
    reductions.SUM: _REDUCED,
    reductions.PROD: _REDUCED,
    reductions.MIN: _REDUCED,
    reductions.MAX: _REDUCED,
    reductions.ANY: [
        Form(("ij",), ((-1,), False, None), "?"),
        Form(("ij",), ((-2, -1), False, None), "?", density=0.1),
    ],
    reductions.ALL: [
        Form(("ij",), ((-1,), False, None), "?"),
        Form(("ij",), ((-2, -1), False, None), "?", density=0.97),
    ],
    reductions.COUNT_NONZERO: _REDUCED,
    moments.MEAN: _REDUCED,
    moments.VAR: _SPREAD,
    moments.STD: _SPREAD,
    argmin_argmax.ARGMIN: _PLACED,
    argmin_argmax.ARGMAX: _PLACED,
    contractions.EINSUM: [
        Form(("ij", "jk", "kl"), ("ij,jk,kl->il",)),
        Form(("ii",), ("ii->i",)),
        Form(("ii", "ij"), ("ii,ij->j",)),
        Form(("ij",), ("ij->",), "b"),
    ],
    contractions.MATMUL: [
        Form(("ij", "jk"), ("ij,jk->ik",)),
        Form(("hij", "jk"), ("hij,jk->hik",)),
    ],
    contractions.DOT: [Form(("i", "i"), ("i,i->",)), Form(("ij", "kjl"), ("ij,kjl->ikl",))],
    contractions.VECDOT: [Form(("ij", "ij"), ("ij,ij->i",))],
    contractions.TENSORDOT: [Form(("ijk", "jki"), ("ajk,jkb->ab",))],
    contractions.OUTER: [Form(("i", "j"), ("i,j->ij",), "b")],
    creation.TRIL: [Form(("ij",), (1,)), Form(("kij",), (-2,), "b")],
    creation.TRIU: [Form(("ij",), (1,)), Form(("kij",), (-2,), "b")],
    manipulation.INDEX: [
        Form(("ij",), _index(slice(2, None, -2), None), "d", (2,)),
        Form(("ij",), _index(1, slice(1, 4)), "d", (1, 1)),
    ],
    manipulation.TRANSPOSE: [Form(("ij",), ((-1, -2),)), Form(("ijk",), ((-2, -1, -3),))],
    manipulation.BROADCAST_TO: [Form(("i1j",), lambda s: ((2, s[0][0], 3, s[0][2]),))],
    manipulation.CONCATENATE: [Form(("ij", "ij", "1j"), (-2,))],
    manipulation.STACK: [Form(("ij", "ij"), (-2,))],
    manipulation.PAD: [Form(("ij",), (((1, 2), (0, 1)),), "d", (7.5,))],
    manipulation.ROLL: [Form(("ij",), ((1, -2), (-2, -1)))],
    manipulation.PERMUTE: [
        Form(("ij",), ((-2,), ((0, 2), (1, 0)))),
        Form(("ijk",), ((-3, -2), ((0, 1), (1, 0), (5, 3)))),
    ],
    manipulation.TILE: [Form(("ij",), ((2, 1, 2),))],
    manipulation.REPEAT: [Form(("ij",), (2, -2))],
    manipulation.DIAGONAL: [Form(("ij",), (1, -2, -1)), Form(("ijk",), (0, -3, -1))],
    manipulation.RESHAPE: [
        Form(("ij",), lambda s: ((s[0][1], s[0][0]),)),
        Form(("ij",), lambda s: ((s[0][0] * s[0][1],),)),
    ],
}
FORMS |= {ufunc_row(ufunc): [_ufunc_form(ufunc)] for ufunc in UFUNCS}

MADE: dict[Row, list[tuple[str, str, tuple[Any, ...]]]] = {
    creation.FULL: [("ij", "f", (2.5,)), ("i", "b", (-3,))],
    creation.ARANGE: [("i", "d", (0.5, 0.75)), ("i", "i", (9, 6))],
    creation.LINSPACE: [
        ("i", "d", (*(np.float64(n) for n in (-1, 2, 3, 0.75)), 4, 4)),
    ],
    creation.EYE: [("ij", "d", (1,)), ("ij", "?", (-2,))],
}
"""Rows without operands: letters of the result's dims, its type, and the numbers they take."""
