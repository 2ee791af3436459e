"""Traced functions on GPUs: a region is one launch for all devices of a GPU, and right."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.runtime.cuda import backend
from tests.gpu.device import SPLITS, Split, gpu_runtime, needs_gpu
from tests.softgpu import counters
from tests.softgpu.run import ACTIVE

pytestmark = needs_gpu
counted = pytest.mark.skipif(ACTIVE not in os.environ, reason="only the software GPU counts")
P = gs.P
Program = tuple[Callable[..., Any], list[Any], list[Any], int]


def chain(m: Any, a: Any) -> Any:
    return m.tanh(2 * a + 1) * a - a / 3


def softmax(m: Any, a: Any) -> Any:
    e = m.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(m: Any, a: Any, scale: Any, shift: Any) -> Any:
    apart = a - a.mean(axis=-1, keepdims=True)
    spread = (apart * apart).mean(axis=-1, keepdims=True)
    return apart / m.sqrt(spread + 1e-5) * scale + shift


def moments(m: Any, a: Any) -> Any:
    """Results with the dims that are reduced, and without."""
    mean = a.mean(axis=(1, 2), keepdims=True)
    apart = m.where(a > mean, a - mean, 0)
    most = m.abs(apart).max(axis=(1, 2), keepdims=True)
    return apart / most, mean + most, (apart > 0).sum(axis=(1, 2), keepdims=True) + 1


def logistic(m: Any, x: Any, y: Any, w: Any) -> Any:
    p = 1 / (1 + m.exp(-(x @ w)))
    return w - 0.1 * (x.T @ (p - y)) / len(y)


def stencil(m: Any, a: Any) -> Any:
    return a[1:-1, 1:-1] * 4 - a[:-2, 1:-1] - a[2:, 1:-1] - a[1:-1, :-2] - a[1:-1, 2:]


def floats(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


ROWS = P("x")
PROGRAMS: dict[str, Program] = {
    "chain": (chain, [floats(16, 60)], [ROWS], 1),
    "chain of a broadcast": (
        lambda m, a, b, c: (a + b) * m.sin(c) + 1,
        [floats(16, 1, 6), floats(5, 1), floats(16, 5, 6)],
        [ROWS, P(), ROWS],
        1,
    ),
    "softmax": (softmax, [floats(16, 300)], [ROWS], 1),
    "softmax of short rows": (softmax, [floats(40, 33)], [ROWS], 1),
    "softmax of rows of 3": (softmax, [floats(72, 3)], [ROWS], 1),
    "softmax of rows of 1": (softmax, [floats(16, 1)], [ROWS], 1),
    "layer norm": (layer_norm, [floats(16, 70), floats(70), floats(70)], [ROWS, P(), P()], 1),
    "moments": (moments, [floats(16, 6, 7)], [ROWS], 1),
}
"""Functions, arguments, how these lie, and launches for each GPU."""


def placed(values: list[Any], specs: list[Any]) -> list[gs.Array]:
    mesh = gs.make_mesh((len(gs.devices()),), ("x",))
    return [
        gs.device_put(value, gs.NamedSharding(mesh, spec)).block_until_ready()
        for value, spec in zip(values, specs, strict=True)
    ]


def close(found: Any, wanted: Any) -> None:
    for mine, theirs in zip(
        found if isinstance(found, tuple) else (found,),
        wanted if isinstance(wanted, tuple) else (wanted,),
        strict=True,
    ):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        np.testing.assert_allclose(np.asarray(mine), theirs, rtol=2e-4, atol=1e-4)


@counted
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_region_is_one_launch_for_all_partitions(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "_HEAD_NS", 1 << 62)  # no events for the time that passes
    function, values, specs, launches = PROGRAMS[name]
    with gpu_runtime(split=Split(8, False), poisoned=False):
        arrays = placed(values, specs)
        traced = gs.jit(lambda *xs: function(gs.numpy, *xs))
        for _ in range(2):
            first = gs.block_until_ready(traced(*arrays))
        close(first, function(np, *values))
        del first
        before = counters.read()
        made = [traced(*arrays) for _ in range(4)]
        counts = counters.read() - before
        assert counts["launches"] == 4 * launches, counts
        for other in ("library_calls", "modules_loaded", "device_allocations", "events_waited"):
            assert not counts[other], counts
        close(made[-1], function(np, *values))


@counted
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_region_is_one_launch_for_each_gpu(name: str) -> None:
    function, values, specs, launches = PROGRAMS[name]
    arrays = placed(values, specs)
    gpus = len({device.domain for device in arrays[0].sharding.mesh.devices.flat})
    traced = gs.jit(lambda *xs: function(gs.numpy, *xs))
    gs.block_until_ready(traced(*arrays))
    before = counters.read()
    made = traced(*arrays)
    counts = counters.read() - before
    assert counts["launches"] == gpus * launches and not counts["modules_loaded"], counts
    close(made, function(np, *values))


@pytest.mark.parametrize("split", SPLITS[2:], ids=str)
@pytest.mark.parametrize("name", [*PROGRAMS, "logistic", "stencil"])
def test_values_are_numpys_under_the_checker(name: str, split: Split) -> None:
    others: dict[str, Program] = {
        "logistic": (logistic, [floats(40, 5), floats(40), floats(5)], [ROWS, ROWS, P()], 0),
        "stencil": (stencil, [floats(18, 18)], [P()], 0),
    }
    function, values, specs, _ = {**PROGRAMS, **others}[name]
    with gpu_runtime(split=split, checked=True):
        arrays = placed(values, specs)
        traced = gs.jit(lambda *xs: function(gs.numpy, *xs))
        for _ in range(2):
            close(traced(*arrays), function(np, *values))


@pytest.mark.parametrize("dtype", ["?", "b", "i", "l", "L", "e", "f", "d", "F", "D"])
def test_reductions_of_every_type(dtype: str) -> None:
    value = (np.random.default_rng(0).integers(0, 3, (16, 40)) - (dtype not in "?L")).astype(dtype)
    names = ["sum", "prod", "any", "all", *["mean"] * (dtype in "efdFD")]
    names += ["min", "max"] if dtype not in "FD" else []
    with gpu_runtime(split=Split(4, False)):
        (x,) = placed([value], [ROWS])
        for name in names:

            def reduced(x: Any, name: str = name) -> Any:
                # A conversion joins it; the sum is of what is computed.
                return getattr(x * x, name)(axis=-1, keepdims=True).astype(
                    np.float64 if dtype not in "FD" else np.complex128
                )

            traced = gs.jit(reduced)
            assert traced.lower(x).compile().as_text().count("fused") == 1, name
            found, wanted = np.asarray(traced(x)), reduced(value)
            np.testing.assert_allclose(found, wanted, rtol=1e-2 if dtype == "e" else 1e-5)


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_with_nan_are_nan(name: str, dtype: str) -> None:
    value = floats(16, 300).astype(dtype)
    value[3, 299] = value[5, 0] = value[9, 33] = np.nan
    value[1], value[2] = np.inf, -np.inf
    with gpu_runtime(split=Split(4, False)):
        (x,) = placed([value], [ROWS])
        traced = gs.jit(lambda x: getattr(x * 2, name)(axis=-1, keepdims=True) + 1)
        wanted = getattr(value * 2, name)(axis=-1, keepdims=True) + 1
        np.testing.assert_array_equal(np.asarray(traced(x)), wanted)


def test_elementwise_functions_have_the_bits_that_they_have_alone() -> None:
    value = np.concatenate([floats(8, 63), np.full((8, 1), np.nan, np.float32)], 1)
    value[:, :3] = np.inf, -np.inf, 0

    def program(x: Any) -> Any:
        m = gs.numpy
        a = m.sin(x) * x + m.log1p(m.abs(x)) - m.exp2(x / 3)
        return (
            m.where(m.isnan(a), m.sign(x), a),
            (a * 3).astype("int32") % 5,
            m.power(m.abs(x), 0.3),
        )

    with gpu_runtime(split=Split(4, False)):
        (x,) = placed([np.nan_to_num(value, posinf=9, neginf=-9)], [ROWS])
        traced = gs.jit(program)
        assert "fused" in traced.lower(x).compile().as_text()
        for mine, alone in zip(traced(x), program(x), strict=True):
            assert np.asarray(mine).tobytes() == np.asarray(alone).tobytes()


@counted
def test_numbers_and_shapes_compile_nothing_new() -> None:
    with gpu_runtime(split=Split(2, False)):
        gs.jit(lambda x: (x * 2 + 1) / 7)(*placed([floats(8, 4)], [ROWS])).block_until_ready()
        arrays = [placed([floats(*shape)], [ROWS])[0] for shape in ((8, 5), (64, 3), (2, 2))]
        before = counters.read()
        for n, x in enumerate(arrays):
            found = gs.jit(lambda x, n=n: (x * (n + 0.5) + n) / 3)(x)
            np.testing.assert_allclose(
                np.asarray(found), (np.asarray(x) * (n + 0.5) + n) / 3, rtol=1e-5
            )
        assert not (counters.read() - before)["modules_loaded"]


def test_rows_that_are_long_are_left_to_cupy() -> None:
    value = floats(2, 1 << 15)
    with gpu_runtime(split=Split(2, False)):
        (x,) = placed([value], [ROWS])
        traced = gs.jit(lambda x: (x * 2 + 1) / x.max(axis=-1, keepdims=True))
        close(traced(x), (value * 2 + 1) / value.max(axis=-1, keepdims=True))
        assert "fused" in traced.lower(x).compile().as_text()  # what is before


def test_what_has_no_statement_ends_a_region() -> None:
    value = floats(8, 6)
    with gpu_runtime(split=Split(2, False)):
        (x,) = placed([value], [ROWS])
        traced = gs.jit(lambda x: gs.numpy.cumsum(x * 2 + 1, axis=1) * 3 - 1)
        close(traced(x), np.cumsum(value * 2 + 1, axis=1) * 3 - 1)
        assert traced.lower(x).compile().as_text().count("fused") == 2
