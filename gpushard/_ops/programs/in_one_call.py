"""Operations that one call computes from all blocks of a memory domain.

If each call had to search all positions for the ones of its block, as many searches would run as
there are blocks. One call searches nothing. It works on the whole array, and each device then gets
a copy of its block.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.tiling import Tiling
from gpushard._movement.planning.holdings import holdings
from gpushard._ops.aval import Aval
from gpushard._ops.operand import Operand, Scalar, Sharded
from gpushard._ops.programs.calls import CallPlan, KernelCall
from gpushard._ops.programs.local import Compute, flops_of, program_around
from gpushard._ops.programs.owners import Owned, Preferred, Take, may_join
from gpushard._ops.row import Case, Params, ShardedCall
from gpushard._ops.steps import Program, Result
from gpushard._typing import Index, LocalArray, Shape


@dataclass(frozen=True)
class Together:
    """The arrays that a call on all blocks of its operands takes."""

    counts: tuple[int, ...]  # the number of arrays of each operand; a Python number counts as one
    boxes: tuple[Index, ...]  # where each block of the first operand lies in the whole
    shape: Shape  # of the whole

    def by_operand(self, arrays: Sequence[Any]) -> list[Sequence[Any]]:
        """Group arrays by operand.

        >>> Together((2, 1), (), ()).by_operand("abc")
        ['ab', 'c']
        """
        ends = np.cumsum(self.counts).tolist()
        return [arrays[end - n : end] for end, n in zip(ends, self.counts, strict=True)]


@dataclass(frozen=True, eq=False)
class InOneCall(Preferred):
    """One call computes the whole result, of the first operand's shape, from all blocks.

    `kernel(Together, *arrays)` takes all blocks of the first operand. The other operands are whole,
    or cut along the first whole factor. The other strategy runs on GPUs, under quotas, and where no
    memory domain has all blocks.
    """

    # Takes the operands, the parameters, and the dims of the first operand that are split; says
    # whether one call takes less time than a call for each block.
    is_faster: Callable[[Sequence[Aval], Params, Sequence[int]], bool]

    def _compiled(self, case: Case, call: ShardedCall) -> Program | None:
        first, choice, (aval,) = case.operands[0], call.choice, case.results
        if choice is None or not isinstance(first, Sharded):
            return None
        if not may_join(case) or not case.rule.whole:
            return None
        split = _split_dims(first.tiling)
        domains = set(holdings(call.results[0].tiling.assignment).domain.tolist())
        if len(domains) > 1 or not domains or not _is_in(first, domains):
            return None
        if not split or not self.is_faster(case.avals, case.params, split):
            return None
        everywhere = NamedSharding(choice.mesh, PartitionSpec())
        near = _taken_as_they_lie(case, domains)
        places = tuple(
            None
            if isinstance(x, Scalar)
            else (x.sharding, x.tiling)
            if isinstance(x, Sharded) and number in near
            else (everywhere, everywhere.tiling(x.aval.shape))
            for number, x in enumerate(case.operands)
        )
        taken = dataclasses.replace(call, operands=places)
        whole = Result(aval, everywhere, everywhere.tiling(aval.shape))
        kernel = self.kernel(case.runtime.backend.namespace, case.avals, case.params)
        inputs = [_homes(tiling) for tiling in taken.tilings]
        counts = [1 if place is None else len(_homes(place[1])) for place in places]
        boxes = [_box(first.tiling, home) for home in inputs[0]]
        site = Together(tuple(counts), tuple(boxes), aval.shape)
        reads = sum(
            math.prod(x.aval.shape) * x.aval.dtype.itemsize
            for x in case.operands
            if not isinstance(x, Scalar)
        )
        (home,) = _homes(whole.tiling)
        only = KernelCall(home, (aval.shape,), (site,), reads)
        plan = CallPlan(
            case.runtime,
            case.row.name,
            kernel,
            [only],
            [0] * len(whole.tiling.devices),
            [whole.tiling],
            [aval.dtype],
        )
        take = Take(Owned([inputs], plan), case, taken, functools.partial(flops_of, case, call))
        cut = Compute(_cut(case, home, call.results[0]), numbers=lambda numbers: ())
        return program_around(case, taken, take, cut, chosen=call)


def _cut(case: Case, home: int, result: Result) -> Owned:
    """Return the calls that copy each block of a result from the whole, which a device has."""
    tiling = result.tiling
    held, homes = holdings(tiling.assignment), _homes(tiling)
    calls = [KernelCall(at, (tiling.shard_shapes[at],), (_box(tiling, at),)) for at in homes]
    numbers = {at: number for number, at in enumerate(homes)}
    of_device = [numbers.get(at, -1) for at in held.home[held.of_device].tolist()]
    plan = CallPlan(
        case.runtime,
        case.row.name,
        _copy_part,
        calls,
        of_device,
        [tiling],
        [result.aval.dtype],
    )
    return Owned([[[home]]] * len(calls), plan)


def _copy_part(box: Index, whole: LocalArray, out: Any = None) -> LocalArray:
    if out is None:
        return whole[box].copy()
    out[...] = whole[box]
    return out


def _box(tiling: Tiling, home: int) -> Index:
    starts, stops = tiling.starts[:, home].tolist(), tiling.stops[:, home].tolist()
    return tuple(map(slice, starts, stops))


def _split_dims(tiling: Tiling) -> list[int]:
    return [dim for dim, count in enumerate(tiling.assignment.counts) if count > 1]


def _is_in(x: Operand, domains: set[int]) -> bool:
    """Test whether the blocks of an operand form a grid in the device memory of domains."""
    if not isinstance(x, Sharded) or x.sharding.memory_kind != "device":
        return False
    assignment = x.tiling.assignment
    return assignment.spans is None and domains.issuperset(holdings(assignment).domain.tolist())


def _homes(tiling: Tiling) -> list[int]:
    """Return the devices that pay for blocks with elements, in row-major order of the blocks."""
    homes = holdings(tiling.assignment).home
    at: list[int] = homes[tiling.volumes[homes] > 0].tolist()
    return at


def _taken_as_they_lie(case: Case, domains: set[int]) -> set[int]:
    """Return the operands that are in memory domains: the first, others whole or in equal pieces.

    Pieces are along the first whole factor, which is the outermost one in the order of the work.
    """
    factor = min(case.rule.whole)
    others = list(zip(case.operands, case.rule.operands, strict=True))[1:]
    taken, cut, pieces = {0}, set(), set()
    for number, (x, dims) in enumerate(others, 1):
        tiling = x.tiling if isinstance(x, Sharded) and _is_in(x, domains) else None
        split = None if tiling is None else _split_dims(tiling)
        if split == []:
            taken.add(number)
        if factor in dims:
            along = dims.index(factor)
            cut.add(number)
            edges = tiling.edges[along] if tiling is not None and split == [along] else None
            pieces.add(None if edges is None else tuple(edges.tolist()))
    return taken if None in pieces or len(pieces) > 1 else taken | cut
