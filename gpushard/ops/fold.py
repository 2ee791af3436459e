"""Merging the states of a reduction: calls that take several parts, and their kernels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from gpushard.ops.in_order import InOrder
from gpushard.ops.row import State
from gpushard.ops.stage import Job, Parts, Stage
from gpushard.typing import Index, LocalArray


class Fold(Stage):
    """Calls that each take several parts of a state.

    Args:
      inputs: for each call the numbers of its parts.
      regions: for each call the index of what it takes of them; None for all.
      *stage: as for `Stage`.
    """

    def __init__(
        self, inputs: Sequence[Sequence[int]], regions: Sequence[Index | None], *stage: Any
    ) -> None:
        super().__init__(*stage)
        self._inputs = dict(zip(self.jobs, inputs, strict=True))
        self._regions = dict(zip(self.jobs, regions, strict=True))

    def fold(self, state: Sequence[Parts]) -> list[Parts]:
        """Make the calls; `state` has every part of each array of a state."""
        here = self._here and all(parts.settled for parts in state)
        if here and self._small:
            return self.call_rows([self._take(state, job) for job in self.jobs])
        return self.launch(
            functools.partial(self._take, state),
            lambda job: [p.claims[n].memory for n in self._inputs[job] for p in state],
            here=here,
        )

    def _take(self, state: Sequence[Parts], job: Job) -> list[LocalArray]:
        taken = [parts.values[n] for n in self._inputs[job] for parts in state]
        region = self._regions[job]
        return taken if region is None else [array[region] for array in taken]


def _merged(
    width: int, merge: Any, counts: Sequence[int], arrays: Sequence[Any], out: Any = None
) -> State:
    """Merge states in order; what comes back is fresh, also if there is one only, or `out`."""
    state, count = tuple(arrays[:width]), counts[0]
    if len(counts) == 1:
        return tuple(array.copy() for array in state)
    if isinstance(merge, InOrder) and (whole := merge.at_once(arrays, out)) is not None:
        return (whole,)
    for n, more in enumerate(counts[1:], 1):
        state = merge(state, tuple(arrays[n * width : (n + 1) * width]), count, more)
        count += more
    return state


def finished(
    width: int, merge: Any, finish: Any, counts: Sequence[int], *arrays: Any, out: Any = None
) -> Any:
    """Merge states and finish the last one: the kernel of a block of the result."""
    result = finish(_merged(width, merge, counts, arrays, out), sum(counts))
    if out is not None and result is not out:
        out[...] = result
    return result


def as_state(width: int, merge: Any, counts: Sequence[int], *arrays: Any, out: Any = None) -> Any:
    """Merge states: the kernel of what one domain contributes to a block."""
    return _given(_merged(width, merge, counts, arrays, out if width == 1 else None), out)


def merged_rows(merge: Any, counts: Sequence[int], *matrices: Any, out: Any = None) -> Any:
    """Merge the rows of matrices: the kernel of one part of a block between domains."""
    arrays = [matrix[row] for row in range(len(counts)) for matrix in matrices]
    width = len(matrices)
    return _given(_merged(width, merge, counts, arrays, out if width == 1 else None), out)


def _given(state: State, out: Any) -> Any:
    targets = (out,) if out is not None and not isinstance(out, tuple) else out
    for target, array in zip(targets or (), state, strict=True) if targets else ():
        if target is not array:
            target[...] = array
    return state if len(state) > 1 else state[0]
