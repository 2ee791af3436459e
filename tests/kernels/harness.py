"""Builds kernels for the CPU and runs them on cases; `harness.h` is the other side."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from gpushard._runtime.cuda.kernels.batches import Allocation

KERNELS = Path(__file__).parents[2] / "kernels"
HERE = Path(__file__).parent
NVCC, GCC = shutil.which("nvcc"), shutil.which("g++")
SANITIZERS = ("address,undefined", "thread")


def allocation(number: int, nbytes: int) -> Allocation:
    """The allocation of that number of a case, where the program will look for it."""
    return Allocation((number + 1) << 40, nbytes)


def build(name: str, sanitizer: str, folder: Path, *options: str) -> Path:
    """Build `{name}_main.cpp`, with the kernels that it includes, under a sanitizer."""
    if GCC is None:
        pytest.skip("g++ is not on the path")
    built = folder / name
    command = [GCC, "-std=c++20", "-O1", "-g", "-pthread", f"-fsanitize={sanitizer}"]
    checks = ["-fno-sanitize-recover=all", "-Wno-unknown-pragmas"]
    subprocess.run(
        [*command, *checks, *options, "-o", built, HERE / f"{name}_main.cpp"], check=True
    )
    return built


def encoded(memory: Sequence[np.ndarray], *work: bytes) -> bytes:
    """A case as the program reads it: what its allocations hold, and what is special to it."""
    parts = [struct.pack("I", len(memory))]
    for array in memory:
        parts += (struct.pack("Q", array.nbytes), array.tobytes())
    return b"".join((*parts, *work))


def run(program: Path, cases: Sequence[bytes]) -> bytes:
    """What the program writes for these cases."""
    data = struct.pack("I", len(cases)) + b"".join(cases)
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1"}
    done = subprocess.run([program], input=data, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def differing(out: bytes, expected: Iterable[tuple[int, bytes]]) -> list[int]:
    """The numbers of the cases whose memory is not as expected."""
    found, at = [], 0
    for number, memory in expected:
        if out[at : at + len(memory)] != memory:
            found.append(number)
        at += len(memory)
    assert at == len(out), "the program wrote more or less than expected"
    return found
