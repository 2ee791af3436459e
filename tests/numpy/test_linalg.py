"""`gpushard.numpy.linalg` against NumPy's.

Both call the same LAPACK on the host, so that decompositions are equal but for rounding: within 400
eps of the type. On GPUs that is so of what is defined. What is found otherwise, such as least
squares, is compared at the same tolerance.
"""

import gc
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExecutionError,
    LinearAlgebraError,
)
from gpushard.numpy.linalg import products
from tests.numpy.compare import put
from tests.numpy.matrices import ONE_RUNTIME, Eigenvalues, agree, close, definite, numbers
from tests.traffic import received

la = gs.numpy.linalg
pytestmark = [pytest.mark.usefixtures("domains"), ONE_RUNTIME]

SQUARE: dict[str, tuple[tuple[int, ...], tuple[Any, ...]]] = {
    "stack": ((8, 3, 3), ("x",)),
    "uneven stack": ((5, 3, 3), ("x",)),
    "rows": ((4, 4), ("x",)),
    "uneven matrix": ((3, 3), ("y", "x")),
    "stack and columns": ((3, 4, 4), ("y", None, "x")),
    "replicated": ((2, 3, 3), ()),
    "no stack": ((0, 3, 3), ("x",)),
    "no elements": ((2, 0, 0), ("x",)),
}
ANY: dict[str, tuple[tuple[int, ...], tuple[Any, ...]]] = {
    "tall": ((5, 3), ("x", "y")),
    "wide": ((3, 4), ("y", "x")),
    "stack": ((4, 6, 3), ("x", "y")),
    "uneven stack": ((3, 2, 5), ("x", None, "y")),
    "none": ((0, 4, 3), ("x",)),
}
Calls = dict[str, Callable[..., Any]]


OF_SQUARE: Calls = {
    "inv": lambda m, x: m.inv(x),
    "det": lambda m, x: m.det(x),
    "slogdet": lambda m, x: m.slogdet(x),
    "cond": lambda m, x: m.cond(x),
    "cond 1": lambda m, x: m.cond(x, 1),
    "cond fro": lambda m, x: m.cond(x, "fro"),
    "power 0": lambda m, x: m.matrix_power(x, 0),
    "power 1": lambda m, x: m.matrix_power(x, 1),
    "power 6": lambda m, x: m.matrix_power(x, 6),
    "power -3": lambda m, x: m.matrix_power(x, -3),
    "eigh": lambda m, x: m.eigh(x),
    "eigh U": lambda m, x: m.eigh(x, UPLO="u"),
    "eigvalsh": lambda m, x: m.eigvalsh(x),
    "svd Hermitian": lambda m, x: m.svd(x + x.mT.conj(), hermitian=True),
    "svd Hermitian, values": lambda m, x: m.svd(x + x.mT.conj(), compute_uv=False, hermitian=True),
    "rank Hermitian": lambda m, x: m.matrix_rank(x + x.mT.conj(), hermitian=True),
    "pinv Hermitian": lambda m, x: m.pinv(x + x.mT.conj(), hermitian=True),
}


@pytest.mark.parametrize("layout", SQUARE)
@pytest.mark.parametrize("name", OF_SQUARE)
def test_square_matrices(name: str, layout: str) -> None:
    shape, spec = SQUARE[layout]
    if name == "pinv Hermitian" and not all(shape):
        return  # NumPy's has another shape there, or takes the greatest of nothing
    if name == "rank Hermitian" and shape[-1] == 0:
        return  # NumPy takes the greatest of nothing
    agree(OF_SQUARE[name], numbers(shape), specs=[spec])


