"""Reading by index arrays: `x[i]`, `take`, `take_along_axis`.

Neither the array nor the result is gathered where indexed dims are split. Within a memory domain
every block of the result takes its elements from the blocks that own them. Between domains every
block gives the elements that lie in it, and the merge takes whichever was found.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.indexed import Indexed, gather_rule, in_order, located, part_shape, spread
from gpushard.ops.owners import Owners
from gpushard.ops.row import Kernel, Params, Reduction, Row, Site, State
from gpushard.ops.rule import Rule
from gpushard.ops.table.elementwise import writing
from gpushard.runtime.host.views import address, items_from
from gpushard.typing import LocalArray, Shape

_FAR = 1 << 40
"""Elements of the memory that blocks lie in: more than there are."""


def _shapes(avals: Sequence[Aval]) -> tuple[Shape, ...]:
    return tuple(aval.shape for aval in avals[1:])


def _infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    x = avals[0]
    return (Aval(part_shape(params[0], x.shape, _shapes(avals)), x.dtype, x.weak),)


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    return gather_rule(params[0], avals[0].shape, _shapes(avals))


def _taken(xp: Any, indexed: Indexed, x: LocalArray, positions: Sequence[LocalArray]) -> Any:
    """Return what positions that are in bounds select, as a fresh array in row-major order."""
    view, index = indexed.view(xp, x, positions)
    found = view[index]
    scalar = all(at.ndim == 0 for at in positions) and not indexed.paired
    return found.copy() if scalar else xp.ascontiguousarray(found)


def _in_block(
    xp: Any,
    indexed: Indexed,
    sizes: Sequence[int],
    starts: Sequence[int],
    block: LocalArray,
    positions: Sequence[LocalArray],
) -> tuple[LocalArray, LocalArray]:
    """Return the elements that lie in a block, and which they are; both broadcast.

    Args:
      xp: NumPy or CuPy.
      indexed: how the array is indexed.
      sizes: lengths of the indexed dims of the whole array.
      starts: where the block starts in them.
      block: which has elements.
      positions: the index arrays.
    """
    places, inside = [], xp.ones((), bool)
    for axis, at, size, start in zip(indexed.axes, positions, sizes, starts, strict=True):
        place, there = located(xp, at, size, start, block.shape[axis])
        places.append(place)
        inside = inside & there
    values = _taken(xp, indexed, block, places)
    return values, inside.reshape(inside.shape + (1,) * indexed.after)


def _found(
    xp: Any, avals: Sequence[Aval], params: Params
) -> Callable[..., tuple[LocalArray, LocalArray]]:
    """Return what gives the elements that lie in a block, and which they are."""
    indexed, _ = params
    sizes = [avals[0].shape[axis] for axis in indexed.axes]

    def found(site: Site, x: LocalArray, *positions: LocalArray) -> tuple[Any, Any]:
        if 0 in (x.shape[axis] for axis in indexed.axes):
            return xp.zeros(site.shape, x.dtype), xp.zeros(site.shape, bool)
        starts = [site.operands[0][axis] for axis in indexed.axes]
        values, inside = _in_block(xp, indexed, sizes, starts, x, positions)
        return values, xp.broadcast_to(inside, values.shape).copy()

    return found


def _local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    return writing(_found(xp, avals, params))


def _fill(params: Params, dtype: Dtype) -> Any:
    return np.frombuffer(params[1], dtype)[0] if params[1] else dtype.type(0)


def _kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    """Return plain indexing, where everything is in bounds; what is not gets the fill value."""
    indexed, _ = params
    if indexed.inside:
        along = indexed.along
        if xp is np and along is not None:
            return lambda site, x, at, out=None: x.take(at, along, out, "wrap")
        return writing(lambda site, x, *positions: _taken(xp, indexed, x, positions))
    found, fill = _found(xp, avals, params), _fill(params, avals[0].dtype)

    def filled(site: Site, *operands: Any) -> Any:
        values, inside = found(site, *operands)
        return xp.where(inside, values, fill)

    return writing(filled)


def _owners(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    """Return what takes the elements of a block of the result from blocks of the array."""
    indexed, _ = params
    sizes = [avals[0].shape[axis] for axis in indexed.axes]
    fill = _fill(params, avals[0].dtype)
    collect = _by_owner if xp is np else _one_by_one

    def gathered(owners: Owners, *arrays: LocalArray, out: Any = None) -> LocalArray:
        count = math.prod(owners.counts)
        blocks, positions = [block[owners.part] for block in arrays[:count]], arrays[count:]
        if out is None:
            shapes = tuple(at.shape for at in positions)
            out = xp.empty(part_shape(indexed, blocks[0].shape, shapes), blocks[0].dtype)
        if not indexed.inside:
            out[...] = fill
        if out.size:
            collect(xp, indexed, sizes, owners, blocks, positions, out)
        return out

    return gathered


def _one_by_one(
    xp: Any,
    indexed: Indexed,
    sizes: Sequence[int],
    owners: Owners,
    blocks: Sequence[LocalArray],
    positions: Sequence[LocalArray],
    out: LocalArray,
) -> None:
    """Look into every block for everything; nothing waits for the device.

    Args:
      xp: NumPy or CuPy.
      indexed: how the array is indexed.
      sizes: lengths of the indexed dims of the whole array.
      owners: how the blocks lie.
      blocks: they, in row-major order.
      positions: the index arrays.
      out: gets what is in bounds.
    """
    for block, number in zip(blocks, np.ndindex(owners.counts), strict=True):
        starts = [of[n] for n, of in zip(number, owners.starts, strict=True)]
        values, inside = _in_block(xp, indexed, sizes, starts, block, positions)
        xp.copyto(out, values, where=inside)


def _by_owner(
    xp: Any,
    indexed: Indexed,
    sizes: Sequence[int],
    owners: Owners,
    blocks: Sequence[LocalArray],
    positions: Sequence[LocalArray],
    out: LocalArray,
) -> None:
    """Take everything at once from all the memory in which the blocks lie; as `_one_by_one`.

    An element lies so far from the first byte of the lowest block as that of its owner does, plus
    what its positions say. Of the memory between blocks nothing is read.
    """
    shape, strides, item = blocks[0].shape, blocks[0].strides, out.itemsize
    before, _, after = indexed.order(len(shape))
    row = item
    for dim in reversed(after):
        row = row * shape[dim] if strides[dim] == row or shape[dim] == 1 else 0
    if not row or any([block.strides != strides for block in blocks]):
        _one_by_one(xp, indexed, sizes, owners, blocks, positions, out)
        return
    wide = spread(indexed, shape, tuple([at.shape for at in positions]))
    flat, owner, outside = _owner_of(indexed, sizes, owners, positions, wide)
    steps = [strides[axis] // item for axis in indexed.axes]
    lowest, begins = _begins(owners, blocks, steps)
    offset = begins[owner]
    for at, step in zip(flat, steps, strict=True):
        offset += at * step if step != 1 else at
    for dim, at in indexed.paired_positions(shape, wide).items():
        offset += at * (strides[dim] // item)
    lead = tuple([shape[dim] for dim in before])
    rows = items_from(lowest, (*lead, _FAR), (*[strides[dim] for dim in before], item), row)
    part = out.reshape(-1).view(rows.dtype).reshape(*lead, len(offset))  # views: `out` is dense
    if outside is None:
        part[...] = rows[..., offset] if lead else rows[offset]
    else:
        offset[outside] = 0
        np.copyto(part, rows[..., offset], where=~outside)


def _begins(
    owners: Owners, blocks: Sequence[LocalArray], steps: Sequence[int]
) -> tuple[LocalArray, LocalArray]:
    """Return the lowest block, and how far from it every block would have all positions 0."""
    places = [address(block) for block in blocks]
    lowest, item = min(places), blocks[0].itemsize
    begins = [
        (place - lowest) // item - sum(map(operator.mul, start, steps))
        for place, start in zip(places, itertools.product(*owners.starts), strict=True)
    ]
    return blocks[places.index(lowest)], np.array(begins)


def _owner_of(
    indexed: Indexed,
    sizes: Sequence[int],
    owners: Owners,
    positions: Sequence[LocalArray],
    wide: Shape,
) -> tuple[list[LocalArray], LocalArray, LocalArray | None]:
    """Return positions from the front, the number of the block that has each, what is outside."""
    owner: Any = 0
    flat = []
    outside: Any = None
    for axis, (at, size, count) in enumerate(zip(positions, sizes, owners.counts, strict=True)):
        at = in_order(at, wide, size, known=indexed.inside)
        if not indexed.inside:
            beyond = at >= size
            outside = beyond if outside is None else outside | beyond
            at = np.where(beyond, 0, at)
        number = owners.find(axis, at)
        owner = number if axis == 0 else owner * count + number
        flat.append(at)
    return flat, owner, outside


def _merge(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    def merge(a: State, b: State, m: int, n: int) -> State:
        return xp.where(b[1], b[0], a[0]), a[1] | b[1]

    return merge


def _finish(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    fill = _fill(params, avals[0].dtype)
    return lambda state, n: xp.where(state[1], state[0], fill)


def _states(avals: Sequence[Aval], params: Params) -> tuple[Dtype, ...]:
    return avals[0].dtype, np.dtype(bool)


GATHER = Row(
    "indexing",
    _infer,
    _rule,
    _kernel,
    Reduction(_states, _local, _merge, _finish),
    _owners,
    positional=True,
)
"""Operands: the array, then index arrays. Parameters: (`Indexed`, bytes of what positions out of
bounds give, zero if there are none)."""
