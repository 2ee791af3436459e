"""Fake CuPy, NVML and CUDA backend, for machines without a GPU."""

import dataclasses
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from gpushard._runtime.backend import DeviceInfo
from gpushard._runtime.cuda.devices.selection import select
from gpushard._runtime.cuda.driver.cupy_private import NAMES
from gpushard._runtime.cuda.driver.libraries import Libraries
from gpushard._runtime.host import HostBackend
from gpushard.config import Settings

STATUSES = {
    3: "cudaErrorInitializationError: initialization error",
    35: "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
    46: "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable",
    100: "cudaErrorNoDevice: no CUDA-capable device is detected",
    802: "cudaErrorSystemNotReady: system not yet initialized",
}
"""What CuPy 14.2 says of errors of CUDA."""


class CUDARuntimeError(RuntimeError):
    """As in CuPy."""

    def __init__(self, status: int) -> None:
        super().__init__(STATUSES[status])
        self.status = status


def cupy(
    gpus: int | Exception = 1,
    *,
    driver: int | Exception = 13000,
    runtime: int = 13020,
    version: str = "14.2.0",
    headers: Exception | None = None,
    compiler: Exception | None = None,
    lacks: str | None = None,
) -> types.SimpleNamespace:
    """Return a module `cupy`; what is an exception is raised when asked for.

    Args:
      gpus: how many there are.
      driver: the version of CUDA that the driver is for.
      runtime: the version of CUDA that CuPy is made with.
      version: CuPy's own.
      headers: why there are no options for the compiler.
      compiler: why it does not compile.
      lacks: a name of `cupy_private.NAMES` that is not there.
    """

    def answer(value: Any) -> Callable[[], Any]:
        def call() -> Any:
            if isinstance(value, Exception):
                raise value
            return value

        return call

    calls = types.SimpleNamespace(
        getDeviceCount=answer(gpus),
        driverGetVersion=answer(driver),
        runtimeGetVersion=answer(runtime),
    )
    nvrtc = types.SimpleNamespace(compile_using_nvrtc=lambda *_, **options: answer(compiler)())
    made = types.SimpleNamespace(
        __version__=version, cuda=types.SimpleNamespace(runtime=calls, compiler=nvrtc)
    )
    for name, private in NAMES.items():
        *parts, last = private.path.split(".")
        owner = made
        for part in parts:
            if not hasattr(owner, part):
                setattr(owner, part, types.SimpleNamespace())
            owner = getattr(owner, part)
        if name != lacks:
            setattr(owner, last, lambda options=(): answer(headers)())
    return made


