"""Ufuncs that leave elements of `out` unwritten: which of NumPy's do, and that ours do not."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from gpushard._ops.aval import Aval
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._runtime.host.ufuncs import INCOMPLETE, host_ufunc
from tests.share import some

UFUNCS = sorted(
    {
        u
        for u in vars(np).values()
        if isinstance(u, np.ufunc) and u.nin <= 2 and u.signature is None
    },
    key=lambda u: u.__name__,
)
TESTS_OF_FLOATS = sorted(INCOMPLETE - {np.negative}, key=lambda u: u.__name__)
LENGTHS = some([1, 15, 16, 17, 33, 66, 130, 300], range(1, 301))
OUTER = some([1, 2, -1, 5], [1, 2, 3, -1, -2, 5, 8, 64])
INNER = some([1, 4, 8], [1, 2, 3, 4, 8, -1, -4, 64])


def apart(x: np.ndarray, step: int) -> np.ndarray:
    """Copy elements to memory where neighbours are `step` elements apart."""
    view = np.zeros(len(x) * abs(step) + 1, x.dtype)[::step][: len(x)]
    view[...] = x
    return view


def bytes_of(x: np.ndarray) -> np.ndarray:
    """Return elements as rows of bytes."""
    return np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1)


def opposite(x: np.ndarray) -> np.ndarray:
    """Return elements of other bytes."""
    return ~x if x.dtype == bool else (~bytes_of(x)).view(x.dtype)[:, 0]


def results_of(call: Callable[..., Any], *operands: np.ndarray) -> tuple[np.ndarray, ...]:
    with np.errstate(all="ignore"):
        results = call(*operands)
    return results if isinstance(results, tuple) else (results,)


def loops_of(ufunc: np.ufunc) -> list[Sequence[np.ndarray]]:
    """Return operands for each loop of numbers, dates and intervals that a ufunc has."""
    loops = []
    for loop in ufunc.types:
        if "O" in loop:
            continue
        types = [np.dtype(c + "8[s]" if c in "mM" else c) for c in loop.partition("->")[0]]
        numbers = np.random.default_rng(7).integers(1, 20, (len(types), 300))
        operands = [n.astype(t) for n, t in zip(numbers, types, strict=True)]
        try:
            results_of(ufunc, *operands)
        except TypeError:  # dates in a unit that the loop does not take
            continue
        loops.append(operands)
    return loops


def is_incomplete(call: Callable[..., Any], operands: Sequence[np.ndarray]) -> bool:
    """Whether a call leaves elements of strided results as they were before, or writes others."""
    wanted = results_of(call, *operands)
    others = [opposite(x) for x in wanted]
    for inner in INNER:
        strided = [apart(x, inner) for x in operands]
        for outer in OUTER:
            for n in LENGTHS:
                outs = tuple(apart(x[:n], outer) for x in others)
                results_of(lambda *xs, outs=outs: call(*xs, out=outs), *(x[:n] for x in strided))
                if any(
                    (bytes_of(x) == bytes_of(other[:n])).all(1).any()
                    for x, other in zip(outs, others, strict=True)
                ):
                    return True
                if any(
                    x.dtype.kind in "biufc" and not np.allclose(x, want[:n], 1e-2, equal_nan=True)
                    for x, want in zip(outs, wanted, strict=True)
                ):
                    return True
    return False


@pytest.mark.one_of(4)
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
def test_what_kernels_call_writes_every_element(ufunc: np.ufunc) -> None:
    """Fails for a NumPy of which another ufunc is incomplete: that one belongs in `INCOMPLETE`."""
    bad = [
        [x.dtype.name for x in xs] for xs in loops_of(ufunc) if is_incomplete(host_ufunc(ufunc), xs)
    ]
    assert not bad, f"numpy.{ufunc.__name__} leaves elements of strided results unwritten: {bad}"


@pytest.mark.parametrize("ufunc", TESTS_OF_FLOATS, ids=lambda u: u.__name__)
def test_the_defect_is_of_single_and_double_precision(ufunc: np.ufunc) -> None:
    """NumPy without the defect passes, too; one that has it elsewhere does not."""
    bad = {xs[0].dtype.char for xs in loops_of(ufunc) if is_incomplete(ufunc, xs)}
    assert bad <= {"f", "d"}


@pytest.mark.parametrize("dtype", ["i4", "i8", "u4", "f4", "f8"])
def test_negative_of_every_fourth_and_eighth_number(dtype: str) -> None:
    for step in (4, 8):
        x = np.arange(80).astype(dtype)[::step]
        out = np.zeros((len(x), 3), dtype)[:, 1]
        host_ufunc(np.negative)(x, out=out)
        np.testing.assert_array_equal(out, np.zeros(len(x), dtype) - x)


@pytest.mark.parametrize("ufunc", TESTS_OF_FLOATS, ids=lambda u: u.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[::-1, ::2],
        lambda x: np.broadcast_to(x[:, :1], (20, 300)),
        lambda x: np.broadcast_to(x[None, ::3], (4, 7, 300)),
        lambda x: x.reshape(20, 15, 20).transpose(2, 0, 1),
    ],
)
def test_contiguous_results_are_complete(
    ufunc: np.ufunc, dtype: Any, view: Callable[[np.ndarray], np.ndarray]
) -> None:
    """NumPy writes fresh and contiguous results in order, however operands lie."""
    x = view(np.random.default_rng(3).choice([1, -1], (20, 300)).astype(dtype))
    expected = np.array([bool(ufunc(n)) for n in x.flat]).reshape(x.shape)
    np.testing.assert_array_equal(host_ufunc(ufunc)(x), expected)
    out = ~expected
    host_ufunc(ufunc)(x, out=out)
    np.testing.assert_array_equal(out, expected)
    column = np.stack([~expected] * 2, -1)[..., 0]
    assert host_ufunc(ufunc)(x, out=column) is column
    np.testing.assert_array_equal(column, expected)


@pytest.mark.parametrize("ufunc", TESTS_OF_FLOATS, ids=lambda u: u.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_rows_call_it(ufunc: np.ufunc, dtype: str) -> None:
    """A kernel of the host's writes to any memory; jit's tiles give it columns."""
    avals = (Aval((300, 2), np.dtype(dtype)),)
    kernel = ufunc_row(ufunc).kernel(np, avals, ())
    x = -np.ones((300, 2), dtype)
    expected = np.full((300, 2), ufunc in (np.isfinite, np.signbit))
    out = ~expected
    for n in range(2):
        kernel(x[:, n], out=out[:, n])
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", ["isfinite", "isnan", "isinf", "signbit"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_jit_of_it_with_a_reduction_of_rows(name: str, dtype: str) -> None:
    def of_columns(x: Any) -> Any:
        flags = getattr(gnp, name)(x)
        return flags, flags.all(axis=0)

    host = np.tile(np.array([1, np.nan, -np.inf, -2], dtype), (35_000, 16))
    with testing.runtime(host_devices=2, compiler=""):
        x = gs.device_put(host)
        flags, every = map(np.asarray, gs.jit(of_columns)(x))
    expected = getattr(np, name)(host)
    np.testing.assert_array_equal(flags, expected)
    np.testing.assert_array_equal(every, expected.all(0))
