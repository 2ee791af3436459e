"""Factor rules: the relation between the dims of operands and results. Pure.

Every dim of every operand and result is one *factor*, or none if its length is 1 and it is
broadcast.

- A factor in a result passes through: mesh axes that split it in the operands also split the
  result.
- A factor only in operands is reduced: parts are merged over the axes that split it.
- A *whole* factor must not be split: operands move first. A result dim of such a factor may have
  another length. It gets back the axes that split the operand's dim.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from gpushard._frozen import dataclass
from gpushard._typing import Shape

Dims: TypeAlias = tuple[int | None, ...]
"""The factor of each dim."""

Splits: TypeAlias = tuple[tuple[str, ...], ...]
"""The mesh axes that split each dim, or each factor, major to minor."""


@dataclass(frozen=True)
class Rule:
    """The factors of one operation on operands of particular shapes."""

    operands: tuple[Dims, ...]  # factors of each operand
    results: tuple[Dims, ...]  # factors of each result
    sizes: Shape  # length of each factor
    whole: frozenset[int] = frozenset()  # factors that must not be split
    # Factors that are fixed to certain mesh axes of more than one device, or to none. No other
    # factor gets these axes.
    pinned: tuple[tuple[int, tuple[str, ...]], ...] = ()

    @functools.cached_property
    def reduced(self) -> tuple[int, ...]:
        """The factors in no result, ascending."""
        in_results = {factor for dims in self.results for factor in dims}
        return tuple(factor for factor in range(len(self.sizes)) if factor not in in_results)

    @functools.cached_property
    def pins(self) -> dict[int, tuple[str, ...]]:
        """The axes of each pinned factor."""
        return dict(self.pinned)

    @functools.cached_property
    def taken(self) -> frozenset[str]:
        """The axes of all pinned factors."""
        return frozenset(axis for _, axes in self.pinned for axis in axes)

    @functools.cached_property
    def splittable(self) -> tuple[int, ...]:
        """The factors that mesh axes may split: not whole, not pinned, and of several elements.

        If a reduction has no elements, no reduced factor is split, since no block would contribute.
        """
        fixed = self.whole.union(factor for factor, _ in self.pinned)
        if any(self.sizes[factor] == 0 for factor in self.reduced):
            fixed = fixed.union(self.reduced)
        return tuple(f for f, n in enumerate(self.sizes) if n > 1 and f not in fixed)


def elementwise(shapes: Sequence[Shape], shape: Shape, results: int = 1) -> Rule:
    """Return the rule of an elementwise operation.

    >>> elementwise([(4, 1), (3,)], (4, 3)).operands
    ((0, None), (1,))
    """
    dims = tuple(range(len(shape)))
    return Rule(tuple(aligned(operand, shape) for operand in shapes), (dims,) * results, shape)


def aligned(operand: Shape, shape: Shape, dims: Dims | None = None) -> Dims:
    """Return the factors of an operand that broadcasts to a shape; `dims` has those of the shape.

    >>> aligned((4, 1), (2, 4, 3)), aligned((3,), (2, 3), (5, 6))
    ((1, None), (6,))
    """
    lead, factors = len(shape) - len(operand), range(len(shape)) if dims is None else dims
    return tuple(
        None if n == 1 and whole != 1 else factor
        for n, whole, factor in zip(operand, shape[lead:], factors[lead:], strict=True)
    )


def reduction(shape: Shape, axes: Sequence[int], *, keepdims: bool) -> Rule:
    """Return the rule of a reduction over some dims.

    >>> reduction((4, 3), [0], keepdims=True).results
    ((None, 1),)
    """
    dims = tuple(range(len(shape)))
    left: Dims = tuple(None if dim in axes else dim for dim in dims)
    if not keepdims:
        left = tuple(dim for dim in left if dim is not None)
    return Rule((dims,), (left,), shape)


def along(shapes: Sequence[Shape], axes: Sequence[int], results: Sequence[int] = (1,)) -> Rule:
    """Return the rule of an operation that needs some dims whole; the others broadcast.

    Results have the broadcast dims of the operands; along `axes` they may have other lengths.

    Args:
      shapes: shapes of the operands; operands with fewer dims lack the first ones.
      axes: the dims that must be whole, counted from the end.
      results: for each result whether it has these dims (1) or lacks them (0).

    >>> along([(4, 3)], [-1]).whole, along([(4, 3)], [-1], [1, 0]).results
    (frozenset({1}), ((0, 1), (0,)))
    >>> along([(3,), (4, 3)], [-1]).sizes
    (4, 3)
    """
    ndim = max(map(len, shapes))
    sizes = [1] * ndim
    for shape in shapes:
        for dim, n in enumerate(shape, ndim - len(shape)):
            sizes[dim] = n if sizes[dim] == 1 else sizes[dim]
    whole = frozenset(ndim + axis for axis in axes)
    operands = tuple(
        tuple(
            dim if n == sizes[dim] or dim in whole else None
            for dim, n in enumerate(shape, ndim - len(shape))
        )
        for shape in shapes
    )
    every: Dims = tuple(range(ndim))
    lacking: Dims = tuple(dim for dim in every if dim not in whole)
    result_dims = tuple(every if has else lacking for has in results)
    return Rule(operands, result_dims, tuple(sizes), whole)


def cores(shapes: Sequence[Shape], inputs: Sequence[str], outputs: Sequence[str] = ()) -> Rule:
    """Return the rule of an operation on the last dims of arrays; the other dims broadcast.

    Each of the last dims of each operand and each result has a letter. Last dims must be whole.

    >>> cores([(5, 4, 3)], ["mn"], ["mk", "k"]).results
    ((0, 1, 3), (0, 3))
    """
    loops = [shape[: len(shape) - len(core)] for shape, core in zip(shapes, inputs, strict=True)]
    lead = np.broadcast_shapes(*loops)
    letters = list(dict.fromkeys("".join((*inputs, *outputs))))
    number = {letter: len(lead) + n for n, letter in enumerate(letters)}
    lengths = dict.fromkeys(letters, 1)
    for shape, core in zip(shapes, inputs, strict=True):
        lengths |= dict(zip(core, shape[len(shape) - len(core) :], strict=True))
    operands = tuple(
        aligned(loop, lead) + tuple(number[letter] for letter in core)
        for loop, core in zip(loops, inputs, strict=True)
    )
    loop_dims: Dims = tuple(range(len(lead)))
    results = tuple(loop_dims + tuple(number[letter] for letter in core) for core in outputs)
    return Rule(operands, results, (*lead, *lengths.values()), frozenset(number.values()))


def parse(text: str, shapes: Sequence[Shape], whole: str = "") -> Rule:
    """Return the rule of a string with a letter for each dim.

    A dim of length 1 has no factor if its letter is longer elsewhere: it is broadcast. Letters in
    `whole` must not be split.

    >>> parse("ij,jk->ik", [(2, 3), (3, 4)]).reduced
    (1,)
    """
    left, right = text.replace(" ", "").split("->")
    names, outs = left.split(","), right.split(",")
    sizes: dict[str, int] = {}
    for letters, shape in zip(names, shapes, strict=True):
        for letter, n in zip(letters, shape, strict=True):
            if sizes.get(letter, 1) == 1:
                sizes[letter] = n
    number = {letter: at for at, letter in enumerate(sizes)}
    operands = tuple(
        tuple(
            None if n == 1 and sizes[letter] != 1 else number[letter]
            for letter, n in zip(letters, shape, strict=True)
        )
        for letters, shape in zip(names, shapes, strict=True)
    )
    results = tuple(tuple(number[letter] for letter in letters) for letters in outs)
    return Rule(
        operands, results, tuple(sizes.values()), frozenset(number[w] for w in whole if w in number)
    )
