"""`bind`, the function that every operation goes through.

A value may carry an *interpreter*, which decides what the operation does. It can run the row
immediately, as for plain arrays, record it, or add a batch dim. If operands have several
interpreters, the innermost one decides, with the highest level.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from gpushard._geometry.sharding import Sharding
from gpushard._ops.row import Params, Row


class Interpreter(Protocol):
    """Runs operations on one kind of value."""

    @property
    def level(self) -> float:
        """Interpreters with higher levels take operations first."""

    def bind(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None
    ) -> Any:
        """Run one operation; for the arguments see `bind`."""


class _Plain:
    """Holds the interpreter of plain arrays, which a higher layer sets."""

    eager: Interpreter


_plain = _Plain()

creating: ContextVar[Interpreter | None] = ContextVar("creating", default=None)
"""The interpreter of operations without operands, inside an interpreted function."""


def set_eager(interpreter: Interpreter) -> None:
    """Set the interpreter of values that carry none."""
    _plain.eager = interpreter


def bind(
    row: Row, args: Sequence[Any], params: Params = (), out_sharding: Sharding | None = None
) -> Any:
    """Run one operation.

    Args:
      row: the operation.
      args: its operands: values, data on the host, Python numbers.
      params: static parameters of the row.
      out_sharding: the sharding of the results; None does not move them.

    Returns:
      The result, or a tuple of several results.
    """
    chosen = _plain.eager
    for arg in args:
        interpreter = getattr(arg, "interpreter", None)
        if interpreter is not None and interpreter.level > chosen.level:
            chosen = interpreter
    if row.creates and (around := creating.get()) is not None:
        chosen = around
    return chosen.bind(row, args, params, out_sharding)
