"""Inject faults: make any allocation, item, copy or user callback fail.

Runtimes do not know of this: a `with` block replaces the methods of a runtime's backend and pools.
So it works for every backend, and costs nothing outside of the block.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from gpushard._runtime.copy_phase import Phase
from gpushard._runtime.item import Item
from gpushard._runtime.memory import Account, Memory
from gpushard._runtime.pool import NoRoomError, Pool
from gpushard._runtime.runtime import Runtime
from gpushard._runtime.stream import Stream

P = ParamSpec("P")
T = TypeVar("T")

ROOM = "room"  # a pool gives memory or counts it; the fault: the quota leaves no room
MEMORY = "memory"  # the backend allocates a raw buffer; the fault: the device has no room
ITEM = "item"  # an item is submitted to a stream; the fault: the item raises when it runs
COPY = "copy"  # the caller itself copies or fills; the fault: the batch raises
CALLBACK = "callback"  # the library calls a user's function; the fault: it raises


class InjectedError(Exception):
    """The error of an item, a copy or a callback that was made to fail."""


@dataclasses.dataclass(frozen=True)
class Point:
    """A point of a run at which a call can fail."""

    position: int  # its number, from 1, in the order in which the points were passed
    kind: str  # ROOM, MEMORY, ITEM, COPY or CALLBACK
    what: str  # a description of the call


class Faults:
    """The points that a run passes, and the point that fails.

    Args:
      fail_at: position of the point that fails; None for none.
      lasting: whether all later points of its kind fail too.
    """

    def __init__(self, fail_at: int | None, lasting: bool) -> None:
        self.points: list[Point] = []  # all points so far
        self.failed: Point | None = None  # the point that failed first
        self.errors: list[BaseException] = []  # errors of items, copies and callbacks
        self._fail_at = fail_at
        self._lasting = lasting
        self._mutex = threading.Lock()
        self._inside = threading.local()

    def callback(self, function: Callable[P, T]) -> Callable[P, T]:
        """Wrap a user's function so that every call is a point."""

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            self._pass(CALLBACK, "a callback")
            return function(*args, **kwargs)

        return call

    def fails(self, kind: str, what: str) -> bool:
        """Count a point, and return whether it fails."""
        with self._mutex:
            point = Point(len(self.points) + 1, kind, what)
            self.points.append(point)
            if point.position == self._fail_at:
                self.failed = point
            chosen = self.failed
            return chosen is not None and (
                chosen is point or (self._lasting and chosen.kind == kind)
            )

    def replacements(self, runtime: Runtime) -> Iterator[tuple[object, str, Callable[..., Any]]]:
        """Yield the methods to replace: (object, name, the method with its points)."""
        backend = runtime.backend
        yield backend, "allocate", self._allocate(backend.allocate)
        yield backend, "enqueue", self._enqueue(backend.enqueue)
        yield backend, "copy_boxes", self._by_caller(backend.copy_boxes, "copies to")
        yield backend, "copy_phase", self._by_caller(backend.copy_phase, "copies to")
        yield backend, "fill_boxes", self._by_caller(backend.fill_boxes, "fills of")
        rings = [domain.ring for domain in runtime.domains]
        for pool in runtime.pools():
            what = "a ring" if pool in rings else "a pool"
            yield pool, "take", self._take(pool, what, pool.take)
            yield pool, "adopt", self._adopt(pool, pool.adopt)

    def _pass(self, kind: str, what: str) -> None:
        if self.fails(kind, what):
            error = InjectedError(f"{what} was made to fail")
            self.errors.append(error)
            raise error

    def _allocate(self, allocate: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
        def replaced(domain: int, nbytes: int) -> Any:
            if self.fails(MEMORY, f"{nbytes} bytes from domain {domain}"):
                raise MemoryError(f"{nbytes} bytes, made to fail")
            return allocate(domain, nbytes)

        return replaced

    def _take(self, pool: Pool, what: str, take: Callable[..., Memory]) -> Callable[..., Memory]:
        def replaced(
            charges: tuple[tuple[Account, int], ...], nbytes: int, stream: Stream | None
        ) -> Memory:
            if self.fails(ROOM, f"{nbytes} bytes of {what}"):
                raise NoRoomError(nbytes, charges[0][0] if charges else None, pool)
            return take(charges, nbytes, stream)

        return replaced

    def _adopt(self, pool: Pool, adopt: Callable[..., Memory]) -> Callable[..., Memory]:
        def replaced(charges: tuple[tuple[Account, int], ...]) -> Memory:
            if self.fails(ROOM, f"{len(charges)} small shards"):
                account, nbytes = charges[-1]
                raise NoRoomError(nbytes, account, pool)
            return adopt(charges)

        return replaced

    def _enqueue(self, enqueue: Callable[[Item], None]) -> Callable[[Item], None]:
        def replaced(item: Item) -> None:
            # Decide here, in the order of submission, since items run in any order.
            failing = self.fails(ITEM, item.name)
            item.run = functools.partial(self._run, item.name, item.run, failing)
            enqueue(item)

        return replaced

    def _run(self, name: str, run: Callable[[], None], failing: bool) -> None:
        self._inside.item = True
        try:
            if failing:
                error = InjectedError(f"item {name!r} was made to fail")
                self.errors.append(error)
                raise error
            run()
        finally:
            self._inside.item = False

    def _by_caller(self, copy: Callable[..., None], what: str) -> Callable[..., None]:
        """Wrap a method that copies or fills so that calls of the caller are points."""

        def replaced(work: Phase | Sequence[Any], *rest: Any) -> None:
            if getattr(self._inside, "item", False):
                copy(work, *rest)
                return
            count = len(work.moves if isinstance(work, Phase) else work)
            self._pass(COPY, f"{count} {what} domain {rest[-1]}")
            self._inside.item = True  # a phase may call `copy_boxes`: do not count its copies twice
            try:
                copy(work, *rest)
            finally:
                self._inside.item = False

        return replaced


@contextlib.contextmanager
def faults(
    runtime: Runtime, *, fail_at: int | None = None, lasting: bool = False
) -> Iterator[Faults]:
    """Count the points at which a runtime can fail in a `with` block, and make one fail.

    Earlier work should be finished: its copies would count as the caller's.

    Args:
      runtime: the runtime.
      fail_at: position of the point that fails, from 1; None only counts.
      lasting: whether all later points of its kind fail too, so the next attempt after a garbage
        collection also fails.

    Yields:
      The points so far.

    >>> import gpushard as gs
    >>> from gpushard.testing import runtime
    >>> with runtime(host_devices=2, memory_limit=1 << 20) as two, faults(two) as counted:
    ...     x = gs.device_put([1, 2], gs.devices()[0])
    >>> [point.kind for point in counted.points]
    ['room', 'copy', 'room', 'copy']
    """
    passed = Faults(fail_at, lasting)
    replaced = list(passed.replacements(runtime))
    for owner, name, method in replaced:
        setattr(owner, name, method)
    try:
        yield passed
    finally:
        for owner, name, _ in replaced:
            delattr(owner, name)


class World(Protocol):
    """The data of an operation."""

    @property
    def runtime(self) -> Runtime:
        """The runtime with faults."""


W = TypeVar("W", bound=World)


@dataclasses.dataclass
class Attempt(Generic[W]):
    """One run of an operation."""

    world: W  # the data of the run
    faults: Faults  # the points that it passed, and the one that failed
    result: Any = None  # its result
    error: BaseException | None = None  # its error


def walk(
    operation: Callable[[W, Faults], Any],
    make_world: Callable[[], AbstractContextManager[W]],
    *,
    lasting: bool = False,
) -> Iterator[Attempt[W]]:
    """Repeat an operation; in each run the next point fails.

    The last run ends before it reaches the point, so nothing fails in it.

    Args:
      operation: takes the world, and the `Faults` to wrap callbacks with.
      make_world: a context manager that makes a new world for each run.
      lasting: as for `faults`.

    Yields:
      Each run, while its world exists.

    >>> import gpushard as gs
    >>> from gpushard.testing import runtime
    >>> import contextlib, types
    >>> @contextlib.contextmanager
    ... def world():
    ...     with runtime(host_devices=2, memory_limit=1 << 20) as two:
    ...         yield types.SimpleNamespace(runtime=two)
    >>> for attempt in walk(lambda world, _: gs.device_put(1.0), world):
    ...     print(attempt.faults.failed, type(attempt.error).__name__)
    Point(position=1, kind='room', what='1 small shards') NoneType
    Point(position=2, kind='copy', what='1 copies to domain 0') InjectedError
    None NoneType
    """
    for position in itertools.count(1):
        with make_world() as world:
            with faults(world.runtime, fail_at=position, lasting=lasting) as points:
                attempt = Attempt(world, points)
                try:
                    attempt.result = operation(world, points)
                except Exception as error:
                    attempt.error = error
            over = points.failed is None
            yield attempt
            del attempt
        if over:
            return
