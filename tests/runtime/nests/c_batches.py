"""Kernels in C that are compiled many at once: the compiler starts once for hundreds of them.

Within `compiled_together` a kernel that `jit` or `c_kernel` makes is text until it is called. The
first call compiles all kernels that are known by then, so a program that wants speed makes all its
kernels before it calls the first one.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from gpushard._runtime.host.nests import c_kernels

FLAGS = ["-O0", "-w", "-fopenmp-simd", "-fwrapv", "-ffp-contract=off", "-fPIC", "-shared"]
SANITIZERS = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


class Batch:
    """Kernels that are compiled together; a kernel has to be added before it is called."""

    def __init__(self, *, sanitize: bool = False) -> None:
        self._flags = FLAGS + (SANITIZERS if sanitize else [])
        self._waiting: dict[str, str] = {}  # the name of each kernel by its text
        self._compiled: dict[str, Any] = {}

    def add(self, text: str) -> Callable[..., None]:
        """Return a function that calls a kernel, and compiles it first if that has to be."""
        if text not in self._compiled:
            self._waiting.setdefault(text, f"region_{len(self._waiting)}")
        return functools.partial(self._call, text)

    def _call(self, text: str, *arguments: Any) -> None:
        if text not in self._compiled:
            self._compile()
        self._compiled[text](*arguments)

    def _compile(self) -> None:
        lines: list[str] = []
        known: set[str] = set()
        for text, name in self._waiting.items():
            shared, own = _parts(text)
            for part in re.split(r"\n(?=static inline |#if defined\(__AVX512F__\))", shared):
                part = part.strip()
                if part not in known:
                    known.add(part)
                    lines.append(part)
            own = re.sub(r"\bproduct(\d+)\(", rf"{name}_product\1(", own)
            lines.append(own.replace("void region(", f"void {name}("))
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "kernels.c"), Path(folder, "kernels.so")
            source.write_text("\n".join(lines))
            subprocess.run(["cc", *self._flags, "-o", library, source], check=True)
            functions = ctypes.CDLL(str(library))
        for text, name in self._waiting.items():
            function = getattr(functions, name)
            function.restype, function.argtypes = None, [ctypes.c_void_p] * 3
            self._compiled[text] = function
        self._waiting.clear()


def _parts(text: str) -> tuple[str, str]:
    """Return what a kernel's text shares with others, and what is its own."""
    products = re.search(r"^GS_PRODUCT (?!static)", text, re.MULTILINE)
    start = text.index("void region(")
    cut = min(start, products.start()) if products else start
    return text[:cut], text[cut:]


@contextlib.contextmanager
def compiled_together(*, sanitize: bool = False) -> Iterator[None]:
    """Have kernels in C compiled many at once, when the first of them is called."""
    batch = Batch(sanitize=sanitize)
    with mock.patch.object(c_kernels, "compiled", lambda compiler, text: batch.add(text)):
        yield
