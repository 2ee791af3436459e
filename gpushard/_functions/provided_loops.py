"""Loops of functions of values; the layer of transforms brings those of traced functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from gpushard._functions.host_reads import concrete
from gpushard._functions.values import is_traced


class Loops(Protocol):
    """The module of loops of traced functions."""

    def while_loop(
        self, cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
    ) -> Any:
        """Call a function with its last result for as long as a condition holds of that."""

    def fori_loop(
        self, lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any
    ) -> Any:
        """Call a function for each integer of a range with the integer and its last result."""


class _Door:
    """Finds the loops of traced functions, which a higher layer brings."""

    loops: Callable[[], Loops]


_door = _Door()


def set_loops(loops: Callable[[], Loops]) -> None:
    """Say where the loops of traced functions are found."""
    _door.loops = loops


def fori_loop(lower: int, upper: int, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """Call a function for each integer of a range with the integer and its last result."""
    return _door.loops().fori_loop(lower, upper, body_fun, init_val)


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Call a function with its last result for as long as a condition holds of that.

    Of values that are known the host reads the condition before each round. The loop of a traced
    or mapped function is an operation of that function.

    Args:
      cond_fun: takes the value, and returns a boolean scalar.
      body_fun: takes the value, and returns the next one, of the same structure, shapes and types.
      init_val: the first value.
    """
    value = init_val
    while True:
        holds = cond_fun(value)
        if is_traced(holds):
            return _door.loops().while_loop(cond_fun, body_fun, init_val)
        if not concrete(holds, "the condition of a loop"):
            return value
        value = body_fun(value)
