"""Functions of users that are called once work is done: on a thread of their own, in order.

No worker ever runs one, so it may wait for values, print, or take its time. What is raised is kept
for whoever waits at a barrier, and stops nothing.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from gpushard.errors import CallbackError, ReentrantCallError

_PATIENCE = 2.0
"""Seconds without any call coming to its end after which the end of a process waits no longer."""


class Caller(Protocol):
    """Makes calls in order."""

    def put(self, call: Callable[[], object]) -> None:
        """Make a call, which must not raise, some time soon."""

    def drain(self) -> None:
        """Return once all calls have been made that were put before."""

    def is_current(self) -> bool:
        """Whether a call is being made by this thread."""

    def restart(self) -> None:
        """In a forked child: forget calls, which are the parent's."""

    def close(self) -> None:
        """Make the calls that are left, unless one hangs; later ones are made at once."""


class CallingThread:
    """A thread that makes calls in order, and starts with the first one.

    Args:
      name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._closed = False
        self.restart()

    def restart(self) -> None:
        """In a forked child: forget calls, which are the parent's, and the thread."""
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.RLock()  # a finalizer may come here on the same thread
        self._made = 0

    def put(self, call: Callable[[], object]) -> None:
        """Make a call, which must not raise, some time soon; once closed, at once."""
        if self._closed:
            call()
            return
        self._calls.put(call)
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    try:
                        self._thread = threading.Thread(  # first: a call may ask for it
                            target=self._serve, args=(self._calls,), name=self._name, daemon=True
                        )
                        self._thread.start()
                    except BaseException:
                        self._thread = None
                        raise

    def drain(self) -> None:
        """Return once all calls have been made that were put before."""
        done = threading.Event()
        self.put(done.set)
        done.wait()

    def is_current(self) -> bool:
        """Whether this is the thread."""
        return self._thread is threading.current_thread()

    def close(self) -> None:
        """Make the calls that are left, unless one hangs; later ones are made at once."""
        self._closed = True
        self._calls.put(None)
        thread = self._thread
        if thread is None or self.is_current():
            return
        made = -1
        while thread.is_alive() and made != self._made:
            made = self._made
            thread.join(_PATIENCE)

    def _serve(self, calls: SimpleQueue[Callable[[], object] | None]) -> None:
        while calls is self._calls and (call := calls.get()) is not None:
            call()
            self._made += 1
            del call  # must not keep what it holds alive until the next one comes


class Callbacks:
    """The callbacks of one runtime.

    Args:
      caller: makes the calls.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._failures: deque[CallbackError] = deque()
        _every.add(self)

    def put(self, what: str, call: Callable[[], object]) -> None:
        """Make a call some time soon; what it raises is for the next barrier.

        Args:
          what: the call, for errors.
          call: the call.
        """
        self._caller.put(lambda: self.attempt(what, call))

    def attempt(self, what: str, call: Callable[[], object]) -> None:
        """Make a call at once; what it raises is for the next barrier."""
        error = _failure(what, call)
        if error is not None:
            self._failures.append(error)

    def call(self, what: str, call: Callable[[], object]) -> None:
        """Make a call after those that were put before, and return when it is made.

        In a callback, it is made at once.

        Raises:
          CallbackError: what it raised.
        """
        raised: list[CallbackError | None] = []
        if self._caller.is_current():
            raised.append(_failure(what, call))
        else:
            self._caller.put(lambda: raised.append(_failure(what, call)))
            self._caller.drain()
        error = raised.pop()
        if error is not None:
            try:
                raise error
            finally:
                del error  # a frame and its error that hold each other keep memory alive

    def wait(self) -> None:
        """Return once all calls have been made.

        Raises:
          CallbackError: what the last one raised that failed since the last time.
          ReentrantCallError: in a callback, which would wait for itself.
        """
        if self._caller.is_current():
            raise ReentrantCallError(
                "a callback waits for all callbacks, itself among them; call effects_barrier() "
                "where the program looks at their results"
            )
        self._caller.drain()
        failures = self._taken()
        if failures:
            last = failures.pop()
            last.facts["others"] = tuple(failures)
            try:
                raise last
            finally:
                del last, failures

    def restart(self) -> None:
        """In a forked child: forget calls, which are the parent's."""
        self._failures.clear()
        self._caller.restart()

    def close(self) -> None:
        """Make the calls that are left, and show failures of which nobody has heard."""
        self._caller.close()
        for error in self._taken():
            sys.excepthook(type(error), error, error.__traceback__)

    def _taken(self) -> list[CallbackError]:
        """Return failures, each of them once, whoever else asks or fails meanwhile."""
        failures = []
        with contextlib.suppress(IndexError):
            while True:
                failures.append(self._failures.popleft())
        return failures


_every: weakref.WeakSet[Callbacks] = weakref.WeakSet()


def _in_child() -> None:
    for callbacks in list(_every):
        callbacks.restart()


os.register_at_fork(after_in_child=_in_child)


def _failure(what: str, call: Callable[[], object]) -> CallbackError | None:
    """Make a call, outside of all that is around this one; return what says why it failed."""
    try:
        contextvars.Context().run(call)
    except CallbackError as error:
        return error
    except BaseException as error:
        failed = CallbackError(f"{what} raised {type(error).__name__}: {error}", function=what)
        failed.__cause__ = error
        return failed
    return None
