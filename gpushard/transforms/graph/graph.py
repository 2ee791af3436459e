"""Graphs: operations that were recorded, in order, and the values between them.

A graph says of every value where it lies: as dispatch would have laid it out. So what runs where,
and what moves, is known before anything runs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.operand import Literal
from gpushard.ops.programs.local import Local
from gpushard.ops.programs.reduce import Reduce
from gpushard.ops.row import Params, Row
from gpushard.ops.scalars import aval_of_number
from gpushard.typing import Shape

Run: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], Sequence[ShardedBuffer]]
"""Takes the buffers of operands, and Python numbers; gives those of the results."""


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


@dataclasses.dataclass(eq=False)
class Step:
    """One operation of a graph."""

    name: str  # what users call it
    run: Run  # does it
    operands: tuple[Var | Literal, ...]  # values, and data of the host that it is given
    results: tuple[Var, ...]  # what it makes
    numbers: tuple[Any, ...] = ()  # Python numbers that it is given
    scalars: tuple[int, ...] = ()  # where these are among all that the operation takes
    row: Row | None = None  # the operation, where it is one of the table's
    params: Params = ()  # its parameters
    scratch: int = 0  # bytes that it holds while it runs, beside operands and results
    moved: int = 0  # bytes that devices receive so that operands and results lie where they do
    nbytes: int = 0  # bytes that what runs it takes, about
    # Of a region: (boxes, others, itemsize) of what is brought elsewhere, and what is merged.
    brings: tuple[tuple[Tiling, Tiling, int], ...] = ()
    merges: tuple[Step, ...] = ()
    members: tuple[Step, ...] = ()  # of a region: its operations
    # Of a reshard: what a user asked for, who may have left dims open; None where no user did.
    wanted: Sharding | None = None
    kept: bool = False  # whether it is done even if nobody needs its results
    bodies: tuple[Graph, ...] = ()  # graphs that it runs, for the text
    scope: str = ""  # what the program calls the part that it is of

    def avals(self) -> list[Aval]:
        """Return shapes and types of all that the operation takes, numbers among it."""
        return [
            aval_of_number(x) if at in self.scalars else Aval(x.shape, x.dtype, x.weak)
            for at, x in enumerate(self.args(self.operands))
        ]

    def args(self, operands: Sequence[Var | Literal]) -> list[Any]:
        """Return all that the operation takes, with these operands: numbers stand among them."""
        arrays, numbers = iter(operands), iter(self.numbers)
        count = len(operands) + len(self.numbers)
        return [next(numbers if at in self.scalars else arrays) for at in range(count)]

    @property
    def reshards(self) -> bool:
        """Whether it brings a value to another sharding, and does nothing else."""
        return self.row is None and self.name == "reshard"

    @property
    def moves(self) -> bool:
        """Whether it only moves elements."""
        return self.row is None or not isinstance(self.row.strategies[-1], Local | Reduce)


@dataclasses.dataclass(eq=False)
class Graph:
    """A function, as the operations that it is made of."""

    name: str  # of the function
    inputs: list[Var]  # its arguments
    constants: dict[Var, Any]  # arrays of outside
    steps: list[Step]  # operations, each after those that make what it needs
    results: list[Var]  # what it returns
    captured: int = 0  # of a body: so many of its last arguments are memory of what is around it

    def needed(self) -> list[Step]:
        """Return the operations that something depends on."""
        wanted, found = set(self.results), []
        for step in reversed(self.steps):
            if step.kept or not wanted.isdisjoint(step.results):
                found.append(step)
                wanted.update(x for x in step.operands if isinstance(x, Var))
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

    taken = {x for step in steps for x in step.operands if isinstance(x, Var)}
    constants = [x for x in graph.constants if x in taken]
    yield f"{{ lambda {typed(constants)}; {typed(graph.inputs)}. let"
    for step in steps:
        operands = [said(x) for x in (*step.operands, *step.numbers)]
        scope = f"  # {said_of}" if (said_of := note(step)) else ""
        words = " ".join([step.name.replace(" ", "_"), *operands])
        yield f"    {typed(step.results)} = {words}{scope}"
        for body in step.bodies:
            inside = lines(body, body.needed(), shardings=shardings, fresh=fresh, note=note)
            yield from ("      " + line for line in inside)
    results = [said(x) for x in graph.results]
    yield f"  in ({', '.join(results)}{',' * (len(results) == 1)}) }}"
