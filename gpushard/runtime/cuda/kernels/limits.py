"""What CUDA limits in a launch, and when a kernel counts with 64 bits. Pure.

Each kind of kernel asks here, so that a limit is written once:

- Generated kernels count with 32 bits, which takes fewer registers and instructions, unless some
  number that they come to needs 64 (`is_wide`). Kernels of files are given pieces that 32 bits
  count; `batches` cuts these. CuPy decides for its own kernels.
- A grid may be long in one direction only (`grid_of`).
- Arguments stay within what every GPU and compiler takes (`MOST_ARGUMENT_BYTES`).
- No kernel uses more than `MOST_SHARED_BYTES` of shared memory. More would be dynamic, which each
  kernel has to ask CUDA for (`cudaFuncAttributeMaxDynamicSharedMemorySize`), and a GPU may refuse.
"""

from __future__ import annotations

NARROW_END = 1 << 31
"""Numbers from here on need 64 bits. Half of what 32 bits hold is left for threads beyond the last
element, and literals in a kernel have a sign."""

MOST_BLOCKS = (1 << 31) - 1
"""Blocks of threads in the first direction of a grid."""

MOST_CALLS = 65_535  # blocks in each further direction of a grid

MOST_ARGUMENT_BYTES = 4096
"""Bytes of a kernel's arguments. GPUs from Volta on take 32,764 with CUDA 12.1 and newer."""

MOST_SHARED_BYTES = 48 << 10
"""Bytes of shared memory that a block of threads has without asking."""


def is_wide(most: int) -> bool:
    """Whether a kernel needs 64 bits to count, from the largest number that it comes to.

    >>> is_wide((1 << 31) - 1), is_wide(1 << 31)
    (False, True)
    """
    return most >= NARROW_END


def index_type(wide: bool) -> str:
    """Return what CUDA C++ calls the type that a kernel counts with.

    >>> index_type(False)
    'unsigned int'
    """
    return "unsigned long long" if wide else "unsigned int"


def grid_of(blocks: int, calls: int) -> tuple[int, int] | None:
    """Return a grid of so many blocks of threads for each of some calls; None if it is too large.

    >>> grid_of(1 << 20, 64)
    (1048576, 64)
    >>> grid_of(1 << 31, 1)
    """
    return (blocks, calls) if blocks <= MOST_BLOCKS and calls <= MOST_CALLS else None
