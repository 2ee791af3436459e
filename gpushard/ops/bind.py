"""The one door for operations.

Every operation on every kind of value goes through `bind`. A value may carry an *interpreter*,
which then decides what the operation does: run the row at once, as plain arrays' does, record it,
add a batch dim to it. Of several the innermost takes it: the one with the highest level.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from gpushard.geometry.sharding import Sharding
from gpushard.ops.row import Params, Row


class Interpreter(Protocol):
    """What gives operations their meaning."""

    @property
    def level(self) -> float:
        """Higher ones take operations first."""

    def bind(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None
    ) -> Any:
        """Do one operation; arguments as for `bind`."""


class _Door:
    """Holds the interpreter of plain arrays, which a higher layer brings."""

    eager: Interpreter


_door = _Door()

creating: ContextVar[Interpreter | None] = ContextVar("creating", default=None)
"""What does operations without operands, within a function that is being interpreted."""


def set_eager(interpreter: Interpreter) -> None:
    """Say what does operations on values without an interpreter of their own."""
    _door.eager = interpreter


def bind(
    row: Row, args: Sequence[Any], params: Params = (), out_sharding: Sharding | None = None
) -> Any:
    """Do one operation.

    Args:
      row: which.
      args: its operands: values, data on the host, Python numbers.
      params: static parameters, as the row says.
      out_sharding: how the results are laid out; None for as they come.

    Returns:
      The result, or a tuple of several.
    """
    chosen = _door.eager
    for arg in args:
        own = getattr(arg, "interpreter", None)
        if own is not None and own.level > chosen.level:
            chosen = own
    if row.creates and (around := creating.get()) is not None:
        chosen = around
    return chosen.bind(row, args, params, out_sharding)


def bind_plain(
    row: Row, args: Sequence[Any], params: Params = (), out_sharding: Sharding | None = None
) -> Any:
    """Do an operation on plain arrays and numbers, whatever function is being interpreted."""
    return _door.eager.bind(row, args, params, out_sharding)
