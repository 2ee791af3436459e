"""GPUs for tests: whether there are any, runtimes on them, and drivers that make trouble.

What decides how a test works takes a driver, so that it also runs on one that needs no GPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from gpushard._runtime.checking.checker import Checker
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.cuda.devices.probe import probe
from gpushard._runtime.runtime import Runtime
from gpushard._runtime.stream import Tick
from gpushard.config import Settings
from gpushard.testing.runtime import using
from tests.runtime.cuda.fake_driver import POISON, FakeDriver, array_at

FOUND = probe()
"""What there is of CUDA here."""

needs_gpu = pytest.mark.skipif(not FOUND.usable, reason=FOUND.reason)

DRIVERS = ["fake", pytest.param("cupy", marks=needs_gpu)]
"""A driver without a GPU, and the real one."""


CUPY_LACKS = {("erf", "F"), ("erf", "D")}
"""Rows with types that they are refused for before work starts."""


@dataclasses.dataclass(frozen=True)
class Split:
    """How a GPU is divided."""

    partitions: int
    separate: bool
    """Whether its parts pose as memory domains."""

    def __str__(self) -> str:
        return f"{self.partitions}{'-domains' if self.separate else ''}"


SPLITS = [Split(n, False) for n in (1, 2, 4, 8)] + [Split(n, True) for n in (2, 4, 8)]
"""A part alone is a domain of its own in either way."""

_seeds = itertools.count()

SPIN = r"""
extern "C" __global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}
"""
CYCLES_PER_US = 1700
"""About; a delay need not be exact."""


@functools.cache
def late_driver() -> type:
    """A `CupyDriver` that puts a spinning kernel before what a stream is given, now and then."""
    cupy = importlib.import_module("cupy")
    base: Any = importlib.import_module("gpushard._runtime.cuda.driver.cupy_driver").CupyDriver

    class LateDriver(base):
        def __init__(self, seed: int, share: float = 0.5, most_us: int = 300) -> None:
            super().__init__()
            self._random = random.Random(seed)
            self._share = share
            self._most_us = most_us
            self._spin = cupy.RawKernel(SPIN, "spin")

        def prepare(self, gpu: int) -> None:
            super().prepare(gpu)
            before = cupy.cuda.runtime.getDevice()
            cupy.cuda.runtime.setDevice(gpu)
            self._spin.kernel  # noqa: B018 - compiles it
            cupy.cuda.runtime.setDevice(before)

        def delay(self, us: float) -> None:
            """Let the current stream do nothing for a while."""
            self._spin((1,), (1,), (np.int64(us * CYCLES_PER_US),))

        def run(self, stream: Any, work: Callable[..., None], *args: Any) -> None:
            def late() -> None:
                if self._random.random() < self._share:
                    self.delay(self._random.uniform(0, self._most_us))
                work(*args)

            super().run(stream, late)

        give = run

    return LateDriver


def make_driver(kind: str, **options: Any) -> Any:
    """A driver of `DRIVERS`, with which streams run late."""
    seed = next(_seeds)
    return FakeDriver(1, seed=seed) if kind == "fake" else late_driver()(seed, **options)


class PoisonedBackend(CudaBackend):
    """Fills every block as soon as all have run that may use it by its clock.

    Who reads a block that it has given up, or writes one that it was not given, finds out.
    """

    listens = True

    def __init__(self, settings: Settings, driver: Any) -> None:
        self._poisoned: dict[int, Any] = {}
        super().__init__(settings, driver)
        self._poison = [self._driver.stream(gpu) for gpu in self._ordinals]

    def released(self, raw: Any, ticks: Sequence[Tick]) -> None:
        if isinstance(raw, np.ndarray) or self._closed:
            return
        stream, driver = self._poison[0], self._driver
        for other, tick in ticks:
            if not other.finished(tick):
                waited: Any = other.event(tick)
                driver.wait(stream, waited.handle)
        _fill(driver, stream, raw.address, raw.nbytes)
        event = self._poisoned[id(raw)] = driver.event(self._ordinals[0])
        driver.record(event, stream)

    def taken(self, raw: Any) -> None:
        event = self._poisoned.pop(id(raw), None)
        if event is None:
            return
        if raw.owner is self._pinned.slabs:  # the host may write it at once
            self._driver.synchronize(event)
            return
        streams = [queue.handle for queue in self._queues.values()]
        for stream in (*streams, *(bounce._stream for bounce in self._bounces)):
            self._driver.wait(stream, event)

    def free(self, raw: Any) -> None:
        event = self._poisoned.pop(id(raw), None)
        if event is not None:
            self._driver.synchronize(event)
        super().free(raw)


def _fill(driver: Any, stream: Any, start: int, nbytes: int) -> None:
    if isinstance(driver, FakeDriver):
        with driver._mutex:
            driver._give(stream, lambda: array_at(start, (nbytes,), np.uint8).fill(POISON))
        return
    importlib.import_module("cupy").cuda.runtime.memsetAsync(start, POISON, nbytes, stream.ptr)


@contextlib.contextmanager
def gpu_runtime(
    driver: Any = None,
    split: Split = SPLITS[3],
    *,
    checked: bool = False,
    poisoned: bool = True,
    **settings: Any,
) -> Iterator[Runtime]:
    """Use a runtime on a GPU within a `with` block."""
    made = make_gpu_runtime(driver, split, checked=checked, poisoned=poisoned, **settings)
    with using(made):
        yield made


def make_gpu_runtime(
    driver: Any, split: Split, *, checked: bool = False, poisoned: bool = False, **settings: Any
) -> Runtime:
    """A runtime on one GPU; on a real one, without anything in between, if there is no driver."""
    chosen = Settings(
        backend="cuda",
        gpus=(0,),
        partitions=split.partitions,
        separate_domains=split.separate,
        **{"slab_bytes": 32 << 20, **settings},
    )
    backend = PoisonedBackend(chosen, driver) if poisoned else CudaBackend(chosen, driver)
    return Runtime(chosen, Checker(backend) if checked else backend)


class Counted:
    """A driver that counts its calls.

    Args:
      driver: makes them.
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self.counts: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._driver, name)
        if not callable(found):
            return found

        @functools.wraps(found)
        def call(*arguments: Any, **options: Any) -> Any:
            self.counts[name] = self.counts.get(name, 0) + 1
            return found(*arguments, **options)

        return call
