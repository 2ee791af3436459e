"""Loop nests as launches: one for all devices of a chip."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gpushard.geometry.tiling import Tiling
from gpushard.ops.programs.calls import Work
from gpushard.ops.programs.launched import Launched, launched_together
from gpushard.runtime.backend import ROOM, NestKernel
from gpushard.runtime.nests import Nest


def launched_nest(
    work: Work, nest: Nest, kernel: NestKernel, tilings: Sequence[Tiling]
) -> tuple[Launched, int] | None:
    """Return calls of a nest as launches; None if there are none for it.

    Args:
      work: what there is to call.
      nest: what is computed.
      kernel: what computes it.
      tilings: boxes of the operands.

    Returns:
      The calls, and the bytes that they hold while they run: a result behind all others.
    """
    operands = list(zip(nest.operand_types, tilings, strict=True))
    lengths = [
        tuple(nest.lengths([x.shard_shapes[call.home] for _, x in operands])) for call in work.calls
    ]
    calls, kinds, outs, scratch = work.calls, work.dtypes, work.tilings, 0
    if kernel.room is not None:
        rooms = [kernel.room(own) for own in lengths]
        calls = [
            dataclasses.replace(call, shapes=(*call.shapes, (room,)))
            for call, room in zip(calls, rooms, strict=True)
        ]
        kinds, outs, scratch = [*kinds, ROOM], [*outs, outs[0]], sum(rooms) * ROOM.itemsize
    work = dataclasses.replace(work, calls=calls, dtypes=kinds, tilings=outs)
    types = [number.dtype for number in kernel.numbers]
    launched = launched_together(work, types, operands, lengths)
    return None if launched is None else (launched, scratch)
