"""Functions that are traced give what they give when they are called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from tests.share import examples
from tests.transforms.mapping.test_functions import NAMES, called

P = gs.P


@pytest.mark.one_of(5)
@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 6)])
@pytest.mark.parametrize("name", NAMES)
def test_a_function_of_traced_values_is_numpys(name: str, shape: tuple[int, ...]) -> None:
    value = np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape) + 0.5
    with testing.runtime(host_devices=4):
        sharding = gs.NamedSharding(gs.make_mesh((2, 2), ("x", "y")), P("x", "y"))
        x = gs.device_put(value, sharding)
        ways: list[Callable[[Any], Any]] = [
            gs.jit(lambda x: called(name, x, gnp)),
            gs.jit(gs.vmap(lambda x: called(name, x, gnp))),
            gs.vmap(gs.jit(lambda x: called(name, x, gnp))),
        ]
        each = np.stack([np.asarray(called(name, part, np)) for part in value])
        np.testing.assert_allclose(np.asarray(ways[0](x[0])), each[0], rtol=1e-9, atol=1e-12)
        for way in ways[1:]:
            np.testing.assert_allclose(np.asarray(way(x)), each, rtol=1e-9, atol=1e-12)


UNARY: dict[str, Callable[[Any, Any], Any]] = {
    "negative": lambda x, m: -x,
    "double": lambda x, m: x * 2,
    "add 1": lambda x, m: 1 + x,
    "exp": lambda x, m: m.exp(-m.abs(x) / 8),
    "tanh": lambda x, m: m.tanh(x),
    "sqrt": lambda x, m: m.sqrt(1 + m.abs(x)),
    "square": lambda x, m: m.square(x) / 16,
    "relu": lambda x, m: m.maximum(x, 0),
    "soft": lambda x, m: x / (1 + m.abs(x)),
    "where": lambda x, m: m.where(x > 0, x, x / 2),
    "select": lambda x, m: m.where((x > 0) & (x < 3), x * (3 - x), 0),
    "power": lambda x, m: (x / 8) ** 2,
    "single": lambda x, m: x.astype("float32"),
    "double precision": lambda x, m: x.astype("float64"),
    "sin": lambda x, m: m.sin(x),
    "less max": lambda x, m: x - x.max(axis=-1, keepdims=True),
    "less min": lambda x, m: x - x.min(axis=-1, keepdims=True),
    "share": lambda x, m: x / (1 + m.abs(x).sum(axis=-1, keepdims=True)),
    "less mean": lambda x, m: x - x.mean(axis=-1, keepdims=True),
    "of rows": lambda x, m: x + m.tanh(x.sum(axis=-1, keepdims=True)) / 4,
    "both": lambda x, m: x - x.mean(keepdims=True),
    "columns": lambda x, m: x - x.mean(axis=0, keepdims=True),
    "transpose": lambda x, m: x.T,
    "roll": lambda x, m: m.roll(x, 1, 0),
    "matmul": lambda x, m: (x @ x.T / 64) @ x / 64,
    "sort": lambda x, m: m.sort(x, axis=-1),
    "row": lambda x, m: x + m.arange(x.shape[-1]),
    "column": lambda x, m: x * m.linspace(0, 1, x.shape[0])[:, None],
    "concatenate": lambda x, m: m.concatenate([x, x + 1])[: x.shape[0]],
    "assign": lambda x, m: _assigned(x, m),
}
"""Functions of one array, which keep its rank and are continuous, as rounding differs."""


def _assigned(x: Any, m: Any) -> Any:
    x = x + 0
    x[1:] = x[:-1] / 2
    return x


BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda x, y, m: x + y,
    "subtract": lambda x, y, m: x - y,
    "multiply": lambda x, y, m: x * y / 16,
    "maximum": lambda x, y, m: m.maximum(x, y),
    "where": lambda x, y, m: m.where(x < y, y - x, (x - y) * 2),
    "divide": lambda x, y, m: x / (1 + m.abs(y)),
}
"""Functions of two."""


@st.composite
def programs(draw: Any) -> list[tuple[str, int, int]]:
    """Draw a program: functions, and the numbers of the values that they take."""
    count = draw(st.integers(2, 40))
    found = []
    for n in range(count):
        name = draw(st.sampled_from([*UNARY, *BINARY, *BINARY]))
        at = st.integers(max(0, n - 4), n)
        found.append((name, draw(at), draw(at)))
    return found


def interpreted(program: list[tuple[str, int, int]], x: Any, m: Any) -> tuple[Any, ...]:
    """Return some of the values of a program, and the largest of all."""
    values = [x]
    for name, a, b in program:
        if name in BINARY and values[a].shape == values[b].shape:
            values.append(BINARY[name](values[a], values[b], m))
        else:
            values.append(UNARY.get(name, UNARY["negative"])(values[a], m))
    largest = functools.reduce(m.maximum, [m.abs(value).max() for value in values])
    return values[-1], values[len(values) // 2], values[-1].mean(), largest


@examples(150)
@given(programs(), st.sampled_from([(4, 6), (5, 3), (130, 140)]), st.integers(0, 4))
def test_random_programs(program: list[tuple[str, int, int]], shape: Any, way: int) -> None:
    value = np.random.default_rng(1).uniform(-4, 4, shape)
    specs = [P(), P("x"), P(None, "x"), P("x", "y"), P(("x", "y"))]
    with testing.runtime(host_devices=4), np.errstate(all="ignore"):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        x = gs.device_put(value, gs.NamedSharding(mesh, specs[way]))
        eager = interpreted(program, x, gnp)
        found = gs.jit(lambda x: interpreted(program, x, gnp))(x)
        wanted = interpreted(program, value, np)
        largest = max(1.0, float(wanted[-1]))  # of which smaller values may be differences
        for got, plain, want in zip(found, eager, wanted, strict=True):
            assert got.dtype == plain.dtype and got.shape == plain.shape
            single = got.dtype == np.float32 or any(name == "single" for name, *_ in program)
            close = 1e-3 if single else 1e-9
            for other in (np.asarray(plain), want):
                np.testing.assert_allclose(np.asarray(got), other, rtol=close, atol=close * largest)


BEYOND: dict[str, Callable[[Any, Any], Any]] = {
    "an integer beyond the type": lambda x, m: ~(x > 2**70) & ~(x == 2**63) & (x > -(2**64)),
    "fractions are true": lambda x, m: ~m.logical_and(x / 2, x % 2 == 0),
    "fractions or": lambda x, m: ~m.logical_or(x / 4, x > 5),
    "greatest of what is computed": lambda x, m: (x * 3).max(axis=-1, keepdims=True) - x,
    "least of what is computed": lambda x, m: (x * 3 - 7).min(axis=-1, keepdims=True) - x,
    "least number": lambda x, m: m.maximum(x, -(2**31)) + (x + 1),
}
"""Functions of integers that go wrong where a kernel is careless of ranges and of cutting off."""


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool"])
@pytest.mark.parametrize("name", BEYOND)
def test_integers_and_booleans_in_kernels(
    name: str, dtype: str, caplog: pytest.LogCaptureFixture
) -> None:
    value = np.random.default_rng(0).integers(0, 4, (130, 140)).astype(dtype)
    if dtype == "bool" and name not in ("fractions are true", "an integer beyond the type"):
        value = value.astype("int64") - 2
    with testing.runtime(host_devices=2):
        mesh = gs.make_mesh((2,), ("x",))
        x = gs.device_put(value, gs.NamedSharding(mesh, P("x")))
        found, want = gs.jit(lambda x: BEYOND[name](x, gnp))(x), BEYOND[name](x, gnp)
        assert found.dtype == want.dtype and not caplog.records
        np.testing.assert_array_equal(np.asarray(found), np.asarray(want))
