"""GPUs that are not used are left alone: contexts on them would take hundreds of megabytes."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.testing.runtime import using
from tests.gpu.device import FOUND

WITHOUT_CONTEXT = (
    "getDevice",
    "getDeviceCount",
    "getDeviceProperties",
    "deviceGetPCIBusId",
    "driverGetVersion",
    "runtimeGetVersion",
    "CUDARuntimeError",
)


class Watched:
    """CUDA's calls, with the GPU that is the thread's when they are made."""

    def __init__(self, runtime: Any, used: int) -> None:
        self._runtime, self._used = runtime, used
        self.elsewhere: list[str] = []
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._runtime, name)
        if not callable(found) or name in WITHOUT_CONTEXT:
            return found

        def call(*arguments: Any) -> Any:
            self.calls += 1
            gpu = arguments[0] if name == "setDevice" else self._runtime.getDevice()
            if gpu != self._used:
                self.elsewhere.append(name)
            return found(*arguments)

        return call


@pytest.mark.skipif(FOUND.gpus < 2, reason="needs two GPUs")
def test_calls_make_no_context_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = importlib.import_module("gpushard._runtime.cuda.driver.cupy_driver")
    scope = importlib.import_module("gpushard._runtime.cuda.driver.cupy_scope")
    watched = Watched(driver.runtime, 1)
    for module in (driver, scope):
        monkeypatch.setattr(module, "runtime", watched)
    monkeypatch.setattr(driver.cuda_driver, "ctxGetCurrent", lambda: 0)  # threads are new to CUDA
    problems: list[BaseException] = []

    def work() -> None:
        try:
            settings = Settings(backend="cuda", gpus=(1,), partitions=2, slab_bytes=1 << 20)
            runtime = Runtime(settings, CudaBackend(settings))
            with using(runtime):
                value = np.arange(64.0).reshape(8, 8)
                mesh = gs.make_mesh((2,), ("x",))
                x = gs.device_put(value, gs.NamedSharding(mesh, gs.P("x")))
                y = gs.reshard(x + 1, gs.NamedSharding(mesh, gs.P(None, "x")))
                threads = [threading.Thread(target=np.asarray, args=(y,)) for _ in range(2)]
                for thread in threads:
                    thread.start()
                    thread.join()
                pinned = gs.device_put(y, y.sharding.with_memory_kind("pinned_host"))
                np.testing.assert_array_equal(pinned, value + 1)
                gs.empty_cache()
            runtime.close()
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not problems
    assert watched.calls > 20 and not watched.elsewhere, watched.elsewhere
