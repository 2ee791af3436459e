"""Graphs: operations that were recorded, in order, and the values between them.

A graph says of every value where it lies: as dispatch would have laid it out. So what runs where,
and what moves, is known before anything runs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gpushard.frozen import dataclass
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import devices_of
from gpushard.ops.aval import Dtype
from gpushard.ops.operand import Literal
from gpushard.typing import Shape


class Var:
    """A value of a graph: an array that is not computed yet.

    Args:
      dtype: type of the elements.
      tiling: which device will hold what.
      sharding: how it is laid out.
      committed: whether a user chose the devices.
      weak: whether the dtype came from a Python scalar.
    """

    __slots__ = ("committed", "dtype", "sharding", "tiling", "turned", "weak")

    def __init__(
        self, dtype: Dtype, tiling: Tiling, sharding: Sharding, committed: bool, weak: bool
    ) -> None:
        self.dtype = dtype
        self.tiling = tiling
        self.sharding = sharding
        self.committed = committed
        self.weak = weak
        self.turned: tuple[Var, tuple[int, ...]] | None = None
        """The value that it is the transpose of, and the axes, from the end."""

    @property
    def shape(self) -> Shape:
        """Sizes of the dims."""
        return self.tiling.shape

    @property
    def nbytes(self) -> int:
        """Bytes of all shards, replicas included."""
        return int(self.tiling.volumes.sum()) * self.dtype.itemsize

    @property
    def held_bytes(self) -> int:
        """Bytes of memory: replicas of a block in memory that devices share are one."""
        tiling, places = self.tiling, devices_of(self.tiling)
        of_block = {
            (places[n].domain, box): volume
            for n, (box, volume) in enumerate(
                zip(tiling.assignment.flat.tolist(), tiling.volumes.tolist(), strict=True)
            )
        }
        return int(sum(of_block.values())) * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


class Op:
    """What an operation does, as data; its kinds are in `ops`."""

    name: str  # what users call it
    numbers: tuple[Any, ...] = ()  # Python numbers that it takes, next to its operands

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """Graphs that it runs."""
        return ()

    @property
    def has_effect(self) -> bool:
        """Whether it is done even if nobody needs its results."""
        return any(step.op.has_effect for body in self.bodies for step in body.steps)

    def lent(self, body: Graph) -> Sequence[Var]:
        """Return those inputs of a body that are memory which the operation does not own."""
        return ()

    def donated(self, body: Graph) -> Sequence[Var]:
        """Return those inputs of a body that the body may free as soon as nothing needs them."""
        return ()


@dataclass(frozen=True, eq=False)
class Step:
    """One operation of a graph, on values."""

    op: Op  # what it does
    operands: tuple[Var | Literal, ...]  # values, and data of the host
    results: tuple[Var, ...]
    moved: int = 0  # bytes that devices receive so that operands and results lie where they do
    scope: str = ""  # what the program calls the part that it is of

    @property
    def name(self) -> str:
        """What users call it."""
        return self.op.name

    @property
    def arrays(self) -> list[Var]:
        """The operands that are values of the graph."""
        return [x for x in self.operands if isinstance(x, Var)]


@dataclasses.dataclass(eq=False)
class Graph:
    """A function, as the operations that it is made of."""

    name: str  # of the function
    inputs: list[Var]  # its arguments
    constants: dict[Var, Any]  # arrays of outside
    steps: list[Step]  # operations, each after those that make what it needs
    results: list[Var]  # what it returns
    captured: int = 0  # of a body: so many of its last arguments are arrays that it captures

    @property
    def carried(self) -> list[Var]:
        """Of a body, the arguments that it is called with."""
        return self.inputs[: len(self.inputs) - self.captured]

    @property
    def captures(self) -> list[Var]:
        """Of a body, the arguments that are arrays which it captures."""
        return self.inputs[len(self.inputs) - self.captured :]

    def needed(self) -> list[Step]:
        """Return the operations that something depends on."""
        wanted, found = set(self.results), []
        for step in reversed(self.steps):
            if step.op.has_effect or not wanted.isdisjoint(step.results):
                found.append(step)
                wanted.update(step.arrays)
        return found[::-1]

    def text(self, *, shardings: bool = False) -> str:
        """Return the operations, a line each.

        Args:
          shardings: whether to say where values lie.

        >>> import gpushard as gs
        >>> print(gs.make_jaxpr(lambda x: x * 2 + 1)(gs.numpy.zeros(3)))
        { lambda ; a:float64[3]. let
            b:float64[3] = multiply a 2
            c:float64[3] = add b 1
          in (c,) }
        """
        return "\n".join(lines(self, self.needed(), shardings=shardings))


def _names() -> Iterator[str]:
    """Yield a, b, ..., z, aa, ab, ..."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    for count in itertools.count():
        name = letters[count % 26]
        while (count := count // 26 - 1) >= 0:
            name = letters[count % 26] + name
        yield name


def lines(
    graph: Graph,
    steps: Sequence[Step],
    *,
    shardings: bool = False,
    fresh: Iterator[str] | None = None,
    note: Callable[[Step], str] = lambda step: step.scope,
) -> Iterator[str]:
    """Yield what operations of a graph are, as text.

    Args:
      graph: the graph.
      steps: the operations.
      shardings: whether to say where values lie.
      fresh: gives names for values.
      note: says what stands at the end of the line of an operation.
    """
    names: dict[Var, str] = {}
    fresh = _names() if fresh is None else fresh

    def typed(values: Iterable[Var]) -> str:
        return " ".join(f"{named(x)}:{x!r}{placed(x)}" for x in values)

    def placed(x: Var) -> str:
        return f"@{x.sharding}" if shardings else ""

    def named(x: Var) -> str:
        if x not in names:
            names[x] = next(fresh)
        return names[x]

    def said(x: Any) -> str:
        if isinstance(x, Var):
            return named(x)
        return repr(x)

    taken = {x for step in steps for x in step.arrays}
    constants = [x for x in graph.constants if x in taken]
    yield f"{{ lambda {typed(constants)}; {typed(graph.inputs)}. let"
    for step in steps:
        operands = [said(x) for x in (*step.operands, *step.op.numbers)]
        scope = f"  # {said_of}" if (said_of := note(step)) else ""
        words = " ".join([step.name.replace(" ", "_"), *operands])
        yield f"    {typed(step.results)} = {words}{scope}"
        for body in step.op.bodies:
            inside = lines(body, body.needed(), shardings=shardings, fresh=fresh, note=note)
            yield from ("      " + line for line in inside)
    results = [said(x) for x in graph.results]
    yield f"  in ({', '.join(results)}{',' * (len(results) == 1)}) }}"
