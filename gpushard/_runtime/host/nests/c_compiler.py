"""Compiled kernels: a compiler is looked for where the settings say, and what it makes is kept.

It is kept in a folder, under a name that says source, flags, compiler and processor. Both are
bounded: of many files those that were not used for longest go, and what no program needs any more
is unloaded.
"""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import functools
import hashlib
import logging
import os
import platform
import signal
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import Any

from gpushard.config import cache_home

_FLAGS = (
    "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", "-fwrapv",
    "-ffp-contract=off", "-fPIC", "-shared", "-w",
)  # fmt: skip

_log = logging.getLogger("gpushard.jit")


_LOADED = 256
"""Kernels that stay loaded, whether or not a program needs them."""

_FILES = 4096
"""Kernels that stay in the folder."""

_SECONDS = 60
"""How long a compiler may take for one kernel."""


@functools.lru_cache(maxsize=_LOADED)
def compiled(compiler: str, source: str) -> Any:
    """Compile a source, or load what was compiled before.

    Args:
      compiler: path of the compiler.
      source: text of a kernel in C, which is called `region`.

    Returns:
      The kernel. None where the compiler fails or takes too long, or where its file has no kernel;
      then there is a warning.
    """
    key = "\0".join([source, *_FLAGS, _version(compiler), _processor()])
    name = f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.so"
    try:
        path = Path(cache_home() or Path.home() / ".cache", "gpushard", "kernels", name)
        if not _whole(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryDirectory(dir=path.parent) as place:
                text, library_file = Path(place, "region.c"), Path(place, "region.so")
                text.write_text(source)
                _run([compiler, *_FLAGS, "-o", str(library_file), str(text)])
                with library_file.open("r+b") as file:
                    file.write(hashlib.sha256(file.read()).digest())
                os.replace(library_file, path)  # at once: another process may be doing the same
            _forget_oldest(path.parent)
        with contextlib.suppress(OSError):
            os.utime(path)  # it was used just now
        library, function = _load(path)
    except (OSError, RuntimeError, AttributeError, subprocess.SubprocessError) as error:
        warn(compiler, _reason(error))  # RuntimeError: there is no home
        return None
    function.restype, function.argtypes = None, [ctypes.c_void_p] * 3
    # Not at exit: threads that still work may be in it.
    weakref.finalize(function, _ctypes.dlclose, library._handle).atexit = False
    return function


def _run(command: list[str]) -> None:
    """Run a compiler to its end, or stop it, and what it started, where it takes too long."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said = process.communicate(timeout=_SECONDS)[1]
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=said)


def _load(path: Path) -> tuple[ctypes.CDLL, Any]:
    """Load a kernel; a file that has none is removed, so that another run compiles it again."""
    try:
        library = ctypes.CDLL(str(path))
        try:
            return library, library.region
        except AttributeError:
            _ctypes.dlclose(library._handle)  # what is loaded is found by the path of its file
            raise
    except (OSError, AttributeError):
        path.unlink(missing_ok=True)
        raise


def _reason(error: Exception) -> str:
    """Return one line about why there is no kernel: the first error of the compiler, if any."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it took longer than {_SECONDS} s for one of them"
    said = (getattr(error, "stderr", None) or b"").decode(errors="replace").splitlines()
    return next((line for line in said if "error" in line), said[0] if said else str(error))


@functools.lru_cache(maxsize=64)
def warn(compiler: str, reason: str) -> None:
    """Log, once for each reason, that there are no kernels of a compiler."""
    _log.warning("%s cannot make kernels, NumPy's functions are used: %s", compiler, reason)


def _forget_oldest(folder: Path) -> None:
    """Remove the kernels that were not used for longest, if there are too many."""
    with os.scandir(folder) as entries:
        names = [entry.path for entry in entries if entry.name.endswith(".so")]
    if len(names) <= _FILES:
        return
    used = {}
    for name in names:
        with contextlib.suppress(OSError):  # another process has removed it
            used[name] = os.stat(name).st_mtime_ns
    for name in sorted(used, key=used.__getitem__)[: len(names) - _FILES * 7 // 8]:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _whole(path: Path) -> bool:
    """Whether a file is there and ends with its checksum: a part of one, mapped, is a crash."""
    data = path.read_bytes() if path.exists() else b""
    return data[-32:] == hashlib.sha256(data[:-32]).digest()


@functools.lru_cache(maxsize=8)
def _version(compiler: str) -> str:
    try:
        said = subprocess.run([compiler, "--version"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.decode(errors="replace").partition("\n")[0]


@functools.lru_cache(maxsize=1)
def _processor() -> str:
    """Return what tells processors apart that run different instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return "".join(sorted({x for x in lines if x.startswith(("flags", "model name", "Features"))}))
