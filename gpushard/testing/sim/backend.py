"""NumPy memory behind queues that run only when a caller waits."""

from __future__ import annotations

import functools
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from gpushard._runtime.backend import Backend, DeviceInfo, Memories, Tasks
from gpushard._runtime.checking.checker import Checker
from gpushard._runtime.copy_phase import BoxCopy, Phase
from gpushard._runtime.host import NumpyStore
from gpushard._runtime.item import Item
from gpushard._runtime.runtime import Runtime
from gpushard._runtime.stream import Event, Stream, Tick
from gpushard._runtime.work_sharing import Pace
from gpushard._typing import HostArray
from gpushard.config import Settings
from gpushard.testing.sim.schedule import Schedule, StuckError, Timing
from gpushard.testing.sim.threads import SimLock, Threads
from gpushard.testing.topology import Topology, nvlink, pcie, two_hosts

POISON = 0xA5  # fills memory without a value
TURNS = 1_000_000
"""The most calls of the host between two restarts; more calls mean an endless loop."""

_MACHINES = (None, nvlink, pcie, two_hosts)


@functools.lru_cache(maxsize=64)
def _machine(make: Callable[[int], Topology] | None, domains: int) -> Topology | None:
    return None if make is None else make(domains)


class _SimEvent:
    """An event at one tick of a queue."""

    __slots__ = ("_backend", "_stream", "tick")

    def __init__(self, backend: SimBackend, stream: Stream, tick: int) -> None:
        self._backend = backend
        self._stream = stream
        self.tick = tick

    def query(self) -> bool:
        self._backend.turn()
        return self._backend.schedule.finished(self._stream) >= self.tick

    def synchronize(self) -> None:
        self._backend.turn()
        self._backend.schedule.run_until(self._stream, self.tick)
        self._backend.turn()


