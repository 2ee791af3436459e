"""Rows of the table of operations.

A row is logical and knows no devices. `dispatch` decides from the shardings which kernel runs
where, and what moves before it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from gpushard._cache import exact_key
from gpushard._frozen import dataclass
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling, check_shape
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.choose_split import Choice, Given, Price
from gpushard._ops.operand import Operand
from gpushard._ops.rule import Rule, Splits
from gpushard._ops.steps import Program, Result
from gpushard._runtime.runtime import Runtime
from gpushard._typing import Kernel as Kernel
from gpushard._typing import LocalArray, Shape

Params: TypeAlias = tuple[Any, ...]
"""Static parameters of an operation, hashable; each row documents its own."""

KernelMaker: TypeAlias = Callable[[Any, Sequence[Aval], Params], Kernel]
"""Makes a kernel from NumPy or CuPy, the avals of the operands, and the parameters."""

State: TypeAlias = tuple[LocalArray, ...]
"""The contribution of a block to a reduction."""


@dataclass(frozen=True, slots=True)
class Site:
    """The position of a kernel's blocks in the whole arrays, for rows that need it."""

    operands: tuple[Shape, ...]  # first element of the local block of each operand
    result: Shape  # first element of the block of the first result
    shape: Shape  # shape of that block


def only(state: State, count: int) -> LocalArray:
    """Finish a reduction with a state of one array: the result."""
    return state[0]


@dataclass(frozen=True, eq=False)
class ShardedCall:
    """The layouts of the operands and results of one call."""

    # The layout of each operand when the kernel runs; None for Python numbers.
    operands: tuple[tuple[Sharding, Tiling] | None, ...]
    results: tuple[Result, ...]  # the results as the kernel leaves them
    # The final results: in `out_sharding`, or with dims split again that had to be whole or that
    # index arrays replaced.
    ends: tuple[Result, ...]
    choice: Choice | None  # the split of the work over a mesh

    @property
    def tilings(self) -> list[Tiling]:
        """Boxes of the operands except Python numbers, when the kernel runs."""
        return [lies[1] for lies in self.operands if lies is not None]


RuleMaker: TypeAlias = Callable[[Sequence[Aval], Params], Rule]

Infer: TypeAlias = Callable[[Sequence[Aval], Params], tuple[Aval, ...]]


def by_factors(rule: RuleMaker, dtype_of: Callable[[Sequence[Aval], Params], Dtype]) -> Infer:
    """Make an `infer` function for results with the lengths of their factors."""

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        factors, dtype = rule(avals, params), dtype_of(avals, params)
        return tuple(
            Aval(tuple(1 if f is None else factors.sizes[f] for f in dims), dtype)
            for dims in factors.results
        )

    return infer


@dataclass(frozen=True, eq=False)
class Case:
    """A row to compile, with its operands and parameters."""

    row: Row
    operands: tuple[Operand, ...]  # descriptions of its operands
    params: Params
    runtime: Runtime  # the runtime of the devices
    out: Sharding | None = None  # the sharding of the results; None does not move them

    @functools.cached_property
    def avals(self) -> tuple[Aval, ...]:
        """Shapes and types of the operands."""
        return tuple(x.aval for x in self.operands)

    @functools.cached_property
    def results(self) -> tuple[Aval, ...]:
        """Shapes and types of the results; checks the operands."""
        results = self.row.infer(self.avals, self.params)
        for aval in results:
            check_shape(aval.shape)
        return results

    @functools.cached_property
    def rule(self) -> Rule:
        """The factors."""
        return self.row.rule_for(self.avals, self.params)


