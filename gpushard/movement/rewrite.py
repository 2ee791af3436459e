"""Writing a part of an array: into its own memory if nothing else holds that, or into new blocks.

What the new values are and how they get to their places is a `Write` for each memory domain. In
place a domain writes the part and nothing else. Otherwise every block that the part touches is made
anew, from the old one unless the part covers it, and the others are shared with the old array.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from gpushard.frozen import dataclass
from gpushard.movement.buffer import ShardedBuffer, claim_nothing, devices_of
from gpushard.movement.execute import Targets, allocate
from gpushard.movement.touched import EMPTY, KEPT, Touched
from gpushard.runtime.backend import Backend
from gpushard.runtime.memory import Claim, Memory
from gpushard.runtime.runtime import Runtime
from gpushard.runtime.stream import Stream
from gpushard.typing import LocalArray


@dataclass(frozen=True, eq=False)
class Write:
    """How one memory domain gets the new values into the blocks that it holds."""

    domain: int
    """The domain."""

    run: Callable[[Sequence[LocalArray]], None]
    """Writes them, given all blocks that the part touches; holds no claim."""

    reads: tuple[Claim, ...] = ()
    """The right to where the new values lie, until the work is submitted."""


@dataclass(frozen=True, eq=False)
class Overlay:
    """New values for a part of an array, which lie where they can be written from."""

    touched: Touched
    """The blocks that the part touches."""

    writes: Sequence[Write]
    """One for every domain of these."""

    ready: bool = True
    """Whether the values are there."""


def rewrite(
    base: ShardedBuffer, overlay: Overlay, name: str, *, in_place: bool = False
) -> ShardedBuffer:
    """Write a part of an array.

    Args:
      base: the old data; if `is_by_host`, they are there.
      overlay: the new values.
      name: what it is, for errors.
      in_place: whether the memory of `base` may be written; see `ownership`. If this raises then,
        nobody knows what is in it.

    Returns:
      The new data: `base` itself if it was written.

    Raises:
      OutOfMemoryError: a device has no room; nothing has changed. Never in place.
    """
    job = _Rewrite(base.runtime, base, overlay.touched, overlay.writes, name, overlay.ready)
    if not in_place:
        return job.anew()
    job.in_place()
    return base


def is_by_host(base: ShardedBuffer) -> bool:
    """Whether data are out of the reach of streams, so that the host writes and reads them."""
    return devices_of(base.tiling)[0].domain.kind == "unpinned_host"


def is_idle(base: ShardedBuffer, touched: Touched) -> bool:
    """Whether nothing reads or writes what a part touches, and nothing failed; for a sole owner."""
    for block in touched.blocks:
        memory = base.claims[block.home].memory
        if memory.written is not None or memory.used or memory.error is not None:
            return False
    return True


@dataclass(frozen=True, eq=False, slots=True)
class _Rewrite:
    """A part that is about to be written."""

    runtime: Runtime
    base: ShardedBuffer
    touched: Touched
    writes: Sequence[Write]
    name: str
    ready: bool

    def in_place(self) -> None:
        """Write into the old blocks."""
        base = self.base
        inline = is_by_host(base)
        inline = inline or (self._may_inline(self.touched.written) and is_idle(base, self.touched))
        inline = inline or self.runtime.commit(self._submit_in_place, self._streams())
        if inline:
            blocks = self._old()
            for write in self.writes:
                write.run(blocks)

    def _may_inline(self, nbytes: int) -> bool:
        runtime = self.runtime
        small = nbytes <= runtime.settings.shared_bytes
        return self.ready and small and runtime.backend.host_readable

    def _streams(self) -> list[Stream]:
        return [self.runtime.domains[write.domain].copy for write in self.writes]

    def _old(self) -> list[LocalArray]:
        return [self.base.values[block.home] for block in self.touched.blocks]

    def _submit_in_place(self) -> bool:
        """Give the writes to streams, unless it turns out that nothing has to be waited for.

        What failed to make a block keeps being its error, without being read: a memory's error goes
        only where all of its content does.
        """
        base, memories = self.base, self._memories_of(self.base)
        if self._may_inline(self.touched.written) and not any(
            memory.busy() or memory.error is not None for memory in dict.fromkeys(memories)
        ):
            return True
        base.settled = False
        replaced, blocks = self._replaced(memories), self._old()
        for write in self.writes:
            mine = list(dict.fromkeys(memories[n] for n in self._blocks_of(write.domain)))
            fresh = [memory for memory in mine if memory in replaced]
            self.runtime.submit(
                self.runtime.domains[write.domain].copy,
                self.name,
                functools.partial(_run_in_place, write, blocks, fresh),
                tuple(dict.fromkeys(claim.memory for claim in write.reads)),
                mine,
            )
        return False

    def _memories_of(self, buffer: ShardedBuffer) -> list[Memory]:
        return [buffer.claims[block.home].memory for block in self.touched.blocks]

    def _blocks_of(self, domain: int) -> tuple[int, ...]:
        return dict(self.touched.by_domain)[domain]

    def _replaced(self, memories: Sequence[Memory]) -> set[Memory]:
        """Return the memories of which nothing old stays, so that an old error is over, too.

        A memory may hold several blocks: all of the array's that lie in it have to be covered.
        """
        blocks, claims = self.touched.blocks, self.base.claims
        covered = {p for block in blocks if not block.kept for p in block.sharers}
        others = {c.memory for p, c in enumerate(claims) if p not in covered}
        return {memory for memory in memories if memory not in others}

    def anew(self) -> ShardedBuffer:
        """Make new blocks."""
        base, touched = self.base, self.touched
        if not touched.blocks:
            return ShardedBuffer(base.tiling, base.dtype, base.values, base.claims, base.settled)
        targets = self.runtime.commit(self._submit_anew, self._streams())
        if targets.inline or is_by_host(self.base):
            for write in self.writes:
                _make(self.runtime.backend, touched, write, base.values, targets.values)
        values, claims = list(base.values), list(base.claims)
        nothing: Claim | None = None
        for device, block in enumerate(touched.of_device):
            if block == EMPTY:  # what made the old array may have failed there, too
                claims[device] = nothing = nothing or claim_nothing(devices_of(base.tiling)[0])
            elif block != KEPT:
                values[device], claims[device] = targets.values[block], targets.claims[block]
        return ShardedBuffer(base.tiling, base.dtype, values, claims)

    def _submit_anew(self) -> Targets:
        """Allocate the new blocks; give the work to streams unless the caller can do it."""
        base, blocks = self.base, self.touched.blocks
        sizes = [(block.home, block.shape, block.nbytes) for block in blocks]
        inline = self._may_inline(sum(block.nbytes for block in blocks)) and base.is_settled()
        inline = inline or is_by_host(self.base)
        places, largest = devices_of(base.tiling), max(block.nbytes for block in blocks)
        targets = allocate(self.runtime, places, sizes, largest, base.dtype, inline)
        if not targets.inline and not is_by_host(self.base):
            for write in self.writes:
                self._submit_make(write, targets)
        return targets

    def _submit_make(self, write: Write, targets: Targets) -> None:
        numbers = self._blocks_of(write.domain)
        blocks = self.touched.blocks
        old = [self.base.claims[blocks[n].home].memory for n in numbers if blocks[n].kept]
        values = self.base.values, targets.values  # the item holds no claim
        self.runtime.submit(
            self.runtime.domains[write.domain].copy,
            self.name,
            functools.partial(_make, self.runtime.backend, self.touched, write, *values),
            tuple(dict.fromkeys((*old, *(claim.memory for claim in write.reads)))),
            [targets.claims[n].memory for n in numbers],
        )


def _run_in_place(write: Write, blocks: Sequence[LocalArray], fresh: Sequence[Memory]) -> None:
    """Do what an item does in place; what failed to make the content that goes matters no more."""
    for memory in fresh:
        memory.error = None
    write.run(blocks)


def _make(
    backend: Backend,
    touched: Touched,
    write: Write,
    old: Sequence[LocalArray],
    blocks: Sequence[LocalArray],
) -> None:
    """Make the new blocks of a domain: copy the old ones, unless they go, and write the part."""
    domain = write.domain
    mine = [(n, block) for n, block in enumerate(touched.blocks) if block.domain == domain]
    kept = [(blocks[n], old[block.home], domain) for n, block in mine if block.kept]
    if kept:
        backend.copy_boxes(kept, domain)
    write.run(blocks)
