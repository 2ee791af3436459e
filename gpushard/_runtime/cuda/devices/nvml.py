"""Read facts about the GPUs of this machine from NVML, the library behind nvidia-smi.

NVML numbers GPUs differently from CUDA and ignores CUDA_VISIBLE_DEVICES: match by `bus_id`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from gpushard._frozen import dataclass
from gpushard._runtime.cuda.driver.libraries import INSTALLED, Libraries, one_line

T = TypeVar("T")

_MISSING = (
    "nvidia-ml-py is not installed; install it with pip install nvidia-ml-py, or one of the extras "
    "gpushard[cuda12] and gpushard[cuda13]"
)
_REINSTALL = "try pip install --force-reinstall nvidia-ml-py"
_NO_LIBRARY = "NVML is not there; it comes with the NVIDIA driver: install that"


@dataclass(frozen=True)
class NvLink:
    """An NVLink of a GPU that is up."""

    index: int  # its number on this GPU
    remote: str | None  # bus id of the GPU or switch at its other end; None if unknown to NVML


@dataclass(frozen=True)
class GpuFacts:
    """The facts about a GPU that NVML gives; None for facts that it does not give."""

    bus_id: str | None  # its place on the PCI bus, as `normalize_bus_id` writes it
    uuid: str | None  # such as "GPU-4f1a...", as CUDA_VISIBLE_DEVICES takes it
    name: str | None  # its model
    temperature: int | None  # degrees Celsius
    memory_used: int | None  # bytes in use, by all processes
    memory_total: int | None  # bytes of its memory
    power: float | None  # watts drawn now
    power_limit: float | None  # watts it may draw
    clock: int | None  # MHz of the multiprocessors now
    clock_limit: int | None  # most MHz of the multiprocessors
    pcie_generation: int | None  # generation of the PCIe link now; links that idle slow down
    pcie_width: int | None  # lanes of the PCIe link now
    links: tuple[NvLink, ...] | None  # the NVLinks that are up; None if it has none


@dataclass(frozen=True)
class NvmlReport:
    """The facts about all GPUs of a machine that NVML gives."""

    reason: str | None  # why NVML does not answer, and what to do; None if it answers
    driver: str | None = None  # version of the NVIDIA driver
    gpus: tuple[GpuFacts, ...] = ()  # the GPUs in NVML's order

    def find(self, bus_id: str) -> GpuFacts | None:
        """Find the GPU with a bus id in any notation; None if there is none."""
        wanted = normalize_bus_id(bus_id)
        return next((gpu for gpu in self.gpus if gpu.bus_id == wanted), None)


def normalize_bus_id(bus_id: str) -> str:
    """Write a PCI bus id in one way: NVML gives the domain 8 digits, CUDA gives it 4.

    >>> normalize_bus_id("00000000:3B:00.0"), normalize_bus_id("0000:3b:00.0")
    ('0000:3b:00.0', '0000:3b:00.0')
    """
    domain, _, place = bus_id.strip().lower().partition(":")
    return f"{domain.lstrip('0'):0>4}:{place}"


def read_nvml(libraries: Libraries = INSTALLED) -> NvmlReport:
    """Ask NVML for all GPUs; never raises.

    Returns:
      The facts, or why there are none. NVML is shut down again.

    >>> def load(name):
    ...     raise ModuleNotFoundError(name=name)
    >>> read_nvml(Libraries(load=load)).reason.partition(";")[0]
    'nvidia-ml-py is not installed'
    """
    try:
        nvml = libraries.load("pynvml")
    except Exception as error:  # a broken installation can raise anything
        if isinstance(error, ModuleNotFoundError) and error.name == "pynvml":
            return NvmlReport(_MISSING)
        return NvmlReport(f"pynvml does not import ({one_line(error)}); {_REINSTALL}")
    try:
        return _read(nvml)
    except AttributeError as error:
        return NvmlReport(f"pynvml is not that of nvidia-ml-py ({one_line(error)}); {_REINSTALL}")


def _read(nvml: Any) -> NvmlReport:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError_LibraryNotFound:
        return NvmlReport(_NO_LIBRARY)
    except nvml.NVMLError as error:
        return NvmlReport(f"NVML does not start ({one_line(error)}); see whether nvidia-smi works")
    ask = functools.partial(_ask, nvml.NVMLError)
    try:
        count = ask(nvml.nvmlDeviceGetCount) or 0
        gpus = [_read_gpu(nvml, ask, index) for index in range(count)]
        return NvmlReport(None, ask(nvml.nvmlSystemGetDriverVersion), tuple(gpus))
    finally:
        ask(nvml.nvmlShutdown)


def _ask(failure: type[Exception], query: Callable[..., T], *arguments: Any) -> T | None:
    """Ask NVML a question; None if the GPU or the driver does not support it."""
    try:
        return query(*arguments)
    except failure:
        return None


def _read_gpu(nvml: Any, ask: Callable[..., Any], index: int) -> GpuFacts:
    handle = ask(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:  # the GPU has fallen off the bus, or the user may not use it
        return GpuFacts(*(None for _ in dataclasses.fields(GpuFacts)))
    place = ask(nvml.nvmlDeviceGetPciInfo, handle)
    memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
    return GpuFacts(
        bus_id=None if place is None else normalize_bus_id(place.busId),
        uuid=ask(nvml.nvmlDeviceGetUUID, handle),
        name=ask(nvml.nvmlDeviceGetName, handle),
        temperature=ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        memory_used=None if memory is None else memory.used,
        memory_total=None if memory is None else memory.total,
        power=_watts(ask(nvml.nvmlDeviceGetPowerUsage, handle)),
        power_limit=_watts(ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)),
        clock=ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        clock_limit=ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
        pcie_generation=ask(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        pcie_width=ask(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        links=_read_links(nvml, ask, handle),
    )


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _read_links(nvml: Any, ask: Callable[..., Any], handle: Any) -> tuple[NvLink, ...] | None:
    states = [
        ask(nvml.nvmlDeviceGetNvLinkState, handle, link)
        for link in range(nvml.NVML_NVLINK_MAX_LINKS)
    ]
    if all(state is None for state in states):
        return None
    up = [link for link, state in enumerate(states) if state == nvml.NVML_FEATURE_ENABLED]
    return tuple(NvLink(link, _read_remote(nvml, ask, handle, link)) for link in up)


def _read_remote(nvml: Any, ask: Callable[..., Any], handle: Any, link: int) -> str | None:
    place = ask(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
    return None if place is None else normalize_bus_id(place.busId)
