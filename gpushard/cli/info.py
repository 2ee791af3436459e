"""`gpushard info`: versions, the backend and why, devices, memory and settings."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import platform
from collections.abc import Sequence

import gpushard as gs

SUMMARY = "print versions, backend, devices, memory and settings"
DESCRIPTION = (
    "Print the versions of what gpushard stands on, the backend and why it was chosen, the devices "
    "with their memory, and the settings in force."
)

_CUPY_PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
_NOT_INSTALLED = "not installed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command: there are none."""


def run(options: argparse.Namespace) -> int:
    """Print everything and return the exit status 0.

    Raises:
      ConfigurationError: an environment variable makes no sense.
    """
    devices = gs.devices()
    settings = devices[0].runtime.settings
    sections = {
        "versions": _versions(),
        "backend": _backend(settings, devices[0].runtime.backend.name),
        "devices": _devices(devices),
        "memory in bytes": _memory(devices),
        "settings": _settings(settings),
    }
    print("\n\n".join("\n".join([title, *lines]) for title, lines in sections.items()))
    return 0


def version(package: str) -> str:
    """Return the version of an installed package without importing it, or "not installed".

    >>> version("no such package")
    'not installed'
    """
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return _NOT_INSTALLED


def _versions() -> list[str]:
    found = {name: version(name) for name in _CUPY_PACKAGES}
    cupy = [f"{text} ({name})" for name, text in found.items() if text != _NOT_INSTALLED]
    rows = [
        ["gpushard", version("gpushard")],
        ["python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"],
        ["numpy", version("numpy")],
        ["cupy", ", ".join([*cupy, "not used by this version"]) if cupy else _NOT_INSTALLED],
    ]
    return _table(rows, side="<")


def _backend(settings: gs.Settings, name: str) -> list[str]:
    if settings.backend is None:
        return [f"  {name}: the only backend of this version"]
    return [f"  {name}: chosen by GPUSHARD_BACKEND={settings.backend}"]


def _devices(devices: Sequence[gs.Device]) -> list[str]:
    rows = [["id", "platform", "kind", "chip", "partition", "domain"]]
    for device in devices:
        where = (device.local_hardware_id, device.partition, device.memory_domain)
        rows.append([str(device.id), device.platform, device.device_kind, *map(str, where)])
    return _table(rows)


def _memory(devices: Sequence[gs.Device]) -> list[str]:
    """Return a row per device; the pool is that of its memory domain, shared within it."""
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


def _settings(settings: gs.Settings) -> list[str]:
    rows = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        rows.append([field.name, str(value), "" if value == field.default else "(changed)"])
    return _table(rows, side="<")


def _table(rows: list[list[str]], *, side: str = ">") -> list[str]:
    """Align columns to the right, or to the left with "<"."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [f"{cell:{side}{width}}" for cell, width in zip(row, widths, strict=True)]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines
