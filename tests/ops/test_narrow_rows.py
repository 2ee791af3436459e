"""Every row of the table for bfloat16 and float8: worked out in single precision, rounded once."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops import narrow_floats
from gpushard._ops.aval import Aval
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.table import contractions
from gpushard.errors import ArgumentTypeError
from tests.ops.cases import AXES, FORMS, Case, cases
from tests.ops.forms import fft, linalg, random, special

ml_dtypes = pytest.importorskip("ml_dtypes", reason="not installed: pip install ml_dtypes")

NAMES = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"]
OTHERS = ("nextafter", "spacing", "view", *random.FORMS)
"""Rows whose results are a matter of the type itself, and those of random numbers."""
ROWS = [row for row in FORMS if row.name not in OTHERS and row not in OTHERS]
REFUSED = set(linalg.FORMS)
"""Matrices are worked with in single precision at least, as with NumPy and JAX."""


def is_of_floats(case: Case) -> bool:
    return any(x.dtype.kind == "f" for x in case.arrays) and not any(
        x.dtype.kind == "c" for x in case.arrays
    )


def narrowed(case: Case, dtype: np.dtype[Any]) -> tuple[Case, Case]:
    """Return a case of narrow numbers, and the same of single precision."""
    with np.errstate(all="ignore"):
        small = [x.astype(dtype) if x.dtype.kind == "f" else x for x in case.arrays]
    arrays = tuple(x.astype(np.float32) if x.dtype == dtype else x for x in small)
    return (
        dataclasses.replace(case, arrays=tuple(small)),
        dataclasses.replace(case, arrays=arrays),
    )


def check(found: gs.Array, want: np.ndarray, dtype: np.dtype[Any], typed: bool) -> None:
    """Compare a result with one of single precision: half of a last digit apart at most."""
    value = np.asarray(found)
    assert value.dtype == found.dtype and value.shape == want.shape
    assert all(shard.data.dtype == found.dtype for shard in found.addressable_shards)
    if not typed:
        assert found.dtype == (dtype if want.dtype == np.float32 else want.dtype)
    if found.dtype != dtype:
        np.testing.assert_allclose(value, want, 1e-5, 1e-5)
        return
    most = float((ml_dtypes.finfo if dtype.isbuiltin == 2 else np.finfo)(dtype).max)
    fits = abs(want) < 0.9 * most
    got, exact = value.astype(np.float64)[fits], want.astype(np.float64)[fits]
    with np.errstate(all="ignore"):
        digit = np.spacing(abs(want[fits]).astype(dtype)).astype(np.float64)
        rounding = 1e-5 * (1 + abs(exact)).max(initial=0)
    assert (abs(got - exact) <= 0.501 * digit + rounding).all(), (got, exact)
    assert not np.isfinite(value.astype(np.float64)[np.isnan(want)]).any()


@pytest.mark.one_of(2)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_results_are_those_of_single_precision_rounded_once(row: Row) -> None:
    with testing.runtime(host_devices=6):
        mesh = gs.make_mesh(tuple(AXES.values()), tuple(AXES))
        for number, case in enumerate(filter(is_of_floats, cases(row))):
            if number % 3 == 0:
                name = NAMES[number // 3 % len(NAMES)]
                compare(row, case, name, mesh)


def compare(row: Row, case: Case, name: str, mesh: gs.Mesh) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    small, single = narrowed(case, dtype)
    if row in REFUSED:
        with pytest.raises(ArgumentTypeError, match=f"not defined for {name}"):
            small.run(mesh)
        return
    try:
        results = small.run(mesh)
    except ArgumentTypeError as error:
        if gs.default_backend() == "cpu" or f"{name} on gpu devices, which only" not in str(error):
            raise
        return  # GPUs only store and move it
    # SciPy's functions, and transforms, of half precision give single precision.
    typed = any(isinstance(param, np.dtype) for param in case.params)
    typed |= name == "float16" and row in (special.FORMS | fft.FORMS)
    with np.errstate(all="ignore"):
        wanted = single.expected()
    if case.form.scalars:  # which are of double precision there
        wanted = tuple(want.astype(np.float32) for want in wanted)
    for found, want in zip(results, wanted, strict=True):
        check(found, want, dtype, typed)


class Gpu:
    """A namespace that is not NumPy's own, and notes in which type it multiplies."""

    def __init__(self) -> None:
        self.types: set[np.dtype[Any]] = set()

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        if name not in ("matmul", "einsum", "dot", "multiply"):
            return function

        def noted(*operands: Any, **options: Any) -> Any:
            self.types |= {x.dtype for x in operands if isinstance(x, np.ndarray)}
            return function(*operands, **options)

        return noted


