"""Reductions, running ones, and sorting beside their definitions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.table.cumulative import CUMSUM
from gpushard.lax import cumulative, reductions
from tests.lax.calls import (
    Call,
    check,
    check_everywhere,
    check_mapped,
    defined,
    placed,
    same,
    values,
)
from tests.lax.definitions.reductions import ACCEPTS
from tests.lax.definitions.registry import DTYPES
from tests.share import some

REDUCTIONS = [name for name in ACCEPTS if name.startswith("reduce_")]
RUNNING = [name for name in ACCEPTS if name.startswith("cum")]
AXES = [
    (),
    (0,),
    (1,),
    (-1,),
    (0, 1),
    (1, 0),
    (0, 2),
    (2, 1, 0),
    (-3, 1),
    (3,),
    (-4,),
    (0, 0),
    (0, -3),
]
NANS = np.array(
    [[1.0, np.nan, -2.0], [np.inf, 0.0, -0.0], [np.nan, np.nan, 1.0], [-np.inf, 3.0, 3.0]]
)


def accepted(name: str) -> list[Any]:
    """Return dtypes that a function takes; by default each third one, which others do not."""
    every = [dtype for dtype in DTYPES if dtype.kind in ACCEPTS[name]]
    return some(every[::-1][len(name) % 3 :: 3], every)


def axes_of(dtype: Any) -> Sequence[int]:
    """Return every axis of three dims, and beyond; of few types by default."""
    return range(-4, 4) if some(dtype.itemsize == 8, True) else (0, -1)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    for dtype in accepted(name):
        x = values((3, 2, 5), dtype, 1)
        for axes in AXES if dtype.char in "?ldD" else AXES[2:5]:
            check(Call(name, x, axes))
        check(Call(name, x[:, :, 0], [0]))
        for empty in (x[:0], x[:, :0]):
            check(Call(name, empty, (0,)))
            check(Call(name, empty, (1, 2)))
        check_everywhere(Call(name, x, (0,)))
    check_everywhere(Call(name, x, (2, 0)))
    check_mapped(Call(name, x, (1,)), traced=True)


@pytest.mark.parametrize("length", range(1, 18))
def test_reductions_of_bits_of_each_length(length: int) -> None:
    for dtype in ("u1", "i4", "?"):
        x = values((length, 2), "i4", length, -99, 99)
        x = (x > 0) if dtype == "?" else x.astype(dtype)
        for name in ("reduce_and", "reduce_or", "reduce_xor"):
            check(Call(name, x, (0,)))


@pytest.mark.parametrize("name", [name for name in REDUCTIONS if "f" in ACCEPTS[name]])
def test_reductions_of_nans(name: str) -> None:
    for dtype in ("f2", "f4", "f8"):
        for axes in ((0,), (1,), (0, 1)):
            check(Call(name, NANS.astype(dtype), axes))


@pytest.mark.parametrize("name", [*REDUCTIONS, *RUNNING, "top_k"])
def test_refused_types(name: str) -> None:
    args = {"top_k": (1,)}.get(name, ((0,),) if name in REDUCTIONS else (0,))
    for dtype in DTYPES:
        if dtype.kind not in ACCEPTS[name]:
            with pytest.raises(gs.errors.ArgumentTypeError, match=f"lax.{name} does not take"):
                getattr(gs.lax, name)(np.ones(3, dtype), *args)


def by_sum_and_product(a: Any, b: Any) -> Any:
    return a + b + a * b


def first(a: Any, b: Any) -> Any:
    return a


def last(a: Any, b: Any) -> Any:
    return b


def after(a: Any, b: Any) -> Any:
    """One linear function after the other: associative, and their order matters."""
    return [a[0] * b[0], a[1] * b[0] + b[1]]


def in_tuples(a: Any, b: Any) -> Any:
    return a[0] + b[0], a[1] * b[1], by_sum_and_product(a[2], b[2])


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13])
def test_reduce(length: int) -> None:
    x, y = values((length, 2), "i8", 1), values((length, 2), "i8", 2)
    for function in (by_sum_and_product, first, last):
        for dims in ((0,), (-2,), (1,), (0, 1)):
            if dims == (0,) or function is by_sum_and_product:
                check(Call("reduce", x, np.int64(0), function, dims))
    check(Call("reduce", [x, y], [np.int64(1), np.int64(0)], after, (0,)))
    z = y.astype("f8")
    inits = (np.int64(3), np.float64(2), 0)
    check(Call("reduce", (x, z, y), inits, in_tuples, (0,)))
    for operation in (lambda a, b: a + b, lambda a, b: a * b):
        check(Call("reduce", x, 2, operation, (0,)))


class BySum:
    """A function without a hash, as objects have that can be changed."""

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, a: Any, b: Any) -> Any:
        return a + b


def test_reduce_by_what_has_no_hash() -> None:
    check(Call("reduce", values((5, 3), "i8"), 7, BySum(), (0,)))


@pytest.mark.parametrize("dtype", ["i4", "u1", "f4", "f8", "?", "c8"])
def test_reduce_by_known_functions(dtype: str) -> None:
    x = values((5, 3), dtype, 1)
    init = values((), dtype, 2)
    definitions = {
        "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "bitwise_and": lambda a, b: a & b,
        "max": lambda a, b: np.maximum(a, b), "min": lambda a, b: np.minimum(a, b),
        "bitwise_or": lambda a, b: a | b, "bitwise_xor": lambda a, b: a ^ b,
    }  # fmt: skip
    for name, function in definitions.items():
        kinds = {"a": "iufc", "m": "iufc" if name == "mul" else "biuf", "b": "biu"}[name[0]]
        if np.dtype(dtype).kind not in kinds:
            continue
        for axes in ((0,), (1,), (0, 1), ()):
            call = Call("reduce", x, init, function, axes)
            for known in (getattr(gs.lax, name), getattr(np, UFUNCS.get(name, name))):
                with np.errstate(all="ignore"):
                    result = gs.lax.reduce(placed(x, call.seed()), init, known, axes)
                same(result, defined(call))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_reduce_of_dims_without_elements(shape: tuple[int, int], axes: tuple[int, ...]) -> None:
    check(Call("reduce", np.ones(shape), 5.0, lambda a, b: a * b + 1, axes))


UFUNCS = {"mul": "multiply", "max": "maximum", "min": "minimum"}


def test_reduce_that_does_not_fit() -> None:
    x = values((5, 3), "i8")
    for args in (
        ((x, x), (0,)), ((x,), (0, 0)), ((), ()), ((x, x[:2]), (0, 0)), (x, x[0]), (x, 0.5),
        (x, np.float32(1)),
    ):  # fmt: skip
        check(Call("reduce", *args, first, (0,)))
    for dims in ((2,), (-3,), (0, 0), (0, -2)):
        check(Call("reduce", x, 0, first, dims))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("reverse", [False, True])
def test_running(name: str, reverse: bool) -> None:
    for dtype in accepted(name):
        x = values((3, 2, 5), dtype, 1)
        for axis in range(-4, 4) if dtype.itemsize == 8 else (0, -1):
            check(Call(name, x, axis, reverse))
        check(Call(name, x[:, :0], 1, reverse=reverse))
        check(Call(name, x[:, 0], reverse=reverse))
    check_everywhere(Call(name, x, 2, reverse))
    check_mapped(Call(name, x, 0, reverse), traced=True)
    if name in ("cummax", "cummin"):
        check(Call(name, NANS, 0, reverse))
        check(Call(name, NANS.astype("f2"), 1, reverse))


def test_a_new_running_function_goes_along_the_first_dim_from_its_start() -> None:
    x = values((3, 2, 5), "i8", 1)
    running = cumulative._running("running", CUMSUM, "Return running sums.")
    np.testing.assert_array_equal(running(x), np.cumsum(x, 0))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places(name: str) -> None:
    for dtype in DTYPES:
        if dtype.kind == "c":
            continue
        x = values((3, 4, 5), dtype, 1, -1, 2)
        for axis in axes_of(dtype):
            check(Call(name, x, axis, "i4"))
    for index_dtype in ("i1", "u1", "i8", "u4", np.int32, int):
        check(Call(name, x[:, :, 0].real, 0, index_dtype))
    x = values((4, 5), "f8", 2)
    check_everywhere(Call(name, x, 1, "i4"))
    check_everywhere(Call(name, NANS, 0, np.int64))
    check(Call(name, NANS, 1, np.int32))
    check(Call(name, NANS[:0], 0, np.int32))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sort(dtype: Any) -> None:
    x, y = values((4, 3, 5), dtype, 1, -1, 1), values((4, 3, 5), "f4", 2)
    for at in axes_of(dtype):
        check(Call("sort", x, at))
        check(Call("sort_key_val", x, y, at))
        check(Call("sort", [x, y, x], at, num_keys=2))
    check(Call("sort", x))
    check(Call("sort", (x,)))
    check(Call("sort_key_val", x, y))
    check_everywhere(Call("sort", x, 1))
    check_everywhere(Call("sort", (x, y), 0))


def test_sort_of_several() -> None:
    xs = tuple(
        values((7, 4), dtype, seed, 0, 1) for seed, dtype in enumerate(["i1", "f4", "?", "i8"])
    )
    for count in range(1, 5):
        for keys in range(6):
            check(Call("sort", xs[:count], 0, True, keys))
            check(Call("sort", xs[:count][::-1], -1, False, num_keys=keys))
    check_everywhere(Call("sort", xs, 0, num_keys=3))
    check(Call("sort", (NANS, NANS[::-1]), 0, num_keys=2))
    check(Call("sort", NANS, 1))
    check(Call("sort_key_val", NANS, NANS[::-1], 0))
    for bad in ((xs[0], xs[1][:3]), (xs[0], xs[1][0])):
        check(Call("sort", bad, 0))
    check(Call("sort", xs[0][:0], 0))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.kind != "c"], ids=str)
def test_top_k(dtype: Any) -> None:
    x = values((4, 3, 5), dtype, 1, -1, 2)
    for axis in axes_of(dtype):
        for k in range(-1, 7):
            check(Call("top_k", x, k, axis=axis))
    check(Call("top_k", x, 2))
    check_everywhere(Call("top_k", x, 3))
    check_everywhere(Call("top_k", x, 2, axis=0))


def test_top_k_of_nans() -> None:
    for dtype in ("f2", "f4", "f8"):
        for k in range(5):
            check(Call("top_k", NANS.astype(dtype), k, axis=0))
    for k in (1.5, "a", None):
        with pytest.raises(gs.errors.ArgumentTypeError):
            gs.lax.top_k(NANS, k)


@pytest.mark.parametrize(
    "function", [gs.lax.add, gs.numpy.add, np.add, operator.add, gs.lax.max, gs.numpy.maximum, max]
)
def test_reductions_by_functions_of_all_namespaces_are_known(function: Any) -> None:
    """None of them is called for pairs of neighbours."""
    x = gs.numpy.arange(5)
    with mock.patch.object(reductions, "_neighbours", side_effect=AssertionError):
        found = gs.lax.reduce(x, 0, function, (0,))
    assert int(found) == (10 if "add" in function.__name__ else 4)
    windows = gs.lax.reduce_window(x, 0, function, (2,))
    assert windows.tolist() == ([1, 3, 5, 7] if "add" in function.__name__ else [1, 2, 3, 4])


def test_other_ufuncs_are_combined_by_neighbours() -> None:
    x = gs.numpy.asarray([3.0, 4.0])
    for function in (gs.numpy.hypot, np.hypot):
        assert float(gs.lax.reduce(x, 0.0, function, (0,))) == 5.0
        with pytest.raises(gs.errors.ArgumentError, match=r"is unknown; use lax\.add"):
            gs.lax.reduce_window(x, 0.0, function, (2,))
