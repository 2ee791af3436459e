"""`gpushard info`: print versions, the backend, devices, memory, GPUs and settings."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import platform
from collections.abc import Callable, Sequence

from gpushard._placement.devices import devices as every_device
from gpushard._runtime import choose_backend, current_runtime
from gpushard._runtime.backend import DeviceInfo
from gpushard._runtime.cuda.devices.nvml import GpuFacts, NvmlReport, read_nvml
from gpushard._runtime.cuda.devices.probe import CUPY_PACKAGES, Availability, probe, version_text
from gpushard._runtime.cuda.driver.libraries import installed_version, one_line
from gpushard._runtime.runtime import Device
from gpushard._version import __version__
from gpushard.config import Settings
from gpushard.errors import ConfigurationError

SUMMARY = "print versions, backend, devices, memory, GPUs and settings"
DESCRIPTION = (
    "Print the versions of what gpushard stands on, the backend and why it was chosen, the devices "
    "with their memory, what the driver says of the GPUs, and the settings in force."
)

_NOT_INSTALLED = "not installed"
_UNKNOWN = "-"
_GPU_HEAD = ["chip", "bus id", "C", "bytes used", "bytes", "W", "most W", "MHz", "most MHz", "PCIe"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command: none."""


def run(options: argparse.Namespace) -> int:
    """Print everything, also if CUDA is broken, and return the exit status 0."""
    show_config()
    return 0


def show_config() -> None:
    """Print what to include in a bug report: versions, devices, memory and settings.

    The command `gpushard info` prints the same text. Both work even if CUDA is broken.
    """
    settings = current_runtime.settings()
    # Users may choose the host because CUDA crashes the process: do not look for it then.
    look = functools.cache(probe)
    cuda = None if settings.backend == "host" else look()
    sections = {"versions": _versions(cuda), "backend": _backend(settings, look)}
    infos: list[DeviceInfo] = []
    try:
        devices = every_device()
        infos = devices[0].runtime.backend.describe()
        sections |= {"devices": _devices(devices, infos), "memory in bytes": _memory(devices)}
    except Exception as error:  # a broken installation may raise anything; print the rest
        is_printed = str(error) in sections["backend"][0]
        sections["devices"] = ["  none" if is_printed else f"  none: {one_line(error)}"]
    sections |= _gpu_sections(read_nvml(), infos)
    sections["settings"] = _settings(settings)
    print("\n\n".join("\n".join([title, *lines]) for title, lines in sections.items()))


def version(package: str) -> str:
    """Return the version of an installed package without importing it, or "not installed".

    >>> version("no such package")
    'not installed'
    """
    return installed_version(package) or _NOT_INSTALLED


def _versions(cuda: Availability | None) -> list[str]:
    versions = {name: version(name) for name in CUPY_PACKAGES}
    cupy = [f"{text} ({name})" for name, text in versions.items() if text != _NOT_INSTALLED]
    rows = [
        ["gpushard", __version__],
        ["python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"],
        ["numpy", version("numpy")],
        ["cupy", ", ".join(cupy) or _NOT_INSTALLED],
    ]
    if cuda is not None:
        rows.append(["CUDA of cupy", version_text(cuda.runtime)])
        rows.append(["CUDA of driver", version_text(cuda.driver)])
    rows += [[name, version(name)] for name in ("nvidia-ml-py", "cuda-bindings", "torch", "jax")]
    return _table(rows, side="<")


def _backend(settings: Settings, look: Callable[[], Availability]) -> list[str]:
    try:
        choice = choose_backend.choose(settings, look)
    except ConfigurationError as error:
        return [f"  none: {error}"]
    return [f"  {choice.name}: {choice.reason}"]


def _devices(devices: Sequence[Device], infos: Sequence[DeviceInfo]) -> list[str]:
    rows = [["id", "platform", "kind", "chip", "partition", "domain"]]
    for device in devices:
        where = (device.local_hardware_id, device.partition, device.memory_domain)
        rows.append([str(device.id), device.platform, device.device_kind, *map(str, where)])
    if any(info.multiprocessors is not None for info in infos):
        cells = ["SMs", *(_text(info.multiprocessors) for info in infos)]
        rows = [[*row, cell] for row, cell in zip(rows, cells, strict=True)]
    return _table(rows)


