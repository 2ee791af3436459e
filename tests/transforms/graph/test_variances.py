"""Variances over split axes: what they are, and how often kernels read the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing

P = gs.P
SHAPE = 16, 5, 30, 10
"""Of images, which the tests split over the first axis: channels of 300 elements are strips."""


def _apart(x: Any, m: Any, axes: tuple[int, ...] = (0, 2, 3)) -> Any:
    return x - m.mean(x, axis=axes, keepdims=True)


BY_STRIPS: dict[str, Callable[[Any, Any], Any]] = {
    "a mean of squares": lambda x, m: m.mean(_apart(x, m) ** 2, axis=(0, 2, 3)),
    "a sum of squares": lambda x, m: m.sum(m.square(_apart(x, m)), axis=(3, 2, 0)),
    "a mean of products": lambda x, m: (
        (a := _apart(x, m)) / m.sqrt(m.mean(a * a, axis=(0, 2, 3), keepdims=True))
    ),
    "std": lambda x, m: m.std(x, axis=(0, 2, 3), keepdims=True, ddof=1),
    "all axes": lambda x, m: m.var(x),
    "axes of which some are split": lambda x, m: m.var(x, axis=(0, -1, -2)) + m.mean(x),
    "a value of another operation": lambda x, m: m.var(m.cumsum(x, axis=1), (0, 2, 3)),
    "one mean for two variances": lambda x, m: (
        m.sum((a := _apart(x, m)) * a, axis=(0, 2, 3)) + m.mean(a * a, axis=(0, 2, 3))
    ),
}

AS_WRITTEN: dict[str, tuple[P, Callable[[Any, Any], Any]]] = {
    "no split axis is reduced": (P("x"), lambda x, m: m.var(x, axis=(1, 2, 3))),
    "the last axis is not reduced": (P("x"), lambda x, m: m.var(x, axis=(0, 1, 2))),
    "the last axis is split": (P(None, None, None, "x"), lambda x, m: m.var(x, axis=(0, 3))),
    "strips are short": (P("x"), lambda x, m: m.var(x, axis=(0, 3))),
    "other axes": (P("x"), lambda x, m: m.sum(_apart(x, m) ** 2, axis=(2, 3))),
    "other values": (P("x"), lambda x, m: m.mean(_apart(x, m) * x, axis=(0, 2, 3))),
    "the mean of others": (
        P("x"),
        lambda x, m: m.mean((x - m.mean(m.sqrt(x), (0, 2, 3), keepdims=True)) ** 2, (0, 2, 3)),
    ),
}


def _images(spec: P, dtype: str = "float32") -> Any:
    value = np.random.default_rng(0).random(SHAPE).astype(dtype) + 3
    return gs.device_put(value, gs.NamedSharding(gs.make_mesh((4,), ("x",)), spec))


def _compiled(jitted: Any, x: Any) -> list[Any]:
    steps: list[Any] = jitted.lower(x).compile()._executable.steps
    return steps


@pytest.mark.parametrize("compiler", ["cc", ""])
@pytest.mark.parametrize("name", BY_STRIPS)
def test_a_variance_over_a_split_axis_reads_the_array_once(name: str, compiler: str) -> None:
    function = BY_STRIPS[name]
    with testing.runtime(host_devices=4, host_domains=1, compiler=compiler):
        x = _images(P("x"))
        jitted = gs.jit(lambda x: function(x, gnp))
        # To normalize takes another pass, and so does what makes the other value.
        more = name in ("a mean of products", "a value of another operation")
        taken = [y for step in _compiled(jitted, x) for y in step.arrays]
        assert sum(y.shape == x.shape for y in taken) == 1 + more
        want = function(np.asarray(x), np)
        np.testing.assert_allclose(np.asarray(jitted(x)), want, 2e-4, 2e-4)
        np.testing.assert_allclose(np.asarray(function(x, gnp)), want, 2e-4, 2e-4)


@pytest.mark.parametrize("name", AS_WRITTEN)
def test_another_variance_is_computed_as_it_is_written(name: str) -> None:
    spec, function = AS_WRITTEN[name]
    with testing.runtime(host_devices=4, host_domains=1):
        x = _images(spec)
        jitted = gs.jit(lambda x: function(x, gnp))
        operations = [
            member.name
            for step in _compiled(jitted, x)
            for member in getattr(step.op, "members", [step])
        ]
        assert "add" not in operations, "of two parts of a variance"
        want = function(np.asarray(x), np)
        np.testing.assert_allclose(np.asarray(jitted(x)), want, 2e-4, 2e-4)


def test_a_variance_by_strips_is_as_precise_as_that_of_numpy() -> None:
    """Far from 0, where a difference of squares would leave nothing."""
    with testing.runtime(host_devices=4, host_domains=1):
        for dtype, close in (("float32", 2e-3), ("float64", 1e-9)):
            x = _images(P("x"), dtype) + np.dtype(dtype).type(1000)
            got = gs.jit(lambda x: gnp.var(x, (0, 2, 3)))(x)
            assert got.dtype == dtype
            want = np.asarray(x).astype("d").var((0, 2, 3))
            np.testing.assert_allclose(np.asarray(got), want, close)


def test_a_variance_of_what_is_no_number_is_none() -> None:
    with testing.runtime(host_devices=4, host_domains=1):
        value = np.ones(SHAPE, "f")
        value[3, 1, 2, 3], value[0, 2] = np.nan, np.inf
        place = gs.NamedSharding(gs.make_mesh((4,), ("x",)), P("x"))
        got = gs.jit(lambda x: gnp.var(x, (0, 2, 3)))(gs.device_put(value, place))
        np.testing.assert_array_equal(np.asarray(got), [0, np.nan, np.nan, 0, 0])
