"""Products that CuPy cannot count in one call are cut into parts, by shapes alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._runtime.cuda.kernels import limits, products
from tests.share import examples


def unfilled(shape: tuple[int, ...], dtype: str) -> Any:
    """An array of any size, which has memory for one element."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def cut(x: tuple[int, ...], y: tuple[int, ...], dtype: str) -> list[Any]:
    batch = np.broadcast_shapes(x[:-2], y[:-2])
    out = unfilled((*batch, x[-2], y[-1]), dtype)
    return list(products.parts(unfilled(x, dtype), unfilled(y, dtype), out))


EDGE = 2**31
ROWS = 32 * 65_535
PRODUCTS = [
    ((EDGE - 1, 2), (2, 3), "f", 1), ((EDGE, 2), (2, 3), "f", 2),
    ((2 * EDGE + 2, 2), (2, 3), "f", 4),
    ((2, EDGE - 1), (EDGE - 1, 3), "d", 1), ((2, EDGE), (EDGE, 3), "d", 2),
    ((1, 2), (2, EDGE), "F", 2), ((3, EDGE // 2, 2), (3, 2, 2), "f", 2),
    ((EDGE, 1, 2), (2, 1), "f", 2), ((3, 2), (EDGE // 2, 2, 2), "f", 2),
    ((70_000, 70_000), (70_000, 70_000), "f", 1),
    ((ROWS, 2), (2, 3), "b", 1), ((ROWS + 1, 2), (2, 3), "b", 2), ((2, 3), (3, ROWS + 1), "i", 2),
    ((2, ROWS + 1, 1), (1, 1), "?", 3), ((2, EDGE // 2), (EDGE // 2, 1), "q", 2),
    ((46_340, 46_340), (46_340, 2), "i", 1), ((46_341, 46_341), (46_341, 2), "i", 2),
    ((50_000, 1), (1, 50_000), "i", 2), ((EDGE // 8, 2, 4), (4, 4), "i", 1024),
]  # fmt: skip
"""Operands, their type, and into how many parts a product is cut."""


@pytest.mark.parametrize(("x", "y", "dtype", "count"), PRODUCTS)
def test_parts_are_those_that_cupy_counts(
    x: tuple[int, ...], y: tuple[int, ...], dtype: str, count: int
) -> None:
    found = cut(x, y, dtype)
    assert len(found) == count
    assert products.fits(unfilled(x, dtype), unfilled(y, dtype)) == (count == 1)
    for a, b, to, _ in found:
        (rows, depth), columns = a.shape[-2:], b.shape[-1]
        assert b.shape[-2] == depth and to.shape[-2:] == (rows, columns)
        batch = math.prod(to.shape[:-2])
        assert max(batch * rows, batch * columns, depth) < EDGE
        if dtype in "?biq":
            assert max(rows * depth, depth * columns, rows * columns) < EDGE
            assert max(batch * rows, batch * columns) <= ROWS


@given(st.data())
@examples(200)
def test_parts_make_the_product(data: st.DataObject) -> None:
    size = st.integers(1, 7)
    rows, depth, columns, *batch = (data.draw(size) for _ in range(5))
    dims = data.draw(st.integers(0, 2))
    dtype = data.draw(st.sampled_from("iqd"))
    batches = [
        tuple(n if data.draw(st.booleans()) else 1 for n in batch[2 - dims :])[data.draw(cut) :]
        for cut in (st.integers(0, dims), st.integers(0, dims))
    ]
    source = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = source.integers(-9, 9, (*batches[0], rows, depth)).astype(dtype)
    y = source.integers(-9, 9, (*batches[1], depth, columns)).astype(dtype)
    wanted = np.matmul(x, y)
    made = np.full_like(wanted, 77)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "NARROW_END", data.draw(st.integers(3, 20)))
        patch.setattr(products, "_ROWS", 4)
        for a, b, to, adds in products.parts(x, y, made):
            to[...] = np.matmul(a, b) + (to if adds else 0)
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize(
    ("x", "y"),
    [((7, 2, 2), (1, 2, 2)), ((1, 2, 2), (7, 2, 2)), ((2, 2), (7, 2, 2)),
     ((9, 1, 2, 2), (9, 2, 2)), ((1, 9, 2, 2), (3, 1, 2, 2))],
)  # fmt: skip
def test_what_broadcasts_is_in_each_part(
    x: tuple[int, ...], y: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "NARROW_END", 6)
    left, right = (np.arange(math.prod(n), dtype=float).reshape(n) for n in (x, y))
    wanted = np.matmul(left, right)
    made = np.full_like(wanted, 77)
    for a, b, to, adds in products.parts(left, right, made):
        assert not adds
        to[...] = np.matmul(a, b)
    np.testing.assert_array_equal(made, wanted)
