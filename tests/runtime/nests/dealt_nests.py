"""Loop nests whose loops are dealt out to threads as a test says, and texts of their kernels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from gpushard._runtime.cuda.kernels import thread_layout
from gpushard._runtime.cuda.kernels.elementwise import Statement
from gpushard._runtime.cuda.kernels.thread_nests import ThreadNest, thread_nest
from gpushard._runtime.nests import Load, Nest, Op, Result
from gpushard._typing import Dtype


def op(
    function: Any,
    operands: Sequence[Any],
    types: Sequence[Dtype],
    dtype: Dtype,
    loops: Collection[int] = (),
    reduced: Sequence[int] | None = None,
) -> Op:
    """Return an operation.

    Args:
      function: one of NumPy's, or its name; of what `reduced` is given, the name of a reduction.
      operands: a place of each, or a number.
      types: their types.
      dtype: of the result.
      loops: those of the result.
      reduced: those that it reduces, if it is a reduction.
    """
    name = function if isinstance(function, str) else function.__name__
    kernel = None
    if reduced is None:
        kernel = np.positive if name in ("astype", "copy") else getattr(np, name)
    pairs = [(x, None) if isinstance(x, int) else (None, x) for x in operands]
    loops = frozenset(loops)
    return Op(name, tuple(pairs), dtype, loops, tuple(types), kernel, tuple(reduced or ()))


def dealt(
    loads: Sequence[Load],
    ops: Sequence[Op],
    results: Sequence[tuple[int, tuple[int | None, ...]]],
    loops: int,
    *,
    along: Collection[int] = (),
    within: Mapping[int, int] | None = None,
) -> ThreadNest:
    """Return a nest of so many loops, of which only those within a thread have a known length.

    Args:
      loads: what it reads; each of an array of its own.
      ops: its operations.
      results: places of results, and the loops along their dims.
      loops: how many there are.
      along: those that threads go along together.
      within: those within a thread, with their lengths.
    """
    within = within or {}
    nest = Nest(
        tuple([within.get(n, 1) for n in range(loops)]), len(loads), tuple(loads), tuple(ops),
        tuple([Result(*each) for each in results]), frozenset(within), frozenset(along),
    )  # fmt: skip
    return ThreadNest(nest, nest, tuple([(n,) for n in range(loops)]))


def statements(of: ThreadNest, text: str = "out0 = in0") -> list[Statement | None]:
    """Return the same statement for each operation that is no reduction."""
    return [
        None if op.kernel is None else Statement(text, "", of.nest.types_of(op), (op.dtype,))
        for op in of.nest.ops
    ]


def dealt_out(nest: Nest) -> tuple[ThreadNest, thread_layout.Threads]:
    """Return a nest as threads share it, for blocks that are whole arrays."""
    of = thread_nest(nest)
    assert of is not None
    return of, thread_layout.threads(of, [of.lengths(nest.sizes)])
