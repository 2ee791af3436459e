"""`x[index] = value`: into x's own memory where nobody else can see that, else into new blocks.

What comes from outside is checked and converted first, so that whatever is refused leaves the array
as it was. Then the array's data are detached: other threads that want them wait. If nobody else
holds the blocks they are written, and attached again. An interrupt that strikes while they are
written leaves them detached, and every use of the array raises. Otherwise they are attached as they
were, and the new blocks, once they are made or submitted, take their place in one step.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gpushard.array.at import Indexer
from gpushard.array.data import Data, Detached, Turned
from gpushard.array.guards import HOST_TO_DEVICE, check_transfer
from gpushard.array.shard import Shards
from gpushard.array.updating import converted, follows, updated
from gpushard.array.views import assigned
from gpushard.errors import ArgumentError
from gpushard.functions.host_values import as_element, as_part
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P
from gpushard.geometry.sharding import Sharding, SingleDeviceSharding
from gpushard.movement.blocks import box_of
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.fill import copy_now, fill_now, overlay_of_element, overlay_of_single
from gpushard.movement.host_copies import from_host
from gpushard.movement.ownership import ALONE, COUNTS_ARE_EXACT, owns_alone
from gpushard.movement.rewrite import Overlay, is_by_host, is_idle, rewrite
from gpushard.movement.touched import Touched
from gpushard.movement.update import overlay_of, touched_by
from gpushard.ops.bind import bind
from gpushard.ops.indexing import NotBasicError, index_key, index_piece, parse_index
from gpushard.ops.table.movement import BROADCAST_TO, RESHAPE
from gpushard.typing import HostArray, Index, Shape

if TYPE_CHECKING:
    from gpushard.array.array import Array

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
            _forget_exports(cast("Array", self)._data)
        x = cast("Array", self)
        if not _assigned_as_view(x, index, value):
            _assign(x, index, value)

    @property
    def at(self) -> Indexer:
        """`x.at[index].set(value)`: a new array with a part replaced; `x` stays as it is."""
        return Indexer(cast("Array", self))


def _assigned_as_view(x: Array, index: Any, value: Any) -> bool:
    """Assign to all that NumPy would have as views of one array, and say whether that was done."""
    if x._view is None and x._origin is None:
        return False
    values = assigned(x, index, value)
    for array, new in values:
        _renew(array, new)
    return bool(values)


def _assign(x: Array, index: Any, value: Any) -> None:
    try:
        touched = _touched(x._held(), index)
    except NotBasicError:
        _assign_selected(x, index, value)
        return
    if isinstance(value, Shards):
        if follows(x, value):
            moved = x.to_device(_beside(x, index, cast("Array", value)))
            moved[index] = value
            _renew(x, moved)
            return
        part = _as_part(cast("Array", value), touched.piece.shape, x.dtype)
        _replace(x, _overlay(x._live(), touched, part))
    else:
        element = as_element(value, x.dtype)
        if element is None:
            data = as_part(value, touched.piece.shape, x.dtype)
            check_transfer(HOST_TO_DEVICE, _NAME, explicit=False)
            _assign_host(x, touched, data)
        else:
            _assign_number(x, touched, element)
    x._weak_type = False


def _assign_selected(x: Array, index: Any, value: Any) -> None:
    """Give an array a new value where an index with arrays in it selects elements."""
    part, new = updated(x, index, value)
    if part is not Ellipsis:
        _assign(x, part, new)
    else:
        _renew(x, new)


def renew(x: Array, new: Array) -> None:
    """Give an array a new value: that of another one, and its layout if `x` follows others."""
    if not _assigned_as_view(x, ..., new):
        _renew(x, new)


def _renew(x: Array, new: Array) -> None:
    data = x._held()
    made = Data(new._live(), data.runtime, _exported(data))
    if new.sharding == x.sharding:
        x._data = made
    else:
        _renew_elsewhere(x, made, new.sharding)
    x._weak_type = False


def _renew_elsewhere(x: Array, made: Data, sharding: Sharding) -> None:
    """Give an array data in another sharding; an interrupt leaves it as it was."""
    data, before = x._held(), (x._sharding, x._committed)
    detached = Detached(data.runtime.backend.new_lock(), data)
    with detached.lock:
        try:
            x._data = detached
            x._sharding, x._committed = sharding, True
            if x._data is detached:  # nobody has deleted the array meanwhile
                x._data = made
        except BaseException:
            x._sharding, x._committed = before
            x._data = data
            raise


def _beside(x: Array, index: Any, value: Array) -> Sharding:
    """Return where an array goes that follows a value: dims that it fills are split like its own.

    Args:
      x: the array.
      index: of the part that gets the value, a basic one.
      value: the value.
    """
    own = value.sharding
    if isinstance(own, SingleDeviceSharding):
        return own
    if not isinstance(own, NamedSharding):
        own = NamedSharding(Mesh(np.array(own.tiling(value.shape).devices), "devices"), P())
    entries = parse_index(x.shape, index)
    dim = value.ndim - sum(not isinstance(entry, int) for entry in entries)
    axes: list[tuple[str, ...]] = []
    for entry in entries:
        if isinstance(entry, tuple):
            fills = dim >= 0 and value.shape[dim] == entry[2]
            axes.append(own.spec.axes(dim) if fills else ())
        elif entry is not None:
            axes.append(())
        dim += not isinstance(entry, int)
    return own.with_spec(P(*(names or None for names in axes)))


def _assign_number(x: Array, touched: Touched, element: np.generic) -> None:
    """Fill a part: a small one that is idle without more ado."""
    if touched.written <= x._held().runtime.settings.inline_bytes and _try_in_place(
        x, touched, lambda base: fill_now(base, touched, element), at_once=True
    ):
        return
    _replace(x, overlay_of_element(x._live(), touched, element))


def _touched(data: Data, index: Any) -> Touched:
    """Return which blocks an index touches; known indices are neither parsed nor checked again."""
    buffer, plans = data.buffer, data.runtime.plans
    part = index_key(index)
    key = ("at", buffer.tiling, buffer.dtype.itemsize, part)
    found: Touched | None = None if part is None else plans.get(key)
    if found is None:
        found = touched_by(buffer, index_piece(parse_index(buffer.tiling.shape, index)))
        if part is not None:
            plans.put(key, found, found.nbytes)
    return found


def _as_part(value: Array, shape: Shape, dtype: np.dtype[Any]) -> ShardedBuffer:
    """Return an array's data as new values of a part: of its dtype, and of its shape or of size 1.

    Raises:
      ArgumentError: the shape cannot be broadcast.
      ArgumentTypeError: complex numbers would lose their imaginary part.
    """
    value._live()  # one that was deleted has a shape still
    own = value.shape
    more = max(len(own) - len(shape), 0)
    if set(own[:more]) - {1} or not _fits(own[more:], shape):
        raise ArgumentError(
            f"value has shape {own} and the part of the array {shape}: it cannot be broadcast",
            argument="value",
            shape=own,
            expected=shape,
        )
    value = converted(value, dtype)
    if own != shape and value.size != 1:
        if more:
            value = bind(RESHAPE, (value,), (own[more:],))
        value = bind(BROADCAST_TO, (value,), (shape,))
    return value._live()


def _fits(own: Shape, shape: Shape) -> bool:
    try:
        return np.broadcast_shapes(own, shape) == shape
    except ValueError:
        return False


def _overlay(base: ShardedBuffer, touched: Touched, part: ShardedBuffer) -> Overlay:
    if part.tiling.shape == touched.piece.shape or not touched.blocks:
        return overlay_of(base, part, touched.piece, _NAME)
    return overlay_of_single(base, touched, part, _NAME)


def _assign_host(x: Array, touched: Touched, data: HostArray) -> None:
    """Write host data straight into blocks that the host can use, else by way of the devices."""
    if _try_in_place(x, touched, lambda base: copy_now(base, touched, data), at_once=True):
        return
    if touched.part is not None:
        read = functools.partial(_box, data)
        value = from_host(x._held().runtime, touched.part, x.dtype, read)
        _replace(x, overlay_of(x._live(), value, touched.piece, _NAME))


def _box(data: HostArray, index: Index, shape: Shape) -> HostArray:
    return box_of(data, index)


def _replace(x: Array, overlay: Overlay) -> None:
    """Give an array a new value."""
    if not overlay.touched.blocks:
        return
    if is_by_host(x._live()):
        x._live().wait()
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
    x: Array, touched: Touched, write: Callable[[ShardedBuffer], object], *, at_once: bool = False
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
            except BaseException:
                detached.torn = True
                raise
        if x._data is detached:  # nobody has deleted the array meanwhile
            x._data = detached.data
    return alone


def _is_alone(detached: Detached, touched: Touched, at_once: bool) -> bool:
    """Whether blocks may be written; lets go of what was only kept for reading them again."""
    if sys.getrefcount(detached.data) != ALONE:  # another thread is about to read
        return False
    data = detached.data
    if at_once and not (data.runtime.backend.host_readable and is_idle(data.buffer, touched)):
        return False
    if data.shards is not None:
        if sys.getrefcount(data.shards) != ALONE:
            return False
        if any([sys.getrefcount(shard.data) != ALONE for shard in data.shards.arrays.values()]):
            return False
    data.host = data.shards = None
    return owns_alone(data, touched)
