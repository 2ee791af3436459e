"""Loops as resources for `xmap`: `SerialLoop`, and `serial_loop`, which names one."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Hashable, Iterator
from contextvars import ContextVar
from typing import Any

from gpushard.errors import ArgumentError, ArgumentTypeError


@dataclasses.dataclass(frozen=True)
class SerialLoop:
    """A resource for `xmap`: a loop over chunks of an axis, one after the other, to save memory.

    Args:
      length: the number of chunks, which have equal sizes.

    >>> SerialLoop(4)
    SerialLoop(length=4)
    """

    length: int

    def __post_init__(self) -> None:
        """Check the length."""
        _check_length(self.length, "SerialLoop")


@dataclasses.dataclass(frozen=True)
class OwnLoop:
    """A `SerialLoop` of one axis."""

    length: int
    axis: Hashable
    number: int  # among the resources of the axis

    def __repr__(self) -> str:
        return f"SerialLoop({self.length})"


loops_here: ContextVar[dict[Hashable, int] | None] = ContextVar("serial loops", default=None)


@contextlib.contextmanager
def serial_loop(name: Hashable, length: int) -> Iterator[None]:
    """Define a named loop in a `with` block, as a resource for `xmap`; see `SerialLoop`.

    Args:
      name: the name of the loop.
      length: the number of chunks.

    Raises:
      ArgumentError: an enclosing loop has this name, or `length` is not positive.
      ArgumentTypeError: `length` is not an integer.

    >>> import gpushard as gs
    >>> double = gs.legacy.xmap(
    ...     lambda x: 2 * x, ["i", ...], ["i", ...], axis_resources={"i": "turns"}
    ... )
    >>> with serial_loop("turns", 2):
    ...     double(gs.numpy.arange(4)).tolist()
    [0, 2, 4, 6]
    """
    _check_length(length, "serial_loop")
    around = loops_here.get() or {}
    if name in around:
        raise ArgumentError.refusing(
            "name", name, "is a loop around this one. Try: use another name", "serial_loop"
        )
    token = loops_here.set({**around, name: length})
    try:
        yield
    finally:
        loops_here.reset(token)


def _check_length(length: Any, function: str) -> None:
    if type(length) is not int or length < 1:
        raise (ArgumentError if type(length) is int else ArgumentTypeError).refusing(
            "length", length, "must be a positive integer", function
        )
