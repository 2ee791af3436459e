"""Running rows without operands: each shard is made where it will live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.programs.calls import LocalCalls, Work, calls_of
from gpushard.ops.row import Row
from gpushard.ops.shardings import check_available


def create(row: Row, tiling: Tiling, dtype: Dtype, numbers: Sequence[Any]) -> ShardedBuffer:
    """Make an array of nothing but numbers, which the row's kernel takes after the site."""
    runtime = devices_of(tiling)[0].runtime
    check_available(runtime, row.name, (Aval((), dtype),))
    key = (row, tiling, dtype)
    program: LocalCalls | None = runtime.plans.get(key)
    if program is None:
        kernel = row.kernel(runtime.backend.namespace, (), (tiling.shape, dtype))
        calls, of_device = calls_of(row, (), [tiling])
        work = Work(runtime, row.name, kernel, calls, of_device, [tiling], [dtype])
        program = LocalCalls(work, light=True)
        runtime.plans.put(key, program, 3000 + 500 * len(tiling.devices))
    (made,) = program.run((), list(enumerate(numbers)))
    return made
