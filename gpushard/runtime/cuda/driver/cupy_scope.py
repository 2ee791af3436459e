"""Where the work of a thread goes that CuPy is called for: a stream, and memory for its needs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import cupy
from cupy.cuda import runtime

_thread = threading.local()


class CupyStream:
    """A stream that is never destroyed while somebody has it: CUDA reuses their addresses."""

    __slots__ = ("__weakref__", "gpu", "malloc", "plans", "ptr", "stream")

    def __init__(self, gpu: int, stream: Any) -> None:
        self.gpu = gpu
        self.stream = stream
        self.ptr: int = stream.ptr
        self.malloc: Callable[[int], Any] | None = None
        """Where temporary memory comes from."""
        self.plans: list[tuple[Any, Any]] = []
        """What CuPy keeps of its Fourier transforms, with their keys, the oldest first."""


class Scope:
    """The device, the stream and the allocator of temporary memory, for one thread."""

    __slots__ = ("_allocator", "_before", "_gpu", "_outer", "_stream")

    def __init__(self, stream: CupyStream, malloc: Callable[[int], Any]) -> None:
        self._gpu = stream.gpu
        self._stream = stream
        self._allocator = cupy.cuda.using_allocator(malloc)

    def __enter__(self) -> None:
        self._before = runtime.getDevice()
        if self._before != self._gpu:
            runtime.setDevice(self._gpu)
        self._stream.stream.__enter__()
        self._allocator.__enter__()
        self._outer = current_stream()
        _thread.stream = self._stream

    def __exit__(self, *error: Any) -> None:
        _thread.stream = self._outer
        self._allocator.__exit__(None, None, None)
        self._stream.stream.__exit__(None, None, None)
        if self._before != self._gpu:
            runtime.setDevice(self._before)


def current_stream() -> CupyStream | None:
    """Return the stream whose scope this thread is in, if it is in one."""
    found: CupyStream | None = getattr(_thread, "stream", None)
    return found