OF_ANY: Calls = {
    "svd": lambda m, x: m.svd(x),
    "svd thin": lambda m, x: m.svd(x, full_matrices=False),
    "svdvals": lambda m, x: m.svdvals(x),
    "qr": lambda m, x: m.qr(x),
    "qr complete": lambda m, x: m.qr(x, mode="complete"),
    "qr r": lambda m, x: m.qr(x, "r"),
    "qr raw": lambda m, x: m.qr(x, "raw"),
    "pinv": lambda m, x: m.pinv(x),
    "pinv rcond": lambda m, x: m.pinv(x, 0.4),
    "pinv rtol": lambda m, x: m.pinv(x, rtol=None),
    "rank": lambda m, x: m.matrix_rank(x),
    "rank tol": lambda m, x: m.matrix_rank(x, 1.0),
    "rank rtol": lambda m, x: m.matrix_rank(x, rtol=0.5),
    "cond": lambda m, x: m.cond(x),
    "cond 2": lambda m, x: m.cond(x, 2),
    "cond -2": lambda m, x: m.cond(x, -2),
    "trace": lambda m, x: m.trace(x, offset=1),
    "trace of a type": lambda m, x: m.trace(x, dtype=np.complex64),
    "diagonal": lambda m, x: m.diagonal(x, offset=-1),
    "transpose": lambda m, x: m.matrix_transpose(x),
    "matmul": lambda m, x: m.matmul(x, x.mT),
    "tensordot": lambda m, x: m.tensordot(x, x.mT, axes=1) if x.ndim == 2 else m.det(x),
    "vecdot": lambda m, x: m.vecdot(x, x[..., :1, :]),
}


@pytest.mark.parametrize("layout", ANY)
@pytest.mark.parametrize("name", OF_ANY)
def test_any_matrices(name: str, layout: str) -> None:
    shape, spec = ANY[layout]
    agree(OF_ANY[name], numbers(shape), specs=[spec])


@pytest.mark.parametrize("dtype", ["?", "b", "I", "l", "e", "f", "F", "D"])
def test_types(dtype: str) -> None:
    x = numbers((3, 3), "l" if dtype in "?bIl" else dtype).astype(dtype)
    if dtype in "?bIl":  # of full rank
        x = (x + 7 * np.eye(3)).astype(dtype) if dtype != "?" else np.eye(3, dtype=bool)
    for name in ("inv", "det", "slogdet", "eigh", "svd", "svdvals", "qr"):
        agree(lambda m, x, name=name: getattr(m, name)(x), x)
    agree(lambda m, x: m.pinv(x), x)
    agree(lambda m, x: m.matrix_rank(x), x)
    if dtype not in "?e":
        agree(lambda m, x, y: m.solve(x, y), x, numbers((3, 2), "f"))
        agree(lambda m, x: m.trace(x), x)
        agree(lambda m, x: m.norm(x), x)
        agree(lambda m, x: m.cholesky(x), definite(x))


@pytest.mark.parametrize("dtype", "dD")
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("layout", SQUARE)
def test_cholesky(layout: str, upper: bool, dtype: str) -> None:
    shape, spec = SQUARE[layout]
    data = definite(numbers(shape, dtype))
    data = data + 3j * np.tril(np.ones(shape), -1) if upper and dtype == "D" else data
    agree(lambda m, x: m.cholesky(x, upper=upper), data, specs=[spec])


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("layout", SQUARE)
def test_eigenvalues(layout: str, dtype: str) -> None:
    shape, spec = SQUARE[layout]
    data = numbers(shape, dtype)
    x = put(data, *spec)
    values, vectors = found = la.eig(x)
    assert type(found).__name__ == "EigResult"
    wanted = np.linalg.eig(data)
    kind = np.result_type(data.dtype, np.complex64)
    close(found, type(wanted)(*(np.asarray(part).astype(kind) for part in wanted)))
    close((la.eigvals(x),), Eigenvalues(np.linalg.eigvals(data).astype(kind)))
    close(x @ vectors, np.asarray(vectors * values[..., None, :]))


@pytest.mark.parametrize("layout", ANY)
def test_decompositions_are_what_they_say(layout: str) -> None:
    shape, spec = ANY[layout]
    data = numbers(shape, "D")
    x = put(data, *spec)
    u, s, vh = la.svd(x, full_matrices=False)
    q, r = la.qr(x)
    close(u @ (s[..., None] * vh), data)
    close(q @ r, data)
    ones = np.broadcast_to(
        np.eye(min(shape[-2:]), dtype="D"), (*shape[:-2], *[min(shape[-2:])] * 2)
    )
    for basis in (q, u, vh.mT.conj()):
        close(basis.mT.conj() @ basis, ones)
    inverse = la.pinv(x)
    close(x @ inverse @ x, data)


