"""Traced functions on GPUs: a region is one launch for all devices of a GPU, and right."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from gpushard._runtime.cuda import backend
from gpushard._transforms.fusion import recompute
from tests.gpu.device import SPLITS, Split, gpu_runtime, needs_gpu
from tests.share import seeds
from tests.softgpu import counters
from tests.softgpu.run import ACTIVE
from tests.transforms.fusion.test_fuse import SHAPES, SPECS, STEPS, interpreted

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


def batch_norm(m: Any, a: Any) -> Any:
    apart = a - m.mean(a, axis=(0, 2, 3), keepdims=True)
    return apart / m.sqrt(m.mean(apart * apart, axis=(0, 2, 3), keepdims=True))


def softmax_first(m: Any, a: Any) -> Any:
    e = m.exp(a - m.max(a, axis=0, keepdims=True))
    return e / m.sum(e, axis=0, keepdims=True)


def logistic(m: Any, x: Any, y: Any, w: Any) -> Any:
    p = 1 / (1 + m.exp(-(x @ w)))
    return w - 0.1 * (x.T @ (p - y)) / len(y)


def stencil(m: Any, a: Any) -> Any:
    return a[1:-1, 1:-1] * 4 - a[:-2, 1:-1] - a[2:, 1:-1] - a[1:-1, :-2] - a[1:-1, 2:]


def nearest(m: Any, points: Any, centres: Any) -> Any:
    apart = (points * points).sum(1)[:, None] - 2 * points @ centres.T
    return m.argmin(apart + (centres * centres).sum(1), axis=1)


def torus(m: Any, a: Any) -> Any:
    return m.roll(a, 1, 0) + m.roll(a, -1, 0) + m.roll(a, 1, 1) + m.roll(a, (-2, 3), (0, 1)) - 4 * a


def k_means(m: Any, points: Any, centres: Any, numbers: Any) -> Any:
    chosen = (nearest(m, points, centres)[:, None] == numbers).astype("float32")
    return (chosen.T @ points) / m.maximum(chosen.sum(0), 1)[:, None]


def n_body(m: Any, places: Any) -> Any:
    apart = places[None] - places[:, None]
    near = (apart * apart).sum(-1) + 0.01
    return (apart / (near * m.sqrt(near))[..., None]).sum(1)


def columns(m: Any, a: Any) -> Any:
    return (a * a).max(0) + (a - 1).sum(0)


def vectors(m: Any, a: Any, b: Any) -> Any:
    """A result that lacks a dim of what is computed with it."""
    b = b * 2 + 1
    return a * b[:, None], b


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
    "var": (
        lambda m, a: (a - m.mean(a, axis=1, keepdims=True)) / m.std(a, axis=1, keepdims=True),
        [floats(64, 257)], [ROWS], 1,
    ),
    "moments": (moments, [floats(16, 6, 7)], [ROWS], 1),
    "x + y": (lambda m, a, b: a + b, [floats(8, 8), floats(8, 8)], [ROWS, ROWS], 1),
    "nearest": (nearest, [floats(1003, 16), floats(32, 16)], [ROWS, P()], 1),
    "columns": (columns, [floats(300, 70)], [P()], 1),
    "N-body": (n_body, [floats(130, 3)], [P()], 1),
    "stencil": (stencil, [floats(131, 40)], [P()], 1),
    "torus": (torus, [floats(131, 40)], [P()], 1),
    "k-means": (
        k_means, [floats(1003, 16), floats(32, 16), np.arange(32)], [P(), P(), P()], 1,
    ),
    "logistic": (logistic, [floats(400, 50), floats(400), floats(50)], [P(), P(), P()], 1),
    "vectors": (vectors, [floats(200, 70), floats(200)], [ROWS, ROWS], 1),
    "long columns": (columns, [floats(5000, 7)], [P()], 1),
    "far columns": (columns, [floats(20_000, 7)], [P()], 1),
    "total": (lambda m, a: m.abs(a).sum() / 2 + a.mean() * a.max(), [floats(300, 300)], [P()], 1),
    "total of ones": (lambda m, a: (m.exp(a), m.exp(a).sum(1) + 1), [floats(3, 9000)], [P()], 1),
    "long k-means": (
        k_means, [floats(20_003, 3), floats(32, 3), np.arange(32)], [P(), P(), P()], 1,
    ),
    "long logistic": (logistic, [floats(20_000, 50), floats(20_000) > 0, floats(50)], [P()] * 3, 1),
}  # fmt: skip
"""Functions, arguments, how these lie, and launches for each GPU."""

SPLIT: dict[str, Program] = {
    "N-body": (n_body, [floats(130, 3)], [ROWS], 2),  # all places go to all devices
    "stencil": (stencil, [floats(131, 40)], [ROWS], 2),  # edges do
    "torus": (torus, [floats(131, 40)], [ROWS], 2),
    "k-means": (k_means, [floats(1003, 16), floats(32, 16), np.arange(32)], [ROWS, P(), P()], 4),
    "logistic": (logistic, [floats(400, 50), floats(400), floats(50)], [ROWS, ROWS, P()], 3),
    "batch norm": (batch_norm, [floats(16, 4, 30, 10)], [ROWS], 17),
    "softmax over the first axis": (softmax_first, [floats(400, 70)], [ROWS], 19),
}
"""Where parts are moved or merged: launches for all partitions of a GPU."""


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
        said = traced.lower(*arrays).compile().as_text().splitlines()
        assert f"# launches: {launches}" in said, said
        before = counters.read()
        made = [traced(*arrays) for _ in range(4)]
        counts = counters.read() - before
        assert counts["launches"] == 4 * launches, counts
        for other in ("library_calls", "modules_loaded", "device_allocations", "events_waited"):
            assert not counts[other], counts
        close(made[-1], function(np, *values))


@counted
@pytest.mark.parametrize("name", SPLIT)
def test_what_is_moved_or_merged_takes_few_more(name: str) -> None:
    function, values, specs, launches = SPLIT[name]
    with gpu_runtime(split=Split(8, False), poisoned=False):
        arrays = placed(values, specs)
        traced = gs.jit(lambda *xs: function(gs.numpy, *xs))
        close(traced(*arrays), function(np, *values))
        before = counters.read()
        made = gs.block_until_ready(traced(*arrays))
        counts = counters.read() - before
        assert counts["launches"] == launches and not counts["library_calls"], counts
        assert not counts["modules_loaded"], counts
        close(made, function(np, *values))


@pytest.mark.parametrize(
    ("name", "again"), [("batch norm", "subtract"), ("softmax over the first axis", "exp")]
)
def test_what_is_large_is_computed_again_rather_than_written(
    name: str, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, values, specs, _ = SPLIT[name]
    with gpu_runtime(split=Split(8, False)):
        arrays = placed(values, specs)
        peaks = []
        for least in (1 << 30, 0):
            monkeypatch.setattr(recompute, "_LAUNCH_BYTES", least)
            compiled = gs.jit(lambda *xs: function(gs.numpy, *xs)).lower(*arrays).compile()
            names = [step.name for step in compiled._executable.steps]
            assert again in names[-1].split() or least, names
            peaks.append(compiled.memory_analysis().temp_size_in_bytes)
            close(compiled(*arrays), function(np, *values))
        assert peaks[1] < values[0].nbytes // 100 < values[0].nbytes <= peaks[0], peaks


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_functions_are_parts_of_kernels(dtype: str) -> None:
    """Those that CuPy writes in a few lines; several may be in one kernel."""
    names = ["erf", "erfc", "erfinv", "gammaln", "digamma", "i0e", "i1e"]
    value = np.linspace(0.1, 0.9, 60).astype(dtype).reshape(4, 15)
    with gpu_runtime(split=Split(4, False)):
        (x,) = placed([value], [ROWS])
        functions = [getattr(gs.special, name) for name in names]
        compiled = gs.jit(lambda x: tuple(f(x + 1 - 1) * 2 for f in functions)).lower(x).compile()
        assert len(compiled._executable.steps) == 1
        for name, found in zip(names, compiled(x), strict=True):
            wanted = getattr(scipy.special, name)(value.astype("d")) * 2
            np.testing.assert_allclose(np.asarray(found), wanted, 1e-4, err_msg=name)
            assert found.dtype == dtype


EIGHT = ["x + y", "chain", "softmax", "layer norm", "stencil", "k-means", "logistic", "N-body"]
"""Programs that are measured on the host."""


@pytest.mark.parametrize("name", [*EIGHT, *[f"{name}, split" for name in SPLIT][:5]])
def test_regions_are_those_of_the_host(name: str) -> None:
    short, _, split = name.partition(", ")
    function, values, specs, _ = (SPLIT if split else PROGRAMS)[short]
    steps = []
    for runtime in (
        gpu_runtime(split=Split(4, False)),
        testing.runtime(backend="host", host_devices=4, compiler="cc"),
    ):
        with runtime:
            arrays = placed(values, specs)
            compiled = gs.jit(lambda *xs: function(gs.numpy, *xs)).lower(*arrays).compile()
            steps.append([step.name for step in compiled._executable.steps])
    assert steps[0] == steps[1]


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
@pytest.mark.parametrize("name", [*PROGRAMS, *[f"{name}, split" for name in SPLIT]])
def test_values_are_numpys_under_the_checker(name: str, split: Split) -> None:
    short, _, split_too = name.partition(", ")
    function, values, specs, _ = (SPLIT if split_too else PROGRAMS)[short]
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


def test_rows_that_are_long_are_two_kernels() -> None:
    value = floats(2, 1 << 15)
    with gpu_runtime(split=Split(2, False)):
        (x,) = placed([value], [ROWS])
        traced = gs.jit(lambda x: (x * 2 + 1) / x.max(axis=-1, keepdims=True))
        close(traced(x), (value * 2 + 1) / value.max(axis=-1, keepdims=True))
        text = traced.lower(x).compile().as_text().splitlines()
        lines = [line for line in text if not line.startswith("#")]
        assert len(lines) == 4 and "fused" in lines[1], lines  # what is needed twice is in both


def test_what_has_no_statement_ends_a_region() -> None:
    value = floats(8, 6)
    with gpu_runtime(split=Split(2, False)):
        (x,) = placed([value], [ROWS])
        traced = gs.jit(lambda x: gs.numpy.cumsum(x * 2 + 1, axis=1) * 3 - 1)
        close(traced(x), np.cumsum(value * 2 + 1, axis=1) * 3 - 1)
        assert traced.lower(x).compile().as_text().count("fused") == 2


EXACT = [
    "add", "apart", "broadcast", "columns", "exp", "less dim", "multiply", "new dim", "part",
    "part last", "roll", "row", "tanh", "transpose", "where",
]  # fmt: skip
"""Functions of which no reduction is part."""


def drawn(seed: int, names: list[str]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return a random program, its arguments and how they lie."""
    source = random.Random(seed)
    program = [
        (source.choice(names), *[source.randint(max(0, n - 2), n + 1) for _ in range(2)])
        for n in range(source.randint(2, 12))
    ]
    values = [np.random.default_rng(1).uniform(-3, 3, shape) for shape in source.choice(SHAPES)]
    specs = [P(*source.choice(SPECS)[: value.ndim]) for value in values]
    return program, values, specs


