"""What a loop nest means: the definition, index by index, that every emitter is compared with.

A value is a number for each combination of the indices of its loops. An operation at some indices
takes its operands at the same indices: those of the loops that an operand has.

    x - x.mean() of a vector:   v1() = mean over i0 of v0(i0);   v2(i0) = v0(i0) - v1()
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._runtime.nests import Nest, Op

Index = dict[int, int]
"""The index of each loop."""


def compute(nest: Nest, operands: Sequence[Any], lengths: Sequence[int]) -> list[Any]:
    """Compute the results of a nest for blocks of operands, whose loops have such lengths."""
    first = len(nest.loads)
    known: dict[tuple[int, tuple[int, ...]], Any] = {}
    loops = [sorted(nest.loops(place)) for place in range(first + len(nest.ops))]

    def value(place: int, index: Index) -> Any:
        if place < first:
            return _element(nest, operands, place, index)
        key = place, tuple([index[loop] for loop in loops[place]])
        if key not in known:
            known[key] = _operation(nest.ops[place - first], index, lengths, value)
        return known[key]

    results = []
    for result in nest.results:
        array = np.empty(nest.shape(result, lengths), nest.dtype(result.place))
        for at in np.ndindex(array.shape):
            index = {loop: i for loop, i in zip(result.dims, at, strict=True) if loop is not None}
            array[at] = value(result.place, index)
        results.append(array)
    return results


def _element(nest: Nest, operands: Sequence[Any], place: int, index: Index) -> Any:
    """Read an element of an operand."""
    load = nest.loads[place]
    operand, at = operands[load.operand], []
    for dim, (loop, start) in enumerate(zip(load.dims, load.starts, strict=True)):
        element = start + (0 if loop is None else index[loop])
        at.append(element % operand.shape[dim] if dim in load.periodic else element)
    return operand[tuple(at)]


def _operation(
    op: Op, index: Index, lengths: Sequence[int], value: Callable[[int, Index], Any]
) -> Any:
    """Compute one operation at indices of its loops."""

    def operand(number: int, at: Index) -> Any:
        place, constant = op.operands[number]
        return op.types[number].type(constant if place is None else value(place, at))

    numbers = range(len(op.operands))
    if not op.reduced:
        function = getattr(np, {"astype": "positive", "copy": "positive"}.get(op.name, op.name))
        return function(*[operand(n, index) for n in numbers])
    elements = []
    for at in itertools.product(*[range(lengths[loop]) for loop in op.reduced]):
        inside = index | dict(zip(op.reduced, at, strict=True))
        elements.append([operand(n, inside) for n in numbers])
    return REDUCTIONS[op.name](elements, op)


def _added(elements: list[Any], op: Op) -> Any:
    sums = op.dtype.type(0)
    for operands in elements:
        term = op.dtype.type(1)
        for x in operands:
            term = op.dtype.type(term * op.dtype.type(x))
        sums = op.dtype.type(sums + term)
    return sums


def _extreme(elements: list[Any], op: Op) -> Any:
    best = elements[0][0]
    for (x,) in elements[1:]:
        if best == best and (x != x or (x > best if op.name == "max" else x < best)):
            best = x
    return best


def _position(elements: list[Any], op: Op) -> Any:
    values = [x for (x,) in elements]
    best = _extreme(elements, Op(op.name[3:], op.operands, op.dtype, op.loops, op.types))
    return next(n for n, x in enumerate(values) if x == best or (x != x and best != best))


def _product(elements: list[Any], op: Op) -> Any:
    result = op.dtype.type(1)
    for (x,) in elements:
        result = op.dtype.type(result * op.dtype.type(x))
    return result


REDUCTIONS: dict[str, Callable[[list[Any], Op], Any]] = {
    "sum": _added,
    "product": _added,
    "mean": lambda elements, op: op.dtype.type(_added(elements, op) / op.dtype.type(len(elements))),
    "max": _extreme,
    "min": _extreme,
    "argmax": _position,
    "argmin": _position,
    "prod": _product,
    "any": lambda elements, op: any(x != 0 for (x,) in elements),
    "all": lambda elements, op: all(x != 0 for (x,) in elements),
}
"""What a reduction makes of its elements, in row-major order, each a list of operands."""
