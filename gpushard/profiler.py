"""Traces: what a program did when, by named spans, in a file that shows it.

A trace is `gpushard.trace.json` in a folder, in the Trace Event Format, which
https://ui.perfetto.dev and `chrome://tracing` show. The library's own spans are in it: values that
are read from devices (`Array._value`), `copy_to_host_async`, and of traced functions when they are
traced and compiled, and when they run. Names are those of `jax.profiler`.

>>> import json, os, tempfile
>>> import gpushard as gs
>>> with tempfile.TemporaryDirectory() as folder:
...     with gs.profiler.trace(folder), gs.profiler.TraceAnnotation("my sum"):
...         total = float(gs.numpy.arange(4).sum())
...     with open(os.path.join(folder, "gpushard.trace.json")) as file:
...         events = json.load(file)["traceEvents"]
>>> sorted(event["name"] for event in events if event["ph"] == "X")
['Array._value', 'my sum']
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from gpushard.cache import hold_while_forking
from gpushard.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "StepTraceAnnotation", "TraceAnnotation", "annotate_function", "start_trace", "stop_trace",
    "trace",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

_FILE = "gpushard.trace.json"


class _Recording:
    """Spans that were seen since a trace was started."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.started = time.perf_counter_ns()
        self.spans: list[tuple[str, int, int, int, dict[str, Any]]] = []

    def write(self) -> None:
        import json  # noqa: PLC0415, not needed to import the library

        threads = {thread.ident: thread.name for thread in threading.enumerate()}
        process = os.getpid()
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": process, "tid": n, "args": {"name": name}}
            for n, name in threads.items()
        ]
        for name, thread, begin, end, arguments in self.spans:
            at, took = (begin - self.started) / 1000, (end - begin) / 1000  # microseconds
            span = {"ph": "X", "name": name, "pid": process, "tid": thread, "ts": at, "dur": took}
            events.append(span | {"args": {key: str(x) for key, x in arguments.items()}})
        with open(os.path.join(self.folder, _FILE), "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)


_recording: _Recording | None = None
_lock = threading.Lock()
hold_while_forking(_lock)


class TraceAnnotation(contextlib.ContextDecorator):
    """A span of a trace: what is done within it, or in a function that it decorates.

    Args:
      name: what the trace calls it.
      **arguments: what else the trace says of it.

    >>> with TraceAnnotation("load", file=3):
    ...     pass
    """

    def __init__(self, name: str, **arguments: Any) -> None:
        if not isinstance(name, str):
            raise ArgumentTypeError.refusing("name", name, "must be a string", "TraceAnnotation")
        self._name, self._arguments = name, arguments
        self._begun: list[tuple[_Recording | None, int]] = []

    def _recreate_cm(self) -> TraceAnnotation:  # for each call of a function: threads share none
        return type(self)(self._name, **self._arguments)

    def __enter__(self) -> TraceAnnotation:
        self._begun.append((_recording, time.perf_counter_ns()))
        return self

    def __exit__(self, *error: object) -> None:
        recording, begin = self._begun.pop()
        if recording is not None:
            end, thread = time.perf_counter_ns(), threading.get_ident()
            recording.spans.append((self._name, thread, begin, end, self._arguments))


class StepTraceAnnotation(TraceAnnotation):
    """A span that is one of many alike, such as a step of training.

    Args:
      name: what the trace calls it.
      **arguments: what else the trace says of it; `step_num`, which step it is.

    >>> for n in range(2):
    ...     with StepTraceAnnotation("train", step_num=n):
    ...         pass
    """


def annotate_function(func: F, name: str | None = None, **arguments: Any) -> F:
    """Return a function whose calls are spans of a trace. Also a decorator.

    Args:
      func: the function.
      name: what the trace calls it; the name of the function by default.
      **arguments: what else the trace says of it.

    >>> @annotate_function
    ... def twice(x):
    ...     return 2 * x
    >>> twice(3), annotate_function(twice, name="twice again")(4)
    (6, 8)
    """
    if not callable(func):
        raise ArgumentTypeError.refusing("func", func, "must be a function", "annotate_function")
    said = name or str(getattr(func, "__qualname__", type(func).__name__))

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(said, **arguments):
            return func(*args, **kwargs)

    return cast("F", call)


def start_trace(log_dir: str | os.PathLike[str]) -> None:
    """Record a trace from now on.

    Args:
      log_dir: the folder for its file, which is made where there is none.

    Raises:
      ArgumentError: one is being recorded already.
      OSError: the folder cannot be made.
    """
    global _recording
    folder = os.fspath(log_dir)
    with _lock:
        if _recording is not None:
            raise ArgumentError(
                f"a trace for {_recording.folder!r} is being recorded; end it with "
                "gpushard.profiler.stop_trace() before another one",
                argument="log_dir",
            )
        os.makedirs(folder, exist_ok=True)
        _recording = _Recording(folder)


def stop_trace() -> None:
    """Write the trace that is being recorded.

    Raises:
      ArgumentError: none is.
      OSError: the file cannot be written.
    """
    global _recording
    with _lock:
        recording, _recording = _recording, None
    if recording is None:
        raise ArgumentError(
            "no trace is being recorded; begin one with gpushard.profiler.start_trace(folder)",
            argument="log_dir",
        )
    recording.write()


@contextlib.contextmanager
def trace(log_dir: str | os.PathLike[str]) -> Iterator[None]:
    """Record a trace of what is done within.

    Args:
      log_dir: the folder for its file, which is made where there is none.

    Raises:
      ArgumentError: one is being recorded already.
      OSError: the folder cannot be made, or the file not written.
    """
    start_trace(log_dir)
    try:
        yield
    finally:
        stop_trace()


def span(name: str) -> contextlib.AbstractContextManager[Any]:
    """Return a span of the library's own, which costs nothing where nobody looks."""
    return _NOTHING if _recording is None else TraceAnnotation(name)


_NOTHING = contextlib.nullcontext()