@pytest.mark.parametrize("seed", seeds(60))
@pytest.mark.parametrize("kind", ["any", "exact"])
def test_random_programs(kind: str, seed: int) -> None:
    program, values, specs = drawn(seed, EXACT if kind == "exact" else sorted(STEPS))
    with gpu_runtime(split=Split(4, False), checked=seed % 2 == 0), np.errstate(all="ignore"):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        xs = [
            gs.device_put(x, gs.NamedSharding(mesh, spec))
            for x, spec in zip(values, specs, strict=True)
        ]
        found = gs.jit(lambda *xs: interpreted(program, list(xs), gnp))(*xs)
        wanted = interpreted(program, xs, gnp)
        for mine, theirs in zip(map(np.asarray, found), map(np.asarray, wanted), strict=True):
            assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
            if kind == "exact":
                assert mine.tobytes() == theirs.tobytes()
            else:
                scale = max(1.0, abs(theirs).max(initial=0))
                np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-8 * scale)


@pytest.mark.parametrize("name", ["softmax", "softmax of short rows", "layer norm", "nearest",
                                  "N-body", "moments", "columns", "parts"])  # fmt: skip
def test_bits_do_not_depend_on_how_rows_are_split(name: str) -> None:
    others: dict[str, Program] = {
        "N-body": SPLIT["N-body"],
        "columns": (columns, [floats(300, 70)], [P(None, "x")], 1),
        "parts": (columns, [floats(4100, 512)], [P(None, "x")], 1),
    }
    function, values, specs, _ = {**PROGRAMS, **others}[name]
    found = []
    for split in SPLITS[:4]:
        with gpu_runtime(split=split):
            made = gs.jit(lambda *xs: function(gnp, *xs))(*placed(values, specs))
            made = made if isinstance(made, tuple) else (made,)
            found.append([np.asarray(x).tobytes() for x in made])
    assert all(own == found[0] for own in found)


