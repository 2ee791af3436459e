"""The devices of this process and of all processes, and the memory that they cache."""

from __future__ import annotations

from gpushard._geometry.mesh import provide_devices
from gpushard._runtime import current_runtime
from gpushard._runtime.runtime import Device, Runtime
from gpushard.errors import NoDeviceError


def devices(backend: str | None = None) -> list[Device]:
    """List the devices of all processes.

    Args:
      backend: "cpu" or "gpu" lists only devices of that platform; None lists all.

    Raises:
      NoDeviceError: the platform has no devices.

    >>> len(devices()) == device_count()
    True
    """
    every = current_runtime.current().devices
    if backend is not None and backend not in (known := sorted({d.platform for d in every})):
        raise NoDeviceError.refusing(
            "backend", backend, f"has no devices here; there are {', '.join(known)}"
        )
    return list(every)


def local_devices(backend: str | None = None) -> list[Device]:
    """List the devices of this process.

    Args:
      backend: "cpu" or "gpu" lists only devices of that platform; None lists all.
    """
    return [device for device in devices(backend) if device.is_addressable]


provide_devices(local_devices)


def device_count(backend: str | None = None) -> int:
    """Return the number of devices of all processes.

    Args:
      backend: "cpu" or "gpu" counts only devices of that platform; None counts all.
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """Return the number of devices of this process.

    Args:
      backend: "cpu" or "gpu" counts only devices of that platform; None counts all.
    """
    return len(local_devices(backend))


def process_index() -> int:
    """Return the number of this process, counted from 0."""
    return Runtime.process_index


def process_count() -> int:
    """Return the number of processes that share the devices."""
    return 1


def default_backend() -> str:
    """Return the platform of the devices: "cpu" or "gpu"."""
    return current_runtime.current().backend.platform


def empty_cache() -> int:
    """Return unused cached memory to the system, so that other programs can use it.

    gpushard caches the memory of deleted arrays for new arrays. This call frees cached memory.
    Memory that the devices still read or write stays.

    Returns:
      The number of bytes freed.

    >>> import gpushard as gs
    >>> from gpushard.testing import runtime
    >>> with runtime(small_bytes=0):
    ...     gs.numpy.zeros(1024).delete()
    ...     empty_cache()
    8192
    """
    return current_runtime.current().empty_cache()
