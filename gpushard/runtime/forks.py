"""Runtimes across a fork.

Before a fork every runtime gets quiet: nothing runs, nothing is half done, and the submission lock
is held. What is queued stays queued and goes on in both processes. What hangs, and so cannot be
waited for, goes on in the parent and fails in the child, whose threads and locks are new.

CPython prints and forgets what is raised in here, interrupts too. Generators make the way back
right whatever happened on the way in.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Generator
from typing import Any

from gpushard.runtime.host import HostBackend
from gpushard.runtime.runtime import Runtime

_PATIENCE = 2.0  # seconds to wait for a submission lock, which is never held for long
_runtimes: dict[int, weakref.ref[Runtime]] = {}
_forking = threading.Lock()  # one fork at a time
_quiet: dict[int, Generator[None, None, None]] = {}  # by the thread that forks
_torn: list[Runtime] = []  # those whose submission lock was not to be had


def watch(runtime: Runtime, backend: Any) -> None:
    """Take care of a runtime when the process forks, as long as it lives.

    Only the host backend can be used in a forked child.
    """
    if isinstance(backend, HostBackend):
        _runtimes[id(runtime)] = weakref.ref(runtime)


def _watched() -> list[tuple[Runtime, HostBackend]]:
    for key, reference in list(_runtimes.items()):
        if reference() is None:
            _runtimes.pop(key, None)
    runtimes = [reference() for reference in list(_runtimes.values())]
    return [(runtime, _host(runtime.backend)) for runtime in runtimes if runtime is not None]


def _host(backend: Any) -> HostBackend:
    """Return the backend under a checker."""
    host: HostBackend = getattr(backend, "backend", backend)
    return host


def _get_quiet() -> Generator[None, None, None]:
    with _forking:
        _torn.clear()
        held: list[Generator[None, None, None]] = []
        try:
            # Workers first: what runs may need the lock to come to its end.
            for runtime, backend in _watched():
                for quiet in (backend.quiet(), _hold_lock(runtime)):
                    held.append(quiet)
                    next(quiet)
            yield
        finally:
            for quiet in reversed(held):
                quiet.close()


def _hold_lock(runtime: Runtime) -> Generator[None, None, None]:
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
    own = _quiet[threading.get_ident()] = _get_quiet()
    next(own)


def _in_parent() -> None:
    _quiet.pop(threading.get_ident()).close()


def _in_child() -> None:
    global _forking, _quiet
    own, _quiet, torn = _quiet.pop(threading.get_ident()), {}, list(_torn)
    own.close()
    _forking = threading.Lock()
    for runtime, backend in _watched():
        runtime.renew_locks(torn=runtime in torn)
        backend.restart()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
