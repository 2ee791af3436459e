"""Threads that run one at a time, in an order that a seed chooses.

They are system threads that pass a baton around. The baton changes hands only at switch points:
calls of the backend, and locks.
"""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any


class DeadlockError(Exception):
    """All threads wait for locks that other threads hold."""


class Threads:
    """Runs functions as threads that a seed steps.

    Args:
      source: decides which thread continues.
      switching: probability that the baton changes hands at a switch point.
      collecting: probability that garbage is collected there.
    """

    def __init__(self, source: random.Random, switching: float, collecting: float) -> None:
        self._random = source
        self._switching = switching
        self._collecting = collecting
        self._ready: list[_Thread] = []
        self._waiting: list[_Thread] = []
        self.current: _Thread | None = None
        """The thread with the baton; None outside of all threads."""
        self._error: BaseException | None = None

    def run(self, functions: Sequence[Callable[[], None]]) -> None:
        """Run functions, each as a thread, until all have returned.

        Raises:
          BaseException: the first error of a thread; the others stop at their next switch point.
          DeadlockError: no thread can continue.
        """
        threads = [_Thread(self, function) for function in functions]
        self._ready, self._waiting, self._error = list(threads), [], None
        for thread in threads:
            thread.start()
        self._hand_over()
        for thread in threads:
            thread.join()
        self.current = None
        if self._error is not None:
            raise self._error

    def switch(self) -> None:
        """Maybe collect garbage, and maybe let another thread run."""
        if self._collecting and self._random.random() < self._collecting:
            gc.collect(0)
        current = self.current
        if current is None:
            return
        if self._error is not None:
            raise _StoppedError
        if len(self._ready) > 1 and self._random.random() < self._switching:
            self._hand_over()
            current.wait()

    def block(self) -> None:
        """Let other threads run until `wake`.

        Raises:
          DeadlockError: there are no other threads.
        """
        current = self.current
        if current is None or not self._ready[1:]:
            error = DeadlockError("every thread waits for a lock")
            self._error = self._error or error
            raise error
        self._ready.remove(current)
        self._waiting.append(current)
        self._hand_over()
        current.wait()

    def wake(self) -> None:
        """Let all blocked threads try again."""
        self._ready += self._waiting
        self._waiting.clear()

    def _hand_over(self) -> None:
        if self._ready:
            self.current = self._random.choice(self._ready)
            self.current.go_on()

    def _end(self, thread: _Thread, error: BaseException | None) -> None:
        if error is not None and self._error is None and not isinstance(error, _StoppedError):
            self._error = error
        self._ready.remove(thread)
        if self._error is not None or not self._ready:
            self.wake()
        self._hand_over()


class _StoppedError(BaseException):
    """Ends a thread after another one has failed."""


class _Thread(threading.Thread):
    """A thread that runs only while it holds the baton."""

    def __init__(self, threads: Threads, function: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._threads = threads
        self._function = function
        self._baton = threading.Lock()
        self._baton.acquire()

    def go_on(self) -> None:
        """Give the baton to this thread."""
        self._baton.release()

    def wait(self) -> None:
        """Wait for the baton."""
        self._baton.acquire()
        if self._threads._error is not None:
            raise _StoppedError

    def run(self) -> None:
        """Run the function; pass its error to the caller."""
        error: BaseException | None = None
        try:
            self.wait()
            self._function()
        except BaseException as raised:
            error = raised
        self._threads._end(self, error)


class SimLock:
    """A reentrant lock of simulated threads."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._owner: _Thread | None = None
        self._depth = 0

    def __enter__(self) -> None:
        self._threads.switch()
        while self._depth and self._owner is not self._threads.current:
            self._threads.block()
        self._owner = self._threads.current
        self._depth += 1

    def __exit__(self, *_: Any) -> None:
        self._depth -= 1
        if not self._depth:
            self._threads.wake()
        self._threads.switch()
