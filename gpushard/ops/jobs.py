"""Which calls of a kernel an operation needs: one for distinct operands in each memory domain."""

from __future__ import annotations

from collections.abc import Sequence

from gpushard.geometry.tiling import Tiling
from gpushard.movement.planning.holders import holdings
from gpushard.ops.row import Row, Site
from gpushard.ops.stage import Job


def jobs_of(
    row: Row,
    operands: Sequence[tuple[Tiling, int]],
    results: Sequence[Tiling],
    takes_part: Sequence[bool] | None = None,
) -> tuple[list[Job], list[int]]:
    """List the calls of a row's kernel on blocks.

    Devices of one domain whose operands and results are the same blocks share a call; it is charged
    to the device that the first result's block is at home on.

    Args:
      row: the operation.
      operands: boxes of the operands, over the devices of the results in the same order, and the
        bytes of an element.
      results: boxes of the results.
      takes_part: whether each device has work at all; by default where it has some result.

    Returns:
      The calls; and for each device the number of its call, -1 where it has none.
    """
    tilings = (*(tiling for tiling, _ in operands), *results)
    domain = holdings(results[0].assignment).device_domain.tolist()
    blocks = [tiling.assignment.flat.tolist() for tiling in tilings]
    volumes = [tiling.volumes.tolist() for tiling in results]
    homes = holdings(results[0].assignment)
    numbers: dict[tuple[int, ...], int] = {}
    jobs: list[Job] = []
    of_device: list[int] = []
    for position in range(len(results[0].devices)):
        there = any(volume[position] for volume in volumes)
        if not there or not (takes_part is None or takes_part[position]):
            of_device.append(-1)
            continue
        key = (domain[position], *(block[position] for block in blocks))
        number = numbers.setdefault(key, len(jobs))
        if number == len(jobs):
            home = int(homes.home[homes.of_device[position]])
            same = all(block[home] == block[position] for block in blocks)
            jobs.append(_job(row, operands, results, home if same else position))
        of_device.append(number)
    return jobs, of_device


def _job(
    row: Row, operands: Sequence[tuple[Tiling, int]], results: Sequence[Tiling], home: int
) -> Job:
    shapes = tuple(tiling.shard_shapes[home] for tiling in results)
    reads = sum(int(tiling.volumes[home]) * itemsize for tiling, itemsize in operands)
    if not row.positional:
        return Job(home, shapes, (), reads)
    tilings = [*(tiling for tiling, _ in operands), results[0]]
    starts = [tuple(tiling.starts[:, home].tolist()) for tiling in tilings]
    return Job(home, shapes, (Site(tuple(starts[:-1]), starts[-1], shapes[0]),), reads)
