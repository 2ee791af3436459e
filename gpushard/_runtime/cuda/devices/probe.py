"""Find out whether the CUDA backend can be used in this process, and if not, why and what to do.

The probe makes no CUDA context and starts no thread. It counts the GPUs, which loads the driver. If
there is a GPU, it compiles an empty kernel as CuPy compiles its kernels. Without NVRTC or CUDA's
headers, CuPy can be imported and counts GPUs, but fails at the first sum.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gpushard._frozen import dataclass
from gpushard._runtime.cuda.driver import cupy_private
from gpushard._runtime.cuda.driver.libraries import INSTALLED, Libraries, one_line

CUPY_PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy")
"""The packages that have the module `cupy`; at most one may be installed."""

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
"""A kernel that includes the headers of CUDA that every kernel of CuPy includes."""

_ARCHITECTURE = "80"  # every NVRTC of CUDA 12 and 13 compiles for it; the kernel is not run
_compiles: Any = None
"""The CuPy that has compiled the kernel in this process, so that it is compiled only once."""


@dataclass(frozen=True)
class Availability:
    """What the probe knows about CUDA in this process."""

    usable: bool  # whether the CUDA backend can be used
    reason: str  # why it can be used; or why not, and what to do
    cupy: str | None  # the version of CuPy; None if there is none
    # The CUDA version that the driver supports, such as 12040 for 12.4; None without a driver.
    driver: int | None
    runtime: int | None  # the CUDA version that CuPy is built with; None if CuPy cannot be used
    gpus: int  # number of GPUs that CUDA shows to this process


def probe(libraries: Libraries = INSTALLED) -> Availability:
    """Find out whether the CUDA backend can be used; never raises.

    >>> def load(name):
    ...     raise ModuleNotFoundError(name=name)
    >>> available = probe(Libraries(version=lambda package: None, load=load))
    >>> available.usable, available.reason.partition(";")[0]
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
    available = _ask(version, runtime)
    if not available.usable:
        return available
    lacking = cupy_private.explain(cupy)
    if lacking is not None:
        return _unusable(lacking, version)
    problem = _compile(cupy)
    if problem is None:
        return available
    missing = (
        f"kernels cannot be compiled ({problem}); install NVRTC and the headers of CUDA "
        f"{version_text(available.runtime)} with pip install '{_ctk(available.runtime)}', or set "
        "CUDA_PATH to where they are"
    )
    return dataclasses.replace(available, usable=False, reason=missing, gpus=0)


def version_text(version: int | None) -> str:
    """Write a CUDA version as people do.

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
    """Ask CUDA for its versions and the number of GPUs, through CuPy."""
    driver: int | None = None
    built: int | None = None
    gpus = 0
    try:
        built = runtime.runtimeGetVersion()
        driver = runtime.driverGetVersion() or None  # 0 says that there is none
        gpus = runtime.getDeviceCount()
        reason = "" if gpus else _NO_GPU
    except Exception as error:  # any error here means that CUDA cannot be used
        reason = _explain(error, cupy, driver, built)
    if not reason:
        reason = (
            f"{gpus} {'GPU' if gpus == 1 else 'GPUs'}, CuPy {cupy} with CUDA {version_text(built)},"
            f" driver for CUDA {version_text(driver)}"
        )
    return Availability(gpus > 0, reason, cupy, driver, built, gpus)


def _compile(cupy: Any) -> str | None:
    """Compile a kernel as CuPy does; return why that fails, or None."""
    global _compiles
    if cupy is _compiles:
        return None
    try:
        options = cupy_private.private(cupy).compiler_options(())
        cupy.cuda.compiler.compile_using_nvrtc(
            _KERNEL, options, arch=_ARCHITECTURE, cache_in_memory=True
        )
    except Exception as error:  # the first kernel of the user would raise it, too
        return one_line(error)
    _compiles = cupy
    return None


def _ctk(runtime: int | None) -> str:
    """Name the package with CUDA's own libraries, for the CUDA version that CuPy is built with."""
    return f"cupy-cuda{(runtime or 0) // 1000}x[ctk]"


def _explain(error: Exception, cupy: str, driver: int | None, built: int | None) -> str:
    status = getattr(error, "status", None)  # only CUDARuntimeError of CuPy has one
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
