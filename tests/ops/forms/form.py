"""What a form is: a way to call a row in the generated tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Form:
    """A way to call a row: letters for the dims of its operands, each with a length."""

    operands: tuple[str, ...]
    """Letters of each operand's dims; a digit is a dim of that length that nothing splits."""

    params: Any = ()
    """Parameters, or a function of the operands' shapes that gives them."""

    dtypes: str = "d"
    """Types of the operands; the last one is repeated."""

    scalars: tuple[Any, ...] = ()
    """Python numbers that come after the arrays."""

    positive: bool = False
    """Whether the operation wants positive numbers."""

    density: float = 0.5
    """How many booleans are true."""

    prepare: Callable[..., tuple[Any, ...]] | None = None
    """Makes operands as the operation wants them from random ones."""
