"""`x.at[index]`: arrays with a part replaced, as `jax.numpy.ndarray.at` has it.

https://docs.jax.dev/en/latest/_autosummary/jax.numpy.ndarray.at.html
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpushard.array.array import Array


class Indexer:
    """What `x.at` is: takes an index.

    Args:
      x: the array.
    """

    __slots__ = ("_x",)

    def __init__(self, x: Array) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> At:
        return At(self._x, index)

    def __repr__(self) -> str:
        return "x.at; use x.at[index].set(value)"


class At:
    """A part of an array; its methods return new arrays.

    Args:
      x: the array, which stays as it is.
      index: integers, slices, `...` and None.
    """

    __slots__ = ("_index", "_x")

    def __init__(self, x: Array, index: Any) -> None:
        self._x = x
        self._index = index

    def __repr__(self) -> str:
        return f"x.at[{self._index!r}]; use its methods set(value) and get()"

    def get(self) -> Array:
        """Return the part: `x[index]`."""
        return self._x[self._index]

    def set(self, value: Any) -> Array:
        """Return the array with the part replaced; what the part does not touch is shared.

        Args:
          value: as for `x[index] = value`.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.arange(4)).at[1:3].set(7)
        Array([0, 7, 7, 3], dtype=int64)
        """
        result = copy.copy(self._x)
        result[self._index] = value
        return result
