"""Every expression in C beside NumPy's function, compiled all at once."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

from gpushard._runtime.host.nests.expressions import (
    PRELUDE,
    TYPES,
    expression,
    is_reduction,
    literal,
)
from gpushard._runtime.kernel_tree import Atom

ARITHMETIC = ("add", "subtract", "multiply")
ORDERS = ("less", "less_equal", "greater", "greater_equal")
CLOSE = ("exp", "expm1", "log", "log1p", "tanh", "erf")
"""Those that are polynomials."""

OF_FLOATS = (*CLOSE, "sqrt", "divide", "reciprocal", "isnan", "floor", "ceil", "trunc", "rint",
             "fabs")  # fmt: skip
OF_NUMBERS = ("negative", "positive", "square", "conjugate", "absolute", "sign", "maximum",
              "minimum")  # fmt: skip
LOGIC = ("logical_and", "logical_or", "logical_xor", "logical_not")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert")

KINDS = (
    {name: "if" for name in (*ARITHMETIC, *ORDERS, *OF_NUMBERS)}
    | {name: "bif" for name in ("equal", "not_equal")}
    | {name: "f" for name in OF_FLOATS}
    | {name: "b" for name in (*LOGIC, *BITS)}
)
"""Kinds of types of whose elements there is an expression."""

ULPS = 5
"""How far results of polynomials may be from NumPy's, in units in the last place."""

VALUES = {
    "b": [False, True],
    "i": [0, 1, -1, 2, 7, -100, 2**31 - 1, -(2**31)],
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-30, 3e5, -3e5, np.inf, -np.inf, np.nan],
}

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")


def ufunc(name: str) -> Any:
    """Return the function of NumPy or SciPy."""
    return scipy.special.erf if name == "erf" else getattr(np, name)


def calls() -> Iterator[tuple[str, list[np.dtype[Any]]]]:
    """Yield each operation with each type of operands, of which there may be two different ones."""
    for name, kinds in KINDS.items():
        types = [t for t in TYPES if t.kind in kinds]
        count = getattr(ufunc(name), "nin", 1)
        for t in types:
            yield name, [t] * count
        if count == 2 and len(kinds) > 1:
            pairs = itertools.permutations([t for t in types if t.kind != "b"], 2)
            yield from ((name, [*pair]) for pair in pairs if np.result_type(*pair) in TYPES)


def compiled(functions: list[str], folder: Path) -> Any:
    """Compile functions of arrays; a warning is an error."""
    source, library = folder / "all.c", folder / "all.so"
    source.write_text("\n".join([PRELUDE, *functions]), encoding="utf-8")
    options = [
        "-O1",
        "-fwrapv",
        "-ffp-contract=off",
        "-Werror",
        "-shared",
        "-fPIC",
        "-o",
        str(library),
    ]
    subprocess.run(["cc", *options, str(source), "-lm"], check=True, timeout=100)
    return ctypes.CDLL(str(library))


def function(name: str, types: list[np.dtype[Any]], dtype: np.dtype[Any], body: str) -> str:
    """Write a function of arrays a, b and c of so many elements."""
    arrays = [f"const {TYPES[t]} *{x}" for t, x in zip(types, "abc", strict=False)]
    arguments = ", ".join([*arrays, f"{TYPES[dtype]} *r", "int64_t n"])
    return f"void {name}({arguments}) {{ for (int64_t i = 0; i < n; i++) r[i] = {body}; }}"


def call(library: Any, name: str, arrays: list[Any], dtype: np.dtype[Any]) -> Any:
    """Call one."""
    count = len(arrays[0]) if arrays else 1
    result = np.empty(count, dtype)
    getattr(library, name)(
        *[ctypes.c_void_p(x.ctypes.data) for x in (*arrays, result)], ctypes.c_int64(count)
    )
    return result


def values(types: list[np.dtype[Any]]) -> list[Any]:
    """Return arrays of all combinations of values."""
    rows = itertools.product(*[VALUES[t.kind] for t in types])
    return [
        np.array(column).astype(t) for column, t in zip(zip(*rows, strict=True), types, strict=True)
    ]


@needs_cc
def test_expressions_give_what_numpy_does(tmp_path: Path) -> None:
    cases, functions = [], []
    for n, (name, types) in enumerate(calls()):
        arrays = values(types)
        with np.errstate(all="ignore"):
            wanted = ufunc(name)(*arrays)
            taken = [np.result_type(*types)] * len(types)
        assert wanted.dtype in TYPES, name
        operands = [Atom(f"{x}[i]") for x, _ in zip("abc", types, strict=False)]
        text = expression(name, operands, taken, wanted.dtype, [None] * len(types))
        assert text is not None, (name, types)
        functions.append(function(f"f{n}", types, wanted.dtype, str(text)))
        cases.append((f"f{n}", name, arrays, wanted))
    library = compiled(functions, tmp_path)
    for number, name, arrays, wanted in cases:
        found = call(library, number, arrays, wanted.dtype)
        if name in CLOSE:
            np.testing.assert_array_max_ulp(found, wanted, ULPS, wanted.dtype)
        else:
            np.testing.assert_array_equal(found, wanted, f"{name} {[x.dtype for x in arrays]}")


@needs_cc
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_polynomials_are_close_everywhere(dtype: str, tmp_path: Path) -> None:
    """All magnitudes, both signs, and the ends of the ranges of the polynomials."""
    t, rng = np.dtype(dtype), np.random.default_rng(0)
    info, count = np.finfo(t), 20_000
    ends = [0.5, 0.625, 0.9, 1, 2**0.5, 0.5**0.5, 4, 6, 9, 10, 17.3, 20, 50, 88.7, 89, 104, 709.7]
    near = np.array([e + step * info.eps for e in ends for step in range(-4, 5)], t)
    drawn = [
        rng.uniform(-1, 1, count), rng.uniform(0.5, 2, count), rng.uniform(-110, 110, count),
        rng.uniform(-720, 720, count), 10 ** rng.uniform(-30, 30, count), near,
        [info.tiny, info.tiny / 4, info.smallest_subnormal, info.max, np.inf, np.nan],
    ]  # fmt: skip
    x = np.concatenate([np.asarray(values, t) for values in drawn])
    x = np.concatenate([x, -x])
    texts = [expression(name, [Atom("a[i]")], [t], t, [None]) for name in CLOSE]
    functions = [
        function(f"{name}_of", [t], t, str(text)) for name, text in zip(CLOSE, texts, strict=True)
    ]
    library = compiled(functions, tmp_path)
    for name in CLOSE:
        with np.errstate(all="ignore"):
            wanted = ufunc(name)(x.astype(float)).astype(t)
        found = call(library, f"{name}_of", [x], t)
        np.testing.assert_array_max_ulp(found, wanted, ULPS, t)
        np.testing.assert_array_equal(np.signbit(found[x == 0]), np.signbit(wanted[x == 0]), name)


def test_of_what_there_are_expressions() -> None:
    for name, dtype in itertools.product(KINDS, TYPES):
        count = getattr(ufunc(name), "nin", 1)
        found = expression(name, [Atom("a")] * count, [dtype] * count, dtype, [None] * count)
        assert (found is not None) == (dtype.kind in KINDS[name]), (name, dtype)
    double, other = np.dtype(float), np.dtype(np.complex128)
    assert expression("arctan2", [Atom("a")] * 2, [double] * 2, double, [None] * 2) is None
    assert expression("add", [Atom("a")] * 2, [double, other], double, [None] * 2) is None
    assert expression("add", [Atom("a")] * 2, [double] * 2, other, [None] * 2) is None


CONVERTED = "f4 f8", "f8 f4", "i4 i8", "i8 i4", "i4 f4", "i8 f8", "b1 i4", "b1 f8", "f8 b1", "i4 b1"


