"""Types that several layers share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Shape: TypeAlias = tuple[int, ...]
Index: TypeAlias = tuple[slice, ...]
"""Slices of a global array, one per dim: the part in one shard."""

IntArray: TypeAlias = npt.NDArray[np.int64]
HostArray: TypeAlias = npt.NDArray[Any]
LocalArray: TypeAlias = Any
"""A backend's array on one device: `numpy.ndarray` or `cupy.ndarray`."""

LocalArrays: TypeAlias = Sequence[LocalArray]

Kernel: TypeAlias = Callable[..., Any]
"""A function of local arrays like NumPy's: `kernel(*operands)` returns a new array, or a
tuple for several results. `kernel(*operands, out=...)` writes to the arrays in `out`."""

Dtype: TypeAlias = "np.dtype[Any]"

Kinds: TypeAlias = Sequence[tuple[Shape, Dtype]]
"""Shapes and types of arrays."""

Device: TypeAlias = Hashable
"""A device as geometry sees it: opaque."""


def shown_as(name: str, *classes: type) -> None:
    """Rename the methods of internal classes, so that Python's errors name public classes.

    Args:
      name: the public class, or the expression that users write.
      *classes: the internal classes with the methods.
    """
    for cls in classes:
        for key, member in vars(cls).items():
            if isinstance(member, FunctionType):
                member.__name__, member.__qualname__ = key, f"{name}.{key}"
