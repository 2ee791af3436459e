"""Segments, ragged groups of rows, and `lax.linalg`, beside what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from tests.lax.calls import Call, check, values

SEGMENTS = ("segment_sum", "segment_prod", "segment_max", "segment_min")
IDS = ([0, 0, 1, 2, 2, 5], [3, 1, 3, 0, 0, 1], [0, -1, 7, 2, 2, 2], [4, 4, 4, 4, 4, 4])


@pytest.mark.parametrize("name", SEGMENTS)
@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
@pytest.mark.parametrize("ids", IDS, ids=str)
def test_segments(name: str, dtype: str, ids: list[int]) -> None:
    for shape in ((6,), (6, 3)):
        check(Call(name, values(shape, dtype, 1), np.array(ids), num_segments=5))


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments_are_counted_where_nobody_says_how_many(name: str) -> None:
    for ids in ([0, 2, 1, 2], [5, 0, 0, 3], [-1, -2, -1, -3], [1, -4, 1, 0]):
        x = values((4, 2), "f8", 1)
        for given in (np.array(ids), gs.device_put(np.array(ids))):
            check(Call(name, x, given))
            made = getattr(gs.lax, name)(x, given)
            assert made.shape == (max(max(ids) + 1, 0), 2)
    for empty in ([], np.zeros(0, int), gs.numpy.zeros(0, "i4")):
        assert getattr(gs.lax, name)(np.zeros((0, 2), "f4"), empty).shape == (0, 2)


def test_segments_beyond_are_left_out_or_clipped() -> None:
    ids = [-1, 0, 9, 1]
    for mode, wanted in ((None, [2, 4]), ("drop", [2, 4]), ("clip", [3, 7])):
        made = gs.lax.segment_sum(np.arange(1, 5), ids, num_segments=2, mode=mode)
        np.testing.assert_array_equal(made, wanted)
    truths = np.array([False, True, False, False])
    for name, wanted in (
        ("segment_max", [True, False, False]),
        ("segment_min", [False, False, True]),
    ):
        made = getattr(gs.lax, name)(truths, [0, 0, 1, 1], num_segments=3)
        assert made.dtype == bool
        np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("sizes", [(2, 3, 1), (0, 6, 0), (1, 0, 2), (0, 0, 0)])
def test_ragged_dot(sizes: tuple[int, ...]) -> None:
    check(Call("ragged_dot", values((6, 4), "f8", 1), values((3, 4, 2), "f8", 2), np.array(sizes)))


def _square(seed: int, shape: Any = (2, 5, 5)) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def _positive(seed: int) -> Any:
    x = _square(seed)
    return x @ np.swapaxes(x, -1, -2) + 5 * np.eye(5)


def test_factors_multiply_to_the_matrix() -> None:
    linalg, x, p = gs.lax.linalg, _square(1), _positive(2)
    low = np.asarray(linalg.cholesky(p))
    np.testing.assert_allclose(low @ np.swapaxes(low, -1, -2), p, atol=1e-12)
    q, r = map(np.asarray, linalg.qr(x, full_matrices=False))
    np.testing.assert_allclose(q @ r, x, atol=1e-12)
    v, w = map(np.asarray, linalg.eigh(p))
    np.testing.assert_allclose(p @ v, v * w[..., None, :], atol=1e-10)
    u, s, vh = map(np.asarray, linalg.svd(x, full_matrices=False))
    np.testing.assert_allclose(u * s[..., None, :] @ vh, x, atol=1e-12)
    both, pivots, rows = map(np.asarray, linalg.lu(x))
    lower, upper = np.tril(both, -1) + np.eye(5), np.triu(both)
    for n in range(2):
        np.testing.assert_allclose(lower[n] @ upper[n], x[n][rows[n]], atol=1e-12)
    permutation = np.asarray(linalg.lu_pivots_to_permutation(pivots, 5))
    np.testing.assert_array_equal(permutation, rows)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
def test_triangular_solve(lower: bool, left: bool, transposed: bool) -> None:
    a, b = _positive(3), _square(4)
    solved = np.asarray(gs.lax.linalg.triangular_solve(
        a, b, left_side=left, lower=lower, transpose_a=transposed
    ))  # fmt: skip
    half = np.tril(a) if lower else np.triu(a)
    half = np.swapaxes(half, -1, -2) if transposed else half
    np.testing.assert_allclose(half @ solved if left else solved @ half, b, atol=1e-10)
    for matrices, sides in (a, b[..., 0]), (a[0], b[0, :, 0]):
        vector = gs.lax.linalg.triangular_solve(
            matrices, sides, left_side=left, lower=lower, transpose_a=transposed
        )
        own = half if matrices is a else half[0]
        own = own if left else np.swapaxes(own, -1, -2)
        np.testing.assert_allclose((own @ np.asarray(vector)[..., None])[..., 0], sides, atol=1e-10)


@pytest.mark.parametrize("lower", [True, False])
def test_a_diagonal_of_ones_is_not_read(lower: bool) -> None:
    a, b = _positive(3)[:, None], _square(4)[:, None]
    solved = np.asarray(gs.lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, unit_diagonal=True
    ))  # fmt: skip
    half = (np.tril(a, -1) if lower else np.triu(a, 1)) + np.eye(a.shape[-1])
    np.testing.assert_allclose(half @ solved, b, atol=1e-10)


def test_triangular_solve_takes_no_integers() -> None:
    for a, b in (_positive(3), _square(4).astype(int)), (_positive(3).astype(int), _square(4)):
        with pytest.raises(gs.errors.ArgumentTypeError, match=r"triangular_solve.*int64"):
            gs.lax.linalg.triangular_solve(a, b)


def test_symmetric_product() -> None:
    a, c = _square(5), _positive(6)
    got = np.asarray(gs.lax.linalg.symmetric_product(a, c, alpha=2.0, beta=0.5))
    wanted = 2 * a @ np.swapaxes(a, -1, -2) + 0.5 * c
    np.testing.assert_allclose(np.tril(got), np.tril(wanted), atol=1e-12)
    whole = gs.lax.linalg.symmetric_product(a, c, alpha=2.0, beta=0.5, symmetrize_output=True)
    np.testing.assert_allclose(whole, wanted, atol=1e-12)
