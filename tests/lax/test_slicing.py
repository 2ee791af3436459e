"""Functions that take, or replace, a part of an array beside their definitions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from tests.lax.calls import (
    Call,
    Held,
    check,
    check_everywhere,
    check_mapped,
    check_traced,
    defined,
    placed,
    same,
    values,
)
from tests.lax.definitions.registry import DTYPES
from tests.share import some

X = values((5, 3), "f8", 1)
CUBE = values((3, 4, 5), "i4", 2)
LINE = values((6,), "f4", 3)
NONE = values((0, 3), "f4")
POINT = values((), "f8", 1)

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


@pytest.mark.parametrize("stride", [None, 1, 2, 3, 7, 0, -1])
def test_slice(stride: Any) -> None:
    strides = None if stride is None else (stride,)
    for start, limit in itertools.product(range(-1, 8), repeat=2):
        check(Call("slice", LINE, (start,), (limit,), strides))
    for start, limit in itertools.product(range(-1, 5), repeat=2):
        strides = None if stride is None else (2, stride)
        check(Call("slice", X, (1, start), (5, limit), strides))


def test_slice_of_other_lengths() -> None:
    for args in (((0,), (5,)), ((0, 0), (5,)), ((0,), (5, 3)), ((0, 0), (5, 3), (1,)), ((), ())):
        check(Call("slice", X, *args))
    check(Call("slice", POINT, (), ()))
    check(Call("slice", NONE, (0, 1), (0, 3)))
    check(Call("slice", NONE, (0, 1), (1, 3)))
    for bad in ((0.0, 1), ("a", 1)):
        with pytest.raises(gs.errors.ArgumentTypeError):
            gs.lax.slice(X, bad, (5, 3))


ENDS = [None, *range(-7, 8)]


@pytest.mark.parametrize("stride", [1, 2, 5, 0, -1])
def test_slice_in_dim(stride: int) -> None:
    for start, limit in itertools.product(ENDS, repeat=2):
        check(Call("slice_in_dim", LINE, start, limit, stride))
    for axis in range(-4, 4):
        check(Call("slice_in_dim", CUBE, 1, -1, stride, axis))
        check(Call("slice_in_dim", CUBE, None, None, stride=stride, axis=axis))


@pytest.mark.parametrize("keepdims", [True, False])
def test_index_in_dim(keepdims: bool) -> None:
    for index in (*range(-7, 8), np.int8(2), np.int64(-1), 1.5, "a"):
        check(Call("index_in_dim", LINE, index, 0, keepdims))
    for axis in range(-4, 4):
        for index in (-5, -4, -1, 0, 2, 4):
            check(Call("index_in_dim", CUBE, index, axis, keepdims))
    check(Call("index_in_dim", NONE, 0, 0, keepdims))
    check(Call("index_in_dim", NONE, -1, 1, keepdims))


def test_index_take() -> None:
    for axes in [(0,), (1,), (2,), (-1,), (0, 2), (2, 0), (1, 2), (2, 1, 0), (-3, -1)]:
        for dtype in ("i4", "u1", "i8"):
            idxs = [values((4,), dtype, at, -8, 8) for at in range(len(axes))]
            check(Call("index_take", CUBE, tuple(idxs), axes))
            check(Call("index_take", CUBE, tuple(map(Held, idxs)), axes))
    idxs = (values((4,), "i4", 1, -8, 8), values((4,), "i4", 2, -8, 8))
    check_everywhere(Call("index_take", CUBE, idxs, (2, 0)))
    check_everywhere(Call("index_take", CUBE, list(idxs[:1]), (1,)))
    for axes in [(0, 0), (0, 3), (0,), (0, 1, 2), (0, -3)]:
        check(Call("index_take", CUBE, idxs, axes))


def held(start: int) -> list[Any]:
    """Return an integer in all the forms that a place may have."""
    return [start, np.int32(start), np.array(start), Held(np.array(start, "i2"))]


@pytest.mark.parametrize("size", range(-1, 8))
def test_dynamic_slice_of_each_start(size: int) -> None:
    for start in some((-14, -7, -6, -5, -1, 0, 1, 3, 5, 6, 14), range(-14, 15)):
        for place in held(start):
            check(Call("dynamic_slice", LINE, (place,), (size,)))
            check(Call("dynamic_slice_in_dim", LINE, place, size))
        check(Call("dynamic_slice", LINE, np.array([start]), (size,)))
        check(Call("dynamic_slice", LINE, Held(np.array([start])), (size,)))
        if size >= 0:
            update = values((size,), "f4", 7)
            for place in held(start):
                check(Call("dynamic_update_slice", LINE, update, (place,)))
                check(Call("dynamic_update_slice_in_dim", LINE, update, place, 0))
            check(Call("dynamic_update_slice", LINE, update, np.array([start])))


@pytest.mark.parametrize("axis", range(3))
def test_an_update_that_is_small_in_all_dims_goes_to_their_beginnings(axis: int) -> None:
    for start in (-2, 0, 1, 9):
        check(Call("dynamic_update_slice_in_dim", CUBE, values((1, 1, 1), "i4", 7), start, axis))


@pytest.mark.parametrize("axis", range(-4, 4))
def test_dynamic_index_of_each_start(axis: int) -> None:
    for start in some((-7, -5, -3, -1, 0, 2, 4, 5), range(-7, 8)):
        for place in held(start):
            for keepdims in (True, False):
                check(Call("dynamic_index_in_dim", CUBE, place, axis, keepdims))
            if -3 <= axis < 3:
                whole = CUBE.shape[: axis % 3] + CUBE.shape[axis % 3 + 1 :]
                update = values(whole, "i4", 8)
                wide = np.expand_dims(update, axis)
                check(Call("dynamic_update_index_in_dim", CUBE, update, place, axis))
                check(Call("dynamic_update_index_in_dim", CUBE, wide, place, axis))
            else:
                check(Call("dynamic_update_index_in_dim", CUBE, CUBE[0], place, axis))


MIXED = [*itertools.product([0, 1, 2], repeat=3)]
"""How the starts along three dims are held: by Python, by NumPy, by arrays."""


@pytest.mark.parametrize("number", range(some(3, 12)))
def test_windows_of_several_dims(number: int) -> None:
    random = np.random.default_rng(number)
    for forms in MIXED:
        starts = [int(each) for each in random.integers(-7, 8, 3)]
        places = [
            (start, np.int16(start), np.array(start))[form]
            for start, form in zip(starts, forms, strict=True)
        ]
        sizes = tuple(int(random.integers(0, n + 1)) for n in CUBE.shape)
        check(Call("dynamic_slice", CUBE, places, sizes))
        check(Call("dynamic_slice", CUBE, tuple(places), list(sizes)))
        check(Call("dynamic_update_slice", CUBE, values(sizes, "i4", number), places))


@pytest.mark.parametrize("forms", some(MIXED[5::6], MIXED[1:]), ids=str)
def test_windows_traced_and_mapped(forms: tuple[int, ...]) -> None:
    random = np.random.default_rng(sum(forms))
    starts = [int(each) for each in random.integers(-7, 8, 3)]
    places = [
        (start, np.int16(start), np.array(start))[form]
        for start, form in zip(starts, forms, strict=True)
    ]
    for call in (
        Call("dynamic_slice", CUBE, places, (2, 3, 2)),
        Call("dynamic_update_slice", CUBE, values((2, 3, 2), "i4", 9), places),
    ):
        check_traced(call)
        check_mapped(call)
        check_mapped(call, traced=True)


EVERYWHERE = [
    Call("slice", CUBE, (1, 0, 2), (3, 4, 5), (1, 2, 1)), Call("slice_in_dim", CUBE, -3, -1, 1, 2),
    Call("index_in_dim", CUBE, -2, 1), Call("index_in_dim", CUBE, 1, 2, False),
    Call("dynamic_slice", X, np.array([2, -1]), (2, 3)),
    Call("dynamic_slice", X, np.array([2, -1], "i1"), (2, 1)),
    Call("dynamic_slice_in_dim", CUBE, np.array(3), 2, 1),
    Call("dynamic_slice_in_dim", CUBE, np.array(3, "u1"), 2, -1),
    Call("dynamic_index_in_dim", CUBE, np.array(-3), 2, False),
    Call("dynamic_index_in_dim", CUBE, np.array(2, "i2"), 0),
    Call("dynamic_update_slice", X, X[:2, 1:], np.array([2, -1])),
    Call("dynamic_update_slice_in_dim", CUBE, CUBE[:, :2], np.array(3), 1),
    Call("dynamic_update_index_in_dim", CUBE, CUBE[:, 1], np.array(-1), 1),
    Call("dynamic_update_index_in_dim", CUBE, CUBE[:, :, :1], np.array(2), -1),
]  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("call", EVERYWHERE, ids=repr)
def test_traced_and_mapped(call: Call) -> None:
    check_everywhere(call)
    check_mapped(call, traced=True)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_types_of_places(dtype: str) -> None:
    info = np.iinfo(dtype)
    for start in (info.min, info.max, 1, info.max // 2 + 1):
        place = np.array(start, dtype)
        for form in (place, place[()], Held(place)):
            check(Call("dynamic_slice", X, (form, form), (2, 2)))
            check(Call("dynamic_update_slice", X, X[:2, :2], (form, form)))
        check(Call("dynamic_slice", X, np.array([start, 1], dtype), (2, 2)))


@pytest.mark.parametrize("dtype", ["?", "f4", "f8", "c8"])
def test_places_that_are_no_integers(dtype: str) -> None:
    place = np.ones((), dtype)
    for form in (place, place[()], Held(place), np.ones(2, dtype)):
        starts = form if form is not place and getattr(form, "ndim", 0) else (form, 0)
        with pytest.raises(gs.errors.ArgumentTypeError):
            gs.lax.dynamic_slice(X, starts.value if isinstance(starts, Held) else starts, (2, 2))
        check(Call("dynamic_slice", X, starts, (2, 2)))
        check(Call("dynamic_update_slice", X, X[:2, :2], starts))


def test_places_that_do_not_fit() -> None:
    for starts in ((), (1,), (1, 2, 3), np.array([1]), np.array([1, 2, 3]), np.array([[1, 2]])):
        check(Call("dynamic_slice", X, starts, (2, 2)))
        check(Call("dynamic_update_slice", X, X[:2, :2], starts))
    for sizes in ((), (2,), (2, 2, 2), (6, 1), (1, 4), (-1, 2)):
        check(Call("dynamic_slice", X, (0, 0), sizes))
    for update in (X[0], X[None], np.zeros((6, 1)), X[:2].astype("f4"), POINT):
        check(Call("dynamic_update_slice", X, update, (0, 0)))
    for place in (np.array([1]), "a", None, 1.5):
        with pytest.raises(gs.errors.ArgumentTypeError):
            gs.lax.dynamic_slice(X, (place, 0), (2, 2))


def test_nothing() -> None:
    check(Call("dynamic_slice", NONE, (np.array(3), 1), (0, 2)))
    check(Call("dynamic_slice", POINT, (), ()))
    check(Call("dynamic_update_slice", NONE, NONE[:, :1], (0, np.array(9))))
    check(Call("dynamic_update_slice", X, X[:0], (np.array(2), np.array(1))))
    check(Call("dynamic_update_slice", POINT, POINT + 1, ()))
    check(Call("dynamic_update_index_in_dim", LINE, 7.0, np.array(2), 0))
    check(Call("dynamic_update_index_in_dim", LINE, 7.0, 2, -1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_type(dtype: Any) -> None:
    x, update = values((5, 3), dtype, 1), values((2, 2), dtype, 2)
    check(Call("slice", x, (1, 0), (4, 3), (2, 1)))
    check(Call("dynamic_slice", x, (np.array(2), -1), (2, 2)))
    check(Call("dynamic_update_slice", x, update, (np.array(2), -1)))
    check(Call("dynamic_update_index_in_dim", x, update[0, 0] + x[0], np.array(2), 0))


def test_results_stay_where_their_operands_are() -> None:
    random = np.random.default_rng(0)
    x = placed(values((8, 4), "f4"), random)
    part = gs.lax.dynamic_slice_in_dim(x, gs.numpy.asarray(1), 2, 1)
    assert part.sharding.device_set == x.sharding.device_set
    same(part, defined(Call("dynamic_slice_in_dim", values((8, 4), "f4"), 1, 2, 1)))
