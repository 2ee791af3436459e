"""What makes arrays of an index: `mgrid[:3, :4]`, `r_[1:4, 0, x]` and the like."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy.arguments import is_number
from gpushard.numpy.creation import array
from gpushard.numpy.data_type import result_type
from gpushard.numpy.joining import concatenate, stack
from gpushard.numpy.manipulation import broadcast_arrays
from gpushard.numpy.ranges import arange, linspace

s_ = np.s_
index_exp = np.index_exp


def _line(entry: slice) -> Array:
    """Return the numbers of a slice; a step of 5j stands for five of them, ends included."""
    start, stop, step = entry.start or 0, entry.stop, 1 if entry.step is None else entry.step
    if stop is None:
        raise ArgumentError(
            f"{entry} has no end; say where it stops", argument="index", index=entry
        )
    if isinstance(step, complex):
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, step)


class _OpenGrid:
    """Vectors that broadcast to a grid; see `ogrid`."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _line(key)
        lines = [_line(entry) for entry in key]
        if any(line.dtype.kind == "f" for line in lines):
            lines = [line.astype(np.float64) for line in lines]
        return tuple(
            line.reshape([-1 if at == dim else 1 for at in range(len(lines))])
            for dim, line in enumerate(lines)
        )

    def __repr__(self) -> str:
        return "ogrid"


class _Grid:
    """Positions of a grid; see `mgrid`."""

    def __getitem__(self, key: Any) -> Array:
        if isinstance(key, slice):
            return _line(key)
        return stack(broadcast_arrays(*ogrid[key]))

    def __repr__(self) -> str:
        return "mgrid"


ogrid = _OpenGrid()
"""`ogrid[:3, :4]` gives for each dim the positions along it, with length 1 in the others.

>>> ogrid[:2, :3]
(Array([[0],
       [1]], dtype=int64), Array([[0, 1, 2]], dtype=int64))
"""

mgrid = _Grid()
"""`mgrid[:3, :4]` gives for each dim the positions along it, in one array; `mgrid[0:1:5j]` five.

>>> mgrid[:2, 0:1:3j].shape
(2, 2, 3)
"""


class _Joined:
    """Arrays, numbers and ranges joined by an index; see `r_` and `c_`."""

    def __init__(self, name: str, axis: int, ndim: int, start: int) -> None:
        self._name = name
        self._given = axis, ndim, start

    def __getitem__(self, key: Any) -> Array:
        entries = list(key) if isinstance(key, tuple) else [key]
        axis, ndim, start = self._given
        if isinstance(entries[0], str):
            axis, ndim, start, entries = *self._directive(entries[0]), entries[1:]
        arrays = [self._entry(one, ndim, start) for one in entries]
        weighed = [one if is_number(one) else x for one, x in zip(entries, arrays, strict=True)]
        return concatenate(arrays, axis, dtype=result_type(*weighed))

    def __repr__(self) -> str:
        return self._name

    def _directive(self, text: str) -> tuple[int, int, int]:
        """Return the axis, the least number of dims, and where those of an entry begin."""
        if text in ("r", "c"):
            raise ArgumentTypeError(
                f"{self._name}[{text!r}, ...] makes a numpy.matrix; use {self._name}['0,2', ...]",
                argument="index",
                value=text,
            )
        try:
            numbers = [int(part) for part in text.split(",")]
            if len(numbers) > 3:
                raise ValueError
        except ValueError:
            raise ArgumentError(
                f"{self._name}[{text!r}, ...]: the text must hold up to three integers, such as "
                "'0,2,-1'",
                argument="index",
                value=text,
            ) from None
        return tuple((numbers + list(self._given)[len(numbers) :])[:3])  # type: ignore[return-value]

    def _entry(self, entry: Any, ndim: int, start: int) -> Array:
        """Return an entry with at least some dims; those of its own begin where `start` says."""
        x = _line(entry) if isinstance(entry, slice) else array(entry)
        new = ndim - x.ndim
        if new <= 0:
            return x
        dims = list(range(ndim))
        first = start if start >= 0 else start + new + 1
        x = x.reshape((1,) * new + x.shape)
        return x.transpose(dims[:first] + dims[new:] + dims[first:new])


r_ = _Joined("r_", 0, 1, -1)
"""`r_[1:4, 0, x]` joins ranges, numbers and arrays along the first dim.

>>> r_[1:4, 0, [7, 8]]
Array([1, 2, 3, 0, 7, 8], dtype=int64)
"""

c_ = _Joined("c_", -1, 2, 0)
"""`c_[x, y]` joins vectors as columns.

>>> c_[[1, 2], [3, 4]]
Array([[1, 3],
       [2, 4]], dtype=int64)
"""
