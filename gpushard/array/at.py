"""`x.at[index]`: arrays with a part replaced, as `jax.numpy.ndarray.at` has it.

https://docs.jax.dev/en/latest/_autosummary/jax.numpy.ndarray.at.html
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gpushard.array.reading import read_part
from gpushard.array.selection import check_mode, entries_of, is_mask
from gpushard.array.shard import Shards
from gpushard.array.updating import converted, updated
from gpushard.errors import ArgumentTypeError
from gpushard.functions.concrete import known
from gpushard.geometry.sharding import Sharding
from gpushard.ops.bind import bind
from gpushard.ops.indexing import NotBasicError, parse_index
from gpushard.ops.table.elementwise import ASTYPE, WHERE, ufunc_row
from gpushard.ops.table.movement import index as index_part
from gpushard.typing import shown_as

if TYPE_CHECKING:
    from gpushard.array.array import Array


_AND = ufunc_row(np.logical_and)


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

    Methods take what JAX's take. `mode` says what happens to positions out of bounds: None (the
    default) raises, as NumPy does; "drop" or "fill" leaves them out; "clip" takes the nearest
    position, "wrap" the remainder; "promise_in_bounds" checks nothing. Only None makes the host
    read anything where positions are on devices. `indices_are_sorted` and `unique_indices` are
    hints that make no difference.

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

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | None = None,
        fill_value: Any = None,
        out_sharding: Sharding | None = None,
    ) -> Array:
        """Return the part: `x[index]`.

        Args:
          indices_are_sorted: a hint.
          unique_indices: a hint.
          mode: what happens to positions out of bounds.
          fill_value: what they give with "fill"; NaN, or the extreme of integers, by default.
          out_sharding: how the result is laid out; by default as it comes.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.arange(4)).at[np.array([3, 9])].get(mode="fill", fill_value=-1)
        Array([ 3, -1], dtype=int64)
        """
        check_mode(mode)
        if mode is None and _is_basic(self._x, self._index):
            entries = parse_index(self._x.shape, self._index)
            return cast("Array", index_part(self._x, entries, out_sharding))
        return read_part(self._x, self._index, mode, fill_value, out_sharding)

    def set(
        self,
        value: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | None = None,
    ) -> Array:
        """Return the array with the part replaced; what a basic index does not touch is shared.

        Args:
          value: as for `x[index] = value`.
          indices_are_sorted: a hint.
          unique_indices: a hint.
          mode: what happens to values for positions out of bounds.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.arange(4)).at[1:3].set(7)
        Array([0, 7, 7, 3], dtype=int64)
        """
        check_mode(mode)
        if mode is None and _is_basic(self._x, self._index):
            result = copy.copy(self._x)
            result[self._index] = value
            return result
        return self._updated(value, None, mode)

    def add(self, value: Any, **hints: Any) -> Array:
        """Return the array with `value` added to the part, once for each time it is selected.

        Args:
          value: a number or an array; it is broadcast to the part.
          **hints: `mode`, `indices_are_sorted` and `unique_indices`, as for `set`.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.arange(4)).at[1:3].add(10)
        Array([ 0, 11, 12,  3], dtype=int64)
        >>> gs.device_put(np.zeros(3)).at[np.array([1, 1, 2])].add(1)
        Array([0., 2., 1.], dtype=float64)
        """
        return self._combined(np.add, value, hints)

    def subtract(self, value: Any, **hints: Any) -> Array:
        """Return the array with `value` taken from the part; arguments as for `add`."""
        return self._combined(np.subtract, value, hints)

    def multiply(self, value: Any, **hints: Any) -> Array:
        """Return the array with the part multiplied by `value`; arguments as for `add`."""
        return self._combined(np.multiply, value, hints)

    def mul(self, value: Any, **hints: Any) -> Array:
        """Return the array with the part multiplied by `value`; arguments as for `add`."""
        return self._combined(np.multiply, value, hints)

    def divide(self, value: Any, **hints: Any) -> Array:
        """Return the array with the part divided by `value`; arguments as for `add`."""
        return self._combined(np.divide, value, hints)

    def power(self, value: Any, **hints: Any) -> Array:
        """Return the array with the part raised to the power of `value`; arguments as for `add`."""
        return self._combined(np.power, value, hints)

    def min(self, value: Any, **hints: Any) -> Array:
        """Return the array with the lesser of the part and `value`; arguments as for `add`."""
        return self._combined(np.minimum, value, hints)

    def max(self, value: Any, **hints: Any) -> Array:
        """Return the array with the greater of the part and `value`; arguments as for `add`."""
        return self._combined(np.maximum, value, hints)

    def apply(self, function: Callable[[Array], Any], **hints: Any) -> Array:
        """Return the array with the part replaced by what a function makes of it.

        What is selected several times is replaced as often, as `numpy.ufunc.at` does; the host then
        reads how often that is at most.

        Args:
          function: takes the part, as an array; its result is broadcast and converted. Where index
            arrays select the part, it must work on each element by itself.
          **hints: as for `add`.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.ones(3)).at[np.array([1, 1, 2])].apply(lambda part: part * 10)
        Array([  1., 100.,  10.], dtype=float64)
        """
        mode = _mode(hints)
        part: Any = self.get(mode=mode)
        if not part.size or not _by_integers(self._x, self._index):
            return self.set(function(part), mode=mode)
        none = bind(ASTYPE, (bind(_AND, (self._x, False)),), (np.dtype(np.int64),))
        often: Any = none.at[self._index].add(1, mode=mode).at[self._index]
        often = often.get(mode=mode, fill_value=0)
        for times in range(known(often.max())):
            new = bind(WHERE, (often > times, function(part), part))
            part = converted(new, self._x.dtype)
        return self.set(part, mode=mode)

    def _combined(self, ufunc: np.ufunc, value: Any, hints: dict[str, Any]) -> Array:
        mode = _mode(hints)
        if mode is None and _is_basic(self._x, self._index):
            return self.set(bind(ufunc_row(ufunc), (self.get(), value)))
        return self._updated(value, ufunc, mode)

    def _updated(self, value: Any, ufunc: np.ufunc | None, mode: str | None) -> Array:
        x = self._x
        part, new = updated(x, self._index, value, ufunc, mode)
        if part is Ellipsis and _is_all(x, new):
            return new
        result = copy.copy(x)
        result[part] = new
        return result


shown_as("x.at[index]", At)


def _is_basic(x: Array, index: Any) -> bool:
    """Whether an index has integers, slices, `...` and None only."""
    try:
        parse_index(x.shape, index)
    except NotBasicError:
        return False
    return True


def _is_all(x: Array, new: Array) -> bool:
    """Whether a new value is all that an array with that value would be."""
    return (
        isinstance(x, Shards)
        and new.dtype == x.dtype
        and new.sharding == x.sharding
        and new.committed == x.committed
        and not new.weak_type
    )


def _by_integers(x: Array, index: Any) -> bool:
    """Whether there are arrays of integers in an index: only they select something twice."""
    if _is_basic(x, index):
        return False
    return any(hasattr(e, "ndim") and not is_mask(e) for e in entries_of(x.shape, index))


def _mode(hints: dict[str, Any]) -> str | None:
    """Return the mode among keywords.

    Raises:
      ArgumentTypeError: there is a keyword that JAX does not have.
    """
    for keyword in hints:
        if keyword not in ("mode", "indices_are_sorted", "unique_indices"):
            raise ArgumentTypeError(
                f"x.at[index] takes no {keyword}=; there are mode=, indices_are_sorted= and "
                "unique_indices=",
                argument=keyword,
            )
    mode: str | None = hints.get("mode")
    check_mode(mode)
    return mode
