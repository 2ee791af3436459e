"""What a backend provides. Everything else is shared between backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from gpushard._frozen import dataclass
from gpushard._runtime.callbacks import Caller
from gpushard._runtime.claims import Claim
from gpushard._runtime.copy_phase import BoxCopy, Message, Phase
from gpushard._runtime.item import Item
from gpushard._runtime.memory import Memory
from gpushard._runtime.nests import Nest, Op
from gpushard._runtime.pool import Store
from gpushard._runtime.stream import Event, Stream, Tick
from gpushard._runtime.work_sharing import Pace
from gpushard._typing import Dtype, HostArray, Kinds, LocalArray, LocalArrays, Shape
from gpushard.config import Settings

T = TypeVar("T")

Tasks: TypeAlias = Sequence[Callable[[], None]]
"""Calls that are independent of one another."""

Memories: TypeAlias = Sequence[Memory]
"""What calls read, or write."""

Claiming: TypeAlias = Callable[[Stream, int], Claim]
"""Claims so many bytes for items of a stream."""

Committing: TypeAlias = Callable[[Callable[[], Claim]], Claim]
"""Runs what claims under the submission lock."""

HOST_DOMAIN = -1
"""Stands for the user's own host memory where memory domains are counted."""


@dataclass(frozen=True)
class DeviceInfo:
    """What a backend says of one of its devices."""

    kind: str  # such as "host" or the name of a GPU
    hardware_id: int  # position of the chip among those of this process
    partition: int  # which part of the chip
    domain: int  # the memory domain; devices of one domain share physical memory
    pinned_domain: int  # the memory domain of the page-locked host memory beside it
    # The memory domain of ordinary host memory. All three are one where it is the device's.
    pageable_domain: int
    # Where the chip sits on the PCI bus, such as "0000:3b:00.0"; None if it sits on none.
    bus_id: str | None = None
    # The `hardware_id` of every other chip whose memory this one reads and writes directly; None
    # where chips do not have memories of their own.
    peers: frozenset[int] | None = None
    # How many multiprocessors of the chip its work runs on; None where that is not known.
    multiprocessors: int | None = None


@dataclass(frozen=True, eq=False)
class Reducing:
    """A function of a backend's namespace that reduces some dims."""

    function: Callable[..., Any]
    axes: tuple[int, ...]  # these dims, from the end
    options: Mapping[str, Any]  # what else the function takes by name

    def __call__(self, x: LocalArray, out: Any = None) -> Any:
        """Reduce an array."""
        return self.function(x, self.axes, out=out, **self.options)


ROOM = np.dtype(np.complex128)
"""The type of the elements that launches need beyond their results: 16 bytes."""


@dataclass(frozen=True, eq=False)
class NestKernel:
    """A loop nest as a backend computes it: a function of blocks, or launches by `calls`."""

    function: Any  # works on blocks, as NumPy's functions do; or what `calls` takes
    launched: bool  # whether it is for `calls`
    steps: int = 1  # about how many functions of NumPy's it uses for a block
    numbers: Sequence[np.generic] = ()  # what launches take after the blocks
    # How many elements of `ROOM` a launched call needs behind its results, from the lengths of its
    # loops; None for none.
    room: Callable[[Shape], int] | None = None


class Calls(Protocol):
    """Calls of a function that a backend makes at once."""

    nbytes: int  # bytes of the memory for all results, where they share one
    replays: bool  # whether `replay` takes them

    def on(
        self, blocks: LocalArrays, raws: Sequence[Any], numbers: Sequence[np.generic]
    ) -> tuple[list[LocalArray], Callable[[], None]]:
        """Return the results of all calls and the work of an item that makes them.

        Operands come all of the first one first, in the order of the calls; so do results. `raws`
        is the memory for all results, or that of each.
        """


class Replay(Protocol):
    """Calls one after the other, given to a stream at once."""

    def on(self, blocks: LocalArrays, raws: Sequence[Any]) -> Callable[[], None]:
        """Return the work of an item that makes them, on these blocks and in this memory."""


