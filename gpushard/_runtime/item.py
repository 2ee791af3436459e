"""Items: work for a stream."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from gpushard._runtime.failures import fail_memories, pass_on
from gpushard._runtime.memory import Memory
from gpushard._runtime.stream import Stream, Tick

_NOTHING: Mapping[Memory, int] = {}


class Item:
    """Work for a stream: what to run, after what, and whose content it decides.

    It holds memories, never claims, so that pending work keeps no memory from being freed.
    """

    __slots__ = (
        "effect",
        "name",
        "part",
        "reads",
        "run",
        "scoped",
        "stream",
        "tick",
        "until",
        "waits",
        "writes",
    )

    def __init__(
        self,
        name: str,
        run: Callable[[], None],
        stream: Stream,
        tick: int,
        waits: tuple[Tick, ...] = (),
        reads: Sequence[Memory] = (),
        writes: Sequence[Memory] = (),
        part: int = 0,
        until: Mapping[Memory, int] | None = None,
        effect: bool = False,
        scoped: bool = True,
    ) -> None:
        self.name = name
        self.run = run
        self.stream = stream
        self.tick = tick
        self.waits = waits
        self.reads = reads
        self.writes = writes
        self.part = part
        self.until = _NOTHING if until is None else until
        self.effect = effect
        self.scoped = scoped

    def execute(self) -> BaseException | None:
        """Run; an error, its own or of what it reads, becomes the error of all it writes.

        Returns:
          What it raised, for a caller that lends its own thread and has to go on with an interrupt.
          That gathers frames on its way, so what it writes keeps another one.
        """
        error = None
        for memory in self.reads:
            if memory.error is not None:
                error = memory.error
                break
        if error is None:
            handled = sys.exception()
            try:
                self.run()
            except KeyboardInterrupt as raised:
                self.fail(KeyboardInterrupt(*raised.args))
                return raised
            except BaseException as raised:  # whatever it is, it belongs to the readers
                self.fail(raised, handled)
                return raised
        else:
            pass_on(self.writes, error)
        return None

    def fail(self, cause: BaseException, handled: BaseException | None = None) -> None:
        """Make an exception the error of all that the item writes; see `fail_memories`."""
        fail_memories(self.writes, self.name, cause, handled)
