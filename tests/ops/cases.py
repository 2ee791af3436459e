"""Cases for every row of the table: operands, parameters, the row's own kernel as the oracle."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

import gpushard as gs
from gpushard.ops.aval import Aval
from gpushard.ops.bind import bind
from gpushard.ops.indexing import parse_index
from gpushard.ops.row import Row, Site
from gpushard.ops.table import contractions, creation, elementwise, movement, reductions
from gpushard.ops.table.elementwise import ufunc_row

AXES = {"a": 3, "b": 2}
"""A mesh on which lengths 6, 5 and 4 are split evenly, unevenly, and with an empty shard."""

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Form:
    """A way to call a row: letters for the dims of its operands, each with a length."""

    operands: tuple[str, ...]
    """Letters of each operand's dims; a digit is a dim of that length that nothing splits."""

    params: Any = ()
    """Parameters, or a function of the operands' shapes that gives them."""

    dtypes: str = "d"
    """Types of the operands; the last one is repeated."""

    scalars: tuple[Any, ...] = ()
    """Python numbers that come after the arrays."""

    positive: bool = False
    """Whether the operation wants positive numbers."""

    density: float = 0.5
    """How many booleans are true."""


def _index(*entries: Any) -> Any:
    return lambda shapes: (parse_index(shapes[0], entries),)


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
        if "O" not in types and "m" not in types.lower()
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
    elementwise.WHERE: [Form(("ij", "j", "i1"), (), "?dd")],
    elementwise.CLIP: [
        Form(("ij", "j"), (True, False)),
        Form(("ij",), (True, True), "d", (-1.5, 2.0)),
    ],
    elementwise.REAL: [Form(("ij",), (), "D")],
    elementwise.IMAG: [Form(("ij",), (), "D")],
    elementwise.ROUND: [Form(("ij",), (1,))],
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
    reductions.MEAN: _REDUCED,
    reductions.VAR: _SPREAD,
    reductions.STD: _SPREAD,
    reductions.ARGMIN: _PLACED,
    reductions.ARGMAX: _PLACED,
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
    movement.INDEX: [
        Form(("ij",), _index(slice(None, None, -2), None)),
        Form(("ij",), _index(1, slice(1, 4))),
    ],
    movement.TRANSPOSE: [Form(("ij",), ((-1, -2),)), Form(("ijk",), ((-2, -1, -3),))],
    movement.BROADCAST_TO: [Form(("i1j",), lambda s: ((2, s[0][0], 3, s[0][2]),))],
    movement.CONCATENATE: [Form(("ij", "ij", "1j"), (-2,))],
    movement.STACK: [Form(("ij", "ij"), (-2,))],
    movement.PAD: [Form(("ij",), (((1, 2), (0, 1)),), "d", (7.5,))],
    movement.ROLL: [Form(("ij",), ((1, -2), (-2, -1)))],
    movement.TILE: [Form(("ij",), ((2, 1, 2),))],
    movement.REPEAT: [Form(("ij",), (2, -2))],
    movement.DIAGONAL: [Form(("ij",), (1, -2, -1)), Form(("ijk",), (0, -3, -1))],
    movement.RESHAPE: [
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

TABLES: list[ModuleType] = [elementwise, reductions, contractions, movement, creation]


def rows_of_the_table() -> list[Row]:
    """Return the rows that the modules of the table define, apart from ufuncs."""
    found = [row for module in TABLES for row in vars(module).values() if isinstance(row, Row)]
    return list(dict.fromkeys(found))


@dataclasses.dataclass(frozen=True)
class Case:
    """A call of a row on split operands."""

    row: Row
    form: Form
    arrays: tuple[np.ndarray[Any, Any], ...]
    specs: tuple[gs.P, ...]
    params: tuple[Any, ...]
    split: str
    """The letters that are split."""

    def expected(self) -> tuple[np.ndarray[Any, Any], ...]:
        """What the row's own kernel gives for whole arrays."""
        scalars = [np.asarray(s) for s in self.form.scalars]
        avals = [Aval(a.shape, a.dtype) for a in (*self.arrays, *scalars)]
        kernel = self.row.kernel(np, avals, self.params)
        site = ()
        if self.row.positional:
            zeros = tuple((0,) * a.ndim for a in self.arrays)
            shape = self.row.infer(avals, self.params)[0].shape
            site = (Site(zeros, (0,) * len(shape), shape),)
        with np.errstate(all="ignore"):
            made = kernel(*site, *self.arrays, *self.form.scalars)
        return tuple(map(np.asarray, made)) if isinstance(made, tuple) else (np.asarray(made),)

    def run(self, mesh: gs.Mesh) -> tuple[gs.Array, ...]:
        """Run it on devices."""
        placed = [
            gs.device_put(array, gs.NamedSharding(mesh, spec))
            for array, spec in zip(self.arrays, self.specs, strict=True)
        ]
        made = bind(self.row, (*placed, *self.form.scalars), self.params)
        return made if isinstance(made, tuple) else (made,)

    def check(self, mesh: gs.Mesh, close: float = 1e-12) -> None:
        """Compare the two: movement and integers bit for bit, other numbers closely."""
        for want, got in zip(self.expected(), self.run(mesh), strict=True):
            value = np.asarray(got)
            assert value.shape == want.shape and value.dtype == want.dtype, (value, want)
            if want.dtype.kind in "fc" and self.row.moves is None:
                np.testing.assert_allclose(value, want, rtol=close, atol=close)
            else:
                np.testing.assert_array_equal(value, want)
            for shard in got.addressable_shards:
                assert shard.data.shape == value[shard.index].shape


def cases(row: Row) -> Iterator[Case]:
    """Yield calls in which every letter is split evenly, unevenly, and with an empty shard."""
    for form in FORMS[row]:
        letters = sorted({c for letters in form.operands for c in letters if c.isalpha()})
        for letter, length in itertools.product(letters, (6, 5, 4)):
            yield _case(row, form, {letter: ("a", length)}, letters)
        for first, second in itertools.permutations(letters, 2):
            yield _case(row, form, {first: ("a", 5), second: ("b", 3)}, letters)


def _case(row: Row, form: Form, split: dict[str, tuple[str, int]], letters: Sequence[str]) -> Case:
    lengths = {letter: n for n, letter in zip((3, 4, 2, 5), letters, strict=False)}
    lengths |= {letter: length for letter, (_, length) in split.items()}
    generator = np.random.default_rng(sum(lengths.values()))
    arrays, specs = [], []
    for number, names in enumerate(form.operands):
        shape = tuple(int(c) if c.isdigit() else lengths[c] for c in names)
        dtype = form.dtypes[min(number, len(form.dtypes) - 1)]
        arrays.append(_numbers(generator, shape, dtype, form))
        used: set[str] = set()
        entries: list[str | None] = []
        for c in names:
            axis = split[c][0] if c in split else None
            entries.append(axis if axis not in used else None)
            used.add(axis or "")
        specs.append(gs.P(*entries))
    shapes = [array.shape for array in arrays]
    params = form.params(shapes) if callable(form.params) else form.params
    return Case(row, form, tuple(arrays), tuple(specs), params, "".join(split))


def _numbers(generator: Any, shape: Shape, dtype: str, form: Form) -> Any:
    """Return numbers of both signs, so that a wrong merge does not pass by luck."""
    if dtype == "?":
        return generator.random(shape) < form.density
    if dtype in "bhilqBHILQ":
        low = 0 if form.positive or dtype.isupper() else -9
        return generator.integers(low, 9, shape).astype(dtype)
    numbers = generator.standard_normal(shape) * 3
    if dtype in "FD":
        numbers = numbers + 1j * generator.standard_normal(shape)
    if form.positive:
        numbers = abs(numbers)
    return numbers.astype(dtype)
