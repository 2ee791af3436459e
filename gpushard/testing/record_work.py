"""Record the work that a move submits to the backend."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from gpushard._runtime.backend import Backend
from gpushard._runtime.copy_phase import BoxCopy, Phase
from gpushard._runtime.item import Item
from gpushard._runtime.runtime import Runtime
from gpushard._typing import LocalArray
from gpushard.testing.simulated_time import Work
from gpushard.testing.topology import Pair

T = TypeVar("T")

CALLER = "caller"  # in place of a stream: the caller itself copies, outside of any item


def record_work(runtime: Runtime, step: Callable[[], T]) -> tuple[list[Work], T]:
    """Run a function, and record the work items that it submits to streams, with their copies.

    The items run only after the function has returned. So no item ends while others are submitted,
    and every wait is recorded.

    Args:
      runtime: a runtime of any backend. Other code must not use it meanwhile.
      step: the function. It submits work and returns without waiting for it; a wait would never
        end.

    Returns:
      The work items in order of submission, and the result of the function. All items have run.

    >>> import gpushard as gs, numpy as np
    >>> from gpushard.testing import runtime
    >>> with runtime(host_devices=2, host_domains=2, inline_bytes=0, small_bytes=0) as two:
    ...     x = gs.device_put(np.zeros(25, np.float32), two.devices[0]).block_until_ready()
    ...     work, y = record_work(two, lambda: gs.device_put(x, two.devices[1]))
    >>> [item.flows for item in work]
    [{(0, 1): 100}]
    """
    backend = runtime.backend
    recorder = _Recorder(backend)
    runtime.backend = cast(Backend, recorder)
    try:
        result = step()
    finally:
        recorder.release()
        runtime.backend = backend
    return recorder.work(), result


class _Recorder:
    """A backend that records calls and passes them on to another."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._held: list[Item] = []
        self._entries: list[tuple[Any, int, tuple[Any, ...], dict[Pair, int]]] = []
        self._current = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def enqueue(self, item: Item) -> None:
        """Hold an item back."""
        flows = self._enter(item.stream, item.tick, item.waits)
        item.run = functools.partial(self._run, item.run, flows)
        self._held.append(item)

    def copy_boxes(self, copies: Sequence[BoxCopy], domain: int) -> None:
        """Copy, and count the bytes for the item that this thread runs."""
        flows: dict[Pair, int] | None = getattr(self._current, "flows", None)
        if flows is None:
            flows = self._enter(CALLER, len(self._entries), ())
        for target, _, source in copies:
            flows[source, domain] = flows.get((source, domain), 0) + int(target.nbytes)
        self._backend.copy_boxes(copies, domain)

    def copy_phase(self, phase: Phase, operands: Sequence[LocalArray], domain: int) -> None:
        """Copy the boxes of a phase, and count their bytes."""
        self.copy_boxes(phase.copies(operands), domain)

    def release(self) -> None:
        """Submit the items that were held back, and wait for them."""
        for item in self._held:
            self._backend.enqueue(item)
        for item in self._held:
            item.stream.synchronize(item.tick)

    def work(self) -> list[Work]:
        """Return the recorded work."""
        return [Work(*entry) for entry in self._entries]

    def _enter(self, stream: Any, tick: int, waits: tuple[tuple[Any, int], ...]) -> dict[Pair, int]:
        flows: dict[Pair, int] = {}
        self._entries.append((stream, tick, waits, flows))
        return flows

    def _run(self, run: Callable[[], None], flows: dict[Pair, int]) -> None:
        self._current.flows = flows
        try:
            run()
        finally:
            self._current.flows = None