class SimBackend(NumpyStore):
    """A backend to find mistakes in code that submits work; for the arguments see `simulated`.

    Items run as late as possible, or at odd moments, and in any order that their waits allow. Freed
    memory is overwritten immediately.
    """

    name = "sim"
    listens = True

    def __init__(
        self,
        settings: Settings,
        seed: int = 0,
        *,
        exact: bool | None = None,
        host_readable: bool | None = None,
        topology: Topology | None = None,
    ) -> None:
        super().__init__(settings)
        self._topology = topology
        self._exact = exact
        self._host_readable = host_readable
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Restart with empty queues, like a new backend with another seed."""
        source = self.random = random.Random(seed)
        self.exact = source.random() < 0.5 if self._exact is None else self._exact
        readable = source.random() < 0.5
        self.host_readable = readable if self._host_readable is None else self._host_readable
        self.threads = Threads(source, source.choice((0.02, 0.05, 0.3)), source.choice((0, 0.02)))
        self.topology = self._topology or _machine(source.choice(_MACHINES), self._domains)
        """The simulated machine, or None."""
        self.timing = None if self.topology is None else Timing(self.topology)
        """Its virtual time, or None."""
        progress = source.choice((0, 0, 0.1, 0.5))
        self.schedule = Schedule(source, progress, self._poison_due, self.timing)
        self.traffic: dict[tuple[int, int], int] = {}
        self._turns = 0
        self.failing = source.choice((0, 0, 0, 0.05))
        """Probability that an allocation fails."""
        self._links = random.Random(seed + 1)
        self._strangers = 0 if self.host_readable else self._links.choice((0, 0, 0.3))
        self._reach: dict[tuple[int, int], bool] = {}
        self._retired: dict[int, tuple[HostArray, Sequence[Tick]]] = {}

    def _info(self, device: int, domain: int) -> DeviceInfo:
        return DeviceInfo(self.name, 0, device, domain, self._domains + domain, 2 * self._domains)

    def reaches(self, domain: int, source: int) -> bool:
        """Test whether `domain` can read `source`: itself, host memory, and most domains."""
        if max(domain, source) >= self._domains or domain == source:
            return True
        if (domain, source) not in self._reach:
            self._reach[domain, source] = self._links.random() >= self._strangers
        return self._reach[domain, source]

    def prefetch(self, read: Callable[[], object]) -> None:
        """Maybe call a function immediately."""
        if self.random.random() < 0.5:
            read()

    def new_caller(self) -> SimCaller:
        """Make the caller of callbacks."""
        return SimCaller(self)

    def run_now(self, calls: Tasks, reads: Memories, writes: Memories, pace: Pace) -> None:
        """Run calls in any order; between them time passes."""
        for call in self.random.sample(calls, len(calls)):
            self.turn()
            call()
        self.turn()

    def turn(self) -> None:
        """Let time pass and other threads run; every call of the host comes through here."""
        if not self.schedule.running:
            self._turns += 1
            if self._turns > TURNS:
                raise StuckError(f"the host has called the backend {TURNS:,} times without an end")
            self.threads.switch()
            self.schedule.pass_time()

    def allocate(self, domain: int, nbytes: int) -> HostArray:
        """Make a byte buffer full of poison."""
        self.turn()
        if self.failing and self.random.random() < self.failing:
            raise MemoryError
        raw = super().allocate(domain, nbytes)
        raw[:] = POISON
        return raw

    def free(self, raw: HostArray) -> None:
        """Poison freed memory."""
        self._retired.pop(id(raw), None)
        raw[:] = POISON

    def released(self, raw: HostArray, ticks: Sequence[Tick]) -> None:
        """Poison a buffer once the ticks have run."""
        self._retired[id(raw)] = raw, ticks
        self._poison_due()

    def taken(self, raw: HostArray) -> None:
        """Leave a buffer to its new owner."""
        self._retired.pop(id(raw), None)

    def new_lock(self) -> SimLock:
        """Make a lock that switches threads."""
        return SimLock(self.threads)

    def add_stream(self, stream: Stream, domain: int, device: int | None = None) -> None:
        """Make a queue."""
        self.schedule.add(stream)

    def enqueue(self, item: Item) -> None:
        """Append an item to its queue."""
        self.turn()
        self.schedule.append(item)
        self.turn()

    def record(self, stream: Stream, tick: int) -> Event:
        """Make an event at `tick`, or at the end of the queue."""
        return _SimEvent(self, stream, tick if self.exact else self.schedule.last(stream))

    def copy_boxes(self, copies: Sequence[BoxCopy], domain: int) -> None:
        """Copy boxes one by one; between them time passes."""
        for target, source, source_domain in copies:
            self.turn()
            np.copyto(target, source)
            link = (source_domain, domain)
            self.traffic[link] = self.traffic.get(link, 0) + target.nbytes
            if self.timing is not None:
                self.timing.moved(link, target.nbytes)
        self.turn()

    def fill_boxes(self, targets: Sequence[HostArray], value: np.generic, domain: int) -> None:
        """Fill boxes one by one; between them time passes."""
        for target in targets:
            self.turn()
            target[...] = value
        self.turn()

    def copy_phase(self, phase: Phase, operands: Sequence[HostArray], domain: int) -> None:
        """Copy the boxes of a phase."""
        self.copy_boxes(phase.copies(operands), domain)

    def close(self) -> None:
        """Run all remaining work."""
        self.schedule.run_all()

    def _poison_due(self, item: Item | None = None) -> None:
        finished = self.schedule.finished
        due = [
            key
            for key, (_, ticks) in self._retired.items()
            if all(finished(stream) >= tick for stream, tick in ticks)
        ]
        for key in due:
            raw, _ = self._retired.pop(key)
            raw[:] = POISON


class SimCaller:
    """Makes calls in order, each immediately or with later ones, as the seed says.

    Args:
      backend: the backend with the seed.
    """

    def __init__(self, backend: SimBackend) -> None:
        self._backend = backend
        self._calls: deque[Callable[[], object]] = deque()
        self._turn = backend.new_lock()
        self._thread: int | None = None

    def put(self, call: Callable[[], object]) -> None:
        """Make a call now, or later."""
        self._calls.append(call)
        if not self.is_current() and self._backend.random.random() < 0.3:
            self.drain()

    def drain(self) -> None:
        """Make all calls."""
        with self._turn:
            self._thread = threading.get_ident()
            try:
                while self._calls:
                    self._calls.popleft()()
                    self._backend.turn()
            finally:
                self._thread = None

    def is_current(self) -> bool:
        """Test whether this thread is making a call."""
        return self._thread == threading.get_ident()

    def restart(self) -> None:
        """Forget all calls."""
        self._calls.clear()

    close = drain


class SimRuntime(Runtime):
    """A runtime on the simulated backend, with a race checker; see `simulated`."""

    def __init__(self, settings: Settings, seed: int = 0, **machine: Any) -> None:
        self.sim = SimBackend(settings, seed, **machine)
        self.checker = Checker(self.sim)
        super().__init__(settings, cast(Backend, self.checker))

    def restart(self, settings: Settings, seed: int) -> None:
        """Restart like a new runtime, but keep the device objects, so that plans stay valid."""
        devices, plans = self.devices, self.plans
        self.sim.reseed(seed)
        self.checker.reset()
        super().__init__(settings, cast(Backend, self.checker))
        for device, fresh in zip(devices, self.devices, strict=True):
            account = device.account  # compiled operations hold it
            account.restart(fresh.account.limit)
            vars(device).update(vars(fresh), account=account)
        self.devices, self.plans = devices, plans
