"""NVRTC by its C interface: what becomes of a source for an architecture."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
import re
from pathlib import Path
from typing import Any

from tests.nvrtc.toolkits import includes, toolkit

_FUNCTION = re.compile(r"Compiling entry function '(\w+)'")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_INFO = re.compile(r"^(ptxas|\s*\d+ bytes stack frame|\s*$)")


@dataclasses.dataclass(frozen=True)
class Source:
    """What CuPy gives to NVRTC."""

    text: str
    options: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Templates that it is compiled for."""

    @classmethod
    def read(cls, path: Path) -> Source:
        """Return one that the software GPU kept."""
        kept = json.loads(path.read_text(encoding="utf-8"))
        return cls(kept["source"], tuple(kept["options"]), tuple(kept["names"]))

    def write(self, path: Path) -> None:
        """Keep it in a file."""
        kept = {"source": self.text, "options": self.options, "names": self.names}
        path.write_text(json.dumps(kept), encoding="utf-8")


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What the compiler made of a source."""

    done: bool
    messages: str
    """Errors and warnings."""
    registers: int = 0
    """Of a thread, at most."""
    spilled: int = 0
    """Bytes that a thread stores to memory and loads, as registers are too few."""
    shared: int = 0
    """Bytes of shared memory of a block of threads, at most."""


class Nvrtc:
    """The compiler of a version of CUDA."""

    def __init__(self, version: str) -> None:
        folder = toolkit(version)
        libraries = next(folder.glob("nvidia/*/lib/libnvrtc.so.*")).parent
        ctypes.CDLL(str(next(libraries.glob("libnvrtc-builtins.so.*"))), ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(next(libraries.glob("libnvrtc.so.*"))))
        self._includes = includes(folder)

    def compile(self, source: Source, architecture: int) -> Compiled:
        """Compile a source for `sm_{architecture}`."""
        program = ctypes.c_void_p()
        self._call(
            "CreateProgram",
            ctypes.byref(program),
            source.text.encode(),
            b"kernel.cu",
            0,
            None,
            None,
        )
        try:
            for name in source.names:
                self._call("AddNameExpression", program, name.encode())
            options = [
                *source.options, *self._includes, f"-arch=sm_{architecture}", "--ptxas-options=-v",
            ]  # fmt: skip
            given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            code = self._library.nvrtcCompileProgram(program, len(options), given)
            log = self._log(program)
        finally:
            self._call("DestroyProgram", ctypes.byref(program))
        if code:
            return Compiled(False, log)
        messages = "\n".join(line for line in log.splitlines() if not _INFO.match(line))
        used = [int(n) for n in _USED.findall(log)]
        spilled = [int(n) + int(m) for n, m in _SPILLED.findall(log)]
        shared = [int(n) for n in _SHARED.findall(log)]
        return Compiled(True, messages, max(used, default=0), sum(spilled), max(shared, default=0))

    def _log(self, program: Any) -> str:
        size = ctypes.c_size_t()
        self._call("GetProgramLogSize", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call("GetProgramLog", program, text)
        return text.value.decode("utf-8", "replace")

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, f"nvrtc{name}")(*arguments)
        if code:
            raise RuntimeError(f"nvrtc{name} returned {code}")


@functools.cache
def nvrtc(version: str) -> Nvrtc:
    """Return the compiler of a version, once in each process."""
    return Nvrtc(version)
