"""Keep track of whether this process can still use its GPUs, and tell users why not."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from gpushard._runtime.cuda.driver.driver import Driver
from gpushard.errors import DeviceLostError

_process = os.getpid()
"""The id of this process. To ask the system for it takes longer than the rest of a check."""


def _update_process() -> None:
    global _process
    _process = os.getpid()


os.register_at_fork(after_in_child=_update_process)


class Health:
    """Remembers the process that CUDA belongs to, and the error that ended the use of its GPUs."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.process = _process  # the process that CUDA belongs to
        self._lost: str | None = None

    @property
    def is_lost(self) -> bool:
        """Whether a GPU has failed."""
        return self._lost is not None

    @property
    def is_usable(self) -> bool:
        """Whether this process can call CUDA."""
        return self._lost is None and _process == self.process

    def note(self, error: BaseException) -> BaseException:
        """Return the error to raise for an error of CUDA: the same one, or that GPUs are lost."""
        if not self._driver.is_fatal(error):
            return error
        self._lost = self._lost or str(error)
        return self._lost_error(self._lost)

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Check as `check` does, and note errors that a `with` block raises."""
        self.check()
        try:
            yield
        except Exception as error:
            noted = self.note(error)
            if noted is error:
                raise
            raise noted from error

    def check(self) -> None:
        """Check that this process can call CUDA.

        Raises:
          DeviceLostError: a GPU failed, or the process was forked.
        """
        if self._lost is not None or _process != self.process:
            self.check_process()
            raise self._lost_error(str(self._lost))

    def check_process(self) -> None:
        """Check that CUDA belongs to this process.

        Raises:
          DeviceLostError: it was forked from a process that uses CUDA.
        """
        if _process != self.process:
            raise DeviceLostError(
                f"process {_process} was forked from process {self.process}, which uses CUDA; "
                'a forked child cannot. Start it with multiprocessing.get_context("spawn")',
                parent=self.process,
            )

    def _lost_error(self, cause: str) -> DeviceLostError:
        return DeviceLostError(
            f"a GPU failed ({cause}); nothing on the GPUs of this process can be used any more. "
            "Start a new process",
            cause=cause,
        )
