"""Objects that keep their identity over several calls of `to_tree` and `from_tree`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gpushard.errors import ArgumentError

__all__ = ["update_context"]


class Crossing:
    """The objects of one `update_context`, on both sides of a call."""

    __slots__ = ("known", "outside")

    def __init__(self) -> None:
        self.outside: list[Any] | None = None
        self.known: dict[int, int] | None = None


_crossings: ContextVar[dict[Any, Crossing] | None] = ContextVar("update contexts", default=None)


@contextmanager
def update_context(tag: Any) -> Iterator[None]:
    """Let `to_tree` and `from_tree` recognize objects across calls, in a `with` block.

    Args:
      tag: any hashable value; pass it as `ctxtag` to the calls that belong together.
    """
    token = _crossings.set({**(_crossings.get() or {}), tag: Crossing()})
    try:
        yield
    finally:
        _crossings.reset(token)


def crossing_of(tag: Any) -> Crossing | None:
    """Find the objects of the enclosing `update_context` with a tag; None for no tag."""
    if tag is None:
        return None
    crossing = (_crossings.get() or {}).get(tag)
    if crossing is None:
        raise ArgumentError(
            f"ctxtag={tag!r} belongs to no active update_context; call this inside "
            f"`with nnx.update_context({tag!r}):`",
            argument="ctxtag",
        )
    return crossing
