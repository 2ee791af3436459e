"""What the CUDA backend asks of CUDA. `CupyDriver` does it; tests have one that needs no GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from gpushard.frozen import dataclass
from gpushard.runtime.cuda.kernels.batches import Batch
from gpushard.runtime.cuda.kernels.elementwise import Signature
from gpushard.runtime.cuda.kernels.fills import Fills
from gpushard.runtime.cuda.kernels.fused import Threads
from gpushard.runtime.cuda.kernels.pieces import Pieces
from gpushard.runtime.cuda.kernels.thread_nests import ThreadNest
from gpushard.runtime.nests import Op
from gpushard.typing import Dtype, HostArray, Kinds, LocalArray, LocalArrays, Shape

StreamHandle: TypeAlias = Any
"""A queue of one GPU, not ordered with the default stream."""

GraphHandle: TypeAlias = Any
"""Launches of one GPU that are launched together."""

EventHandle: TypeAlias = Any
"""An event of one GPU, without timing."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that the process sees."""

    name: str
    """What it calls itself."""

    nbytes: int
    """Its memory."""

    bus_id: str
    """Where it sits on the PCI bus."""

    multiprocessors: int
    """How many it has."""


@dataclass(frozen=True, eq=False)
class Share:
    """Multiprocessors of a GPU that no other share of it has."""

    multiprocessors: int
    """How many."""

    handle: Any
    """The driver's own."""


class Driver(Protocol):
    """Thin calls: none of them waits, except where it says so. GPUs are CUDA's ordinals.

    What CUDA refuses raises; `is_fatal` tells whether the process can go on.
    """

    @property
    def namespace(self) -> Any:
        """The module whose functions work on its arrays, in the stream of `run` or `scope`."""

    def gpus(self) -> list[Gpu]:
        """List the GPUs."""

    def use(self, gpus: Sequence[int]) -> None:
        """Hear which GPUs are used, before anything is done on them; others are left alone."""

    def enable_peer(self, gpu: int, peer: int) -> bool:
        """Let a GPU use the memory of another one, and say whether it can."""

    def prepare(self, gpu: int) -> None:
        """Compile and load kernels, so that no launch does; may take seconds."""

    def malloc(self, gpu: int, nbytes: int) -> int:
        """Return the address of new memory, aligned to 256 bytes.

        Raises:
          MemoryError: the GPU is full.
        """

    def free(self, gpu: int, address: int) -> None:
        """Give memory back; waits for the GPU."""

    def malloc_host(self, nbytes: int) -> int:
        """Return the address of new page-locked memory that every GPU can use.

        Raises:
          MemoryError: the host has no room for it.
        """

    def free_host(self, address: int) -> None:
        """Give page-locked memory back; waits for all GPUs."""

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
        """Return memory of a GPU as an array that keeps `owner` alive."""

    def from_dlpack(self, producer: Any) -> LocalArray:
        """Return the memory of a DLPack producer; within a `scope`, whose stream waits for it."""

    def address(self, array: LocalArray) -> int:
        """Return the address of the first element of an array that is no NumPy array."""

    def addresses(self, arrays: LocalArrays) -> list[int]:
        """Return the addresses of the first elements of several of them."""

    def gpu_of(self, array: LocalArray) -> int | None:
        """Return the GPU that an array lies on, None for one of the host."""

    def divide(self, gpu: int, parts: int) -> list[Share]:
        """Divide the multiprocessors of a GPU into shares of one size, for as long as it is used.

        Raises:
          ConfigurationError: that cannot be done here.
        """

    def stream(self, gpu: int, share: Share | None = None) -> StreamHandle:
        """Make a stream, which has a share of the GPU or all of it."""

    def event(self, gpu: int) -> EventHandle:
        """Make an event."""

    def record(self, event: EventHandle, stream: StreamHandle) -> None:
        """Set an event after what a stream has been given."""

    def wait(self, stream: StreamHandle, event: EventHandle) -> None:
        """Let a stream wait until an event, as it is set now."""

    def record_legacy(self, event: EventHandle, gpu: int) -> None:
        """Set an event after what the legacy default stream of a GPU has been given."""

    def let_wait(self, consumer: int, gpu: int, event: EventHandle) -> None:
        """Let somebody else's stream wait for an event.

        It is given by its address; 1 and 2 are the default streams of `gpu`.
        """

    def is_done(self, event: EventHandle) -> bool:
        """Whether an event has come."""

    def synchronize(self, event: EventHandle) -> None:
        """Wait for an event."""

    def synchronize_gpu(self, gpu: int) -> None:
        """Wait for everything on a GPU, whoever gave it."""

    def scope(
        self, stream: StreamHandle, allocate: Callable[[int], tuple[int, Any]]
    ) -> AbstractContextManager[None]:
        """Let what the thread launches go to a stream, and its memory come from a function.

        That is like the one which `provide` takes.
        """

    def rehearse(self, kernel: Any, operands: Sequence[Any], results: Kinds, gpu: int) -> None:
        """Call a kernel with small arrays like those given, so that it is compiled."""

    def provide(self, stream: StreamHandle, allocate: Callable[[int], tuple[int, Any]]) -> None:
        """Let temporary memory of what `run` gives a stream come from a function.

        It takes a number of bytes, and gives an address and what has to live as long as that is
        used.
        """

    def run(self, stream: StreamHandle, work: Callable[..., None], *args: Any) -> None:
        """Call a function that gives a stream work, within its `scope`."""

    def give(self, stream: StreamHandle, work: Callable[..., None], *args: Any) -> None:
        """Call a function that gives a stream work by calls of this driver alone."""

    def copy(self, target: int, source: int, nbytes: int, stream: StreamHandle) -> None:
        """Copy bytes by a copy engine; memory of the host must be page-locked."""

    def copy_peer(
        self, target: int, gpu: int, source: int, peer: int, nbytes: int, stream: StreamHandle
    ) -> None:
        """Copy bytes from the memory of another GPU by a copy engine."""

    def nccl(self) -> Any:
        """Return CuPy's module of that name; None where the library is not installed."""

    def upload(self, target: int, data: HostArray, stream: StreamHandle) -> None:
        """Copy a few bytes that may be overwritten at once."""

    def clear(self, target: int, nbytes: int, stream: StreamHandle) -> None:
        """Set bytes to 0, but by no kernel."""

    def launch_pieces(self, pieces: Pieces, stream: StreamHandle) -> None:
        """Copy boxes by a kernel that takes them as its argument."""

    def launch_fills(self, fills: Fills, stream: StreamHandle) -> None:
        """Fill boxes by a kernel that takes them as its argument."""

    def launch_table(
        self, table: Table, batch: Batch, bases: HostArray, stream: StreamHandle
    ) -> None:
        """Copy boxes by a kernel that reads a table; `bases` are of type `pieces.BASES`."""

    def elementwise(self, gpu: int, function: Any, signature: Signature) -> Any:
        """Return the loaded kernel of an elementwise function, for `launcher`; None without one.

        The function is one of the namespace, or an `ElementwiseKernel` of in0, in1, ..., all of a
        type T, and out0.
        """

    def reduction(self, gpu: int, name: str, signature: Signature) -> Any:
        """Return the loaded kernel that reduces rows, for `launcher`; None if there is none."""

    def fuses(self, op: Op, types: Sequence[Dtype]) -> bool:
        """Whether a kernel can do an elementwise function among others."""

    def fused(self, gpu: int, dealt: ThreadNest, signature: Signature, way: Threads) -> Any:
        """Return the loaded kernel of a loop nest, for `launcher`.

        Args:
          gpu: where.
          dealt: what it computes; `fuses` is true of all operations that are elementwise.
          signature: what is taken, blocks first, and given.
          way: how loops are dealt out to threads.

        Returns:
          None if threads would need too much memory for their arrays.

        Raises:
          BrokenKernelError: the kernel would not do what the functions do.
        """

    def multiplies(self, gpu: int, function: Any, dtype: Dtype) -> bool:
        """Whether a function multiplies matrices and `multiply` can, which is made ready."""

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
          stream: where.
          sizes: rows of the first one, its columns, columns of the second one.
          x: the first one.
          y: the second one.
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
        """Multiply pairs of such matrices, all of the same shapes.

        Args:
          stream: where.
          dtype: of all.
          sizes: rows of the first ones, their columns, columns of the second ones.
          count: how many pairs there are.
          table: address on the GPU of their addresses: first ones, second ones, results.
        """

    def launcher(
        self, kernel: Any, grid: tuple[int, int], parameters: int, stream: StreamHandle
    ) -> Callable[[], None]:
        """Return what launches a kernel on a grid of (blocks for each call, calls).

        `parameters` is the address of the address of its argument.
        """

    def capture(self, stream: StreamHandle, work: Callable[[], None]) -> GraphHandle:
        """Return what a function gives a stream, none of which is run now, as a graph."""

    def launch_graph(self, graph: GraphHandle, stream: StreamHandle) -> None:
        """Give a stream all that is in a graph."""

    def drop_graph(self, graph: GraphHandle) -> None:
        """Forget a graph, once it has run where it was launched; does not wait."""

    def empty_cache(self) -> None:
        """Give back what libraries keep for temporary memory and nothing uses."""

    def is_fatal(self, error: BaseException) -> bool:
        """Whether the process can use no GPU any more after this error."""


@dataclass(frozen=True)
class Table:
    """Addresses of the arrays of a table of pieces in the memory of a GPU."""

    pieces: int
    """Of type `pieces.PIECE`."""

    first: int
    """First block of each, 32 bits."""

    ends: int
    """Of type `pieces.ENDS`."""
