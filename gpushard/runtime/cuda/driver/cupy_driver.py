"""Calls of CUDA through CuPy. Nothing but calls: whatever decides lies in other modules.

The current device is a matter of the thread; every call that depends on it sets it, and puts it
back. CuPy's `Device` context manager is not used, which must not be mixed with `setDevice`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import operator
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import cupy
import numpy as np
from cupy.cuda import cublas, memory, runtime
from cupy.cuda import driver as cuda_driver

from gpushard.runtime.cuda.driver import cupy_private
from gpushard.runtime.cuda.driver.cupy_private import ufunc_loop, ufunc_preamble, ufunc_start
from gpushard.runtime.cuda.driver.cupy_scope import CupyStream, Scope
from gpushard.runtime.cuda.driver.driver import Gpu, Share, Table
from gpushard.runtime.cuda.driver.green_driver import GreenDriver
from gpushard.runtime.cuda.kernels import fused, namespace, reduction
from gpushard.runtime.cuda.kernels.batches import THREADS, Batch
from gpushard.runtime.cuda.kernels.elementwise import Signature, Statement, can_be, source
from gpushard.runtime.cuda.kernels.fills import Fills
from gpushard.runtime.cuda.kernels.pieces import Pieces
from gpushard.runtime.cuda.kernels.sources import kernel_source
from gpushard.runtime.cuda.kernels.thread_nests import ThreadNest, function_of
from gpushard.runtime.host.views import address
from gpushard.runtime.nests import Op
from gpushard.typing import Dtype, HostArray, Kinds, LocalArray, LocalArrays, Shape

_NOT_READY = 600
_OUT_OF_MEMORY = 2
_PEER_IS_ENABLED = 704
_PORTABLE_AND_MAPPED = 1 | 2
_NO_TIMING = 2

_KERNELS = {"box_copy": ("copy_boxes_inline", "copy_boxes_table"), "fill": ("fill_boxes_inline",)}
"""The functions that are used of each file of kernels."""

_FATAL = frozenset(
    {4, 46, 201, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 720, 721, 999}
)
"""Errors after which CUDA refuses everything: cudaErrorIllegalAddress and its like."""


class _on:
    __slots__ = ("_before", "_gpu")

    def __init__(self, gpu: int) -> None:
        self._gpu = gpu

    def __enter__(self) -> None:
        self._before = runtime.getDevice()
        if self._before != self._gpu:
            runtime.setDevice(self._gpu)

    def __exit__(self, *error: object) -> None:
        if self._before != self._gpu:
            runtime.setDevice(self._before)


class _Thread(threading.local):
    """What is known of a thread."""

    gpus: frozenset[int] = frozenset()
    """The GPUs whose context it has taken up."""


class _Address:
    """A stream by its address, as CuPy takes over those that others made and destroy."""

    def __init__(self, ptr: int) -> None:
        self._ptr = ptr

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._ptr


class CupyDriver:
    """`gpushard.runtime.cuda.driver.driver.Driver` on CuPy."""

    namespace = namespace

    def __init__(self) -> None:
        self._temporary = cupy.cuda.MemoryPool()
        self._used: tuple[int, ...] = ()
        self._stages: dict[int, CupyStream] = {}  # where kernels are rehearsed
        self._rehearsing = threading.RLock()  # a finalizer may come here on the same thread
        self._functions: dict[tuple[int, str], int] = {}
        self._kernels: dict[tuple[Any, ...], int] = {}
        self._modules: list[Any] = []  # which their kernels need
        self._thread = _Thread()
        self._green: GreenDriver | None = None
        self._streams: weakref.WeakSet[CupyStream] = weakref.WeakSet()
        # By default cuBLAS may choose another algorithm where several streams use a handle, and
        # CuPy has one for each thread: then a product is not the same to the bit each time. With
        # memory set aside for each call it is, says NVIDIA ("Results reproducibility"). What
        # cuSOLVER multiplies is, too. It is read when a handle is made.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

    def gpus(self) -> list[Gpu]:
        """List the GPUs."""
        found = []
        for gpu in range(runtime.getDeviceCount()):
            facts = runtime.getDeviceProperties(gpu)
            found.append(
                Gpu(
                    facts["name"].decode(),
                    int(facts["totalGlobalMem"]),
                    runtime.deviceGetPCIBusId(gpu),
                    int(facts["multiProcessorCount"]),
                )
            )
        return found

    def use(self, gpus: Sequence[int]) -> None:
        """Hear which GPUs are used: what no GPU is named for makes a context on none but these."""
        self._used = tuple(gpus)

    def _meet(self) -> None:
        """Take a thread that CUDA does not know yet to a GPU that is used.

        Any call makes a context on the thread's current GPU, which takes hundreds of megabytes, and
        so does going back to that: for a thread that has named none it is the first one there is.
        """
        if not hasattr(self._thread, "met"):
            self._thread.met = True
            foreign = self._used and runtime.getDevice() not in self._used
            if foreign and not cuda_driver.ctxGetCurrent():
                runtime.setDevice(self._used[0])

    def enable_peer(self, gpu: int, peer: int) -> bool:
        """Let a GPU use the memory of another one, and say whether it can."""
        self._meet()
        if not runtime.deviceCanAccessPeer(gpu, peer):
            return False
        with _on(gpu):
            try:
                runtime.deviceEnablePeerAccess(peer)
            except runtime.CUDARuntimeError as error:
                if error.status != _PEER_IS_ENABLED:
                    raise
        return True

    def prepare(self, gpu: int) -> None:
        """Compile the kernels, or find them in CuPy's cache, and load them."""
        self._meet()
        with _on(gpu):
            for file, names in _KERNELS.items():
                module = cupy.RawModule(code=kernel_source(file), options=("-std=c++17",))
                self._modules.append(module)
                for name in names:
                    self._functions[gpu, name] = module.get_function(name).kernel.ptr

    def malloc(self, gpu: int, nbytes: int) -> int:
        """Return the address of new memory, aligned to 256 bytes."""
        self._meet()
        with _on(gpu):
            return _allocated(runtime.malloc, nbytes)

    def free(self, gpu: int, start: int) -> None:
        """Give memory back; waits for the GPU."""
        self._meet()
        with _on(gpu):
            runtime.free(start)

    def malloc_host(self, nbytes: int) -> int:
        """Return the address of new page-locked memory that every GPU can use."""
        self._meet()
        return _allocated(lambda n: runtime.hostAlloc(n, _PORTABLE_AND_MAPPED), nbytes)

    def free_host(self, start: int) -> None:
        """Give page-locked memory back; waits for all GPUs."""
        self._meet()
        runtime.freeHost(start)

    def array(
        self,
        gpu: int,
        start: int,
        nbytes: int,
        shape: Shape,
        dtype: Dtype,
        owner: Any,
        strides: Sequence[int] | None = None,
    ) -> LocalArray:
        """Return memory of a GPU as an array that keeps `owner` alive."""
        whole = memory.UnownedMemory(start, nbytes, owner, gpu)
        return cupy.ndarray(shape, dtype, memory.MemoryPointer(whole, 0), strides)

    def from_dlpack(self, producer: Any) -> LocalArray:
        """Return the memory of a DLPack producer; CuPy names its current stream to it."""
        return cupy.from_dlpack(producer)

    def address(self, array: LocalArray) -> int:
        """Return the address of the first element of a CuPy array."""
        start: int = array.data.ptr
        return start

    def addresses(self, arrays: LocalArrays) -> list[int]:
        """Return the addresses of the first elements of CuPy arrays."""
        return list(map(_address, arrays))

    def gpu_of(self, array: LocalArray) -> int | None:
        """Return the GPU that an array lies on, None for one of the host."""
        return None if isinstance(array, np.ndarray) else array.device.id

    def divide(self, gpu: int, parts: int) -> list[Share]:
        """Divide the multiprocessors of a GPU by green contexts, which end with the process.

        Raises:
          ConfigurationError: that cannot be done here.
        """
        self._meet()
        if self._green is None:
            self._green = GreenDriver(runtime.driverGetVersion(), runtime.runtimeGetVersion())
        with _on(gpu):
            runtime.free(0)  # makes the primary context, which each green context then retains
            return self._green.divide(gpu, parts)

    def stream(self, gpu: int, share: Share | None = None) -> CupyStream:
        """Make a stream, in the green context of a share or in the primary one."""
        self._meet()
        with _on(gpu):
            if share is None or self._green is None:
                stream = cupy.cuda.Stream(non_blocking=True)
            else:
                stream = cupy.cuda.Stream.from_external(_Address(self._green.stream(share)))
        made = CupyStream(gpu, stream)
        self._streams.add(made)
        return made

    def event(self, gpu: int) -> int:
        """Make an event; it is not destroyed before the process ends."""
        self._meet()
        with _on(gpu):
            handle: int = runtime.eventCreateWithFlags(_NO_TIMING)
            return handle

    def record(self, event: int, stream: CupyStream) -> None:
        """Set an event after what a stream has been given."""
        self._meet()
        runtime.eventRecord(event, stream.ptr)

    def wait(self, stream: CupyStream, event: int) -> None:
        """Let a stream wait until an event, as it is set now."""
        self._meet()
        runtime.streamWaitEvent(stream.ptr, event)

    def record_legacy(self, event: int, gpu: int) -> None:
        """Set an event after what the legacy default stream of a GPU has been given."""
        self._meet()
        with _on(gpu):
            runtime.eventRecord(event, runtime.streamLegacy)

    def let_wait(self, consumer: int, gpu: int, event: int) -> None:
        """Let somebody else's stream wait for an event."""
        self._meet()
        with _on(gpu):
            runtime.streamWaitEvent(consumer, event)

    def is_done(self, event: int) -> bool:
        """Whether an event has come."""
        self._meet()
        status = runtime.eventQuery(event)
        if status not in (0, _NOT_READY):
            raise runtime.CUDARuntimeError(status)
        return bool(status == 0)

    def synchronize(self, event: int) -> None:
        """Wait for an event."""
        self._meet()
        runtime.eventSynchronize(event)

    def synchronize_gpu(self, gpu: int) -> None:
        """Wait for everything on a GPU, whoever gave it."""
        self._meet()
        with _on(gpu):
            runtime.deviceSynchronize()

    def scope(
        self, stream: CupyStream, allocate: Callable[[int], tuple[int, Any]]
    ) -> AbstractContextManager[None]:
        """Let what the thread launches go to a stream, and its memory come from a function."""
        self._meet()
        return Scope(stream, _allocator(stream.gpu, allocate))

    def rehearse(self, kernel: Any, operands: Sequence[Any], results: Kinds, gpu: int) -> None:
        """Call a kernel with small arrays like those given, so that it is compiled.

        CuPy compiles for types, numbers of dims and whether arrays are dense, seldom for sizes. A
        kernel that takes no such arrays is compiled later, with the real ones.
        """
        if not all(isinstance(x, cupy.ndarray) or np.isscalar(x) for x in operands):
            return
        with self._rehearsing:
            if gpu not in self._stages:
                self._stages[gpu] = self.stream(gpu)
            with Scope(self._stages[gpu], self._temporary.malloc), contextlib.suppress(Exception):
                given = [_small(x) if isinstance(x, cupy.ndarray) else x for x in operands]
                outs = [cupy.empty(_small_shape(shape), dtype) for shape, dtype in results]
                kernel(*given, out=outs[0] if len(outs) == 1 else tuple(outs))
            self._stages[gpu].plans = []

    def provide(self, stream: CupyStream, allocate: Callable[[int], tuple[int, Any]]) -> None:
        """Let temporary memory of what `run` gives a stream come from a function."""
        stream.malloc = _allocator(stream.gpu, allocate)

    def run(self, stream: CupyStream, work: Callable[..., None], *args: Any) -> None:
        """Call a function that gives a stream work."""
        self._meet()
        with Scope(stream, stream.malloc or self._temporary.malloc):
            work(*args)

    def give(self, stream: CupyStream, work: Callable[..., None], *args: Any) -> None:
        """Call a function that gives a stream work by calls of this driver alone."""
        gpu = stream.gpu
        if runtime.getDevice() == gpu and gpu in self._thread.gpus:
            work(*args)
            return
        with _on(gpu):
            if gpu not in self._thread.gpus:
                runtime.memGetInfo()  # as CuPy has it, a thread's first call takes up the context
                self._thread.gpus |= {gpu}
            work(*args)

    def copy(self, target: int, source: int, nbytes: int, stream: CupyStream) -> None:
        """Copy bytes by a copy engine; memory of the host must be page-locked."""
        self._meet()
        runtime.memcpyAsync(target, source, nbytes, runtime.memcpyDefault, stream.ptr)

    def copy_peer(
        self, target: int, gpu: int, source: int, peer: int, nbytes: int, stream: CupyStream
    ) -> None:
        """Copy bytes from the memory of another GPU by a copy engine."""
        self._meet()
        runtime.memcpyPeerAsync(target, gpu, source, peer, nbytes, stream.ptr)

    def nccl(self) -> Any:
        """Return CuPy's module of that name; None where the library is not installed."""
        with warnings.catch_warnings(action="ignore"):  # nobody has asked for it
            module = importlib.import_module("cupy.cuda.nccl")
        return module if module.available else None

    def upload(self, target: int, data: HostArray, stream: CupyStream) -> None:
        """Copy a few bytes that may be overwritten at once: CUDA copies them aside first."""
        self._meet()
        kind = runtime.memcpyHostToDevice
        runtime.memcpyAsync(target, address(data), data.nbytes, kind, stream.ptr)

    def clear(self, target: int, nbytes: int, stream: CupyStream) -> None:
        """Set bytes to 0, but by no kernel."""
        self._meet()
        runtime.memsetAsync(target, 0, nbytes, stream.ptr)

    def launch_pieces(self, pieces: Pieces, stream: CupyStream) -> None:
        """Copy boxes by a kernel that takes them as its argument."""
        self._launch("copy_boxes_inline", pieces, pieces.parameters[0], stream)

    def launch_fills(self, fills: Fills, stream: CupyStream) -> None:
        """Fill boxes by a kernel that takes them as its argument."""
        self._launch("fill_boxes_inline", fills, fills.parameters[0], stream)

    def launch_table(
        self, table: Table, batch: Batch, bases: HostArray, stream: CupyStream
    ) -> None:
        """Copy boxes by a kernel that reads them from a table."""
        places = np.array([table.pieces, table.first, table.ends], np.uint64)
        count = np.array([len(batch.table)], np.uint32)
        start = address(places)
        arguments = start, start + 8, start + 16, address(count), address(bases)
        parameters = np.array(arguments, np.uint64)
        self._launch("copy_boxes_table", batch, address(parameters), stream)

    def _launch(self, name: str, batch: Batch, parameters: int, stream: CupyStream) -> None:
        kernel, ptr = self._functions[stream.gpu, name], stream.ptr
        cuda_driver.launchKernel(kernel, batch.blocks, 1, 1, THREADS, 1, 1, 0, ptr, parameters, 0)

    def elementwise(self, gpu: int, function: Any, signature: Signature) -> int | None:
        """Return the kernel of what CuPy's function says of the types, if it is a plain statement.

        CuPy does not document how to ask for that. Where it has none, its function does the work.
        """
        key = gpu, function, signature
        try:
            if key in self._kernels:
                return self._kernels[key]
        except TypeError:  # it has no hash
            return None
        statement = _statement(function, signature.operands, signature.results)
        if statement is None or not can_be(statement, signature.operands, signature.results):
            return None
        return self._compiled(gpu, key, "elementwise", source(statement, signature))

    def fuses(self, op: Op, types: Sequence[Dtype]) -> bool:
        """Whether a kernel can do an elementwise function among others."""
        statement = _statement(function_of(op), types, (op.dtype,))
        return statement is not None and can_be(statement, types, (op.dtype,))

    def fused(
        self, gpu: int, dealt: ThreadNest, signature: Signature, way: fused.Threads
    ) -> int | None:
        """Return the kernel of a loop nest, whose operations are CuPy's own statements."""
        nest = dealt.nest
        statements = [
            None if op.kernel is None
            else _statement(function_of(op), nest.types_of(op), (op.dtype,))
            for op in nest.ops
        ]  # fmt: skip
        text = fused.source(dealt, signature, statements, way)
        if text is None:
            return None
        key = gpu, text
        # Each function rounds its result, as it does alone.
        return self._kernels.get(key) or self._compiled(gpu, key, "fused", text, "--fmad=false")

    def reduction(self, gpu: int, name: str, signature: Signature) -> int | None:
        """Return the kernel that reduces rows, if there is one."""
        key = gpu, name, signature
        if key in self._kernels:
            return self._kernels[key]
        text = reduction.source(name, signature) if name in reduction.OPERATIONS else None
        return None if text is None else self._compiled(gpu, key, "reduction", text)

    def _compiled(self, gpu: int, key: tuple[Any, ...], name: str, text: str, *options: str) -> int:
        with _on(gpu):
            module = cupy.RawModule(code=text, options=("-std=c++17", *options))
            kernel: int = module.get_function(name).kernel.ptr
        self._modules.append(module)
        self._kernels[key] = kernel
        return kernel

    def multiplies(self, gpu: int, function: Any, dtype: Dtype) -> bool:
        """Say whether `multiply` does what a function does."""
        if function is not namespace.matmul or dtype.char not in "fdFD" or _multiply is None:
            return False
        with _on(gpu):
            cupy.cuda.device.get_cublas_handle()  # which takes a while when a thread asks first
        return True

    def multiply(
        self,
        stream: CupyStream,
        sizes: tuple[int, int, int],
        x: LocalArray,
        y: LocalArray,
        out: LocalArray,
    ) -> None:
        """Multiply matrices by the call of cuBLAS that CuPy's function ends in."""
        n, k, m = sizes
        with stream.stream:  # cuBLAS counts columns first: it takes all three for transposed
            _multiply(0, 0, m, n, k, y, m, x, k, out, m)

    def multiply_all(
        self, stream: CupyStream, dtype: Dtype, sizes: tuple[int, int, int], count: int, table: int
    ) -> None:
        """Multiply pairs of matrices by one call of cuBLAS."""
        n, k, m = sizes
        multiply, one, zero = _BATCHED[dtype.char]
        x, y, out = (table + 8 * count * part for part in range(3))
        with stream.stream:  # as above
            handle = cupy.cuda.device.get_cublas_handle()
            multiply(handle, 0, 0, m, n, k, one, y, m, x, k, zero, out, m, count)

    def launcher(
        self, kernel: int, grid: tuple[int, int], parameters: int, stream: CupyStream
    ) -> Callable[[], None]:
        """Return what launches a kernel."""
        blocks, calls = grid
        sizes = blocks, calls, 1, THREADS, 1, 1, 0
        return functools.partial(
            cuda_driver.launchKernel, kernel, *sizes, stream.ptr, parameters, 0
        )

    def capture(self, stream: CupyStream, work: Callable[[], None]) -> int:
        """Return what a function gives a stream as a graph.

        What other threads call meanwhile has nothing to do with that.
        """
        runtime.streamBeginCapture(stream.ptr, runtime.streamCaptureModeThreadLocal)
        try:
            work()
        except BaseException:
            with contextlib.suppress(runtime.CUDARuntimeError):
                runtime.graphDestroy(runtime.streamEndCapture(stream.ptr))
            raise
        graph = runtime.streamEndCapture(stream.ptr)
        try:
            made: int = runtime.graphInstantiate(graph)
            return made
        finally:
            runtime.graphDestroy(graph)

    def launch_graph(self, graph: int, stream: CupyStream) -> None:
        """Give a stream all that is in a graph."""
        runtime.graphLaunch(graph, stream.ptr)

    def drop_graph(self, graph: int) -> None:
        """Forget a graph; CUDA lets what was launched of it end first."""
        self._meet()
        runtime.graphExecDestroy(graph)

    def empty_cache(self) -> None:
        """Give back what is kept for temporary memory and nothing uses, and plans."""
        for stream in list(self._streams):
            stream.plans = []
        self._temporary.free_all_blocks()

    def is_fatal(self, error: BaseException) -> bool:
        """Whether the process can use no GPU any more after this error."""
        of_cuda = isinstance(error, (runtime.CUDARuntimeError, cuda_driver.CUDADriverError))
        return of_cuda and getattr(error, "status", None) in _FATAL


