"""Loop nests: what a region computes, said once for all emitters (NumPy's tiles, C, CUDA C). Pure.

A nest has loops, numbered from 0, each of a length. A value varies along some of them: it is one
number for each combination of their indices. There are three kinds of values, and all have places,
in this order:

- *loads*: elements of operands. Dim d of the array runs along loop `dims[d]`, and its element for
  index i of the loop is `starts[d] + i`; None is one element, `starts[d]`. The same array may be
  loaded several times, shifted: then it has `more[d]` elements beyond those of the loop. A dim may
  be *periodic*, as in a roll: behind its last element comes its first one.
- *elementwise operations*: one number from those of the operands at the same indices. They vary
  along the loops of any of these (or fewer than others: what lacks a loop is broadcast).
- *reductions* over loops, which their results lack: `sum`, `prod`, `mean`, `max`, `min`, `any`,
  `all`, `argmin` and `argmax` of one operand, and `product`, the sum of products of two.

A view (new dims, those of length 1 left out, a transpose, a part) is a load with other `dims` and
`starts` of a load. A result is a value and the order of its loops in the array, `None` for dims of
length 1. Every operand and result is dense in row-major order.

Loops are of three kinds. *Short* ones (`short`) have at most `SHORT` elements. Unless these are
split over devices (`split`), lengths are known and emitters may unroll them. *Inner* ones are
reduced by something that other operations need, and are long. The others are independent but for
what is reduced last: those results that nothing in the nest needs.
Lengths of loops are those of the whole array; a kernel gets those of its block from its operands.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._typing import Dtype, Kernel, Shape

SHORT = 64
"""Loops of up to so many elements may be short."""

MOST_SHORT = 1024
"""Most combinations of indices of short loops."""

LARGE = 1 << 14
"""A kernel is compiled if the largest value of its nest has at least so many elements. Those of the
whole array count, so that results do not depend on how it is split."""


@dataclass(frozen=True)
class Reduction:
    """How elements become one. A mean is a sum in the end divided by their number."""

    combine: np.ufunc  # two elements, or two of what they have come to
    start: int | None = None  # what an accumulator starts with; None: an extreme of its type
    position: bool = False  # whether it gives the place of an element, of several the first one

    def start_of(self, dtype: Dtype) -> Any:
        """Return what an accumulator of a type starts with."""
        least = self.combine is np.minimum
        if self.start is not None:
            return self.start
        if dtype.kind == "f":
            return math.inf if least else -math.inf
        if dtype.kind == "b":
            return int(least)
        return int(np.iinfo(dtype).max if least else np.iinfo(dtype).min)


REDUCTIONS = {
    "sum": Reduction(np.add, 0),
    "mean": Reduction(np.add, 0),
    "product": Reduction(np.add, 0),
    "prod": Reduction(np.multiply, 1),
    "any": Reduction(np.logical_or, 0),
    "all": Reduction(np.logical_and, 1),
    "min": Reduction(np.minimum),
    "max": Reduction(np.maximum),
    "argmin": Reduction(np.minimum, position=True),
    "argmax": Reduction(np.maximum, position=True),
}
"""The reductions of nests."""


@dataclass(frozen=True)
class Load:
    """An operand as it is read."""

    operand: int  # number of the array
    dtype: Dtype  # its type
    dims: tuple[int | None, ...]  # loop that each of its dims runs along; None: it has one element
    starts: Shape  # element of each dim that is read first
    more: Shape  # how many elements each dim has beyond the loop's
    periodic: frozenset[int] = frozenset()  # dims that begin again behind their last element

    @property
    def is_cut(self) -> bool:
        """Whether elements that are neighbours in memory may be no neighbours in the nest."""
        return any(self.more) or bool(self.periodic)

    @property
    def loops(self) -> frozenset[int]:
        """Loops that it varies along."""
        return frozenset(dim for dim in self.dims if dim is not None)


@dataclass(frozen=True)
class Op:
    """One operation of a nest."""

    name: str  # of the operation
    operands: tuple[tuple[int | None, Any], ...]  # of each the place, or the number, in its type
    dtype: Dtype  # of its result
    loops: frozenset[int]  # that its result varies along
    types: tuple[Dtype, ...]  # of the operands, when it sees them
    kernel: Kernel | None = None  # NumPy's function; None for a reduction
    reduced: tuple[int, ...] = ()  # loops that it reduces, in row-major order

    @property
    def places(self) -> tuple[int, ...]:
        """Places of the operands that are no numbers."""
        return tuple([at for at, _ in self.operands if at is not None])


@dataclass(frozen=True)
class Result:
    """What a nest gives."""

    place: int  # of the value
    dims: tuple[int | None, ...]  # loop that each dim of the array runs along


@dataclass(frozen=True)
class Nest:
    """What a region computes."""

    sizes: Shape  # lengths of the loops, in the whole array
    operands: int  # how many arrays it takes
    loads: tuple[Load, ...]
    ops: tuple[Op, ...]  # each after those that it needs
    results: tuple[Result, ...]  # at least one, and no value twice
    short: frozenset[int]  # loops of few elements
    inner: frozenset[int]  # long loops that are reduced for what is in the nest
    split: frozenset[int] = frozenset()  # short loops of which some block has not all elements

    def loops(self, place: int) -> frozenset[int]:
        """Return the loops that a value varies along."""
        loads = len(self.loads)
        return self.loads[place].loops if place < loads else self.ops[place - loads].loops

    def dtype(self, place: int) -> Dtype:
        """Return the type of a value."""
        loads = len(self.loads)
        return self.loads[place].dtype if place < loads else self.ops[place - loads].dtype

    @property
    def operand_types(self) -> list[Dtype]:
        """The types of the arrays that it takes."""
        types = {load.operand: load.dtype for load in self.loads}
        return [types[n] for n in range(self.operands)]

    @property
    def result_types(self) -> list[Dtype]:
        """The types of its results."""
        return [self.dtype(result.place) for result in self.results]

    @property
    def numbers(self) -> list[Any]:
        """The numbers that operations take, in order."""
        return [value for op in self.ops for at, value in op.operands if at is None]

    def types_of(self, op: Op) -> tuple[Dtype, ...]:
        """Return the types of what an operation takes, as arrays and numbers have them."""
        return tuple([value.dtype if at is None else self.dtype(at) for at, value in op.operands])

    def levels(self, loops: Collection[int]) -> list[int]:
        """Return for each place after how many reductions of some loops its value is known.

        Along rows, `x.max(1)` is known after one, as is `e = exp(x - x.max(1))`; `e.sum(1)` is
        known after two.
        """
        levels = [0] * len(self.loads)
        for op in self.ops:
            before = max([levels[at] for at in op.places], default=0)
            levels.append(before + any(loop in loops for loop in op.reduced))
        return levels

    def runs(self, alike: Sequence[Collection[int]] = ()) -> list[list[int]]:
        """Group the loops that may be one longer loop; see `runs_of` about `alike`."""
        cut: list[Collection[int]] = [load.loops for load in self.loads if load.is_cut]
        cut += [op.reduced for op in self.ops if op.kernel is None and REDUCTIONS[op.name].position]
        apart = [{loop} for loops in cut for loop in loops]
        uses = [loops for op in self.ops for loops in (op.loops, op.reduced)]
        arrays = [*[load.dims for load in self.loads], *[result.dims for result in self.results]]
        return runs_of(range(len(self.sizes)), arrays, [*alike, *apart, *uses])

    @property
    def large(self) -> int:
        """How many elements the value of most elements has."""
        return max(
            math.prod(self.sizes[loop] for loop in op.loops.union(op.reduced)) for op in self.ops
        )

    def lengths(self, shapes: Sequence[Shape]) -> list[int]:
        """Return the lengths of the loops for blocks of operands that have such shapes."""
        lengths = list(self.sizes)
        for load in self.loads:
            shape = shapes[load.operand]
            for dim, n, more in zip(load.dims, shape, load.more, strict=True):
                if dim is not None:
                    lengths[dim] = n - more
        return lengths

    def shape(self, result: Result, lengths: Sequence[int]) -> Shape:
        """Return the shape of a result of a block."""
        return tuple(1 if dim is None else lengths[dim] for dim in result.dims)


def merged(nest: Nest) -> tuple[Nest, list[list[int]]]:
    """Return a nest in which loops that all arrays have next to each other are one.

    Returns:
      The nest, and the loops that each of its loops stands for.
    """
    groups = nest.runs([nest.short, nest.inner])
    number = {loop: n for n, group in enumerate(groups) for loop in group}
    first = {group[0] for group in groups}

    def dims_of(dims: Sequence[int | None]) -> list[int]:
        return [at for at, dim in enumerate(dims) if dim is None or dim in first]

    loads = tuple(
        dataclasses.replace(
            load,
            dims=tuple(_numbered(load.dims[at], number) for at in dims_of(load.dims)),
            starts=tuple(load.starts[at] for at in dims_of(load.dims)),
            more=tuple(load.more[at] for at in dims_of(load.dims)),
        )
        for load in nest.loads
    )
    ops = tuple(
        dataclasses.replace(
            op,
            loops=frozenset(number[loop] for loop in op.loops),
            reduced=tuple(dict.fromkeys(number[loop] for loop in op.reduced)),
        )
        for op in nest.ops
    )
    results = tuple(
        Result(r.place, tuple(_numbered(r.dims[at], number) for at in dims_of(r.dims)))
        for r in nest.results
    )
    nest_of_groups = Nest(
        tuple(math.prod(nest.sizes[loop] for loop in group) for group in groups),
        nest.operands, loads, ops, results,
        frozenset(number[loop] for loop in nest.short),
        frozenset(number[loop] for loop in nest.inner),
        frozenset(number[loop] for loop in nest.split),
    )  # fmt: skip
    return nest_of_groups, groups


def short_loops(sizes: Sequence[int], runs: Sequence[Sequence[int]]) -> frozenset[int]:
    """Find the loops of runs that have few elements; see `runs_of`."""
    return frozenset(
        loop for run in runs if math.prod([sizes[x] for x in run]) <= SHORT for loop in run
    )


def runs_of(
    loops: Iterable[int], arrays: Sequence[Sequence[int | None]], alike: Sequence[Collection[int]]
) -> list[list[int]]:
    """Group loops that are one after the other in all arrays, and may be one longer loop.

    Args:
      loops: the loops.
      arrays: for each array the loops of its dims, None for dims of length 1.
      alike: sets of loops, such as those that an operation reduces. All loops of a group are in a
        set, or none.

    >>> runs_of(range(4), [(0, 1, 2, 3), (None, 1, None, None)], [{0, 2, 3}])
    [[0], [1], [2, 3]]
    """
    present = [[loop for loop in dims if loop is not None] for dims in arrays]

    def are_one(first: int, second: int) -> bool:
        if any((first in group) != (second in group) for group in (*present, *alike)):
            return False
        both = [dims for dims in present if first in dims]
        return bool(both) and all(dims.index(second) == dims.index(first) + 1 for dims in both)

    groups: list[list[int]] = []
    left = list(loops)
    while left:
        group = [left.pop(0)]
        while following := [loop for loop in left if are_one(group[-1], loop)]:
            group.append(following[0])
            left.remove(following[0])
        groups.append(group)
    return groups


def _numbered(dim: int | None, number: dict[int, int]) -> int | None:
    return None if dim is None else number[dim]
