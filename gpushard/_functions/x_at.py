"""`x.at[index]`: parts of arrays, with methods that return changed copies of the array.

https://docs.jax.dev/en/latest/_autosummary/jax.numpy.ndarray.at.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, cast

import numpy as np

from gpushard._functions import indexing
from gpushard._functions.assigned_values import as_operand, converted
from gpushard._functions.docstrings import described
from gpushard._functions.index_bounds import MODES, Positions
from gpushard._functions.index_parsing import ParsedIndex, parse
from gpushard._functions.provided_loops import while_loop
from gpushard._functions.updating import updated
from gpushard._functions.values import Array, is_traced
from gpushard._geometry.sharding import Sharding
from gpushard._ops.bind import bind
from gpushard._ops.table.elementwise import ASTYPE, WHERE, ufunc_row
from gpushard._ops.table.manipulation import index as index_part
from gpushard._typing import shown_as
from gpushard.errors import ArgumentError, ArgumentTypeError

_AND = ufunc_row(np.logical_and)


class Indexer(Generic[Array]):
    """The attribute `x.at`: takes an index, and gives an `At`.

    Args:
      x: the array.
    """

    __slots__ = ("_x",)

    def __init__(self, x: Array) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> At[Array]:
        return At(self._x, index)

    def __repr__(self) -> str:
        return "x.at; use x.at[index].set(value)"


class At(Generic[Array]):
    """A part of an array; its methods return new arrays.

    Methods take the arguments of JAX's. `mode` decides on positions out of bounds. None, the
    default, raises as NumPy does. "drop" and "fill" omit them. "clip" takes the nearest position,
    "wrap" the remainder. "promise_in_bounds" checks nothing. The host reads positions on devices
    only for None. `indices_are_sorted` and `unique_indices` are hints that make no difference. With
    `wrap_negative_indices=False` negative positions are out of bounds. Reads then clip by default,
    and updates drop, as in JAX. Slices are not affected.

    Args:
      x: the array, which stays as it is.
      index: as NumPy takes it.
    """

    __slots__ = ("_index", "_x")

    def __init__(self, x: Array, index: Any) -> None:
        self._x = x
        self._index = index

    def __repr__(self) -> str:
        return f"x.at[{self._index!r}]; use its methods, such as set(value) and add(value)"

    @described()
    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | None = None,
        fill_value: Any = None,
        out_sharding: Sharding | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Read the part: `x[index]`.

        Args:
          mode: the treatment of positions out of bounds.
          fill_value: the element for positions out of bounds with "fill"; by default NaN, or the
            extreme of integers.
          wrap_negative_indices: whether negative positions count from the end.
          out_sharding: the sharding of the result; by default as it is computed.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.arange(4)).at[np.array([3, 9])].get(mode="fill", fill_value=-1)
        Array([ 3, -1], dtype=int64)
        """
        if not wrap_negative_indices and mode in (None, "promise_in_bounds"):
            mode = "clip"
        parsed, arrays = self._parsed(mode, wrap_negative_indices)
        if not arrays:
            return index_part(self._x, parsed.entries, out_sharding)
        return indexing.read(self._x, parsed, arrays, mode, fill_value, out_sharding)

    @described()
    def set(
        self,
        value: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Replace the part; the result shares the elements that a basic index does not select.

        Args:
          value: a number or an array, as in `x[index] = value`.
          mode: the treatment of positions out of bounds.
          wrap_negative_indices: whether negative positions count from the end.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.arange(4)).at[1:3].set(7)
        Array([0, 7, 7, 3], dtype=int64)
        """
        return self._updated(None, value, mode, wrap_negative_indices)

    def add(self, value: Any, **hints: Any) -> Array:
        """Add `value` to the part; an element that is selected twice is increased twice.

        Args:
          value: a number or an array; it is broadcast to the part.
          **hints: `mode`, `wrap_negative_indices`, `indices_are_sorted` and `unique_indices`, the
            arguments of `set`.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.arange(4)).at[1:3].add(10)
        Array([ 0, 11, 12,  3], dtype=int64)
        >>> gs.device_put(np.zeros(3)).at[np.array([1, 1, 2])].add(1)
        Array([0., 2., 1.], dtype=float64)
        """
        return self._combined(np.add, value, hints)

    def subtract(self, value: Any, **hints: Any) -> Array:
        """Subtract `value` from the part; arguments as for `add`."""
        return self._combined(np.subtract, value, hints)

    def multiply(self, value: Any, **hints: Any) -> Array:
        """Multiply the part by `value`; arguments as for `add`."""
        return self._combined(np.multiply, value, hints)

    mul = multiply

    def divide(self, value: Any, **hints: Any) -> Array:
        """Divide the part by `value`; arguments as for `add`."""
        return self._combined(np.divide, value, hints)

    def power(self, value: Any, **hints: Any) -> Array:
        """Raise the part to the power of `value`; arguments as for `add`."""
        return self._combined(np.power, value, hints)

    def min(self, value: Any, **hints: Any) -> Array:
        """Replace the part by the minimum of it and `value`; arguments as for `add`."""
        return self._combined(np.minimum, value, hints)

    def max(self, value: Any, **hints: Any) -> Array:
        """Replace the part by the maximum of it and `value`; arguments as for `add`."""
        return self._combined(np.maximum, value, hints)

    def apply(self, function: Callable[[Array], Any], **hints: Any) -> Array:
        """Apply a function to the part.

        The function is applied to an element as often as the index selects it, as `numpy.ufunc.at`
        does. The host reads how often that is at most, unless a single position is selected. In a
        traced or mapped function a loop on the devices replaces this read.

        Args:
          function: a function of an array, the part; its result is broadcast and converted. For
            index arrays it must be an elementwise function.
          **hints: the arguments of `add`.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.ones(3)).at[np.array([1, 1, 2])].apply(lambda part: part * 10)
        Array([  1., 100.,  10.], dtype=float64)
        """
        mode, wrap = _modes(hints)
        mode = mode if wrap or mode is not None else "drop"
        parsed, arrays = self._parsed(mode, wrap)
        if all(parsed.masks) and any(map(is_traced, arrays)):  # nobody knows how much is selected
            chosen = At(bind(_AND, (self._x, False)), self._index).set(True, mode=mode)
            new = as_operand(function(self._x), self._x.shape, self._x, None)
            return cast("Array", bind(WHERE, (chosen, new, self._x)))
        part = self.get(mode=mode, wrap_negative_indices=wrap)
        single = all(math.prod(at.shape) == 1 for at in arrays)
        if not part.size or single or all(parsed.masks):
            part = function(part)  # no element is selected twice
        else:
            part = self._applied(function, part, mode, wrap)
        return self.set(part, mode=mode, wrap_negative_indices=wrap)

    def _applied(self, function: Callable[[Array], Any], part: Any, mode: Any, wrap: bool) -> Any:
        """Apply a function to each element of a part as often as the index selects it."""
        none = bind(ASTYPE, (bind(_AND, (self._x, False)),), (np.dtype(np.int64),))
        times: Any = At(none, self._index).add(1, mode=mode, wrap_negative_indices=wrap)
        times = At(times, self._index)
        times = times.get(mode=mode, fill_value=0, wrap_negative_indices=wrap)

        def again(carry: tuple[Any, Any]) -> tuple[Any, Any]:
            time, part = carry
            new = bind(WHERE, (times > time, function(part), part))
            return time + 1, converted(new, self._x.dtype)

        return while_loop(lambda carry: times.max() > carry[0], again, (0, part))[1]

    def _parsed(self, mode: Any, wrap: bool) -> tuple[ParsedIndex, Sequence[Positions]]:
        if mode not in (None, *MODES):
            raise ArgumentError(
                f"x.at[index]: mode={mode!r} is unknown; use one of {', '.join(map(repr, MODES))}, "
                "or None to raise",
                argument="mode",
                mode=mode,
            )
        parsed, arrays = parse(self._x.shape, self._index, mode)
        return parsed, arrays if wrap or not arrays else indexing.unwrapped(parsed, arrays, mode)

    def _combined(self, ufunc: np.ufunc, value: Any, hints: dict[str, Any]) -> Array:
        return self._updated(ufunc, value, *_modes(hints))

    def _updated(self, ufunc: np.ufunc | None, value: Any, mode: Any, wrap: bool) -> Array:
        mode = mode if wrap or mode is not None else "drop"
        return updated(self._x, *self._parsed(mode, wrap), value, ufunc, mode)


_HINTS = ("mode", "indices_are_sorted", "unique_indices", "wrap_negative_indices")


def _modes(hints: dict[str, Any]) -> tuple[Any, bool]:
    """Find the mode, and whether negative positions count from the end, among keywords."""
    for keyword in hints:
        if keyword not in _HINTS:
            raise ArgumentTypeError(
                f"x.at[index] takes no {keyword}=; use {', '.join(f'{hint}=' for hint in _HINTS)}",
                argument=keyword,
            )
    return hints.get("mode"), hints.get("wrap_negative_indices", True)


shown_as("x.at[index]", At)
