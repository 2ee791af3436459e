"""The limits of CUDA for a launch, and when a kernel counts with 64 bits. Pure.

All kinds of kernels use this module, so that each limit is written once:

- Generated kernels count with 32 bits, which takes fewer registers and instructions, unless a
  number that they reach needs 64 (`is_wide`). Kernels in files get pieces that 32 bits can count;
  `batches` cuts these. CuPy decides for its own kernels.
- A grid may be long in one direction only (`grid_of`).
- Arguments stay within what every GPU and compiler takes (`MOST_ARGUMENT_BYTES`).
- No kernel uses more than `MOST_SHARED_BYTES` of shared memory. More would be dynamic, which each
  kernel has to ask CUDA for (`cudaFuncAttributeMaxDynamicSharedMemorySize`), and a GPU may refuse.
"""

from __future__ import annotations

NARROW_END = 1 << 31
"""The smallest number that needs 64 bits. Half of the range of 32 bits is left for threads beyond
the last element, and literals in a kernel have a sign."""

MOST_BLOCKS = (1 << 31) - 1
"""Most blocks of threads in the first direction of a grid."""

MOST_CALLS = 65_535  # most blocks in each further direction of a grid

MOST_ARGUMENT_BYTES = 4096
"""Most bytes of a kernel's arguments. GPUs from Volta on take 32,764 with CUDA 12.1 and newer."""

MOST_SHARED_BYTES = 48 << 10
"""Most bytes of shared memory that a block of threads gets without asking."""


def is_wide(most: int) -> bool:
    """Whether a kernel must count with 64 bits; `most` is the largest number that it reaches.

    >>> is_wide((1 << 31) - 1), is_wide(1 << 31)
    (False, True)
    """
    return most >= NARROW_END


def index_type(wide: bool) -> str:
    """Return the name in CUDA C++ of the type with which a kernel counts.

    >>> index_type(False)
    'unsigned int'
    """
    return "unsigned long long" if wide else "unsigned int"


def grid_of(blocks: int, calls: int) -> tuple[int, int] | None:
    """Make a grid of (blocks of threads for each call, calls); None if it is too large.

    >>> grid_of(1 << 20, 64)
    (1048576, 64)
    >>> grid_of(1 << 31, 1)
    """
    return (blocks, calls) if blocks <= MOST_BLOCKS and calls <= MOST_CALLS else None
