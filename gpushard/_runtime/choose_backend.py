"""Choose the backend, and create a runtime with it."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from gpushard._frozen import dataclass
from gpushard._runtime import forks
from gpushard._runtime.backend import Backend, BackendFactory
from gpushard._runtime.cuda.devices.probe import Availability, probe
from gpushard._runtime.cuda.devices.selection import select
from gpushard._runtime.host import HostBackend
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.errors import ConfigurationError


def _cuda_backend(settings: Settings) -> Backend:
    """Create the CUDA backend; its module needs CuPy, so it is imported only here."""
    backend: Backend = importlib.import_module("gpushard._runtime.cuda.backend").CudaBackend(
        settings
    )
    return backend


def _with_checker(backend: Backend) -> Backend:
    """Wrap a backend so that it looks for races; the module is imported only if it is asked for."""
    checker: Backend = importlib.import_module("gpushard._runtime.checking.checker").Checker(
        backend
    )
    return checker


_BACKENDS: dict[str, BackendFactory] = {"host": HostBackend, "cuda": _cuda_backend}


@dataclass(frozen=True)
class Choice:
    """The backend in use, and why it was chosen."""

    name: str  # "host" or "cuda"
    reason: str  # for people


def choose(settings: Settings, look: Callable[[], Availability] = probe) -> Choice:
    """Choose the backend that the settings name, or the best one here.

    Args:
      settings: the settings; `backend`, `gpus` and `partitions` count.
      look: returns whether CUDA can be used; not called if the settings name the host.

    Raises:
      ConfigurationError: the settings name CUDA, which cannot be used, or GPUs that do not exist.

    >>> choose(Settings(backend="host"))
    Choice(name='host', reason="backend='host' is set")
    """
    if settings.backend == "host":
        return Choice("host", "backend='host' is set")
    cuda = look()
    if cuda.usable:
        select(settings, cuda.gpus)
        asked = "backend='cuda' is set; " if settings.backend else ""
        return Choice("cuda", f"{asked}{cuda.reason}")
    if settings.backend == "cuda":
        raise ConfigurationError(
            f"backend='cuda' cannot be used here: {cuda.reason}",
            argument="backend",
            value="cuda",
            reason=cuda.reason,
        )
    return Choice("host", f"CUDA cannot be used: {cuda.reason}")


def make_runtime(settings: Settings) -> Runtime:
    """Create a runtime with the backend that the settings name, or the best one here.

    Raises:
      ConfigurationError: the settings do not fit this machine.
    """
    backend = _BACKENDS[choose(settings).name](settings)
    try:
        runtime = Runtime(settings, _with_checker(backend) if settings.check else backend)
        forks.watch(runtime, backend)
        return runtime
    except BaseException:
        backend.close()
        raise
