"""Random numbers against JAX's: the same keys, bits and integers, and floats that are as close."""

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import random
from gpushard.testing import runtime

SHAPES: list[tuple[int, ...]] = [(), (5, 301)]


@pytest.fixture(autouse=True, scope="module")
def both(jax: ModuleType) -> Iterator[None]:
    """Run with 64-bit types on JAX's side; the key of a single place is enough on ours."""
    with runtime(host_devices=6), jax.enable_x64(True):
        yield


def same(ours: Any, theirs: Any) -> None:
    wanted = np.asarray(theirs)
    assert ours.dtype == wanted.dtype
    np.testing.assert_array_equal(np.asarray(ours), wanted)


@pytest.mark.parametrize("seed", [-(2**40) - 3])
def test_keys(jax: ModuleType, seed: int) -> None:
    ours, theirs = random.key(seed), jax.random.key(seed)
    same(random.key_data(ours), jax.random.key_data(theirs))
    same(random.PRNGKey(seed), jax.random.PRNGKey(seed))
    for shape in (2, (3, 4)):
        found = random.split(ours, shape)
        same(random.key_data(found), jax.random.key_data(jax.random.split(theirs, shape)))
    for data in (1, 2**32 - 1):
        mixed = jax.random.fold_in(theirs, np.uint32(data))
        same(random.key_data(random.fold_in(ours, data)), jax.random.key_data(mixed))
        same(random.fold_in(random.PRNGKey(seed), data), jax.random.key_data(mixed))


UNSIGNED = [f"uint{n}" for n in (8, 16, 32, 64)]
INTEGERS = [*UNSIGNED, *(f"int{n}" for n in (8, 16, 32, 64))]
FLOAT = ["float16", "float32", "float64"]


def compiled(jax: ModuleType, seed: int, functions: dict[Any, Any]) -> dict[Any, Any]:
    """Return what functions of a key give, compiled together: that takes most of the time."""
    made: dict[Any, Any] = jax.jit(lambda key: [function(key) for function in functions.values()])(
        jax.random.key(seed)
    )
    return dict(zip(functions, made, strict=True))


def test_every_name_of_jax_is_there(jax: ModuleType) -> None:
    names = {name for name in dir(jax.random) if callable(getattr(jax.random, name))}
    public = {name for name in names if not name.startswith("_")}
    assert public <= {*random.__all__}
    for name in public:
        wanted = inspect.signature(getattr(jax.random, name)).parameters
        ours = inspect.signature(getattr(random, name)).parameters
        assert [argument for argument in ours if argument in wanted] == [*wanted], name


def test_bits(jax: ModuleType) -> None:
    theirs = compiled(
        jax,
        3,
        {
            (dtype, shape): lambda key, d=dtype, s=shape: jax.random.bits(key, s, d)
            for dtype in UNSIGNED
            for shape in SHAPES
        },
    )
    for (dtype, shape), wanted in theirs.items():
        same(random.bits(random.key(3), shape, dtype), wanted)


def test_uniform(jax: ModuleType) -> None:
    theirs = compiled(
        jax,
        4,
        {
            (dtype, bounds): lambda key, d=dtype, b=bounds: jax.random.uniform(key, (5, 301), d, *b)
            for dtype in FLOAT
            for bounds in ((), (-2.5, 3.25))
        },
    )
    for (dtype, bounds), wanted in theirs.items():
        ours = random.uniform(random.key(4), (5, 301), dtype, *bounds)
        if not bounds:
            same(ours, wanted)
        # XLA may fuse the product and the sum, and so round once instead of twice.
        close = 4 * np.finfo(dtype).eps
        np.testing.assert_allclose(np.asarray(ours), np.asarray(wanted), rtol=0, atol=close)


def _bounds(dtype: str) -> list[tuple[int, int]]:
    info = np.iinfo(dtype)
    least, most = int(info.min), int(info.max)
    narrow = [(least, most + 1)] if info.bits < 64 else []
    long = [(0, 100003)] * (info.bits >= 32) + [(5, (1 << 40) + 15)] * (info.bits == 64)
    empty = [(5, 5), (7, 3)]
    return [(3, 101), (0, 64), (least, most), *empty, *narrow, *long]


def test_integers(jax: ModuleType) -> None:
    def draw(key: Any, dtype: str, low: int, high: int) -> Any:
        inside = high <= np.iinfo(dtype).max
        bounds = np.array(low, dtype), np.array(high, dtype if inside else np.int64)
        return jax.random.randint(key, (301,), *bounds, dtype)

    calls = [(dtype, *bounds) for dtype in INTEGERS for bounds in _bounds(dtype)]
    theirs = compiled(jax, 5, {call: lambda key, c=call: draw(key, *c) for call in calls})
    for (dtype, low, high), wanted in theirs.items():
        same(random.randint(random.key(5), (301,), low, high, dtype), wanted)
    lows = np.arange(6, dtype=np.int16)[:, None]
    ours = random.integers(random.key(5), (6, 50), lows, gs.device_put(lows + 9), "int32")
    same(ours, jax.random.randint(jax.random.key(5), (6, 50), lows, lows + 9, "int32"))


