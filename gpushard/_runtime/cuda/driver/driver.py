"""The interface from the CUDA backend to CUDA: `CupyDriver`, or a fake in tests without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from gpushard._frozen import dataclass
from gpushard._runtime.cuda.kernels.batches import Batch
from gpushard._runtime.cuda.kernels.copy_pieces import Pieces
from gpushard._runtime.cuda.kernels.elementwise import Signature
from gpushard._runtime.cuda.kernels.fills import Fills
from gpushard._runtime.cuda.kernels.thread_layout import Threads
from gpushard._runtime.cuda.kernels.thread_nests import ThreadNest
from gpushard._runtime.nests import Op
from gpushard._typing import Dtype, HostArray, Kinds, LocalArray, LocalArrays, Shape

StreamHandle: TypeAlias = Any
"""A stream of one GPU, not ordered with the default stream."""

GraphHandle: TypeAlias = Any
"""Several launches of one GPU that are given to it together."""

EventHandle: TypeAlias = Any
"""An event of one GPU, without timing."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that the process sees."""

    name: str
    """Its model."""

    nbytes: int
    """Bytes of its memory."""

    bus_id: str
    """Its PCI bus id."""

    multiprocessors: int
    """Number of its multiprocessors."""


@dataclass(frozen=True, eq=False)
class Share:
    """A set of multiprocessors of a GPU, disjoint from all other shares of it."""

    multiprocessors: int
    """Number of multiprocessors."""

    handle: Any
    """The driver's own object."""


class Driver(Protocol):
    """Thin calls of CUDA. No call waits unless it says so. GPUs are given by CUDA's ordinals.

    A call that CUDA refuses raises; `is_fatal` tells whether the process can go on.
    """

    @property
    def namespace(self) -> Any:
        """The module with functions of its arrays; they run on the stream of `run` or `scope`."""

    def gpus(self) -> list[Gpu]:
        """List the GPUs."""

    def use(self, gpus: Sequence[int]) -> None:
        """Set the GPUs that are used, before any other call; other GPUs are left alone."""

    def enable_peer(self, gpu: int, peer: int) -> bool:
        """Let a GPU use the memory of another GPU, and return whether it can."""

    def prepare(self, gpu: int) -> None:
        """Compile and load kernels, so that no launch has to; may take seconds."""

    def malloc(self, gpu: int, nbytes: int) -> int:
        """Allocate memory, aligned to 256 bytes, and return its address.

        Raises:
          MemoryError: the GPU is full.
        """

    def free(self, gpu: int, address: int) -> None:
        """Free memory of a GPU; waits for the GPU."""

    def malloc_host(self, nbytes: int) -> int:
        """Allocate page-locked memory that every GPU can use, and return its address.

        Raises:
          MemoryError: the host has no room for it.
        """

    def free_host(self, address: int) -> None:
        """Free page-locked memory; waits for all GPUs."""

    def array(
        self,
        gpu: int,
        address: int,
        nbytes: int,
        shape: Shape,
        dtype: Dtype,
        owner: Any,
        strides: Sequence[int] | None = None,
    ) -> LocalArray:
        """Wrap memory of a GPU as an array that keeps `owner` alive."""

    def from_dlpack(self, producer: Any) -> LocalArray:
        """Wrap the memory of a DLPack producer, in a `scope`; the scope's stream waits for it."""

    def address(self, array: LocalArray) -> int:
        """Return the address of the first element of an array of the namespace."""

    def addresses(self, arrays: LocalArrays) -> list[int]:
        """Return the addresses of the first elements of arrays of the namespace."""

    def gpu_of(self, array: LocalArray) -> int | None:
        """Return the GPU of an array; None for a host array."""

    def divide(self, gpu: int, parts: int) -> list[Share]:
        """Divide the multiprocessors of a GPU into shares of one size, until the process ends.

        Raises:
          ConfigurationError: the GPU, the driver or the libraries do not support it.
        """

    def stream(self, gpu: int, share: Share | None = None) -> StreamHandle:
        """Make a stream, on a share of the GPU or on all of it."""

    def event(self, gpu: int) -> EventHandle:
        """Make an event."""

    def record(self, event: EventHandle, stream: StreamHandle) -> None:
        """Set an event behind all work that a stream was given."""

    def wait(self, stream: StreamHandle, event: EventHandle) -> None:
        """Let a stream wait for an event, as the event is set now."""

    def record_legacy(self, event: EventHandle, gpu: int) -> None:
        """Set an event behind all work that the legacy default stream of a GPU was given."""

    def let_wait(self, consumer: int, gpu: int, event: EventHandle) -> None:
        """Let the stream of another library wait for an event.

        `consumer` is the address of the stream; 1 and 2 are the default streams of `gpu`.
        """

    def is_done(self, event: EventHandle) -> bool:
        """Whether an event has come."""

    def synchronize(self, event: EventHandle) -> None:
        """Wait for an event."""

    def synchronize_gpu(self, gpu: int) -> None:
        """Wait for all work on a GPU, including that of other libraries."""

    def scope(
        self, stream: StreamHandle, allocate: Callable[[int], tuple[int, Any]]
    ) -> AbstractContextManager[None]:
        """Make a context in which this thread launches on a stream and `allocate` gives memory.

        `allocate` is as for `provide`.
        """

    def rehearse(self, kernel: Any, operands: Sequence[Any], results: Kinds, gpu: int) -> None:
        """Call a kernel with small arrays like `operands`, so that it is compiled."""

    def provide(self, stream: StreamHandle, allocate: Callable[[int], tuple[int, Any]]) -> None:
        """Set the function that gives temporary memory to the work of `run` on a stream.

        `allocate` takes a number of bytes. It returns an address, and an object that must live as
        long as that memory is used.
        """

    def run(self, stream: StreamHandle, work: Callable[..., None], *args: Any) -> None:
        """Call a function that gives a stream work, within its `scope`."""

    def give(self, stream: StreamHandle, work: Callable[..., None], *args: Any) -> None:
        """Call a function that gives a stream work only by calls of this driver."""

    def copy(self, target: int, source: int, nbytes: int, stream: StreamHandle) -> None:
        """Copy bytes by a copy engine; memory of the host must be page-locked."""

    def copy_peer(
        self, target: int, gpu: int, source: int, peer: int, nbytes: int, stream: StreamHandle
    ) -> None:
        """Copy bytes from the memory of another GPU by a copy engine."""

    def nccl(self) -> Any:
        """Return CuPy's module `nccl`; None if the library is not installed."""

    def upload(self, target: int, data: HostArray, stream: StreamHandle) -> None:
        """Copy a few bytes of the host, which may be overwritten at once."""

    def clear(self, target: int, nbytes: int, stream: StreamHandle) -> None:
        """Set bytes to 0 without a kernel."""

    def launch_pieces(self, pieces: Pieces, stream: StreamHandle) -> None:
        """Copy boxes by a kernel that takes them as its argument."""

    def launch_fills(self, fills: Fills, stream: StreamHandle) -> None:
        """Fill boxes by a kernel that takes them as its argument."""

    def launch_table(
        self, table: Table, batch: Batch, bases: HostArray, stream: StreamHandle
    ) -> None:
        """Copy boxes by a kernel that reads a table; `bases` are of type `pieces.BASES`."""

    def elementwise(self, gpu: int, function: Any, signature: Signature) -> Any:
        """Load the kernel of an elementwise function, for `launcher`; None if there is none.

        The function is of the namespace, or an `ElementwiseKernel` of in0, in1, ..., all of a type
        T, and out0.
        """

    def reduction(self, gpu: int, name: str, signature: Signature) -> Any:
        """Load the kernel that reduces rows, for `launcher`; None if there is none."""

    def fuses(self, op: Op, types: Sequence[Dtype]) -> bool:
        """Whether a fused kernel can contain an elementwise operation."""

    def fused(self, gpu: int, dealt: ThreadNest, signature: Signature, way: Threads) -> Any:
        """Load the kernel of a loop nest, for `launcher`.

        Args:
          gpu: the GPU that runs it.
          dealt: the loop nest; `fuses` is true of all its elementwise operations.
          signature: its operands, blocks first, and its results.
          way: how loops are dealt out to threads.

        Returns:
          The kernel; None if threads would need too much memory for their arrays.

        Raises:
          BrokenKernelError: the kernel would compute other results than the functions.
        """

    def multiplies(self, gpu: int, function: Any, dtype: Dtype) -> bool:
        """Whether `multiply` can do the work of a function; prepares it if so."""

    def multiply(
        self,
        stream: StreamHandle,
        sizes: tuple[int, int, int],
        x: LocalArray,
        y: LocalArray,
        out: LocalArray,
    ) -> None:
        """Multiply matrices that have elements and are dense in row-major order.

        Args:
          stream: the stream that gets the work.
          sizes: rows of `x`, columns of `x`, columns of `y`.
          x: the first matrix.
          y: the second matrix.
          out: their product.
        """

    def multiply_all(
        self,
        stream: StreamHandle,
        dtype: Dtype,
        sizes: tuple[int, int, int],
        count: int,
        table: int,
    ) -> None:
        """Multiply pairs of matrices as `multiply` does; all pairs have the same shapes.

        Args:
          stream: the stream that gets the work.
          dtype: of all matrices.
          sizes: rows and columns of first matrices, columns of second matrices.
          count: number of pairs.
          table: address on the GPU of the addresses of first matrices, second matrices, results.
        """

    def launcher(
        self, kernel: Any, grid: tuple[int, int], parameters: int, stream: StreamHandle
    ) -> Callable[[], None]:
        """Make the function that launches a kernel on a grid of (blocks for each call, calls).

        `parameters` is the address of the address of its argument.
        """

    def capture(self, stream: StreamHandle, work: Callable[[], None]) -> GraphHandle:
        """Capture the work that a function gives a stream as a graph; nothing runs now."""

    def launch_graph(self, graph: GraphHandle, stream: StreamHandle) -> None:
        """Give a stream all work of a graph."""

    def drop_graph(self, graph: GraphHandle) -> None:
        """Destroy a graph once its launches have run; does not wait."""

    def empty_cache(self) -> None:
        """Free temporary memory that libraries keep and do not use."""

    def is_fatal(self, error: BaseException) -> bool:
        """Whether this error leaves all GPUs unusable for the process."""


@dataclass(frozen=True)
class Table:
    """Addresses of the arrays of a table of pieces in the memory of a GPU."""

    pieces: int
    """Of type `pieces.PIECE`."""

    first: int
    """First block of each piece, 32 bits."""

    ends: int
    """Of type `pieces.ENDS`."""