@pytest.mark.parametrize("dtype", [*NAMES, "float32", "int16"])
def test_gpus_multiply_halves_as_they_are(dtype: str) -> None:
    """Of what they know; others are converted, as on the host."""
    own = gs.numpy.dtype(dtype)
    x, y = np.ones((2, 3), own), np.ones((3, 4), own)
    for row in (contractions.MATMUL, contractions.EINSUM):
        xp, avals = Gpu(), [Aval(x.shape, own), Aval(y.shape, own)]
        found = row.kernel(xp, avals, ("ba,ac->bc",))(x, y)
        assert found.dtype == own and (found == np.full((2, 4), 3, own)).all()
        known = own.isbuiltin == 1
        assert xp.types == {own if known else np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ab,b->a", [(2, 3), (3,)]),
        ("b,ba->a", [(3,), (3, 2)]),
        ("ab,bc->ac", [(2, 3), (3, 1)]),
        ("ab,bc->ac", [(1, 3), (3, 2)]),
    ],
)
def test_gpus_multiply_halves_and_vectors_in_single_precision(text: str, shapes: Any) -> None:
    xp, own = Gpu(), np.dtype(np.float16)
    kernel = contractions.EINSUM.kernel(xp, [Aval(shape, own) for shape in shapes], (text,))
    found = kernel(*(np.ones(shape, own) for shape in shapes))
    assert found.dtype == own and (found == 3).all()
    assert xp.types == {np.dtype(np.float32)}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("row", [row for row in ROWS if row not in REFUSED], ids=lambda r: r.name)
def test_mapped_as_one_by_one(row: Row) -> None:
    """A row under vmap takes narrow numbers too, and gives what calls of it give."""
    with testing.runtime(host_devices=2):
        case = next(filter(is_of_floats, cases(row)), None)
        for name in NAMES[::3] if case else ():
            dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
            arrays = [gs.device_put(x) for x in narrowed(case, dtype)[0].arrays]
            first, *rest = arrays

            def call(x: Any, case: Case = case, rest: Any = rest) -> Any:
                return bind(row, (x, *rest, *case.form.scalars), case.params)

            with np.errstate(all="ignore"):
                want = gs.tree.leaves(call(first))
                found = gs.tree.leaves(gs.vmap(call)(gs.numpy.stack([first, first])))
            for got, expected in zip(found, want, strict=True):
                assert got.dtype == expected.dtype
                value, single = (np.asarray(x).astype(complex) for x in (got[1], expected))
                np.testing.assert_allclose(value, single, 1e-2, 1e-2)


def test_rounded_results_go_where_they_are_wanted() -> None:
    half = np.dtype(np.float16)
    x, y = np.arange(1, 7, dtype=np.float32) / 3, np.full(6, 0.25, np.float32)
    out = np.zeros(6, half)
    assert narrow_floats._rounding(np.add, [half])(x, y, out=out) is out
    np.testing.assert_array_equal(out, (x + y).astype(half))
    outs = np.zeros(6, half), np.zeros(6, half)
    assert narrow_floats._rounding(np.divmod, [half] * 2)(x, y, out=outs) is outs
    for got, want in zip(outs, np.divmod(x, y), strict=True):
        np.testing.assert_array_equal(got, want.astype(half))
