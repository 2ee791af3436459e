"""Values without elements, which traced and mapped functions see in place of arrays.

A traced value has a shape and a dtype, and all functions of arrays take it. Code that needs its
elements, or asks where they lie, raises an error. The error names the argument that the value comes
from, the line of the user's code, and a way out.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpushard._array.array import Array
from gpushard._functions.index_parsing import parse
from gpushard._functions.indexing import read
from gpushard._functions.updating import updated
from gpushard._functions.values import view
from gpushard._ops.table.manipulation import INDEX
from gpushard._typing import HostArray, Shape, shown_as
from gpushard.errors import (
    ConcretizationError,
    TracedArrayError,
    TracedBoolError,
    TracedIntegerError,
    TracedValueError,
)

_OURS = ("gpushard", "numpy")
"""Packages that are skipped in the search for the user's line."""

_WAYS: tuple[tuple[str, type[TracedValueError], str], ...] = (
    ("bool(", TracedBoolError, "choose elements with gpushard.numpy.where(condition, a, b)"),
    (
        "operator.index(",
        TracedIntegerError,
        "index arrays with it, as in x[i], or x[i + gpushard.numpy.arange(n)] for n in a row; "
        "sizes, axes and counts must be Python's integers",
    ),
    ("int(", TracedIntegerError, "keep it an array, as x.astype(int)"),
    ("numpy.asarray(", TracedArrayError, "call gpushard.numpy's functions, or return the value"),
    ("x[mask]", ConcretizationError, "give size=, or use where(mask, x, 0)"),
    ("nonzero", ConcretizationError, "give size="),
    ("unique", ConcretizationError, "give size="),
    ("bincount", ConcretizationError, "give length="),
    ("arange", ConcretizationError, "add to one of a known length, as in x + arange(n)"),
    ("", ConcretizationError, "return the value, and read it where the function was called"),
)
"""By the beginning of the operation that needs elements: the error, and what to try."""


class TracedValue(Array):
    """An array without elements: the base of the values that traced and mapped functions see.

    A value belongs to one call. An operation on it after the call raises `TracedValueError`.

    Args:
      shape: sizes of the dims.
      dtype: type of the elements.
      weak_type: whether it came from a Python scalar.
    """

    __slots__ = ("__weakref__", "_dtype", "_shape", "_weak_type")

    _shape: Shape
    _dtype: np.dtype[Any]
    _weak_type: bool

    @abc.abstractmethod
    def _origin(self) -> tuple[str, str]:
        """Name the argument that the value comes from, and say why it has no elements."""

    @abc.abstractmethod
    def _check_open(self) -> None:
        """Check that the call which the value belongs to has not returned."""

    @abc.abstractmethod
    def _become(self, new: Any) -> None:
        """Make this variable stand for another value."""

    def _refusal(self, what: str) -> TracedValueError:
        """Make the error for an operation that needs elements."""
        _, kind, way = next(row for row in _WAYS if what.startswith(row[0]))
        return self._error(kind, f"{what} needs elements", way)

    def _error(self, kind: type[TracedValueError], what: str, way: str) -> TracedValueError:
        self._check_open()
        arg, value = self._origin()
        line = user_line()
        return kind(
            f"{what}, at {line}, and the value {value}. It comes from {arg}. Try: {way}",
            argument="self",
            arg=arg,
            line=line,
            shape=self._shape,
        )

    def _leak_error(self, what: str) -> TracedValueError:
        """Make the error for a value that is used after its function has returned."""
        arg, line = self._origin()[0], user_line()
        return TracedValueError(
            f"{line} uses a value of the {what}, which has returned. It comes from {arg}. Try: "
            "return the value from that function",
            argument="self",
            arg=arg,
            line=line,
            shape=self._shape,
        )

    def _nested_assignment_error(self, what: str, way: str) -> TracedValueError:
        """Make the error for an assignment to a value of the enclosing function."""
        return self._error(
            TracedValueError,
            f"{what} in a function that is {way} itself changes a value of the one around it",
            "assign to a copy, as y = x + 0, or return the new value",
        )

    def _without_data(self, name: str) -> TracedValueError:
        what = "this operation on its data" if name == "this" else name
        way = "look at the argument outside of the function, or at what it returns"
        return self._error(TracedArrayError, f"{what} needs to know where an array lies", way)

    def _outside_assignment_error(self) -> TracedValueError:
        """Make the error for an assignment of this value to an array from outside the function."""
        return self._error(
            TracedValueError,
            "an assignment to an array from outside the function needs a computed value",
            "y = y.at[index].set(value), which makes a new array, or pass y as an argument",
        )

    def _concrete(self, why: str, explicit: bool | None) -> HostArray:
        raise self._refusal(why)

    def _at_hand(self, why: str) -> HostArray | None:
        return self._concrete(why, None)

    def _repr_html_(self) -> None:
        """Return None, so that notebooks show the `repr`."""

    def __getitem__(self, index: Any) -> Any:
        """Select a part of the array; positions out of bounds are clipped."""
        parsed, arrays = parse(self._shape, index)
        if arrays:
            return read(self, parsed, arrays)
        return view(self, INDEX, (parsed.entries,))

    def __setitem__(self, index: Any, value: Any) -> None:
        """Make this variable stand for the array with a part replaced."""
        self._check_assigned("x[index] = value")
        self._become(updated(self, *parse(self._shape, index), value))

    def _renew(self, new: Any) -> None:
        self._check_assigned("an assignment")
        self._become(new)

    @abc.abstractmethod
    def _check_assigned(self, what: str) -> None:
        """Check that the code that runs now may assign to the value."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the parts along the first axis."""
        if not self._shape:
            raise self._error(
                TracedValueError, "iteration over an array without axes", "for part in x.ravel()"
            )
        return (self[i] for i in range(self._shape[0]))

    def __str__(self) -> str:
        return repr(self)

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        raise self._refusal("pickling")

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    @abc.abstractmethod
    def __copy__(self) -> Any:
        """Make another variable for the same value."""

    def _live(self) -> Any:
        raise self._without_data("this")


def user_line() -> str:
    """Return "file:line" of the innermost code outside this package and NumPy."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__")
        if not isinstance(name, str) or name.partition(".")[0] not in _OURS:
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


shown_as("Array", TracedValue)