SIMPLE: dict[str, Callable[[Any, Any], Any]] = {
    "bernoulli": lambda r, key: r.bernoulli(key, np.linspace(0, 1, 50), (9, 50)),
    "bernoulli in single": lambda r, key: r.bernoulli(key, np.float32(0.7), (99,)),
    "rademacher": lambda r, key: r.rademacher(key, (99,), "int8"),
    "bernoulli of more bits": lambda r, key: r.bernoulli(
        key, np.linspace(0, 1, 50), (9, 50), "high"
    ),
    "geometric": lambda r, key: r.geometric(key, 0.2, (999,)),
}


FLOATS: dict[str, tuple[Any, ...]] = {
    "normal": (),
    "exponential": (),
    "gumbel": (),
    "laplace": (),
    "logistic": (),
    "cauchy": (),
    "rayleigh": (1.7,),
    "pareto": (2.5,),
    "weibull_min": (1.5, 2.25),
    "lognormal": (0.75,),
    "truncated_normal": (-1.25, 2.5),
    "maxwell": (),
    "double_sided_maxwell": (0.5, 1.5),
    "triangular": (-1.0, 0.25, 2.0),
    "wald": (1.5,),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats(jax: ModuleType, dtype: str) -> None:
    """They differ by what logarithms do, and XLA's are less exact than NumPy's in float64."""
    real = np.dtype(dtype)

    def call(name: str, library: Any, key: Any) -> Any:
        parameters = [real.type(p) for p in FLOATS[name]]
        return getattr(library, name)(key, *parameters, shape=(2999,), dtype=real)

    theirs = compiled(
        jax, 7, {name: lambda key, n=name: call(n, jax.random, key) for name in FLOATS}
    )
    eps = np.finfo(real).eps
    for name, wanted in theirs.items():
        ours = call(name, random, random.key(7))
        assert ours.dtype == wanted.dtype
        np.testing.assert_allclose(
            np.asarray(ours), np.asarray(wanted), rtol=300 * eps, atol=8 * eps, err_msg=name
        )


def test_complex_and_vectors(jax: ModuleType) -> None:
    key, theirs = random.key(8), jax.random.key(8)
    near = {"rtol": 1e-12, "atol": 1e-13}
    ours: Any = random.normal(key, (99,), "complex128")
    np.testing.assert_allclose(
        np.asarray(ours), np.asarray(jax.random.normal(theirs, (99,), "complex128")), **near
    )
    ours = random.orthogonal(key, 3, (4,), "complex128", 2)
    wanted = jax.jit(lambda key: jax.random.orthogonal(key, 3, (4,), "complex128", 2))(theirs)
    np.testing.assert_allclose(np.asarray(ours), np.asarray(wanted), **near)
    mean, cov = np.array([1.0, -2.0, 0.5]), np.array([[2, 0.5, 0], [0.5, 1, 0.25], [0, 0.25, 3]])
    ours = random.multivariate_normal(key, mean, cov, (99,))
    np.testing.assert_allclose(
        np.asarray(ours), jax.random.multivariate_normal(theirs, mean, cov, (99,)), **near
    )


LOGITS = np.log(np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]))
WEIGHTS = np.arange(1, 11) / 55
TABLE = np.arange(60.0).reshape(12, 5)

ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "permutation in two rounds": lambda r, key: r.permutation(key, 5000),
    "permutation of columns": lambda r, key: r.permutation(key, TABLE, 1),
    "independent permutations": lambda r, key: r.permutation(key, TABLE, 1, independent=True),
    "choice": lambda r, key: r.choice(key, 10, (30, 2)),
    "choice without replacement": lambda r, key: r.choice(key, 99, (30, 2), replace=False),
    "weighted choice": lambda r, key: r.choice(key, 10, (30, 2), p=WEIGHTS),
    "both": lambda r, key: r.choice(key, 10, (3, 2), replace=False, p=WEIGHTS),
    "categorical of more bits": lambda r, key: r.categorical(key, LOGITS, 1, (40, 2), mode="high"),
    "categorical of logits that broadcast": lambda r, key: r.categorical(
        key, LOGITS[:, :1, None], 0, (3, 4, 5)
    ),
    "categorical along dim 0": lambda r, key: r.categorical(key, LOGITS, 0, (40, 3)),
}


def test_booleans_signs_and_order(jax: ModuleType) -> None:
    calls = SIMPLE | ORDERS
    theirs = compiled(
        jax, 9, {name: lambda key, c=call: c(jax.random, key) for name, call in calls.items()}
    )
    for name, wanted in theirs.items():
        ours = calls[name](random, random.key(9))
        assert ours.dtype == wanted.dtype, name
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(wanted), err_msg=name)


def test_categories_without_replacement(jax: ModuleType) -> None:
    """JAX's positions are of 32 bits."""
    ours = random.categorical(random.key(9), LOGITS, 0, (2, 3), replace=False)
    theirs = jax.random.categorical(jax.random.key(9), LOGITS, 0, (2, 3), replace=False)
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
