"""Allocate memory of GPUs, page-locked memory and ordinary host memory for the CUDA backend."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import numpy as np

from gpushard._runtime.cuda.driver.driver import Driver
from gpushard._runtime.cuda.memory.slabs import Slab, SlabRange, Slabs
from gpushard._runtime.host.keep_alive import address
from gpushard._runtime.host.store import allocate
from gpushard._typing import Dtype, HostArray, Kinds, LocalArray, LocalArrays, Shape

_PINNED_SLAB_BYTES = 8 << 20
"""Size of page-locked slabs: page-locking takes milliseconds, so many arrays share a slab."""


class GpuStore:
    """Allocates memory of one GPU."""

    def __init__(self, driver: Driver, gpu: int, slab_bytes: int) -> None:
        self._driver = driver
        self._gpu = gpu
        self.slabs = Slabs(
            functools.partial(driver.malloc, gpu), functools.partial(driver.free, gpu), slab_bytes
        )

    def allocate(self, nbytes: int) -> SlabRange:
        """Allocate a range of a slab, or raise MemoryError."""
        return self.slabs.take(nbytes)

    def free(self, raw: SlabRange) -> None:
        """Take back a range that nothing uses any more."""
        self.slabs.give(raw)

    def view(self, raw: SlabRange, shape: Shape, dtype: Dtype) -> LocalArray:
        """View the start of a range as a dense array."""
        return self.views(raw, (0,), ((shape, dtype),))[0]

    def views(self, raw: SlabRange, starts: Sequence[int], kinds: Kinds) -> list[LocalArray]:
        """View parts of a range as dense arrays.

        The views are cached with the range, because its next user often wants the same views. They
        do not own the memory: a claim does.
        """
        cached = raw.cached
        if cached is not None and cached[0] == kinds and cached[1] == starts:
            arrays: list[LocalArray] = cached[2]
            return arrays
        make, gpu, address, end = self._driver.array, self._gpu, raw.address, raw.nbytes
        arrays = [
            make(gpu, address + start, end - start, shape, dtype, None)
            for start, (shape, dtype) in zip(starts, kinds, strict=True)
        ]
        raw.cached = kinds, starts, arrays
        return arrays

    def empty(self, shape: Shape, dtype: Dtype) -> LocalArray:
        """Make an array without elements."""
        return self._driver.array(self._gpu, 0, 0, shape, dtype, None)


class PinnedStore:
    """Allocates page-locked memory of the host; its arrays are NumPy's."""

    def __init__(self, driver: Driver) -> None:
        self._bytes: dict[int, HostArray] = {}  # of each slab, by address
        self._driver = driver
        self.slabs = Slabs(self._malloc, self._free, _PINNED_SLAB_BYTES)

    def allocate(self, nbytes: int) -> SlabRange:
        """Allocate a range of a slab, or raise MemoryError."""
        return self.slabs.take(nbytes)

    def view(self, raw: SlabRange, shape: Shape, dtype: Dtype) -> HostArray:
        """View the start of a range as a dense array."""
        slab: Slab = raw.slab
        return np.ndarray(shape, dtype, self._bytes[slab.address], raw.address - slab.address)

    def views(self, raw: SlabRange, starts: Sequence[int], kinds: Kinds) -> LocalArrays:
        """View parts of a range as dense arrays."""
        slab: Slab = raw.slab
        data, offset = self._bytes[slab.address], raw.address - slab.address
        places = zip(kinds, starts, strict=True)
        return [np.ndarray(shape, dtype, data, offset + start) for (shape, dtype), start in places]

    def empty(self, shape: Shape, dtype: Dtype) -> HostArray:
        """Return an array without elements."""
        return np.empty(shape, dtype)

    def _malloc(self, nbytes: int) -> int:
        start = self._driver.malloc_host(nbytes)
        self._bytes[start] = bytes_at(start, nbytes)
        return start

    def _free(self, start: int) -> None:
        del self._bytes[start]
        self._driver.free_host(start)


class PageableStore:
    """Allocates ordinary memory of the host."""

    def allocate(self, nbytes: int) -> HostArray:
        """Allocate a byte buffer."""
        return allocate(nbytes)

    def view(self, raw: HostArray, shape: Shape, dtype: Dtype) -> HostArray:
        """View the start of a buffer as a dense array."""
        return np.ndarray(shape, dtype, raw)

    def empty(self, shape: Shape, dtype: Dtype) -> HostArray:
        """Return an array without elements."""
        return np.empty(shape, dtype)


def bytes_at(start: int, nbytes: int) -> HostArray:
    """Wrap memory of the host as an array that does not own it."""
    return np.ctypeslib.as_array((ctypes.c_ubyte * nbytes).from_address(start))


def address_of(driver: Driver, array: LocalArray) -> int:
    """Return the address of the first element of an array of the host or of a GPU."""
    return address(array) if isinstance(array, np.ndarray) else driver.address(array)


def extent_of(driver: Driver, array: LocalArray) -> tuple[int, int]:
    """Return the address and the bytes of the whole memory that an array is a part of."""
    while isinstance(array.base, type(array)):
        array = array.base
    return address_of(driver, array), reach_of(array)


def reach_of(array: LocalArray) -> int:
    """Count the bytes from the first to the last element of an array without negative strides."""
    if not array.size:
        return 0
    steps = zip(array.shape, array.strides, strict=True)
    return int(array.itemsize + sum((size - 1) * step for size, step in steps))
