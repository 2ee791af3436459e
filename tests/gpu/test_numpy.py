"""Functions of every area on a GPU, divided in every way, beside NumPy's; and on a driver without
one. What a row does is in `test_ops`; here are functions that are made of several, indices of all
kinds, and random numbers, whose integers and uniforms are those of the host to the bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import random, special
from gpushard.testing import runtime
from gpushard.testing.runtime import using
from tests.gpu.device import DRIVERS, SPLITS, Split, make_driver, make_gpu_runtime, needs_gpu

RANDOM = np.random.default_rng(4)
X = RANDOM.standard_normal((12, 7))
SQUARE = RANDOM.standard_normal((3, 5, 5)) + 4 * np.eye(5)
STACKS = RANDOM.standard_normal((4, 3, 5, 5)) + 4 * np.eye(5)
HOLES = np.where(X > 1, np.nan, X)
WHOLE = RANDOM.integers(0, 9, (12, 7))


def squared(ns: Any, x: Any) -> Any:
    """Matrices that are positive definite."""
    return x @ ns.matrix_transpose(x)


Call = Callable[[Any, Any], Any]

CALLS: dict[str, tuple[np.ndarray[Any, Any], Call]] = {
    "sort": (X, lambda ns, x: ns.sort(x, axis=0)),
    "argsort": (X, lambda ns, x: ns.argsort(x, axis=0)),
    "searchsorted": (X, lambda ns, x: ns.searchsorted(ns.sort(x[:, 0]), x)),
    "unique": (WHOLE, lambda ns, x: ns.unique(x, return_counts=True)),
    "isin": (WHOLE, lambda ns, x: ns.isin(x, x[0])),
    "setdiff1d": (WHOLE, lambda ns, x: ns.setdiff1d(x, x[:2])),
    "cumsum": (X, lambda ns, x: ns.cumsum(x, axis=0)),
    "diff": (X, lambda ns, x: ns.diff(x, n=2, axis=0)),
    "gradient": (X, lambda ns, x: ns.gradient(x, axis=0)),
    "median": (X, lambda ns, x: ns.median(x, axis=0)),
    "quantile": (X, lambda ns, x: ns.quantile(x, 0.3, axis=1)),
    "nanmean": (HOLES, lambda ns, x: ns.nanmean(x, axis=0)),
    "nanmax": (HOLES, lambda ns, x: ns.nanmax(x, axis=0)),
    "argmax": (HOLES, lambda ns, x: ns.argmax(x)),
    "argmin": (HOLES.astype(np.float16), lambda ns, x: ns.argmin(x, axis=0)),
    "mean of integers": (WHOLE, lambda ns, x: ns.mean(x, axis=0, dtype=int)),
    "mean of booleans": (WHOLE, lambda ns, x: ns.mean(x > 0, dtype=bool)),
    "histogram": (X, lambda ns, x: ns.histogram(x, bins=5)[0]),
    "bincount": (WHOLE, lambda ns, x: ns.bincount(x[:, 0], minlength=4)),
    "weighted bincount": (WHOLE, lambda ns, x: ns.bincount(x[:, 0], x[:, 1] / 4)),
    "interp": (X, lambda ns, x: ns.interp(x, np.arange(-3.0, 4), np.arange(7.0) ** 2)),
    "convolve": (X, lambda ns, x: ns.convolve(x[:, 0], x[:3, 1])),
    "average": (X, lambda ns, x: ns.average(x, axis=0, weights=abs(x[:, 0]))),
    "cov": (X, lambda ns, x: ns.cov(x, rowvar=False)),
    "kron": (X, lambda ns, x: ns.kron(x[:2], x[:3])),
    "inv": (SQUARE, lambda ns, x: ns.linalg.inv(x)),
    "inv of stacks": (STACKS, lambda ns, x: ns.linalg.inv(x)),
    "cholesky": (SQUARE, lambda ns, x: ns.linalg.cholesky(squared(ns, x))),
    "cholesky of stacks": (STACKS, lambda ns, x: ns.linalg.cholesky(squared(ns, x))),
    "cholesky of no matrices": (STACKS[:, :0], lambda ns, x: ns.linalg.cholesky(x)),
    "solve": (SQUARE, lambda ns, x: ns.linalg.solve(x, x[..., :2])),
    "det": (SQUARE, lambda ns, x: ns.linalg.det(x)),
    "svdvals": (X, lambda ns, x: ns.linalg.svdvals(x)),
    "eigvalsh": (SQUARE, lambda ns, x: ns.linalg.eigvalsh(x + ns.matrix_transpose(x))),
    "norm": (X, lambda ns, x: ns.linalg.norm(x, axis=0)),
    "pinv": (X, lambda ns, x: ns.linalg.pinv(x)),
    "fft": (X, lambda ns, x: ns.fft.fft(x, axis=0)),
    "irfftn": (X, lambda ns, x: ns.fft.irfftn(ns.fft.rfftn(x), s=(12, 7), axes=(0, 1))),
    "take": (X, lambda ns, x: ns.take(x, np.array([3, -1, 3]), axis=0)),
    "take_along_axis": (X, lambda ns, x: ns.take_along_axis(x, ns.argsort(x, axis=0), axis=0)),
    "nonzero": (X, lambda ns, x: ns.nonzero(x > 0.5)),
    "a mask": (X, lambda ns, x: x[x > 0]),
    "rows by number": (X, lambda ns, x: x[[5, 0, 5, -2]]),
    "pairs by number": (X, lambda ns, x: x[[5, 0, 5], [1, 6, 1]]),
    "mixed": (X, lambda ns, x: x[::-2, [0, 3, 3]]),
    "repeat": (X, lambda ns, x: ns.repeat(x, np.arange(12) % 3, axis=0)),
    "delete": (X, lambda ns, x: ns.delete(x, [1, 4], axis=0)),
}


def spread(data: np.ndarray[Any, Any], partitions: int) -> gs.Array:
    mesh = gs.make_mesh((max(partitions // 2, 1), min(partitions, 2)), ("a", "b"))
    return gs.device_put(data, gs.NamedSharding(mesh, gs.P("a", "b")))


def agree(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            agree(one, other)
        return
    value = np.asarray(found)
    assert (value.shape, value.dtype) == (np.shape(wanted), np.asarray(wanted).dtype)
    np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("kind", DRIVERS)
def test_functions_are_numpys(kind: str, split: Split) -> None:
    with using(make_gpu_runtime(make_driver(kind), split)):
        for data, call in CALLS.values():
            agree(call(gs.numpy, spread(data, split.partitions)), call(np, data))


@needs_gpu
@pytest.mark.one_of(7)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("given", "?bBhHiIlLefdFD")
def test_sums_are_of_the_type_that_is_asked_for(given: str) -> None:
    numbers = np.tile(WHOLE if given in "?BHIL" else WHOLE - 4, (1, 5))
    if given not in "?BHIL":
        numbers[0] = np.resize([1, -1], 35)  # each is true, and the sum of each unit is not
        numbers[0, 32:] = 0
    data = numbers.astype(given)
    calls: list[Callable[[Any, Any, str], Any]] = [
        lambda ns, x, dtype: ns.sum(x, 1, dtype=dtype),
        lambda ns, x, dtype: ns.prod(x[:, :3], 1, dtype=dtype),
        lambda ns, x, dtype: ns.mean(x, 1, dtype=dtype),
    ]
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[0])):
        x = gs.device_put(data)
        for dtype, call in itertools.product("?bLefdD", calls):
            agree(call(gs.numpy, x, dtype), call(np, data, dtype))


@needs_gpu
@pytest.mark.parametrize("dtype", "efd")
def test_digamma_of_integers_is_that_of_harmonic_numbers(dtype: str) -> None:
    n = np.arange(1, 60, dtype=dtype)
    wanted = np.cumsum([0, *(1 / n[:-1].astype(float))]) - np.euler_gamma
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[1])):
        found = np.asarray(special.digamma(gs.device_put(n)))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=32 * np.finfo(dtype).eps)


@needs_gpu
def test_matrices_of_a_stack_without_a_result_have_no_numbers() -> None:
    good = np.arange(12).reshape(4, 3) != 6
    x = np.where(good[..., None, None], STACKS, 0)
    with using(make_gpu_runtime(make_driver("cupy"), Split(4, False))):
        for data, call in CALLS["inv of stacks"], CALLS["cholesky of stacks"]:
            found = np.asarray(call(gs.numpy, spread(x, 4)))
            agree(found[good], call(np, data)[good])
            assert not np.isfinite(found[~good]).any(), found[~good]


@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("kind", DRIVERS)
def test_updates_are_numpys(kind: str, split: Split) -> None:
    rows, mask = np.array([3, 0, 3, 11]), X > 0.7
    values = RANDOM.standard_normal((4, 7))
    with using(make_gpu_runtime(make_driver(kind), split)):
        x = spread(X, split.partitions)
        for name in ("add", "multiply", "maximum"):
            wanted = X.copy()
            getattr(np, name).at(wanted, rows, values)
            at = x.at[rows]
            found = {"add": at.add, "multiply": at.multiply, "maximum": at.max}[name](values)
            agree(found, wanted)
        wanted = X.copy()
        wanted[mask], wanted[rows] = 0.25, values
        x[spread(mask, split.partitions)] = 0.25
        x[rows] = values
        agree(x, wanted)


MADE: dict[str, Callable[..., Any]] = {
    "arange": lambda ns, t, **to: ns.arange(2, 41, 3, dtype=t, **to),
    "arange downwards": lambda ns, t, **to: ns.arange(3, -9, -1, dtype=t, **to),
    "linspace": lambda ns, t, **to: ns.linspace(1, 27, 13, dtype=t, **to),
    "linspace without its end": lambda ns, t, **to: ns.linspace(5, 2, 9, False, dtype=t, **to),
    "linspace to a zero with a sign": lambda ns, t, **to: ns.linspace(0, -0.0, 9, dtype=t, **to),
    "full": lambda ns, t, **to: ns.full((9, 3), 7, dtype=t, **to),
    "zeros with a sign": lambda ns, t, **to: ns.full((9, 3), -np.zeros((), t), t, **to),
    "eye": lambda ns, t, **to: ns.eye(9, 12, -2, dtype=t, **to),
    "tri": lambda ns, t, **to: ns.tri(9, 7, 1, dtype=t, **to),
}


@pytest.mark.parametrize("kind", DRIVERS)
@pytest.mark.parametrize("name", MADE)
def test_arrays_are_made_of_what_numpy_makes(kind: str, name: str) -> None:
    split = SPLITS[-1]
    with using(make_gpu_runtime(make_driver(kind), split)):
        out = gs.NamedSharding(gs.make_mesh((split.partitions,), "a"), gs.P("a"))
        for dtype in "bhilqefdFD" + "BHILQ" * (name != "arange downwards"):
            wanted = MADE[name](np, dtype)
            found = MADE[name](gs.numpy, dtype, out_sharding=out)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
            assert np.asarray(found).tobytes() == wanted.tobytes()  # zeros have signs


@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("kind", DRIVERS)
def test_parts_of_any_size_are_worked_on_to_their_end(kind: str, split: Split) -> None:
    rows = np.arange(9 * 1500.0).reshape(9, 1500)
    with using(make_gpu_runtime(make_driver(kind), split)):
        out = gs.NamedSharding(gs.make_mesh((split.partitions,), "a"), gs.P("a"))
        agree(gs.device_put(rows, out) * 2 + 1, rows * 2 + 1)
        for size in (2049, 2303, 4097, 9000):
            for dtype in ("u1", "f4", "f8", "c16"):
                data = np.zeros((3, size + 2), dtype)
                x = gs.device_put(data, gs.devices()[0])
                x[:2, 1:-1] = data[:2, 1:-1] = 7
                agree(x, data)
                agree(gs.numpy.full(size, 3, dtype), np.full(size, 3, dtype))


@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("kind", DRIVERS)
def test_random_numbers_are_those_of_the_host(kind: str, split: Split) -> None:
    def draw(out: Any = None) -> list[Any]:
        key = random.key(7)
        exact = [
            random.bits(key, (13, 5), out_sharding=out),
            random.uniform(key, (13, 5), "float64", out_sharding=out),
            random.randint(key, (13, 5), -3, 99, "int64", out_sharding=out),
        ]
        return [np.asarray(x) for x in (*exact, random.normal(key, (13, 5), out_sharding=out))]

    with runtime():
        wanted = draw()
    with using(make_gpu_runtime(make_driver(kind), split)):
        mesh = gs.make_mesh((split.partitions,), "a")
        found = draw(gs.NamedSharding(mesh, gs.P("a")))
    for one, other in zip(found[:3], wanted[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_max_ulp(found[3], wanted[3], 4)
