"""Send messages between GPUs by NCCL.

The GPUs of a runtime are the ranks of one clique, which is made for the first message. Any two of
them can exchange messages without the others. So a second clique is never needed, and no kernels of
two cliques can wait for each other. A GPU is one rank, even if it is divided into devices. All
calls are made under the submission lock, so every GPU gets its messages in the same order.

After a failure the clique is aborted and not used again, because it is unknown which GPUs have
begun.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpushard._runtime.cuda.driver.driver import Driver, StreamHandle

_log = logging.getLogger("gpushard.nccl")


class Parcel(NamedTuple):
    """Bytes to send from one GPU to another; GPUs are given by position."""

    sender: int
    source: int  # address
    receiver: int
    target: int  # address
    nbytes: int
    streams: tuple[StreamHandle, StreamHandle]  # of the sender, of the receiver


class Communicators:
    """The NCCL communicators of all GPUs, made when they are first needed.

    Args:
      driver: gives the library.
      gpus: CUDA's ordinals.
    """

    def __init__(self, driver: Driver, gpus: Sequence[int]) -> None:
        self._driver = driver
        self._gpus = list(gpus)
        self._library: Any = None
        self._ranks: list[Any] | None = None  # empty without the library, or after a failure

    def are_ready(self) -> bool:
        """Whether communicators can be used; the first call makes them, which may take seconds."""
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
        """Send parcels, which start together.

        Raises:
          Exception: NCCL refused; it is unknown which parcels were sent.
        """
        library, ranks, kind = self._library, self._ranks or [], self._library.NCCL_UINT8
        try:
            try:
                library.groupStart()  # inside `try`, so that an interrupt leaves no group open
                for sender, source, receiver, target, nbytes, (away, here) in parcels:
                    ranks[sender].send(source, nbytes, kind, receiver, away.ptr)
                    ranks[receiver].recv(target, nbytes, kind, sender, here.ptr)
            except BaseException:
                with contextlib.suppress(Exception):
                    # A send to a rank that does not exist keeps the whole group from starting.
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
        """Drop the communicators, so that CuPy destroys them; their work must be over."""
        self._ranks = []