def libraries(packages: dict[str, str] | None = None, **modules: Any) -> Libraries:
    """Return libraries that hold these packages, with versions, and these modules only.

    A module that is an exception is raised when it is imported.
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if isinstance(modules[name], Exception):
            raise modules[name]
        return modules[name]

    return Libraries((packages or {}).get, load)


@dataclasses.dataclass
class Gpu:
    """A GPU as NVML sees it."""

    bus_id: str = "00000000:3B:00.0"
    name: str = "NVIDIA H100 80GB HBM3"
    uuid: str = "GPU-0"
    temperature: int = 41
    used: int = 1 << 30
    total: int = 80 << 30
    milliwatts: int = 120_500
    links: tuple[tuple[int, str], ...] = ()
    """(1 if up, bus id of the other end) of each."""

    unsupported: frozenset[str] = frozenset()
    """Functions that fail for it."""


class NVMLError(Exception):
    """As in pynvml."""


class NVMLError_LibraryNotFound(NVMLError):
    """As in pynvml."""


class NVMLError_NotSupported(NVMLError):
    """As in pynvml."""


class NVMLError_Uninitialized(NVMLError):
    """As in pynvml."""


class Nvml:
    """A module `pynvml`.

    Args:
      gpus: what there is.
      init: raised by `nvmlInit`.
      unsupported: functions that do not ask for a GPU, and fail.
    """

    NVMLError = NVMLError
    NVMLError_LibraryNotFound = NVMLError_LibraryNotFound
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    NVML_FEATURE_ENABLED = 1
    NVML_NVLINK_MAX_LINKS = 6

    def __init__(
        self,
        *gpus: Gpu,
        init: NVMLError | None = None,
        unsupported: frozenset[str] = frozenset(),
    ) -> None:
        self.gpus = gpus
        self.init = init
        self.unsupported = unsupported
        self.users = 0
        """How often it was initialised more than shut down."""
        self.queries = 0

    def nvmlInit(self) -> None:
        if self.init is not None:
            raise self.init
        self.users += 1

    def nvmlShutdown(self) -> None:
        self._ask("nvmlShutdown")
        self.users -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        self._ask("nvmlSystemGetDriverVersion")
        return "580.65.06"

    def nvmlDeviceGetCount(self) -> int:
        self._ask("nvmlDeviceGetCount")
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        gpu = self.gpus[index]
        self._ask("nvmlDeviceGetHandleByIndex", gpu)
        return gpu

    def nvmlDeviceGetPciInfo(self, gpu: Gpu) -> Any:
        self._ask("nvmlDeviceGetPciInfo", gpu)
        return types.SimpleNamespace(busId=gpu.bus_id)

    def nvmlDeviceGetUUID(self, gpu: Gpu) -> str:
        self._ask("nvmlDeviceGetUUID", gpu)
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu: Gpu) -> str:
        self._ask("nvmlDeviceGetName", gpu)
        return gpu.name

    def nvmlDeviceGetTemperature(self, gpu: Gpu, sensor: int) -> int:
        self._ask("nvmlDeviceGetTemperature", gpu)
        assert sensor == self.NVML_TEMPERATURE_GPU
        return gpu.temperature

    def nvmlDeviceGetMemoryInfo(self, gpu: Gpu) -> Any:
        self._ask("nvmlDeviceGetMemoryInfo", gpu)
        return types.SimpleNamespace(used=gpu.used, total=gpu.total, free=gpu.total - gpu.used)

    def nvmlDeviceGetPowerUsage(self, gpu: Gpu) -> int:
        self._ask("nvmlDeviceGetPowerUsage", gpu)
        return gpu.milliwatts

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: Gpu) -> int:
        self._ask("nvmlDeviceGetEnforcedPowerLimit", gpu)
        return 700_000

    def nvmlDeviceGetClockInfo(self, gpu: Gpu, clock: int) -> int:
        self._ask("nvmlDeviceGetClockInfo", gpu)
        assert clock == self.NVML_CLOCK_SM
        return 345

    def nvmlDeviceGetMaxClockInfo(self, gpu: Gpu, clock: int) -> int:
        self._ask("nvmlDeviceGetMaxClockInfo", gpu)
        assert clock == self.NVML_CLOCK_SM
        return 1980

    def nvmlDeviceGetCurrPcieLinkGeneration(self, gpu: Gpu) -> int:
        self._ask("nvmlDeviceGetCurrPcieLinkGeneration", gpu)
        return 5

    def nvmlDeviceGetCurrPcieLinkWidth(self, gpu: Gpu) -> int:
        self._ask("nvmlDeviceGetCurrPcieLinkWidth", gpu)
        return 16

    def nvmlDeviceGetNvLinkState(self, gpu: Gpu, link: int) -> int:
        self._ask("nvmlDeviceGetNvLinkState", gpu)
        if link >= len(gpu.links):
            raise NVMLError_NotSupported
        return gpu.links[link][0]

    def nvmlDeviceGetNvLinkRemotePciInfo(self, gpu: Gpu, link: int) -> Any:
        self._ask("nvmlDeviceGetNvLinkRemotePciInfo", gpu)
        return types.SimpleNamespace(busId=gpu.links[link][1])

    def _ask(self, function: str, gpu: Gpu | None = None) -> None:
        self.queries += 1
        if not self.users:
            raise NVMLError_Uninitialized
        if function in (self.unsupported if gpu is None else gpu.unsupported):
            raise NVMLError_NotSupported


ASKED_OF_A_GPU = sorted(
    name
    for name in vars(Nvml)
    if name.startswith("nvmlDevice") and name not in ("nvmlDeviceGetCount",)
)
"""The functions that can be unsupported for one GPU."""


BUS_IDS = ("0000:3B:00.0", "0000:86:00.0", "0000:AF:00.0")
"""Where CUDA says that the fake GPUs are."""


class CudaBackend(HostBackend):
    """The place of the CUDA backend: the host backend, with the devices of three GPUs.

    The first two reach each other's memory, the last one stands alone.
    """

    name = "cuda"
    platform = "gpu"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.selected = select(settings, len(BUS_IDS))

    def describe(self) -> list[DeviceInfo]:
        peers = {0: 1, 1: 0}
        return [
            DeviceInfo(
                kind="NVIDIA Fake",
                hardware_id=chip,
                partition=partition,
                domain=chip,
                pinned_domain=chip,
                pageable_domain=chip,
                bus_id=BUS_IDS[gpu.ordinal],
                peers=frozenset(
                    other
                    for other, end in enumerate(self.selected)
                    if end.ordinal == peers.get(gpu.ordinal)
                ),
            )
            for chip, gpu in enumerate(self.selected)
            for partition in range(gpu.partitions)
        ]


def install(monkeypatch: pytest.MonkeyPatch, *, gpus: int = len(BUS_IDS)) -> None:
    """Let this process have CuPy, GPUs and a CUDA backend."""
    backend = types.SimpleNamespace(CudaBackend=CudaBackend)
    monkeypatch.setitem(sys.modules, "gpushard._runtime.cuda.backend", backend)
    monkeypatch.setitem(sys.modules, "cupy", cupy(gpus))
