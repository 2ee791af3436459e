"""Record traces: named spans of a program's work over time, under the names of `jax.profiler`.

A trace is a file `gpushard.trace.json` in the Trace Event Format. Open it in
https://ui.perfetto.dev or `chrome://tracing`. In addition to your spans, it has spans of gpushard:
reads of values from devices (`Array._value`), `copy_to_host_async`, and tracing, compilation and
calls of traced functions.

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

from gpushard._cache import hold_while_forking
from gpushard.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "StepTraceAnnotation", "TraceAnnotation", "annotate_function", "start_trace", "stop_trace",
    "trace",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

_FILE = "gpushard.trace.json"


class _Recording:
    """The spans since the start of a trace."""

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
    """A named span of a trace: use it in a `with` statement, or as a decorator of a function.

    Args:
      name: the name in the trace.
      **arguments: more entries of the span, by name.

    >>> with TraceAnnotation("load", file=3):
    ...     pass
    """

    def __init__(self, name: str, **arguments: Any) -> None:
        if not isinstance(name, str):
            raise ArgumentTypeError.refusing("name", name, "must be a string", "TraceAnnotation")
        self._name, self._arguments = name, arguments
        self._begun: list[tuple[_Recording | None, int]] = []

    def _recreate_cm(self) -> TraceAnnotation:  # one for each call: threads share none
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
    """A named span for one step of a loop, such as a training step.

    Args:
      name: the name in the trace.
      **arguments: more entries of the span, by name, such as `step_num`, the number of the step.

    >>> for n in range(2):
    ...     with StepTraceAnnotation("train", step_num=n):
    ...         pass
    """


def annotate_function(func: F, name: str | None = None, **arguments: Any) -> F:
    """Record each call of a function as a span; usable as a decorator.

    Args:
      func: the function.
      name: the name in the trace; by default the name of the function.
      **arguments: more entries of the span, by name.

    >>> @annotate_function
    ... def twice(x):
    ...     return 2 * x
    >>> twice(3), annotate_function(twice, name="twice again")(4)
    (6, 8)
    """
    if not callable(func):
        raise ArgumentTypeError.refusing("func", func, "must be a function", "annotate_function")
    label = name or str(getattr(func, "__qualname__", type(func).__name__))

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **arguments):
            return func(*args, **kwargs)

    return cast("F", call)


def start_trace(log_dir: str | os.PathLike[str]) -> None:
    """Start to record a trace.

    Args:
      log_dir: the folder for the file of the trace. It is created if it does not exist.

    Raises:
      ArgumentError: another trace is being recorded.
      OSError: the folder cannot be created.
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
    """Stop recording, and write the trace.

    Raises:
      ArgumentError: no trace is being recorded.
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
    """Record a trace of a `with` block.

    Args:
      log_dir: the folder for the file of the trace. It is created if it does not exist.

    Raises:
      ArgumentError: another trace is being recorded.
      OSError: the folder cannot be created, or the file cannot be written.
    """
    start_trace(log_dir)
    try:
        yield
    finally:
        stop_trace()


def span(name: str) -> contextlib.AbstractContextManager[Any]:
    """Return a span of gpushard's own work, which costs nothing if no trace is recorded."""
    return _NOTHING if _recording is None else TraceAnnotation(name)


_NOTHING = contextlib.nullcontext()