class Backend(Store, Protocol):
    """Devices, memory, queues and copies of one kind of hardware."""

    name: str  # the name that selects it
    platform: str  # "cpu" or "gpu"

    @property
    def exact(self) -> bool:
        """Whether an event can still be placed at a past item of a stream."""

    @property
    def host_readable(self) -> bool:
        """Whether the host can use device memory as it lies, as it can that of host domains."""

    def computes(self, dtype: Dtype) -> bool:
        """Whether the functions of `namespace` know a type."""

    @property
    def traffic(self) -> dict[tuple[int, int], int]:
        """Bytes copied so far for each (source domain, destination domain)."""

    @property
    def namespace(self) -> Any:
        """The module whose functions work on local arrays: NumPy or CuPy."""

    def describe(self) -> list[DeviceInfo]:
        """List the devices."""

    def new_lock(self) -> AbstractContextManager[Any]:
        """Make a lock that threads of the host share, and that one of them may take again."""

    def reaches(self, domain: int, source: int) -> bool:
        """Whether work on the streams of `domain` can read memory of `source`."""

    def sends(self, domain: int, source: int) -> bool:
        """Whether `domain` gets memory of `source` by messages rather than by copies.

        That may end when a message has failed. Asked first, it may take seconds.
        """

    def view(self, raw: Any, shape: Shape, dtype: Any) -> LocalArray:
        """Return the start of a raw buffer as a dense array."""

    def views(self, raw: Any, starts: Sequence[int], kinds: Kinds) -> LocalArrays:
        """Return parts of a raw buffer, of known shapes and types, as dense arrays."""

    def empty(self, domain: int, shape: Shape, dtype: Any) -> LocalArray:
        """Return an array without elements, as others of a domain are."""

    def address(self, array: LocalArray) -> int:
        """Return the address of the first element."""

    def host_view(self, array: LocalArray, owner: Any) -> HostArray:
        """Return host-readable local data as a read-only NumPy array that keeps `owner` alive."""

    def dlpack_device(self, domain: int) -> tuple[int, int]:
        """Return DLPack's device type and id of a memory domain."""

    def lend(self, array: LocalArray, owner: Any, *, consumer: int | None = None) -> Any:
        """Return local data as an array of the backend's library that keeps `owner` alive.

        Args:
          array: the data; NumPy's comes back read-only.
          owner: what has to live as long as the result.
          consumer: a stream that the runtime does not know of and that may use it, as DLPack
            numbers streams, or -1 for any; None if there is none. `owner` must live until such
            work is over, too, at the latest until the whole device has been waited for.
        """

    def borrow(self, producer: Any, domain: int, stream: Stream) -> LocalArray:
        """Return what a DLPack producer on a domain's hardware has, without a copy.

        What is enqueued on `stream` from now on runs after whatever still writes it. The producer's
        memory is kept as long as the array, and until this backend's work that used it is over.
        """

    def follow(self, consumer: int | None, ticks: Sequence[Tick], domain: int) -> None:
        """Make a consumer's stream, numbered as by DLPack, wait for ticks; None for the host."""

    def on_stream(self, stream: Stream, tick: int) -> AbstractContextManager[None]:
        """Return a context in which work of this thread runs in the stream, right after a tick.

        Where work is the caller's own, as on the host, wait for the tick instead.
        """

    def add_stream(self, stream: Stream, domain: int, device: int | None = None) -> None:
        """Make the queue behind a stream of a domain, on the share of a device if one is given."""

    def serve(self, claim: Claiming, borrow: Claiming, commit: Committing) -> None:
        """Hear where memory comes from that libraries allocate for themselves.

        Args:
          claim: claims so many bytes while an item of a stream is launched. The stream has to wait
            for the memory's clock, and items of no other may use it.
          borrow: does so for the caller's work `on_stream`; within `commit`.
          commit: runs what borrows, where the submission lock is free.
        """

    def enqueue(self, item: Item) -> None:
        """Append an item to its stream; never waits.

        After an interrupt a second item may come with the last tick of a stream.
        """

    def record(self, stream: Stream, tick: int) -> Event:
        """Make an event that covers `tick` of `stream`."""

    def copy_boxes(self, copies: Sequence[BoxCopy], domain: int) -> None:
        """Copy into memory of `domain`: within an item in its stream's order, else at once.

        Args:
          copies: what to copy; nothing that is read overlaps with what is written.
          domain: `HOST_DOMAIN` for any memory of the host, which items can't write.
        """

    def fill_boxes(self, targets: LocalArrays, value: np.generic, domain: int) -> None:
        """Set all elements of boxes in `domain`; when that happens is as for `copy_boxes`."""

    def copy_phase(self, phase: Phase, operands: LocalArrays, domain: int) -> None:
        """Copy the boxes of a phase between dense row-major operands, as `copy_boxes` does.

        The phase may come again with other operands of the same shapes and type.
        """

    def exchange(self, messages: Sequence[Message]) -> None:
        """Give streams messages, between domains of which `sends` is true; they start together.

        It is called within an item. What each end's stream was given before orders the message.

        Raises:
          Exception: nobody knows which of them have arrived.
        """

    def calls(
        self,
        function: Any,
        operands: Sequence[Dtype],
        scalars: Sequence[int],
        results: Sequence[Dtype],
        batches: Sequence[tuple[Stream, Sequence[Shape]]],
        blocks: Sequence[Shape],
        *,
        together: bool,
    ) -> Sequence[Calls] | None:
        """Return what makes calls of a function on dense blocks, many at once.

        Args:
          function: one of the namespace, elementwise or `Reducing`; or of a launched `NestKernel`.
          operands: types of the operands.
          scalars: which of them are numbers, not blocks.
          results: types of the results.
          batches: for each the stream, all of one chip, and for each call the shape of all results;
            of a `NestKernel` the lengths of its loops.
          blocks: shapes of the operands that are blocks, the same for each call; none if they have
            that of the results.
          together: whether the results of a batch share one memory.

        Returns:
          What makes each batch; None where functions are called block by block.
        """

    def replay(
        self,
        stream: Stream,
        calls: Sequence[tuple[Calls, Sequence[tuple[int, int]], Sequence[np.generic]]],
    ) -> Replay:
        """Return what makes several of `calls`, one after the other.

        Args:
          stream: theirs.
          calls: each with its arrays, operands first, as (which block or else memory of those that
            the whole gets, bytes behind its start), and with its numbers.
        """

    def fuses(self, op: Op, types: Sequence[Dtype], length: int) -> bool:
        """Whether `calls` has kernels of an operation with others.

        Args:
          op: what it is; places and loops do not matter.
          types: of what it takes.
          length: elements of a row that it reduces for what follows in the kernel.
        """

    def compile(self, nest: Nest, blocks: Sequence[Sequence[Shape]]) -> NestKernel | None:
        """Return what computes a loop nest; None if there is nothing that does.

        Args:
          nest: what is computed.
          blocks: of each operand the shapes of its blocks.
        """

    def call_among(self, calls: int, function: Callable[[], T]) -> T:
        """Call a function, as one of several calls of kernels that run at once.

        In it libraries with threads of their own take no more than a part of the cores.
        """

    def rehearse(self, kernel: Any, operands: Sequence[Any], results: Kinds, domain: int) -> None:
        """Let a library compile what a kernel needs, outside of the submission lock.

        Operands are like those that it will get, and are not read; of results it gets shape and
        type.
        """

    def run_now(self, calls: Tasks, reads: Memories, writes: Memories, pace: Pace) -> None:
        """Run work of the host's own that waits for nothing; threads without work may help.

        The calls are independent of one another. The caller keeps claims on what they read and
        write.

        Raises:
          Exception: what a call raised, when none runs any more.
        """

    def new_caller(self) -> Caller:
        """Make what calls callbacks: a thread, which starts with the first one."""

    def prefetch(self, read: Callable[[], object]) -> None:
        """Perhaps call a function soon, on a thread of the backend's, or never."""

    def check(self) -> None:
        """Check that the devices still work, or raise DeviceLostError."""

    def recall(self) -> None:
        """Wait for the work of others on memory that was lent, and let go of what they let go."""

    def empty_cache(self) -> int:
        """Give unused memory back to the system, under the submission lock; return its bytes."""

    def close(self) -> None:
        """Stop; work that has not started is dropped."""


BackendFactory: TypeAlias = Callable[[Settings], Backend]
