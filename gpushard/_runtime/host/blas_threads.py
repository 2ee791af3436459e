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
import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gpushard._frozen import dataclass

T = TypeVar("T")

_PATIENCE = 0.01
"""Seconds that a call waits for another thread, which is changing the number, before it starts."""

_OPENMP = 2  # what OpenBLAS says of how it was built
_AFFIXES = (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "_64"), ("", ""))
"""What stands before and after the names of OpenBLAS's functions, which whoever builds it chooses
so that several can be loaded; as threadpoolctl has them."""


@dataclass(frozen=True)
class Library:
    """The functions of a library that say how many threads it uses."""

    get: Callable[[], int]  # returns the number
    set: Callable[[int], object]  # changes it
    per_thread: bool  # whether every thread that calls the library has a number of its own


def library_in(symbols: Any) -> Library | None:
    """Return the library of linear algebra whose functions are attributes, if its kind is known."""
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

    A call starts when the number is its share: with more threads it would spin for the others all
    the time that it takes. No thread waits for another one for long here, which might wait for it:
    a signal handler that uses the library may strike anywhere, and so may an interrupt.

    Args:
      library: that.
      threads: how many threads each of several calls may use; None divides all by the calls.
    """

    def __init__(self, library: Library, threads: int | None) -> None:
        self._library = library
        self._threads = threads
        self._noted: dict[int, tuple[int, int]] = {}  # by thread, or of all: (full, what was set)
        self._refresh()

    def _refresh(self) -> None:
        self._changing = threading.Lock()
        self._calls: dict[int, int] = {}  # by thread: among how many calls its own is
        self._divided = 1  # by how many the number of all is divided

    def restart(self) -> None:
        """Go on in a forked child, where the other threads and their calls are no more."""
        self._refresh()
        self._divide(0 if not self._library.per_thread else threading.get_ident(), 1)

    def call(self, count: int, function: Callable[[], T]) -> T:
        """Call a function that calls the library, as one of `count` that run at once.

        It may be around others of the same thread, so that the number stays between these.
        """
        outer = self._calls.get(threading.get_ident())
        try:
            try:
                self._calls[threading.get_ident()] = count
                self._apply(_PATIENCE)
                return function()
            finally:
                self._leave(outer)
        except BaseException:
            self._leave(outer)  # an interrupt may have struck on the way into the first one
            raise

    def _leave(self, outer: int | None) -> None:
        """End the call of this thread, if there is one; interrupts come after that."""
        interrupt: BaseException | None = None
        left = False
        while not left:
            try:
                if outer is None:
                    self._calls.pop(threading.get_ident(), None)
                else:
                    self._calls[threading.get_ident()] = outer
                self._apply()
                left = True
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            try:
                raise interrupt
            finally:
                del interrupt

    def _share(self) -> int:
        calls = list(self._calls.values())
        return max(1, len(calls), *calls)

    def _apply(self, patience: float = 0) -> None:
        """Give the calls of now their shares; another thread that does looks once more then."""
        if self._library.per_thread:
            thread = threading.get_ident()
            self._divide(thread, self._share() if thread in self._calls else 1)
        while not self._library.per_thread and self._share() != self._divided:
            if not self._try(patience):
                return

    def _try(self, patience: float) -> bool:
        """Divide the number of all, unless another thread does for longer than there is patience.

        `_divided` says that nobody knows before the calls are counted, and so whoever is not
        counted finds it so, and waits.
        """
        taken: list[bool] = []
        try:
            # One call of C code, so that no interrupt comes between taking the lock and noting it.
            taken.extend(map(self._changing.acquire, (True,), (patience,)))
            if taken[0]:
                self._divided = 0
                share = self._share()
                self._divide(0, share)
                self._divided = share
            return taken[0]
        finally:
            if taken and taken[0]:
                self._changing.release()

    def _divide(self, whose: int, share: int) -> None:
        """Divide a number.

        What is noted comes before the number goes down, and after it has come back: whenever this
        is cut short, the number is the full one, and other than what is noted.
        """
        now = self._library.get()
        full, known = self._noted.get(whose, (now, now))
        if now != known:  # others have changed it
            full = now
        if share == 1:
            if now != full:
                self._library.set(full)
            self._noted[whose] = full, full
        else:
            wanted = self._threads or max(1, full // share)
            self._noted[whose] = full, wanted
            if now != wanted:
                self._library.set(wanted)
