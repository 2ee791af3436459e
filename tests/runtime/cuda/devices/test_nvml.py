"""What NVML says, where it says everything, something and nothing."""

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._runtime.cuda.devices.nvml import GpuFacts, NvmlReport, normalize_bus_id, read_nvml
from tests.runtime.cuda.fakes import (
    ASKED_OF_A_GPU,
    Gpu,
    Nvml,
    NVMLError,
    NVMLError_LibraryNotFound,
    libraries,
)

FIELDS = {
    "nvmlDeviceGetPciInfo": ["bus_id"],
    "nvmlDeviceGetUUID": ["uuid"],
    "nvmlDeviceGetName": ["name"],
    "nvmlDeviceGetTemperature": ["temperature"],
    "nvmlDeviceGetMemoryInfo": ["memory_used", "memory_total"],
    "nvmlDeviceGetPowerUsage": ["power"],
    "nvmlDeviceGetEnforcedPowerLimit": ["power_limit"],
    "nvmlDeviceGetClockInfo": ["clock"],
    "nvmlDeviceGetMaxClockInfo": ["clock_limit"],
    "nvmlDeviceGetCurrPcieLinkGeneration": ["pcie_generation"],
    "nvmlDeviceGetCurrPcieLinkWidth": ["pcie_width"],
    "nvmlDeviceGetNvLinkState": ["links"],
    "nvmlDeviceGetNvLinkRemotePciInfo": [],
    "nvmlDeviceGetHandleByIndex": list(GpuFacts.__dataclass_fields__),
}
"""What is not known where a function is not supported."""

SWITCHES = ["00000000:05:00.0", "00000000:06:00.0"]


def test_every_function_is_in_the_table() -> None:
    assert sorted(FIELDS) == ASKED_OF_A_GPU


@st.composite
def gpu_of(draw: st.DrawFn, bus: int) -> Gpu:
    return Gpu(
        bus_id=f"{draw(st.integers(0, 0x1FFFF)):08X}:{bus:02X}:00.0",
        name=draw(st.sampled_from(["NVIDIA L4", "NVIDIA H100 80GB HBM3"])),
        uuid=f"GPU-{bus}",
        temperature=draw(st.integers(0, 99)),
        used=draw(st.integers(0, 1 << 37)),
        milliwatts=draw(st.integers(0, 700_000)),
        links=tuple(
            draw(st.lists(st.tuples(st.integers(0, 1), st.sampled_from(SWITCHES)), max_size=6))
        ),
        unsupported=draw(st.frozensets(st.sampled_from(ASKED_OF_A_GPU), max_size=4)),
    )


machines = st.integers(0, 4).flatmap(lambda n: st.tuples(*(gpu_of(bus) for bus in range(n))))


def facts(gpu: Gpu) -> dict[str, Any]:
    """Return all there is to know of a fake GPU."""
    unknown = {field for name in gpu.unsupported for field in FIELDS[name]}
    remotes = "nvmlDeviceGetNvLinkRemotePciInfo" not in gpu.unsupported
    links = [(i, link[1]) for i, link in enumerate(gpu.links) if link[0]]
    known: dict[str, Any] = {
        "bus_id": canonical(gpu.bus_id),
        "uuid": gpu.uuid,
        "name": gpu.name,
        "temperature": gpu.temperature,
        "memory_used": gpu.used,
        "memory_total": gpu.total,
        "power": gpu.milliwatts / 1000,
        "power_limit": 700.0,
        "clock": 345,
        "clock_limit": 1980,
        "pcie_generation": 5,
        "pcie_width": 16,
        "links": [(i, canonical(end) if remotes else None) for i, end in links]
        if gpu.links
        else None,
    }
    return known | dict.fromkeys(unknown)


def canonical(bus_id: str) -> str:
    domain, bus, rest = bus_id.split(":")
    return f"{int(domain, 16):04x}:{bus.lower()}:{rest}"


