"""Keep threads that work together on different processors.

Linux may wake two threads on one processor while another one is idle: the thread that wakes them
still runs there. Only after some milliseconds it moves one of them. So a worker that was woken
looks whether another thread is on its processor, and moves by itself. Threads of the user are noted
while they share work, and are never moved.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable


def _find_current() -> Callable[[], int]:
    """Return a function that returns the calling thread's processor, or -1 where none says so."""
    try:
        function = ctypes.PyDLL(None).sched_getcpu  # it is too short to give up the GIL for it
        os.sched_getaffinity(0)
    except (AttributeError, OSError, TypeError):
        return lambda: -1
    function.argtypes, function.restype = [], ctypes.c_int
    current: Callable[[], int] = function
    return current


_current = _find_current()


class Processors:
    """The processors of workers that are awake, and of threads that share work with them."""

    def __init__(self) -> None:
        self._of: dict[int, int] = {}  # by the ident of the worker
        self._sharing: dict[int, int] = {}  # by the ident of the thread that shares work

    def begin(self) -> None:
        """Note where the calling thread is, which is about to share work."""
        self._sharing[threading.get_ident()] = _current()

    def end(self) -> None:
        """Forget where the calling thread was."""
        self._sharing.pop(threading.get_ident(), None)

    def leave(self) -> None:
        """Note that the calling worker goes to sleep."""
        self._of.pop(threading.get_ident(), None)

    def enter(self) -> None:
        """Note that the calling worker woke up; move it if another thread is on its processor."""
        processor = _current()
        if processor < 0:
            return
        taken = {*self._of.copy().values(), *self._sharing.copy().values()}
        if processor in taken:
            allowed = os.sched_getaffinity(0)
            free = allowed - taken
            if free:
                processor = min(free)
                with contextlib.suppress(OSError):  # a processor may be switched off
                    os.sched_setaffinity(0, {processor})  # moves the thread
                    os.sched_setaffinity(0, allowed)  # lets Linux move it later
        self._of[threading.get_ident()] = processor
