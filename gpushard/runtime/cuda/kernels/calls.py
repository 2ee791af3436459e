"""Calls of elementwise kernels: their arguments are packed once but for addresses and numbers."""

from __future__ import annotations

import functools
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
        "_bytes",
        "_offsets",
        "_pack",
        "_pointers",
        "_results",
        "_store",
        "at_scalars",
        "launch",
        "nbytes",
        "put",
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
        self._addresses = driver.addresses
        self._store = store
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
        self._bytes = self._argument.data
        pack = struct.Struct(f"{signature.arrays * len(counts)}Q").pack_into
        self.put: Callable[..., None] = functools.partial(pack, self._bytes, 0)
        """Writes addresses into the argument."""
        self.at_scalars = signature.at_scalars
        """Where numbers go in it."""
        self._pointers = np.array([address(self._argument)], np.uint64)
        grid = -(-max(counts) // THREADS), len(counts)
        self.launch = driver.launcher(kernel, grid, address(self._pointers), stream)
        """Launches with the argument as it is."""

    def put_number(self, at: int, number: np.generic) -> None:
        """Write a number into the argument."""
        data = number.tobytes()
        self._bytes[at : at + len(data)] = data

    def on(
        self, blocks: Sequence[LocalArray], raws: Sequence[Block], numbers: Sequence[np.generic]
    ) -> tuple[list[LocalArray], Launch]:
        """Return the results of all calls and the work of an item that makes them.

        Args:
          blocks: operands, all of the first one first, in the order of the calls; so are results.
          raws: the memory for all results, or that of each.
          numbers: the operands that are none, of the types of the signature.
        """
        places = self._addresses(blocks)
        offsets, store = self._offsets, self._store
        if offsets is None:
            places += [raw.address for raw in raws]
            view = store.view
            values = [view(raw, *kind) for raw, kind in zip(raws, self._results, strict=True)]
        else:
            (raw,) = raws
            start = raw.address
            for offset in offsets:
                places.append(start + offset)
            values = list(store.views(raw, offsets, self._results))
        return values, Launch(self, places, numbers)


class Launch:
    """The work of an item, which needs no scope of CuPy and tells the driver its stream itself.

    It is called under the submission lock, as all launches of `calls` share one argument.
    """

    __slots__ = ("_calls", "_numbers", "_places")

    def __init__(self, calls: Calls, places: Sequence[int], numbers: Sequence[np.generic]) -> None:
        self._calls = calls
        self._places = places
        self._numbers = numbers

    def __call__(self) -> None:
        """Launch."""
        calls = self._calls
        calls.put(*self._places)
        if self._numbers:
            at = calls.at_scalars
            for number in self._numbers:
                calls.put_number(at, number)
                at += SCALAR_BYTES
        calls.launch()
