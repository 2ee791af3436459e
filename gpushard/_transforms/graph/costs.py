"""Count what each device does for a graph: operations on numbers, bytes read, written and moved.

Bytes moved are those that a device receives from others, as if each were a memory domain. They
depend on shapes and shardings only, as prices do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from gpushard._ops.programs.bring import lacking_bytes
from gpushard._ops.steps import evenly
from gpushard._transforms.graph.graph import Graph, Operation, Var
from gpushard._transforms.graph.layouts import program_for
from gpushard._transforms.graph.ops import Region, Reshard, RowOp

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
    match step.op:
        case Reshard():
            (x,), (to,) = step.arrays, step.results
            return lacking_bytes(x.tiling, to.tiling, x.dtype.itemsize)
        case Region(kernel=kernel):
            return kernel.received()
        case RowOp(row=row, numbers=numbers) if step.operands and not row.creates:
            return program_for(step.op, step.operands).received(numbers)
    return evenly(step.moved, step.results[0].tiling.devices if step.results else ())


def _flops(step: Operation) -> Counter[Any]:
    """Count the operations on numbers that each device does."""
    op = step.op
    if not isinstance(op, RowOp) or op.only_moves or op.row.creates:
        return Counter()
    return program_for(op, step.operands).flops()
