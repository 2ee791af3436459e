"""Kernels of loop nests as functions of blocks, whatever computes the elements."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard._runtime.nests import Nest
from gpushard._typing import Dtype, Kernel, LocalArray, LocalArrays, Shape

Compute: TypeAlias = Callable[[LocalArrays, list[LocalArray], tuple[int, ...]], None]
"""Writes results: takes blocks of operands, those of results, and the lengths of the loops."""


class Scratch(threading.local):
    """Memory of one thread for what is between operations."""

    def __init__(self) -> None:
        self.slots: list[LocalArray] = []

    def array(self, slot: int, shape: Shape, dtype: Dtype) -> LocalArray:
        """Return an array in a slot, whose elements are whatever they are."""
        nbytes = math.prod(shape) * dtype.itemsize
        while len(self.slots) <= slot:
            self.slots.append(np.empty(0, np.uint8))
        if self.slots[slot].nbytes < nbytes:
            self.slots[slot] = np.empty(nbytes, np.uint8)
        return self.slots[slot][:nbytes].view(dtype).reshape(shape)


scratch = Scratch()


def kernel_of(nest: Nest, loops: Sequence[Sequence[int]], compute: Compute) -> Kernel:
    """Return the kernel of a nest.

    Args:
      nest: what it computes.
      loops: for each loop that `compute` goes over, the loops of the nest that it stands for.
      compute: writes the elements of results, where no loop is empty.
    """
    dtypes = nest.result_types

    @functools.lru_cache(maxsize=64)
    def lengths_of(*shapes: Shape) -> tuple[tuple[int, ...], list[Shape]]:
        """Return the lengths of the loops, and shapes of results."""
        own = nest.lengths(shapes)
        lengths = tuple([math.prod([own[loop] for loop in group]) for group in loops])
        return lengths, [nest.shape(result, own) for result in nest.results]

    def kernel(*blocks: Any, out: Any = None) -> Any:
        lengths, shapes = lengths_of(*[x.shape for x in blocks])
        if out is None:
            outs = [np.empty(shape, t) for shape, t in zip(shapes, dtypes, strict=True)]
        else:
            outs = list(out) if isinstance(out, tuple) else [out]
        if 0 in lengths:
            _of_nothing(nest, outs)
        else:
            compute(blocks, outs, lengths)
        if out is not None:
            return out
        return tuple(outs) if len(outs) > 1 else outs[0]

    return kernel


def _of_nothing(nest: Nest, results: LocalArrays) -> None:
    """Fill reductions of no elements, which nobody merges with others: with anything."""
    for result, array in zip(nest.results, results, strict=True):
        if nest.ops[result.place - len(nest.loads)].reduced:
            array[...] = 0
