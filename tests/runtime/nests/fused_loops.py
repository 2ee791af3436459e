"""Kernels of a GPU without a GPU: what a `ThreadNest` means, by NumPy, and a backend of these.

Values of all indices of the loops are made at once, each with a dim for each loop. So everything
that decides *what* a launch does is compared with a definition on any machine; how a backend writes
the kernel is not.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np

from gpushard._runtime.backend import ROOM
from gpushard._runtime.cuda.kernels.thread_nests import ThreadNest, function_of, launched_kernel
from gpushard._runtime.memory import packed
from gpushard._runtime.nests import Load, Op
from gpushard._runtime.runtime import Runtime
from gpushard._typing import Dtype, Shape
from gpushard.testing import simulated
from gpushard.testing.sim.backend import SimBackend

MOST_ELEMENTS = 5000
"""Elements of a row that kernels reduce for what follows in them."""

MOST_ARRAYS = 24
"""Arrays that a kernel takes and gives."""


def compute(
    dealt: ThreadNest, lengths: Sequence[int], blocks: Sequence[Any], numbers: Sequence[Any]
) -> list[Any]:
    """Return the results of a call, whose loops have such lengths.

    Raises:
      AssertionError: threads cannot go over the loops as it says.
    """
    own, nest = dealt.lengths(tuple(lengths)), dealt.nest
    for loop, length in dealt.within.items():
        assert own[loop] == length and loop not in dealt.along, "a loop within a thread"
    values = [_loaded(load, blocks[load.operand], own) for load in nest.loads]
    left = iter(numbers)
    for op in nest.ops:
        reduced = dealt.along.intersection(op.reduced)
        assert reduced in (frozenset(), dealt.along) or not op.reduced, "threads along other loops"
        operands = [next(left) if at is None else values[at] for at, _ in op.operands]
        assert [x.dtype for x in operands] == [*nest.types_of(op)]
        values.append(_elementwise(op, operands) if op.kernel else _reduced(op, operands, own))
    assert not [*left], "numbers that nothing takes"
    results: list[Any] = []
    for result, outer in zip(nest.results, dealt.whole.results, strict=True):
        dims = [dim for dim in result.dims if dim is not None]
        every = [n if loop in dims else 1 for loop, n in enumerate(own)]
        value = np.broadcast_to(values[result.place], every)
        others = tuple([0 if n not in dims else slice(None) for n in range(len(own))])
        order = np.argsort(np.argsort(dims)) if dims else []
        results.append(value[others].transpose(order).reshape(dealt.whole.shape(outer, lengths)))
    return results


def _loaded(load: Load, block: Any, own: Sequence[int]) -> Any:
    """Return what is read of a block, with a dim for each loop."""
    lengths = [1 if loop is None else own[loop] for loop in load.dims]
    block = block.reshape([n + more for n, more in zip(lengths, load.more, strict=True)])
    starts = list(load.starts)
    for dim in load.periodic:
        block, starts[dim] = np.roll(block, -starts[dim], dim), 0
    block = block[tuple([slice(a, a + n) for a, n in zip(starts, lengths, strict=True)])]
    at = [n for n, loop in enumerate(load.dims) if loop is not None]
    at.sort(key=lambda n: load.dims[n] or 0)
    block = block.transpose([*at, *[n for n in range(block.ndim) if n not in at]])
    return block.reshape([own[loop] if loop in load.dims else 1 for loop in range(len(own))])


def _elementwise(op: Op, operands: Sequence[Any]) -> Any:
    function = function_of(op)
    if function == "astype":
        return operands[0].astype(op.dtype)
    function = np.where if function == "where" else function
    return np.asarray(function(*operands)).astype(op.dtype, copy=False)


REDUCTIONS: dict[str, Callable[[Any, Dtype], Any]] = {
    "sum": lambda x, dtype: x.sum(0, dtype=dtype),
    "product": lambda x, dtype: x.sum(0, dtype=dtype),
    "prod": lambda x, dtype: x.prod(0, dtype=dtype),
    "mean": lambda x, dtype: x.mean(0, dtype=dtype),
    "max": lambda x, dtype: x.max(0),
    "min": lambda x, dtype: x.min(0),
    "argmax": lambda x, dtype: x.argmax(0),
    "argmin": lambda x, dtype: x.argmin(0),
    "any": lambda x, dtype: x.any(0),
    "all": lambda x, dtype: x.all(0),
}


def _reduced(op: Op, operands: Sequence[Any], own: Sequence[int]) -> Any:
    x = operands[0] if len(operands) == 1 else operands[0] * operands[1]
    x = np.broadcast_to(x, [own[n] if n in op.reduced else x.shape[n] for n in range(len(own))])
    x = np.moveaxis(x, op.reduced, range(len(op.reduced)))
    rest = x.shape[len(op.reduced) :]
    rows = math.prod(x.shape[: len(op.reduced)])
    x = x.reshape((rows, *rest))
    found = REDUCTIONS[op.name](x, op.dtype) if rows else np.zeros(rest)
    return np.expand_dims(found.astype(op.dtype), tuple(sorted(op.reduced)))


def fuses(op: Op, types: Sequence[Dtype], length: int) -> bool:
    """Whether there are kernels of an operation."""
    known = all(t.kind in "biuf" for t in (*types, op.dtype))
    if op.kernel is None:
        return known and op.name in REDUCTIONS and length <= MOST_ELEMENTS
    function = function_of(op)
    return known and (function in ("astype", "where") or isinstance(function, np.ufunc))


class Calls:
    """Calls of a nest that are made at once."""

    replays = False

    def __init__(
        self, backend: SimBackend, dealt: ThreadNest, results: Sequence[Dtype],
        lengths: Sequence[Shape], *, together: bool,
    ) -> None:  # fmt: skip
        self._backend, self._dealt, self._lengths = backend, dealt, lengths
        whole = dealt.whole
        shapes = [[whole.shape(result, own) for result in whole.results] for own in lengths]
        assert [*results] == [*whole.result_types, *[ROOM] * (dealt.parts > 1)]
        if dealt.parts > 1:
            shapes = [[*own, (dealt.room(n),)] for own, n in zip(shapes, lengths, strict=True)]
        self._kinds = [(own[n], t) for n, t in enumerate(results) for own in shapes]
        starts, self.nbytes = packed([math.prod(shape) * t.itemsize for shape, t in self._kinds])
        self._starts = starts if together else None

    def on(
        self, blocks: Sequence[Any], raws: Sequence[Any], numbers: Sequence[np.generic]
    ) -> tuple[list[Any], Callable[[], None]]:
        """Return the results of all calls, and what makes them."""
        if self._starts is None:
            pairs = zip(raws, self._kinds, strict=True)
            values = [self._backend.view(raw, *kind) for raw, kind in pairs]
        else:
            values = list(self._backend.views(raws[0], self._starts, self._kinds))
        return values, lambda: self._make(blocks, values, numbers)

    def _make(self, blocks: Sequence[Any], values: Sequence[Any], numbers: Sequence[Any]) -> None:
        count = len(self._lengths)
        for n, lengths in enumerate(self._lengths):
            with np.errstate(all="ignore"):
                found = compute(self._dealt, lengths, blocks[n::count], numbers)
            for value, result in zip(values[n::count], found, strict=False):
                assert value.dtype == result.dtype
                value[...] = result


def _calls(
    self: SimBackend,
    function: Any,
    operands: Sequence[Dtype],
    scalars: Sequence[int],
    results: Sequence[Dtype],
    batches: Sequence[tuple[Any, Sequence[Shape]]],
    blocks: Sequence[Shape],
    *,
    together: bool,
) -> Sequence[Calls] | None:
    """Return what makes calls of nests; None for others, and for too many arrays."""
    if (
        not isinstance(function, ThreadNest)
        or len(operands) - len(scalars) + len(results) > MOST_ARRAYS
    ):
        return None
    return [Calls(self, function, results, own, together=together) for _, own in batches]


@contextlib.contextmanager
def launching(seed: int = 0, **settings: Any) -> Iterator[Runtime]:
    """Use a simulated runtime whose kernels are launched as a GPU's are, within a `with` block."""
    with (
        mock.patch.object(SimBackend, "calls", _calls),
        mock.patch.object(SimBackend, "fuses", lambda self, *of: fuses(*of)),
        mock.patch.object(SimBackend, "compile", lambda self, nest, blocks: launched_kernel(nest)),
        simulated(seed, host_readable=False, **settings) as runtime,
    ):
        runtime.sim.failing = 0
        yield runtime
