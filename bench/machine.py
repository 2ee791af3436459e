"""Facts about the machine, the versions and the commit."""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
import subprocess
from typing import Any

import numpy as np

import gpushard
from bench.peers import Jax

ROOT = pathlib.Path(gpushard.__file__).resolve().parent.parent


def facts(jax: Jax | None) -> dict[str, Any]:
    """Return what one has to know to judge the figures."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_bytes": _memory(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "jax": jax and jax.version,
        "commit": commit(ROOT),
        "commit_has_changes": bool(_git(ROOT, "status", "--porcelain", "--", "gpushard")),
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


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _git(checkout: pathlib.Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(checkout), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
