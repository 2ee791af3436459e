"""The host backend: virtual devices on NumPy memory, run by worker threads."""

from __future__ import annotations

from gpushard.runtime.host.backend import HostBackend

__all__ = ["HostBackend"]
