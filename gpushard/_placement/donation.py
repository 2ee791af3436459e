"""Donation: a call takes arrays from its caller, so that their memory is free for its results.

All calls that take `donate` or `donate_argnums` delete arrays at one moment: when nothing is left
to check, and the user's function, if any, has returned. A call that raises before leaves the arrays
as they were. What `jit` traced runs after that moment, in the memory of the arrays. So `x` of 1 GB
and a result of 1 GB need 1 GB, not 2. If it fails then, the arrays are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpushard._array.array import Array
from gpushard._functions.values import is_traced
from gpushard.errors import ArgumentError


def donated_arrays(
    leaves: Iterable[Any], what: str, argument: str = "donate_argnums"
) -> list[Array]:
    """Return the arrays among leaves that a call may give up, each once.

    Values of a function that is traced or mapped are not among them: they go on in it.

    Raises:
      ArgumentError: an array is there twice.
    """
    arrays = [x for x in leaves if isinstance(x, Array) and not is_traced(x)]
    seen: set[int] = set()
    for x in arrays:
        if id(x) in seen:
            raise ArgumentError(
                f"{what}: {argument} donates one array of shape {x.shape} twice; donate it once, "
                "or pass a copy, x.copy(), in the other place",
                argument=argument,
                shape=x.shape,
            )
        seen.add(id(x))
    return arrays


def give_up(arrays: Sequence[Any]) -> None:
    """Delete donated arrays: their memory is free once nothing else needs it."""
    for x in arrays:
        x.delete()
