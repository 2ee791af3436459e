"""Kernels that go along rows several times give what the definition says, and keep rows."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard._runtime.cuda.kernels import nesting, thread_layout, units
from gpushard._runtime.cuda.kernels.division import pack_divisor
from gpushard._runtime.nests import Result
from tests.gpu import nest_emitter, rows
from tests.gpu.device import Split, gpu_runtime, needs_gpu
from tests.gpu.rows import Kernel, lengths_of
from tests.gpu.test_units import CHECKED, Memory, launch
from tests.runtime.nests import fused_loops
from tests.share import some

pytestmark = needs_gpu


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A driver whose kernels stop at units that are not aligned."""
    text = units.SOURCE
    for line in "const Whole whole =", "Whole whole;\n":
        text = text.replace(f"{{\n    {line}", f"{{\n    {CHECKED}{line}")
    assert text.count(CHECKED) == 2
    monkeypatch.setattr(units, "SOURCE", text)
    with gpu_runtime(split=Split(1, False)):
        runtime: Any = gs.devices()[0].runtime
        yield runtime.backend._driver


def compare(
    driver: Any,
    kernel: Kernel,
    calls: Sequence[tuple[int, ...]],
    shift: int = 0,
    *,
    wide: bool = False,
) -> list[Any]:
    """Launch a kernel for some calls, compare with the definition, and return the results.

    Args:
      driver: what compiles it.
      kernel: the function.
      calls: lengths of loops of each call.
      shift: how many elements behind an aligned address blocks lie.
      wide: whether indices have 64 bits.
    """
    rng = np.random.default_rng(7)
    numbers = kernel.function.nest.numbers
    blocks = [kernel.blocks(rng, lengths) for lengths in calls]
    with np.errstate(all="ignore"):
        want = [
            fused_loops.compute(kernel.function, lengths, own, numbers)
            for lengths, own in zip(calls, blocks, strict=True)
        ]
    assert [x.dtype for x in want[0]] == kernel.function.nest.result_types
    every = [x for own in (*blocks, *want) for x in own]
    memory = Memory(sum(x.nbytes + 400 for x in every))
    places = [memory.array(x, shift, given=True) for own in zip(*blocks, strict=True) for x in own]
    targets = [
        [memory.array(x, shift, given=False) for x in own] for own in zip(*want, strict=True)
    ]
    way = kernel.way(*calls)
    grid = max(1, *[way.blocks_of(lengths) for lengths in calls]), len(calls)
    counts = [n for loop in zip(*calls, strict=True) for n in loop]
    launch(
        driver, "fused", kernel.text(*calls, wide=wide), kernel.signature(len(calls), wide=wide),
        counts if wide else list(map(pack_divisor, counts)), grid,
        [*places, *[place for own in targets for place in own]], numbers,
    )  # fmt: skip
    found, results = memory.cupy.asnumpy(memory.raw), []
    for own, wanted in zip(targets, zip(*want, strict=True), strict=True):
        for place, value in zip(own, wanted, strict=True):
            start = place - int(memory.raw.data.ptr)
            end = start + value.nbytes
            got = found[start:end].view(value.dtype).reshape(value.shape)
            rough = {"e": 2e-2, "f": 1e-4, "F": 1e-4}.get(value.dtype.char, 1e-9)
            with np.errstate(all="ignore"):
                size = np.nanmax(np.abs(value[np.isfinite(value)]), initial=1)
            np.testing.assert_allclose(got, value, rtol=rough, atol=rough * float(size))
            memory.wanted[start:end] = found[start:end]
            results.append(got)
    memory.check()
    return results


