"""Rows for operands of every kind on a GPU: what the host's are, or refused before work starts."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.row import Row
from gpushard.errors import ArgumentTypeError
from gpushard.testing.runtime import using
from tests.gpu.device import CUPY_LACKS, SPLITS, make_driver, make_gpu_runtime, needs_gpu
from tests.ops.cases import FORMS, Case, Form, cases, moves

pytestmark = needs_gpu

UNSETTLED = ("argpartition", "eig", "eigh", "eigvals", "qr", "svd")
"""Rows whose results for equal, or dependent, numbers are anybody's choice."""

ROWS = [row for row in FORMS if not row.name.startswith("random.") and row.name not in UNSETTLED]

CLOSE = {"e": 1e-2, "f": 1e-5, "F": 1e-5}


def types_of(form: Form) -> str:
    return form.dtypes.ljust(len(form.operands), form.dtypes[-1])


def case_of(row: Row, chars: str) -> tuple[Case, Any] | None:
    """A call of a row with operands of types in turn, and its results; None if it is refused."""
    form = FORMS[row][0]
    whole = set(form.dtypes) <= set("?bl")  # other integers are positions
    turn = itertools.cycle(chars)
    own = "".join(next(turn) if whole or c in "dDfF" else c for c in types_of(form))
    if form.scalars:
        return None  # their types are those of the form
    before = FORMS[row]
    FORMS[row] = [dataclasses.replace(form, dtypes=own)]
    try:
        case = next(iter(cases(row)))
        return case, case.expected()
    except (ArithmeticError, TypeError, ValueError, gs.errors.GpushardError):
        return None
    finally:
        FORMS[row] = before


@pytest.mark.one_of(5)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_types_are_computed_or_refused(row: Row) -> None:
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[0])):
        mesh = gs.make_mesh((1, 1), ("a", "b"))
        for char in "?bLefFg":
            found = case_of(row, char)
            if found is None or (char == "?" and row.name in ("nanmean", "nanvar", "nanstd")):
                continue  # what users call works with numbers, and gives these
            longdouble = any(array.dtype.char == "g" for array in found[0].arrays)
            if (longdouble and not moves(row)) or (row.name, char) in CUPY_LACKS:
                with pytest.raises(ArgumentTypeError, match=r"not available for .*; convert"):
                    found[0].run(mesh)
            else:
                found[0].check(mesh, close=CLOSE.get(char, 1e-6))


SEVERAL = [
    row for row in ROWS if sum(c in "dD" for c in types_of(FORMS[row][0])) > 1 and not moves(row)
]


@pytest.mark.parametrize("chars", ["fd", "df"])
@pytest.mark.parametrize("row", SEVERAL, ids=lambda row: row.name)
def test_operands_of_two_types_are_computed_in_the_wider_one(row: Row, chars: str) -> None:
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[0])):
        found = case_of(row, chars)
        if found is not None:
            found[0].check(gs.make_mesh((1, 1), ("a", "b")), close=1e-9)


@pytest.mark.parametrize(
    "dtype", [np.longdouble, ml_dtypes.float8_e4m3fn, ml_dtypes.int4], ids=lambda t: t.__name__
)
def test_types_that_cupy_lacks_move_and_nothing_else(dtype: Any) -> None:
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[1])):
        data = (np.arange(12).reshape(3, 4) % 7).astype(dtype)
        x = gs.device_put(data, gs.NamedSharding(gs.make_mesh((2,), ("x",)), gs.P(None, "x")))
        np.testing.assert_array_equal(x[::-1].T, data[::-1].T)
        for call in (
            lambda: x + 1,
            lambda: x.sum(),
            lambda: x.astype("float64"),
            lambda: gs.numpy.arange(4).astype(dtype),
            lambda: gs.numpy.zeros(4, dtype),
            lambda: gs.numpy.sort(x),
        ):
            with pytest.raises(ArgumentTypeError, match=r"on gpu devices.*numpy\.asarray"):
                call()


ENDS = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf]
NANS = [complex(np.nan, 2), *(complex(x, np.nan) for x in ENDS), complex(np.nan, np.nan)]
COMPLEX = np.array([*(complex(x, y) for x in ENDS for y in ENDS), *NANS])
LOGARITHMS = ["log", "log10", "log1p", "log2"]