def _statement(function: Any, types: Sequence[Dtype], results: Sequence[Dtype]) -> Statement | None:
    """Return what a function does with each element; None if it is no plain statement."""
    try:
        if isinstance(function, str):
            own = types if function == "astype" else (types[0], *results, *results)
            return Statement(_STATEMENTS[function], "", tuple(own), tuple(results))
        if isinstance(function, cupy.ElementwiseKernel):
            text, preamble = f"typedef in0_type T; {function.operation}", function.preamble
            return Statement(text, preamble, tuple(types), tuple(results))
        found = ufunc_loop(function, tuple(types))
        if found is None or found.error_func is not None or ufunc_start(function):
            return None
        if not isinstance(found.routine, str) or "_ind" in found.routine:
            return None
        preamble = ufunc_preamble(function)
        return Statement(found.routine, preamble, tuple(found.in_types), tuple(found.out_types))
    except (AttributeError, TypeError):
        return None


_STATEMENTS = {
    "astype": "out0 = out0_type(in0)",
    "where": "out0 = in0 != in0_type(0) ? in1 : in2",
}
"""Functions that CuPy has no statement of its own for."""

_FACTORS = {char: np.array([1, 0], char) for char in "fdFD"}
_BATCHED = {
    char: (
        getattr(cublas, f"{name}gemmBatched"),
        address(_FACTORS[char]),
        address(_FACTORS[char]) + _FACTORS[char].itemsize,
    )
    for char, name in zip("fdFD", "sdcz", strict=True)
}
"""Functions of cuBLAS by types, and where a 1 and a 0 of the type stand."""

