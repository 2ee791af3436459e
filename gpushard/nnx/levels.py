"""Which function a Variable or a Module was made in, and the refusal to change one from within.

A function that is traced or mapped runs once for many values. What it assigns to an object of
outside would happen once, with a value that is gone afterwards. So each object remembers the level
it was made at: the calls of traced and mapped functions around it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypeAlias

from gpushard.errors import TraceContextError
from gpushard.transforms.tracing.trace import tracing
from gpushard.transforms.values.captured import Guard, watch
from gpushard.transforms.values.frames import innermost

Level: TypeAlias = tuple[Any, Any, Any]
"""The innermost call of this package's transforms, of a mapped and of a traced function."""

OUTSIDE: Level = (None, None, None)

_call: ContextVar[Any] = ContextVar("innermost call of an nnx transform", default=None)


def level() -> Level:
    """Return the level that this code runs at."""
    call, frame, trace = _call.get(), innermost(), tracing()
    if call is None and frame is None and trace is None:
        return OUTSIDE
    return call, frame, trace


@contextmanager
def entered() -> Iterator[None]:
    """Run what is within at a level of its own."""
    token = _call.set(object())
    try:
        with Guard():
            yield
    finally:
        _call.reset(token)


class Leveled:
    """What remembers the level that it was made at, and is changed at that level alone."""

    __slots__ = ("_nnx_level",)

    _nnx_level: Level

    def _check_level(self, what: str) -> None:
        """Check that this may be changed here.

        Raises:
          TraceContextError: it was made outside of the function that is traced or mapped here.
        """
        if self._is_captured():
            raise self._refusal(what)

    def _is_captured(self) -> bool:
        """Whether this was made outside of the function that is traced or mapped here."""
        here = level()
        return here is not OUTSIDE and self._nnx_level != here

    def _watch(self, x: Any, name: str) -> None:
        """Have changes of a container be refused that this has, if this is captured here."""
        if self._is_captured():
            watch(x, lambda: self._refusal(f"a change of the {type(x).__name__} {name!r}"))

    def _refusal(self, what: str) -> TraceContextError:
        kind = type(self).__name__
        path = _path_of(self)
        return TraceContextError(
            f"{what} of {path or 'a captured object'}, a {kind} that was made outside of the "
            "function which is traced or mapped here; pass it, or the module that has it, as "
            "an argument",
            argument="self",
            type=type(self),
            path=path,
        )


def _path_of(wanted: Leveled) -> str:
    """Return how running code reaches an object: "model.linear.kernel"; "" where it does not."""
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
