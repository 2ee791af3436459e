"""Choose the kernel of a loop nest on the host: C if it is large, else functions of NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpushard._runtime.backend import NestKernel
from gpushard._runtime.host.nests.c_kernels import c_kernel
from gpushard._runtime.host.nests.numpy_tiles import straight_kernel, tile_kernel
from gpushard._runtime.nests import LARGE, Nest
from gpushard._typing import Kernel, Shape


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
    straight = {shapes: straight_kernel(nest, shapes) for shapes in set(zip(*blocks, strict=True))}
    kernels = {shapes: kernel for shapes, kernel in straight.items() if kernel is not None}
    # Large nests may be called for parts of blocks.
    if len(kernels) == len(straight) == 1 and nest.large < LARGE:
        (kernel,) = kernels.values()
    else:
        kernel = tile_kernel(nest)
        if kernels:
            kernel = _by_shapes(kernels, kernel)
    return NestKernel(kernel, launched=False, steps=len(nest.ops))


def _by_shapes(kernels: Mapping[tuple[Shape, ...], Kernel], others: Kernel) -> Kernel:
    """Return a kernel that calls the one for the shapes of its operands, or another one."""

    def kernel(*blocks: Any, out: Any = None) -> Any:
        return kernels.get(tuple([x.shape for x in blocks]), others)(*blocks, out=out)

    return kernel
