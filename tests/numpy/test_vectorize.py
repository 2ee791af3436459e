"""`vectorize` gives what NumPy's gives, which calls the function for each element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from gpushard.errors import ArgumentError
from tests.share import some


@pytest.fixture(autouse=True)
def mesh() -> Iterator[gs.Mesh]:
    with testing.runtime(host_devices=8):
        yield gs.make_mesh((2, 4), ("x", "y"))


BODIES: dict[str, list[Callable[[Any], Callable[..., Any]]]] = {
    "(),()->()": [
        lambda m: lambda a, b: a * b - m.max(a) + m.sum(b),
        lambda m: lambda a, b: m.where(a > b, a, m.mean(b)),
        lambda m: lambda a, b: m.cumsum(a)[0] * m.arange(3.0)[1] + b,
    ],
    "(),()->(),()": [lambda m: lambda a, b: (m.prod(a) + b, m.argmax(b) + 0 * a)],
    "(n),(n)->()": [
        lambda m: lambda a, b: a @ b,
        lambda m: lambda a, b: m.sort(a)[0] + b.max(),
    ],
    "(n),()->(n)": [lambda m: lambda a, b: (a - a.mean()) * b],
    "(m,n),(n)->(m),(n,m)": [lambda m: lambda a, b: (a @ b, a.T)],
    "(n),(k)->(k,n)": [lambda m: lambda a, b: b[:, None] * a],
    "(n),(n)->(p)": [lambda m: lambda a, b: m.stack([a.sum(), b.sum(), a.max()])],
}
SIZES = {"n": 3, "m": 2, "k": 4}


def random_arguments(rng: np.random.Generator, signature: str) -> list[np.ndarray[Any, Any]]:
    """Return arrays whose dims in front broadcast, some of one element, and some missing."""
    ins = signature.split("->")[0][1:-1]
    lead = rng.choice([1, 2, 4], int(rng.integers(0, 4))).tolist()
    arrays = []
    for core in ins.split("),("):
        own = [n if rng.random() < 0.7 else 1 for n in lead[int(rng.integers(len(lead) + 1)) :]]
        shape = (*own, *[SIZES[name] for name in core.split(",") if name])
        arrays.append(rng.integers(-9, 9, shape).astype(rng.choice(["f8", "f4", "i8"])))
    return arrays


def placed(rng: np.random.Generator, mesh: gs.Mesh, x: Any) -> Any:
    """Return an array split by some axes that divide its dims; or leave it on the host."""
    if rng.random() < 0.3:
        return x
    axes = [axis for axis in ("x", "y") if rng.random() < 0.7]
    spec: list[Any] = [None] * x.ndim
    for axis in axes:
        fits = [d for d in range(x.ndim) if spec[d] is None and x.shape[d] % mesh.shape[axis] == 0]
        if fits:
            spec[int(rng.choice(fits))] = axis
    return gs.device_put(x, gs.NamedSharding(mesh, gs.P(*spec)))


@pytest.mark.parametrize("signature", BODIES)
def test_each_element_by_itself(mesh: gs.Mesh, signature: str) -> None:
    said = None if "n" not in signature else signature
    for seed in range(some(12, 200)):
        rng = np.random.default_rng(seed)
        body = BODIES[signature][seed % len(BODIES[signature])]
        arrays = random_arguments(rng, signature)
        want = np.vectorize(body(np), signature=signature)(*arrays)
        given = [placed(rng, mesh, x) for x in arrays]
        made = gnp.vectorize(body(gnp), signature=said)(*given)
        several = isinstance(want, tuple)
        assert isinstance(made, tuple) == several
        pairs = zip(made, want, strict=True) if several else [(made, want)]
        for got, value in pairs:
            assert got.shape == np.shape(value), (seed, [x.shape for x in arrays])
            np.testing.assert_allclose(np.asarray(got), value, rtol=1e-5, err_msg=str(seed))


def test_results_lie_as_arguments_do(mesh: gs.Mesh) -> None:
    x = gs.device_put(np.arange(32.0).reshape(4, 8), gs.NamedSharding(mesh, gs.P("x", "y")))
    assert gnp.vectorize(lambda a, b: a.max() + b)(x, 1.0).sharding == x.sharding
    rows = gnp.vectorize(lambda row: row.sum(), signature="(n)->()")(x)
    assert rows.sharding.spec[0] == "x"


def test_no_elements_give_no_results() -> None:
    made = gnp.vectorize(lambda a: (a.sum(), gnp.ones(2)), signature="(n)->(),(k)")(np.ones((0, 3)))
    assert [x.shape for x in made] == [(0,), (0, 2)]


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_a_function_that_assigns_changes_no_argument(shape: tuple[int, ...]) -> None:
    def body(a: Any) -> Any:
        a[...] = a + 5
        return a

    x = gnp.zeros(shape)
    made = gnp.vectorize(body)(x)
    made[...] = made + 1
    np.testing.assert_array_equal(np.asarray(x), np.zeros(shape))
    np.testing.assert_array_equal(np.asarray(made), np.full(shape, 6))


def test_names_and_what_is_excluded() -> None:
    def body(a: Any, power: Any, *, scale: Any, names: Any = ()) -> Any:
        assert type(power) is int and names == ("n",)
        return a**power * scale

    ours, theirs = (
        m.vectorize(body, excluded={1, "names"})([[1.0], [2.0]], 2, scale=np.ones(3), names=("n",))
        for m in (gnp, np)
    )
    np.testing.assert_array_equal(np.asarray(ours), theirs)
    assert gnp.vectorize(lambda n: n + 1, excluded=[0])(3).item() == 4


@pytest.mark.parametrize("otypes", [np.float32, np.dtype("f"), "f", ["f"]])
def test_one_type_is_that_of_one_result(otypes: Any) -> None:
    assert gnp.vectorize(lambda a: a + 1, otypes=otypes)([1, 2]).dtype == np.float32


REFUSED: dict[str, tuple[Callable[[Any], Any], str | None, list[Any]]] = {
    "another size": (lambda m: lambda a: m.ones(3), "(n)->(n)", [np.ones((2, 4))]),
    "another rank": (lambda m: lambda a: a, "(n)->()", [np.ones((2, 4))]),
    "two sizes of one name": (lambda m: lambda a: (a[:1], a), "(n)->(k),(k)", [np.ones((2, 4))]),
    "too few results": (lambda m: lambda a: (a,), "(n)->(n),(n)", [np.ones(4)]),
    "too many results": (lambda m: lambda a: (a, a), "(n)->(n)", [np.ones((2, 4))]),
    "too few arguments": (lambda m: lambda a: a, "(n),(n)->(n)", [np.ones(4)]),
    "no dim for the signature": (lambda m: lambda a: a, "(n)->(n)", [1.0]),
    "one of two sizes": (
        lambda m: lambda a, b: m.sum(a), "(m,n),(m,n)->()", [np.ones((2, 3)), np.ones((2, 4))],
    ),
    "two sizes of arguments": (lambda m: lambda a, b: a, "(n),(n)->(n)", [np.ones(3), np.ones(4)]),
    "no broadcast": (lambda m: lambda a, b: a, None, [np.ones(3), np.ones(4)]),
    "an array for a number": (lambda m: lambda a: m.ones(3), None, [np.ones(2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    body, signature, args = REFUSED[name]
    with pytest.raises((ValueError, TypeError)):
        np.vectorize(body(np), signature=signature)(*args)
    with pytest.raises(ArgumentError, match=r"^vectorize"):
        gnp.vectorize(body(gnp), signature=signature)(*args)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "must give a number for each element": ({}, "an array"),
    "its signature says": ({"signature": "()->()"}, "an array"),
    "otypes= has 2 types, and the function gives 1": ({"otypes": "fd"}, "a number"),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_a_function_must_give_is_said(words: str) -> None:
    named, gives = WRONG[words]
    call = gnp.vectorize(lambda a: gnp.ones(3) if gives == "an array" else a, **named)
    with pytest.raises(ArgumentError, match=words):
        call([1.0, 2.0])
