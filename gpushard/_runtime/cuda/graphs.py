"""Replay launches that are repeated in the same order as one CUDA graph.

A graph contains the addresses and numbers of its launches. So there is a graph for each set of
addresses; it is made when the set comes for the second time. In a loop, memory is reused and sets
come again. A set that comes only once costs no more than its launches. A graph owns no memory of
arrays. It is launched only for work that has claimed all its memory, at exactly these addresses.

A graph is captured on a stream of its own, to which no other work is given and on which nothing
runs. During the capture nothing is allocated, waited for or queried.
"""

from __future__ import annotations

import functools
import logging
from collections import deque
from collections.abc import Sequence

import numpy as np

from gpushard._runtime.cuda.driver.driver import Driver, GraphHandle, StreamHandle
from gpushard._runtime.cuda.kernels.calls import Calls, Direct
from gpushard._runtime.cuda.memory.slabs import SlabRange
from gpushard._typing import LocalArrays

MOST_KEPT = 8
"""Most graphs of a sequence of launches."""

_MOST_SEEN = 4 * MOST_KEPT
"""Most sets of addresses that have come once and are remembered."""

_log = logging.getLogger("gpushard.jit")

Launch = tuple[Calls, Sequence[tuple[int, int]], Sequence[np.generic]]
"""A launch: its calls; for each array (number of an address, offset in bytes); and its numbers."""


class Graphs:
    """State shared by all sequences of launches: dead graphs, and whether a warning was given.

    Args:
      driver: makes the calls.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.dead: deque[GraphHandle] = deque()
        self._warned = False

    def collect(self) -> None:
        """Destroy dead graphs; their launches end first."""
        while self.dead:
            self.driver.drop_graph(self.dead.popleft())

    def warn(self, what: str, error: Exception) -> None:
        """Log once that kernels are launched one by one from now on."""
        if not self._warned:
            self._warned = True
            _log.warning("%s a CUDA graph failed, kernels are launched one by one: %s", what, error)


class _Graph:
    """A graph; when this object dies, the handle goes to the dead graphs, to be destroyed later."""

    __slots__ = ("_dead", "handle", "recent")

    def __init__(self, handle: GraphHandle, dead: deque[GraphHandle]) -> None:
        self.handle = handle
        self.recent = True
        self._dead = dead

    def __del__(self) -> None:
        self._dead.append(self.handle)  # a call of C; no call of CUDA


class Replays:
    """A sequence of launches on a stream, replayed as a graph if its addresses come again.

    Args:
      graphs: the state shared by all sequences.
      stream: the stream that gets the launches.
      noting: a stream of the same GPU, or share of one, that is used only for captures.
      launches: the launches, in order.
    """

    def __init__(
        self,
        graphs: Graphs,
        stream: StreamHandle,
        noting: StreamHandle,
        launches: Sequence[Launch],
    ) -> None:
        self._graphs = graphs
        self._driver = graphs.driver
        self._stream = stream
        self._noting = noting
        self._launches = launches
        self._kept: dict[tuple[int, ...], _Graph] = {}
        self._seen: dict[tuple[int, ...], None] = {}  # the oldest first
        self._works = True  # until a graph fails

    def on(self, blocks: LocalArrays, raws: Sequence[SlabRange]) -> Direct:
        """Return the work of an item that makes the launches."""
        key = (*self._driver.addresses(blocks), *[raw.address for raw in raws])
        return Direct(self._run, key)

    def _run(self, key: tuple[int, ...]) -> None:
        """Launch everything at these addresses; under the submission lock."""
        graph = self._kept.get(key)
        if graph is None and self._works and self._comes_again(key):
            graph = self._capture(key)
        if graph is not None and self._works:
            graph.recent = True
            try:
                self._driver.launch_graph(graph.handle, self._stream)
                return
            except Exception as error:
                self._give_up("launching", error)
        self._launch(key, self._stream)

    def _launch(self, key: tuple[int, ...], stream: StreamHandle) -> None:
        for calls, places, numbers in self._launches:
            calls.launch_on(stream, [key[n] + start for n, start in places], numbers)

    def _comes_again(self, key: tuple[int, ...]) -> bool:
        """Whether these addresses have come before, and there is room for a graph."""
        seen = self._seen
        if key not in seen:
            if len(seen) >= _MOST_SEEN:
                del seen[next(iter(seen))]
            seen[key] = None
            return False
        if len(self._kept) < MOST_KEPT:
            return True
        oldest = next(iter(self._kept))
        graph = self._kept.pop(oldest)
        if graph.recent:  # the oldest gets a second chance, and this time there is no new graph
            graph.recent = False
            self._kept[oldest] = graph
            return False
        return True

    def _capture(self, key: tuple[int, ...]) -> _Graph | None:
        """Capture the launches at these addresses as a graph; None if that fails."""
        self._graphs.collect()
        launch = functools.partial(self._launch, key, self._noting)
        try:
            handle = self._driver.capture(self._noting, launch)
        except Exception as error:
            self._give_up("capturing", error)
            return None
        graph = self._kept[key] = _Graph(handle, self._graphs.dead)
        return graph

    def _give_up(self, what: str, error: Exception) -> None:
        """Stop using graphs for this sequence.

        Raises:
          Exception: the error itself, if the GPU does not survive it.
        """
        if self._driver.is_fatal(error):
            raise error
        self._works = False
        self._kept.clear()
        self._graphs.warn(what, error)
