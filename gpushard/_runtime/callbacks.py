"""Run the callbacks of users in order, on a separate thread.

Workers never run a callback, so a callback may wait for values, print, or take its time. An error
in one stops nothing: it is raised at the next barrier.
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
"""Seconds without a finished call after which the exit of a process stops waiting for callbacks."""


class Caller(Protocol):
    """Runs calls in order."""

    def put(self, call: Callable[[], object]) -> None:
        """Run a call later; it must not raise."""

    def drain(self) -> None:
        """Wait until all calls have run that were put before."""

    def is_current(self) -> bool:
        """Whether this thread is running a call."""

    def restart(self) -> None:
        """Forget all calls in a forked child; the parent runs them."""

    def close(self) -> None:
        """Run the remaining calls, unless one hangs; later calls run at once."""


class CallingThread:
    """A thread that runs calls in order; it starts with the first call.

    Args:
      name: the name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._closed = False
        self.restart()

    def restart(self) -> None:
        """Forget all calls and the thread in a forked child; the parent runs them."""
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.RLock()  # a finalizer may call `put` on the same thread
        self._calls_done = 0

    def put(self, call: Callable[[], object]) -> None:
        """Run a call later, or at once if closed; it must not raise."""
        if self._closed:
            call()
            return
        self._calls.put(call)
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    try:
                        self._thread = (
                            threading.Thread(  # before it starts: a call may ask `is_current`
                                target=self._serve,
                                args=(self._calls,),
                                name=self._name,
                                daemon=True,
                            )
                        )
                        self._thread.start()
                    except BaseException:
                        self._thread = None
                        raise

    def drain(self) -> None:
        """Wait until all calls have run that were put before."""
        done = threading.Event()
        self.put(done.set)
        done.wait()

    def is_current(self) -> bool:
        """Whether this code runs on the thread."""
        return self._thread is threading.current_thread()

    def close(self) -> None:
        """Run the remaining calls, unless one hangs; later calls run at once."""
        self._closed = True
        self._calls.put(None)
        thread = self._thread
        if thread is None or self.is_current():
            return
        count = -1
        while thread.is_alive() and count != self._calls_done:
            count = self._calls_done
            thread.join(_PATIENCE)

    def _serve(self, calls: SimpleQueue[Callable[[], object] | None]) -> None:
        while calls is self._calls and (call := calls.get()) is not None:
            call()
            self._calls_done += 1
            del call  # else its values stay alive until the next call comes


class Callbacks:
    """The callbacks of one runtime, and their errors.

    Args:
      caller: runs the calls.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._failures: deque[CallbackError] = deque()
        _all_callbacks.add(self)

    def put(self, what: str, call: Callable[[], object]) -> None:
        """Run a call later; an error in it is raised at the next barrier.

        Args:
          what: the name of the call, for errors.
          call: the call.
        """
        self._caller.put(lambda: self.attempt(what, call))

    def attempt(self, what: str, call: Callable[[], object]) -> None:
        """Run a call now; an error in it is raised at the next barrier."""
        error = _run_call(what, call)
        if error is not None:
            self._failures.append(error)

    def call(self, what: str, call: Callable[[], object]) -> None:
        """Run a call after those that were put before, and wait for it.

        Inside a callback, it runs at once.

        Raises:
          CallbackError: the call raised an error.
        """
        raised: list[CallbackError | None] = []
        if self._caller.is_current():
            raised.append(_run_call(what, call))
        else:
            self._caller.put(lambda: raised.append(_run_call(what, call)))
            self._caller.drain()
        error = raised.pop()
        if error is not None:
            try:
                raise error
            finally:
                del error  # a frame and its error that refer to each other keep memory alive

    def wait(self) -> None:
        """Wait until all calls have run.

        Raises:
          CallbackError: a call has failed since the last time; the last one, if several have.
          ReentrantCallError: inside a callback, which would wait for itself.
        """
        if self._caller.is_current():
            raise ReentrantCallError(
                "a callback waits for all callbacks, and so for itself; call effects_barrier() "
                "outside of callbacks"
            )
        self._caller.drain()
        failures = self._take_failures()
        if failures:
            last = failures.pop()
            last.facts["others"] = tuple(failures)
            try:
                raise last
            finally:
                del last, failures

    def restart(self) -> None:
        """Forget all calls in a forked child; the parent runs them."""
        self._failures.clear()
        self._caller.restart()

    def close(self) -> None:
        """Run the remaining calls, and print errors that no barrier has raised."""
        self._caller.close()
        for error in self._take_failures():
            sys.excepthook(type(error), error, error.__traceback__)

    def _take_failures(self) -> list[CallbackError]:
        """Take all errors out of the queue, each one once, also if other threads do the same."""
        failures = []
        with contextlib.suppress(IndexError):
            while True:
                failures.append(self._failures.popleft())
        return failures


_all_callbacks: weakref.WeakSet[Callbacks] = weakref.WeakSet()


def _restart_in_child() -> None:
    for callbacks in list(_all_callbacks):
        callbacks.restart()


os.register_at_fork(after_in_child=_restart_in_child)


def _run_call(what: str, call: Callable[[], object]) -> CallbackError | None:
    """Run a call in an empty context; return its error, or None."""
    try:
        contextvars.Context().run(call)
    except CallbackError as error:
        return error
    except BaseException as error:
        failed = CallbackError(f"{what} raised {type(error).__name__}: {error}", function=what)
        failed.__cause__ = error
        return failed
    return None
