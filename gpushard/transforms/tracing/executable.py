"""What a graph becomes to be run: a flat list of prepared calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array.array import Array, ConcreteArray
from gpushard.array.aval import KEY, KeyDType
from gpushard.array.data import Data, handle
from gpushard.array.key_array import ELEMENT, KeyArray
from gpushard.errors import OutOfMemoryError
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.runtime.reclaim import of_operation
from gpushard.transforms.graph.costs import received
from gpushard.transforms.graph.graph import Graph, Run, Step, Var, lines
from gpushard.transforms.regions.regions import fused
from gpushard.transforms.regions.segments import in_segments


class Executable:
    """A graph that is ready to run.

    Args:
      graph: it; what nobody needs is left out.
    """

    def __init__(self, graph: Graph) -> None:
        self.steps = steps = fused(graph)
        """Operations, regions as one each."""
        self.parts = in_segments(graph, steps)
        """What of these is given to devices at once, as one each."""
        self._graph = graph
        places: dict[Var, int] = {}

        def place(x: Any) -> int:
            if not isinstance(x, Var):  # data of the host
                hosted.append(x.data)
                return -len(hosted)
            return places.setdefault(x, len(places))

        hosted: list[Any] = []
        for var in (*graph.inputs, *graph.constants):
            place(var)
        calls = [
            (step.run, [place(x) for x in step.operands], step.numbers, step.results)
            for step in self.parts
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

    @property
    def nbytes(self) -> int:
        """Bytes that it takes with its graph, about; without the arrays that are constants."""
        steps = dict.fromkeys((*self._graph.steps, *self.steps))
        return 4000 + sum(map(_bytes_of, steps))

    def text(self) -> str:
        """Return what is run, a line each, and what each moves and launches."""
        return "\n".join(lines(self._graph, self.steps, shardings=True, note=_noted))

    def run(self, inputs: list[Any]) -> list[ShardedBuffer]:
        """Run it.

        Args:
          inputs: buffers of the arguments, in order. The list is used up: those that no array holds
            are let go of as soon as nothing needs them.

        Returns:
          Buffers of the results; some may be among the inputs.

        Raises:
          OutOfMemoryError: a device has no room; what arrays hold has not changed.
        """
        held: list[Any] = inputs  # not a copy, which would keep all of them until the end
        held += (*self._constants, *self._rest, *self._hosted)
        for run, operands, numbers, to, ended in self._calls:
            try:
                made = run([held[at] for at in operands], numbers)
            except MemoryError as error:  # also of a library that a kernel calls
                raise self._explained(error, run) from None
            for at, buffer in zip(to, made, strict=True):
                held[at] = buffer
            made = buffer = None  # type: ignore[assignment]
            for at in ended:
                held[at] = None
        return [held[at] for at in self._results]

    def _explained(self, error: MemoryError, run: Run) -> OutOfMemoryError:
        """Return the error of a call, which says what operation it is."""
        step = next(step for step in self.parts if step.run is run)
        moves = getattr(getattr(run, "__self__", run), "moves", None)
        return of_operation(error, step.name, moves)


def _noted(step: Step) -> str:
    """Return what is known of an operation that is not seen from its name."""
    moved = sum(received(step).values())
    launches = launches_of(step)
    notes = [
        step.scope,
        f"{moved:,} bytes received" if moved else "",
        f"launches: {launches}" if launches else "",
    ]
    return "; ".join(filter(None, notes))


def launches_of(step: Step) -> int | None:
    """Return how many kernels are launched for an operation; None where it is more than launches.

    On the host there are none: each device calls a function.
    """
    launches = getattr(getattr(step.run, "__self__", None), "launches", None)
    if launches is not None and (found := launches(step.numbers)) is not None:
        return len(found[0].groups)
    host = not step.results or devices_of(step.results[0].tiling)[0].runtime.backend.host_readable
    return 0 if host else None


def _bytes_of(step: Step) -> int:
    inside = sum(_bytes_of(own) for body in step.bodies for own in body.steps)
    return 5000 + step.nbytes + inside


def var_of(x: Any, sharding: Any = None) -> Var:
    """Return the value of a graph that stands for an array, or for what has a shape and a type.

    Args:
      x: an array, or what has a shape and a dtype.
      sharding: where it lies, unless it says so itself.
    """
    dtype = ELEMENT if isinstance(x.dtype, KeyDType) else np.dtype(x.dtype)
    if isinstance(x, Array):
        return Var(dtype, x._held().tiling, x._sharding, x._committed, x._weak_type)
    chosen = getattr(x, "sharding", None)
    lies, weak = chosen or sharding, bool(getattr(x, "weak_type", False))
    return Var(dtype, lies.tiling(x.shape), lies, chosen is not None, weak)


def array_of(buffer: ShardedBuffer, var: Var, *, keys: bool) -> ConcreteArray:
    """Return an array of what a graph made."""
    runtime = buffer.runtime
    array = handle(
        KeyArray if keys else ConcreteArray,
        Data(buffer, runtime),
        var.tiling.shape,
        KEY if keys else var.dtype,
        var.sharding,
        var.committed,
        var.weak,
    )
    if runtime.settings.enable_checks:
        buffer.check()
    runtime.register(array)
    return array
