"""How many threads the library of linear algebra may use that NumPy calls.

Such a library has threads of its own, one for each core. When several workers call it at once, each
call wakes all of these, and threads that find no core spin for one another. So calls that run at
once divide the threads, and a call alone has all of them.

OpenBLAS as NumPy's wheels have it knows one number for the whole process; where it was built with
OpenMP, and in MKL, each thread has its own. Other libraries are left alone: Accelerate shares the
cores by itself.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

_OPENMP = 2
"""What OpenBLAS says of how it was built."""

_AFFIXES = (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "_64"), ("", ""))
"""What stands before and after the names of OpenBLAS's functions, which whoever builds it chooses
so that several can be loaded; as threadpoolctl has them."""


@dataclasses.dataclass(frozen=True)
class Library:
    """The functions of a library that say how many threads it uses."""

    get: Callable[[], int]
    """Returns the number."""

    set: Callable[[int], object]
    """Changes it."""

    per_thread: bool
    """Whether every thread that calls the library has a number of its own."""


def library_in(symbols: Any) -> Library | None:
    """Return the library of linear algebra whose functions are among some, if its kind is known.

    Args:
      symbols: has functions as attributes, as `ctypes.CDLL` does.
    """
    for before, after in _AFFIXES:
        name = f"{before}openblas_%s{after}"
        get = getattr(symbols, name % "get_num_threads", None)
        if get is not None:
            parallel = getattr(symbols, name % "get_parallel", None)
            if parallel is not None and parallel() == _OPENMP:
                return Library(symbols.omp_get_max_threads, symbols.omp_set_num_threads, True)
            return Library(get, getattr(symbols, name % "set_num_threads"), False)
    if hasattr(symbols, "MKL_Set_Num_Threads_Local"):
        return Library(symbols.MKL_Get_Max_Threads, symbols.MKL_Set_Num_Threads_Local, True)
    return None


@functools.cache
def numpy_library() -> Library | None:
    """Return the library that NumPy calls, if its kind is known.

    The system looks for functions in a module of NumPy's, and then in all that this is linked with.
    """
    try:
        return library_in(ctypes.CDLL(np.linalg._umath_linalg.__file__))
    except (AttributeError, OSError):  # it is built in, or the system has no such search
        return None


class Limits:
    """Lets calls that run at once divide the threads of a library.

    Where one number holds for the process, it is changed for all of it, and goes back to what it
    was when no call needs a part any more; what others set meanwhile stays.

    Args:
      library: that.
      threads: how many threads each of several calls may use; None divides all by the calls.
    """

    def __init__(self, library: Library, threads: int | None) -> None:
        self._library = library
        self._threads = threads
        self._before: dict[int, tuple[int, int]] = {}  # by thread, or of all: (full, what was set)
        self._refresh()

    def _refresh(self) -> None:
        self._mutex = threading.Lock()
        self._calls: dict[int, int] = {}  # by thread: among how many calls its own is

    def call(self, count: int, function: Callable[[], T]) -> T:
        """Call a function that calls the library, as one of `count` that run at once."""
        try:
            try:
                self.enter(count)
                return function()
            finally:
                self.leave()
        except BaseException:
            self.leave()  # an interrupt may have struck on the way into the first one
            raise

    def restart(self) -> None:
        """Go on in a forked child, where the other threads and their calls are no more."""
        self._refresh()
        self._limit(1)

    def enter(self, count: int) -> None:
        """Begin a call on this thread, one of `count`."""
        with self._mutex:
            self._calls[threading.get_ident()] = count
            self._limit(max(len(self._calls), *self._calls.values()))

    def leave(self) -> None:
        """End the call of this thread, if there is one."""
        with self._mutex:
            self._calls.pop(threading.get_ident(), None)
            others = {} if self._library.per_thread else self._calls
            self._limit(max(len(others), *others.values(), 1))

    def _limit(self, share: int) -> None:
        """Divide the full number by `share`; what is noted comes before what is done."""
        library = self._library
        whose = threading.get_ident() if library.per_thread else 0
        now = library.get()
        full, known = self._before.get(whose, (now, now))
        if now != known:  # others have changed it
            full = now
        wanted = full if share == 1 else self._threads or max(1, full // share)
        self._before[whose] = full, wanted
        if wanted != now:
            library.set(wanted)
        if share == 1:
            del self._before[whose]
