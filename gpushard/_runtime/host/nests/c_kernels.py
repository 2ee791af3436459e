"""Kernels of loop nests in C."""

from __future__ import annotations

import ctypes
import math
import shutil
import warnings
from typing import Any

import numpy as np

from gpushard._runtime.host.nests.block_kernels import kernel_of, scratch
from gpushard._runtime.host.nests.c_compiler import compiled, warn
from gpushard._runtime.host.nests.c_source import c_source
from gpushard._runtime.kernel_checks import BrokenKernelError, check
from gpushard._runtime.nests import Nest, merged
from gpushard._typing import Kernel, LocalArray, LocalArrays
from gpushard.config import Settings

_BYTE = np.dtype(np.uint8)


def c_kernel(compiler: str, nest: Nest) -> Kernel | None:
    """Return the kernel of a nest in C; None where there is none.

    Args:
      compiler: its name; empty for none.
      nest: what it computes.
    """
    path = shutil.which(compiler) if compiler else None
    if path is None:
        if compiler not in (
            "",
            Settings.compiler,
        ):  # where the default is missing, it is no mistake
            warn(compiler, "there is no such program in PATH")
        return None
    short, groups = merged(nest)
    source = c_source(short)
    if source is None:
        return None
    try:
        check(source.program)
    except BrokenKernelError as error:
        warnings.warn(
            f"a kernel in C is wrong and is not used, NumPy's functions are: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    function = compiled(path, source.text)
    if function is None:
        return None
    count = nest.operands + len(nest.results)
    strided = [(nest.loads[n].operand, nest.loads[n].dtype.itemsize) for n in source.strided]
    views = {operand for operand, _ in strided}
    numbers = len(groups) + sum(len(nest.loads[n].dims) for n in source.strided)
    pointers, sizes = ctypes.c_void_p * count, ctypes.c_int64 * numbers

    def compute(blocks: LocalArrays, outs: list[LocalArray], lengths: tuple[int, ...]) -> None:
        arrays = [
            x if n in views else np.ascontiguousarray(x) for n, x in enumerate((*blocks, *outs))
        ]
        strides = [n // itemsize for at, itemsize in strided for n in arrays[at].strides]
        nbytes = 8 * sum([n * math.prod([lengths[x] for x in row]) for n, row in source.scratch])
        kept = _address(scratch.array(0, (nbytes,), _BYTE)) if nbytes else None
        function(pointers(*map(_address, arrays)), sizes(*lengths, *strides), kept)

    return kernel_of(nest, groups, compute)


def _address(x: LocalArray) -> int:
    """Return where the elements of an array begin; quickly where they can be written to."""
    try:
        return ctypes.addressof(_first_byte(x))
    except (TypeError, ValueError, BufferError):
        return int(x.ctypes.data)


_first_byte: Any = ctypes.c_char.from_buffer
