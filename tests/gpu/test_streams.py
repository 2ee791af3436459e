"""What CuPy keeps for each thread must not be shared by the streams that one thread works on."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing.runtime import using
from tests.gpu.device import SPLITS, make_driver, make_gpu_runtime, needs_gpu

pytestmark = needs_gpu

RANDOM = np.random.default_rng(7)
ROWS = RANDOM.standard_normal((64, 256))


def test_transforms_on_streams_of_one_gpu_do_not_share_memory() -> None:
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[3])):
        x = gs.device_put(ROWS, gs.NamedSharding(gs.make_mesh((8,), ("x",)), gs.P("x")))
        parts = [gs.device_put(ROWS[n], device) for n, device in enumerate(gs.devices())]
        for _ in range(3):
            np.testing.assert_allclose(gs.numpy.fft.fft(x), np.fft.fft(ROWS), atol=1e-9)
            for name in ("convolve", "correlate"):
                found = [getattr(gs.numpy, name)(part, part[:100]) for part in parts]
                for n, one in enumerate(found):
                    wanted = getattr(np, name)(ROWS[n], ROWS[n, :100])
                    np.testing.assert_allclose(one, wanted, atol=1e-9)


def test_plans_are_kept_and_those_of_the_user_stay() -> None:
    cupy = importlib.import_module("cupy")
    runtime = make_gpu_runtime(make_driver("cupy"), SPLITS[0])
    with using(runtime):
        cupy.fft.fft(cupy.zeros(24))
        cache = cupy.fft.config.get_plan_cache()
        own = [key for key, _ in cache]
        gs.numpy.fft.fft(gs.device_put(ROWS)).block_until_ready()
        (stream,) = {s for s in runtime.backend._driver._streams if s.plans}
        ((_, plan),) = stream.plans
        gs.numpy.fft.fft(gs.device_put(ROWS)).block_until_ready()
        assert stream.plans[0][1] is plan, "a plan was made again"
        assert [key for key, _ in cache] == own
        gs.empty_cache()
        assert not stream.plans


@pytest.mark.parametrize("name", ["CUBLAS_WORKSPACE_CONFIG"])
def test_products_are_the_same_on_any_stream(name: str) -> None:
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[3])):
        assert os.environ[name].startswith(":"), "cuBLAS reads it when a handle is made"
        parts = [gs.device_put(ROWS, device) for device in gs.devices()]
        found = [np.asarray(gs.numpy.matmul(x, x.T)) for x in parts for _ in range(2)]
        for one in found:
            np.testing.assert_array_equal(one, found[0])


def test_temporary_memory_comes_from_the_pools_of_the_partitions() -> None:
    cupy = importlib.import_module("cupy")
    runtime = make_gpu_runtime(make_driver("cupy"), SPLITS[1], checked=True)
    with using(runtime):
        own = cupy.get_default_memory_pool().total_bytes()
        one, other = gs.devices()
        x = gs.device_put(ROWS, one)
        for _ in range(2):
            np.testing.assert_array_equal(gs.numpy.sort(x, axis=0), np.sort(ROWS, axis=0))
            np.testing.assert_allclose(gs.numpy.median(x, axis=1), np.median(ROWS, axis=1))
        assert one.memory_stats()["peak_bytes_in_use"] > 2 * ROWS.nbytes
        assert one.memory_stats()["bytes_in_use"] == ROWS.nbytes
        assert other.memory_stats()["peak_bytes_in_use"] == 0
        assert runtime.backend.backend._driver._temporary.total_bytes() < ROWS.nbytes // 4
        assert cupy.get_default_memory_pool().total_bytes() == own


def test_temporary_memory_counts_against_the_quota() -> None:
    limit = 5 * ROWS.nbytes // 2
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[1], memory_limit=limit)):
        x = gs.device_put(ROWS, gs.devices()[0])
        sums = [x.sum(axis=n) for n in (0, 1)]
        bad = gs.numpy.median(x, axis=1)
        with pytest.raises(gs.errors.ExecutionError, match="has no room for") as caught:
            bad.block_until_ready()
        assert isinstance(caught.value.__cause__, gs.errors.OutOfMemoryError)
        assert gs.devices()[0].memory_stats()["peak_bytes_in_use"] <= limit
        for n, found in enumerate(sums):
            np.testing.assert_allclose(found, ROWS.sum(axis=n))
        np.testing.assert_array_equal(x + 1, ROWS + 1)


def test_free_memory_of_ours_serves_temporaries() -> None:
    """Blocks that lie free, of other sizes and on a GPU without room for more, are given up."""
    nbytes = 8 << 20

    class Full(type(make_driver("cupy"))):  # type: ignore[misc]
        used = 0

        def malloc(self, gpu: int, size: int) -> int:
            if self.used + size > nbytes:
                raise MemoryError("full")
            self.used += size
            return int(super().malloc(gpu, size))

        def free(self, gpu: int, start: int) -> None:
            self.used = 0  # there is only one slab
            super().free(gpu, start)

    with using(make_gpu_runtime(Full(1), SPLITS[1], slab_bytes=nbytes)):
        one, other = gs.devices()
        for n in range(1, 7):
            gs.device_put(np.zeros(n << 20, np.uint8), one).block_until_ready()
        x = gs.device_put(np.arange(1 << 17)[::-1].copy(), other)
        np.testing.assert_array_equal(gs.numpy.sort(x), np.arange(1 << 17))


def test_kernels_are_compiled_before_the_lock_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = importlib.import_module("cupy")
    compiler = cupy.cuda.compiler
    compile_module, held = compiler._compile_module_with_cache, []
    runtime = make_gpu_runtime(make_driver("cupy"), SPLITS[1])

    def watched(*arguments: Any, **options: Any) -> Any:
        held.append(runtime._changing)
        return compile_module(*arguments, **options)

    with using(runtime):
        data = np.arange(128, dtype=np.int16).reshape(16, 8)
        mesh = gs.make_mesh((2,), ("x",))
        rows, columns = (
            gs.device_put(data, gs.NamedSharding(mesh, gs.P(*spec)))
            for spec in (("x",), (None, "x"))
        )
        cupy.clear_memo()  # nothing is compiled yet
        monkeypatch.setattr(compiler, "_compile_module_with_cache", watched)
        for x in (rows, columns):
            np.testing.assert_array_equal(x + x.T.T, data + data)
            np.testing.assert_array_equal(
                gs.numpy.where(x > 3, x, -x), np.where(data > 3, data, -data)
            )
            np.testing.assert_array_equal(gs.numpy.sqrt(x * 2.0), np.sqrt(data * 2.0))
            np.testing.assert_array_equal(gs.numpy.clip(x, 3, 50), np.clip(data, 3, 50))
    assert len(held) > 4 and not any(held)


def test_memory_of_plans_is_given_up_where_it_is_needed() -> None:
    limit = 16 * ROWS.nbytes
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[0], memory_limit=limit)):
        device = gs.devices()[0]
        x = gs.device_put(ROWS, device)
        y = gs.numpy.fft.fft(x)  # runs late
        assert device.memory_stats()["bytes_in_use"] > x.nbytes + y.nbytes, "the plan has no memory"
        rest = np.ones(limit - x.nbytes - y.nbytes, np.uint8)
        kept = gs.device_put(rest, device).block_until_ready()
        assert device.memory_stats()["bytes_in_use"] == limit
        np.testing.assert_array_equal(kept, rest)
        kept.delete()
        for found in (y, gs.numpy.fft.fft(x)):
            np.testing.assert_allclose(found, np.fft.fft(ROWS), atol=1e-9)


def sorted_rows(x: gs.Array) -> gs.Array:
    """Sort rows by CuPy's own function, which needs as much memory again."""
    cupy = importlib.import_module("cupy")

    def sort(a: Any, out: Any) -> None:
        for _ in range(10):
            found = cupy.sort(a)
        cupy.copyto(out, found)

    return gs.map_shards(sort, x, out=gs.ShapeDtypeStruct(x.shape, x.dtype))


def test_memory_of_users_functions_comes_from_the_pools_of_the_partitions() -> None:
    cupy = importlib.import_module("cupy")
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[1], checked=True)):
        own, device = cupy.get_default_memory_pool().total_bytes(), gs.devices()[0]
        x = gs.device_put(ROWS, device)
        for n in range(4):
            y = sorted_rows(x + n)
            np.testing.assert_array_equal(y, np.sort(ROWS + n))
            del y
        stats = device.memory_stats()
        assert stats["bytes_in_use"] == x.nbytes
        assert 4 * x.nbytes <= stats["peak_bytes_in_use"] <= 8 * x.nbytes
        assert cupy.get_default_memory_pool().total_bytes() == own


def test_memory_of_users_functions_counts_against_the_quota() -> None:
    limit = 5 * ROWS.nbytes // 2
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[1], memory_limit=limit)):
        x = gs.device_put(ROWS, gs.devices()[0])
        with pytest.raises(gs.errors.ExecutionError, match="has no room for"):
            sorted_rows(x)
        np.testing.assert_array_equal(x, ROWS)
        half = x[: len(ROWS) // 4] + 0
        x.delete()
        np.testing.assert_array_equal(sorted_rows(half), np.sort(ROWS[: len(ROWS) // 4]))


def test_what_a_users_function_keeps_is_given_back_after_all_that_may_use_it() -> None:
    cupy = importlib.import_module("cupy")
    runtime = make_gpu_runtime(make_driver("cupy"), SPLITS[1], checked=True)
    with using(runtime):
        device, kept = gs.devices()[0], []

        def keep(a: Any, out: Any) -> None:
            kept.append(cupy.empty_like(a))
            kept[-1][...] = a
            cupy.copyto(out, kept[0])

        x = gs.device_put(ROWS, device)
        y = gs.map_shards(keep, x, out=gs.ShapeDtypeStruct(x.shape, x.dtype))
        memory = kept[0].data.mem._owner.claim.memory
        z = x + 1
        kept.clear()
        w = x + 2
        runtime.run_locked(lambda: None)
        assert memory.written == (device.stream, device.stream.issued)
        for found, wanted in ((y, ROWS), (z, ROWS + 1), (w, ROWS + 2)):
            np.testing.assert_array_equal(found, wanted)