SIDES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Any]] = {
    "vector": ((4, 4), (4,), [("x",), ("x",)]),
    "stack and vector": ((5, 3, 3), (3,), [("x",), ("y",)]),
    "columns": ((4, 4), (4, 6), [("x", "y"), (None, "x")]),
    "stacks": ((2, 1, 3, 3), (3, 3, 2), [("y",), ("x",)]),
    "rows": ((3, 3), (3, 5), [(), ("x", "y")]),
    "no columns": ((3, 3), (3, 0), [("x",), ("y",)]),
    "short": ((4, 4), (3,), None),
    "not square": ((4, 3), (4,), None),
    "one dim": ((4,), (4,), None),
}


@pytest.mark.parametrize("name", SIDES)
def test_solve(name: str) -> None:
    one, two, specs = SIDES[name]
    agree(lambda m, a, b: m.solve(a, b), numbers(one), numbers(two, "D"), specs=specs)


def test_columns_of_right_sides_stay_where_they_are() -> None:
    a, b = put(numbers((4, 4))), put(numbers((4, 8)), None, "x")
    assert la.solve(a, b).sharding.spec == gs.P(None, "x")
    assert la.inv(put(numbers((8, 3, 3)), "x")).sharding.spec == gs.P("x")
    assert la.inv(put(numbers((8, 8)), "x")).sharding.spec == gs.P("x")
    assert la.inv(put(numbers((8, 8)), "x"), out_sharding=gs.P("y")).sharding.spec == gs.P("y")


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_columns_of_right_sides_are_not_moved(lead: tuple[int, ...]) -> None:
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        a, b = (
            put(numbers((*lead, 4, 4))),
            put(numbers((*lead, 4, 16)), *(None,) * len(lead), None, "x"),
        )
        before = dict(runtime.backend.traffic)
        la.solve(a, b).block_until_ready()
        assert received(runtime, before) == 0


@pytest.mark.parametrize(
    ("one", "two"),
    [((6, 3), (6,)), ((6, 3), (6, 4)), ((3, 5), (3, 2)), ((4, 4), (4,)), ((3, 0), (3,))],
)
@pytest.mark.parametrize("dtype", "fdD")
def test_least_squares(one: tuple[int, ...], two: tuple[int, ...], dtype: str) -> None:
    a, b = numbers(one, dtype), numbers(two, "d")
    wanted: Any = np.linalg.lstsq(a, b)
    wanted = (*wanted[:2], np.int64(wanted[2]), wanted[3])
    x, y = put(a, "x", "y"), put(b, "x")
    close(la.lstsq(x, y), wanted)
    close(la.lstsq(x, b), wanted)
    close(la.lstsq(a, y), wanted)


def test_least_squares_of_lower_rank() -> None:
    a = numbers((6, 3))
    a[:, 2] = a[:, 0] + a[:, 1]
    b = numbers((6, 2))
    found = la.lstsq(put(a, "x"), put(b, "x"), rcond=1e-9)
    wanted: Any = np.linalg.lstsq(a, b, rcond=1e-9)
    close(found[0], wanted[0])
    assert found[1].shape == wanted[1].shape == (0,) and int(found[2]) == wanted[2] == 2
    assert int(la.matrix_rank(put(a, "x", "y"))) == 2
    assert not np.isfinite(np.asarray(la.cond(put(np.zeros((3, 3)), "x"), 1)))
    stack = np.stack([np.zeros((2, 2)), np.eye(2)])
    for placed in (put(stack, "x"), put(stack)):
        np.testing.assert_array_equal(np.asarray(la.cond(placed, 1)), [np.inf, 1])
    close(la.matrix_rank(put(stack, "x"), tol=np.array([0.5, 2.0])), np.array([0, 0]))
    close(la.pinv(put(stack, "x"), np.array([0.5, 0.1])), stack)
    close(la.matrix_rank(put(stack, "x")), np.array([0, 2]))
    close(la.matrix_rank(put(np.zeros(4), "x")), np.int64(0))


