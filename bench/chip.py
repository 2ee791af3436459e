"""A GPU to measure on: runtimes, clocks, and what is compared with, on the same chip.

The driver and the clock can be replaced, so that all but the figures can be tried without a GPU.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from bench.case import OURS, Case, Config, Sampler, Side
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.cuda.devices.probe import probe
from gpushard._runtime.cuda.driver.driver import Driver
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.testing.runtime import using

AHEAD_US = 200
"""Microseconds per repetition that the GPU is held back at first, so that the host, which submits
more slowly than the GPU does small work, is no part of a GPU's time."""

MOST_AHEAD_US = 40_000

_SPIN = r"""
extern "C" __global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}
"""
_CYCLES_PER_US = 1700


class Clock(Protocol):
    """Measures what streams do."""

    def time(
        self,
        run: Callable[[], object],
        repeats: int,
        streams: Sequence[Any],
        wait: Callable[[], object],
    ) -> float:
        """Return the seconds that one of `repeats` runs takes.

        Args:
          run: gives streams work, and does not wait for it.
          repeats: how often.
          streams: all streams that it may use.
          wait: waits for what the last run gave.
        """


class WallClock:
    """Time as the caller sees it."""

    def time(
        self,
        run: Callable[[], object],
        repeats: int,
        streams: Sequence[Any],
        wait: Callable[[], object],
    ) -> float:
        """Return the seconds of a run, the last of which is waited for."""
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        wait()
        return (time.perf_counter() - start) / repeats


class GpuClock:
    """Time between two events of the GPU, of which one is before and one behind all streams' work.

    Args:
      cupy: the module.
    """

    def __init__(self, cupy: Any) -> None:
        self._cuda = cupy.cuda
        self._own = cupy.cuda.Stream(non_blocking=True)
        self._spin = cupy.RawKernel(_SPIN, "spin")
        self._spin((1,), (1,), (np.int64(0),), stream=self._own)
        self._own.synchronize()

    def time(
        self,
        run: Callable[[], object],
        repeats: int,
        streams: Sequence[Any],
        wait: Callable[[], object],
    ) -> float:
        """Return the seconds of a run on the GPU."""
        cuda, own = self._cuda, self._own
        begin, end = cuda.Event(), cuda.Event()
        ahead = min(AHEAD_US * repeats, MOST_AHEAD_US)
        self._spin((1,), (1,), (np.int64(ahead * _CYCLES_PER_US),), stream=own)
        begin.record(own)
        for stream in streams:
            cuda.runtime.streamWaitEvent(stream, begin.ptr)
        for _ in range(repeats):
            run()
        behind = [cuda.Event(disable_timing=True) for _ in streams]
        for stream, event in zip(streams, behind, strict=True):
            cuda.runtime.eventRecord(event.ptr, stream)
            own.wait_event(event)
        end.record(own)
        end.synchronize()
        wait()
        return float(cuda.get_elapsed_time(begin, end)) * 1e-3 / repeats


@dataclasses.dataclass(frozen=True)
class Jax:
    """JAX on the GPU."""

    jax: Any
    numpy: Any
    device: Any


