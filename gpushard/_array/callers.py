"""Find the code that calls this package."""

from __future__ import annotations

import dis
import functools
import sys
from types import CodeType, FrameType


def caller() -> FrameType:
    """Return the innermost frame of code outside of this package."""
    frame = sys._getframe(1)
    while _module(frame)[:9] == "gpushard." and frame.f_back is not None:
        frame = frame.f_back
    return frame


def package_of(frame: FrameType) -> str:
    """Return the name of the top-level package of a frame's code."""
    return _module(frame).partition(".")[0]


def _module(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if isinstance(name, str) else ""  # executed code may set any `__name__`


def is_in_place(frame: FrameType) -> bool:
    """Test whether a frame is at an in-place operator, such as `a += b`."""
    return frame.f_lasti in _assigning(frame.f_code)


@functools.lru_cache(maxsize=256)
def _assigning(code: CodeType) -> frozenset[int]:
    """Return the positions of the instructions of in-place operators.

    >>> len(_assigning(compile("a += b; a = a + b; a @= b", "", "exec")))
    2
    """
    return frozenset(
        instruction.offset
        for instruction in dis.get_instructions(code)
        if instruction.opname == "BINARY_OP" and instruction.argrepr.endswith("=")
    )
