"""Prepare calls of kernels: arguments are packed once; only addresses and numbers change."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._runtime.cuda.driver.driver import Driver, StreamHandle
from gpushard._runtime.cuda.kernels.elementwise import SCALAR_BYTES, Signature
from gpushard._runtime.cuda.memory.slabs import SlabRange
from gpushard._runtime.cuda.memory.stores import GpuStore
from gpushard._runtime.host.keep_alive import address
from gpushard._runtime.memory import packed
from gpushard._typing import Dtype, HostArray, Kinds, LocalArray, LocalArrays, Shape


class _Results:
    """The memory for results of calls of known shapes."""

    __slots__ = ("_kinds", "_offsets", "_store", "nbytes")

    nbytes: int
    """Bytes of the memory for all results."""

    def __init__(self, store: GpuStore, kinds: Kinds, *, together: bool) -> None:
        self._store = store
        self._kinds = tuple(kinds)
        offsets, self.nbytes = packed(math.prod(shape) * t.itemsize for shape, t in self._kinds)
        self._offsets = offsets if together else None

    def views(self, raws: Sequence[SlabRange]) -> list[LocalArray]:
        """View the results of all calls: first of all calls the first result, then the second."""
        if self._offsets is not None:
            return self._store.views(raws[0], self._offsets, self._kinds).copy()
        view = self._store.view
        return [view(raw, *kind) for raw, kind in zip(raws, self._kinds, strict=True)]


class Direct(functools.partial[None]):
    """The work of an item that needs no scope of CuPy: it passes its stream to the driver."""

    __slots__ = ()


class Calls(_Results):
    """Calls of a kernel on blocks of known shapes, by one launch.

    The results are in one memory if `together`, otherwise each in its own. `counts` are lengths for
    the kernel: the first length of all calls, then the second. The grid is (blocks of threads for
    each call, calls). The last result of the first call starts with `cleared` bytes, which are set
    to 0 before the kernel starts.
    """

    __slots__ = (
        "_addresses", "_argument", "_bytes", "_clear", "_first", "_launcher", "_pointers",
        "at_scalars", "launch", "put", "stream",
    )  # fmt: skip
    replays = True

    def __init__(
        self,
        driver: Driver,
        store: GpuStore,
        stream: StreamHandle,
        kernel: Any,
        signature: Signature,
        kinds: Kinds,
        counts: Sequence[int],
        grid: tuple[int, int],
        *,
        together: bool,
        cleared: int = 0,
    ) -> None:
        super().__init__(store, kinds, together=together)
        self.stream = stream
        self._clear: Callable[..., None] | None = None
        if cleared:
            self._clear = functools.partial(driver.clear, nbytes=cleared)
        self._first = (signature.arrays - 1) * grid[1]
        self._addresses = driver.addresses
        self._argument: HostArray = np.zeros(signature.nbytes, np.uint8)
        at = signature.at_counts
        self._argument[at : at + 8 * len(counts)].view(np.uint64)[:] = counts
        self._bytes = self._argument.data
        pack = struct.Struct(f"{signature.arrays * grid[1]}Q").pack_into
        self.put: Callable[..., None] = functools.partial(pack, self._bytes, 0)
        """Writes addresses into the argument."""
        self.at_scalars = signature.at_scalars
        """Offset of the numbers in the argument."""
        self._pointers = np.array([address(self._argument)], np.uint64)
        self._launcher = functools.partial(driver.launcher, kernel, grid, address(self._pointers))
        self.launch = self._launcher(stream)
        """Launches the kernel with the argument as it is now."""

    def on(
        self, blocks: LocalArrays, raws: Sequence[SlabRange], numbers: Sequence[np.generic]
    ) -> tuple[list[LocalArray], Direct]:
        """Make the results of all calls, and the work of the item that computes them."""
        places = self._addresses(blocks)
        if self._offsets is None:
            places += [raw.address for raw in raws]
        else:
            start = raws[0].address
            for offset in self._offsets:
                places.append(start + offset)
        return self.views(raws), Direct(self.launch_on, self.stream, places, numbers)

    def launch_on(
        self, stream: StreamHandle, places: Sequence[int], numbers: Sequence[np.generic]
    ) -> None:
        """Launch the kernel; under the submission lock, as all launches share one argument."""
        self.put(*places)
        if self._clear is not None:
            self._clear(places[self._first], stream=stream)
        at = self.at_scalars
        for number in numbers:
            data = number.tobytes()
            self._bytes[at : at + len(data)] = data
            at += SCALAR_BYTES
        if stream is self.stream:
            self.launch()
        else:
            self._launcher(stream)()


class Products(_Results):
    """Products of two matrices, dense in row-major order, by one call of cuBLAS.

    In front of the first matrix there may be more dims, as its rows.

    For several products, cuBLAS reads the addresses from the GPU: they lie behind the results.
    """

    __slots__ = ("_addresses", "_at", "_put", "_table", "multiply", "multiply_all", "upload")
    replays = False  # CuPy refuses to call cuBLAS while a stream captures

    def __init__(
        self,
        driver: Driver,
        store: GpuStore,
        stream: StreamHandle,
        shapes: Sequence[Shape],
        depth: int,
        dtype: Dtype,
        *,
        together: bool,
    ) -> None:
        super().__init__(store, [(shape, dtype) for shape in shapes], together=together)
        count, (*lead, m) = len(shapes), shapes[0]
        sizes = math.prod(lead), depth, m
        self.multiply: Callable[..., None] = functools.partial(driver.multiply, stream, sizes)
        """Multiplies two arrays on the stream; the third array gets the result."""
        self._addresses = driver.addresses
        self._table = np.zeros(3 * count, np.uint64)
        self._at = self.nbytes
        self._put = functools.partial(struct.Struct(f"{3 * count}Q").pack_into, self._table.data, 0)
        if count > 1:
            self.nbytes += self._table.nbytes
        self.multiply_all = functools.partial(driver.multiply_all, stream, dtype, sizes, count)
        """Computes all products on the stream; takes the place of the addresses on the GPU."""
        self.upload = functools.partial(driver.upload, data=self._table, stream=stream)
        """Copies the addresses to that place."""

    def on(
        self, blocks: LocalArrays, raws: Sequence[SlabRange], numbers: Sequence[np.generic]
    ) -> tuple[list[LocalArray], Direct]:
        """Make the results, and the work of the item that computes them; as `Calls.on`."""
        values = self.views(raws)
        if len(values) == 1:
            return values, Direct(self.multiply, *blocks, *values)
        places = self._addresses((*blocks, *values))
        return values, Direct(self._multiply_all, raws[0].address + self._at, places)

    def _multiply_all(self, table: int, places: Sequence[int]) -> None:
        """Multiply all pairs; under the submission lock, as all calls share one table."""
        self._put(*places)
        self.upload(table)
        self.multiply_all(table)