@pytest.mark.parametrize("dtype", ["F", "D"])
@pytest.mark.parametrize("name", ["exp2", *LOGARITHMS, "reciprocal", "sign"])
def test_complex_numbers_at_zero_and_infinity(name: str, dtype: str) -> None:
    data = COMPLEX.astype(dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(data)
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[1])):
        found = np.asarray(getattr(gs.numpy, name)(gs.device_put(data)))
    assert found.dtype == wanted.dtype
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(found, part), getattr(wanted, part), rtol=1e-6)


BITS = np.concatenate(
    [
        np.random.default_rng(5).integers(0, 1 << 32, 2000, dtype=np.uint32),
        np.random.default_rng(6).integers(0, 1 << 24, 500, dtype=np.uint32),
        np.array([0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000], np.uint32),
    ]
)
SINGLES = np.concatenate([BITS, BITS | 0x80000000]).view(np.float32)
"""Numbers of any size, and many subnormal ones, which CuPy takes for zero in single precision."""


def same(found: Any, wanted: Any) -> None:
    value = np.asarray(found)
    assert value.dtype == wanted.dtype
    np.testing.assert_array_equal(value, wanted)
    there = wanted == wanted
    np.testing.assert_array_equal(np.signbit(value)[there], np.signbit(wanted)[there])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_smallest_numbers_are_there(dtype: str) -> None:
    x = SINGLES.astype(dtype) if dtype != "float16" else BITS.view(np.float16)
    if dtype == "float64":
        x = np.concatenate([x, x * 1e-308])
    y = np.random.default_rng(8).permutation(x)
    n = np.random.default_rng(9).integers(-320, 320, x.shape).astype(np.int32)
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[0])), np.errstate(all="ignore"):
        same(gs.numpy.nextafter(gs.device_put(x), y), np.nextafter(x, y))
        same(gs.numpy.spacing(gs.device_put(x)), np.spacing(x))
        for power in (n, -3, np.int64(2)):
            same(gs.numpy.ldexp(gs.device_put(x), power), np.ldexp(x, power))
        parts, powers = gs.numpy.frexp(gs.device_put(x))
        finite = np.isfinite(x)  # the power of others is anything
        same(parts, np.frexp(x)[0])
        np.testing.assert_array_equal(np.asarray(powers)[finite], np.frexp(x)[1][finite])


def test_functions_for_bits_give_fresh_arrays() -> None:
    """Without `out`, of which rows always have one."""
    cupy = importlib.import_module("cupy")
    numbers = importlib.import_module("gpushard._runtime.cuda.kernels.cupy_replacements")
    x = np.array([0.75, -3.0, 1e-40], np.float32)
    parts, powers = numbers.frexp(cupy.asarray(x))
    same(parts.get(), np.frexp(x)[0])
    same(powers.get(), np.frexp(x)[1])
    same(numbers.ldexp(cupy.asarray(x), powers).get(), np.ldexp(x, np.frexp(x)[1]))


def test_missing_numbers_come_last_whatever_their_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thrust may sort floats by their bits, with negative NaNs first: none may reach it."""
    cupy = importlib.import_module("cupy")
    met = []

    def watched(function: Any) -> Any:
        def call(x: Any, **options: Any) -> Any:
            met.append(x.dtype)
            assert not bool((cupy.isnan(x) & cupy.signbit(x)).any())
            return function(x, **options)

        return call

    for name in ("sort", "argsort"):
        monkeypatch.setattr(cupy, name, watched(getattr(cupy, name)))
    x = np.array([3, -np.nan, 1, np.nan, -np.inf, np.nan, np.inf, -np.nan, 1], np.float64)
    x[1], x[3] = -np.float64("nan"), np.copysign(np.nan, 1)
    y = x.astype(np.float32)
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[0])):
        for data in (x, y):
            a = gs.device_put(data)
            np.testing.assert_array_equal(gs.numpy.sort(a), np.sort(data))
            np.testing.assert_array_equal(
                gs.numpy.sort(a, descending=True)[:5], [np.inf, 3, 1, 1, -np.inf]
            )
            np.testing.assert_array_equal(
                gs.numpy.argsort(a, stable=True), np.argsort(data, stable=True)
            )
            np.testing.assert_array_equal(gs.numpy.unique(a), np.unique(data))
            np.testing.assert_array_equal(gs.numpy.nanmedian(a), np.nanmedian(data))
            np.testing.assert_array_equal(gs.numpy.isin(a, a[:3]), np.isin(data, data[:3]))
            np.testing.assert_array_equal(gs.numpy.median(a), np.median(data))
    assert len(met) > 8
