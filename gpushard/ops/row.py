"""Rows of the table of operations.

A row is logical: it says nothing of devices. Which kernel runs where, and what moves before it, is
decided by `dispatch` once shardings are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from gpushard.frozen import dataclass
from gpushard.movement.planning.dims import Piece
from gpushard.movement.planning.maps import Rearrangement
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.rule import Rule, parse
from gpushard.typing import LocalArray, Shape

Params: TypeAlias = tuple[Any, ...]
"""Static parameters of an operation, hashable; each row says what they are."""

Kernel: TypeAlias = Callable[..., Any]
"""Works on local arrays, as NumPy's functions do: `kernel(*operands)` returns a fresh array, or a
tuple of them for several results; `kernel(*operands, out=...)` writes into what is given."""

Splits: TypeAlias = tuple[tuple[str, ...], ...]
"""The mesh axes that split each dim, or each factor, major to minor."""

State: TypeAlias = tuple[LocalArray, ...]
"""What a block contributes to a reduction."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where in the whole arrays a kernel works, for rows that need to know."""

    operands: tuple[Shape, ...]
    """First element of the local block of each operand."""

    result: Shape
    """First element of the block of the first result."""

    shape: Shape
    """Shape of that block."""


@dataclass(frozen=True, eq=False)
class Reduction:
    """How the parts of a reduced factor come together; `xp` is NumPy or CuPy.

    Each part gives a state, states are merged two at a time in mesh order, and the last one is
    finished. The arrays of a state have the shape of the result.
    """

    states: Callable[[Sequence[Aval], Params], tuple[Dtype, ...]]
    """Types of the arrays of a state."""

    local: Callable[[Any, Sequence[Aval], Params], Kernel]
    """Makes the kernel that gives the state of a block: a tuple."""

    merge: Callable[[Any, Sequence[Aval], Params], Callable[[State, State, int, int], State]]
    """Makes `merge(a, b, m, n)`: of states of m and n elements. It may overwrite nothing."""

    finish: Callable[[Any, Sequence[Aval], Params], Callable[[State, int], LocalArray]]
    """Makes `finish(state, n)`: the result from the state of all n elements."""


def only(state: State, count: int) -> LocalArray:
    """Finish a state of one array that is the result."""
    return state[0]


@dataclass(frozen=True, eq=False)
class Moves:
    """How an operation moves data; neither part depends on types."""

    how: Callable[[Sequence[Shape], Params], Piece | Rearrangement]
    """Takes the shapes of the operands."""

    splits: Callable[[Sequence[Shape], Params, Splits, Mapping[str, int]], Splits] | None = None
    """Takes the shapes, the parameters, the mesh axes that split each dim of the operand, and their
    sizes; gives those for the result. Without it result dims keep the axes of their factor."""

    starts: Callable[[Params], tuple[int, ...]] | None = None
    """Gives the numbers of the piece's maps whose starts are operands: Python integers."""

    later: bool = False
    """Whether nothing moves before somebody needs the result in order; see `Row.turned`."""

    into: bool = False
    """Whether the second operand replaces the piece of the first one, rather than that is taken."""


@dataclass(frozen=True, eq=False)
class Row:
    """One operation."""

    name: str
    """What users call it."""

    infer: Callable[[Sequence[Aval], Params], tuple[Aval, ...]]
    """Checks operands and parameters and says what the results are."""

    rule: str | Callable[[Sequence[Aval], Params], Rule]
    """The factor rule: a string, or what makes it."""

    kernel: Callable[[Any, Sequence[Aval], Params], Kernel]
    """Makes the local kernel. The second argument has the dtypes that operands come in."""

    reduction: Reduction | None = None
    """How parts of a reduced factor merge; None if there are no reduced factors."""

    owners: Callable[[Any, Sequence[Aval], Params], Kernel] | None = None
    """Makes the kernel that takes what it needs from several blocks of the first operand, cut along
    its reduced dims: `kernel(Owners, *blocks, *other operands)`. None if there is none."""

    whole: str = ""
    """Letters of a rule string that must not be split."""

    creates: bool = False
    """Whether it takes no arrays, only numbers: its parameters are (shape, dtype, whether a user
    chose the place), and it is bound with the sharding of its result."""

    positional: bool = False
    """Whether the kernel takes a `Site` first."""

    loop: Callable[[Sequence[Aval]], tuple[Dtype, ...]] | None = None
    """The types that operands have inside the kernel, where that is not the result's."""

    moves: Moves | None = None
    """Where the elements of the result come from, for operations that only move them."""

    compares: bool = False
    """Whether it compares, so that integers beyond the range of a type make sense."""

    beside_keys: frozenset[int] | None = None
    """Which operands are numbers where the others are random keys; None where keys are refused."""

    threaded: bool = False
    """Whether the kernel calls a library that has threads of its own."""

    steps: int = 1
    """About how many functions of NumPy's the kernel uses, where these are many and short."""

    turned: Callable[[Params, int, tuple[int, ...]], Params] | None = None
    """Takes the parameters, the number of an operand that is another array transposed, and the axes
    of that, from the end; gives the parameters for that array as it lies. None if operands must be
    in order."""

    def rule_for(self, avals: Sequence[Aval], params: Params) -> Rule:
        """Return the rule for particular operands."""
        if isinstance(self.rule, str):
            return parse(self.rule, [aval.shape for aval in avals], self.whole)
        return self.rule(avals, params)

    def __repr__(self) -> str:
        return f"Row({self.name})"
