"""The error of public functions that make numbers on the host, where that has no room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gpushard.errors import OutOfMemoryError

T = TypeVar("T")


def on_host(name: str, make: Callable[..., T], *args: Any) -> T:
    """Call a function of NumPy for a public function, which the error names.

    Raises:
      OutOfMemoryError: the host has no room.
    """
    try:
        return make(*args)
    except MemoryError as error:
        raise OutOfMemoryError(
            f"{name}: the host has no room for the numbers that it makes there: {error}; use "
            "smaller sizes",
            operation=name,
        ) from None
