"""Kernels of loop nests in C."""

from __future__ import annotations

import ctypes
import math
import shutil
from typing import Any

import numpy as np

from gpushard.ops.row import Kernel
from gpushard.transforms.c_source import c_source
from gpushard.transforms.compiled import compiled
from gpushard.transforms.nests import Nest, merged
from gpushard.transforms.tiles import of_nothing, scratch

_BYTE = np.dtype(np.uint8)


def c_kernel(compiler: str, nest: Nest) -> Kernel | None:
    """Return the kernel of a nest in C; None where there is none.

    Args:
      compiler: its name; empty for none.
      nest: what it computes.
    """
    path = shutil.which(compiler) if compiler else None
    if path is None:
        return None
    short, groups = merged(nest)
    source = c_source(short)
    function = None if source is None else compiled(path, source.text)
    if function is None or source is None:
        return None
    count = nest.operands + len(nest.results)
    dtypes = [nest.dtype(result.place) for result in nest.results]
    strided = [(nest.loads[n].operand, nest.loads[n].dtype.itemsize) for n in source.strided]
    views = {operand for operand, _ in strided}
    numbers = len(groups) + sum(len(nest.loads[n].dims) for n in source.strided)
    pointers, sizes = ctypes.c_void_p * count, ctypes.c_int64 * numbers

    def kernel(*blocks: Any, out: Any = None) -> Any:
        own = nest.lengths(blocks)
        if out is None:
            shapes = [nest.shape(result, own) for result in nest.results]
            outs = [np.empty(shape, t) for shape, t in zip(shapes, dtypes, strict=True)]
        else:
            outs = list(out) if isinstance(out, tuple) else [out]
        lengths = [math.prod([own[loop] for loop in group]) for group in groups]
        if math.prod(lengths):
            given = [
                x if n in views else np.ascontiguousarray(x) for n, x in enumerate((*blocks, *outs))
            ]
            for operand, itemsize in strided:
                lengths += [n // itemsize for n in given[operand].strides]
            nbytes = 8 * sum(math.prod([lengths[loop] for loop in row]) for row in source.rows)
            kept = scratch.array(0, (nbytes,), _BYTE).ctypes.data if nbytes else None
            addresses = [x.__array_interface__["data"][0] for x in given]
            function(pointers(*addresses), sizes(*lengths), kept)
        elif outs:
            of_nothing(nest, outs)
        if out is not None:
            return out
        return tuple(outs) if len(outs) > 1 else outs[0]

    return kernel
