"""Sharded buffers: a tiling and the local data of every device."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.tiling import Tiling
from gpushard._movement.planning.aliasing import ALIGNMENT
from gpushard._movement.sharding_devices import devices_of
from gpushard._runtime.chunks import Move
from gpushard._runtime.claims import Claim
from gpushard._runtime.copy_phase import BoxCopy, Copy, Phase
from gpushard._runtime.failures import failure
from gpushard._runtime.launch import Outputs
from gpushard._runtime.memory import Memory
from gpushard._runtime.runtime import Place, Runtime
from gpushard._typing import LocalArray


@dataclasses.dataclass(slots=True)
class ShardedBuffer:
    """The data of one array: for every device its shard and the claim on the shard's memory.

    Every shard is dense in row-major order and aligned to 16 bytes.
    """

    tiling: Tiling  # which device holds what
    dtype: np.dtype[Any]  # type of the elements
    values: list[LocalArray]  # local array of each device
    claims: list[Claim]  # claim on the memory of each local array
    settled: bool = False  # whether everything is known to be there; a shortcut for `is_ready`
    root: int = -1  # what `root_nbytes` gave, or -1: it does not change, as shards do not
    # The array of another library whose address was handed out, and which keeps the memory.
    lent: Any = None
    apart: bool | None = None  # what `are_apart` gave; None if nobody asked
    ever_lent: ClassVar[bool] = False  # whether any buffer's was, in this process

    @property
    def runtime(self) -> Runtime:
        """The runtime of the devices."""
        place: Any = self.tiling.assignment.devices[0]
        runtime: Runtime = place.runtime
        return runtime

    @property
    def memories(self) -> list[Memory]:
        """The distinct memories."""
        return list(dict.fromkeys(claim.memory for claim in self.claims))

    @property
    def root_nbytes(self) -> int:
        """Bytes of the largest root allocation that is more than a shard; 0 if there is none.

        Of one that several blocks lie in, each counts for the share that it is of what is here.
        """
        if self.root < 0:
            self.root = max(map(_larger_root, self.values, self.claims, self._lying_there()))
        return self.root

    def _lying_there(self) -> list[int]:
        """Return for each shard how many bytes of its root allocation all shards take together."""
        nbytes = [value.nbytes for value in self.values]
        if len(set(map(id, self.claims))) == len(nbytes):
            return nbytes
        address = self.runtime.backend.address
        roots = [claim.memory for claim in self.claims]
        blocks: dict[Memory, dict[int, int]] = {root: {} for root in roots}
        for value, root, size in zip(self.values, roots, nbytes, strict=True):
            if size:
                blocks[root][address(value)] = size
        together = {}
        for root, sizes in blocks.items():
            total = sum(sizes.values())
            aligned = root.nbytes - total < ALIGNMENT * len(sizes)  # nothing else is between them
            together[root] = root.nbytes if aligned else total
        return [together[root] for root in roots]

    def are_apart(self) -> bool:
        """Whether no two blocks that differ lie in the same memory, as those of `tile` do."""
        if self.apart is None:
            address, block = self.runtime.backend.address, self.tiling.assignment.flat.tolist()
            spans = sorted(
                {
                    (start := address(value), start + value.nbytes, number)
                    for value, number in zip(self.values, block, strict=True)
                    if value.nbytes
                }
            )
            self.apart = all(end <= start for (_, end, _), (start, _, _) in pairwise(spans))
        return self.apart

    def is_ready(self) -> bool:
        """Whether a read would not wait; True also for what failed."""
        return self.settled or not any(memory.pending() for memory in self.memories)

    def is_settled(self) -> bool:
        """Whether everything is there and nothing failed."""
        if not self.settled:
            self.settled = all(
                not memory.pending() and memory.error is None for memory in self.memories
            )
        return self.settled

    def check(self) -> None:
        """Check what every user of a buffer relies on; for `enable_checks`.

        Raises:
          AssertionError: a shard has the wrong shape or type, is not dense and aligned, or claims
            are missing. This is a defect of the library.
        """
        backend = self.runtime.backend
        shards = zip(devices_of(self.tiling), self.tiling.shard_shapes, self.values, strict=True)
        for device, shape, value in shards:
            where = f"shard on {device!r} of {self.tiling.shape}"
            assert value.shape == shape, f"{where}: shape {value.shape}, expected {shape}"
            assert value.dtype == self.dtype, f"{where}: dtype {value.dtype}, not {self.dtype}"
            assert value.flags.c_contiguous, f"{where}: not dense"
            aligned = not value.nbytes or backend.address(value) % ALIGNMENT == 0
            assert aligned, f"{where}: not aligned to {ALIGNMENT} bytes"
        assert len(self.claims) == len(self.values), "claims and values differ in number"

    def wait(self) -> None:
        """Wait until everything is there.

        What failed gives its memory back: an error that somebody keeps has a traceback, and the
        frames of that hold this buffer.

        Raises:
          ExecutionError: the work that should have written it failed.
        """
        if self.settled:
            return
        for memory in self.memories:
            wait_for_work(memory)
            if memory.error is not None:
                self._give_up()
                raise failure(memory.error)
        self.runtime.backend.check()
        self.settled = True

    def _give_up(self) -> None:
        """Let shards whose work failed keep the error and no memory."""
        for position, device in enumerate(devices_of(self.tiling)):
            error = self.claims[position].memory.error
            if error is not None:
                claim = claim_nothing(device)
                claim.memory.error = error
                self.claims[position] = claim


def _larger_root(value: LocalArray, claim: Claim, together: int) -> int:
    """Return the bytes of the root allocation of a shard if the shard is only a part of it."""
    root = claim.memory.nbytes
    if root and not claim.memory.capacity:  # shares the claim of small blocks that own their bytes
        root = value.nbytes if value.base is None else value.base.nbytes
    elif together:
        root = root * value.nbytes // together
    return root if root > value.nbytes else 0


@dataclass(frozen=True, eq=False)
class Operands:
    """The arrays of a plan that runs, by their numbers, and the memory of each."""

    arrays: list[LocalArray]  # the arrays
    memories: list[Memory]  # their memories; work in queues must hold no claims

    @classmethod
    def of(cls, *parts: ShardedBuffer | Outputs) -> Operands:
        """Return those of sources, and of what is allocated, in this order."""
        arrays = [value for part in parts for value in part.values]
        return cls(arrays, [claim.memory for part in parts for claim in part.claims])

    def memories_of(self, numbers: Sequence[int]) -> tuple[Memory, ...]:
        """Return the memories of some of them, each once."""
        if len(numbers) == 1:
            return (self.memories[numbers[0]],)
        return tuple(dict.fromkeys([self.memories[number] for number in numbers]))

    def move(self, copy: Copy) -> Move[Memory]:
        """Return a copy as a box on its way, with the memory that it reads."""
        to, target, of, source, _ = copy
        ends = target.of(self.arrays[to]), source.of(self.arrays[of])
        return Move(*ends, self.memories[of])

    def near(self, phase: Phase, far: Collection[int]) -> tuple[list[Memory], list[BoxCopy]]:
        """Return what a phase copies from other domains than those, and the memories it reads."""
        moves = [(self.move(copy), copy[4]) for copy in phase.moves if copy[4] not in far]
        copies = [(move.target, move.source, domain) for move, domain in moves]
        return list(dict.fromkeys(move.tag for move, _ in moves)), copies


def claim_nothing(device: Place) -> Claim:
    """Return a claim for a shard without elements, which must keep no memory from being freed.

    It has nothing to give back, so nobody counts it or hears of its end.
    """
    claim = Claim()
    claim.memory = Memory(None, 0, 0, (), device.domain.pool)
    return claim


def wait_for_work(memory: Memory) -> None:
    """Wait for what writes a memory, whether or not it fails."""
    written = memory.written
    if written is not None:
        stream, tick = written
        stream.synchronize(tick)
