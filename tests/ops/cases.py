"""Cases for every row of the table: operands, parameters, the row's own kernel as the oracle."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import gpushard as gs
from gpushard._ops.aval import Aval
from gpushard._ops.bind import bind
from gpushard._ops.programs.move import Move, Replace
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Row, Site
from gpushard._ops.table.linalg import SVD
from gpushard.errors import ArgumentTypeError
from tests.ops.forms import (
    core,
    fft,
    indexing,
    linalg,
    random,
    sorting,
    special,
    statistics,
    windows,
)
from tests.ops.forms.core import MADE, UFUNCS
from tests.ops.forms.form import Form
from tests.share import some

__all__ = [
    "AXES",
    "FORMS",
    "MADE",
    "SAMPLE",
    "UFUNCS",
    "Case",
    "Form",
    "cases",
    "moves",
    "reduce_of",
    "unless_refused",
]

AXES = {"a": 3, "b": 2}
"""A mesh on which lengths 6, 5 and 4 are split evenly, unevenly, and with an empty shard."""

Shape = tuple[int, ...]

_AREAS = (core, random, linalg, fft, special, statistics, sorting, indexing, windows)

FORMS: dict[Row, list[Form]] = {row: f for area in _AREAS for row, f in area.FORMS.items()}


def reduce_of(row: Row) -> Reduce | None:
    """Return how parts of a row are merged, if they are."""
    found = [getattr(strategy, "otherwise", strategy) for strategy in row.strategies]
    return next((strategy for strategy in found if isinstance(strategy, Reduce)), None)


def moves(row: Row) -> bool:
    """Whether a row only moves elements."""
    return any(isinstance(strategy, Move | Replace) for strategy in row.strategies)


SAMPLE: list[Row] = some(
    [row for n, row in enumerate(FORMS) if reduce_of(row) or n % 4 == 0], [*FORMS]
)
"""Rows for tests of schedules: those that merge parts, and of others some, unless all tests run."""


def tolerance_of(dtype: np.dtype[Any], close: float) -> float:
    """Return how far results may be apart: GPUs add up in another order, by functions of CUDA."""
    single = dtype.char in "fF" and gs.default_backend() == "gpu"
    return max(close, 1e-5) if single else close


@contextlib.contextmanager
def unless_refused() -> Iterator[None]:
    """Leave out what is refused on GPUs, as CuPy's function of that name lacks the type."""
    try:
        yield
    except ArgumentTypeError as error:
        if gs.default_backend() != "gpu" or "CuPy has no such function" not in str(error):
            raise


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

    @unless_refused()
    def check(self, mesh: gs.Mesh, close: float = 1e-12) -> None:
        """Compare the two."""
        for want, got in zip(self.expected(), self.run(mesh), strict=True):
            value = np.asarray(got)
            self.compare(value, want, close)
            for shard in got.addressable_shards:
                assert shard.data.shape == value[shard.index].shape

    def compare(self, got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], close: float) -> None:
        """Compare results: movement and integers bit for bit, other numbers closely.

        GPUs choose other signs for vectors.
        """
        assert got.shape == want.shape and got.dtype == want.dtype, (got, want)
        if self.row is SVD and gs.default_backend() == "gpu":
            got, want = abs(got), abs(want)
        if want.dtype.kind in "fc" and not moves(self.row):
            tolerance = tolerance_of(want.dtype, close)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(got, want)

    def loops(self, mapped: tuple[bool, ...], size: int) -> list[Case]:
        """Return the calls that one stands for some of whose operands have a further dim."""
        arrays = [self.arrays]
        while len(arrays) < size:
            last = zip(arrays[-1], self.arrays, mapped, strict=True)
            arrays.append(tuple(_other(array) if own else first for array, first, own in last))
        return [dataclasses.replace(self, arrays=own) for own in arrays]


def _other(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return data as right as those, and others where that is sure."""
    if array.dtype.kind in "fc":
        return array * 2
    if array.dtype.itemsize == 8 and array.dtype.kind == "u":  # keys
        return array + np.uint64(3)
    return array


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
        array = _numbers(generator, shape, dtype, form)
        arrays.append(array if form.suit is None else form.suit(array).astype(dtype))
        used: set[str] = set()
        entries: list[str | None] = []
        for c in names:
            axis = split[c][0] if c in split else None
            entries.append(axis if axis not in used else None)
            used.add(axis or "")
        specs.append(gs.P(*entries))
    if form.prepare is not None:
        arrays = list(form.prepare(*arrays))
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
