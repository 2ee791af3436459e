"""Messages between GPUs, by NCCL.

The GPUs of a runtime are the ranks of one clique, made for the first message: any two of them can
exchange messages without the others, so that there is no second clique whose kernels could wait for
those of the first. A GPU is one rank, whatever it is divided into. All calls are made under the
submission lock, so every GPU gets its messages in one order.

What fails once is aborted and not used again: nobody knows which GPUs have begun.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpushard.runtime.cuda.driver.driver import Driver, StreamHandle

_log = logging.getLogger("gpushard.nccl")


class Parcel(NamedTuple):
    """Bytes that go from one GPU to another; GPUs by their positions."""

    sender: int
    source: int  # address
    receiver: int
    target: int  # address
    nbytes: int
    streams: tuple[StreamHandle, StreamHandle]  # of the sender, of the receiver


class Communicators:
    """Those of all GPUs, once they are needed.

    Args:
      driver: has the library.
      gpus: CUDA's ordinals.
    """

    def __init__(self, driver: Driver, gpus: Sequence[int]) -> None:
        self._driver = driver
        self._gpus = list(gpus)
        self._library: Any = None
        self._ranks: list[Any] | None = None  # none at all where there is no library, or it failed

    def are_ready(self) -> bool:
        """Whether they can be used; makes them when it is asked first, which may take seconds."""
        if self._ranks is None:
            try:
                self._library = self._driver.nccl()
                has = self._library is not None
                self._ranks = self._library.NcclCommunicator.initAll(self._gpus) if has else []
            except Exception as error:
                self._ranks = []
                _log.warning("NCCL cannot be used (%s); GPUs copy without it", error)
        return bool(self._ranks)

    def exchange(self, parcels: Sequence[Parcel]) -> None:
        """Give streams all parcels, which start together.

        Raises:
          Exception: NCCL refused; nobody knows what has been sent.
        """
        library, ranks, kind = self._library, self._ranks or [], self._library.NCCL_UINT8
        try:
            try:
                library.groupStart()  # within, lest an interrupt leaves a group open
                for sender, source, receiver, target, nbytes, (away, here) in parcels:
                    ranks[sender].send(source, nbytes, kind, receiver, away.ptr)
                    ranks[receiver].recv(target, nbytes, kind, sender, here.ptr)
            except BaseException:
                with contextlib.suppress(
                    Exception
                ):  # what is no rank keeps all of it from starting
                    ranks[0].send(0, 0, kind, -1, parcels[0].streams[0].ptr)
                with contextlib.suppress(Exception):
                    library.groupEnd()
                raise
            library.groupEnd()
        except BaseException as error:
            self._ranks = []
            for rank in ranks:
                with contextlib.suppress(Exception):
                    rank.abort()
            _log.warning("NCCL failed (%s); from now on GPUs copy without it", error)
            raise

    def close(self) -> None:
        """Let go of them, so that CuPy destroys them; what they were given is over."""
        self._ranks = []
