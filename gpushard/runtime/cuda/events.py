"""Events of CUDA streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gpushard.runtime.cuda.driver import Driver, EventHandle


class CudaEvent:
    """A point behind some item of a stream. Its handle goes back to a pool when nobody has it.

    Args:
      driver: makes the calls.
      handle: the event, which is set.
      tick: the last item that it covers.
      pool: where the handle goes to.
      lost: called with an error after which no GPU can be used; raises what users are told.
    """

    __slots__ = ("_driver", "_lost", "_pool", "handle", "tick")

    def __init__(
        self,
        driver: Driver,
        handle: EventHandle,
        tick: int,
        pool: deque[EventHandle],
        lost: Callable[[BaseException], None],
    ) -> None:
        self._driver = driver
        self._pool = pool
        self._lost = lost
        self.handle = handle
        self.tick = tick

    def __del__(self) -> None:
        self._pool.append(self.handle)  # a call of C; no call of CUDA

    def query(self) -> bool:
        """Whether everything up to the tick has run; True also when the device is lost."""
        try:
            return self._driver.is_done(self.handle)
        except Exception as error:
            if not self._driver.is_fatal(error):
                raise
            return True

    def synchronize(self) -> None:
        """Wait until it has.

        Raises:
          DeviceLostError: the GPU failed.
        """
        try:
            self._driver.synchronize(self.handle)
        except Exception as error:
            if not self._driver.is_fatal(error):
                raise
            self._lost(error)