_multiply: Any = cupy_private.names().multiply

_address = operator.attrgetter("data.ptr")


def _small(x: LocalArray) -> LocalArray:
    """Return zeros of the type of an array, with as many dims, as dense as that."""
    shape = _small_shape(x.shape)
    if x.flags.c_contiguous or x.flags.f_contiguous:
        return cupy.zeros(shape, x.dtype, order="C" if x.flags.c_contiguous else "F")
    return cupy.zeros((*shape, 2), x.dtype)[..., 0]


def _small_shape(shape: Shape) -> Shape:
    """Return a shape with the same dims of length 0 and 1, and no longer ones than 2."""
    return tuple(min(size, 2) for size in shape)


def _allocated(allocate: Callable[[int], int], nbytes: int) -> int:
    try:
        return allocate(nbytes)
    except runtime.CUDARuntimeError as error:
        if error.status != _OUT_OF_MEMORY:
            raise
        raise MemoryError(f"CUDA has no room for {nbytes:,} bytes") from error


def _allocator(gpu: int, allocate: Callable[[int], tuple[int, Any]]) -> Callable[[int], Any]:
    def malloc(nbytes: int) -> Any:
        start, owner = allocate(nbytes) if nbytes else (0, None)
        return memory.MemoryPointer(memory.UnownedMemory(start, nbytes, owner, gpu), 0)

    return malloc
