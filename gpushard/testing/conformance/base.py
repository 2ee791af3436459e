"""What the classes of tests share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpushard.runtime import current
from gpushard.runtime.backend import HOST_DOMAIN, Item
from gpushard.runtime.memory import Memory
from gpushard.runtime.runtime import Runtime
from gpushard.runtime.stream import Stream, Tick
from gpushard.typing import HostArray, LocalArray


def raises(kind: type[BaseException], function: Callable[[], Any]) -> BaseException:
    """Return what a function raises."""
    try:
        function()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


class Conformance:
    """Base of the classes of tests; who derives from one says how a runtime is made."""

    threads = 2
    """How many threads of the system may submit at once; 1 for a backend that makes its own."""

    launches = False
    """Whether items run at once, in whoever submits them, who then must not wait within."""

    def make_runtime(self, **settings: Any) -> Runtime:
        """Make a runtime on the backend that is tested.

        Args:
          **settings: fields of `gpushard.Settings`.
        """
        raise NotImplementedError

    @contextlib.contextmanager
    def runtime(self, **settings: Any) -> Iterator[Runtime]:
        """Use a runtime as the current one within a `with` block."""
        made = self.make_runtime(**settings)
        before = current.swap(made)
        try:
            yield made
        finally:
            current.swap(before)
            made.close()


def give(
    runtime: Runtime,
    stream: Stream,
    run: Callable[[], None],
    waits: Sequence[Tick] = (),
    writes: Sequence[Memory] = (),
    tick: int | None = None,
) -> Tick:
    """Give a backend an item, as a runtime would."""
    if tick is None:
        tick = stream.issued = stream.issued + 1
    runtime.backend.enqueue(Item("work", run, stream, tick, tuple(waits), (), tuple(writes)))
    return stream, tick


def upload(runtime: Runtime, data: HostArray, domain: int = 0) -> LocalArray:
    """Copy data into fresh memory of a domain."""
    raw = runtime.backend.allocate(domain, data.nbytes)
    local = runtime.backend.view(raw, data.shape, data.dtype)
    runtime.backend.copy_boxes([(local, data, HOST_DOMAIN)], domain)
    return local


def download(runtime: Runtime, local: LocalArray, domain: int = 0) -> HostArray:
    """Copy local data back."""
    data: HostArray = np.zeros(local.shape, local.dtype)
    runtime.backend.copy_boxes([(data, local, domain)], HOST_DOMAIN)
    return data
