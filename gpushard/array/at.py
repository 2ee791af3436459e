"""`x.at[index]`: arrays with a part replaced, as `jax.numpy.ndarray.at` has it.

https://docs.jax.dev/en/latest/_autosummary/jax.numpy.ndarray.at.html
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gpushard.ops.bind import bind
from gpushard.ops.table.elementwise import ufunc_row

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
        return f"x.at[{self._index!r}]; use its methods, such as set(value) and add(value)"

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

    def add(self, value: Any) -> Array:
        """Return the array with `value` added to the part.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.arange(4)).at[1:3].add(10)
        Array([ 0, 11, 12,  3], dtype=int64)
        """
        return self._combined(np.add, value)

    def subtract(self, value: Any) -> Array:
        """Return the array with `value` taken from the part."""
        return self._combined(np.subtract, value)

    def multiply(self, value: Any) -> Array:
        """Return the array with the part multiplied by `value`."""
        return self._combined(np.multiply, value)

    def divide(self, value: Any) -> Array:
        """Return the array with the part divided by `value`."""
        return self._combined(np.divide, value)

    def power(self, value: Any) -> Array:
        """Return the array with the part raised to the power of `value`."""
        return self._combined(np.power, value)

    def min(self, value: Any) -> Array:
        """Return the array with the lesser of the part and `value` there."""
        return self._combined(np.minimum, value)

    def max(self, value: Any) -> Array:
        """Return the array with the greater of the part and `value` there."""
        return self._combined(np.maximum, value)

    def apply(self, function: Callable[[Array], Any]) -> Array:
        """Return the array with the part replaced by what a function makes of it.

        Args:
          function: takes the part, as an array; its result is broadcast and converted.
        """
        return self.set(function(self.get()))

    def _combined(self, ufunc: np.ufunc, value: Any) -> Array:
        return self.set(bind(ufunc_row(ufunc), (self.get(), value)))
