"""What a mask selects: every block gives what it has, and the parts go where they are wanted.

The host reads how many elements each block selects. Parts are as long as that, so together they are
an array with blocks of different lengths over the same devices, which is moved like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.host import read_host
from gpushard.movement.planning.holders import holdings
from gpushard.movement.reshard import move_once
from gpushard.ops.aval import Dtype
from gpushard.ops.programs.calls import Call, LocalCalls, Work
from gpushard.ops.row import Kernel
from gpushard.ops.table.elementwise import writing
from gpushard.typing import IntArray, LocalArray

_INDEX = np.dtype(np.int64)


def counts_of(mask: ShardedBuffer, name: str) -> IntArray:
    """Return how many elements are true in each block of a mask of one dim; waits for it."""
    runtime, tiling = mask.runtime, mask.tiling
    key = ("counts", tiling)
    counting: LocalCalls | None = runtime.plans.get(key)
    if counting is None:
        xp = runtime.backend.namespace
        held = holdings(tiling.assignment)
        volumes = tiling.volumes.tolist()
        work = Work(
            runtime,
            name,
            writing(lambda block: xp.asarray(xp.count_nonzero(block)).reshape(1)),
            [Call(home, ((1,),), (), volumes[home]) for home in held.home.tolist()],
            held.of_device.tolist(),
            [Tiling.regular((tiling.assignment.boxes,), tiling.assignment)],
            [_INDEX],
        )
        counting = LocalCalls(work)
        runtime.plans.put(key, counting, 2000 + 500 * len(held.key))
    return read_host(counting.run([mask])[0])


def selected(
    mask: ShardedBuffer,
    others: Sequence[ShardedBuffer],
    counts: IntArray,
    make: Callable[[Any], Callable[..., Any]],
    results: Sequence[tuple[Dtype, Tiling]],
    name: str,
) -> list[ShardedBuffer]:
    """Return what a mask selects.

    Args:
      mask: of one dim.
      others: laid out like it.
      counts: how many elements are true in each of its blocks, not all of them none.
      make: takes NumPy or CuPy; makes `part(start, count, mask, *others)` of a block, which gives
        an array of `count` elements for each result.
      results: their types, and how they are laid out in the end.
      name: of the operation, for errors.
    """
    runtime, tiling = mask.runtime, mask.tiling
    held = holdings(tiling.assignment)
    lengths = counts[held.block].tolist()
    edges = np.concatenate(([0], np.cumsum(counts)))
    parts = Tiling((int(edges[-1]),), tiling.assignment, (edges,))
    there = [pair for pair, length in enumerate(lengths) if length]
    numbers = {pair: number for number, pair in enumerate(there)}
    calls = []
    reads = mask.dtype.itemsize + sum(other.dtype.itemsize for other in others)
    for pair in there:
        home, length = int(held.home[pair]), lengths[pair]
        site = int(tiling.starts[0, home]), length
        size = int(tiling.volumes[home]) * reads
        calls.append(Call(home, ((length,),) * len(results), site, size))
    of_device = [numbers.get(pair, -1) for pair in held.of_device.tolist()]
    kernel: Kernel = writing(make(runtime.backend.namespace))
    dtypes = [dtype for dtype, _ in results]
    work = Work(runtime, name, kernel, calls, of_device, [parts] * len(results), dtypes)
    made = LocalCalls(work).run([mask, *others])
    return move_once(made, [wanted for _, wanted in results], name)


def places(xp: Any, mask: LocalArray, count: int) -> LocalArray:
    """Return where a block of a mask is true; CuPy does not wait to see how often that is."""
    if xp is np:
        return np.flatnonzero(mask)
    wanted = xp.arange(1, count + 1, dtype=_INDEX)
    return xp.searchsorted(mask.cumsum(dtype=_INDEX), wanted)