@dataclasses.dataclass
class Lab:
    """What cases are measured with."""

    make_driver: Callable[[], Driver | None]
    """Makes what a backend calls; None for CuPy."""

    clock: Clock
    cupy: Any = None
    torch: Any = None
    jax: Jax | None = None

    @property
    def xp(self) -> Any:
        """CuPy, or NumPy where there is no GPU."""
        return self.cupy or np

    @functools.cached_property
    def stream(self) -> Any:
        """A stream for CuPy; None without a GPU."""
        return self.cupy and self.cupy.cuda.Stream(non_blocking=True)

    @contextmanager
    def runtime(self, partitions: int = 8, **settings: Any) -> Iterator[Runtime]:
        """Use a runtime on GPU 0 within a `with` block."""
        made = self.make_runtime(partitions, **settings)
        with using(made):
            yield made

    def make_runtime(self, partitions: int, **settings: Any) -> Runtime:
        """Make a runtime on GPU 0."""
        chosen = Settings(backend="cuda", gpus=(0,), partitions=partitions, **settings)
        return Runtime(chosen, CudaBackend(chosen, self.make_driver()))

    def device_copy(self, nbytes: int, repeats: int) -> Sampler:
        """Return how long the copy engines' way takes for as many bytes within the GPU."""
        source, target = (self.xp.zeros(nbytes, np.uint8) for _ in range(2))
        self.synchronize()
        if self.cupy is None:
            return self.sampler(lambda: np.copyto(target, source), repeats, [])
        runtime, stream = self.cupy.cuda.runtime, self.stream.ptr
        ends = target.data.ptr, source.data.ptr
        kind = runtime.memcpyDeviceToDevice

        def run() -> object:  # the arrays must live as long as this
            return runtime.memcpyAsync(*ends, nbytes, kind, stream), target, source

        return self.sampler(run, repeats, [stream])

    def on_cupy(self, run: Callable[[], object], repeats: int) -> Sampler | None:
        """Return how long a function of CuPy takes."""
        if self.cupy is None:
            return None

        def within() -> None:
            with self.stream:
                run()

        return self.sampler(within, repeats, [self.stream.ptr])

    def on_torch(self, run: Callable[[], object], repeats: int) -> Sampler | None:
        """Return how long a function of PyTorch takes."""
        if self.torch is None:
            return None
        return self.sampler(run, repeats, [self.torch.cuda.current_stream().cuda_stream])

    def on_jax(self, run: Callable[[], Any], repeats: int) -> Sampler | None:
        """Return how long a function of JAX takes, as the caller sees it."""
        if self.jax is None:
            return None
        last: list[Any] = [None]

        def keep() -> None:
            last[0] = run()

        return lambda: WallClock().time(keep, repeats, [], lambda: last[0].block_until_ready())

    def ours(self, runtime: Runtime, run: Callable[[], Any], repeats: int) -> Sampler:
        """Return how long a function that makes an array of gpushard takes on the GPU."""
        last: list[Any] = [None]

        def keep() -> None:
            last[0] = run()

        def sample() -> float:
            try:
                streams = self.streams(runtime)
                return self.clock.time(keep, repeats, streams, lambda: last[0].block_until_ready())
            finally:
                last[0] = None

        return sample

    def streams(self, runtime: Runtime) -> list[int]:
        """Return the CUDA streams of a runtime."""
        backend: Any = runtime.backend
        if self.cupy is None:
            return []
        return [queue.handle.ptr for queue in backend._queues.values()]

    def sampler(self, run: Callable[[], object], repeats: int, streams: Sequence[Any]) -> Sampler:
        """Return a sampler of what a function gives to streams."""
        return lambda: self.clock.time(run, repeats, streams, self.synchronize)

    def synchronize(self) -> None:
        """Wait for the GPU."""
        if self.cupy is not None:
            self.cupy.cuda.runtime.deviceSynchronize()

    def forget(self) -> None:
        """Give the memory of CuPy and PyTorch back."""
        if self.cupy is not None:
            self.synchronize()
            self.cupy.get_default_memory_pool().free_all_blocks()
            self.cupy.get_default_pinned_memory_pool().free_all_blocks()
        if self.torch is not None:
            self.torch.cuda.empty_cache()


Part = Callable[[Lab, Config], Iterator[Case]]
"""Makes some cases of a group."""


def find_lab(config: Config) -> Lab | str:
    """Return what to measure with, or why there is nothing to measure on."""
    found = probe()
    if not found.usable:
        return found.reason
    cupy = importlib.import_module("cupy")
    cupy.cuda.runtime.setDevice(0)
    peers = (_find_torch(), _find_jax()) if config.peers else (None, None)
    return Lab(lambda: None, GpuClock(cupy), cupy, *peers)


def part_names(parts: Sequence[Part]) -> list[str]:
    """Return how parts are asked for."""
    return [part.__name__.strip("_") for part in parts]


def cases_on_gpu(config: Config, parts: Sequence[Part]) -> Iterator[Case]:
    """Yield the cases of the chosen parts on a GPU; none, and say why, where there is no GPU."""
    lab = find_lab(config)
    if isinstance(lab, str):
        print(f"Nothing was measured: {lab}\n")
        return
    yield from cases_of(lab, config, parts)


def cases_of(lab: Lab, config: Config, parts: Sequence[Part]) -> Iterator[Case]:
    """Yield the cases of the chosen parts.

    If a part cannot set up a case, the part ends with a case that fails, so that nobody misses it.
    """
    for name, part in zip(part_names(parts), parts, strict=True):
        if config.part not in ("", name):
            continue
        try:
            yield from part(lab, config)
        except Exception as error:  # whatever it is, the other parts go on
            yield failure(name, error)
        lab.forget()


def failure(part: str, error: Exception) -> Case:
    """Return a case that fails because a part of a group could not set up another one."""

    def check() -> None:
        raise error

    return Case("setting up a case", part, [Side(OURS, None)], check)


def _find_torch() -> ModuleType | None:
    def find() -> Any:
        torch = importlib.import_module("torch")
        return torch if torch.cuda.is_available() else None

    found: ModuleType | None = attempt("PyTorch", find)
    return found


def _find_jax() -> Jax | None:
    def find() -> Jax | None:
        if "jax" not in sys.modules:  # else it may have been given the CPU
            os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        jax = importlib.import_module("jax")
        if jax.default_backend() != "gpu":
            return None
        return Jax(jax, importlib.import_module("jax.numpy"), jax.devices()[0])

    found: Jax | None = attempt("JAX", find)
    return found


def attempt(name: str, make: Callable[[], Any]) -> Any:
    """Return what a peer makes; None, and say so, if it cannot."""
    try:
        return make()
    except Exception as error:  # whatever it is, the others go on without it
        print(f"{name} does not take part: {type(error).__name__}: {error}", file=sys.stderr)
        return None
