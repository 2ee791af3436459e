"""`gpushard.lax.linalg`, products of groups and segments against JAX's, traced and mapped.

What is unique of factors is compared as it is; of the others, the product, in `PRODUCTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime

Call = Callable[..., Any]
"""Takes `lax` and `ops` of either library, and arrays."""


@pytest.fixture(autouse=True)
def wide_types(jax: ModuleType) -> Iterator[None]:
    """Run with eight devices here, and 64-bit types in JAX."""
    with runtime(host_domains=2), jax.enable_x64(True):
        yield


def _value(text: str, seed: int, lead: int = 0) -> np.ndarray:
    kind, _, lengths = text.partition(":")
    shape = tuple(int(n) for n in lengths.split(",") if n)
    shape = (lead, *shape) if lead else shape
    random = np.random.default_rng(seed)
    if np.dtype(kind).kind in "iu":
        return random.integers(0 if kind[0] == "u" else -1, 5, shape).astype(kind)
    x = random.standard_normal(shape)
    return np.asarray(x + 1j * random.standard_normal(shape) if kind[0] == "c" else x).astype(kind)


def _placed(x: np.ndarray, seed: int) -> gs.Array:
    specs: list[tuple[Any, ...]] = [("x", "y"), (("x", "y"),), (None, "x"), ()]
    place = gs.NamedSharding(
        gs.make_mesh((4, 2), ("x", "y")), gs.P(*specs[seed % len(specs)][: x.ndim])
    )
    placed: gs.Array = gs.device_put(x, place)
    return placed


def _same(got: Any, want: Any) -> None:
    got, want = gs.tree.leaves(got), gs.tree.leaves(want)
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype), (mine, theirs)
        close = 1e-4 if theirs.dtype.char in "fF" else 1e-9
        np.testing.assert_allclose(mine, theirs, rtol=close, atol=close)


def _definite(x: Any) -> Any:
    return x @ x.swapaxes(-1, -2).conj() + 9 * np.eye(x.shape[-1], dtype=x.dtype)


def _well(x: Any) -> Any:
    return x + 5 * np.eye(x.shape[-1], dtype=x.dtype)


def _solve(**how: Any) -> Call:
    return lambda lax, ops, a, b: lax.linalg.triangular_solve(_well(a), b, **how)


def _segments(name: str, number: int, **how: Any) -> Call:
    return lambda lax, ops, x, ids: getattr(ops, name)(x, ids, number, **how)


CASES: dict[str, tuple[Call, tuple[str, ...]]] = {
    "cholesky": (lambda lax, ops, x: lax.linalg.cholesky(_definite(x)), ("f8:3,4,4",)),
    "cholesky c8": (lambda lax, ops, x: lax.linalg.cholesky(_definite(x)), ("c8:4,4",)),
    "cholesky mean": (lambda lax, ops, x: lax.linalg.cholesky(_well(x / 4)), ("f8:4,4",)),
    "cholesky lower": (
        lambda lax, ops, x: lax.linalg.cholesky(_well(x / 4), symmetrize_input=False),
        ("f8:4,4",),
    ),
    "eigh": (lambda lax, ops, x: lax.linalg.eigh(x)[1], ("f8:3,4,4",)),
    "eigh upper": (
        lambda lax, ops, x: lax.linalg.eigh(x, lower=False, symmetrize_input=False)[1],
        ("c16:4,4",),
    ),
    "lu": (lambda lax, ops, x: tuple(lax.linalg.lu(x)), ("f8:3,4,4",)),
    "lu tall": (lambda lax, ops, x: tuple(lax.linalg.lu(x)), ("f8:6,3",)),
    "lu wide": (lambda lax, ops, x: tuple(lax.linalg.lu(x)), ("f8:2,3,5",)),
    "lu f4": (lambda lax, ops, x: tuple(lax.linalg.lu(x)), ("f4:5,5",)),
    "lu singular": (lambda lax, ops, x: tuple(lax.linalg.lu(x * 0)), ("f8:3,3",)),
    "permutation": (
        lambda lax, ops, x: lax.linalg.lu_pivots_to_permutation(lax.linalg.lu(x)[1], 5),
        ("f8:2,5,3",),
    ),
    "svd": (lambda lax, ops, x: lax.linalg.svd(x, compute_uv=False), ("f8:3,4,5",)),
    "svd full": (lambda lax, ops, x: [p.shape for p in lax.linalg.svd(x)], ("f8:4,5",)),
    "svd small": (
        lambda lax, ops, x: [p.shape for p in lax.linalg.svd(x, full_matrices=False)],
        ("f8:4,5",),
    ),
    "qr": (lambda lax, ops, x: abs(lax.linalg.qr(x)[1]), ("f8:5,3",)),
    "qr small": (
        lambda lax, ops, x: [abs(p) for p in lax.linalg.qr(x, full_matrices=False)],
        ("f8:2,5,3",),
    ),
    "symmetric_product": (
        lambda lax, ops, a, c: lax.linalg.symmetric_product(a, c, alpha=2.0, beta=3.0),
        ("f8:4,3", "f8:4,4"),
    ),
    "symmetric_product of one triangle": (
        lambda lax, ops, a, c: lax.linalg.symmetric_product(
            a, c, beta=3.0, symmetrize_output=True
        ),
        ("f8:4,3", "f8:4,4"),
    ),
    **{
        f"triangular_solve {how}": (_solve(**how), ("f8:2,4,4", f"f8:2,{sides}"))
        for how, sides in (
            ({}, "3,4"),
            ({"lower": True}, "3,4"),
            ({"left_side": True}, "4,3"),
            ({"left_side": True, "transpose_a": True, "unit_diagonal": True}, "4,3"),
            ({"transpose_a": True, "lower": True}, "3,4"),
        )
    },
    "triangular_solve vector": (_solve(left_side=True, lower=True), ("f8:4,4", "f8:4")),
    "triangular_solve conjugate": (
        _solve(transpose_a=True, conjugate_a=True), ("c16:4,4", "c16:2,4"),
    ),
    "ragged_dot": (
        lambda lax, ops, x, y: lax.ragged_dot(x, y, np.array([2, 0, 3])), ("f8:7,4", "f8:3,4,2"),
    ),
    "ragged_dot sizes": (
        lambda lax, ops, x, y, n: lax.ragged_dot(x, y, abs(n)),
        ("f4:7,4", "f4:3,4,2", "i4:3"),
    ),
    "ragged_dot preferred": (
        lambda lax, ops, x, y, n: lax.ragged_dot(
            x, y, abs(n), preferred_element_type=np.int32
        ),
        ("i1:7,4", "i1:3,4,2", "i8:3"),
    ),
    **{
        f"{name} {kind} {number} {how}": (
            _segments(name, number, **how), (f"{kind}:7,3", "i8:7"),
        )
        for name in ("segment_sum", "segment_prod", "segment_max", "segment_min")
        for kind, number, how in (
            ("f8", 4, {}), ("i2", 6, {}), ("u1", 3, {"mode": "clip"}), ("f4", 4, {"mode": "drop"}),
        )
    },
    "segment_sum hints": (
        _segments("segment_sum", 4, indices_are_sorted=False, bucket_size=2), ("f8:6", "i8:6"),
    ),
}  # fmt: skip


def _ours(call: Call) -> Callable[..., Any]:
    return lambda *xs: call(gs.lax, gs.lax, *xs)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", CASES)
def test_eagerly_and_traced(name: str, jax: ModuleType) -> None:
    call, texts = CASES[name]
    data = [_value(text, 3 + n) for n, text in enumerate(texts)]
    want = call(jax.lax, jax.ops, *map(jax.numpy.asarray, data))
    xs = [_placed(x, n) for n, x in enumerate(data)]
    _same(_ours(call)(*xs), want)
    _same(gs.jit(_ours(call))(*xs), want)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("svd full", "svd small")])
def test_mapped(name: str, jax: ModuleType) -> None:
    call, texts = CASES[name]
    data = [_value(text, 3 + n, 3) for n, text in enumerate(texts)]
    each = [call(jax.lax, jax.ops, *map(jax.numpy.asarray, row)) for row in zip(*data, strict=True)]
    want = gs.tree.map(lambda *xs: np.stack([np.asarray(x) for x in xs]), *each)
    mapped = gs.vmap(_ours(call))
    xs = [_placed(x, n) for n, x in enumerate(data)]
    _same(mapped(*xs), want)
    _same(gs.jit(mapped)(*xs), want)


def test_factors_multiply_to_their_matrices() -> None:
    for text in ("f8:2,5,3", "c16:3,5", "f4:4,4"):
        data = _value(text, 1)
        x, close = _placed(data, 0), 1e-4 if text[1] == "4" else 1e-12
        u, s, vh = gs.lax.linalg.svd(x, full_matrices=False)
        np.testing.assert_allclose((u * s[..., None, :].astype(u.dtype)) @ vh, data, atol=close)
        q, r = gs.lax.linalg.qr(x)
        np.testing.assert_allclose(q @ r, data, atol=close)
        factors, _, order = (np.asarray(part) for part in gs.lax.linalg.lu(x))
        k = min(data.shape[-2:])
        lower = np.tril(factors, -1)[..., :k] + np.eye(data.shape[-2], k)
        rows = np.take_along_axis(data, order[..., None], -2)
        np.testing.assert_allclose(lower @ np.triu(factors)[..., :k, :], rows, atol=close)
    v, w = gs.lax.linalg.eigh(x)
    mean = (data + data.T) / 2
    np.testing.assert_allclose(mean @ np.asarray(v), np.asarray(v) * np.asarray(w), atol=1e-4)


def test_segments_that_the_host_counts(jax: ModuleType) -> None:
    data, ids = _value("f8:7,3", 0), np.array([0, 2, -1, 5, 2, 0, 1])
    for name in ("segment_sum", "segment_prod", "segment_max", "segment_min"):
        want = getattr(jax.ops, name)(data, ids)
        _same(getattr(gs.lax, name)(_placed(data, 0), ids), want)
        _same(getattr(gs.lax, name)(data, _placed(ids, 1)), want)
    assert gs.lax.segment_sum(np.ones((0, 2)), []).shape == (0, 2)
    with pytest.raises(gs.errors.TracedValueError, match="segment_sum needs elements"):
        gs.jit(gs.lax.segment_sum)(data, ids)
