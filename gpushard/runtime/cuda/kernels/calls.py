"""Calls of elementwise kernels: their arguments are packed once but for addresses and numbers."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.runtime.cuda.driver.driver import Driver, StreamHandle
from gpushard.runtime.cuda.kernels.batches import THREADS
from gpushard.runtime.cuda.kernels.elementwise import SCALAR_BYTES, Signature
from gpushard.runtime.cuda.memory.slabs import Block
from gpushard.runtime.cuda.memory.stores import GpuStore
from gpushard.runtime.host.views import address
from gpushard.typing import HostArray, LocalArray, Shape

_ALIGNMENT = 256
"""Bytes that blocks in one memory are aligned to, as those of CUDA's own allocations are."""


class Calls:
    """Calls of a kernel on blocks of known shapes.

    Args:
      driver: launches.
      store: has the memory of the results.
      stream: where it launches.
      kernel: what the driver made for the signature.
      signature: of the kernel.
      shapes: of the blocks of each call.
      together: whether the results of all calls lie in one memory.
    """

    __slots__ = (
        "_addresses",
        "_argument",
        "_at_scalars",
        "_bytes",
        "_grid",
        "_kernel",
        "_launch",
        "_offsets",
        "_pack",
        "_parameters",
        "_pointers",
        "_results",
        "_store",
        "_stream",
        "nbytes",
    )

    def __init__(
        self,
        driver: Driver,
        store: GpuStore,
        stream: StreamHandle,
        kernel: Any,
        signature: Signature,
        shapes: Sequence[Shape],
        *,
        together: bool,
    ) -> None:
        self._launch = driver.launch_elementwise
        self._addresses = driver.addresses
        self._store = store
        self._stream = stream
        self._kernel = kernel
        counts = [math.prod(shape) for shape in shapes]
        self._results = tuple((shape, t) for t in signature.results for shape in shapes)
        offsets, end = [], 0
        for shape, dtype in self._results:
            offsets.append(end)
            end += -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        self._offsets = tuple(offsets) if together else None
        self.nbytes = end
        """Bytes of the memory for all results."""
        self._argument: HostArray = np.zeros(signature.nbytes, np.uint8)
        at = signature.at_counts
        self._argument[at : at + 8 * len(counts)].view(np.uint64)[:] = counts
        addresses = struct.Struct(f"{signature.arrays * len(counts)}Q")
        self._pack: Callable[..., None] = addresses.pack_into
        self._at_scalars = signature.at_scalars
        self._bytes = self._argument.data
        self._grid = -(-max(counts) // THREADS), len(counts)
        self._pointers = np.array([address(self._argument)], np.uint64)
        self._parameters = address(self._pointers)

    def results(self, raws: Sequence[Block]) -> list[LocalArray]:
        """Return the results of all calls, those of the first result first.

        Args:
          raws: the memory for all of them, or that of each.
        """
        view = self._store.view
        if self._offsets is None:
            return [view(raw, *kind) for raw, kind in zip(raws, self._results, strict=True)]
        return list(self._store.views(raws[0], self._offsets, self._results))

    def on(
        self, blocks: Sequence[LocalArray], raws: Sequence[Block], numbers: Sequence[np.generic]
    ) -> Launch:
        """Return the work of an item that makes the calls.

        Args:
          blocks: operands, all of the first one first, in the order of the calls.
          raws: as for `results`.
          numbers: the operands that are none, of the types of the signature.
        """
        places = self._addresses(blocks)
        if self._offsets is None:
            places += [raw.address for raw in raws]
        else:
            start = raws[0].address
            places += [start + offset for offset in self._offsets]
        return Launch(self, places, numbers)

    def launch(self, places: Sequence[int], numbers: Sequence[np.generic]) -> None:
        """Make the calls; under the submission lock, as all launches share one argument."""
        self._pack(self._bytes, 0, *places)
        at = self._at_scalars
        for number in numbers:
            data = number.tobytes()
            self._bytes[at : at + len(data)] = data
            at += SCALAR_BYTES
        self._launch(self._kernel, self._grid, self._parameters, self._stream)


class Launch:
    """The work of an item."""

    __slots__ = ("_calls", "_numbers", "_places")

    def __init__(self, calls: Calls, places: Sequence[int], numbers: Sequence[np.generic]) -> None:
        self._calls = calls
        self._places = places
        self._numbers = numbers

    def __call__(self) -> None:
        """Launch."""
        self._calls.launch(self._places, self._numbers)
