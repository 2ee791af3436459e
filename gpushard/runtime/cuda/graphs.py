"""Launches that come again in the same order, replayed as one graph of CUDA's.

A graph has the addresses and numbers in it that its launches had. So there is one for each set of
addresses, made when that comes for the second time: in a loop memory goes round, and what never
comes again costs no more than its launches. A graph holds no memory of arrays. It is launched only
for work that has claimed all that it touches, at the very same addresses.

It is made of what a stream notes that nobody else gives work to, on which nothing runs. Nothing is
allocated, waited for or asked meanwhile.
"""

from __future__ import annotations

import functools
import logging
from collections import deque
from collections.abc import Sequence

import numpy as np

from gpushard.runtime.cuda.driver.driver import Driver, GraphHandle, StreamHandle
from gpushard.runtime.cuda.kernels.calls import Calls, Direct
from gpushard.runtime.cuda.memory.slabs import Block
from gpushard.typing import LocalArrays

MOST_KEPT = 8
"""Graphs of a sequence of launches."""

_MOST_SEEN = 4 * MOST_KEPT
"""Sets of addresses that are remembered to have come once."""

_log = logging.getLogger("gpushard.jit")

Launch = tuple[Calls, Sequence[tuple[int, int]], Sequence[np.generic]]
"""A launch, for each of its arrays (which address of all, bytes behind it), and its numbers."""


class Graphs:
    """What all sequences on GPUs share: streams that note, and graphs that nobody needs any more.

    Args:
      driver: makes the calls.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.dead: deque[GraphHandle] = deque()
        self._warned = False

    def collect(self) -> None:
        """Give back graphs that nobody needs; those that were launched end first."""
        while self.dead:
            self.driver.drop_graph(self.dead.popleft())

    def warn(self, what: str, error: Exception) -> None:
        """Say once that launches are made one by one."""
        if not self._warned:
            self._warned = True
            _log.warning("%s a CUDA graph failed, kernels are launched one by one: %s", what, error)


class _Graph:
    """A graph, which goes to those that nobody needs when nobody has it."""

    __slots__ = ("_dead", "handle", "recent")

    def __init__(self, handle: GraphHandle, dead: deque[GraphHandle]) -> None:
        self.handle = handle
        self.recent = True
        self._dead = dead

    def __del__(self) -> None:
        self._dead.append(self.handle)  # a call of C; no call of CUDA


class Replays:
    """Launches one after the other on a stream.

    Args:
      graphs: what others have, too.
      stream: where they go.
      noting: a stream of the same GPU, or share of one, that only notes.
      launches: they.
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

    def on(self, blocks: LocalArrays, raws: Sequence[Block]) -> Direct:
        """Return the work of an item that makes the launches."""
        key = (*self._driver.addresses(blocks), *[raw.address for raw in raws])
        return Direct(self._run, key)

    def _run(self, key: tuple[int, ...]) -> None:
        """Launch everything at these addresses; under the submission lock."""
        graph = self._kept.get(key)
        if graph is None and self._works and self._comes_again(key):
            graph = self._captured(key)
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
        """Whether addresses were here before, and there is room for a graph."""
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
        if graph.recent:  # it gets a second chance, and who asks does without
            graph.recent = False
            self._kept[oldest] = graph
            return False
        return True

    def _captured(self, key: tuple[int, ...]) -> _Graph | None:
        """Return the graph of the launches at these addresses; None if it cannot be made."""
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
        """Make no graphs any more.

        Raises:
          Exception: the error itself, if it is one that the GPU does not survive.
        """
        if self._driver.is_fatal(error):
            raise error
        self._works = False
        self._kept.clear()
        self._graphs.warn(what, error)
