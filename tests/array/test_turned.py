"""Transposed arrays: nothing moves before somebody needs the elements in order."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.bind import bind
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Row
from gpushard._ops.rule import Rule
from gpushard._runtime.runtime import Runtime
from gpushard._typing import LocalArray
from gpushard.errors import ArgumentError, DeletedArrayError, ExecutionError
from gpushard.testing import runtime

gnp = gs.numpy
SPECS = [(), ("x", "y"), (("x", "y"),), (None, "x"), ("y",)]


@pytest.fixture(
    scope="module",
    params=[{}, {"host_domains": 4, "inline_bytes": 0, "small_bytes": 0}],
    ids=["in-the-caller", "queued"],
)
def rt(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    with runtime(enable_checks=True, **request.param) as made:
        yield made


pytestmark = pytest.mark.usefixtures("rt")


def put(value: Any, *entries: Any) -> gs.Array:
    spec = gs.P(*entries[: np.ndim(value)])
    return gs.device_put(value, gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), spec))


def numbers(*shape: int, dtype: Any = np.float64) -> Any:
    return np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)


PRODUCTS: list[Callable[[Any, Any, Any], Any]] = [
    lambda xp, x, y: x.T @ y,
    lambda xp, x, y: y.T @ x,
    lambda xp, x, y: x.T @ y.T.T,
    lambda xp, x, y: x.T @ y[:, 0],
    lambda xp, x, y: x[:, 0] @ y.swapaxes(0, 1).T,
    lambda xp, x, y: xp.einsum("ij,jk->ki", x.T, y),
    lambda xp, x, y: xp.einsum("ij,ij->i", x.T, y.T),
    lambda xp, x, y: xp.tensordot(x.T, y.T, (1, 1)),
    lambda xp, x, y: xp.dot(x.T, y),
    lambda xp, x, y: xp.outer(x.T, y[:, 0]),
    lambda xp, x, y: x.T + y[: x.shape[1], : x.shape[0]].sum() - x.T.max(axis=0),
]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("entries", SPECS)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16, np.complex128])
def test_products(entries: Any, dtype: Any) -> None:
    x, y = numbers(12, 7, dtype=dtype), numbers(12, 7, dtype=dtype)[:, ::-1].copy()
    for number, product in enumerate(PRODUCTS):
        expected = product(np, x, y)
        found = product(gnp, put(x, *entries), put(y, *entries))
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype), number
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, err_msg=str(number))


@pytest.mark.parametrize("shapes", [((2, 5, 3), (5, 4)), ((2, 1, 5, 3), (4, 5, 2)), ((5, 3), (5,))])
def test_batches(shapes: Any) -> None:
    x, y = (numbers(*shape) for shape in shapes)
    a, b = put(x, "x"), put(y, None, "y")
    np.testing.assert_array_equal(np.asarray(a.mT @ b), x.mT @ y)
    np.testing.assert_array_equal(np.asarray(a.mT.mT), x)
    if y.ndim > 1:
        np.testing.assert_array_equal(np.asarray(b.mT @ a), y.mT @ x)
        np.testing.assert_array_equal(np.asarray(a.mT @ b.mT.mT), x.mT @ y)
    order = tuple(np.random.default_rng(1).permutation(x.ndim).tolist())
    letters = "abcd"[: x.ndim]
    text = f"{letters},{letters}->{letters[::-1]}"
    expected = np.einsum(text, x.transpose(order), x.transpose(order))
    found = gnp.einsum(text, a.transpose(order), a.transpose(order))
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("entries", SPECS)
def test_a_product_moves_no_more_than_of_the_array_as_it_lies(rt: Runtime, entries: Any) -> None:
    value = numbers(64, 40)
    x, v = put(value, *entries), put(value[:, 0], "x")
    (v @ x).block_until_ready()
    before = rt.claimed_bytes()
    turned = x.T.block_until_ready()
    assert turned.is_ready() and rt.claimed_bytes() == before
    np.testing.assert_allclose(np.asarray(turned @ v), value.T @ value[:, 0])
    assert turned.T.addressable_data(0).unsafe_buffer_pointer() == (
        x.addressable_data(0).unsafe_buffer_pointer()
    )
    assert rt.claimed_bytes() == before


def test_transposed_arrays_are_values(rt: Runtime) -> None:
    value = numbers(8, 6)
    for entries in SPECS:
        x = put(value, *entries)
        turned, other = x.T, x.T
        x[0] = 99
        other[1] = 7
        assert np.array_equal(turned, value.T) and np.asarray(other)[1].tolist() == [7] * 8
        assert np.array_equal(np.asarray(x)[1:], value[1:]) and np.asarray(x)[0, 0] == 99
        turned = x.T
        expected = np.asarray(x).T
        x.delete()
        kept = copy.copy(turned)
        assert not turned.is_deleted() and np.array_equal(turned @ np.ones(8), expected.sum(1))
        turned.delete()
        assert turned.is_deleted() and np.array_equal(kept, expected)
        with pytest.raises(DeletedArrayError):
            np.asarray(turned)


def test_a_deleted_one_keeps_no_memory(rt: Runtime) -> None:
    x = put(numbers(64, 64), "x")
    before = rt.claimed_bytes()
    turned = x.T
    x.delete()
    assert rt.claimed_bytes() == before
    turned.delete()
    assert rt.claimed_bytes() < before


def test_shards_and_exports_are_in_order(rt: Runtime) -> None:
    value = numbers(8, 6)
    turned = put(value, "x").T
    assert turned.sharding.spec == gs.P(None, "x")  # type: ignore[attr-defined]
    for shard in turned.addressable_shards:
        assert shard.data is not None
        assert np.array_equal(shard.data, value.T[shard.index])
    if rt.backend.host_readable:  # NumPy takes memory of the host only
        exported = np.from_dlpack(gs.device_put(value).T)
        assert exported.flags.c_contiguous and np.array_equal(exported, value.T)
    assert len(gs.live_arrays()) >= 2


def test_errors_say_the_shapes_that_were_given() -> None:
    x = put(numbers(4, 3), "x")
    with pytest.raises(ArgumentError, match=r"\(3, 4\), \(3, 4\)"):
        x.T @ x.T


def test_work_that_fails_fails_what_is_transposed() -> None:
    def kernel(x: LocalArray, out: Any = None) -> LocalArray:
        raise ZeroDivisionError

    rule = Rule(((0, 1),), ((0, 1),), (4, 4))
    bad = Row("bad", lambda avals, params: avals, lambda *_: rule, lambda *_: kernel, (Local(),))
    with runtime(inline_bytes=0, small_bytes=0):
        x = bind(bad, (put(numbers(4, 4), "x"),))
        turned = x.T
        for use in (
            turned.block_until_ready,
            turned.T.block_until_ready,
            lambda: np.asarray(turned),
        ):
            with pytest.raises(ExecutionError, match="bad"):
                use()
