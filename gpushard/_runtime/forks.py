"""Keep runtimes usable across a fork of the process.

Before a fork, every runtime becomes quiet: no work runs, no work is half done, and this thread
holds the submission lock. Queued work stays queued and continues in both processes. Work that
hangs, and so cannot be waited for, continues in the parent and fails in the child. The child gets
new threads and locks.

CPython prints errors that are raised here, interrupts included, and goes on. Generators undo
exactly the steps that were done, whatever was raised in between.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Generator
from typing import Any

from gpushard._runtime.host import HostBackend
from gpushard._runtime.runtime import Runtime

_PATIENCE = 2.0  # seconds to wait for a submission lock, which is never held for long
_runtimes: dict[int, weakref.ref[Runtime]] = {}
_forking = threading.Lock()  # one fork at a time
_quiet: dict[int, Generator[None, None, None]] = {}  # by the thread that forks
_torn: list[Runtime] = []  # runtimes with a submission lock that could not be taken


def watch(runtime: Runtime, backend: Any) -> None:
    """Keep a runtime usable across forks, as long as it exists.

    Runtimes of other backends are ignored: only the host backend works in a forked child.
    """
    if isinstance(backend, HostBackend):
        _runtimes[id(runtime)] = weakref.ref(runtime)


def _watched_runtimes() -> list[tuple[Runtime, HostBackend]]:
    for key, reference in list(_runtimes.items()):
        if reference() is None:
            _runtimes.pop(key, None)
    runtimes = [reference() for reference in list(_runtimes.values())]
    return [(runtime, _host(runtime.backend)) for runtime in runtimes if runtime is not None]


def _host(backend: Any) -> HostBackend:
    """Return the host backend itself, without a checker around it."""
    host: HostBackend = getattr(backend, "backend", backend)
    return host


def _get_quiet() -> Generator[None, None, None]:
    """Make all runtimes quiet until the generator is closed."""
    with _forking:
        _torn.clear()
        held: list[Generator[None, None, None]] = []
        try:
            # Workers first: running work may need the lock to finish.
            for runtime, backend in _watched_runtimes():
                for quiet in (backend.quiet(), _hold_lock(runtime)):
                    held.append(quiet)
                    next(quiet)
            yield
        finally:
            for quiet in reversed(held):
                quiet.close()


def _hold_lock(runtime: Runtime) -> Generator[None, None, None]:
    """Hold the submission lock of a runtime, if it can be taken in time."""
    lock: Any = runtime.lock
    taken: list[bool] = []
    try:
        # One call of C code, so that no interrupt comes between taking the lock and noting it.
        taken.extend(map(lock.acquire, (True,), (_PATIENCE,)))
        if not taken[0]:
            _torn.append(runtime)
        yield
    finally:
        if taken and taken[0]:
            lock.release()


def _before() -> None:
    quiet = _quiet[threading.get_ident()] = _get_quiet()
    next(quiet)


def _in_parent() -> None:
    _quiet.pop(threading.get_ident()).close()


def _in_child() -> None:
    global _forking, _quiet
    quiet, _quiet, torn = _quiet.pop(threading.get_ident()), {}, list(_torn)
    quiet.close()
    _forking = threading.Lock()
    for runtime, backend in _watched_runtimes():
        runtime.renew_locks(torn=runtime in torn)
        backend.restart()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