@pytest.mark.parametrize("shape", [(2, 40), (40, 2), (60, 2, 2)])
def test_what_counts_as_0_depends_on_the_longer_side(shape: tuple[int, ...]) -> None:
    data = np.zeros(shape)
    data[..., 0, 0], data[..., 1, 1] = 1, 5e-15
    rank = 1 if 40 in shape else 2
    close(la.matrix_rank(put(data)), np.full(shape[:-2], rank))
    assert (np.linalg.matrix_rank(data) == rank).all()


def test_products() -> None:
    a, b = numbers((5, 3)), numbers((4, 5, 3), "D")
    agree(lambda m, x, y: m.cross(x, y), a, b)
    agree(lambda m, x, y: m.cross(x, y, axis=0), a.T.copy(), b[0].T.copy())
    agree(lambda m, x, y: m.cross(x, y), a, b[..., :2])
    agree(lambda m, x, y: m.outer(x, y), a[0], b[0, 0])
    agree(lambda m, x, y: m.outer(x, y), a, b[0, 0])
    agree(lambda m, x: m.matrix_power(x, 2), a)
    chain = [numbers(s, seed=str(n)) for n, s in enumerate([(6, 2), (2, 7), (7, 3), (3, 4)])]
    for xs in (chain[:1], chain[:2], chain[:3], chain, [chain[0][0], *chain[1:3], chain[3][:, 0]]):
        agree(lambda m, *xs: m.multi_dot(xs), *xs)
    agree(lambda m, x: m.multi_dot([x, x[0, 0], x]), numbers((3, 3, 3)))


def test_products_are_ordered_by_the_sizes_of_matrices() -> None:
    chain = [np.zeros(shape) for shape in ((6, 2), (2, 7), (7, 3), (3, 4))]
    assert products._lengths(chain) == [6, 2, 7, 3, 4]
    assert products._lengths([chain[0][0], *chain[1:3], chain[3][:, 0]]) == [1, 2, 7, 3, 1]
    for seed in range(20):
        sizes = np.random.default_rng(seed).integers(1, 9, 6).tolist()
        assert cost(sizes, products._order(sizes), 0, 4) == least_cost(sizes)


def cost(sizes: list[int], cuts: dict[tuple[int, int], int], i: int, j: int) -> int:
    """Return how many multiplications a chain takes that is cut there."""
    if i == j:
        return 0
    k = cuts[i, j]
    rest = cost(sizes, cuts, i, k) + cost(sizes, cuts, k + 1, j)
    return rest + sizes[i] * sizes[k + 1] * sizes[j + 1]


def least_cost(sizes: list[int]) -> int:
    """Return how many it takes at least, whichever two neighbours are multiplied first."""
    return min(
        (
            math.prod(sizes[at - 1 : at + 2]) + least_cost(sizes[:at] + sizes[at + 1 :])
            for at in range(1, len(sizes) - 1)
        ),
        default=0,
    )


def test_tensors() -> None:
    a, b = numbers((4, 6, 8, 3)), numbers((4, 6))
    agree(lambda m, x: m.tensorinv(x), a)
    agree(lambda m, x: m.tensorinv(x, ind=1), numbers((24, 8, 3)))
    agree(lambda m, x: m.tensorinv(x, ind=0), a)
    agree(lambda m, x: m.tensorinv(x, ind=1), a)
    agree(lambda m, x, y: m.tensorsolve(x, y), a, b)
    agree(
        lambda m, x, y: m.tensorsolve(x, y, axes=(0, 2)), numbers((2, 3, 3, 4, 2)), numbers((3, 4))
    )
    agree(lambda m, x, y: m.tensorsolve(x, y), a, b[:, :5])


def test_results_have_names() -> None:
    x = put(definite(numbers((3, 3))), "x")
    assert la.eigh(x).eigenvalues.shape == (3,) and la.eigh(x).eigenvectors.shape == (3, 3)
    assert la.slogdet(x).logabsdet.shape == la.slogdet(x).sign.shape == ()
    assert la.qr(x).Q.shape == la.qr(x).R.shape == la.svd(x).U.shape == la.svd(x).Vh.shape == (3, 3)
    moved = la.eigh(x, out_sharding=gs.P("y"))
    assert moved.eigenvalues.sharding.spec == moved.eigenvectors.sharding.spec == gs.P("y")


