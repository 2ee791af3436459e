"""Index and iterate over arrays: `x[index]`, `for row in x`, `len(x)`."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, Self

from gpushard._array.views import view
from gpushard._functions.index_parsing import parse
from gpushard._functions.indexing import read
from gpushard._ops.table.manipulation import INDEX
from gpushard._typing import Shape
from gpushard.errors import GpushardError


class Indexing(abc.ABC):
    """Parts of arrays by indices and along the first dim."""

    __slots__ = ()

    _shape: Shape

    @abc.abstractmethod
    def _without_data(self, name: str) -> GpushardError:
        """Return the error of an array without data."""

    def __getitem__(self, index: Any) -> Self:
        """Return the part that an index selects, as in NumPy; it stays on the devices.

        Integers, slices, `...` and None select a part. Integer arrays and lists, on the host or
        sharded, and masks select elements: see `gpushard._functions.indexing`. Positions out of
        bounds raise. To check positions on devices, and to count the elements of a mask, the host
        reads one number. `x.at[index].get(mode=...)` does not check.

        Raises:
          ArrayIndexError: the index does not fit the array, or a position is out of bounds.
        """
        parsed, arrays = parse(self._shape, index)
        if arrays:
            return read(self, parsed, arrays)
        part: Self = view(self, INDEX, (parsed.entries,))
        return part

    def __setitem__(self, index: Any, value: Any) -> None:
        """Replace a part of this array, as in NumPy: the array gets a new value.

        Everything else that shares memory with this array keeps its value. If nothing shares the
        memory, the part is written in place. Two threads that assign to one array at once need a
        lock: each reads a complete value, but one of the two assignments may be lost. An
        uncommitted array moves to the devices of committed indices and values with dims.

        Args:
          index: an index as in NumPy. With arrays in it, the array gets a new block of memory.
            `x[mask] = value` with one value for all selected elements moves nothing.
          value: a number, an array of gpushard, or an argument of `numpy.asarray`. It is broadcast
            to the part, and converted to the dtype as in NumPy. If an element gets several values,
            the last one stays.

        Raises:
          ArrayIndexError: the index has too many entries, or a position is out of bounds.
          ArgumentError: the value cannot be broadcast to the part.
          ArgumentTypeError: the value cannot be converted.
          ArgumentRangeError: a Python integer does not fit into the dtype.
          DeletedArrayError: this array, or the value, was deleted.
          OutOfMemoryError: a device has no room for new blocks.
        """
        raise self._without_data("x[index] = value")

    def __iter__(self) -> Iterator[Self]:
        """Yield the parts along the first dim; they stay on the devices."""
        if not self._shape:
            raise TypeError("iteration over a 0-d array")
        rest = tuple([(0, 1, n) for n in self._shape[1:]])
        return (view(self, INDEX, ((i, *rest),)) for i in range(self._shape[0]))

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of unsized object")
        return self._shape[0]
