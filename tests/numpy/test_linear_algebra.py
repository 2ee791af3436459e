"""Products against NumPy's."""

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.aval import Aval
from gpushard._ops.table.contractions import EINSUM
from gpushard.errors import ArgumentError, ArgumentTypeError
from tests.numpy.compare import agree, memory_of, put, same, value

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("domains")

SPECS: list[tuple[Any, ...]] = [("x", "y"), ("y", "x"), (), (None, ("x", "y"))]


def pair(
    one: tuple[int, ...], two: tuple[int, ...], dtype: Any = np.float64
) -> tuple[np.ndarray, np.ndarray, gs.Array, gs.Array]:
    a, b = value(one, dtype, "a"), value(two, dtype, "b")
    return a, b, put(a, *("x", "y")[: len(one)]), put(b, *("y", "x")[: len(two)])


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ((5, 6), (6, 3)),
        ((6,), (6, 3)),
        ((5, 6), (6,)),
        ((6,), (6,)),
        ((2, 5, 6), (6, 3)),
        ((2, 1, 5, 6), (3, 6, 2)),
        ((0, 6), (6, 3)),
        ((5, 0), (0, 3)),
        ((5, 6), (5, 3)),
        ((5, 1), (6, 3)),
    ],
)
@pytest.mark.parametrize("name", ["matmul", "dot", "inner", "tensordot1", "outer"])
def test_shapes(name: str, one: tuple[int, ...], two: tuple[int, ...]) -> None:
    a, b, x, y = pair(one, two)
    if name == "tensordot1":
        agree(lambda: gnp.tensordot(x, y, 1), lambda: np.tensordot(a, b, 1), exact=False)
    else:
        ours, theirs = getattr(gnp, name), getattr(np, name)
        agree(lambda: ours(x, y), lambda: theirs(a, b), exact=False)


@pytest.mark.parametrize("first", SPECS)
@pytest.mark.parametrize("second", SPECS)
def test_specs(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    a, b = value((7, 5), "d", "a"), value((5, 6), "d", "b")
    same(gnp.matmul(put(a, *first), put(b, *second)), a @ b, exact=False)


@pytest.mark.parametrize("dtype", ["?", "b", "l", "e", "f", "D"])
def test_types(dtype: str) -> None:
    a, b, x, y = pair((5, 6), (6, 3), dtype)
    tolerance = {"rtol": 5e-3, "atol": 5e-3} if dtype == "e" else {"rtol": 1e-5, "atol": 1e-5}
    for name in ("matmul", "dot", "vecdot"):
        if name == "vecdot":
            b, y = a[::-1], x[::-1]
        found, wanted = getattr(gnp, name)(x, y), getattr(np, name)(a, b)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(np.asarray(found), wanted, **tolerance)
    same(gnp.vdot(x, x), np.vdot(a, a), exact=False) if dtype != "e" else None


@pytest.mark.parametrize("axes", [0, 1, 2, ((0, 1), (1, 0)), ([1], [0]), (1, 0), 3, ((0,), (0, 1))])
def test_tensordot(axes: Any) -> None:
    a, b = value((4, 6), "d", "a"), value((6, 4), "d", "b")
    x, y = put(a, "x", "y"), put(b, "x")
    if axes == 2:
        b, y = b.T, y.T
    agree(lambda: gnp.tensordot(x, y, axes), lambda: np.tensordot(a, b, axes), exact=False)


@pytest.mark.parametrize(
    ("one", "two", "axis"),
    [((5, 6), (5, 6), -1), ((5, 6), (6,), -1), ((5, 6), (5, 6), 0), ((2, 5, 6), (5, 1), -2)],
)
def test_vecdot(one: tuple[int, ...], two: tuple[int, ...], axis: int) -> None:
    a, b, x, y = pair(one, two, np.complex128)
    agree(lambda: gnp.vecdot(x, y, axis=axis), lambda: np.vecdot(a, b, axis=axis), exact=False)


def test_matrices_and_vectors() -> None:
    a, b, x, y = pair((2, 5, 6), (6,), np.complex128)
    same(gnp.matvec(x, y), np.matvec(a, b), exact=False)
    same(gnp.vecmat(x[0, :, 0], x[0]), np.vecmat(a[0, :, 0], a[0]), exact=False)
    same(gnp.matrix_transpose(x), np.matrix_transpose(a))


OF_TWO = ["outer", "vdot", "vecdot", "kron", "polyadd", "polysub", "polymul"]


@pytest.mark.parametrize("name", OF_TWO)
def test_either_of_two_arrays_may_be_on_the_host(name: str) -> None:
    a, b = value((4,), "d", "a"), value((4,), "d", "b")
    expected = getattr(np, name)(a, b)
    function = getattr(gnp, name)
    for operands in ((put(a), b), (put(a), b.tolist()), (a, put(b)), (a.tolist(), put(b))):
        same(function(*operands), expected, exact=False)


EINSUMS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(5, 6), (6, 3)]),
    ("ij,jk", [(5, 6), (6, 3)]),
    ("ji", [(5, 6)]),
    ("ba", [(5, 6)]),
    ("ij->", [(5, 6)]),
    ("ii->i", [(5, 5)]),
    ("ii", [(5, 5)]),
    ("ii,ij->j", [(5, 5), (5, 3)]),
    ("...i,...i->...", [(4, 5, 6), (5, 6)]),
    ("...ij,jk", [(2, 4, 5), (5, 3)]),
    ("i...,i...", [(4, 5), (4, 5)]),
    ("i...->...i", [(4, 5, 2)]),
    ("i,j,k->ijk", [(2,), (3,), (4,)]),
    ("ij,jk,kl->il", [(5, 6), (6, 3), (3, 4)]),
    (",ij->ij", [(), (3, 4)]),
    (" i j , j -> i ", [(5, 6), (6,)]),
    ("...,...", [(3,), (2, 3)]),
    ("Aj,jB", [(5, 6), (6, 3)]),
    ("ij,jk->ik", [(5, 6), (5, 3)]),
    ("ij->k", [(5, 6)]),
    ("ij->ii", [(5, 6)]),
    ("ij,jk->ik", [(5, 6)]),
    ("i", [(5, 6)]),
    ("ijk", [(5, 6)]),
    ("...i->i", [(5, 6)]),
    ("i-j", [(5, 6)]),
    ("ii", [(5, 6)]),
    ("ii", [(1, 5)]),
    ("i$", [(5, 6)]),
    ("......i", [(5, 6)]),
    ("i->i->i", [(5,)]),
]


