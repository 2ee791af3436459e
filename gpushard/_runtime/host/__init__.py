"""The host backend: virtual devices on NumPy memory, run by worker threads."""

from __future__ import annotations

from gpushard._runtime.host.backend import HostBackend
from gpushard._runtime.host.store import NumpyStore

__all__ = ["HostBackend", "NumpyStore"]