@needs_cc
def test_conversions_give_what_numpy_does(tmp_path: Path) -> None:
    pairs = [tuple(map(np.dtype, pair.split())) for pair in (*CONVERTED, "b1 b1", "f4 f4")]
    functions = []
    for n, (of, to) in enumerate(pairs):
        text = expression("astype", [Atom("a[i]")], [of], to, [None])
        assert text is not None
        functions.append(function(f"f{n}", [of], to, str(text)))
    library = compiled(functions, tmp_path)
    for n, (of, to) in enumerate(pairs):
        (x,) = values([of])
        np.testing.assert_array_equal(call(library, f"f{n}", [x], to), x.astype(to), f"{of} {to}")
    for of, to in itertools.product(("f4", "f8"), ("i4", "i8")):  # infinities are no integers
        assert expression("astype", [Atom("a")], [np.dtype(of)], np.dtype(to), [None]) is None


@needs_cc
def test_choices_and_squares(tmp_path: Path) -> None:
    boolean, double, single = np.dtype(bool), np.dtype(float), np.dtype(np.float32)
    names = [Atom(f"{x}[i]") for x in "abc"]
    chosen = expression("where", names, [boolean, single, double], double, [None] * 3)
    functions = [function("chosen", [boolean, single, double], double, str(chosen))]
    for dtype in TYPES:
        types, given = [dtype] * 2, [None, np.dtype(dtype).type(2)]
        square = expression("power", [names[0], Atom("2")], types, dtype, given)
        assert (square is not None) == (dtype.kind in "if")
        if square is not None:
            functions.append(function(f"square_{dtype}", [dtype], dtype, str(square)))
    for given in [None, 3.0], [None, 1.0], [2.0, None], [None, None]:
        assert expression("power", names[:2], [double] * 2, double, given) is None
    mixed, alike = (
        expression("power", names[:2], [double, other], double, [None, 2])
        for other in (np.dtype(int), double)
    )
    assert mixed is not None and str(mixed) == str(alike)
    library = compiled(functions, tmp_path)
    arrays = values([boolean, single, double])
    np.testing.assert_array_equal(call(library, "chosen", arrays, double), np.where(*arrays))
    for dtype in TYPES:
        if dtype.kind in "if":
            (x,) = values([dtype])
            with np.errstate(all="ignore"):
                wanted = x * x
            np.testing.assert_array_equal(call(library, f"square_{dtype}", [x], dtype), wanted)


NUMBERS = {
    "f4": [0.1, -0.0, 3e38, 1e-45, np.nan, np.inf, -np.inf],
    "f8": [0.1, -0.0, 1e308, 5e-324, np.nan, np.inf, -np.inf],
    "i4": [0, -1, 2**31 - 1, -(2**31)],
    "i8": [0, -1, 2**63 - 1, -(2**63), -(2**63) + 1],
    "b1": [False, True],
}


@needs_cc
def test_numbers_keep_all_their_bits(tmp_path: Path) -> None:
    pairs = [(np.dtype(t), np.array(n, t)) for t, numbers in NUMBERS.items() for n in numbers]
    functions = [
        function(f"f{n}", [], dtype, str(literal(number[()], dtype)))
        for n, (dtype, number) in enumerate(pairs)
    ]
    library = compiled(functions, tmp_path)
    for n, (dtype, number) in enumerate(pairs):
        found = call(library, f"f{n}", [], dtype)[0]
        np.testing.assert_array_equal(found, number)
        assert np.signbit(found) == np.signbit(number) if dtype.kind == "f" else True


def test_numbers_that_no_type_has() -> None:
    for dtype in map(np.dtype, ("i4", "i8", "b1")):
        assert literal(np.float64(np.inf), dtype) is None
    assert literal(np.complex128(1), np.dtype(np.complex128)) is None


def test_reductions_that_are_there_for_some_types() -> None:
    i4, i8, f4, f8, b1 = map(np.dtype, ("i4", "i8", "f4", "f8", "b1"))
    for name in ("sum", "mean", "product"):
        assert is_reduction(name, i4, i8) and is_reduction(name, i8, f8)
        assert is_reduction(name, f4, f4)
        assert not is_reduction(name, b1, i8) and not is_reduction(name, f8, i8)
    for name in ("max", "min"):
        assert is_reduction(name, f4, f4) and is_reduction(name, i8, i8)
        assert not is_reduction(name, i4, i8) and not is_reduction(name, b1, b1)
    assert is_reduction("argmax", b1, i8) and not is_reduction("any", b1, b1)
