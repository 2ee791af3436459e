"""One launcher: memory for all that some work writes, and who runs the work.

Whoever computes or moves says in advance what it writes: `Room`s, which are data. `launch`
allocates all of them in one submission, so that running out of memory changes nothing. The work
goes to streams in the same submission, or is left to the caller, if that may run it and nobody uses
the memory any more.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from gpushard._runtime.claims import Claim
from gpushard._runtime.memory import BLOCK_ALIGNMENT, Memory, packed
from gpushard._runtime.pool import Room
from gpushard._runtime.runtime import Place, Runtime
from gpushard._runtime.stream import Stream
from gpushard._typing import Dtype, LocalArray, LocalArrays, Shape

BYTES = np.dtype(np.uint8)
"""The type of the elements of memory that is for no type."""


@dataclasses.dataclass(slots=True)
class Outputs:
    """Arrays that work writes."""

    values: list[LocalArray]
    claims: list[Claim]  # what keeps the memory of each
    settled: bool  # whether they are there, once the caller has run what is left to it


def room_on(place: Place, shape: Shape, dtype: Dtype = BYTES, stream: Stream | None = None) -> Room:
    """Return room for an array on a device or beside it, which pays."""
    nbytes = math.prod(shape) * dtype.itemsize
    charges = ((place.account, nbytes),)
    return Room(place.domain.pool, charges, nbytes, stream, ((shape, dtype),))


def one_room(rooms: Sequence[Room], alignment: int = BLOCK_ALIGNMENT) -> Room:
    """Return one memory instead of several of one array each, which the first one's stream writes.

    What keeps an array of it keeps all of it.
    """
    starts, nbytes = packed([room.nbytes for room in rooms], alignment)
    charges = itertools.chain.from_iterable(room.charges for room in rooms)
    kinds = itertools.chain.from_iterable(room.kinds for room in rooms)
    first = rooms[0]
    return Room(first.pool, tuple(charges), nbytes, first.stream, tuple(kinds), starts)


def arrays_in(runtime: Runtime, room: Room, memory: Memory) -> LocalArrays:
    """Return the arrays that lie in a memory which was allocated."""
    if len(room.kinds) == 1:
        return [runtime.backend.view(memory.raw, *room.kinds[0])]
    return runtime.backend.views(memory.raw, room.starts, room.kinds)


def allocate(runtime: Runtime, rooms: Sequence[Room], *, here: bool = False) -> Outputs:
    """Allocate for streams to write, or `here` for the caller; inside `commit`."""
    # No variable has some of the claims if one fails: its error has this frame.
    each = [runtime.claim(room, here=here) for room in rooms]
    values: list[LocalArray] = []
    claims: list[Claim] = []
    for room, claim in zip(rooms, each, strict=True):
        arrays = arrays_in(runtime, room, claim.memory)
        values += arrays
        claims += [claim] * len(arrays)
    return Outputs(values, claims, here)


def allocate_now(runtime: Runtime, rooms: Sequence[Room]) -> Outputs:
    """Allocate for the caller to write, who waits for those that used the memory before.

    Raises:
      OutOfMemoryError: a device has no room; nothing has changed.
    """
    outputs = runtime.commit(functools.partial(allocate, runtime, rooms, here=True))
    for claim in outputs.claims:
        claim.memory.wait_idle()
    return outputs


def launch(
    runtime: Runtime,
    rooms: Sequence[Room],
    submit: Callable[[Outputs], object],
    streams: Sequence[Stream],
    *,
    here: bool = False,
    joined: Sequence[Room] = (),
) -> Outputs:
    """Allocate what work writes, and give the work to streams unless the caller can run it.

    Args:
      runtime: that of the devices.
      rooms: what it writes.
      submit: gives the work to streams.
      streams: those that it may submit to.
      here: whether the caller may run it; it does if the outputs come back as settled.
      joined: instead of the rooms, the same arrays for the caller alone to write.

    Raises:
      OutOfMemoryError: a device has no room; nothing has changed.
    """
    return runtime.commit(_launch, streams, (runtime, rooms, submit, here, joined))


def _launch(
    runtime: Runtime,
    rooms: Sequence[Room],
    submit: Callable[[Outputs], object],
    here: bool,
    joined: Sequence[Room],
) -> Outputs:
    outputs = allocate(runtime, joined if here and joined else rooms, here=here)
    if here and any(claim.memory.busy() for claim in outputs.claims):
        outputs.settled = False
        if joined:  # of streams, each says for itself when it has written
            outputs = allocate(runtime, rooms)
    if not outputs.settled:
        submit(outputs)
    return outputs
