"""Small kernels that the caller makes one after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import gpushard as gs
import gpushard.numpy as gnp
from gpushard._ops.programs.at_once import AtOnce
from gpushard.testing import gated, runtime

OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "product": lambda m, x, y: x @ y.T @ x,
    "difference": lambda m, x, y: x - y,
    "sum": lambda m, x, y: x + y.sum(0),
    "total": lambda m, x, y: x / (1 + m.abs(y).sum()),
    "whole and rest": lambda m, x, y: m.modf(x)[0] + m.cumsum(y, 1),
    "sorted": lambda m, x, y: m.sort(x, 1) * y,
    "turned": lambda m, x, y: x + m.roll(y, 1, 0),
}
"""Functions of a module of NumPy's names and two arrays of the same shape."""

Steps = Sequence[tuple[str, int, int]]

STEPS = st.lists(
    st.tuples(st.sampled_from(list(OPERATIONS)), st.integers(0, 9), st.integers(0, 9)),
    min_size=2,
    max_size=6,
)
"""Of each step the operation, and which of the values before are its operands."""

SHAPES = ((8, 3), (5, 4), (1, 2))
SPECS = (gs.P("x"), gs.P(), gs.P(None, "x"))


def results(m: Any, steps: Steps, x: Any) -> list[Any]:
    """Return the last value of a program, and one from its middle."""
    values = [x]
    for name, first, second in steps:
        taken = [values[n % len(values)] for n in (first, second)]
        values.append(OPERATIONS[name](m, *taken))
    return [values[-1], values[len(values) // 2]]


def at_once(function: Any, *args: Any) -> list[AtOnce]:
    """List the runs of small kernels that a traced function has."""
    calls = function.lower(*args).compile().runtime_executable()._calls
    return [call[0].__self__ for call in calls if isinstance(call[0].__self__, AtOnce)]


@given(STEPS, st.sampled_from(SHAPES), st.sampled_from(SPECS))
def test_devices_pay_as_if_each_kernel_stood_alone(
    steps: Steps, shape: tuple[int, int], spec: Any
) -> None:
    value = np.random.default_rng(0).integers(-4, 5, shape) / 2
    wanted = results(np, steps, value)
    paid = []
    for limit in (None, 1 << 40):  # under a quota, each kernel claims memory by itself
        with runtime(host_devices=4, memory_limit=limit):
            x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((4,), "x"), spec))
            function = gs.jit(lambda x: results(gnp, steps, x))
            function.lower(x).compile()
            assert limit is None or not at_once(function, x)
            found = function(x)
            for got, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(got), want, rtol=1e-9, atol=1e-9)
            stats = [device.memory_stats() for device in gs.devices()]
            paid.append(stats)
            del found, got
            left = [device.memory_stats()["bytes_in_use"] for device in gs.devices()]
            del x
            assert sum(device.memory_stats()["bytes_in_use"] for device in gs.devices()) == 0
            paid.append(left)
    names = "bytes_in_use", "peak_bytes_in_use", "num_allocs", "largest_alloc_size"
    for name in names:
        assert [of[name] for of in paid[0]] == [of[name] for of in paid[2]], name
    assert paid[1] == paid[3]


def test_steps_wait_for_values_that_are_not_there() -> None:
    value = np.arange(24.0).reshape(8, 3) % 7
    with runtime(host_devices=4, host_workers=2):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
        function = gs.jit(lambda x: gnp.sort(gnp.cumsum(gnp.sort(x, 1), 1), 1))
        assert at_once(function, x)
        late, gate = gated(x)
        with contextlib.ExitStack() as stack:
            stack.callback(gate.open)
            found = function(late)
            assert not found.is_ready()
        np.testing.assert_array_equal(np.asarray(found), np.sort(value, 1).cumsum(1))
        lost, gate = gated(x, error=KeyError("lost"))
        found = function(lost)
        gate.open()
        with pytest.raises(gs.errors.ExecutionError, match="lost"):
            found.block_until_ready()


def test_donated_arrays_and_results_of_runs_are_free_afterwards() -> None:
    value = np.arange(24.0).reshape(8, 3)
    with runtime(host_devices=4):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
        function = gs.jit(lambda x: (x @ x.T @ x, x * 2), donate_argnums=0)
        products, doubled = function(x)
        assert x.is_deleted()
        np.testing.assert_allclose(np.asarray(products), value @ value.T @ value)
        held = sum(device.memory_stats()["bytes_in_use"] for device in gs.devices())
        assert held == products.nbytes + doubled.nbytes


def test_results_of_runs_hold_their_memory() -> None:
    value = np.arange(24.0).reshape(8, 3)
    with runtime(host_devices=4):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
        function = gs.jit(lambda x: gnp.sort(gnp.cumsum(gnp.sort(x, 1), 1), 1))
        assert at_once(function, x)
        result = function(x)
        held = sum(device.memory_stats()["bytes_in_use"] for device in gs.devices())
        assert held == x.nbytes + result.nbytes