def _memory(devices: Sequence[Device]) -> list[str]:
    """Return a row for each device; devices of a memory domain share its pool."""
    rows = [["id", "quota", "in use", "peak", "largest", "pool", "pool free"]]
    for device in devices:
        stats = device.memory_stats()
        quota = stats["bytes_limit"]
        names = ("bytes_in_use", "peak_bytes_in_use", "largest_alloc_size")
        amounts = [stats[name] for name in (*names, "pool_bytes", "pool_free_bytes")]
        rows.append(
            [
                str(device.id),
                "none" if quota is None else f"{quota:,}",
                *(f"{n:,}" for n in amounts),
            ]
        )
    return _table(rows)


def _gpu_sections(nvml: NvmlReport, infos: Sequence[DeviceInfo]) -> dict[str, list[str]]:
    """Return the sections about the machine's GPUs; GPUs in use have the number of their chip."""
    chips = {info.hardware_id: info for info in infos}
    sections = {"GPUs": _gpus(nvml, chips)}
    linked = [gpu for gpu in nvml.gpus if gpu.links is not None]
    if linked:
        sections["NVLinks that are up"] = [_links(gpu) for gpu in linked]
    if any(info.peers is not None for info in infos):
        sections["peer access, row to column"] = _peers(chips)
    return sections


def _gpus(nvml: NvmlReport, chips: dict[int, DeviceInfo]) -> list[str]:
    if nvml.reason is not None:
        return [f"  nothing is known: {nvml.reason}"]
    if not nvml.gpus:
        return [f"  none, says driver {_text(nvml.driver)}"]
    places = {
        gpu.bus_id: str(chip)
        for chip, info in chips.items()
        if info.bus_id is not None and (gpu := nvml.find(info.bus_id)) is not None
    }
    rows = [[places.get(gpu.bus_id, _UNKNOWN), *_gpu(gpu)] for gpu in nvml.gpus]
    names = [["name"], *([_text(gpu.name)] for gpu in nvml.gpus)]
    table = _table([cells + name for cells, name in zip([_GPU_HEAD, *rows], names, strict=True)])
    return [f"  driver {_text(nvml.driver)}", *table]


def _gpu(gpu: GpuFacts) -> list[str]:
    numbers = (gpu.temperature, gpu.memory_used, gpu.memory_total, gpu.power, gpu.power_limit)
    pcie = f"{_text(gpu.pcie_generation)} x {_text(gpu.pcie_width)}"
    return [_text(gpu.bus_id), *map(_text, (*numbers, gpu.clock, gpu.clock_limit)), pcie]


def _links(gpu: GpuFacts) -> str:
    ends = collections.Counter(_text(link.remote) for link in gpu.links or ())
    counts = ", ".join(f"{count} to {end}" for end, count in sorted(ends.items()))
    return f"  {_text(gpu.bus_id)}  {counts or 'none'}"


def _peers(chips: dict[int, DeviceInfo]) -> list[str]:
    numbers = sorted(chips)
    rows = [["", *map(str, numbers)]]
    for chip in numbers:
        peers = chips[chip].peers or frozenset()
        rows.append(
            [
                str(chip),
                *(_UNKNOWN if n == chip else "yes" if n in peers else "no" for n in numbers),
            ]
        )
    return _table(rows)


def _settings(settings: Settings) -> list[str]:
    rows = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        rows.append([field.name, str(value), "" if value == field.default else "(changed)"])
    return _table(rows, side="<")


def _text(value: float | str | None) -> str:
    """Write a value as a cell of a table."""
    if value is None:
        return _UNKNOWN
    return value if isinstance(value, str) else f"{value:,.0f}"


def _table(rows: list[list[str]], *, side: str = ">") -> list[str]:
    """Align columns to the right, or to the left with "<"."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [f"{cell:{side}{width}}" for cell, width in zip(row, widths, strict=True)]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines
