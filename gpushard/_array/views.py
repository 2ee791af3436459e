"""Emulate NumPy's views for libraries that depend on them.

Arrays are values: assigning to `x[1:]` leaves `x` unchanged. SciPy and scikit-learn are written for
NumPy, where it changes `x`, and would continue with a wrong value. So arrays remember, weakly,
the array that they were taken from. If code of these libraries assigns to one of them, that
array and all arrays taken from it get the values that they would have in NumPy.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard._array.callers import caller, package_of
from gpushard._array.data import Handle, Origin, View
from gpushard._ops.bind import bind
from gpushard._ops.row import Params, Row
from gpushard._ops.table.manipulation import INDEX, RESHAPE, TRANSPOSE, index_of
from gpushard._ops.table.manipulation import index as index_part
from gpushard._typing import HostArray, Shape

LIBRARIES = ("scipy", "sklearn")  # packages that depend on views
_DEEPEST = 16  # the most operations to remember between an array and its origin
_KNOWS_COPY = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
"""Whether NumPy can reshape with `copy=False`, from 2.1 on; 2.5 drops the older way."""

Steps: TypeAlias = Sequence[tuple[Row | None, Params]]
"""Consecutive operations; None changes nothing."""


def view(x: Any, row: Row | None, params: Params = ()) -> Any:
    """Take a part of an array by an operation; the result remembers the array."""
    other: Handle = _step(x, row, params)
    # NumPy has no views without dims, and traced values have no `_shape`.
    if getattr(other, "_shape", ()):
        older = x._view
        depth = 1 if older is None else older.depth + 1
        if depth > _DEEPEST:
            older, depth = None, 1
        if x._origin is None:
            x._origin = Origin(x)
        other._view = View(x._origin, row, params, older, depth)
    return other


def _step(x: Handle, row: Row | None, params: Params) -> Handle:
    """Take a part of an array by an operation; indexing has the whole index as parameter."""
    if row is None:
        return copy.copy(x)
    if row is not INDEX:
        part: Handle = bind(row, (x,), params)
        return part
    shard: Handle | None = _shard(x, *params)
    return index_part(x, *params) if shard is None else shard


def _shard(x: Any, entries: Sequence[Any]) -> Any:
    """Return the shard that an index selects, if shards lack dims of the array."""
    dims = x._sharding.unstacked if isinstance(x, Handle) else ()
    if not dims:
        return None
    box: list[tuple[int, int]] = []
    for entry in entries:
        if isinstance(entry, int) == (len(box) in dims) and entry is not None:
            start, step, length = (entry, 1, 1) if isinstance(entry, int) else entry
            box.append((start, start + length if step == 1 else -1))
        else:
            return None
    return x._shard_at(tuple(box))


def is_called_by_library() -> bool:
    """Test whether the calling code is of a library that depends on views."""
    if not any(map(sys.modules.__contains__, LIBRARIES)):
        return False
    return package_of(caller()) in LIBRARIES


def assigned(x: Handle, index: Any, value: Any) -> list[tuple[Handle, Handle]]:
    """Return the arrays that an assignment to one of them changes in NumPy, with their new values.

    Args:
      x: an array that was taken from another one, or from which others were taken.
      index: the index of the part.
      value: the new value of the part.

    Returns:
      Nothing if the caller does not depend on views, or if there are none: then the assignment
      changes only `x`. In the first case `x` is an independent array from then on.
    """
    if not is_called_by_library():
        x._view, origin, x._origin = None, x._origin, None
        if origin is not None:
            origin.end()
        return []
    root, steps = x, list[tuple[Row | None, Params]]()
    for source, way in _ways(x):
        root, steps = source, way
    views = [
        (other, way)
        for other in x._live().runtime.live_arrays()
        for source, way in _ways(other)
        if source is root
    ]
    if not views:
        return []
    new = _with_part(root, steps, index, value)
    return [(root, new)] + [(other, _like(other, _apply_steps(new, way))) for other, way in views]


def _ways(x: Handle) -> Iterator[tuple[Handle, list[tuple[Row | None, Params]]]]:
    """Yield the living arrays that an array is a view of, with the operations between them."""
    chain: list[View] = []
    step = x._view
    while step is not None:
        chain.append(step)
        step = step.older
    if not chain:
        return
    steps = [(view.row, view.params) for view in reversed(chain)]
    for number, view in enumerate(chain[: _viewing(chain[-1].origin.shape, steps)], 1):
        array = view.origin.array()
        if array is not None:
            yield array, steps[-number:]


def _viewing(shape: Shape, steps: Steps) -> int:
    """Return the number of last steps in which NumPy copies nothing.

    Reshaping copies if memory has gaps or another order, which depends on the first array.

    >>> turn, flat = (TRANSPOSE, ((-1, -2),)), (RESHAPE, ((12,),))
    >>> _viewing((4, 3), [turn, turn, flat]), _viewing((4, 3), [turn, flat])
    (3, 0)
    """
    memory, since = _memory(shape), 0
    for number, (row, params) in enumerate(steps, 1):
        if row is INDEX:
            memory = memory[index_of(params[0])]
        elif row is TRANSPOSE:
            memory = memory.transpose(params[0])
        elif row is RESHAPE:
            try:
                memory = _without_a_copy(memory, params[0])
            except (AttributeError, ValueError):
                memory, since = _memory(params[0]), number
        elif params and not memory.flags.c_contiguous:  # `ravel`
            memory, since = _memory(memory.shape), number
    return len(steps) - since


def _memory(shape: Shape) -> HostArray:
    """Return an array with the strides of a new one; its elements are never read."""
    strides = [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
    return np.lib.stride_tricks.as_strided(np.empty((), bool), shape, strides)


def _apply_steps(x: Handle, steps: Steps) -> Handle:
    for row, params in steps:
        x = x if row is None else _step(x, row, params)
    return x


def _without_a_copy(memory: HostArray, shape: Shape) -> HostArray:
    """Reshape memory without a copy, or raise NumPy's error if it would have to copy."""
    if _KNOWS_COPY:
        return np.reshape(memory, shape, copy=False)
    memory.shape = shape
    return memory


def _with_part(x: Handle, steps: Steps, index: Any, value: Any) -> Handle:
    """Return an array after an assignment to a part of a view; the steps make the view."""
    copied: Any
    if not steps:
        copied = copy.copy(x)
        copied[index] = value
        return copied
    (row, params), *rest = steps
    new = _with_part(_apply_steps(x, steps[:1]), rest, index, value)
    if row is INDEX:
        copied = copy.copy(x)
        copied[index_of(params[0])] = new
        return copied
    if row is TRANSPOSE:
        axes = np.argsort([axis % len(x._shape) for axis in params[0]]) - len(x._shape)
        new = bind(TRANSPOSE, (new,), (tuple(axes.tolist()),))
    elif row is RESHAPE:
        new = bind(RESHAPE, (new,), (x._shape,))
    return _like(x, new)


def _like(x: Handle, new: Any) -> Handle:
    """Move a new value to the sharding of an array."""
    home: Handle = new if new.sharding == x._sharding else new.to_device(x._sharding)
    return home
