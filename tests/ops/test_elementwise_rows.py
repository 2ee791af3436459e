"""Rows of ufuncs on backends that lack some of them."""

import types
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._array import operators
from gpushard._ops.aval import Aval
from gpushard._ops.bind import bind
from gpushard._ops.row import Params, Row
from gpushard._ops.table.contractions import EINSUM
from gpushard._ops.table.elementwise import ASTYPE, CLIP, COPY, REAL, ufunc_row
from gpushard.errors import ArgumentTypeError
from tests.numpy.compare import memory_of


def test_a_ufunc_that_a_backend_lacks_is_named() -> None:
    xp = types.ModuleType("cupy")
    xp.sin = np.sin  # type: ignore[attr-defined]
    operand = [Aval((3,), np.dtype("d"))]
    assert ufunc_row(np.sin).kernel(xp, operand, ()) is np.sin
    with pytest.raises(ArgumentTypeError, match="spacing is not available"):
        ufunc_row(np.spacing).kernel(xp, operand, ())


@pytest.mark.parametrize(
    ("row", "params", "operands", "dtype"),
    [
        (ASTYPE, (np.dtype("i"),), "f", "i"),
        (COPY, (), "f", "f"),
        (REAL, (), "D", "d"),
        (CLIP, (True, True), "fff", "f"),
        (CLIP, (False, True), "id", "d"),
        (EINSUM, ("ab->ab",), "d", "d"),
    ],
)
def test_results_are_written_where_they_go(
    row: Row, params: Params, operands: str, dtype: str
) -> None:
    arrays = [np.full((64, 64), 2.7 + n).astype(kind) for n, kind in enumerate(operands)]
    kernel = row.kernel(np, [Aval(a.shape, a.dtype) for a in arrays], params)
    out = np.empty((64, 64), dtype)
    wanted = kernel(*arrays)
    assert wanted.dtype == dtype and not any(np.shares_memory(wanted, a) for a in arrays)
    kernel(*arrays, out=out)
    np.testing.assert_array_equal(out, wanted)
    if operands != "id":  # NumPy converts what it clips
        assert memory_of(kernel, *arrays, out=out) < out.nbytes / 4


def test_squares_are_products(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = []

    def recorded(row: Row, operands: Any) -> Any:
        bound.append(row.name)
        return bind(row, operands)

    monkeypatch.setattr(operators, "bind", recorded)
    for dtype in "bHlefdFD":
        data = np.array([3, 0, 9, 100]).astype(dtype)
        x = gs.device_put(data)
        for exponent in (2, 2.0, True, np.int8(2), 3):
            with np.errstate(over="ignore"):  # of float16
                found, wanted = x**exponent, data**exponent
            assert found.dtype == wanted.dtype
            close = 16 * np.finfo(dtype).eps if dtype in "FD" else 0  # CuPy takes logarithms
            np.testing.assert_allclose(found, wanted, rtol=close)
    assert bound.count("square") == 8 + 5
