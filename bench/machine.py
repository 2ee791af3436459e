"""Facts about the machine, the versions and the commit."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import os
import pathlib
import platform
import subprocess
from typing import Any

import numpy as np

import gpushard
from bench.peers import Jax
from gpushard._runtime.cuda.devices.nvml import read_nvml
from gpushard._runtime.cuda.devices.probe import probe

ROOT = pathlib.Path(gpushard.__file__).resolve().parent.parent


def facts(jax: Jax | None, commit_is: str | None = None) -> dict[str, Any]:
    """Return what one has to know to judge the figures.

    Args:
      jax: the one that takes part.
      commit_is: the commit, where git is not there to tell.
    """
    known = commit(ROOT)
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_bytes": _memory(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "jax": jax and jax.version,
        "gpu": _gpu(),
        "commit": known or commit_is,
        "commit_has_changes": (
            bool(_git(ROOT, "status", "--porcelain", "--", "gpushard")) if known else None
        ),
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def commit(checkout: pathlib.Path) -> str | None:
    """Return the commit of a checkout, if that can be known."""
    return _git(checkout, "rev-parse", "HEAD")


def _cpu() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _gpu() -> dict[str, Any]:
    """What there is of CUDA: versions, and each GPU's name, memory and multiprocessors."""
    found = probe()
    facts: dict[str, Any] = dataclasses.asdict(found)
    if not found.usable:
        return facts
    runtime = importlib.import_module("cupy").cuda.runtime
    devices = [runtime.getDeviceProperties(number) for number in range(found.gpus)]
    facts["nvidia_driver"] = read_nvml().driver or _run(
        "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"
    )
    facts["devices"] = [
        {
            "name": device["name"].decode(),
            "memory_bytes": int(device["totalGlobalMem"]),
            "multiprocessors": int(device["multiProcessorCount"]),
        }
        for device in devices
    ]
    return facts


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _git(checkout: pathlib.Path, *arguments: str) -> str | None:
    return _run("git", "-C", str(checkout), *arguments)


def _run(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
