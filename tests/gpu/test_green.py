"""Green contexts on a GPU: parts of it have the multiprocessors that they say, and no others'."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime import current_runtime
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.cuda.devices.probe import probe
from gpushard._runtime.cuda.driver.libraries import installed_version
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.errors import ConfigurationError
from gpushard.testing import runtime
from gpushard.testing.conformance import ArrayConformance

found = probe()
if not found.usable:
    pytest.skip(found.reason, allow_module_level=True)
if installed_version("cuda-bindings") is None:
    reason = "cuda-bindings is not installed: pip install cuda-bindings"
    pytest.skip(reason, allow_module_level=True)

WHERE = r"""
extern "C" __global__ void where(unsigned* places, long long cycles) {
  unsigned place;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(place));
  long long start = clock64();
  while (clock64() - start < cycles) {}
  if (threadIdx.x == 0) places[blockIdx.x] = place;
}
"""
"""Each block says where it runs, and stays for a while, so that others have to go elsewhere."""

BLOCKS = 4096
CYCLES = 200_000


def places(driver: Any, stream: Any) -> set[int]:
    """Return the multiprocessors that the blocks of a kernel on a stream ran on."""
    cupy = importlib.import_module("cupy")
    kept: list[Any] = []

    def launch() -> None:
        at = cupy.full(BLOCKS, 0xFFFFFFFF, np.uint32)
        where = cupy.RawKernel(WHERE, "where")
        where((BLOCKS,), (1024,), (at, np.int64(CYCLES)))
        kept.append(at)

    driver.run(stream, launch)
    driver.synchronize_gpu(0)
    return set(kept[0].get().tolist())


@pytest.fixture
def driver() -> Any:
    return importlib.import_module("gpushard._runtime.cuda.driver.cupy_driver").CupyDriver()


def most_parts(driver: Any) -> int:
    """Return into how many parts the GPU can be divided."""
    with pytest.raises(ConfigurationError) as caught:
        driver.divide(0, driver.gpus()[0].multiprocessors + 1)
    most: int = caught.value.facts["most"]
    return most


@pytest.mark.parametrize("parts", [2, 3, 4, 7])
def test_parts_have_their_multiprocessors_and_no_others(driver: Any, parts: int) -> None:
    if parts > most_parts(driver):
        pytest.skip(f"the GPU cannot be divided into {parts} parts")
    shares = driver.divide(0, parts)
    try:
        whole = driver.stream(0)
        streams = [driver.stream(0, share) for share in shares]
        sets = [places(driver, stream) for stream in streams]
        assert [len(found) for found in sets] == [share.multiprocessors for share in shares]
        assert len(set().union(*sets)) == sum(map(len, sets)), "two parts share a multiprocessor"
        everything = driver.gpus()[0].multiprocessors
        assert len(places(driver, whole)) == everything
    finally:
        driver.synchronize_gpu(0)
        driver._green.unite(shares)


def test_all_parts_that_there_are_room_for(driver: Any) -> None:
    most = most_parts(driver)
    shares = driver.divide(0, most)
    streams = [driver.stream(0, share) for share in shares]
    sets = [places(driver, stream) for stream in streams]
    assert len(set().union(*sets)) == sum(share.multiprocessors for share in shares)
    driver._green.unite(shares)


def test_a_gpu_can_be_divided_again(driver: Any) -> None:
    for parts in (2, 3, 2):
        shares = driver.divide(0, parts)
        for share in shares:
            assert len(places(driver, driver.stream(0, share))) == share.multiprocessors
        driver._green.unite(shares)


@pytest.fixture
def devices() -> Iterator[tuple[gs.Device, ...]]:
    with runtime(backend="cuda", gpus=(0,), partitions=4, partition_mode="green"):
        yield tuple(gs.devices())


def test_work_of_a_device_runs_on_its_multiprocessors(devices: tuple[gs.Device, ...]) -> None:
    cupy = importlib.import_module("cupy")
    rt = current_runtime.current()
    infos = rt.backend.describe()
    kernel = cupy.RawKernel(WHERE, "where")
    seen: dict[int, Any] = {}

    def work(n: int) -> None:
        seen[n] = cupy.full(BLOCKS, 0xFFFFFFFF, np.uint32)
        kernel((BLOCKS,), (1024,), (seen[n], np.int64(CYCLES)))

    for device in devices:
        stream, n = device.stream, device.id
        rt.commit(lambda s=stream, n=n: rt.submit(s, "where", lambda: work(n), [], []), [stream])
    for device in devices:
        device.stream.synchronize(device.stream.issued)
    sets = [set(seen[device.id].get().tolist()) for device in devices]
    assert [len(found) for found in sets] == [info.multiprocessors for info in infos]
    assert len(set().union(*sets)) == sum(map(len, sets))


def test_arrays_work(devices: tuple[gs.Device, ...]) -> None:
    mesh = gs.make_mesh((4,), "x")
    value = np.arange(512 * 384, dtype=np.float32).reshape(512, 384)
    rows, columns = (gs.NamedSharding(mesh, spec) for spec in (gs.P("x"), gs.P(None, "x")))
    x = gs.device_put(value, rows)
    for _ in range(3):
        assert np.array_equal(gs.reshard(x, columns), value)
        assert np.array_equal(gs.reshard(gs.reshard(x, columns), rows), value)
    assert np.array_equal(x[3:7, ::-2], value[3:7, ::-2])


class TestConformance(ArrayConformance):
    """The suite of arrays, on one GPU whose parts pose as having memories where there are some."""

    launches = True

    @pytest.fixture(autouse=True)
    def has_room(self, driver: Any) -> None:
        if most_parts(driver) < 8:
            pytest.skip("the GPU cannot be divided into 8 parts")

    def make_runtime(self, **settings: Any) -> Runtime:
        devices, domains = settings.pop("host_devices", 8), settings.pop("host_domains", 1)
        settings.pop("small_bytes", None)
        chosen = Settings(
            backend="cuda",
            gpus=(0,),
            partitions=devices,
            partition_mode="green",
            separate_domains=domains > 1,
            slab_bytes=1 << 20,
            **settings,
        )
        return Runtime(chosen, CudaBackend(chosen))
