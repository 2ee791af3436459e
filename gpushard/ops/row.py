"""Rows of the table of operations.

A row is logical: it says nothing of devices. Which kernel runs where, and what moves before it, is
decided by `dispatch` once shardings are known.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from gpushard.cache import exact_key
from gpushard.frozen import dataclass
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling, check_shape
from gpushard.movement.buffer import ShardedBuffer
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.choose import Choice, Given, Price
from gpushard.ops.operand import Operand
from gpushard.ops.rule import Rule, Splits
from gpushard.runtime.runtime import Runtime
from gpushard.typing import Kernel as Kernel
from gpushard.typing import LocalArray, Shape

Params: TypeAlias = tuple[Any, ...]
"""Static parameters of an operation, hashable; each row says what they are."""

KernelMaker: TypeAlias = Callable[[Any, Sequence[Aval], Params], Kernel]
"""Takes NumPy or CuPy, the operands, with the dtypes that they come in, and parameters."""

State: TypeAlias = tuple[LocalArray, ...]
"""What a block contributes to a reduction."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where in the whole arrays a kernel works, for rows that need to know."""

    operands: tuple[Shape, ...]  # first element of the local block of each operand
    result: Shape  # first element of the block of the first result
    shape: Shape  # shape of that block


@dataclass(frozen=True, eq=False)
class Result:
    """One result of an operation."""

    aval: Aval
    sharding: Sharding
    tiling: Tiling  # the same for its shape


def only(state: State, count: int) -> LocalArray:
    """Finish a state of one array that is the result."""
    return state[0]


@dataclass(frozen=True, eq=False)
class ShardedCall:
    """Where the operands and results of one call lie."""

    # Of each operand when the kernel runs; None for Python numbers.
    operands: tuple[tuple[Sharding, Tiling] | None, ...]
    results: tuple[Result, ...]  # the results as the kernel gives them
    # The results in the end: where they were asked for, back at the splits of dims that had to be
    # whole, or at those of dims that index arrays replaced.
    ends: tuple[Result, ...]
    choice: Choice | None  # how the work is split, if over a mesh

    @property
    def tilings(self) -> list[Tiling]:
        """Boxes of the operands that are no Python numbers, when the kernel runs."""
        return [lies[1] for lies in self.operands if lies is not None]


RuleMaker: TypeAlias = Callable[[Sequence[Aval], Params], Rule]

Infer: TypeAlias = Callable[[Sequence[Aval], Params], tuple[Aval, ...]]


def by_factors(rule: RuleMaker, dtype_of: Callable[[Sequence[Aval], Params], Dtype]) -> Infer:
    """Return what infers results whose dims have the lengths of their factors."""

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        factors, dtype = rule(avals, params), dtype_of(avals, params)
        return tuple(
            Aval(tuple(1 if f is None else factors.sizes[f] for f in dims), dtype)
            for dims in factors.results
        )

    return infer


Run: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], Sequence[ShardedBuffer]]
"""Takes the buffers of operands, and Python numbers; returns those of the results."""


class Runnable:
    """Work that is ready to run on buffers."""

    # Takes buffers in order, or NumPy arrays where it was made for data on the host, and the Python
    # numbers in order. Raises `OutOfMemoryError`: a device has no room.
    run: Run
    moves: str | None = None  # the operands that it gathers, in words, where a gather guard minds

    @property
    def nbytes(self) -> int:
        """Bytes that it takes itself, about."""
        return 0

    @property
    def scratch(self) -> int:
        """Bytes that it holds while it runs, next to operands and results."""
        return 0

    def launches(self, numbers: Sequence[Any]) -> tuple[Any, Sequence[tuple[int, Any]]] | None:
        """Return the `Launched` that is all of this work, and its numbers; None if it is more."""
        return None


class Program(Runnable):
    """A row compiled for operands of particular shapes, types and layouts."""

    name: str  # of the operation, for errors
    results: Sequence[Result]  # shapes, types and layouts of the results
    committed: bool  # whether somebody chose the devices of the results
    bytes_received: int = 0  # by devices from others, each time, if that is known
    alone: Any = None  # what computes, where nothing moves before or after it


