"""The kinds of operations that a graph has. All of them are data.

=========  =====================================================================================
`RowOp`    an operation of the table, such as `add`; `jit` may choose where its operands lie
`Reshard`  brings a value to another sharding
`Relabel`  reads the memory of a value as blocks of other shapes
`While`    runs a graph as long as another one returns True
`For`      runs a graph a number of times
`Scan`     runs a graph on each part of arrays, and stacks what it returns
`Branch`   runs one of several graphs
`Inline`   runs a graph
`Callback` calls a function on the host
`Region`   operations that are one kernel
`Segment`  kernels that a GPU is given at once
=========  =====================================================================================

The first nine are recorded. Regions and segments are made when a graph is compiled, and only where
there is a kernel for them: so they have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpushard._frozen import dataclass
from gpushard._geometry.sharding import Sharding
from gpushard._movement.buffer import ShardedBuffer
from gpushard._ops.aval import Aval
from gpushard._ops.operand import Literal
from gpushard._ops.programs import segment
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Params, Row
from gpushard._ops.scalars import aval_of_number
from gpushard._ops.steps import Steps
from gpushard._transforms.graph.graph import Graph, Op, Operation, Var


@dataclass(frozen=True, eq=False)
class RowOp(Op):
    """An operation of the table."""

    row: Row
    params: Params
    numbers: tuple[Any, ...] = ()
    scalars: tuple[int, ...] = ()  # where these are among all that the row takes
    out: Sharding | None = None  # where results are to lie; None for as dispatch chooses

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the row."""
        return self.row.name

    def args(self, operands: Sequence[Var | Literal]) -> list[Any]:
        """Return all that the row takes: the operands, with the numbers among them."""
        arrays, numbers = iter(operands), iter(self.numbers)
        count = len(operands) + len(self.numbers)
        return [next(numbers if at in self.scalars else arrays) for at in range(count)]

    def avals(self, operands: Sequence[Var | Literal]) -> list[Aval]:
        """Return shapes and types of all that the row takes."""
        return [
            aval_of_number(x) if at in self.scalars else Aval(x.shape, x.dtype, x.weak)
            for at, x in enumerate(self.args(operands))
        ]

    @property
    def only_moves(self) -> bool:
        """Whether it moves elements and computes nothing."""
        return not isinstance(self.row.strategies[-1], Local | Reduce)


@dataclass(frozen=True, eq=False)
class Reshard(Op):
    """Brings a value to the sharding of the result."""

    wanted: Sharding | None = None  # what a user asked for, who may have left dims open
    watch: str = ""  # what a gather guard says of it
    name = "reshard"


class Relabel(Op):
    """Reads the memory of a value as blocks of other shapes: those of the result."""

    name = "relabel"


@dataclass(frozen=True, eq=False)
class While(Op):
    """Runs a graph as long as another one returns True for what it returned last.

    Operands are the first values, what `test` captures, and what `body` captures.
    """

    test: Graph
    body: Graph
    name = "while"

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """The condition, and the body."""
        return self.test, self.body

    def lent(self, body: Graph) -> Sequence[Var]:
        """Return what a body captures."""
        return body.captures

    def donated(self, body: Graph) -> Sequence[Var]:
        """Return the values that the body replaces."""
        return body.carried if body is self.body else ()


@dataclass(frozen=True, eq=False)
class For(Op):
    """Runs a graph a number of times: it takes an integer and values, and returns the next ones.

    Operands are the integer after the last one, unless a number says how often; the first integer
    and the first values; and what `body` captures. Results are the last values.
    """

    body: Graph
    numbers: tuple[int, ...] = ()  # how often, if that is known
    name = "for"

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """The body."""
        return (self.body,)

    def lent(self, body: Graph) -> Sequence[Var]:
        """Return what the body captures."""
        return body.captures

    def donated(self, body: Graph) -> Sequence[Var]:
        """Return the values that the body replaces."""
        return body.carried


@dataclass(frozen=True, eq=False)
class Stacked:
    """One result of a scan: what its body returns each time, stacked."""

    each: Var  # what the body returns
    keys: bool  # whether these are random keys
    dim: int  # the new dim
    whole: Var  # the result


@dataclass(frozen=True, eq=False)
class Scan(Op):
    """Runs a graph on each part of arrays, and on what it returned last.

    Operands are the first carry, the arrays, and what `body` captures. Results are the last carry,
    and what else the body returned, stacked.
    """

    body: Graph
    carries: int  # how many values the carry has
    count: int  # how many parts there are
    reverse: bool  # whether the last part comes first
    # For each array the operation that takes a part; its number is where the part begins.
    slices: tuple[Operation, ...]
    stacked: tuple[Stacked, ...]
    name = "scan"

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """The body."""
        return (self.body,)

    def lent(self, body: Graph) -> Sequence[Var]:
        """Return what the body captures."""
        return body.captures


@dataclass(frozen=True, eq=False)
class Branch(Op):
    """Runs one of several graphs.

    Operands are its number, which beyond the graphs means the first or the last, or for `cond` a
    truth value; the arguments of all graphs; and what each captures.
    """

    name: str
    branches: tuple[Graph, ...]

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """The graphs."""
        return self.branches

    def lent(self, body: Graph) -> Sequence[Var]:
        """Return all inputs."""
        return body.inputs


@dataclass(frozen=True, eq=False)
class Inline(Op):
    """Runs a graph on its operands."""

    name: str
    body: Graph

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """The graph."""
        return (self.body,)

    def lent(self, body: Graph) -> Sequence[Var]:
        """Return all inputs."""
        return body.inputs


@dataclass(frozen=True, eq=False)
class Callback(Op):
    """Calls a function on the host."""

    name: str
    call: Callable[[Sequence[ShardedBuffer]], Sequence[ShardedBuffer]]
    always: bool  # whether it is called even if nobody needs its results

    @property
    def has_effect(self) -> bool:
        """Whether it is called even if nobody needs its results."""
        return self.always


@dataclass(frozen=True, eq=False)
class Region(Op):
    """Operations that are one kernel."""

    name: str
    kernel: Steps  # with what moves before it and is merged after it
    members: tuple[Operation, ...]


@dataclass(frozen=True, eq=False)
class Segment(Op):
    """Kernels that follow one another, given to a GPU at once."""

    name: str
    kernels: segment.Segment
