"""`x[index] = value`: write in place if nothing shares x's memory, else into new blocks.

Index and value are checked and converted first, so a refused call leaves the array unchanged. Then
the array's data are detached: other threads that need them wait. If nothing else refers to the
blocks, they are written and attached again. An interrupt during the write leaves them detached, and
every use of the array raises. Otherwise the old data are attached again, and the new blocks, once
they are computed or submitted, replace them in one step.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._array.data import Data, Detached, Handle, Turned
from gpushard._array.guards import HOST_TO_DEVICE, check_transfer
from gpushard._array.views import assigned
from gpushard._functions.assigned_placement import follows
from gpushard._functions.assigned_values import as_element, as_new_part
from gpushard._functions.index_parsing import ParsedIndex, parse
from gpushard._functions.updating import part_updated, with_part
from gpushard._functions.values import is_traced
from gpushard._geometry.sharding import Sharding
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.execute import BEFORE_WRITING, is_idle
from gpushard._movement.ownership import ALONE, COUNTS_ARE_EXACT, owns_alone
from gpushard._movement.planning.update import Touched
from gpushard._movement.update import Overlay, copy_now, fill_now, rewrite, touched_by
from gpushard._ops.basic_index import index_piece
from gpushard._ops.programs.move import overlay_for

_NAME = "x[index] = value"


def assign(x: Handle, index: Any, value: Any) -> None:
    """Replace a part of an array; see `Array.__setitem__`."""
    if ShardedBuffer.ever_lent and sys.getrefcount(x) == _IN_VARIABLE:
        _forget_exports(x._data)
    if (x._view is None and x._origin is None) or not _assigned_as_view(x, index, value):
        _assign(x, *parse(x._shape, index), value)


def renew(x: Handle, new: Handle) -> None:
    """Give an array the value of another one, and its layout if the array is uncommitted."""
    if (x._view is None and x._origin is None) or not _assigned_as_view(x, ..., new):
        _renew(x, new)


def _assigned_as_view(x: Handle, index: Any, value: Any) -> bool:
    """Assign to all arrays that are views of one array in NumPy; return whether there are any."""
    values = assigned(x, index, value)
    for array, new in values:
        _renew(array, new)
    return bool(values)


def _assign(x: Handle, parsed: ParsedIndex, arrays: Sequence[Any], value: Any) -> None:
    if arrays:
        value = part_updated(x, parsed, arrays, value)
        if parsed.everything:
            _renew(x, value)
            return
    value = _check_concrete(value)
    touched = _touched_blocks(x._held(), parsed)
    new: Any = as_element(value, x._dtype)
    if new is not None:
        few = touched.written <= x._held().runtime.settings.inline_bytes
        if few and _try_in_place(
            x, touched, lambda base: fill_now(base, touched, new), at_once=True
        ):
            x._weak_type = False
            return
    elif isinstance(new := as_new_part(value, parsed.shape, x), np.ndarray):
        check_transfer(HOST_TO_DEVICE, _NAME, explicit=False)
        if _try_in_place(x, touched, lambda base: copy_now(base, touched, new), at_once=True):
            x._weak_type = False
            return
    elif follows(x, value):
        _renew(x, with_part(x, parsed.entries, parsed.shape, value))
        return
    else:
        new = new._live()
    _replace(x, overlay_for(x._live(), touched, new, _NAME))
    x._weak_type = False


def _renew(x: Handle, new: Handle) -> None:
    new = _check_concrete(new)
    data = x._held()
    new_data = Data(new._live(), data.runtime, _exported_buffers(data))
    if new._sharding == x._sharding:
        x._data = new_data
    else:
        _renew_elsewhere(x, new_data, new._sharding)
    x._weak_type = False


def _check_concrete(value: Any) -> Any:
    """Return the assigned value; a Variable gives its value.

    Raises:
      TracedValueError: the value is traced.
    """
    if is_traced(value):
        value = getattr(value, "raw_value", value)
        if is_traced(value):
            raise value._outside_assignment_error()
    return value


def _renew_elsewhere(x: Handle, new_data: Data, sharding: Sharding) -> None:
    """Give an array data in another sharding; an interrupt leaves the array unchanged.

    While the array is detached, no function is called, so no interrupt can occur.
    """
    data = x._held()
    detached = Detached(data.runtime.backend.new_lock(), data)
    with detached.lock:
        x._data = detached
        x._sharding, x._committed = sharding, True
        if x._data is detached:  # the array was not deleted meanwhile
            x._data = new_data


def _touched_blocks(data: Data, parsed: ParsedIndex) -> Touched:
    """Return the blocks that an index touches."""
    buffer, plans = data.buffer, data.runtime.plans
    key = ("at", buffer.tiling, buffer.dtype.itemsize, parsed)
    return plans.get_or_make(key, lambda: touched_by(buffer, index_piece(parsed.entries)))


def _replace(x: Handle, overlay: Overlay) -> None:
    """Give an array the values of an overlay."""
    if not overlay.touched.blocks:
        return
    if not _try_in_place(x, overlay.touched, lambda b: rewrite(b, overlay, _NAME, in_place=True)):
        data = x._held()
        buffer = rewrite(data.buffer, overlay, _NAME)
        if data.runtime.settings.enable_checks:
            buffer.check()
        x._data = Data(buffer, data.runtime, _exported_buffers(data))


class _Probe:
    """Reads in `__setitem__` the reference count of an object that one variable holds."""

    def __setitem__(self, index: None, value: list[int]) -> None:
        value.append(sys.getrefcount(self))


def _count_in_variable() -> int:
    probe, counts = _Probe(), list[int]()
    probe[None] = counts
    return counts[0]


_IN_VARIABLE = _count_in_variable()
"""The reference count of an array in `__setitem__` if only one variable refers to it."""


def _forget_exports(data: Data | Turned | Detached | None) -> None:
    """Drop memory with exported addresses, since no consumer holds the array."""
    if COUNTS_ARE_EXACT and isinstance(data, Data):
        data.exported, data.buffer.lent = (), None


def _exported_buffers(data: Data) -> tuple[ShardedBuffer, ...]:
    """Return the exported buffers, which must live as long as the array."""
    return data.exported if data.buffer.lent is None else (*data.exported, data.buffer)


def _try_in_place(
    x: Handle, touched: Touched, write: Callable[[ShardedBuffer], object], *, at_once: bool = False
) -> bool:
    """Write an array's blocks if nothing else refers to them, and return whether it did.

    Args:
      x: the array.
      touched: the blocks.
      write: writes the blocks.
      at_once: whether `write` runs on this thread without waiting.
    """
    data = x._held()
    detached = Detached(data.runtime.backend.new_lock(), data)
    del data  # this reference must not count
    with detached.lock:
        try:
            x._data = detached
            alone = _is_alone(detached, touched, at_once)
        except BaseException:
            x._data = detached.data
            raise
        if alone:
            try:
                write(detached.data.buffer)
            except BaseException as error:
                detached.torn = not isinstance(error, BEFORE_WRITING)
                if not detached.torn and x._data is detached:
                    x._data = detached.data
                raise
        if x._data is detached:  # the array was not deleted meanwhile
            x._data = detached.data
    return alone


def _is_alone(detached: Detached, touched: Touched, at_once: bool) -> bool:
    """Test whether blocks may be written in place; drops values that are only cached."""
    if sys.getrefcount(detached.data) != ALONE:  # another thread is about to read
        return False
    data = detached.data
    if at_once and not (data.runtime.backend.host_readable and is_idle(data.buffer, touched.homes)):
        return False
    if data.shards is not None:
        if sys.getrefcount(data.shards) != ALONE:
            return False
        if any([sys.getrefcount(shard.data) != ALONE for shard in data.shards.arrays.values()]):
            return False
    data.host = data.shards = data.furthest = None
    return owns_alone(data, touched)