@pytest.mark.parametrize("dtype", ["f", "d", "e", "i", "l", "?"])
@pytest.mark.parametrize("along", [0, 1])
def test_positions_of_extremes(dtype: str, along: int) -> None:
    value = np.random.default_rng(0).integers(-9, 9, (40, 60)).astype(dtype)
    if value.dtype.kind == "f":
        value[::7, 3] = np.nan
        value[:7, 9] = np.nan
        value[::5, 4], value[::3, 29] = np.inf, -np.inf
        value[11], value[12], value[13] = np.inf, -np.inf, -0.0
        value[:, 17] = np.inf

    def positions(m: Any, x: Any) -> Any:
        x = m.where(x > 5, x, x)
        return m.argmax(x, along), m.argmin(x, along), m.argmin(x, along) + m.argmax(x, along)

    def of_both(m: Any, x: Any) -> Any:  # along dims of which one is within a thread
        first = m.argmin(x[:, :24] + x[:, 1:25], 1)
        return first, m.argmax(first), m.argmin(x[:7, :8])

    with gpu_runtime(split=Split(4, False)):
        (x,) = placed([value], [P()])
        for function in (positions, of_both):
            for mine, theirs in zip(
                gs.jit(lambda x, f=function: f(gnp, x))(x), function(np, value), strict=True
            ):
                np.testing.assert_array_equal(np.asarray(mine), theirs)


@pytest.mark.parametrize("name", ["exp", "tanh"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_are_within_units_in_the_last_place(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    edges = [0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).tiny / 8, np.finfo(dtype).max]
    low = np.log(np.finfo(dtype).tiny)  # below it results are denormal
    x = np.concatenate([rng.uniform(-20, 20, 2000), low - rng.uniform(0, 12, 200), edges])
    x = x.astype(dtype)
    with gpu_runtime(split=Split(2, False)):
        (array,) = placed([x], [P()])
        traced = gs.jit(lambda x: (getattr(gnp, name)(x), -x))
        assert "fused" in traced.lower(array).compile().as_text()
        found = np.asarray(traced(array)[0])
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x.astype(np.longdouble))
        one = np.spacing(np.abs(wanted.astype(dtype))).astype(np.longdouble)
        special = ~np.isfinite(wanted.astype(dtype))
        np.testing.assert_array_equal(found[special], wanted.astype(dtype)[special])
        apart = np.abs(found.astype(np.longdouble) - wanted)[~special] / one[~special]
    assert apart.max() < 4.5
