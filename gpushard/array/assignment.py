"""`x[index] = value`: into x's own memory where nobody else can see that, else into new blocks.

What comes from outside is checked and converted first, so that whatever is refused leaves the array
as it was. Then the array's data are detached: other threads that want them wait. If nobody else
holds the blocks they are written, and attached again. An interrupt that strikes while they are
written leaves them detached, and every use of the array raises. Otherwise they are attached as they
were, and the new blocks, once they are made or submitted, take their place in one step.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from gpushard.array.data import Data, Detached, Turned
from gpushard.array.guards import HOST_TO_DEVICE, check_transfer
from gpushard.array.views import assigned
from gpushard.functions import indexing, updating
from gpushard.functions.host_values import as_element
from gpushard.functions.indexing import ParsedIndex, parse
from gpushard.functions.updating import Indexer, as_new_part, follows, part_updated, with_part
from gpushard.functions.values import method
from gpushard.geometry.sharding import Sharding
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.execute import BEFORE_WRITING, is_idle
from gpushard.movement.ownership import ALONE, COUNTS_ARE_EXACT, owns_alone
from gpushard.movement.planning.update import Touched
from gpushard.movement.update import Overlay, copy_now, fill_now, rewrite, touched_by
from gpushard.ops.indexing import index_piece
from gpushard.ops.programs.move import overlay_for

if TYPE_CHECKING:
    from gpushard.array.array import ConcreteArray

_NAME = "x[index] = value"


class Assignable:
    """What changes a part of an array."""

    __slots__ = ()

    def __setitem__(self, index: Any, value: Any) -> None:
        """Give this array the value that it has with a part replaced, as NumPy does.

        Other arrays, and whatever else shares memory with this one, keep their value. Where nothing
        does, the part is written in place. Two threads that assign to one array at once need a lock
        of their own: each sees a whole value, but what one of them writes may be lost. An array
        whose devices nobody chose goes to where chosen indices and values with dims lie.

        Args:
          index: as NumPy takes it; with arrays in it the array gets a new block of memory. `x[mask]
            = value` moves nothing where the value is the same for all that the mask selects.
          value: a number, an array of gpushard, or what `numpy.asarray` takes; it is broadcast to
            the part, and converted to the dtype as NumPy does. Of several values for one element
            the last one stays.

        Raises:
          ArrayIndexError: too many entries, or a position out of bounds.
          ArgumentError: the value cannot be broadcast to the part.
          ArgumentTypeError: the value cannot be converted.
          ArgumentRangeError: a Python integer does not fit into the dtype.
          DeletedArrayError: this array, or the value, was deleted.
          OutOfMemoryError: a device has no room for new blocks.
        """
        if ShardedBuffer.ever_lent and sys.getrefcount(self) == _IN_VARIABLE:
            _forget_exports(cast("ConcreteArray", self)._data)
        x = cast("ConcreteArray", self)
        if (x._view is None and x._origin is None) or not _assigned_as_view(x, index, value):
            _assign(x, *parse(x._shape, index), value)

    @property
    def at(self) -> Indexer[Self]:
        """`x.at[index].set(value)`: a new array with a part replaced; `x` stays as it is."""
        return Indexer(self)

    def fill(self, value: Any) -> None:
        """Replace all elements by a number: `x[...] = value`.

        Args:
          value: the number.
        """
        self[...] = value

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Replace elements, numbered in row-major order: `x.ravel()[indices] = values`.

        Args:
          indices: their numbers.
          values: the new elements; from the first again where they are too few.
          mode: as for `take`.

        Raises:
          ArrayIndexError: a position is out of bounds.
        """
        updating.put(self, indices, values, mode)

    def _renew(self, new: ConcreteArray) -> None:
        """Take the value of another array, and its layout if this one follows others."""
        x = cast("ConcreteArray", self)
        if (x._view is None and x._origin is None) or not _assigned_as_view(x, ..., new):
            _renew(x, new)

    take = method(indexing.take)
    nonzero = method(indexing.nonzero)
    choose = method(indexing.choose)

    def compress(
        self,
        condition: Any,
        axis: int | None = None,
        out: Any = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return those slices along a dim for which a condition holds.

        Args:
          condition: a vector, which may be shorter than the dim.
          axis: which dim; by default all elements in row-major order.
          out: must be None; results are values.
          out_sharding: how the result is laid out; by default as it comes.

        Raises:
          ArgumentError: the condition has other than one dim.
          ArrayIndexError: it holds beyond the end of the dim.
        """
        return indexing.compress(condition, self, axis, out, out_sharding=out_sharding)


def _assigned_as_view(x: ConcreteArray, index: Any, value: Any) -> bool:
    """Assign to all that NumPy would have as views of one array, and say whether that was done."""
    values = assigned(x, index, value)
    for array, new in values:
        _renew(array, new)
    return bool(values)


def _assign(x: ConcreteArray, parsed: ParsedIndex, arrays: Sequence[Any], value: Any) -> None:
    if arrays:
        value = part_updated(x, parsed, arrays, value)
        if parsed.everything:
            _renew(x, value)
            return
    touched = _touched(x._held(), parsed)
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


def _renew(x: ConcreteArray, new: ConcreteArray) -> None:
    data = x._held()
    made = Data(new._live(), data.runtime, _exported(data))
    if new.sharding == x.sharding:
        x._data = made
    else:
        _renew_elsewhere(x, made, new.sharding)
    x._weak_type = False


def _renew_elsewhere(x: ConcreteArray, made: Data, sharding: Sharding) -> None:
    """Give an array data in another sharding; an interrupt leaves it as it was.

    Nothing is called, and so nothing interrupted, as long as the array is detached.
    """
    data = x._held()
    detached = Detached(data.runtime.backend.new_lock(), data)
    with detached.lock:
        x._data = detached
        x._sharding, x._committed = sharding, True
        if x._data is detached:  # nobody has deleted the array meanwhile
            x._data = made


def _touched(data: Data, parsed: ParsedIndex) -> Touched:
    """Return which blocks an index touches."""
    buffer, plans = data.buffer, data.runtime.plans
    key = ("at", buffer.tiling, buffer.dtype.itemsize, parsed)
    found: Touched | None = plans.get(key)
    if found is None:
        found = touched_by(buffer, index_piece(parsed.entries))
        plans.put(key, found, found.nbytes)
    return found


def _replace(x: ConcreteArray, overlay: Overlay) -> None:
    """Give an array a new value."""
    if not overlay.touched.blocks:
        return
    if not _try_in_place(x, overlay.touched, lambda b: rewrite(b, overlay, _NAME, in_place=True)):
        data = x._held()
        buffer = rewrite(data.buffer, overlay, _NAME)
        if data.runtime.settings.enable_checks:
            buffer.check()
        x._data = Data(buffer, data.runtime, _exported(data))


class _Probe:
    """Says what `sys.getrefcount` finds of what one variable holds, in `__setitem__`."""

    def __setitem__(self, index: None, value: list[int]) -> None:
        value.append(sys.getrefcount(self))


def _count_in_variable() -> int:
    probe, found = _Probe(), list[int]()
    probe[None] = found
    return found[0]


_IN_VARIABLE = _count_in_variable()
"""References to an array that is assigned to and that nobody has but one variable."""


def _forget_exports(data: Data | Turned | Detached | None) -> None:
    """Let go of memory whose address was handed out, as nobody keeps the array for its sake."""
    if COUNTS_ARE_EXACT and isinstance(data, Data):
        data.exported, data.buffer.lent = (), None


def _exported(data: Data) -> tuple[ShardedBuffer, ...]:
    """Return the buffers that have to live as long as an array that gets another one."""
    return data.exported if data.buffer.lent is None else (*data.exported, data.buffer)


def _try_in_place(
    x: ConcreteArray,
    touched: Touched,
    write: Callable[[ShardedBuffer], object],
    *,
    at_once: bool = False,
) -> bool:
    """Write an array's blocks if nobody else can see them, and say whether that was so.

    Args:
      x: the array.
      touched: the blocks.
      write: writes them.
      at_once: whether this very thread does so, without a wait for anything.
    """
    data = x._held()
    detached = Detached(data.runtime.backend.new_lock(), data)
    del data  # or it would count as somebody else's
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
        if x._data is detached:  # nobody has deleted the array meanwhile
            x._data = detached.data
    return alone


def _is_alone(detached: Detached, touched: Touched, at_once: bool) -> bool:
    """Whether blocks may be written; lets go of what was only kept for reading them again."""
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
    data.host = data.shards = None
    return owns_alone(data, touched)
