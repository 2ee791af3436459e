"""Select elements by a mask: each block gives its part, and the parts move to the result.

The host reads the number of selected elements of each block. The parts form an array with blocks of
different lengths on the same devices, which is moved like any other array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.planning.holdings import holdings
from gpushard._movement.reshard import move_once
from gpushard._movement.to_host import read_host
from gpushard._ops.aval import Dtype
from gpushard._ops.programs.calls import CallPlan, KernelCall, LocalCalls
from gpushard._ops.row import Kernel
from gpushard._ops.table.elementwise import writing
from gpushard._typing import IntArray, LocalArray

_INDEX = np.dtype(np.int64)


def counts_of(mask: ShardedBuffer, name: str) -> IntArray:
    """Count the true elements in each block of a mask of one dim; waits for the mask."""
    runtime, tiling = mask.runtime, mask.tiling
    key = ("counts", tiling)
    counting: LocalCalls | None = runtime.plans.get(key)
    if counting is None:
        xp = runtime.backend.namespace
        held = holdings(tiling.assignment)
        volumes = tiling.volumes.tolist()
        plan = CallPlan(
            runtime,
            name,
            writing(lambda block: xp.asarray(xp.count_nonzero(block)).reshape(1)),
            [KernelCall(home, ((1,),), (), volumes[home]) for home in held.home.tolist()],
            held.of_device.tolist(),
            [Tiling.regular((tiling.assignment.boxes,), tiling.assignment)],
            [_INDEX],
        )
        counting = LocalCalls(plan)
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
    """Select elements by a mask.

    Args:
      mask: a mask of one dim.
      others: more operands in the layout of the mask.
      counts: the number of true elements in each block, not all zero.
      make: takes NumPy or CuPy, and returns the kernel `part(start, count, mask, *others)` for a
        block, which gives an array of `count` elements for each result.
      results: types and shardings of the results.
      name: the name of the operation, for errors.
    """
    runtime, tiling = mask.runtime, mask.tiling
    held = holdings(tiling.assignment)
    lengths = counts[held.block].tolist()
    edges = np.concatenate(([0], np.cumsum(counts)))
    parts = Tiling((int(edges[-1]),), tiling.assignment, (edges,))
    nonempty = [pair for pair, length in enumerate(lengths) if length]
    numbers = {pair: number for number, pair in enumerate(nonempty)}
    calls = []
    reads = mask.dtype.itemsize + sum(other.dtype.itemsize for other in others)
    for pair in nonempty:
        home, length = int(held.home[pair]), lengths[pair]
        site = int(tiling.starts[0, home]), length
        size = int(tiling.volumes[home]) * reads
        calls.append(KernelCall(home, ((length,),) * len(results), site, size))
    of_device = [numbers.get(pair, -1) for pair in held.of_device.tolist()]
    kernel: Kernel = make(runtime.backend.namespace)
    dtypes = [dtype for dtype, _ in results]
    plan = CallPlan(runtime, name, kernel, calls, of_device, [parts] * len(results), dtypes)
    selection = LocalCalls(plan).run([mask, *others])
    return move_once(selection, [wanted for _, wanted in results], name)


def places(xp: Any, mask: LocalArray, count: int) -> LocalArray:
    """Return the positions of `count` true elements of a block; CuPy does not wait."""
    if xp is np:
        return np.flatnonzero(mask)
    wanted = xp.arange(1, count + 1, dtype=_INDEX)
    return xp.searchsorted(mask.cumsum(dtype=_INDEX), wanted)
