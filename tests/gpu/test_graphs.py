"""Kernels of a traced function that follow one another are one graph on a GPU, and no other values.

Programs here alternate reductions over two long dims, so that no two of their kernels become one.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard._runtime.checking.checker import Checker
from gpushard._runtime.cuda import graphs
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.runtime import Runtime
from gpushard._transforms.fusion.segments import LEAST
from gpushard.config import Settings
from gpushard.testing.runtime import using
from tests.gpu.device import SPLITS, Split, gpu_runtime, late_driver, needs_gpu
from tests.share import seeds
from tests.softgpu import counters
from tests.softgpu.run import ACTIVE

pytestmark = needs_gpu
counted = pytest.mark.skipif(ACTIVE not in os.environ, reason="only the software GPU counts")
P = gs.P
SHAPE = 8, 70, 66
KERNELS = 20


def balanced(x: Any, kernels: int = KERNELS) -> Any:
    """As many kernels: a sum over one dim, and a quotient, each."""
    for n in range(kernels):
        x = x / x.sum(axis=-1 - n % 2, keepdims=True)
    return x


def several(x: Any, scale: Any) -> Any:
    """A result on the way, a value that is needed again later, and numbers."""
    first = balanced(x * scale, 3)
    second = balanced(first, 5)
    return (second + first * 2) / second.sum(axis=-1, keepdims=True), second


def apart(x: Any) -> Any:
    """Five kernels, what is CuPy's, five kernels."""
    return balanced(gnp.sort(balanced(x, 5), axis=-1) + 1, 5)


def values(seed: int) -> Any:
    return np.random.default_rng(seed).uniform(1, 2, SHAPE).astype(np.float32)


def mesh_of(runtime: Runtime) -> Any:
    return gs.Mesh(np.array(runtime.devices), ("x",))


def put(runtime: Runtime, x: Any, *, split: bool = True) -> Any:
    made = gs.device_put(x, gs.NamedSharding(mesh_of(runtime), P("x" if split else None)))
    return made.block_until_ready()


def asked(function: Callable[[], Any]) -> Counter[str]:
    before = counters.read()
    result = function()
    found = counters.read() - before
    del result
    return found


def copies(x: Any) -> Any:
    """The same values in new memory."""
    return gnp.array(x, copy=True).block_until_ready()


@counted
@pytest.mark.parametrize("split", [SPLITS[0], SPLITS[1], SPLITS[2]], ids=str)
def test_a_step_of_20_kernels_is_one_graph_launch(split: Split) -> None:
    with gpu_runtime(None, split, checked=True, poisoned=False) as runtime:
        step, x = gs.jit(balanced), put(runtime, values(0))
        found = [asked(lambda: step(x)) for _ in range(10)]
        assert (found[0]["launches"], found[0]["graph_launches"]) == (KERNELS, 0)
        for one in found[6:]:  # memory for results may be another one for a while
            assert (one["launches"], one["graph_launches"]) == (0, 1)
            assert (one["graph_nodes"], one["graphs_instantiated"]) == (KERNELS, 0)
        text = step.lower(x).compile().as_text().splitlines()
        assert "# launches: 20; 20 of them, captured, are 1 of CUDA graphs" in text


@contextlib.contextmanager
def all_gpus() -> Iterator[Runtime]:
    """Two devices on each GPU there is."""
    chosen = Settings(backend="cuda", partitions=2, slab_bytes=32 << 20)
    made = Runtime(chosen, Checker(CudaBackend(chosen)))
    with using(made):
        yield made


@counted
def test_every_gpu_has_a_graph() -> None:
    with all_gpus() as runtime:
        rows = np.resize(values(3), (len(runtime.devices), *SHAPE[1:]))  # some on every GPU
        step, x = gs.jit(balanced), put(runtime, rows)
        expected = np.asarray(step(x))
        for _ in range(9):
            found = asked(lambda: step(x).block_until_ready())
        gpus = len(runtime.devices) // 2
        assert (found["launches"], found["graph_launches"]) == (0, gpus)
        assert found["graph_nodes"] == KERNELS * gpus
        np.testing.assert_array_equal(step(x), expected)


@counted
def test_a_library_call_is_between_two_graphs() -> None:
    with gpu_runtime(None, SPLITS[0], checked=True, poisoned=False) as runtime:
        step, x = gs.jit(apart), put(runtime, values(0))
        expected = np.asarray(step(x))
        gc.collect()
        found = [asked(lambda: step(x).block_until_ready()) for _ in range(20)]
        assert (2, 10) in [(one["graph_launches"], one["graph_nodes"]) for one in found]
        np.testing.assert_array_equal(step(x), expected)


def with_counts(x: Any, points: Any, places: Any) -> Any:
    """A region of two results, one of which is merged from all devices, and kernels behind it."""
    near = ((points[:, None] - places) ** 2).sum(axis=2) / 100
    return near, near.sum(axis=0), balanced(x, LEAST)


def with_neighbours(x: Any, points: Any, places: Any) -> Any:
    """A region whose operands come from other devices first, and kernels behind it."""
    return points, places, balanced((x[1:] - x[:-1]) ** 2 + x[1:], LEAST)


@pytest.mark.parametrize("program", [with_counts, with_neighbours])
def test_what_is_moved_or_merged_is_no_part_of_a_graph(program: Callable[..., Any]) -> None:
    x, points = values(5), values(6).reshape(-1, 16)[:130]
    given = x, points, points[:32]
    with gpu_runtime(None, Split(4, False), checked=True) as runtime:
        arrays = [put(runtime, one, split=one is not given[2]) for one in given]
        step = gs.jit(program)
        for _ in range(3):
            for found, expected in zip(step(*arrays), program(*given), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-5)


@counted
@pytest.mark.parametrize("kernels", [LEAST, LEAST - 1])
def test_few_kernels_are_launched_one_by_one(kernels: int) -> None:
    with gpu_runtime(None, SPLITS[0], checked=True, poisoned=False) as runtime:
        step, x = gs.jit(lambda x: balanced(x, kernels)), put(runtime, values(0))
        for _ in range(5):
            found = asked(lambda: step(x))
        assert found["graph_launches"] == (kernels == LEAST)


def plain(function: Callable[..., Any], *given: Any) -> list[Any]:
    """What a function gives without graphs, and without anything between its kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpushard._transforms.fusion.segments._has_cuda_graphs", lambda step: False)
        found = gs.jit(function)(*given)
    return [np.asarray(x) for x in gs.tree.leaves(found)]


@pytest.mark.parametrize("split", [SPLITS[0], SPLITS[1], SPLITS[2], SPLITS[5]], ids=str)
@pytest.mark.parametrize("seed", seeds(3))
def test_a_graph_gives_the_same_bits(split: Split, seed: int) -> None:
    """With other values, at other addresses and the same ones, and with work of others beside."""
    rng = random.Random(seed)
    with gpu_runtime(late_driver()(seed, most_us=30), split, checked=True) as runtime:
        scale = put(runtime, np.linspace(0.5, 1, SHAPE[-1], dtype=np.float32), split=False)
        arguments = [put(runtime, values(n)) for n in range(3)]
        expected = [plain(several, x, scale) for x in arguments]
        step, kept, other = gs.jit(lambda x, scale: several(x, scale)), [], gs.jit(balanced)
        before = counters.read() if ACTIVE in os.environ else Counter[str]()
        for turn in range(30):
            n = rng.randrange(3)
            if turn % 10 < 6:  # memory goes round, and nothing is beside
                kept.clear()
                result = step(arguments[turn // 10], scale)
                for a, b in zip(gs.tree.leaves(result), expected[turn // 10], strict=True):
                    np.testing.assert_array_equal(a, b)
                del a, b, result
                continue
            x = copies(arguments[n]) if rng.random() < 0.3 else arguments[n]
            if rng.random() < 0.3:  # eager work, on streams of its own and on these
                kept.append(gs.device_put(x, runtime.devices[-1]) * 2)
                kept.append(x[:, ::2] + 1)
            result = step(x, scale)
            if rng.random() < 0.3:
                kept.append(other(x))
            if rng.random() < 0.4:
                kept.append(result)
            if rng.random() < 0.3:
                kept.clear()
            for a, b in zip(gs.tree.leaves(result), expected[n], strict=True):
                np.testing.assert_array_equal(a, b)
        if split == SPLITS[0] and before:
            assert (counters.read() - before)["graph_launches"]


@counted
@pytest.mark.parametrize("split", [SPLITS[0], SPLITS[2]], ids=str)
def test_a_loop_with_donation_goes_round_few_graphs(split: Split) -> None:
    with gpu_runtime(None, split, checked=True, poisoned=False) as runtime:
        step = gs.jit(lambda x: balanced(x, 6) + 1, donate_argnums=0)
        x, expected = put(runtime, values(1)), put(runtime, values(1))
        once = gs.jit(lambda x: balanced(x, 6) + 1)
        launched = []
        for _ in range(12):
            before = counters.read()
            x = step(x).block_until_ready()
            launched.append((counters.read() - before)["graph_launches"])
        assert launched[-6:] == [1] * 6
        for _ in range(12):
            expected = once(expected)
        np.testing.assert_array_equal(x, expected)


def settled(runtime: Runtime) -> Counter[str]:
    """Counts, once what nobody needs was given back."""
    gc.collect()
    runtime.empty_cache()
    return counters.read()


@counted
def test_graphs_are_few_and_go_with_their_function() -> None:
    with gpu_runtime(None, SPLITS[0], checked=True, poisoned=False) as runtime:
        start = settled(runtime)
        step = gs.jit(lambda x: balanced(x, 5))
        many = [put(runtime, values(n)) for n in range(graphs.MOST_KEPT + 4)]
        for _ in range(4):
            for x in many:
                step(x).block_until_ready()
        found = settled(runtime) - start
        alive = found["graphs_instantiated"] - found["graphs_released"]
        assert 1 <= alive <= graphs.MOST_KEPT
        assert found["graph_launches"] >= 2 * graphs.MOST_KEPT  # most come again
        gs.clear_caches()
        found = settled(runtime) - start
        assert found["graphs_instantiated"] == found["graphs_released"]
        for _ in range(3):
            step(many[0])
        del step
        found = settled(runtime) - start
        assert found["graphs_instantiated"] == found["graphs_released"] > 0


@counted
def test_a_graph_holds_no_memory_of_arrays() -> None:
    with gpu_runtime(None, SPLITS[0], checked=True, poisoned=False) as runtime:
        step, x = gs.jit(balanced), put(runtime, values(0))
        for _ in range(3):
            step(x)
        gc.collect()
        in_use = sum(device.memory_stats()["bytes_in_use"] for device in runtime.devices)
        assert in_use == x.nbytes


@pytest.mark.parametrize("seed", seeds(2))
def test_what_is_held_meanwhile_is_predicted(seed: int) -> None:
    with gpu_runtime(None, Split(1, False), checked=True, poisoned=False) as runtime:
        (device,) = runtime.devices
        x = put(runtime, values(seed))
        compiled = gs.jit(balanced).lower(x).compile()
        before = device.memory_stats()["bytes_in_use"] - x.nbytes
        compiled(x).block_until_ready()
        peak = device.memory_stats()["peak_bytes_in_use"] - before
        predicted = compiled.memory_analysis().peak_memory_in_bytes
        assert peak <= predicted <= 1.05 * peak


class _Refused(Exception):
    """What CUDA says, in these tests."""


@counted
@pytest.mark.parametrize("call", ["capture", "launch_graph"])
def test_a_graph_that_fails_leaves_launches(
    call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with gpu_runtime(None, SPLITS[1], checked=True, poisoned=False) as runtime:

        def refuse(*given: Any) -> Any:
            raise _Refused("not now")

        monkeypatch.setattr(runtime.backend.backend._driver, call, refuse)
        first, second = gs.jit(balanced), gs.jit(lambda x: balanced(x, 6))
        x = put(runtime, values(0))
        expected = np.asarray(first(x))
        with caplog.at_level(logging.WARNING, "gpushard.jit"):
            for _ in range(3):
                np.testing.assert_array_equal(first(x), expected)
                found = asked(lambda: second(x))
        assert (found["launches"], found["graph_launches"]) == (6, 0)
        assert len(caplog.records) == 1 and "not now" in caplog.text


@counted
def test_an_invalid_capture_leaves_launches(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What CUDA forbids while a stream notes, so that no graph comes of it."""
    runtime_api: Any = pytest.importorskip("cupy").cuda.runtime
    with gpu_runtime(None, SPLITS[1], checked=True, poisoned=False) as runtime:
        driver = runtime.backend.backend._driver
        capture = driver.capture

        def disturbed(stream: Any, work: Callable[[], None]) -> Any:
            def more() -> None:
                work()
                runtime_api.malloc(256)

            return capture(stream, more)

        monkeypatch.setattr(driver, "capture", disturbed)
        step, x = gs.jit(balanced), put(runtime, values(0))
        expected = np.asarray(step(x))
        with caplog.at_level(logging.WARNING, "gpushard.jit"):
            for _ in range(3):
                np.testing.assert_array_equal(step(x), expected)
        assert len(caplog.records) == 1 and "capturing" in caplog.text
        monkeypatch.undo()  # streams that note go on
        other = gs.jit(lambda x: balanced(x, 7))
        for _ in range(5):
            found = asked(lambda: other(x))
        assert found["graph_launches"] == 1


def test_arguments_that_failed_fail_what_needs_them_alone() -> None:
    with gpu_runtime(None, SPLITS[1], checked=True, poisoned=False) as runtime:

        def two(x: Any, y: Any) -> Any:
            return balanced(x, 4), balanced(y, 4)

        step, x = gs.jit(two), put(runtime, values(0))
        y = put(runtime, values(1))
        expected = [np.asarray(made) for made in step(x, y)]
        for memory in y._held().buffer.memories:
            memory.error = RuntimeError("lost")
        for _ in range(3):
            good, _ = step(x, y)
            np.testing.assert_array_equal(good, expected[0])


@counted
def test_a_setting_turns_graphs_off() -> None:
    with gpu_runtime(None, SPLITS[0], cuda_graphs=False) as runtime:
        step, x = gs.jit(balanced), put(runtime, values(0))
        for _ in range(3):
            found = asked(lambda: step(x))
        assert (found["launches"], found["graph_launches"]) == (KERNELS, 0)