class Adapter(Protocol):
    """Derives the functions of a row from those of another row."""

    lead: int  # the number of dims in front of results that the other row's results lack
    complete: int  # the number of operands with all of these dims

    def avals(self, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        """Return the operands of the other row."""

    def params(self, params: Params) -> Params:
        """Return the parameters of the other row."""

    def kernel(self, make: KernelMaker) -> KernelMaker:
        """Adapt the kernel maker of the other row."""

    def local(self, make: KernelMaker) -> KernelMaker:
        """Adapt the maker of a kernel that returns states."""

    def finish(self, make: Any) -> Any:
        """Adapt the maker of the last step of a reduction."""


class Strategy:
    """A way to run a row; the defaults of its methods are here."""

    whole: str = ""  # for the last resort: why it needs split dims whole, in a line
    numbers: bool = True  # whether Python numbers among the operands stay Python numbers
    complete: bool = False  # whether all arrays must have the named dims that one has

    def price(self, case: Case) -> Price | None:
        """Return the price function; None if the strategy lays out results itself."""
        return None

    def wanted(self, case: Case, mesh: Mesh, operands: Sequence[Given]) -> Splits | None:
        """Return the splits of the result, if they do not follow from a choice; else None."""
        return None

    def compile(self, case: Case, call: ShardedCall | None) -> Program:
        """Make a program; `call` has the layouts of operands and results, if they were chosen."""
        raise NotImplementedError

    def adapted(self, adapter: Adapter) -> Strategy:
        """Return this strategy for another row, with kernels derived from its own."""
        return self


@dataclass(frozen=True)
class Stack:
    """The form of operands for one kernel call on all elements of named dims in front."""

    params: Params
    # For each operand the number of dims of length 1 between all named dims and its own dims;
    # named dims that it lacks have length 1. None for an operand that comes unchanged.
    between: tuple[int | None, ...]
    # The operands among the former that are repeated along named dims that they lack.
    whole: frozenset[int] = frozenset()


Stacker: TypeAlias = Callable[
    [Params, tuple[Shape, ...], tuple[tuple[int, ...], ...], int], "Stack | None"
]
"""Makes a `Stack` from the parameters, the shape of each operand without named dims, the named dims
that it has, and their number. None if the kernel is called for each element."""


def broadcasting(
    params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
) -> Stack:
    """Broadcast dims in front like other dims: a `Row.stacked`."""
    most = max(map(len, shapes))
    return Stack(params, tuple([most - len(shape) for shape in shapes]))


def broadcasting_whole(
    params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
) -> Stack:
    """Broadcast dims in front, and repeat operands so that all have one shape: a `Row.stacked`."""
    return Stack(params, (0,) * len(shapes), frozenset(range(len(shapes))))


def beside_others(*numbers: int) -> Stacker:
    """Let some operands have dims in front, while the others come unchanged: a `Row.stacked`."""

    def stacked(
        params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
    ) -> Stack | None:
        alone = not any(
            dims_of_operand for number, dims_of_operand in enumerate(dims) if number not in numbers
        )
        return Stack(params, (None,) * len(dims)) if alone else None

    return stacked


@dataclass(frozen=True, eq=False)
class Row:
    """One operation."""

    name: str  # the name for users
    # Checks operands and parameters, and returns the avals of the results.
    infer: Infer
    rule: RuleMaker  # makes the factor rule
    # Makes the local kernel. The second argument has the dtypes of the operands.
    kernel: KernelMaker
    # The ways to run it, in order of preference; the last one runs operands that are not split.
    strategies: tuple[Strategy, ...]
    # Whether it takes only numbers: its parameters are (shape, dtype, whether the place is
    # committed), and it is bound with the sharding of its result.
    creates: bool = False
    # The row that this row was derived from, by named dims in front.
    within: Row | None = None
    positional: bool = False  # whether the kernel takes a `Site` first
    # The types of operands inside the kernel, if they differ from the result's.
    loop: Callable[[Sequence[Aval]], tuple[Dtype, ...]] | None = None
    # Whether it compares, so integers beyond the range of a type are valid.
    compares: bool = False
    # The operands that are numbers if the others are random keys; None refuses keys.
    beside_keys: frozenset[int] | None = None
    threaded: bool = False  # whether the kernel calls a library with its own threads
    # The approximate number of NumPy's functions in the kernel, if they are many and short.
    steps: int = 1
    # Takes the parameters, the number of a transposed operand and its axes from the end; returns
    # the parameters for the source of the operand. None if operands must be in order.
    turned: Callable[[Params, int, tuple[int, ...]], Params] | None = None
    # The way in which the kernel takes all elements of named dims at once; None if it is called
    # for each element.
    stacked: Stacker | None = None
    each: str = ""  # why it is called for each element, in a line
    # Whether nothing moves until the result is needed in order; see `turned`.
    later: bool = False
    # The same by operations that kernels of `jit` fuse: takes what binds a row, the operand and the
    # parameters. None if there are none.
    in_parts: Callable[[Callable[..., Any], Any, Params], Any] | None = None
    # Whether parameters have numbers of the user, which need `exact_key`.
    exact: bool = False

    @functools.cached_property
    def takes_numbers(self) -> bool:
        """Whether Python numbers among the operands stay Python numbers."""
        return all(strategy.numbers for strategy in self.strategies)

    def key(self, params: Params) -> Params:
        """Return the key of parameters in caches; see `exact`."""
        key: Params = exact_key(params) if self.exact else params
        return key

    def rule_for(self, avals: Sequence[Aval], params: Params) -> Rule:
        """Return the rule for particular operands."""
        return self.rule(avals, params)

    def __repr__(self) -> str:
        return f"Row({self.name})"
