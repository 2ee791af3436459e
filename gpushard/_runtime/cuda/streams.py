"""CUDA streams with their state, and events on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from gpushard._runtime.claims import Claim
from gpushard._runtime.cuda.driver.driver import Driver, EventHandle, StreamHandle


class Queue:
    """The CUDA stream of a `Stream`, and its state."""

    __slots__ = (
        "chip",
        "domain",
        "handle",
        "launched",
        "noting",
        "recorded_at",
        "returned",
        "spare",
    )

    def __init__(
        self, chip: int, domain: int, handle: StreamHandle, noting: Callable[[], StreamHandle]
    ) -> None:
        self.noting = noting
        """Returns a stream of the same kind that is used only to capture graphs."""
        self.chip = chip
        self.domain = domain
        self.handle = handle
        self.launched = 0  # the last item that was given to CUDA
        self.recorded_at = 0  # time of the last event
        # Memory that a library released within the current item, by size.
        self.spare: dict[int, deque[Claim]] = {}
        # Memory that work of callers released, until the next item.
        self.returned: deque[Claim] = deque()


class Lease:
    """Temporary memory of the current item or of a caller's work, which may use it again later.

    Args:
      claim: the claim to the memory.
      spare: gets the claim when this object dies.
    """

    __slots__ = ("_spare", "claim")

    def __init__(self, claim: Claim, spare: deque[Claim]) -> None:
        self.claim = claim
        self._spare = spare

    def __del__(self) -> None:
        self._spare.append(self.claim)  # a call of C


class EventPool:
    """Unused events, for reuse: to make an event takes longer than to record it."""

    def __init__(self, driver: Driver, ordinals: Sequence[int]) -> None:
        self._driver = driver
        self._ordinals = ordinals
        # Unused events of each GPU: those that have come, and those that nobody waits for.
        self.free: list[deque[EventHandle]] = [deque() for _ in ordinals]

    def take(self, chip: int) -> EventHandle:
        """Take an event of the GPU at a position, or make one."""
        try:
            return self.free[chip].pop()
        except IndexError:
            return self._driver.event(self._ordinals[chip])


class CudaEvent:
    """A point behind an item of a stream; when this object dies, its handle goes back to a pool.

    Args:
      driver: makes the calls.
      handle: the event, already recorded.
      tick: the last item that it covers.
      pool: gets the handle.
      note: returns the error to raise for an error; another one if the GPU is lost.
    """

    __slots__ = ("_driver", "_note", "_pool", "handle", "tick")

    def __init__(
        self,
        driver: Driver,
        handle: EventHandle,
        tick: int,
        pool: deque[EventHandle],
        note: Callable[[BaseException], BaseException],
    ) -> None:
        self._driver = driver
        self._pool = pool
        self._note = note
        self.handle = handle
        self.tick = tick

    def __del__(self) -> None:
        self._pool.append(self.handle)  # a call of C; no call of CUDA

    def query(self) -> bool:
        """Whether everything up to the tick has run; True also when the device is lost."""
        try:
            return self._driver.is_done(self.handle)
        except Exception as error:
            if self._note(error) is error:
                raise
            return True

    def synchronize(self) -> None:
        """Wait until everything up to the tick has run.

        Raises:
          DeviceLostError: the GPU failed.
        """
        try:
            self._driver.synchronize(self.handle)
        except Exception as error:
            raise self._note(error) from None


class LostEvent:
    """Stands for an event of a failed GPU, which will never come."""

    __slots__ = ("_check", "tick")

    def __init__(self, tick: int, check: Callable[[], None]) -> None:
        self.tick = tick
        self._check = check

    @property
    def handle(self) -> EventHandle:
        """Raise DeviceLostError: no stream can wait for it."""
        self._check()

    def query(self) -> bool:
        """Return True: waiting is useless."""
        return True

    def synchronize(self) -> None:
        """Raise DeviceLostError."""
        self._check()
