"""Parts of arrays as plain numbers: the arrays that they are of, and those of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpushard._runtime.strided_view import View, dense_strides
from tests.share import seeds


class Pointer:
    """Where elements lie in a buffer."""

    def __init__(self, buffer: np.ndarray, at: int) -> None:
        self.buffer, self.at = buffer, at

    def __add__(self, nbytes: int) -> Pointer:
        return Pointer(self.buffer, self.at + nbytes)


class Foreign:
    """An array of a library that is made of a pointer, of strides that are positive."""

    def __init__(self, shape: Any, dtype: Any, data: Pointer, strides: Any) -> None:
        assert min(strides, default=0) >= 0
        self.dtype, self.data = dtype, data
        self.array: np.ndarray = np.ndarray(shape, dtype, data.buffer, data.at, strides)

    def __getitem__(self, index: Any) -> np.ndarray:
        found: np.ndarray = self.array[index]
        return found


@pytest.mark.parametrize("seed", seeds(40))
def test_a_part_is_that_of_the_index_it_comes_from(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, rng.integers(1, 4)).tolist())
    whole = np.arange(np.prod(shape)).reshape(shape)
    steps = [int(rng.choice([-2, -1, 1, 2])) for _ in shape]
    part = whole[tuple(slice(None, None, step) for step in steps)]
    first = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    view = View(first, part.shape, part.strides)
    assert view.of(whole).tolist() == part.tolist()
    foreign: Any = Foreign(shape, whole.dtype, Pointer(whole, 0), whole.strides)
    found: Any = view.of(foreign)
    assert getattr(found, "array", found).tolist() == part.tolist()
    dense = dense_strides(part.shape, whole.itemsize)
    copied = View(0, part.shape, dense)
    assert copied.is_dense(whole.itemsize) and copied.of(part.copy()).tolist() == part.tolist()
    assert view.is_dense(whole.itemsize) == part.flags.c_contiguous
    index = view.index_in(shape, whole.itemsize)
    assert whole[index].tolist() == part.tolist() if index else min(part.shape) == 1


@pytest.mark.parametrize(
    ("view", "part"),
    [
        (View(0, (3,), (8,)), np.s_[0]),
        (View(40, (3,), (-8,)), np.s_[1, ::-1]),
        (View(0, (4,), (8,)), None),  # the last one is in the next row
        (View(40, (4,), (-8,)), None),  # and here in the row before
        (View(24, (3,), (-24,)), None),  # before the first row
        (View(8, (2,), (16,)), None),
        (View(0, (2,), (16,)), np.s_[0, ::2]),
        (View(16, (2,), (-16,)), np.s_[0, ::-2]),
        (View(32, (2,), (-24,)), np.s_[::-1, 1]),
        (View(16, (2,), (-8,)), np.s_[0, :0:-1]),  # not the first one
    ],
)
def test_only_what_stays_within_its_dims_has_an_index(view: View, part: Any) -> None:
    whole = np.arange(6.0).reshape(2, 3)
    index = view.index_in(whole.shape, whole.itemsize)
    assert (index is None) == (part is None)
    assert index is None or whole[index].tolist() == whole[part].tolist()


def test_elements_that_are_repeated() -> None:
    whole = np.arange(6.0)
    foreign: Any = Foreign((6,), whole.dtype, Pointer(whole, 0), whole.strides)
    for view, wanted in (
        (View(16, (3, 2), (0, 8)), [[2, 3]] * 3),
        (View(24, (2, 3), (0, -8)), [[3, 2, 1]] * 2),
    ):
        found: Any = view.of(foreign)
        assert getattr(found, "array", found).tolist() == view.of(whole).tolist() == wanted


@pytest.mark.parametrize(
    ("one", "other", "shape"),
    [
        ((24, 8, 4), (48, 16, 8), (12,)),  # all of both
        ((48, 8, 4), (24, 8, 4), (2, 6)),
        ((24, 8, 4), (24, 12, 4), (2, 3, 2)),
        ((24, 8, 4), (4, 8, 24), (2, 3, 2)),
    ],
)
def test_dims_that_lie_one_after_the_other_in_both_are_joined(
    one: tuple[int, ...], other: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    sizes = (2, 3, 2)
    views = View(5, sizes, one), View(7, sizes, other)
    made = views[0].merge_dims(views[1])
    assert [view.offset for view in made] == [5, 7] and made[0].shape == made[1].shape == shape
    buffer = np.arange(200, dtype=np.int8)
    for view, before in zip(made, views, strict=True):
        assert view.of(buffer).ravel().tolist() == before.of(buffer).ravel().tolist()