@given(machines, st.frozensets(st.sampled_from(["nvmlSystemGetDriverVersion"])))
def test_what_is_supported_is_told_and_nothing_else(
    gpus: tuple[Gpu, ...], unsupported: frozenset[str]
) -> None:
    nvml = Nvml(*gpus, unsupported=unsupported)
    report = read_nvml(libraries(pynvml=nvml))
    assert (report.reason, report.driver) == (None, None if unsupported else "580.65.06")
    assert len(report.gpus) == len(gpus)
    for told, gpu in zip(report.gpus, gpus, strict=True):
        links = None if told.links is None else [(link.index, link.remote) for link in told.links]
        assert vars(told) | {"links": links} == facts(gpu)
    assert nvml.users == 0
    for told, gpu in zip(report.gpus, gpus, strict=True):
        if told.bus_id is not None:
            for written in (gpu.bus_id, gpu.bus_id.lower(), told.bus_id, told.bus_id.upper()):
                assert report.find(written) is told
    assert report.find("0000:ff:00.0") is None


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 255), st.integers(0, 31))
def test_a_place_on_the_bus_is_written_in_one_way(domain: int, bus: int, device: int) -> None:
    place = f"{bus:02x}:{device:02x}.0"
    short = f"{domain:04x}:{place}"
    assert normalize_bus_id(f"{domain:08X}:{place}") == short
    assert normalize_bus_id(short) == short
    assert normalize_bus_id(short.upper()) == short


SILENT: dict[str, tuple[Any, tuple[str, ...]]] = {
    "missing": (
        ModuleNotFoundError("No module named 'pynvml'", name="pynvml"),
        ("nvidia-ml-py is not installed", "pip install nvidia-ml-py"),
    ),
    "broken": (
        ImportError("bad\nbytes"),
        ("pynvml does not import", "bad bytes", "--force-reinstall nvidia-ml-py"),
    ),
    "another package": (
        object(),
        ("not that of nvidia-ml-py", "no attribute", "--force-reinstall"),
    ),
    "no driver": (
        Nvml(init=NVMLError_LibraryNotFound("NVML Shared Library Not Found")),
        ("NVML is not there", "driver"),
    ),
    "driver not loaded": (
        Nvml(init=NVMLError("Driver Not Loaded")),
        ("does not start", "Driver Not Loaded", "nvidia-smi"),
    ),
}


@pytest.mark.parametrize(("module", "words"), SILENT.values(), ids=SILENT)
def test_where_nvml_says_nothing_the_reason_is_told(module: Any, words: tuple[str, ...]) -> None:
    report = read_nvml(libraries(pynvml=module))
    assert report == NvmlReport(report.reason)
    assert [word for word in words if word not in str(report.reason)] == []
    assert not isinstance(module, Nvml) or module.queries == 0


def test_another_user_of_nvml_in_this_process_keeps_it() -> None:
    nvml = Nvml(Gpu())
    nvml.nvmlInit()
    read_nvml(libraries(pynvml=nvml))
    assert nvml.users == 1


def test_the_fake_has_nothing_that_the_real_module_lacks(
    oracle: Callable[[str, str, str], ModuleType],
) -> None:
    real = oracle("pynvml", "nvidia-ml-py", "pip install nvidia-ml-py")
    names = [name for name in vars(Nvml) if re.match("nvml|NVML", name)]
    assert len(names) > 20
    assert [name for name in names if not hasattr(real, name)] == []
    assert issubclass(real.NVMLError_LibraryNotFound, real.NVMLError)
    constants = [name for name in names if isinstance(getattr(Nvml, name), int)]
    for name in set(constants) - {"NVML_NVLINK_MAX_LINKS"}:
        assert getattr(real, name) == getattr(Nvml, name), name


def test_this_machine_is_answered() -> None:
    report = read_nvml()
    assert (report.reason is None) or not report.gpus
