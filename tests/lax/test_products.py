"""Products that sum over dims, and transforms, beside their definitions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from tests.lax.calls import Call, check, check_everywhere, check_mapped, values
from tests.lax.definitions.registry import DTYPES
from tests.share import some

PAIRS = [
    (summed, batch)
    for summed_x, summed_y, batch_x, batch_y in itertools.product(
        [each for count in range(3) for each in itertools.permutations(range(3), count)], repeat=4
    )
    if len(summed_x) == len(summed_y) and len(batch_x) == len(batch_y)
    if not {*summed_x} & {*batch_x} and not {*summed_y} & {*batch_y}
    for summed, batch in [((summed_x, summed_y), (batch_x, batch_y))]
]
"""All numbers of dims of operands of three dims, which have up to two summed and two batched."""


@pytest.mark.parametrize("part", range(6))
def test_numbers_of_dims(part: int) -> None:
    same_lengths = values((2, 2, 2), "i8", 1), values((2, 2, 2), "i8", 2)
    others = values((2, 3, 1), "f8", 1), values((3, 1, 2), "f8", 2)
    for summed, batch in some(PAIRS[part :: 6 * 5], PAIRS[part::6]):
        check(Call("dot_general", *same_lengths, (summed, batch)))
        check(Call("dot_general", *others, (summed, batch)))


RANKS = [
    (x, y) for x in ((), (3,), (0,), (2, 3), (3, 2), (2, 3, 4)) for y in ((), (3,), (0,), (3, 2))
]


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("x", "y"), RANKS, ids=str)
def test_ranks(x: Any, y: Any) -> None:
    left, right = values(x, "f8", 1), values(y, "f8", 2)
    check(Call("dot", left, right))
    check(Call("batch_matmul", left, right))
    for axes in itertools.product(range(-3, 3), repeat=2):
        check(Call("dot_general", left, right, (((axes[0],), (axes[1],)), ((), ()))))
        check(Call("dot", left, right, dimension_numbers=(((), ()), ((axes[0],), (axes[1],)))))
    check(Call("dot_general", left, right, (((), ()), ((), ()))))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_type(dtype: Any) -> None:
    x, y = values((3, 4, 2), dtype, 1), values((3, 2, 5), dtype, 2)
    numbers = (((2,), (1,)), ((0,), (0,)))
    check_everywhere(Call("dot_general", x, y, numbers))
    check(Call("batch_matmul", x, y))
    check(Call("dot", x[0], y[0]))
    check(Call("dot", x[0, 0], y[0, :, 0]))
    wide = {"b": "?", "i": "i8", "u": "u8", "f": "f8", "c": "c16"}[dtype.kind]
    check_everywhere(Call("dot_general", x, y, numbers, None, wide))
    check(Call("dot", x[0], y[0], preferred_element_type=wide))


def test_what_does_not_fit() -> None:
    x = values((2, 3), "f8")
    for numbers in (
        (((0,), (1,)), ((), ())), (((0, 0), (0, 0)), ((), ())), (((0,), (0,)), ((0,), (0,))),
        (((0, 1), (0,)), ((), ())), (((2,), (2,)), ((), ())), (((), ()), ((0,), (1,))),
        (((0,), (0,)), ((0,), (1,))), (((0,), (0,)), ((1,), (0,))), (((-2,), (0,)), ((0,), (1,))),
    ):  # fmt: skip
        check(Call("dot_general", x, x, numbers))
    square, numbers = values((2, 2), "f8"), (((0,), (0,)), ((0,), (1,)))
    check(Call("dot_general", square, square, numbers))  # a dim of the left one is named twice
    for numbers in (3, (), ((0,), (0,)), None, (((0,),), ((), ())), "ab"):
        with pytest.raises(gs.errors.ArgumentError):
            gs.lax.dot_general(x, x, numbers)
    check(Call("batch_matmul", x[None], x))
    check(Call("batch_matmul", x[0], x[0]))
    check(Call("dot", values((2, 2, 3), "f8"), x[0]))
    check(Call("dot", x, values((3, 2, 2), "f8")))


EVERYWHERE = [
    Call("dot", values((3, 4), "f8", 1), values((4, 2), "f8", 2)),
    Call("dot", values((4,), "f8", 1), values((4, 2), "f8", 2)),
    Call("batch_matmul", values((2, 3, 4), "f8", 1), values((2, 4, 2), "f8", 2)),
    Call("dot_general", values((5, 3, 4), "f4", 1), values((4, 5, 2), "f4", 2),
         (((2,), (0,)), ((0,), (1,)))),
    Call("dot_general", values((5, 3, 4), "i4", 1), values((4, 3, 5), "i4", 2),
         (((2, 1), (0, 1)), ((), ()))),
    Call("fft", values((3, 4), "c16"), "FFT", (4,)),
    Call("fft", values((3, 4), "f8"), "rfft", (4,)),
    Call("stop_gradient", (values((3, 4), "f8"), [values((3,), "i4")])),
    Call("optimization_barrier", [values((3, 4), "f8")]),
]  # fmt: skip


@pytest.mark.parametrize("call", EVERYWHERE, ids=repr)
def test_traced_and_mapped(call: Call) -> None:
    check_everywhere(call)
    check_mapped(call, traced=True)


SHAPES = [(4,), (5,), (3, 4), (2, 3, 2), (1,), (2, 1)]


@pytest.mark.parametrize("kind", [*gs.lax.FftType], ids=str)
def test_fft(kind: Any) -> None:
    for shape in SHAPES:
        for many in range(len(shape) + 1):
            for dtype in ("f4", "f8") if kind.name == "RFFT" else ("c8", "c16"):
                lengths = shape[len(shape) - many :]
                x = values(shape, dtype, 1)
                if kind.name != "IRFFT":
                    check(Call("fft", x, kind, lengths))
                    check(Call("fft", x, kind.name.lower(), list(lengths)))
                elif many:
                    for last in range(1, 2 * lengths[-1] + 2):
                        check(Call("fft", hermitian(x, last), kind, (*lengths[:-1], last)))


def hermitian(x: Any, last: int) -> Any:
    """Return half of a transform of real numbers."""
    if last // 2 + 1 != x.shape[-1]:
        return x
    real = values((*x.shape[:-1], last), "f8", 3)
    return np.fft.rfftn(real, axes=tuple(range(x.ndim))).astype(x.dtype)


def test_fft_that_does_not_fit() -> None:
    x = values((3, 4), "c16")
    for lengths in ((5,), (3,), (4, 4), (3, 4, 1), (2, 3, 4)):
        for name in ("FFT", "IFFT", "IRFFT"):
            check(Call("fft", x, name, lengths))
        check(Call("fft", x.real, "RFFT", lengths))
    for name in ("FFT", "IFFT", "IRFFT"):
        for dtype in (dtype for dtype in DTYPES if dtype.kind != "c"):
            check(Call("fft", values((3, 4), dtype), name, (4,)))
    for dtype in (dtype for dtype in DTYPES if dtype.kind != "f"):
        check(Call("fft", values((3, 4), dtype), "RFFT", (4,)))
    for beyond in ((-1,), (3, -1), (-2,), (0,)):
        with pytest.raises(gs.errors.ArgumentError):
            gs.lax.fft(x, "IRFFT", beyond)
    for name in ("DCT", "", 7):
        check(Call("fft", x, name, (4,)))


def test_values_stay_as_they_are() -> None:
    for function in (gs.lax.stop_gradient, gs.lax.optimization_barrier):
        assert function({"a": 1, "b": (2.5, None)}) == {"a": 1, "b": (2.5, None)}
