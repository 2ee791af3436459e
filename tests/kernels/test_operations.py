"""The functions of kernels/*.cuh, on the CPU, do what the rows do with NumPy."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpushard._ops.aval import Aval
from gpushard._ops.prng import erfinv_coefficients
from gpushard._ops.row import Row, Site
from gpushard._ops.table import random
from tests.kernels.harness import KERNELS, SANITIZERS, build, run
from tests.share import some

DRAWN: list[tuple[Row, str, tuple[Any, ...], float]] = [
    (random.BITS, "u1", (), 0),
    (random.BITS, "u8", (), 0),
    (random.UNIFORM, "f4", (np.float32(-2.5), np.float32(7.25)), 0),
    (random.UNIFORM, "f8", (), 0),
    (random.NORMAL, "f4", (), 1e-6),
    (random.NORMAL, "f8", (), 1e-14),
    (random.RANDINT, "i4", (np.int32(-3), np.int32(99)), 0),
    (random.RANDINT, "i8", (np.int64(-3), np.int64(5 * 10**18)), 0),
    (random.GAMMA, "f8", (np.float64(0.3),), 1e-12),
    (random.POISSON, "f8", (np.float64(40),), 0),
    (random.POISSON, "f8", (np.float64(3),), 0),
    (random.BINOMIAL, "f8", (np.float64(100), np.float64(0.4)), 0),
    (random.TRUNCATED_NORMAL, "f4", (np.float32(-0.5), np.float32(1.5)), 2e-6),
    (random.MAXWELL, "f8", (), 1e-13),
    (random.GUMBEL_HIGH, "f8", (np.float64(2),), 1e-13),
]
"""A row for each number of the program from 0 on: dtype, parameters, how close."""


@pytest.fixture(scope="module", params=some(SANITIZERS[:1], SANITIZERS))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("own", request.param, tmp_path_factory.mktemp("own"))


def test_drawn_numbers_are_those_of_the_rows(program: Path) -> None:
    first, count = (1 << 32) - 70, 600  # over the end of a word
    key = np.array([7, 0xDEADBEEF], np.uint32)
    for number, (row, name, parameters, close) in enumerate(DRAWN):
        dtype = np.dtype(name)
        case = struct.pack("I", number) + key.tobytes() + struct.pack("QQ", first, count)
        found = np.frombuffer(run(program, [case]), dtype)
        avals = [Aval((), np.dtype(np.uint64)), *(Aval((), p.dtype) for p in parameters)]
        kernel = row.kernel(np, avals, ((first + count,), dtype))
        want = kernel(Site(((),), (first,), (count,)), key.view(np.uint64)[0], *parameters)
        np.testing.assert_allclose(found, want, rtol=close, atol=close, err_msg=row.name)


UPDATES = [
    (np.int32, None),
    (np.float64, np.add),
    (np.uint32, np.multiply),
    (np.float64, np.maximum),
    (np.float64, np.divide),
]
"""A type and a ufunc for each number of the program from 20 on."""


def test_updates_are_made_in_order_and_by_one_thread(program: Path) -> None:
    rng = np.random.default_rng(3)
    for number, (kind, ufunc) in enumerate(UPDATES, start=20):
        x, values = (rng.integers(1, 5, n).astype(kind) for n in (9, 200))
        if kind is np.float64:
            x[2] = values[5] = np.nan
        start, size = 4, 20  # the block is a part of the whole
        at = rng.integers(-size - 3, size + 3, 200)
        whole = np.where(at < 0, at + size, at)
        mine = (at >= -size) & (whole >= start) & (whole < start + 9)
        want = x.copy()
        if ufunc is None:
            want[whole[mine] - start] = values[mine]
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                ufunc.at(want, whole[mine] - start, values[mine])
        order = np.argsort(np.where(mine, whole, -1), kind="stable")
        work = (x, values, at, order, np.array([start, size]))
        case = struct.pack("=IQQ", number, 9, 200) + b"".join(part.tobytes() for part in work)
        assert run(program, [case]) == want.tobytes() * 2, (kind, ufunc)


def test_bins_and_extremes_are_numpys(program: Path) -> None:
    rng = np.random.default_rng(5)
    edges = np.array([-2.0, -1.0, -1.0, 0.5, 3.0])
    x = np.concatenate([rng.normal(0, 2, 100), edges, [np.nan, np.inf, -np.inf]])
    case = struct.pack("=IQQ", 30, len(edges) - 1, len(x)) + edges.tobytes() + x.tobytes()
    found = np.frombuffer(run(program, [case]), np.int64)
    inside = (x >= edges[0]) & (x <= edges[-1])
    want = np.minimum(np.searchsorted(edges, x, "right") - 1, len(edges) - 2)
    np.testing.assert_array_equal(found, np.where(inside, want, -1))
    finite = np.where(np.isfinite(x), x, np.nan)
    for values in (finite, np.full(4, np.nan), np.array([2.0, -3.0, 2.0, -3.0])):
        case = struct.pack("=IQ", 31, len(values)) + values.tobytes()
        out = run(program, [case])
        with np.errstate(all="ignore"):
            ends = [np.fmin.reduce(values), np.fmax.reduce(values)]
        np.testing.assert_array_equal(np.frombuffer(out[:16]), ends)
        at = values[values == values].astype(np.int64)
        lengths = np.where(at < 0, -1 - at, at)
        furthest, *places = np.frombuffer(out[16:], np.int64).tolist()
        assert (-1 - furthest if furthest < 0 else furthest) == lengths.max(initial=0)
        assert places == [values.argmin(), values.argmax()]


def test_coefficients_are_those_of_the_host() -> None:
    text = (KERNELS / "random.cuh").read_text()
    tables = re.findall(r"constexpr (?:float|double) k\w+\[\] = \{(.*?)\}", text, re.DOTALL)
    found = [tuple(float(n.rstrip("f")) for n in re.findall(r"[-\d.ef]+", t)) for t in tables]
    assert found == [
        piece.coefficients for piece in (*erfinv_coefficients.SINGLE, *erfinv_coefficients.DOUBLE)
    ]
