"""Loops whose number of rounds depends on values.

Of values that are known the host reads the condition before each round. The loop of a traced or
mapped function is an operation of that function; the layer of transforms brings it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from gpushard.functions.concrete import concrete
from gpushard.functions.values import is_traced


class WhileLoop(Protocol):
    """A loop with a condition."""

    def __call__(
        self, cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
    ) -> Any:
        """Call a function with its last result for as long as a condition holds of that."""


class _Door:
    """Holds the loop of traced functions, which a higher layer brings."""

    traced: WhileLoop


_door = _Door()


def set_while_loop(loop: WhileLoop) -> None:
    """Say how the loop of a traced or mapped function is done."""
    _door.traced = loop


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Call a function with its last result for as long as a condition holds of that.

    Args:
      cond_fun: takes the value, and returns a boolean without dims.
      body_fun: takes the value, and returns the next one, of the same structure, shapes and types.
      init_val: the first value.
    """
    value = init_val
    while True:
        holds = cond_fun(value)
        if is_traced(holds):
            return _door.traced(cond_fun, body_fun, init_val)
        if not concrete(holds, "the condition of a loop"):
            return value
        value = body_fun(value)
