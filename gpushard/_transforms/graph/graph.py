"""Graphs: recorded operations in order, and the values between them.

A graph has a layout for every value: at first the one that dispatch would choose. So it is known
before anything runs which device computes what, and which bytes move.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gpushard._frozen import dataclass
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.planning.holdings import held_elements
from gpushard._ops.aval import Dtype
from gpushard._ops.operand import Literal
from gpushard._typing import Shape


class Var:
    """A value of a graph: an array that is not computed yet.

    Args:
      dtype: type of the elements.
      tiling: the block of each device.
      sharding: its layout, as users name it.
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
        """If it is the transpose of another value: that value, and the axes, from the end."""

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
        """Bytes of memory. Devices that share memory hold one copy of a block."""
        return held_elements(self.tiling) * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


class Op:
    """What an operation does, as data. The kinds of operations are in `ops`."""

    name: str  # what users call it
    numbers: tuple[Any, ...] = ()  # Python numbers that it takes, next to its operands

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """The graphs that it runs, as loops do."""
        return ()

    @property
    def has_effect(self) -> bool:
        """Whether it runs even if nothing needs its results."""
        return any(step.op.has_effect for body in self.bodies for step in body.steps)

    def lent(self, body: Graph) -> Sequence[Var]:
        """Return the inputs of a body that are memory of other operations."""
        return ()

    def donated(self, body: Graph) -> Sequence[Var]:
        """Return the inputs of a body that it may free once nothing needs them."""
        return ()


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation of a graph, with its operands and results."""

    op: Op  # what it does
    operands: tuple[Var | Literal, ...]  # values of the graph, and data on the host
    results: tuple[Var, ...]
    moved: int = 0  # bytes that devices receive to bring operands and results into their layouts
    scope: str = ""  # name of the part of the program, from `named_scope`

    @property
    def name(self) -> str:
        """Name that users know."""
        return self.op.name

    @property
    def arrays(self) -> list[Var]:
        """The operands that are values of the graph."""
        return [x for x in self.operands if isinstance(x, Var)]


@dataclasses.dataclass(eq=False)
class Graph:
    """A traced function, as a list of operations."""

    name: str  # of the function
    inputs: list[Var]  # its arguments
    constants: dict[Var, Any]  # arrays that it uses without taking them as arguments
    steps: list[Operation]  # operations, each after those that make its operands
    results: list[Var]  # values that it returns
    captured: int = 0  # of a body: how many of its last inputs are arrays that it captures

    @property
    def carried(self) -> list[Var]:
        """The arguments of a body, without the arrays that it captures."""
        return self.inputs[: len(self.inputs) - self.captured]

    @property
    def captures(self) -> list[Var]:
        """The inputs of a body that are captured arrays."""
        return self.inputs[len(self.inputs) - self.captured :]

    def needed(self) -> list[Operation]:
        """Return the operations that a result depends on, and those with an effect."""
        wanted, steps = set(self.results), []
        for step in reversed(self.steps):
            if step.op.has_effect or not wanted.isdisjoint(step.results):
                steps.append(step)
                wanted.update(step.arrays)
        return steps[::-1]

    def text(self, *, shardings: bool = False) -> str:
        """Write the operations, a line each.

        Args:
          shardings: whether to write the sharding of each value.

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
    steps: Sequence[Operation],
    *,
    shardings: bool = False,
    fresh: Iterator[str] | None = None,
    note: Callable[[Operation], str] = lambda step: step.scope,
) -> Iterator[str]:
    """Write operations of a graph, a line each.

    Args:
      graph: the graph.
      steps: the operations.
      shardings: whether to write the sharding of each value.
      fresh: yields names for values.
      note: returns a comment for the end of an operation's line, or "".
    """
    names: dict[Var, str] = {}
    fresh = _names() if fresh is None else fresh

    def typed(values: Iterable[Var]) -> str:
        return " ".join(f"{named(x)}:{x!r}{at(x)}" for x in values)

    def at(x: Var) -> str:
        return f"@{x.sharding}" if shardings else ""

    def named(x: Var) -> str:
        if x not in names:
            names[x] = next(fresh)
        return names[x]

    def written(x: Any) -> str:
        return named(x) if isinstance(x, Var) else repr(x)

    taken = {x for step in steps for x in step.arrays}
    constants = [x for x in graph.constants if x in taken]
    yield f"{{ lambda {typed(constants)}; {typed(graph.inputs)}. let"
    for step in steps:
        operands = [written(x) for x in (*step.operands, *step.op.numbers)]
        comment = f"  # {text}" if (text := note(step)) else ""
        words = " ".join([step.name.replace(" ", "_"), *operands])
        yield f"    {typed(step.results)} = {words}{comment}"
        for body in step.op.bodies:
            inside = lines(body, body.needed(), shardings=shardings, fresh=fresh, note=note)
            yield from ("      " + line for line in inside)
    results = [written(x) for x in graph.results]
    yield f"  in ({', '.join(results)}{',' * (len(results) == 1)}) }}"
