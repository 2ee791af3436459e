"""What a graph becomes to be run: a flat list of prepared calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard.movement.buffer import ShardedBuffer
from gpushard.transforms.graph import Graph, Run, Var
from gpushard.transforms.regions import fused


class Executable:
    """A graph that is ready to run.

    Args:
      graph: it; what nobody needs is left out.
    """

    def __init__(self, graph: Graph) -> None:
        steps = fused(graph)
        places: dict[Var, int] = {}

        def place(x: Any) -> int:
            if not isinstance(x, Var):  # data of the host
                hosted.append(x)
                return -len(hosted)
            return places.setdefault(x, len(places))

        hosted: list[Any] = []
        for var in (*graph.inputs, *graph.constants):
            place(var)
        calls = [
            (step.run, [place(x) for x in step.operands], step.numbers, step.results)
            for step in steps
        ]
        results = [place(x) for x in graph.results]
        last: dict[int, int] = {}
        for number, (_, operands, _, made) in enumerate(calls):
            for at in (*operands, *map(place, made)):
                last[at] = number
        kept = {*results, *(places[var] for var in graph.constants)}
        self._calls: list[tuple[Run, list[int], tuple[Any, ...], list[int], list[int]]] = []
        for number, (run, operands, numbers, made) in enumerate(calls):
            to = [place(x) for x in made]
            ended = {at for at in (*operands, *to) if at >= 0 and last[at] == number} - kept
            self._calls.append((run, operands, numbers, to, sorted(ended)))
        self._results = results
        self._constants = [x._live() for x in graph.constants.values()]
        self._rest = [None] * (len(places) - len(graph.inputs) - len(self._constants))
        self._hosted = hosted[::-1]  # the last places, counted from the end
        self.launches = len(calls)
        """How many operations it is."""

    def run(self, inputs: Sequence[ShardedBuffer]) -> list[ShardedBuffer]:
        """Run it.

        Args:
          inputs: buffers of the arguments, in order.

        Returns:
          Buffers of the results; some may be among the inputs.

        Raises:
          OutOfMemoryError: a device has no room; no argument has changed.
        """
        held: list[Any] = [*inputs, *self._constants, *self._rest, *self._hosted]
        for run, operands, numbers, to, ended in self._calls:
            made = run([held[at] for at in operands], numbers)
            for at, buffer in zip(to, made, strict=True):
                held[at] = buffer
            for at in ended:
                held[at] = None
        return [held[at] for at in self._results]
