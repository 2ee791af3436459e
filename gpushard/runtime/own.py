"""Where a backend's own kernels are: what takes one launch there that takes many of the library's.

A row asks for them when it makes its kernel, and does without where there are none.
"""

from __future__ import annotations

from typing import Any


def own_kernels(xp: Any) -> Any:
    """Return the kernels that a namespace of arrays has besides its functions, or None.

    Args:
      xp: NumPy, or what stands for it on GPUs: it names them `own_kernels`.

    >>> import numpy
    >>> own_kernels(numpy) is None
    True
    """
    return getattr(xp, "own_kernels", None)
