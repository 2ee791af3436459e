"""Choose the kernel of a loop nest on the host: C if it is large, else functions of NumPy."""

from __future__ import annotations

from collections.abc import Sequence

from gpushard._runtime.backend import NestKernel
from gpushard._runtime.host.nests.c_kernels import c_kernel
from gpushard._runtime.host.nests.numpy_tiles import straight_kernel, tile_kernel
from gpushard._runtime.nests import LARGE, Nest
from gpushard._typing import Shape


def host_kernel(compiler: str, nest: Nest, blocks: Sequence[Sequence[Shape]]) -> NestKernel:
    """Make the kernel of a nest.

    Args:
      compiler: path of the C compiler; "" for none.
      nest: what is computed.
      blocks: of each operand the shapes of its blocks.
    """
    kernel = c_kernel(compiler, nest) if nest.large >= LARGE else None
    if kernel is not None:
        return NestKernel(kernel, launched=False)
    kernel = straight_kernel(nest, blocks) or tile_kernel(nest)
    return NestKernel(kernel, launched=False, steps=len(nest.ops))
