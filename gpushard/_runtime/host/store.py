"""Virtual devices on NumPy memory."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._runtime.backend import (
    Claiming,
    Committing,
    DeviceInfo,
    Memories,
    NestKernel,
    T,
    Tasks,
)
from gpushard._runtime.copy_phase import Message
from gpushard._runtime.host import dlpack
from gpushard._runtime.host.keep_alive import address, keep
from gpushard._runtime.nests import Nest, Op
from gpushard._runtime.stream import Stream, Tick
from gpushard._runtime.work_sharing import Pace
from gpushard._typing import Dtype, HostArray, Kinds, Shape
from gpushard.config import Settings

ALIGNMENT = 64
"""Bytes that every allocation is aligned to: a cache line, and any vector."""


def allocate(nbytes: int) -> HostArray:
    """Make a byte buffer aligned to `ALIGNMENT`."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    offset = -address(raw) % ALIGNMENT
    return raw[offset : offset + nbytes]


class NumpyStore:
    """The devices and the memory of backends whose data are NumPy arrays.

    Args:
      settings: of these, host_devices, host_domains and compiler.
    """

    platform = "cpu"
    namespace = np
    listens = False

    def __init__(self, settings: Settings) -> None:
        self._devices = settings.host_devices
        self._domains = settings.host_domains
        self._compiler = settings.compiler

    def describe(self) -> list[DeviceInfo]:
        """List the virtual devices; consecutive ones share a domain."""
        per_domain = self._devices // self._domains
        return [self._info(i, i // per_domain) for i in range(self._devices)]

    def _info(self, device: int, domain: int) -> DeviceInfo:
        """Describe a device whose memory is the host's."""
        return DeviceInfo("host", 0, device, domain, domain, domain)

    def computes(self, dtype: Dtype) -> bool:
        """Whether NumPy knows a type: always."""
        return True

    def reaches(self, domain: int, source: int) -> bool:
        """Whether `domain` can read `source`: always."""
        return True

    def sends(self, domain: int, source: int) -> bool:
        """Whether memory goes from `source` to `domain` by messages: never."""
        return False

    def exchange(self, messages: Sequence[Message]) -> None:
        """Nothing is sent."""
        raise AssertionError("memory of the host is read where it lies")

    def calls(self, *of: Any, together: bool) -> None:
        """Leave it to NumPy's functions, block by block."""

    def replay(self, *of: Any) -> Any:
        """Do nothing: there are no `calls`."""

    def fuses(self, op: Op, types: Sequence[Dtype], length: int) -> bool:
        """Whether `calls` has kernels of an operation with others: of none."""
        return False

    def compile(self, nest: Nest, blocks: Sequence[Sequence[Shape]]) -> NestKernel:
        """Return a nest as a function in C, if it is large, or of NumPy's functions."""
        # Few programs have nests, and what compiles them imports much.
        kernels = importlib.import_module("gpushard._runtime.host.nests.choose_kernel")
        kernel: NestKernel = kernels.host_kernel(self._compiler, nest, blocks)
        return kernel

    def call_among(self, calls: int, function: Callable[[], T]) -> T:
        """Call a function."""
        return function()

    def run_now(self, calls: Tasks, reads: Memories, writes: Memories, pace: Pace) -> None:
        """Run the calls one after the other."""
        for call in calls:
            call()

    def prefetch(self, read: Callable[[], object]) -> None:
        """Leave it to whoever needs the value."""

    def allocate(self, domain: int, nbytes: int) -> HostArray:
        """Make an aligned byte buffer."""
        return allocate(nbytes)

    def check(self) -> None:
        """Do nothing: the host works, or nothing does."""

    def recall(self) -> None:
        """Do nothing: who has host memory is known by its references."""

    def empty_cache(self) -> int:
        """Do nothing: only pools keep memory."""
        return 0

    def free(self, raw: HostArray) -> None:
        """Do nothing: NumPy's memory goes with its last reference."""

    def released(self, raw: HostArray, ticks: Sequence[Tick]) -> None:
        """Do nothing."""

    def taken(self, raw: HostArray) -> None:
        """Do nothing."""

    def empty(self, domain: int, shape: Shape, dtype: Dtype) -> HostArray:
        """Return an array without elements."""
        return np.empty(shape, dtype)

    def view(self, raw: HostArray, shape: Shape, dtype: Dtype) -> HostArray:
        """Return the start of a buffer as a C-contiguous array."""
        return np.ndarray(shape, dtype, raw)

    def views(self, raw: HostArray, starts: Sequence[int], kinds: Kinds) -> list[HostArray]:
        """Return parts of a buffer as C-contiguous arrays."""
        places = zip(kinds, starts, strict=True)
        return [np.ndarray(shape, dtype, raw, start) for (shape, dtype), start in places]

    def address(self, array: HostArray) -> int:
        """Return the address of the first element."""
        return address(array)

    def host_view(self, array: HostArray, owner: Any) -> HostArray:
        """Return a read-only array over the same memory that keeps `owner` alive."""
        return keep(array, owner)

    def dlpack_device(self, domain: int) -> tuple[int, int]:
        """Return what DLPack calls the host."""
        return dlpack.CPU, 0

    def lend(self, array: HostArray, owner: Any, *, consumer: int | None = None) -> HostArray:
        """Return a read-only array over the same memory that keeps `owner` alive."""
        return self.host_view(array, owner)

    def borrow(self, producer: Any, domain: int, stream: Stream) -> HostArray:
        """Return the memory of a DLPack producer on the host, without a copy."""
        return dlpack.read(producer)

    def follow(self, consumer: int | None, ticks: Sequence[Tick], domain: int) -> None:
        """Wait for ticks: who reads next is the host."""
        for stream, tick in ticks:
            stream.synchronize(tick)

    def on_stream(self, stream: Stream, tick: int) -> contextlib.nullcontext[None]:
        """Wait for the tick: what comes after it is done by the caller."""
        stream.synchronize(tick)
        return contextlib.nullcontext()

    def serve(self, claim: Claiming, borrow: Claiming, commit: Committing) -> None:
        """Do nothing: NumPy has memory of its own."""

    def rehearse(self, kernel: Any, operands: Sequence[Any], results: Kinds, domain: int) -> None:
        """Do nothing: NumPy compiles nothing."""