@dataclass(frozen=True, eq=False)
class Case:
    """A row that is to be compiled, and what for."""

    row: Row
    operands: tuple[Operand, ...]  # what is known of its operands
    params: Params
    runtime: Runtime  # of the devices
    out: Sharding | None = None  # how the results are to be laid out; None for as they come

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
    """Makes the functions of a row from those of another one."""

    lead: int  # how many dims results have in front that those of the other row lack
    complete: int  # how many operands have all of these dims

    def avals(self, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        """Return the operands of the other row."""

    def params(self, params: Params) -> Params:
        """Return the parameters of the other row."""

    def kernel(self, make: KernelMaker) -> KernelMaker:
        """Return what makes a kernel, from what makes one of the other row."""

    def local(self, make: KernelMaker) -> KernelMaker:
        """The same for a kernel that gives states."""

    def finish(self, make: Any) -> Any:
        """Return what makes the last step of a reduction, likewise."""


class Strategy:
    """A way to run a row. What it does not say itself, it has from here."""

    whole: str = ""  # why it needs dims whole that are split, in a line: of a last resort
    numbers: bool = True  # whether Python numbers among the operands stay what they are
    complete: bool = False  # whether named dims must be in all arrays if they are in one

    def price(self, case: Case) -> Price | None:
        """Return what says what assignments cost; None if it says itself where results lie."""
        return None

    def wanted(self, case: Case, mesh: Mesh, operands: Sequence[Given]) -> Splits | None:
        """Return the splits that the result is to have, where they do not follow from a choice."""
        return None

    def compile(self, case: Case, call: ShardedCall | None) -> Program:
        """Make a program; `call` says where operands and results lie, if that was chosen."""
        raise NotImplementedError

    def adapted(self, adapter: Adapter) -> Strategy:
        """Return this strategy for another row, whose kernels are made of those of its own."""
        return self


@dataclass(frozen=True)
class Stack:
    """What one call of a kernel takes for all elements of named dims, which come in front."""

    params: Params
    # For each operand how many dims of length 1 come between named dims, all of them, and its own;
    # those it lacks have length 1. None for one that comes as it is, with the named dims it has.
    between: tuple[int | None, ...]
    # Those among the former that have all elements along named dims that they lack.
    whole: frozenset[int] = frozenset()


Stacker: TypeAlias = Callable[
    [Params, tuple[Shape, ...], tuple[tuple[int, ...], ...], int], "Stack | None"
]
"""Takes the parameters, for each operand its shape without named dims and which of these it has,
and how many there are. None where the kernel is called for each of their elements."""


def broadcasting(
    params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
) -> Stack:
    """Say that dims in front are broadcast as others are: a `Row.stacked`."""
    most = max(map(len, shapes))
    return Stack(params, tuple([most - len(shape) for shape in shapes]))


def broadcasting_whole(
    params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
) -> Stack:
    """Say the same where operands must have one shape."""
    return Stack(params, (0,) * len(shapes), frozenset(range(len(shapes))))


def beside_others(*numbers: int) -> Stacker:
    """Say that some operands may have dims in front, and others come as they are."""

    def stacked(
        params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
    ) -> Stack | None:
        alone = not any(own for number, own in enumerate(dims) if number not in numbers)
        return Stack(params, (None,) * len(dims)) if alone else None

    return stacked


@dataclass(frozen=True, eq=False)
class Row:
    """One operation."""

    name: str  # what users call it
    # Checks operands and parameters and says what the results are.
    infer: Infer
    rule: RuleMaker  # makes the factor rule
    # Makes the local kernel. The second argument has the dtypes that operands come in.
    kernel: KernelMaker
    # The ways to run it, in order of preference; the last one runs what is not split.
    strategies: tuple[Strategy, ...]
    # Whether it takes no arrays, only numbers: its parameters are (shape, dtype, whether a user
    # chose the place), and it is bound with the sharding of its result.
    creates: bool = False
    # The row that this one is with named dims in front.
    within: Row | None = None
    positional: bool = False  # whether the kernel takes a `Site` first
    # The types that operands have inside the kernel, where that is not the result's.
    loop: Callable[[Sequence[Aval]], tuple[Dtype, ...]] | None = None
    # Whether it compares, so that integers beyond the range of a type make sense.
    compares: bool = False
    # Which operands are numbers where the others are random keys; None where keys are refused.
    beside_keys: frozenset[int] | None = None
    threaded: bool = False  # whether the kernel calls a library that has threads of its own
    # About how many functions of NumPy's the kernel uses, where these are many and short.
    steps: int = 1
    # Takes the parameters, the number of an operand that is another array transposed, and the axes
    # of that, from the end; gives the parameters for that array as it lies. None if operands must
    # be in order.
    turned: Callable[[Params, int, tuple[int, ...]], Params] | None = None
    # How the kernel takes all elements of named dims in front of operands at once; None where it
    # is called for each of them.
    stacked: Stacker | None = None
    each: str = ""  # why it is called for each where it is, in a line
    # Whether nothing moves before somebody needs the result in order; see `turned`.
    later: bool = False
    # Whether parameters hold numbers of the user, which `exact_key` tells apart.
    exact: bool = False

    @functools.cached_property
    def takes_numbers(self) -> bool:
        """Whether Python numbers among the operands stay what they are."""
        return all(strategy.numbers for strategy in self.strategies)

    def key(self, params: Params) -> Params:
        """Return what tells parameters apart in caches; see `exact`."""
        key: Params = exact_key(params) if self.exact else params
        return key

    def rule_for(self, avals: Sequence[Aval], params: Params) -> Rule:
        """Return the rule for particular operands."""
        return self.rule(avals, params)

    def __repr__(self) -> str:
        return f"Row({self.name})"
