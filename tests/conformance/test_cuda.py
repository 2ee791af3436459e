"""The CUDA backend passes the suites: on a driver without a GPU, and on GPUs where there are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gpushard._runtime.checking.checker import Checker
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.testing.conformance import ArrayConformance, BackendConformance
from tests.gpu.device import SPLITS, Split, late_driver, make_gpu_runtime, needs_gpu
from tests.runtime.cuda.fake_driver import FakeDriver

_seeds = itertools.count()


class Fake:
    """GPUs that are not there: one per domain, divided into the devices."""

    launches = True
    peers = True
    separate = False
    checked = False
    engine_bytes = 64
    mode = "stream"

    def make_runtime(self, **settings: Any) -> Runtime:
        devices, domains = settings.pop("host_devices", 8), settings.pop("host_domains", 1)
        settings.pop("small_bytes", None)
        gpus = 1 if self.separate else domains
        chosen = Settings(
            backend="cuda",
            partitions=devices // gpus,
            partition_mode=self.mode,
            separate_domains=self.separate,
            slab_bytes=1 << 20,
            engine_bytes=self.engine_bytes,
            **settings,
        )
        driver = FakeDriver(gpus, seed=next(_seeds), peers=self.peers)
        backend = CudaBackend(chosen, driver)
        return Runtime(chosen, Checker(backend) if self.checked else backend)


class TestBackend(Fake, BackendConformance):
    pass


class TestArrays(Fake, ArrayConformance):
    pass


class TestSeparateDomains(Fake, ArrayConformance):
    separate = True


class TestStrangers(Fake, ArrayConformance):
    """GPUs that cannot reach each other's memory."""

    peers = False


class TestKernelsOnly(Fake, ArrayConformance):
    engine_bytes = 0


class TestGreenBackend(Fake, BackendConformance):
    mode = "green"


class TestGreenArrays(Fake, ArrayConformance):
    """Parts of GPUs with multiprocessors of their own."""

    mode = "green"


class TestGreenSeparateDomains(Fake, ArrayConformance):
    mode = "green"
    separate = True


class TestCheckedBackend(Fake, BackendConformance):
    checked = True


class TestCheckedArrays(Fake, ArrayConformance):
    checked = True


class TestCheckedStrangers(Fake, ArrayConformance):
    checked = True
    peers = False


@needs_gpu
class Real:
    """A GPU, divided in every way that the tests are run with, whatever devices they ask for."""

    launches = True
    checked = False
    late = False
    engine_bytes = 64

    @pytest.fixture(autouse=True, params=SPLITS, ids=str)
    def _split(self, request: pytest.FixtureRequest) -> None:
        self.split: Split = request.param

    def make_runtime(self, **settings: Any) -> Runtime:
        for name in ("host_devices", "host_domains", "small_bytes"):
            settings.pop(name, None)
        driver = late_driver()(next(_seeds)) if self.late else None
        settings = {"engine_bytes": self.engine_bytes, **settings}
        return make_gpu_runtime(driver, self.split, checked=self.checked, **settings)


class TestGpuBackend(Real, BackendConformance):
    pass


class TestGpuArrays(Real, ArrayConformance):
    pass


class TestGpuKernelsOnly(Real, ArrayConformance):
    engine_bytes = 0


class TestLateGpuArrays(Real, ArrayConformance):
    """Items run late, as kernels that do nothing are put before them."""

    late = True


class TestCheckedGpuBackend(Real, BackendConformance):
    checked = True


class TestCheckedGpuArrays(Real, ArrayConformance):
    checked = True


class TestCheckedLateGpuArrays(Real, ArrayConformance):
    checked = True
    late = True