@pytest.mark.parametrize(("subscripts", "shapes"), EINSUMS)
def test_einsum(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    data = [value(shape, "d", str(n)) for n, shape in enumerate(shapes)]
    arrays = [put(d, *("x", "y")[: d.ndim]) for d in data]
    agree(
        lambda: gnp.einsum(subscripts, *arrays), lambda: np.einsum(subscripts, *data), exact=False
    )


def test_einsum_of_lists() -> None:
    a, b, x, y = pair((5, 6), (6, 3))
    same(
        gnp.einsum(x, [0, 1], y, [1, 2], [0, 2]),
        np.einsum(a, [0, 1], b, [1, 2], [0, 2]),
        exact=False,
    )
    same(gnp.einsum(x, [1, 0]), np.einsum(a, [1, 0]))
    same(gnp.einsum(x, [..., 0], [0, ...]), np.einsum(a, [..., 0], [0, ...]))
    with pytest.raises(ArgumentError, match="subscript 52 is out of range"):
        gnp.einsum(x, [0, 52])
    with pytest.raises(ArgumentTypeError, match="must be a list of integers"):
        gnp.einsum(x, ["a", 0])
    with pytest.raises(ArgumentTypeError, match="needs operands"):
        gnp.einsum("ij")


def test_einsum_has_types_and_places() -> None:
    a, _, x, _ = pair((5, 6), (6, 3), "i")
    same(gnp.einsum("ij->j", x, dtype="f"), a.sum(0, dtype="f"))
    found = gnp.einsum("ij->ji", x, out_sharding=gs.P("y"))
    assert found.sharding.spec == gs.P("y")
    same(gnp.einsum("ij,j", x, np.arange(6)), a @ np.arange(6))
    same(gnp.einsum("i->", [1, 2, 3]), np.asarray(6))


@pytest.mark.parametrize("dtype", ["f", "d", "D", "e"])
def test_outer_products_keep_the_sign_of_zero(dtype: str) -> None:
    data, other = np.array([-0.0, 1, 2], dtype), np.array([0.0, -0.0, -1], dtype)
    x, y = put(data, "x"), put(other, "y")
    want = np.outer(data, other)
    for found in (gnp.outer(x, y), gnp.linalg.outer(x, y), gnp.einsum("i,j->ij", x, y)):
        same(found, want)
        np.testing.assert_array_equal(np.signbit(np.asarray(found.real)), np.signbit(want.real))
        assert found.sharding.spec == gs.P("x", "y")
    mixed = gnp.outer(x, np.array([1, 2]))
    same(mixed, np.outer(data, np.array([1, 2])))


def test_sums_of_squares_take_no_memory_and_move_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(0).random((256, 128))
    aval = Aval(data.shape, data.dtype)
    for subscripts in ("ab,ab->", "ab,ab->a", "ab,ab->b"):
        kernel = EINSUM.kernel(np, (aval, aval), (subscripts,))
        assert memory_of(kernel, data, data) < data.nbytes / 8
    x = put(data, "y", "x")
    for name in ("ravel", "reshape", "__mul__"):
        monkeypatch.setattr(gs.Array, name, None)
    same(gnp.vdot(x, x), np.vdot(data, data), exact=False)
    for axis in (None, 0, 1):
        same(gnp.linalg.norm(x, axis=axis), np.linalg.norm(data, axis=axis), exact=False)


def test_vdot_of_other_shapes() -> None:
    a, b = value((3, 4), "D"), value((2, 6), "D")
    same(gnp.vdot(put(a, "x"), put(b, "y")), np.vdot(a, b), exact=False)
    same(gnp.vdot(put(a, "x"), put(2 * a, "y")), np.vdot(a, 2 * a), exact=False)
    same(gnp.vdot(3.0, 2.0), np.vdot(3.0, 2.0))


@pytest.mark.parametrize(
    "subscripts", ["ij,jk->ik", "bij,bjk->bik", "ij,j->i", "ijk,jkl->il", "ij,ij->"]
)
def test_products_of_matrices_call_no_einsum(
    subscripts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (value((4,) * len(names), "d") for names in subscripts.split("->")[0].split(","))
    expected = np.einsum(subscripts, one, two)
    monkeypatch.setattr(np, "einsum", None)
    same(gnp.einsum(subscripts, put(one), put(two)), expected, exact=False)


@pytest.mark.parametrize("subscripts", ["ij,jj->i", "jj,ij->i", "ij,jjk->ik", "iij,jk->ik"])
def test_letters_twice_in_an_operand_are_diagonals(subscripts: str) -> None:
    one, two = (value((4,) * len(names), "d") for names in subscripts.split("->")[0].split(","))
    expected = np.einsum(subscripts, one, two)
    same(gnp.einsum(subscripts, put(one), put(two)), expected, exact=False)


@pytest.mark.parametrize(
    "shapes", [((), (3,)), ((3,), ()), ((3, 4), (5, 4)), ((2, 3, 4), (4,)), ((3,), (4, 3))], ids=str
)
def test_inner_products(shapes: tuple[tuple[int, ...], ...]) -> None:
    a, b = (value(shape, "d", str(shape)) for shape in shapes)
    x, y = (put(each, *("x",)[: each.ndim]) for each in (a, b))
    same(gnp.inner(x, y), np.inner(a, b), exact=False)


def test_no_more_dims_are_summed_over_than_both_have() -> None:
    for pair in ((np.ones((2, 2)), np.ones(2)), (np.ones(2), np.ones((2, 2)))):
        with pytest.raises(ArgumentError, match=r"axes=2 is out of range .* use 0 to 1"):
            gnp.tensordot(*pair, 2)


def test_preferred_types_of_vector_products() -> None:
    x = put(np.ones((2, 3), "f"), "x")
    for kind in ("e", "d"):
        assert gnp.vecdot(x, x, preferred_element_type=kind).dtype == kind
        assert gnp.einsum("ij,ij->i", x, x, preferred_element_type=kind).dtype == kind


def test_the_type_of_a_product_of_matrices_comes_before_the_preferred_one() -> None:
    data = np.arange(6, dtype="f").reshape(2, 3)
    found = gnp.matmul(put(data), data.T, dtype="d", preferred_element_type="f")
    same(found, np.matmul(data, data.T, dtype="d"))
