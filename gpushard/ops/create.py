"""Running rows without operands: each shard is made where it will live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard.geometry.sharding import Sharding
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.ops.aval import Dtype
from gpushard.ops.jobs import jobs_of
from gpushard.ops.row import Row
from gpushard.ops.stage import Stage
from gpushard.typing import Shape


def create(
    row: Row, sharding: Sharding, shape: Shape, dtype: Dtype, numbers: Sequence[Any]
) -> ShardedBuffer:
    """Make an array of nothing but numbers.

    Args:
      row: positional and without operands, as those of `table.creation`.
      sharding: how the result is laid out, in the memory of devices.
      shape: of the result.
      dtype: of the result.
      numbers: what the row's kernel takes after the site.

    Raises:
      ShardingError: the sharding does not fit the shape.
      OutOfMemoryError: a device has no room.
    """
    tiling = sharding.tiling(shape)
    runtime = devices_of(tiling)[0].runtime
    key = (row, tiling, dtype)
    stage: Stage | None = runtime.plans.get(key)
    if stage is None:
        kernel = row.kernel(runtime.backend.namespace, (), (shape, dtype))
        jobs, of_device = jobs_of(row, (), [tiling])
        stage = Stage(runtime, row.name, kernel, jobs, of_device, [tiling], [dtype])
        runtime.plans.put(key, stage, 3000 + 500 * len(tiling.devices))
    (made,) = stage.run((), list(enumerate(numbers)))
    return made
