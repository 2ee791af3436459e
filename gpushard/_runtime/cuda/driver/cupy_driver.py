"""Make calls of CUDA through CuPy. Decisions are made in other modules.

Each thread has its own current device. A call that depends on it sets it and then restores it.
CuPy's `Device` context manager is not used, because it must not be mixed with `setDevice`.
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

from gpushard._runtime.cuda.driver import cupy_private
from gpushard._runtime.cuda.driver.cupy_private import ufunc_loop, ufunc_preamble, ufunc_start
from gpushard._runtime.cuda.driver.cupy_scope import CupyStream, Scope
from gpushard._runtime.cuda.driver.driver import Gpu, Share, Table
from gpushard._runtime.cuda.driver.green_driver import GreenDriver
from gpushard._runtime.cuda.kernels import fused, namespace, reduction, thread_layout
from gpushard._runtime.cuda.kernels.batches import THREADS, Batch
from gpushard._runtime.cuda.kernels.copy_pieces import Pieces
from gpushard._runtime.cuda.kernels.elementwise import Signature, Statement, can_be, source
from gpushard._runtime.cuda.kernels.fills import Fills
from gpushard._runtime.cuda.kernels.sources import kernel_source
from gpushard._runtime.cuda.kernels.thread_nests import ThreadNest, function_of
from gpushard._runtime.host.keep_alive import address
from gpushard._runtime.nests import Op
from gpushard._typing import Dtype, HostArray, Kinds, LocalArray, LocalArrays, Shape

_NOT_READY = 600
_OUT_OF_MEMORY = 2
_PEER_IS_ENABLED = 704
_PORTABLE_AND_MAPPED = 1 | 2
_NO_TIMING = 2

_KERNELS = {"box_copy": ("copy_boxes_inline", "copy_boxes_table"), "fill": ("fill_boxes_inline",)}
"""The kernel functions to load from each source file."""

_FATAL = frozenset(
    {4, 46, 201, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 720, 721, 999}
)
"""Errors after which CUDA refuses all calls, such as cudaErrorIllegalAddress."""


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


class _ThreadContexts(threading.local):
    """The CUDA contexts of a thread."""

    gpus: frozenset[int] = frozenset()
    """The GPUs that have their context set up for this thread."""


class _Address:
    """Wraps the address of a stream for CuPy, which then neither makes nor destroys the stream."""

    def __init__(self, ptr: int) -> None:
        self._ptr = ptr

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._ptr


class CupyDriver:
    """`gpushard._runtime.cuda.driver.driver.Driver` on CuPy."""

    namespace = namespace

    def __init__(self) -> None:
        self._temporary = cupy.cuda.MemoryPool()
        self._used: tuple[int, ...] = ()
        self._stages: dict[int, CupyStream] = {}  # streams for rehearsals of kernels
        self._rehearsing = threading.RLock()  # a finalizer may rehearse on the same thread
        self._functions: dict[tuple[int, str], int] = {}
        self._kernels: dict[tuple[Any, ...], int] = {}
        self._modules: list[Any] = []  # keeps the modules of kernels loaded
        self._thread = _ThreadContexts()
        self._green: GreenDriver | None = None
        self._streams: weakref.WeakSet[CupyStream] = weakref.WeakSet()
        # By default, cuBLAS may change its algorithm if several streams use one handle, and CuPy
        # has one handle per thread. Then products differ in the last bits from call to call. With
        # a workspace for each call they do not, says NVIDIA ("Results reproducibility"); products
        # inside cuSOLVER do not, either. The variable is read when a handle is made.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

    def gpus(self) -> list[Gpu]:
        """List the GPUs."""
        gpus = []
        for gpu in range(runtime.getDeviceCount()):
            facts = runtime.getDeviceProperties(gpu)
            gpus.append(
                Gpu(
                    facts["name"].decode(),
                    int(facts["totalGlobalMem"]),
                    runtime.deviceGetPCIBusId(gpu),
                    int(facts["multiProcessorCount"]),
                )
            )
        return gpus

    def use(self, gpus: Sequence[int]) -> None:
        """Set the GPUs that are used: calls that name no GPU make contexts only on these."""
        self._used = tuple(gpus)

    def _meet(self) -> None:
        """Set the current GPU of a new thread to one that is used.

        Any call makes a context on the thread's current GPU, and so does restoring that GPU. A
        context takes hundreds of megabytes. A new thread's current GPU is the first of the machine.
        """
        if not hasattr(self._thread, "met"):
            self._thread.met = True
            foreign = self._used and runtime.getDevice() not in self._used
            if foreign and not cuda_driver.ctxGetCurrent():
                runtime.setDevice(self._used[0])

    def enable_peer(self, gpu: int, peer: int) -> bool:
        """Let a GPU use the memory of another GPU, and return whether it can."""
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
        """Allocate memory, aligned to 256 bytes, and return its address."""
        self._meet()
        with _on(gpu):
            return _allocate(runtime.malloc, nbytes)

    def free(self, gpu: int, start: int) -> None:
        """Free memory of a GPU; waits for the GPU."""
        self._meet()
        with _on(gpu):
            runtime.free(start)

    def malloc_host(self, nbytes: int) -> int:
        """Allocate page-locked memory that every GPU can use, and return its address."""
        self._meet()
        return _allocate(lambda n: runtime.hostAlloc(n, _PORTABLE_AND_MAPPED), nbytes)

    def free_host(self, start: int) -> None:
        """Free page-locked memory; waits for all GPUs."""
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
        """Wrap memory of a GPU as an array that keeps `owner` alive."""
        whole = memory.UnownedMemory(start, nbytes, owner, gpu)
        return cupy.ndarray(shape, dtype, memory.MemoryPointer(whole, 0), strides)

    def from_dlpack(self, producer: Any) -> LocalArray:
        """Wrap the memory of a DLPack producer; CuPy tells it the current stream."""
        return cupy.from_dlpack(producer)

    def address(self, array: LocalArray) -> int:
        """Return the address of the first element of a CuPy array."""
        start: int = array.data.ptr
        return start

    def addresses(self, arrays: LocalArrays) -> list[int]:
        """Return the addresses of the first elements of CuPy arrays."""
        return list(map(_address, arrays))

    def gpu_of(self, array: LocalArray) -> int | None:
        """Return the GPU of an array; None for a host array."""
        return None if isinstance(array, np.ndarray) else array.device.id

    def divide(self, gpu: int, parts: int) -> list[Share]:
        """Divide the multiprocessors of a GPU by green contexts, which end with the process.

        Raises:
          ConfigurationError: the GPU, the driver or the libraries do not support it.
        """
        self._meet()
        if self._green is None:
            self._green = GreenDriver(runtime.driverGetVersion(), runtime.runtimeGetVersion())
        with _on(gpu):
            runtime.free(0)  # makes the primary context; each green context retains it
            return self._green.divide(gpu, parts)

    def stream(self, gpu: int, share: Share | None = None) -> CupyStream:
        """Make a stream, in the green context of a share or in the primary context."""
        self._meet()
        with _on(gpu):
            if share is None or self._green is None:
                stream = cupy.cuda.Stream(non_blocking=True)
            else:
                stream = cupy.cuda.Stream.from_external(_Address(self._green.stream(share)))
        cupy_stream = CupyStream(gpu, stream)
        self._streams.add(cupy_stream)
        return cupy_stream

    def event(self, gpu: int) -> int:
        """Make an event, which lasts until the process ends."""
        self._meet()
        with _on(gpu):
            handle: int = runtime.eventCreateWithFlags(_NO_TIMING)
            return handle

    def record(self, event: int, stream: CupyStream) -> None:
        """Set an event behind all work that a stream was given."""
        self._meet()
        runtime.eventRecord(event, stream.ptr)

    def wait(self, stream: CupyStream, event: int) -> None:
        """Let a stream wait for an event, as the event is set now."""
        self._meet()
        runtime.streamWaitEvent(stream.ptr, event)

    def record_legacy(self, event: int, gpu: int) -> None:
        """Set an event behind all work that the legacy default stream of a GPU was given."""
        self._meet()
        with _on(gpu):
            runtime.eventRecord(event, runtime.streamLegacy)

    def let_wait(self, consumer: int, gpu: int, event: int) -> None:
        """Let the stream of another library wait for an event."""
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
        """Wait for all work on a GPU, including that of other libraries."""
        self._meet()
        with _on(gpu):
            runtime.deviceSynchronize()

    def scope(
        self, stream: CupyStream, allocate: Callable[[int], tuple[int, Any]]
    ) -> AbstractContextManager[None]:
        """Make a context in which this thread launches on a stream and `allocate` gives memory."""
        self._meet()
        return Scope(stream, _make_malloc(stream.gpu, allocate))

    def rehearse(self, kernel: Any, operands: Sequence[Any], results: Kinds, gpu: int) -> None:
        """Call a kernel with small arrays like `operands`, so that CuPy compiles it.

        CuPy compiles for dtypes, numbers of dims and density of arrays, but seldom for sizes. A
        kernel that does not take small arrays is compiled later, with the real arrays.
        """
        if not all(isinstance(x, cupy.ndarray) or np.isscalar(x) for x in operands):
            return
        with self._rehearsing:
            if gpu not in self._stages:
                self._stages[gpu] = self.stream(gpu)
            with Scope(self._stages[gpu], self._temporary.malloc), contextlib.suppress(Exception):
                small = [_small(x) if isinstance(x, cupy.ndarray) else x for x in operands]
                outs = [cupy.empty(_small_shape(shape), dtype) for shape, dtype in results]
                kernel(*small, out=outs[0] if len(outs) == 1 else tuple(outs))
            self._stages[gpu].plans = []

    def provide(self, stream: CupyStream, allocate: Callable[[int], tuple[int, Any]]) -> None:
        """Set the function that gives temporary memory to the work of `run` on a stream."""
        stream.malloc = _make_malloc(stream.gpu, allocate)

    def run(self, stream: CupyStream, work: Callable[..., None], *args: Any) -> None:
        """Call a function that gives a stream work."""
        self._meet()
        with Scope(stream, stream.malloc or self._temporary.malloc):
            work(*args)

    def give(self, stream: CupyStream, work: Callable[..., None], *args: Any) -> None:
        """Call a function that gives a stream work only by calls of this driver."""
        gpu = stream.gpu
        if runtime.getDevice() == gpu and gpu in self._thread.gpus:
            work(*args)
            return
        with _on(gpu):
            if gpu not in self._thread.gpus:
                runtime.memGetInfo()  # a thread's first runtime call sets up the context
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
        """Return CuPy's module `nccl`; None if the library is not installed."""
        with warnings.catch_warnings(action="ignore"):  # the user did not ask for NCCL
            module = importlib.import_module("cupy.cuda.nccl")
        return module if module.available else None

    def upload(self, target: int, data: HostArray, stream: CupyStream) -> None:
        """Copy a few bytes of the host; CUDA buffers them, so they may be overwritten at once."""
        self._meet()
        kind = runtime.memcpyHostToDevice
        runtime.memcpyAsync(target, address(data), data.nbytes, kind, stream.ptr)

    def clear(self, target: int, nbytes: int, stream: CupyStream) -> None:
        """Set bytes to 0 without a kernel."""
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
        """Compile the kernel of CuPy's function for some dtypes, if it has a plain statement.

        How to ask CuPy for statements is not documented. Without one, the function itself does the
        work.
        """
        key = gpu, function, signature
        try:
            if key in self._kernels:
                return self._kernels[key]
        except TypeError:  # the function has no hash
            return None
        statement = _statement(function, signature.operands, signature.results)
        if statement is None or not can_be(statement, signature.operands, signature.results):
            return None
        return self._compile(gpu, key, "elementwise", source(statement, signature))

    def fuses(self, op: Op, types: Sequence[Dtype]) -> bool:
        """Whether a fused kernel can contain an elementwise operation."""
        statement = _statement(function_of(op), types, (op.dtype,))
        if statement is None or len(statement.preamble) > _LONG_PREAMBLE:
            return False
        return can_be(statement, types, (op.dtype,))

    def fused(
        self, gpu: int, dealt: ThreadNest, signature: Signature, way: thread_layout.Threads
    ) -> int | None:
        """Compile the kernel of a loop nest from CuPy's statements of its operations."""
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
        # Without contraction each operation rounds its result, as it does in a kernel of its own.
        return self._kernels.get(key) or self._compile(gpu, key, "fused", text, "--fmad=false")

    def reduction(self, gpu: int, name: str, signature: Signature) -> int | None:
        """Compile the kernel that reduces rows, if there is one."""
        key = gpu, name, signature
        if key in self._kernels:
            return self._kernels[key]
        text = reduction.source(name, signature) if name in reduction.OPERATIONS else None
        return None if text is None else self._compile(gpu, key, "reduction", text)

    def _compile(self, gpu: int, key: tuple[Any, ...], name: str, text: str, *options: str) -> int:
        with _on(gpu):
            module = cupy.RawModule(code=text, options=("-std=c++17", *options))
            kernel: int = module.get_function(name).kernel.ptr
        self._modules.append(module)
        self._kernels[key] = kernel
        return kernel

    def multiplies(self, gpu: int, function: Any, dtype: Dtype) -> bool:
        """Whether `multiply` can do the work of a function."""
        if function is not namespace.matmul or dtype.char not in "fdFD" or _multiply is None:
            return False
        with _on(gpu):
            cupy.cuda.device.get_cublas_handle()  # takes a while the first time in a thread
        return True

    def multiply(
        self,
        stream: CupyStream,
        sizes: tuple[int, int, int],
        x: LocalArray,
        y: LocalArray,
        out: LocalArray,
    ) -> None:
        """Multiply matrices by the call of cuBLAS that CuPy's function makes in the end."""
        n, k, m = sizes
        with stream.stream:  # cuBLAS is column-major: to it, all three are transposed
            _multiply(0, 0, m, n, k, y, m, x, k, out, m)

    def multiply_all(
        self, stream: CupyStream, dtype: Dtype, sizes: tuple[int, int, int], count: int, table: int
    ) -> None:
        """Multiply pairs of matrices by one call of cuBLAS."""
        n, k, m = sizes
        multiply, alpha, beta = _BATCHED[dtype.char]
        x, y, out = (table + 8 * count * part for part in range(3))
        with stream.stream:  # column-major, as in `multiply`
            handle = cupy.cuda.device.get_cublas_handle()
            multiply(handle, 0, 0, m, n, k, alpha, y, m, x, k, beta, out, m, count)

    def launcher(
        self, kernel: int, grid: tuple[int, int], parameters: int, stream: CupyStream
    ) -> Callable[[], None]:
        """Make the function that launches a kernel."""
        blocks, calls = grid
        sizes = blocks, calls, 1, THREADS, 1, 1, 0
        return functools.partial(
            cuda_driver.launchKernel, kernel, *sizes, stream.ptr, parameters, 0
        )

    def capture(self, stream: CupyStream, work: Callable[[], None]) -> int:
        """Capture the work that a function gives a stream as a graph.

        Calls of other threads are not captured and not disturbed.
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
            executable: int = runtime.graphInstantiate(graph)
            return executable
        finally:
            runtime.graphDestroy(graph)

    def launch_graph(self, graph: int, stream: CupyStream) -> None:
        """Give a stream all work of a graph."""
        runtime.graphLaunch(graph, stream.ptr)

    def drop_graph(self, graph: int) -> None:
        """Destroy a graph; CUDA lets its launches end first."""
        self._meet()
        runtime.graphExecDestroy(graph)

    def empty_cache(self) -> None:
        """Free unused temporary memory and the plans of Fourier transforms."""
        for stream in list(self._streams):
            stream.plans = []
        self._temporary.free_all_blocks()

    def is_fatal(self, error: BaseException) -> bool:
        """Whether this error leaves all GPUs unusable for the process."""
        of_cuda = isinstance(error, (runtime.CUDARuntimeError, cuda_driver.CUDADriverError))
        return of_cuda and getattr(error, "status", None) in _FATAL


def _statement(function: Any, types: Sequence[Dtype], results: Sequence[Dtype]) -> Statement | None:
    """Return the statement of a function for each element; None if it has no plain one."""
    try:
        if isinstance(function, str):
            operands = types if function == "astype" else (types[0], *results, *results)
            return Statement(_STATEMENTS[function], "", tuple(operands), tuple(results))
        if isinstance(function, cupy.ElementwiseKernel):
            text, preamble = f"typedef in0_type T; {function.operation}", function.preamble
            return Statement(text, preamble, tuple(types), tuple(results))
        loop = ufunc_loop(function, tuple(types))
        if loop is None or loop.error_func is not None or ufunc_start(function):
            return None
        if not isinstance(loop.routine, str) or "_ind" in loop.routine:
            return None
        preamble = ufunc_preamble(function)
        return Statement(loop.routine, preamble, tuple(loop.in_types), tuple(loop.out_types))
    except (AttributeError, TypeError):
        return None


_STATEMENTS = {
    "astype": "out0 = out0_type(in0)",
    "where": "out0 = in0 != in0_type(0) ? in1 : in2",
}
"""Statements of functions for which CuPy has none."""

_LONG_PREAMBLE = 700
"""Characters of a preamble. Longer ones define helpers by names that others may use, too."""

_FACTORS = {char: np.array([1, 0], char) for char in "fdFD"}
_BATCHED = {
    char: (
        getattr(cublas, f"{name}gemmBatched"),
        address(_FACTORS[char]),
        address(_FACTORS[char]) + _FACTORS[char].itemsize,
    )
    for char, name in zip("fdFD", "sdcz", strict=True)
}
"""For each dtype: the function of cuBLAS, and the addresses of a 1 and a 0 of that dtype."""

_multiply: Any = cupy_private.names().multiply

_address = operator.attrgetter("data.ptr")


def _small(x: LocalArray) -> LocalArray:
    """Make a small array of zeros with the dtype, number of dims and density of an array."""
    shape = _small_shape(x.shape)
    if x.flags.c_contiguous or x.flags.f_contiguous:
        return cupy.zeros(shape, x.dtype, order="C" if x.flags.c_contiguous else "F")
    return cupy.zeros((*shape, 2), x.dtype)[..., 0]


def _small_shape(shape: Shape) -> Shape:
    """Return a shape with each length cut to 2 at most."""
    return tuple(min(size, 2) for size in shape)


def _allocate(allocate: Callable[[int], int], nbytes: int) -> int:
    """Call an allocator of CUDA; raise MemoryError if it has no room."""
    try:
        return allocate(nbytes)
    except runtime.CUDARuntimeError as error:
        if error.status != _OUT_OF_MEMORY:
            raise
        raise MemoryError(f"CUDA has no room for {nbytes:,} bytes") from error


def _make_malloc(gpu: int, allocate: Callable[[int], tuple[int, Any]]) -> Callable[[int], Any]:
    def malloc(nbytes: int) -> Any:
        start, owner = allocate(nbytes) if nbytes else (0, None)
        return memory.MemoryPointer(memory.UnownedMemory(start, nbytes, owner, gpu), 0)

    return malloc
