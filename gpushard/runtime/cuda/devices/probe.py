"""Whether the CUDA backend can be used in this process, and if not, why and what to do.

Asking makes no CUDA context and starts no thread. It counts the GPUs, which loads the driver, and
where there is one it compiles a kernel that does nothing, as CuPy compiles all of its own: where
NVRTC or CUDA's headers are missing CuPy imports, counts GPUs and then fails at the first sum.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gpushard.frozen import dataclass
from gpushard.runtime.cuda.driver import cupy_private
from gpushard.runtime.cuda.driver.libraries import INSTALLED, Libraries, one_line

CUPY_PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy")
"""The packages that bring the module `cupy`; one at most may be installed."""

_INITIALIZATION_ERROR = 3
_INSUFFICIENT_DRIVER = 35
_NO_DEVICE = 100

_INSTALL = "install one with pip install 'gpushard[cuda13]', or 'gpushard[cuda12]' for CUDA 12"
_NO_DRIVER = "there is no NVIDIA driver; install one, and see that nvidia-smi works"
_NO_GPU = (
    "no GPU is visible; see whether nvidia-smi lists one and CUDA_VISIBLE_DEVICES does not hide it"
)
_FORKED = (
    "CUDA cannot be initialized in this process (cudaErrorInitializationError), as in a forked "
    'child of a process that has used CUDA; start processes with multiprocessing\'s "spawn" or '
    '"forkserver" instead of "fork"'
)


_KERNEL = """
#include <cuda_fp16.h>
extern "C" __global__ void nothing() {}
"""
"""Includes of CUDA's headers what every kernel of CuPy does."""

_ARCHITECTURE = "80"  # one that every NVRTC of CUDA 12 and 13 compiles for; nothing is run
_compiles: Any = None
"""The CuPy that has compiled in this process, and need not show it again."""


@dataclass(frozen=True)
class Availability:
    """What there is of CUDA."""

    usable: bool  # whether the CUDA backend can be used
    reason: str  # why it can or cannot; where it cannot, with the way out
    cupy: str | None  # the version of CuPy; None if there is none
    # The CUDA version that the driver supports, such as 12040 for 12.4; None without a driver.
    driver: int | None
    runtime: int | None  # the CUDA version that CuPy is built with; None if CuPy cannot be used
    gpus: int  # how many GPUs CUDA shows to this process


def probe(libraries: Libraries = INSTALLED) -> Availability:
    """Find out whether the CUDA backend can be used; never raises.

    >>> def load(name):
    ...     raise ModuleNotFoundError(name=name)
    >>> found = probe(Libraries(version=lambda package: None, load=load))
    >>> found.usable, found.reason.partition(";")[0]
    (False, 'CuPy is not installed')
    """
    packages = {name: libraries.version(name) for name in CUPY_PACKAGES}
    packages = {name: version for name, version in packages.items() if version is not None}
    if len(packages) > 1:
        return _unusable(_conflict(list(packages)))
    installed = next(iter(packages.values()), None)
    try:
        cupy = libraries.load("cupy")
        version, runtime = str(cupy.__version__), cupy.cuda.runtime
    except Exception as error:  # a broken installation can raise anything
        if installed is None and isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            return _unusable(f"CuPy is not installed; {_INSTALL}")
        again = f"pip install --force-reinstall {next(iter(packages), 'cupy')}"
        return _unusable(f"CuPy does not import ({one_line(error)}); try {again}", installed)
    found = _ask(version, runtime)
    if not found.usable:
        return found
    lacking = cupy_private.explain(cupy)
    if lacking is not None:
        return _unusable(lacking, version)
    problem = _compile(cupy)
    if problem is None:
        return found
    missing = (
        f"kernels cannot be compiled ({problem}); install NVRTC and the headers of CUDA "
        f"{version_text(found.runtime)} with pip install '{_ctk(found.runtime)}', or set CUDA_PATH "
        "to where they are"
    )
    return dataclasses.replace(found, usable=False, reason=missing, gpus=0)


def version_text(version: int | None) -> str:
    """Return a CUDA version as people write it.

    >>> version_text(12040), version_text(None)
    ('12.4', 'none')
    """
    return "none" if version is None else f"{version // 1000}.{version % 1000 // 10}"


def _unusable(reason: str, cupy: str | None = None) -> Availability:
    return Availability(False, reason, cupy, driver=None, runtime=None, gpus=0)


def _conflict(packages: Sequence[str]) -> str:
    names = " ".join(packages)
    return (
        f"{' and '.join(packages)} are both installed and overwrite one another; "
        f"remove them with pip uninstall {names}, then {_INSTALL}"
    )


def _ask(cupy: str, runtime: Any) -> Availability:
    """Ask CUDA through CuPy."""
    driver: int | None = None
    built: int | None = None
    gpus = 0
    try:
        built = runtime.runtimeGetVersion()
        driver = runtime.driverGetVersion() or None  # 0 says that there is none
        gpus = runtime.getDeviceCount()
        reason = "" if gpus else _NO_GPU
    except Exception as error:  # whatever it is, it is why CUDA cannot be used
        reason = _explain(error, cupy, driver, built)
    if not reason:
        reason = (
            f"{gpus} {'GPU' if gpus == 1 else 'GPUs'}, CuPy {cupy} with CUDA {version_text(built)},"
            f" driver for CUDA {version_text(driver)}"
        )
    return Availability(gpus > 0, reason, cupy, driver, built, gpus)


def _compile(cupy: Any) -> str | None:
    """Compile a kernel as CuPy does, and return why that cannot be done, or None."""
    global _compiles
    if cupy is _compiles:
        return None
    try:
        options = cupy_private.private(cupy).compiler_options(())
        cupy.cuda.compiler.compile_using_nvrtc(
            _KERNEL, options, arch=_ARCHITECTURE, cache_in_memory=True
        )
    except Exception as error:  # whatever it is, the first kernel would raise it too
        return one_line(error)
    _compiles = cupy
    return None


def _ctk(runtime: int | None) -> str:
    """Return what to install for CUDA's own libraries, of the version that CuPy is built with."""
    return f"cupy-cuda{(runtime or 0) // 1000}x[ctk]"


def _explain(error: Exception, cupy: str, driver: int | None, built: int | None) -> str:
    status = getattr(error, "status", None)  # only CUDARuntimeError, of a module not imported here
    if status == _INSUFFICIENT_DRIVER and driver is None:
        return _NO_DRIVER
    if status == _INSUFFICIENT_DRIVER:
        return (
            f"the driver is for CUDA {version_text(driver)}, too old for CUDA "
            f"{version_text(built)} of CuPy {cupy}; update the NVIDIA driver, or take the CuPy of "
            "an older CUDA, such as gpushard[cuda12]"
        )
    if status == _NO_DEVICE:
        return _NO_GPU
    if status == _INITIALIZATION_ERROR:
        return _FORKED
    return f"CUDA fails ({one_line(error)}); see whether nvidia-smi works"
