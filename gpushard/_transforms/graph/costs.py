"""Count what each device does for a graph: operations on numbers, bytes read, written and moved.

Bytes moved are those that a device receives from others, as if each were a memory domain. They
depend on shapes and shardings only, as prices do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._geometry.tiling import Tiling, block_edges
from gpushard._ops.operand import Sharded
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.move import Move
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Case, ShardedCall, Strategy
from gpushard._ops.shardings import refines, sharded_call
from gpushard._transforms.graph.graph import Graph, Operation, Var
from gpushard._transforms.graph.ops import Region, Reshard, RowOp
from gpushard._transforms.graph.priced import between
from gpushard._transforms.graph.steps import case_of, lacking_each

COSTS = ("flops", "bytes accessed", "bytes read", "bytes written", "bytes moved")


def costs(
    graph: Graph, steps_of: Callable[[Graph], Sequence[Operation]] = Graph.needed
) -> dict[str, Any]:
    """Count one run, by the names in `COSTS`, and under "devices" for each device.

    The body of a loop counts once, as it is not known how often it runs.

    Args:
      graph: the graph.
      steps_of: returns the operations that run of it, and of the bodies in it.
    """
    of_device: dict[Any, Counter[str]] = {}
    _add(graph, steps_of, of_device)
    total: dict[str, Any] = {
        name: float(sum(own[name] for own in of_device.values())) for name in COSTS
    }
    total["devices"] = {
        device.id: {name: float(own[name]) for name in COSTS}
        for device, own in sorted(of_device.items(), key=lambda item: item[0].id)
    }
    return total


def _add(
    graph: Graph,
    steps_of: Callable[[Graph], Sequence[Operation]],
    of_device: dict[Any, Counter[str]],
) -> None:
    def count(name: str, devices: Any, amounts: Any) -> None:
        for device, amount in zip(devices, amounts, strict=True):
            of_device.setdefault(getattr(device, "device", device), Counter())[name] += int(amount)

    for step in steps_of(graph):
        for name, values in (("read", step.operands), ("written", step.results)):
            for x in values:
                if isinstance(x, Var):
                    nbytes = x.tiling.volumes * x.dtype.itemsize
                    count(f"bytes {name}", x.tiling.devices, nbytes)
                    count("bytes accessed", x.tiling.devices, nbytes)
        moved = received(step)
        count("bytes moved", moved, moved.values())
        for member in step.op.members if isinstance(step.op, Region) else (step,):
            done = _flops(member)
            count("flops", done, done.values())
        for body in step.op.bodies:
            _add(body, steps_of, of_device)


def received(step: Operation) -> Counter[Any]:
    """Count the bytes that each device receives from others while an operation runs."""
    moved: Counter[Any] = Counter()
    op = step.op
    if isinstance(op, Reshard):
        (x,), (to,) = step.arrays, step.results
        return _lacking(x.tiling, to.tiling, x.dtype.itemsize)
    if isinstance(op, Region):
        for own, to_tiling, itemsize in op.brings:
            moved += _lacking(own, to_tiling, itemsize)
        for member in op.merges:
            assert isinstance(member.op, RowOp)
            strategy, case, call = _chosen(member, member.op)
            assert call is not None
            moved += _merging(strategy, case, call)
        return moved
    if not isinstance(op, RowOp) or op.row.creates or not step.operands:
        return _evenly(step)
    strategy, case, call = _chosen(step, op)
    if isinstance(strategy, Move):
        tilings = [x.tiling for x in case.operands if isinstance(x, Sharded)]
        elements = between(strategy, case, tilings, step.results[0].tiling, op.numbers)
        return Counter({d: n * step.results[0].dtype.itemsize for d, n in elements.items()})
    if call is None or type(strategy) not in (Local, Reduce):
        return _evenly(step)
    for operand, place in zip(case.operands, call.operands, strict=True):
        if isinstance(operand, Sharded) and place is not None:
            moved += _lacking(operand.tiling, place[1], operand.aval.dtype.itemsize)
    moved += _merging(strategy, case, call)
    for result, end in zip(call.results, call.ends, strict=True):
        if not (isinstance(strategy, Reduce) and refines(end.tiling, result.tiling)):
            moved += _lacking(result.tiling, end.tiling, result.aval.dtype.itemsize)
    return moved


def _chosen(step: Operation, op: RowOp) -> tuple[Strategy, Case, ShardedCall | None]:
    """Return the strategy of an operation for the layouts of its operands and results."""
    case = case_of(op, step.operands, None)
    strategy, call = sharded_call(case)
    if call is not None and call.ends[0].tiling is not step.results[0].tiling:
        case = case_of(op, step.operands, step.results[0].sharding)
        strategy, call = sharded_call(case)
    return strategy, case, call


def _lacking(own: Tiling, to: Tiling, itemsize: int) -> Counter[Any]:
    elements = (lacking_each(own, to) * itemsize).tolist()
    return Counter(dict(zip(to.devices, elements, strict=True)))


def _evenly(step: Operation) -> Counter[Any]:
    """Divide bytes evenly among devices, if only their sum is known."""
    devices = step.results[0].tiling.devices if step.results else ()
    edges = block_edges(step.moved, max(1, len(devices)))
    return Counter(dict(zip(devices, np.diff(edges).tolist(), strict=False)))


def _merging(strategy: Strategy, case: Case, call: ShardedCall) -> Counter[Any]:
    """Count the bytes that devices receive to merge the parts of a reduction.

    Each device that has a part of a block merges one piece of the block. The pieces then go to all
    devices that want the block. If each device wants a piece of its own, it merges that piece.
    """
    moved: Counter[Any] = Counter()
    if not isinstance(strategy, Reduce):
        return moved
    natural, end = call.results[0].tiling, call.ends[0].tiling
    result = end if refines(end, natural) else natural
    width = sum(dtype.itemsize for dtype in strategy.states(case.avals, case.params))
    boxes = result.assignment.flat.tolist()
    members: dict[int, dict[Any, int]] = {}
    wanting: dict[int, list[int]] = {}
    for n, block in enumerate(natural.assignment.flat.tolist()):
        if all(tiling.volumes[n] for tiling in call.tilings):
            part = tuple(tiling.assignment.flat[n] for tiling in call.tilings)
            members.setdefault(block, {}).setdefault(part, n)
        if result.volumes[n]:
            wanting.setdefault(block, []).append(n)
    for block, parts in members.items():
        own, wants = list(parts.values()), wanting.get(block, [])
        if len(own) == 1:
            continue
        size = int(natural.volumes[own[0]])
        apart = len({boxes[n] for n in wants}) == len(wants) > 1
        if apart and sum(int(result.volumes[n]) for n in wants) == size:
            for n in wants:
                others = len(own) - (n in own)
                moved[natural.devices[n]] += others * int(result.volumes[n]) * width
            continue
        pieces = dict(zip(own, np.diff(block_edges(size, len(own))).tolist(), strict=True))
        for n, piece in pieces.items():
            moved[natural.devices[n]] += (len(own) - 1) * piece * width
        for n in wants:
            moved[natural.devices[n]] += (size - pieces.get(n, 0)) * width
    return moved


def _flops(step: Operation) -> Counter[Any]:
    """Count operations on numbers: one for each element, two if products are summed."""
    op = step.op
    if not isinstance(op, RowOp) or op.only_moves or op.row.creates:
        return Counter()
    _, case, call = _chosen(step, op)
    if call is None:
        return Counter()
    rule, natural = case.rule, call.results[0].tiling
    products = 2 if rule.reduced and len(rule.operands) > 1 else 1
    done = np.full(len(natural.devices), products, np.int64)
    of_factor: dict[int, Any] = {}
    arrays = [None if place is None else place[1] for place in call.operands]
    tilings = [*arrays, *(x.tiling for x in call.results)]
    for dims, tiling in zip((*rule.operands, *rule.results), tilings, strict=True):
        for dim, factor in enumerate(dims):
            if tiling is None or factor is None or tiling.shape[dim] != rule.sizes[factor]:
                continue
            of_factor[factor] = tiling.stops[dim] - tiling.starts[dim]
    for factor, size in enumerate(rule.sizes):
        done = done * of_factor.get(factor, size)
    return Counter(dict(zip(natural.devices, done.tolist(), strict=True)))
