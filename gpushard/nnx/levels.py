"""Refuse changes of Variables and Modules from inside traced and mapped functions.

A traced or mapped function runs once for many values. If it assigned to an object from an enclosing
scope, that would happen once, with a traced value that means nothing after the call. So each object
remembers its level: the traced and mapped functions in which it was created. It can be changed at
that level only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypeAlias

from gpushard._transforms.tracing.trace import tracing
from gpushard._transforms.values.captured import Guard, watch
from gpushard._transforms.values.frames import innermost
from gpushard.errors import TraceContextError

Level: TypeAlias = tuple[Any, Any, Any]
"""The innermost active calls: of an nnx transform, of a mapped and of a traced function."""

OUTSIDE: Level = (None, None, None)

_call: ContextVar[Any] = ContextVar("innermost call of an nnx transform", default=None)


def level() -> Level:
    """Return the level that this code runs at."""
    call, frame, trace = _call.get(), innermost(), tracing()
    if call is None and frame is None and trace is None:
        return OUTSIDE
    return call, frame, trace


@contextmanager
def new_level() -> Iterator[None]:
    """Run a block at a new level."""
    token = _call.set(object())
    try:
        with Guard():
            yield
    finally:
        _call.reset(token)


class Leveled:
    """Base of objects that you can change only inside the function call in which they were created.

    A traced function can read a module from an enclosing scope but cannot change it. Pass the
    module as an argument to change it.
    """

    __slots__ = ("_nnx_level",)

    _nnx_level: Level

    def _check_level(self, what: str) -> None:
        """Check that this object may be changed here.

        Raises:
          TraceContextError: it was created outside the traced or mapped function that runs here.
        """
        if self._is_captured():
            raise self._refusal(what)

    def _is_captured(self) -> bool:
        """Whether this object was created outside the traced or mapped function that runs here."""
        current = level()
        return current is not OUTSIDE and self._nnx_level != current

    def _watch(self, x: Any, name: str) -> None:
        """Refuse changes of a container in this object, if the object is captured here."""
        if self._is_captured():
            watch(x, lambda: self._refusal(f"a change of the {type(x).__name__} {name!r}"))

    def _refusal(self, what: str) -> TraceContextError:
        kind = type(self).__name__
        path = _path_of(self)
        return TraceContextError(
            f"{what} of {path or 'a captured object'}, a {kind} that was made outside the traced "
            "or mapped function; pass it, or the module that has it, as an argument",
            argument="self",
            type=type(self),
            path=path,
        )


def _path_of(wanted: Leveled) -> str:
    """Return an expression by which running code reaches an object: "model.kernel"; or ""."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith("gpushard."):
            names = frame.f_code.co_names
            reached = [(name, frame.f_globals[name]) for name in names if name in frame.f_globals]
            path = _search(wanted, [*frame.f_locals.items(), *reached])
            if path:
                return path
        frame = frame.f_back
    return ""


def _search(wanted: Leveled, roots: list[tuple[str, Any]]) -> str:
    seen: set[int] = set()
    pending = roots[::-1]
    while pending:
        path, x = pending.pop()
        if x is wanted:
            return path
        if id(x) in seen:
            continue
        seen.add(id(x))
        if isinstance(x, dict):
            pending += [(f"{path}[{key!r}]", part) for key, part in x.items()]
        elif isinstance(x, list | tuple):
            pending += [(f"{path}[{n}]", part) for n, part in enumerate(x)]
        elif isinstance(x, Leveled):
            parts = getattr(x, "__dict__", {})
            pending += [(f"{path}.{name}", part) for name, part in parts.items()]
    return ""
