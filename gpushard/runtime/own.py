"""Where a backend's own kernels are: what takes one launch there that takes many of the library's.

This is the only place that says which backends have some. A row asks for them when it makes its
kernel, and does without where there are none: `own_kernels(np)` is None.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = {"gpushard.runtime.cuda.namespace": "gpushard.runtime.cuda.own"}
"""For each namespace of arrays, by name."""


def own_kernels(xp: Any) -> Any:
    """Return the module of kernels for the arrays of a namespace, or None.

    Args:
      xp: NumPy, or what stands for it on GPUs.

    >>> import numpy
    >>> own_kernels(numpy) is None
    True
    """
    name = _MODULES.get(getattr(xp, "__name__", ""))
    return None if name is None else importlib.import_module(name)