def test_functions_of_several_passes_drawn_from_seeds(driver: Any) -> None:
    cupy_driver = importlib.import_module("gpushard._runtime.cuda.driver.cupy_driver")
    seen: Counter[Any] = Counter()
    for seed in range(some(48, 480)):
        kernel = rows.drawn(seed)
        case: Any = SimpleNamespace(number=seed * 7 + seed // 5)
        with nest_emitter.small_steps(case, cupy_driver):
            long = (1, 3, 4, 8, 24, 33, 64, 100)[seed * 5 % 8]
            calls = [lengths_of(kernel, count, long) for count in (5, 0, 9)]
            if seed % 3 == 0:
                calls[1] = lengths_of(kernel, 4, max(1, long // 2))
            compare(driver, kernel, calls, (0, 0, 1)[seed % 3])
            way = kernel.way(*calls)
        seen["kept" if way.kept else "passes"] += 1
        seen["unit", way.unit > 1] += 1
        seen["across", way.across, way.kept > 0] += 1
    assert min(seen["kept"], seen["passes"], seen["unit", True], seen["across", True, True]) > 3, (
        seen
    )


def test_functions_with_short_loops_drawn_from_seeds(driver: Any) -> None:
    cupy_driver = importlib.import_module("gpushard._runtime.cuda.driver.cupy_driver")
    seen: Counter[Any] = Counter()
    for seed in range(some(48, 480)):
        kernel = rows.drawn_short(seed)
        case: Any = SimpleNamespace(number=seed * 7 + seed // 5)
        with nest_emitter.small_steps(case, cupy_driver):
            calls = [lengths_of(kernel, count, 0) for count in (50, 1, 9 + seed)]
            compare(driver, kernel, calls, (0, 0, 1)[seed % 3], wide=seed % 5 == 0)
            way, body = kernel.way(*calls), kernel.text(*calls).split("__global__")[1]
        seen["rows", way.at_once] += 1
        seen |= Counter({name: seen[name] + (name in body) for name in (
            "#pragma unroll\n  for (Index", "\n  for (Index", "__syncthreads();\n", "Unit<",
            "piece == 0 && threadIdx.x == 0", "if (piece == 0) {", "nearer_behind",
        )})  # fmt: skip
    assert min(seen["rows", each] for each in (1, 2, 4)) > 2 and min(seen.values()) > 2, seen


@pytest.mark.parametrize("letter", "efd")
def test_results_do_not_depend_on_how_many_rows_a_thread_has(driver: Any, letter: str) -> None:
    """Nor on how rows are split, on where they lie, and on which loops are unrolled."""
    kernel, rng = rows.nearest(letter, 5, 8), np.random.default_rng(3)
    nest = kernel.function.nest
    apart = Result(len(nest.loads) + len(nest.ops) - 2, (0, 1))
    nest = dataclasses.replace(nest, results=(*nest.results, apart))
    kernel = Kernel(dataclasses.replace(kernel.function, whole=nest, nest=nest))
    points, centres = (rng.standard_normal(shape).astype(letter) for shape in ((999, 8), (5, 8)))
    bits, seen = set(), set()
    for few, most, counts, shift in (
        (0, 512, [999], 0), (1 << 20, 512, [999], 0), (0, 10, [999], 1), (1, 512, [500, 499], 3),
    ):  # fmt: skip
        starts = np.cumsum([0, *counts])
        given = iter([[points[a:b], centres] for a, b in itertools.pairwise(starts)])
        with mock.patch.multiple(thread_layout, FEWEST_BLOCKS=few), mock.patch.multiple(
            nesting, MOST_UNROLLED=most
        ), mock.patch.object(Kernel, "blocks", lambda *_, given=given: next(given)):  # fmt: skip
            calls = [(n, 5, 8) for n in counts]
            seen.add(kernel.way(*calls).at_once)
            results = compare(driver, kernel, calls, shift)
        bits.add(b"".join(x.tobytes() for x in results))
    assert len(bits) == 1 and len(seen) > 1, seen


def nearest(points: Any, centres: Any) -> Any:
    apart = (points * points).sum(1)[:, None] - 2 * points @ centres.T
    return gnp.argmin(apart + (centres * centres).sum(1), axis=1)


def furthest(points: Any, centres: Any) -> Any:
    return gnp.argmax((points[:, None] - centres).sum(2), axis=1)


def test_positions_in_short_loops_are_those_of_the_first_one_or_of_a_nan(driver: Any) -> None:
    rng = np.random.default_rng(5)
    points = rng.integers(-2, 3, (1 << 12, 4)).astype("f")
    points[::5] *= np.float32(1e30)  # squares are infinite
    points[1::7, 2], points[2::11, 0] = np.nan, -np.inf
    centres = rng.integers(-2, 3, (9, 4)).astype("f")
    for place in None, 7, 3:
        if place is not None:
            centres[place, 1] = np.nan
        for function in nearest, furthest:
            with np.errstate(all="ignore"), mock.patch.object(thread_layout, "FEWEST_BLOCKS", 4):
                want = getattr(np, "argmin" if function is nearest else "argmax")(
                    distances(function, points, centres), axis=1
                )
                run = gs.jit(function)
                assert "fused" in run.lower(points, centres).compile().as_text()
                np.testing.assert_array_equal(run(points, centres), want)


def distances(function: Any, points: Any, centres: Any) -> Any:
    """Return what positions are found in, as the functions above say."""
    if function is furthest:
        return (points[:, None] - centres).sum(2)
    return (points * points).sum(1)[:, None] - 2 * points @ centres.T + (centres * centres).sum(1)


LENGTHS = (1, 31, 32, 33, 128, 129, 1000, 1024, 1025, 2052, 8191, 8192, 8200)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("letter", "biefdF")
def test_rows_of_every_length_and_type(driver: Any, letter: str, length: int) -> None:
    kernel = rows.softmax(letter) if letter in "bi" else rows.layer_norm(letter)
    calls = [(3, length)]
    kept = kernel.way(*calls).kept
    assert (kept > 0) == (length <= 8192)
    for shift in 0, 1:
        for wide in False, True:
            compare(driver, kernel, calls, shift, wide=wide)


def test_columns_are_kept_too(driver: Any) -> None:
    for length, kept in (1, 1), (3, 1), (9, 2), (100, 16), (256, 32), (257, 0):
        kernel = rows.softmax("f", across=True)
        calls = [(length, 70), (max(1, length // 2), 9)]
        assert kernel.way(*calls).kept == kept
        compare(driver, kernel, calls)


@pytest.mark.parametrize("length", [96, 100, 1000, 1023, 8192])
def test_results_depend_on_the_length_of_a_row_alone(driver: Any, length: int) -> None:
    """Not on how many rows a device has, on where they lie, or on the width of indices."""
    kernel, rng = rows.layer_norm("f"), np.random.default_rng(length)
    values = [rng.standard_normal(shape).astype("f") for shape in ((9, length), length, length)]
    bits = set()
    for calls, shift in ([[9]], 0), ([[9]], 1), ([[4, 5]], 0), ([[1, 8]], 3):
        (counts,) = calls
        starts = np.cumsum([0, *counts])
        blocks = [[values[0][a:b], *values[1:]] for a, b in itertools.pairwise(starts)]
        given = iter(blocks)
        with mock.patch.object(Kernel, "blocks", lambda *_, given=given: next(given)):
            results = compare(driver, kernel, [(n, length) for n in counts], shift)
        bits.add(b"".join(x.tobytes() for x in results))
    assert len(bits) == 1
