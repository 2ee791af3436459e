"""Direct CuPy's work on a thread to a stream, and its temporary memory to an allocator."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cupy.cuda import runtime

from gpushard._runtime.cuda.driver import cupy_private

_get_allocator = cupy_private.names().get_allocator
_set_allocator = cupy_private.names().set_allocator


class _ThreadScope(threading.local):
    """The scope that a thread is in."""

    stream: CupyStream | None = None  # the stream of that scope; None outside any


_thread = _ThreadScope()


class CupyStream:
    """A stream that lasts as long as this object, because CUDA reuses addresses of streams."""

    __slots__ = ("__weakref__", "gpu", "malloc", "plans", "ptr", "stream")

    def __init__(self, gpu: int, stream: Any) -> None:
        self.gpu = gpu
        self.stream = stream
        self.ptr: int = stream.ptr
        self.malloc: Callable[[int], Any] | None = None  # allocates temporary memory
        # CuPy's plans of Fourier transforms with their keys, the oldest first.
        self.plans: list[tuple[Any, Any]] = []


class Scope:
    """Sets the device, the stream and the allocator of temporary memory of a thread."""

    __slots__ = ("_allocator", "_before", "_gpu", "_malloc", "_outer", "_stream")

    def __init__(self, stream: CupyStream, malloc: Callable[[int], Any]) -> None:
        self._gpu = stream.gpu
        self._stream = stream
        self._malloc = malloc

    def __enter__(self) -> None:
        self._before = runtime.getDevice()
        if self._before != self._gpu:
            runtime.setDevice(self._gpu)
        self._stream.stream.__enter__()
        self._allocator = _get_allocator()
        _set_allocator(self._malloc)
        self._outer = _thread.stream
        _thread.stream = self._stream

    def __exit__(self, *error: Any) -> None:
        _thread.stream = self._outer
        _set_allocator(self._allocator)
        self._stream.stream.__exit__(None, None, None)
        if self._before != self._gpu:
            runtime.setDevice(self._before)


def current_stream() -> CupyStream | None:
    """Return the stream of the scope that this thread is in; None outside any."""
    return _thread.stream
