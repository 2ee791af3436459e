"""A driver without a GPU: queues that nothing works on until somebody waits, in an order that a
seed chooses, over memory of the host. Copies are made from the very descriptors that kernels get.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpushard._runtime.cuda.devices.green_partitions import Partition, equal_groups
from gpushard._runtime.cuda.driver.driver import Gpu, Share
from gpushard._runtime.cuda.kernels.batches import THREADS
from gpushard._runtime.cuda.kernels.copy_pieces import BATCH, INLINE_PIECES, Pieces
from gpushard._runtime.cuda.kernels.elementwise import SCALAR_BYTES, Signature
from gpushard._runtime.cuda.kernels.fills import FILL_BATCH, INLINE_FILLS, Fills
from gpushard._runtime.host.keep_alive import address
from gpushard._runtime.host.store import allocate

POISON = 0xA5
SHARE = 8
"""Shares of a GPU have a multiple of so many multiprocessors."""
STICKY = "an illegal memory access was encountered"


class FakeError(Exception):
    """What the driver raises."""


class StuckError(Exception):
    """Nothing can run, though somebody waits."""


class FakeEvent:
    def __init__(self, gpu: int) -> None:
        self.gpu = gpu
        self.stamp = 0  # how often it was recorded
        self.done = 0  # the last of those that has come


class FakeStream:
    def __init__(self, gpu: int, share: Share | None = None) -> None:
        self.gpu = gpu
        self.share = share
        self.allocate: Callable[[int], tuple[int, Any]] | None = None
        self.queue: deque[tuple[Callable[[], bool], Callable[[], None]]] = deque()
        self.noted: list[Callable[[], None]] | None = None  # while it is captured


class _Holder:
    """Gives NumPy memory at an address, and keeps its owner."""

    def __init__(self, start: int, shape: Any, strides: Any, dtype: Any, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "data": (start, False),
            "shape": shape,
            "strides": strides,
            "typestr": dtype.str,
        }


def array_at(start: int, shape: Any, dtype: Any, strides: Any = None, owner: Any = None) -> Any:
    made = np.asarray(_Holder(start, shape, strides, np.dtype(dtype), owner))
    return made if made.dtype == dtype else made.view(dtype)


class FakeArray(np.ndarray):
    """An array on a GPU: it exports as CuPy's do."""

    driver: Any = None
    gpu: int | None = None

    def __array_finalize__(self, base: Any) -> None:
        self.driver, self.gpu = getattr(base, "driver", None), getattr(base, "gpu", None)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, copy: Any = None) -> Any:
        assert copy or stream == -1
        return self.copy() if copy else self

    def __array_function__(self, *call: Any) -> Any:
        self._check_access()
        return super().__array_function__(*call)

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any:
        self._check_access()
        plain = [np.asarray(value) for value in inputs]
        out = kwargs.pop("out", None)
        if out is not None:
            kwargs["out"] = tuple(np.asarray(target) for target in out)
        return getattr(ufunc, method)(*plain, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        entries = index if isinstance(index, tuple) else (index,)
        if any(isinstance(entry, np.ndarray | list) for entry in entries):
            self._check_access()
        return super().__getitem__(index)

    def _check_access(self) -> None:
        """Only work on streams may touch the data: CuPy would launch a kernel, or refuse."""
        driver = self.driver
        if self.gpu is not None and driver is not None and not (driver._running or driver._scopes):
            raise TypeError("the host uses memory of a GPU")

    def __dlpack_device__(self) -> tuple[int, int]:
        assert self.gpu is not None
        return 2, self.gpu

    def of_gpu(self) -> Any:
        return self

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.__array_interface__, "version": 3, "stream": 7}


@dataclasses.dataclass(frozen=True)
class FakeKernel:
    """A ufunc for blocks."""

    gpu: int
    function: np.ufunc
    signature: Signature