SINGULAR: Calls = {
    "inv": lambda m, x: m.inv(x),
    "solve": lambda m, x: m.solve(x, x),
    "cholesky": lambda m, x: m.cholesky(x - 1),
    "power": lambda m, x: m.matrix_power(x, -1),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_a_singular_matrix_is_an_error_at_once_or_has_no_numbers(name: str) -> None:
    data = np.stack([np.eye(3), np.ones((3, 3)), np.eye(3)])
    for spec in ((), ("x",), (None, "x", "y")):
        x = put(data, *spec)
        if gs.default_backend() == "gpu":
            found = np.asarray(SINGULAR[name](la, x))
            assert not np.isfinite(found[1]).all(axis=0).any()
            if name != "cholesky":
                np.testing.assert_array_equal(found[::2], data[::2])
            continue
        gc.collect()
        held = [device.memory_stats() for device in gs.devices()]
        with pytest.raises(np.linalg.LinAlgError, match=r"failed on matrices of shape") as caught:
            SINGULAR[name](la, x)
        assert type(caught.value) is LinearAlgebraError
        del caught  # its frames hold what was moved
        gc.collect()
        now = [device.memory_stats() for device in gs.devices()]
        assert [d["bytes_in_use"] for d in now] == [d["bytes_in_use"] for d in held]
        np.testing.assert_array_equal(np.asarray(x), data)


def test_a_singular_matrix_is_an_error_where_what_runs_later_is_used() -> None:
    data = np.stack([np.eye(3)] * 7 + [np.ones((3, 3))])
    with testing.runtime(inline_bytes=0, small_bytes=0):
        x = put(data, "x")
        found = la.inv(x)
        more = found + 1
        if gs.default_backend() == "gpu":  # where they have no result, and others do
            np.testing.assert_array_equal(np.asarray(more)[:7], data[:7] + 1)
            assert not np.isfinite(np.asarray(more)[7]).all(axis=0).any()
            return
        for lost in (found, more):
            with pytest.raises(ExecutionError, match=r"inv failed .* singular matrix") as caught:
                np.asarray(lost)
            assert isinstance(caught.value.__cause__, np.linalg.LinAlgError)
        np.testing.assert_array_equal(np.asarray(x), data)
        close(la.inv(x[:7]), data[:7])


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "half precision": (lambda x: la.svd(x.astype("e")), ArgumentTypeError, "svd is not .* float16"),
    "one dim": (lambda x: la.inv(x[0]), ArgumentError, "must have at least 2 axes"),
    "not square": (lambda x: la.det(x), ArgumentError, r"\(4, 3\) are not square"),
    "norm of one dim": (
        lambda x: la.matrix_norm(x[0]),
        ArgumentError,
        "matrix_norm needs at least two",
    ),
    "cond of one dim": (lambda x: la.cond(x[0]), ArgumentError, "cond needs at least two axes"),
    "power 0": (lambda x: la.matrix_power(x, 0), ArgumentError, r"\(4, 3\) does not hold square"),
    "power 1": (lambda x: la.matrix_power(x, 1), ArgumentError, r"\(4, 3\) does not hold square"),
    "power of a stack": (
        lambda x: la.matrix_power(x[None], 2),
        ArgumentError,
        r"\(1, 4, 3\) does not hold square",
    ),
    "tensor": (lambda x: la.tensorinv(x, 0), ArgumentError, "ind=0 must be positive"),
    "mode": (lambda x: la.qr(x, "full"), ArgumentError, "mode='full' is unknown"),
    "UPLO": (lambda x: la.eigh(x, "M"), ArgumentError, "UPLO='M' must be 'L' or 'U'"),
    "cond of nothing": (lambda x: la.cond(x[:0]), ArgumentError, "have no elements"),
    "both rank": (lambda x: la.matrix_rank(x, 1, rtol=1), ArgumentError, "both given"),
    "both pinv": (lambda x: la.pinv(x, 1, rtol=1), ArgumentError, "both given"),
    "ord": (lambda x: la.norm(x[0], [2]), ArgumentTypeError, "must be a number"),
    "stacks": (
        lambda x: la.solve(put(numbers((2, 3, 3))), put(numbers((3, 3, 1)))),
        ArgumentError,
        "do not broadcast",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        call(put(numbers((4, 3)), "x"))
