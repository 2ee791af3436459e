"""Raises KeyboardInterrupt at the n-th place where CPython can deliver a signal.

The model, for 3.11 to 3.13. The interpreter looks for signals
- at RESUME, when a function starts or a generator goes on;
- after a jump back (JUMP_BACKWARD and its conditional forms, not the NO_INTERRUPT one);
- after an instruction of the CALL family, once the result is there and before anything else runs;
- inside C calls that block: acquiring a lock, by `with` or by name, and what is built on that.
Nowhere else, so not between BEFORE_WITH and the body of a `with`, and not between two stores.

Opcode tracing stops before an instruction. An error raised there belongs to that instruction,
while one found after a call belongs to the call; where the two lie in different try blocks, a
profile function raises at the return of the C function instead. After a call of a Python function
3.11 does not look, and after a jump back the error belongs to the instruction before the target;
the first is treated as a place too, the second is left out where it would change the handler.

Python code that a weak reference calls, or a garbage collection, is left alone: what it raises is
printed and forgotten, which no library can change.
"""

from __future__ import annotations

import bisect
import dis
import functools
import inspect
import itertools
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy

import gpushard

_CALLS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW")
_BLOCKING = ("acquire", "join", "wait", "get")
_HOMES = tuple(
    str(Path(path).resolve())
    for path in (
        *(Path(module.__file__).parent for module in (gpushard, numpy)),
        sysconfig.get_path("stdlib"),
    )
)


class _Places:
    """Where signals can be delivered in one code object."""

    def __init__(self, code: CodeType) -> None:
        instructions = list(dis.get_instructions(code))
        self.names = {i.offset: i.opname for i in instructions}
        offsets = [i.offset for i in instructions]
        self.before = dict(zip(offsets[1:], offsets, strict=False))
        self.after = dict(itertools.pairwise(offsets))
        self._handlers = [(e.start, e.end, e.target) for e in dis._parse_exception_table(code)]
        self._handlers.sort()
        self.blocking = self._find_blocking(instructions)

    @staticmethod
    def _find_blocking(instructions: list[dis.Instruction]) -> set[int]:
        found, name = set(), None
        for i in instructions:
            if i.opname in ("LOAD_METHOD", "LOAD_ATTR"):
                name = i.argval
            elif i.opname in _CALLS:
                if name in _BLOCKING:
                    found.add(i.offset)
                name = None
            elif i.opname == "BEFORE_WITH":
                found.add(i.offset)
        return found

    def handler(self, offset: int) -> int | None:
        """Return where an error of an instruction is handled."""
        at = bisect.bisect_right(self._handlers, (offset, sys.maxsize, 0)) - 1
        if at >= 0 and self._handlers[at][0] <= offset < self._handlers[at][1]:
            return self._handlers[at][2]
        return None

    def reached(self, last: int | None, now: int) -> bool:
        """Whether signals are looked for between two instructions that ran one after the other."""
        if last is None or now in self.blocking:
            return True
        name = self.names.get(last, "")
        if name in _CALLS:
            return self.handler(last) == self.handler(now)
        if "JUMP_BACKWARD" in name and "NO_INTERRUPT" not in name and now <= last:
            return self.handler(self.before.get(now, now)) == self.handler(now)
        return False

    def only_at_return(self, call: int) -> bool:
        """Whether an error found after a call is handled elsewhere than one of what follows."""
        following = self.after.get(call)
        return following is not None and self.handler(call) != self.handler(following)


_places = functools.cache(_Places)


@functools.cache
def _is_ours(code: CodeType) -> bool:
    file = code.co_filename
    if code.co_name == "__del__" or ("site-packages" in file and "numpy" not in file):
        return False
    if file.endswith(("weakref.py", "_weakrefset.py")) and code.co_name in ("remove", "_remove"):
        return False
    return file.startswith(_HOMES)


class Interrupter:
    """Runs a function and interrupts it.

    Args:
      at: the place, from 1.
      again: how many places later a second interrupt comes; None for never. It is counted by
        calls and returns of C functions, or as the first was.
    """

    def __init__(self, at: int, again: int | None = None) -> None:
        self._left = at
        self._again = again
        self._last: dict[FrameType, int] = {}
        self.raised: list[str] = []
        """Where an interrupt was raised."""

    def run(self, function: Callable[[], Any]) -> bool:
        """Call a function; return whether it was interrupted and said so.

        Raises:
          AssertionError: it was interrupted and swallowed that.
        """
        trace, profile = sys.gettrace(), sys.getprofile()
        try:
            sys.settrace(self._trace)
            sys.setprofile(self._profile)
            function()
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(profile)
            sys.settrace(trace)
            self._last.clear()
        assert not self.raised, f"an interrupt was swallowed: {self.raised}"
        return False

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            if not _is_ours(frame.f_code):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            last = self._last.get(frame)
            self._last[frame] = frame.f_lasti
            if self._is_place(frame, last):
                self._visit(frame)
        elif event == "return":
            self._last.pop(frame, None)
        return self._trace

    def _is_place(self, frame: FrameType, last: int | None) -> bool:
        return _places(frame.f_code).reached(last, frame.f_lasti)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "c_return") or not _is_ours(frame.f_code):
            return
        # A generator that is dropped half way runs too, and swallows what is raised in it.
        second = bool(self.raised) and not frame.f_code.co_flags & inspect.CO_GENERATOR
        at_return = event == "c_return" and _places(frame.f_code).only_at_return(frame.f_lasti)
        if second or at_return:
            self._visit(frame)

    def _visit(self, frame: FrameType) -> None:
        self._left -= 1
        if self._left == 0:
            if not self.raised and self._again is not None:
                self._left = self._again
            code = frame.f_code
            where = f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"
            self.raised.append(where)
            raise KeyboardInterrupt(where)


class Visitor(Interrupter):
    """Calls something at some of the places, as a signal handler would, or a finalizer.

    Args:
      visit: what to call; it says whether it did anything.
      every: at each how manieth place.
      anywhere: whether a place is each instruction, since a collection may start at any, and not
        only where signals are delivered.
    """

    def __init__(self, visit: Callable[[], bool], every: int = 1, *, anywhere: bool) -> None:
        super().__init__(every)
        self._every = every
        self._function = visit
        self._anywhere = anywhere
        self.visits = 0
        """How often that did something."""
        self.places = 0
        """How many places there were."""

    def _is_place(self, frame: FrameType, last: int | None) -> bool:
        return self._anywhere or super()._is_place(frame, last)

    def _visit(self, frame: FrameType) -> None:
        self._left -= 1
        self.places += 1
        if self._left == 0:
            self._left = self._every
            self.visits += self._function()