class FakeNamespace:
    """NumPy under another name, as CuPy is: what takes the module apart takes the other way."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


class FakeDriver:
    """See the module.

    Args:
      gpus: how many there are.
      nbytes: memory of each.
      seed: decides the order of everything.
      peers: whether GPUs reach each other's memory.
      multiprocessors: of each.
    """

    namespace = FakeNamespace()

    def __init__(
        self,
        gpus: int = 1,
        nbytes: int = 1 << 26,
        seed: int = 0,
        peers: bool = True,
        multiprocessors: int = 132,
    ) -> None:
        self._gpus = gpus
        self.nbytes = nbytes
        self._random = random.Random(seed)
        self._progress = self._random.choice((0, 0, 0.1, 0.5))
        self._peers = peers
        self._mutex = threading.RLock()
        self._memory: dict[int, Any] = {}  # by address
        self._starts: list[int] = []
        self._gpu_of: dict[int, int | None] = {}
        self.used = [0] * gpus
        self._multiprocessors = multiprocessors
        self.shares: dict[Share, int] = {}
        """The GPU of each that there is."""
        self._streams: list[FakeStream] = []
        self._foreign: dict[tuple[int, int], FakeStream] = {}
        self._running = False
        self._scopes = 0
        self.calls: dict[str, int] = {}
        self.broken: str | None = None
        """What every call raises from now on."""

    def _call(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1
        if self.broken is not None:
            raise FakeError(self.broken)
        if not self._running and self._progress and self._random.random() < self._progress:
            self._step()

    def gpus(self) -> list[Gpu]:
        return [
            Gpu(f"Fake {n}", self.nbytes, f"0000:{n:02x}:00.0", self._multiprocessors)
            for n in range(self._gpus)
        ]

    def use(self, gpus: Any) -> None:
        pass

    def enable_peer(self, gpu: int, peer: int) -> bool:
        return self._peers

    def prepare(self, gpu: int) -> None:
        pass

    def _new(self, nbytes: int, gpu: int | None) -> int:
        raw = allocate(nbytes)
        raw[:] = POISON
        start = address(raw)
        self._memory[start] = raw
        self._gpu_of[start] = gpu
        bisect.insort(self._starts, start)
        return start

    def nccl(self) -> Any:
        return None

    def malloc(self, gpu: int, nbytes: int) -> int:
        with self._mutex:
            self._call("malloc")
            if self.used[gpu] + nbytes > self.nbytes:
                raise MemoryError
            self.used[gpu] += nbytes
            return self._new(nbytes, gpu)

    def free(self, gpu: int, start: int) -> None:
        with self._mutex:
            self.synchronize_gpu(gpu)
            self.used[gpu] -= len(self._memory[start])
            self._drop(start)

    def malloc_host(self, nbytes: int) -> int:
        with self._mutex:
            self._call("malloc_host")
            return self._new(nbytes, None)

    def free_host(self, start: int) -> None:
        with self._mutex:
            for gpu in range(self._gpus):
                self.synchronize_gpu(gpu)
            self._drop(start)

    def _drop(self, start: int) -> None:
        self._memory.pop(start)[:] = POISON
        self._starts.remove(start)

    def _memory_at(self, place: int) -> Any:
        at = bisect.bisect_right(self._starts, place) - 1
        assert at >= 0, f"{place:#x} is nowhere"
        return self._memory[self._starts[at]]

    def _gpu_at(self, place: int) -> int | None:
        with self._mutex:
            return self._gpu_of[address(self._memory_at(place))]

    def _check(self, low: int, high: int) -> None:
        memory = self._memory_at(low)
        assert high <= address(memory) + len(memory), f"{low:#x} to {high:#x} is outside"

    def array(
        self,
        gpu: int,
        start: int,
        nbytes: int,
        shape: Any,
        dtype: Any,
        owner: Any,
        strides: Any = None,
    ) -> Any:
        if 0 in shape:
            made = np.empty(shape, dtype).view(FakeArray)
        else:
            self._check(start, start + nbytes)
            memory = self._memory_at(start)  # whoever prints an array that is gone finds poison
            made = array_at(start, shape, dtype, strides, (owner, memory)).view(FakeArray)
        made.driver, made.gpu = self, gpu
        return made

    def gpu_of(self, array: Any) -> int | None:
        return getattr(array, "gpu", None)

    def from_dlpack(self, producer: Any) -> Any:
        return producer.of_gpu()

    def record_legacy(self, event: FakeEvent, gpu: int) -> None:
        self.record(event, self.foreign(1, gpu))

    def let_wait(self, consumer: int, gpu: int, event: FakeEvent) -> None:
        self.wait(self.foreign(consumer, gpu), event)

    def foreign(self, consumer: int, gpu: int) -> FakeStream:
        """A stream that somebody else made."""
        if (consumer, gpu) not in self._foreign:
            self._foreign[consumer, gpu] = self.stream(gpu)
        return self._foreign[consumer, gpu]

    def address(self, array: Any) -> int:
        raise AssertionError("all arrays are NumPy's here")

    def addresses(self, arrays: Any) -> list[int]:
        return [address(array) for array in arrays]

    def divide(self, gpu: int, parts: int) -> list[Share]:
        with self._mutex:
            self._call("divide")
            assert gpu not in self.shares.values(), "divided already"
            whole = self._multiprocessors

            def split(most: int, least: int) -> list[Partition]:
                size = -(-least // SHARE) * SHARE
                return [Partition(size)] * min(most, whole // size)

            groups = equal_groups(gpu, whole, parts, split)
            shares = [Share(group.multiprocessors, None) for group in groups]
            self.shares |= dict.fromkeys(shares, gpu)
            return shares

    def stream(self, gpu: int, share: Share | None = None) -> FakeStream:
        with self._mutex:
            assert share is None or self.shares[share] == gpu
            self._streams.append(FakeStream(gpu, share))
            return self._streams[-1]

    def event(self, gpu: int) -> FakeEvent:
        with self._mutex:
            self._call("event")
            return FakeEvent(gpu)

    def record(self, event: FakeEvent, stream: FakeStream) -> None:
        with self._mutex:
            self._call("record")
            assert event.gpu == stream.gpu, "an event of another GPU"
            event.stamp += 1
            stamp = event.stamp

            def come() -> None:
                event.done = max(event.done, stamp)

            stream.queue.append((lambda: True, come))

    def wait(self, stream: FakeStream, event: FakeEvent) -> None:
        if not isinstance(event, FakeEvent):
            raise TypeError("an integer is required")  # as CuPy says before it asks CUDA
        with self._mutex:
            self._call("wait")
            stamp = event.stamp
            stream.queue.append((lambda: event.done >= stamp, lambda: None))

    def is_done(self, event: FakeEvent) -> bool:
        with self._mutex:
            self._call("is_done")
            return event.done >= event.stamp

    def synchronize(self, event: FakeEvent) -> None:
        with self._mutex:
            self._call("synchronize")
            stamp = event.stamp
            while event.done < stamp:
                if not self._step():
                    raise StuckError

    def synchronize_gpu(self, gpu: int) -> None:
        with self._mutex:
            self._call("synchronize_gpu")
            if self._running:
                return
            while any(s.queue for s in self._streams if s.gpu == gpu):
                if not self._step():
                    raise StuckError

    def _step(self) -> bool:
        """Run something that can run, and say whether there was anything."""
        ready = [(s, s.queue[0]) for s in self._streams if s.queue and s.queue[0][0]()]
        if not ready or self._running:
            return False
        stream, first = self._random.choice(ready)
        if not stream.queue or stream.queue[0] is not first:
            return True  # a signal's handler ran it meanwhile
        _, work = stream.queue.popleft()
        self._running = True
        try:
            work()
        finally:
            self._running = False
        return True

    @contextlib.contextmanager
    def scope(
        self, stream: FakeStream, allocate: Callable[[int], tuple[int, Any]]
    ) -> Iterator[None]:
        """What the thread does in here it does at once, so the stream has to be that far."""
        event = self.event(stream.gpu)
        self.record(event, stream)
        self.synchronize(event)
        self._scopes += 1
        try:
            yield
        finally:
            self._scopes -= 1

    def rehearse(self, kernel: Any, operands: Any, results: Any, gpu: int) -> None:
        pass

    def provide(self, stream: FakeStream, allocate: Callable[[int], tuple[int, Any]]) -> None:
        stream.allocate = allocate

    def run(self, stream: FakeStream, work: Callable[..., None], *args: Any) -> None:
        with self._mutex:
            self._give(stream, functools.partial(work, *args))

    give = run

    def _give(self, stream: FakeStream, work: Callable[[], None]) -> None:
        if stream.noted is not None:
            stream.noted.append(work)
        elif self._running:  # a part of what the stream runs now
            work()
        else:
            stream.queue.append((lambda: True, work))

    def copy(self, target: int, source: int, nbytes: int, stream: FakeStream) -> None:
        gpu, peer = self._gpu_at(target), self._gpu_at(source)
        assert gpu == peer or None in (gpu, peer), "a copy between GPUs says which"
        self._copy(target, source, nbytes, stream)

    def _copy(self, target: int, source: int, nbytes: int, stream: FakeStream) -> None:
        with self._mutex:
            self._call("copy")
            for start in (target, source):
                self._check(start, start + nbytes)
            to, of = (array_at(start, (nbytes,), np.uint8) for start in (target, source))
            self._give(stream, lambda: np.copyto(to, of))

    def copy_peer(
        self, target: int, gpu: int, source: int, peer: int, nbytes: int, stream: FakeStream
    ) -> None:
        assert gpu != peer
        assert (gpu, peer) == (self._gpu_at(target), self._gpu_at(source))
        self._copy(target, source, nbytes, stream)

    def upload(self, target: int, data: Any, stream: FakeStream) -> None:
        with self._mutex:
            self._call("upload")
            self._check(target, target + data.nbytes)
            to, of = array_at(target, (data.nbytes,), np.uint8), data.copy()
            self._give(stream, lambda: np.copyto(to, of))

    def clear(self, target: int, nbytes: int, stream: FakeStream) -> None:
        raise AssertionError("nothing is cleared here")

    def launch_pieces(self, pieces: Pieces, stream: FakeStream) -> None:
        with self._mutex:
            self._call("launch")
            assert 0 < len(pieces.table) <= INLINE_PIECES
            batch = pieces.inline()  # what a kernel would get, and all of it
            assert batch.dtype == BATCH
            table = batch["pieces"][: int(batch["count"])].copy()
            self._give(stream, lambda: self._copy_pieces(table))

    def launch_fills(self, fills: Fills, stream: FakeStream) -> None:
        with self._mutex:
            self._call("launch")
            assert 0 < len(fills.table) <= INLINE_FILLS
            batch = fills.inline()
            assert batch.dtype == FILL_BATCH
            table = batch["fills"][: int(batch["count"])].copy()
            self._give(stream, lambda: self._fill(table))

    def _fill(self, table: Any) -> None:
        for fill in table:
            unit, extent = int(fill["unit"]), tuple(int(n) for n in fill["extent"])
            start, strides = int(fill["target"]), tuple(int(n) for n in fill["stride"])
            reach = sum((n - 1) * step for n, step in zip(extent, strides, strict=True))
            self._check(start, start + reach + unit)
            pattern = fill["pattern"].tobytes()[:unit]
            target = array_at(start, extent, np.dtype((np.void, unit)), strides)
            target[...] = np.frombuffer(pattern, np.dtype((np.void, unit)))[0]

    def launch_table(self, table: Any, batch: Any, bases: Any, stream: FakeStream) -> None:
        with self._mutex:
            self._call("launch")
            bases = bases["at"].copy()
            count, dtype = len(batch.table), batch.table.dtype

            def copy() -> None:
                pieces = array_at(table.pieces, (count * dtype.itemsize,), np.uint8)
                located = pieces.copy().view(dtype)
                ends = array_at(table.ends, (count, 2), np.uint32)
                located["target"] += bases[ends[:, 0]]
                located["source"] += bases[ends[:, 1]]
                self._copy_pieces(located)

            self._give(stream, copy)

    def _copy_pieces(self, table: Any) -> None:
        for piece in table:
            unit, extent = int(piece["unit"]), tuple(int(n) for n in piece["extent"])
            ends = []
            for name in ("target", "source"):
                start = int(piece[name])
                strides = tuple(int(n) for n in piece[f"{name}_stride"])
                reach = [(n - 1) * step for n, step in zip(extent, strides, strict=True)]
                low = start + sum(min(0, n) for n in reach)
                self._check(low, start + sum(max(0, n) for n in reach) + unit)
                ends.append(array_at(start, extent, np.dtype((np.void, unit)), strides))
            np.copyto(*ends)

    def elementwise(self, gpu: int, function: Any, signature: Signature) -> Any:
        if not isinstance(function, np.ufunc) or function.signature is not None:
            return None
        return FakeKernel(gpu, function, signature)

    def reduction(self, gpu: int, name: str, signature: Signature) -> None:
        return None

    def fuses(self, op: Any, types: Any) -> bool:
        return False

    def fused(self, *arguments: Any) -> Any:
        raise AssertionError("no function is fused here")

    def multiplies(self, gpu: int, function: Any, dtype: np.dtype[Any]) -> bool:
        return False

    def multiply(self, *arguments: Any) -> None:
        raise AssertionError("no function is a product here")

    def multiply_all(self, *arguments: Any) -> None:
        raise AssertionError("no function is a product here")

    def launcher(
        self, kernel: FakeKernel, grid: tuple[int, int], parameters: int, stream: FakeStream
    ) -> Callable[[], None]:
        return functools.partial(self._launch_elementwise, kernel, grid, parameters, stream)

    def _launch_elementwise(
        self, kernel: FakeKernel, grid: tuple[int, int], parameters: int, stream: FakeStream
    ) -> None:
        with self._mutex:
            self._call("launch")
            assert kernel.gpu == stream.gpu, "a kernel of another GPU"
            of, (blocks, calls) = kernel.signature, grid
            assert 0 < calls <= of.calls
            place = int(array_at(parameters, (1,), np.uint64)[0])
            argument = array_at(place, (of.nbytes,), np.uint8).copy()
            at = argument[: 8 * of.arrays * calls].view(np.uint64).reshape(of.arrays, calls).T
            counts = argument[of.at_counts :][: 8 * calls].view(np.uint64).tolist()
            assert max(counts) <= blocks * THREADS * of.each
            numbers = argument[of.at_scalars :]
            self._give(stream, lambda: self._compute(kernel, at.tolist(), counts, numbers))

    def _compute(self, kernel: FakeKernel, at: Any, counts: Any, numbers: Any) -> None:
        of = kernel.signature
        for places, count in zip(at, counts, strict=True):
            blocks, values = iter(places), []
            for n, dtype in enumerate((*of.operands, *of.results)):
                if n in of.scalars:
                    number = numbers[SCALAR_BYTES * of.scalars.index(n) :]
                    values.append(number[: dtype.itemsize].view(dtype)[0])
                    continue
                start = next(blocks)
                self._check(start, start + count * dtype.itemsize)
                values.append(array_at(start, (count,), dtype))
            inputs, outs = values[: len(of.operands)], values[len(of.operands) :]
            with np.errstate(all="ignore"):
                kernel.function(*inputs, out=tuple(outs))

    def capture(self, stream: FakeStream, work: Callable[[], None]) -> list[Any]:
        with self._mutex:
            self._call("capture")
            stream.noted = noted = []
            try:
                work()
            finally:
                stream.noted = None
            return noted

    def launch_graph(self, graph: list[Any], stream: FakeStream) -> None:
        with self._mutex:
            self._call("launch_graph")
            for work in graph:
                self._give(stream, work)

    def drop_graph(self, graph: list[Any]) -> None:
        graph.append(None)  # which cannot be launched

    def empty_cache(self) -> None:
        pass

    def is_fatal(self, error: BaseException) -> bool:
        return isinstance(error, FakeError)
