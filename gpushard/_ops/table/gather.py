"""Read by index arrays: `x[i]`, `take`, `take_along_axis`.

If indexed dims are split, neither the array nor the result is gathered. Within a memory domain,
every block of the result takes its elements from the blocks that own them. Between domains, every
block gives the elements that lie in it, and the merge takes the one that has the element.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.index_arrays import (
    Indexed,
    gather_rule,
    has_many,
    in_order,
    integers,
    located,
    part_shape,
    spread,
    stacked,
)
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.owners import FromOwners, Owners
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Kernel, Params, Row, Site, Stack, State
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard._runtime.namespace import own_kernels
from gpushard._typing import LocalArray, LocalArrays, Shape

SMALL = 64 << 10
"""Blocks of at most this many bytes, or of at most twice the bytes of the result, are concatenated,
which is cheaper than sorting positions."""

JOINED = 8
"""If the rows of all blocks have at most this many times the elements taken from each row, the rows
are concatenated. That is cheaper than reordering elements taken by owner."""

PIECE = 1 << 20
"""Bytes to take by owner at once, so they are still in cache when they move to their places."""

_Collect = Callable[[Owners, LocalArrays, LocalArrays, LocalArray], None]
"""Takes the owners, the blocks in row-major order, the index arrays, and the output for elements in
bounds."""


def _shapes(avals: Sequence[Aval]) -> tuple[Shape, ...]:
    return tuple(aval.shape for aval in avals[1:])


def _infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    x = avals[0]
    return (Aval(part_shape(params[0], x.shape, _shapes(avals)), x.dtype, x.weak),)


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    return gather_rule(params[0], avals[0].shape, _shapes(avals))


@dataclass(frozen=True, eq=False)
class _Reading:
    """Reads an array by index arrays, with NumPy or CuPy."""

    xp: Any
    indexed: Indexed
    sizes: tuple[int, ...]  # lengths of the indexed dims of the whole array

    def starts(self, site: Site) -> list[int]:
        """Return the start of a block along the indexed dims."""
        return [site.operands[0][axis] for axis in self.indexed.axes]

    def take(self, x: LocalArray, positions: LocalArrays) -> Any:
        """Select elements at positions in bounds, as a new row-major array."""
        view, index = self.indexed.view(self.xp, x, positions)
        elements = view[index]
        scalar = all(at.ndim == 0 for at in positions) and not self.indexed.paired
        return elements.copy() if scalar else self.xp.ascontiguousarray(elements)

    def select_in_block(
        self, starts: Sequence[int], block: LocalArray, positions: LocalArrays
    ) -> tuple[LocalArray, LocalArray]:
        """Select the elements in a block, and return whether each is in it; both broadcast."""
        xp, indexed = self.xp, self.indexed
        places, inside = [], xp.ones((), bool)
        for axis, at, size, start in zip(indexed.axes, positions, self.sizes, starts, strict=True):
            place, is_inside = located(xp, at, size, start, block.shape[axis])
            places.append(place)
            inside = inside & is_inside
        values = self.take(block, places)
        return values, inside.reshape(inside.shape + (1,) * indexed.after)

    def look_up(self, site: Site, x: LocalArray, *positions: LocalArray) -> tuple[Any, Any]:
        """Select the elements in a block, and return whether each is in it, as new arrays."""
        xp = self.xp
        if 0 in (x.shape[axis] for axis in self.indexed.axes):
            return xp.zeros(site.shape, x.dtype), xp.zeros(site.shape, bool)
        values, inside = self.select_in_block(self.starts(site), x, positions)
        return values, xp.broadcast_to(inside, values.shape).copy()

    def take_own(
        self,
        starts: Sequence[int],
        block: LocalArray,
        positions: LocalArrays,
        out: LocalArray,
        **what: Any,
    ) -> None:
        """Take the elements in a block by a kernel of the backend."""
        indexed, kernels = self.indexed, own_kernels(self.xp)
        wide = spread(indexed, block.shape, tuple(at.shape for at in positions))
        view, steps = indexed.first_of(self.xp, block, wide)
        dims = [
            kernels.Along(size, start, block.shape[axis], step)
            for axis, size, start, step in zip(indexed.axes, self.sizes, starts, steps, strict=True)
        ]
        after = (1,) * indexed.after
        places = [integers(at) for at in positions]
        places = [at.reshape(at.shape + after) if at.ndim else at for at in places]
        kernels.take(view, places, dims, out, **what)


def _reading(xp: Any, avals: Sequence[Aval], params: Params) -> _Reading:
    indexed = params[0]
    return _Reading(xp, indexed, tuple(avals[0].shape[axis] for axis in indexed.axes))


def _local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    reading = _reading(xp, avals, params)
    if own_kernels(xp) is None:
        return writing(reading.look_up)

    def look_up(site: Site, x: LocalArray, *positions: LocalArray, out: Any) -> Any:
        values, is_here = out
        reading.take_own(reading.starts(site), x, positions, values, inside=is_here)
        return out

    return look_up


def _join(avals: Sequence[Aval], params: Params) -> Kernel | None:
    """Make the kernel that copies blocks together once, if many elements are taken from them."""
    x, indexed = avals[0], params[0]
    is_small = math.prod(x.shape) * x.dtype.itemsize <= SMALL
    if is_small or not has_many(indexed, x.shape, x.dtype.itemsize, _shapes(avals)):
        return None
    sizes = [x.shape[axis] for axis in indexed.axes]
    return functools.partial(_concat_blocks, indexed, sizes)


def _pair_dims_in_front(
    params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
) -> Stack:
    """Take all elements at once: dims of the array are paired with those of index arrays."""
    if not any(dims[1:]):
        return Stack(params, (None,) * len(dims))
    both = bool(dims[0])
    indexed, count = stacked(params[0], shapes[0], shapes[1:], lead if both else 0)
    between = [count - len(shape) for shape in shapes[1:]]
    return Stack((indexed, *params[1:]), (0 if both else None, *between))


def _fill(params: Params, dtype: Dtype) -> Any:
    return np.frombuffer(params[1], dtype)[0] if params[1] else dtype.type(0)


def _kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    """Make the kernel of indexing in one block; positions out of bounds get the fill value."""
    reading, indexed = _reading(xp, avals, params), params[0]
    fill = _fill(params, avals[0].dtype)
    if own_kernels(xp) is not None:
        return functools.partial(_take_whole, reading, None if indexed.inside else fill)
    if indexed.inside:
        along = indexed.along
        if xp is np and along is not None:
            return lambda site, x, at, out=None: x.take(at, along, out, "wrap")
        return writing(lambda site, x, *positions: reading.take(x, positions))

    def filled(site: Site, *operands: Any) -> Any:
        values, inside = reading.look_up(site, *operands)
        return xp.where(inside, values, fill)

    return writing(filled)


def _take_whole(
    reading: _Reading, fill: Any, site: Site, x: LocalArray, *positions: LocalArray, out: LocalArray
) -> LocalArray:
    reading.take_own((0,) * len(reading.sizes), x, positions, out, fill=fill)
    return out


def _owners(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    """Make the kernel that takes the elements of a block of the result from blocks of the array."""
    reading, indexed = _reading(xp, avals, params), params[0]
    fill = _fill(params, avals[0].dtype)
    kernels = own_kernels(xp)
    collect = (
        _by_owner(reading, len(avals[0].shape))
        if xp is np
        else functools.partial(_one_by_one, reading)
    )

    def gathered(owners: Owners, *arrays: LocalArray, out: Any = None) -> LocalArray:
        count = math.prod(owners.counts)
        blocks, positions = arrays[:count], arrays[count:]
        if owners.part:
            blocks = tuple([block[owners.part] for block in blocks])
        if out is None:
            out = xp.empty(owners.shape, blocks[0].dtype)
        if kernels is not None:
            rest = None if indexed.inside else fill
            for block, number in zip(blocks, np.ndindex(owners.counts), strict=True):
                starts = [of[n] for n, of in zip(number, owners.starts, strict=True)]
                reading.take_own(starts, block, positions, out, fill=rest)
                rest = None  # elements of other blocks stay unchanged
            return out
        if not indexed.inside:
            out[...] = fill
        if out.size:
            collect(owners, blocks, positions, out)
        return out

    return gathered


def _one_by_one(
    reading: _Reading, owners: Owners, blocks: LocalArrays, positions: LocalArrays, out: LocalArray
) -> None:
    """Search every block for all elements; nothing waits for the device."""
    for block, number in zip(blocks, np.ndindex(owners.counts), strict=True):
        starts = [of[n] for n, of in zip(number, owners.starts, strict=True)]
        values, inside = reading.select_in_block(starts, block, positions)
        reading.xp.copyto(out, values, where=inside)


def _by_owner(reading: _Reading, ndim: int) -> _Collect:
    """Make the function that sorts positions by block, and takes the elements of each block."""
    indexed, sizes = reading.indexed, reading.sizes
    along = indexed.along if indexed.inside else None
    before, dims, after = indexed.order(ndim)
    by_rows, lead = dims == list(range(len(dims))), (slice(None),) * len(before)

    def collect(
        owners: Owners, blocks: LocalArrays, positions: LocalArrays, out: LocalArray
    ) -> None:
        nbytes = owners.volume * out.itemsize
        if nbytes <= max(SMALL, 2 * out.nbytes):
            x = _concat_blocks(indexed, sizes, owners, *blocks)
            if along is not None:
                x.take(positions[0], along, out, "wrap")
            elif indexed.inside:
                out[...] = reading.take(x, positions)
            else:
                values, inside = reading.select_in_block((0,) * len(sizes), x, positions)
                np.copyto(out, values, where=inside)
            return
        if along is not None and before and nbytes <= JOINED * out.nbytes:
            _take_joined(out, len(before), positions[0], sizes[0], owners.starts[0], blocks)
            return
        wide = positions[0].shape
        if along is None:
            wide = spread(indexed, blocks[0].shape, tuple([at.shape for at in positions]))
        owner, at = _owner_of(indexed, sizes, owners, positions, wide)
        if len(at) > 1 or indexed.paired:
            of = dict(zip(indexed.axes, at, strict=True))
            of |= indexed.paired_positions(blocks[0].shape, wide)
            at = [of[dim - ndim] for dim in dims]
        part = out
        if len(wide) != 1:  # this is a view, since `out` is dense
            beyond = out.shape[len(lead) + len(wide) :]
            part = out.reshape(*out.shape[: len(lead)], len(owner), *beyond)
        dense = not owners.part  # shards are dense; `take` first copies other arrays
        if dense and by_rows:
            _take_rows(part, owner, at, blocks, owners.numbers)
            return
        order, stops = _by_number(owner, owners.numbers)
        if dense and along is not None:
            _take_along(part, len(before), order, at[0], blocks, stops)
            return
        for block, begin, end in zip(blocks, [0, *stops], stops, strict=False):
            mine = slice(begin, end) if order is None else order[begin:end]
            view = block.transpose((*before, *dims, *after))
            part[(*lead, mine)] = view[(*lead, *(places[mine] for places in at))]

    return collect


def _by_number(owner: LocalArray, numbers: LocalArray) -> tuple[LocalArray | None, list[int]]:
    """Return the order of elements by block, and the end of each block in that order.

    The order is None if elements are already in order: ascending positions, as from a mask.
    """
    order = None
    if not np.logical_and.reduce(owner[1:] >= owner[:-1]):
        order = owner.argsort(kind="stable")
        owner = owner[order]
    return order, owner.searchsorted(numbers, "right").tolist()


def _back(order: LocalArray) -> LocalArray:
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return back


def _take_rows(
    part: LocalArray, owner: LocalArray, at: LocalArrays, blocks: LocalArrays, numbers: LocalArray
) -> None:
    """Take along the first dims, piece by piece."""
    count = len(owner)
    most = -(-count // (part.nbytes // PIECE + 1)) or 1
    by_owner = None
    for start in range(0, count, most):
        piece = slice(start, start + most)
        order, ends = _by_number(owner[piece], numbers)
        target = to = part[piece]
        places = [of[piece] for of in at]
        if order is not None:
            if by_owner is None:
                by_owner = np.empty((most, *part.shape[1:]), part.dtype)
            target, places = by_owner[: len(order)], [of[order] for of in places]
        begin = 0
        for block, end in zip(blocks, ends, strict=True):
            if begin < end:
                here = places[0][begin:end]
                if len(at) > 1:
                    for others, size in zip(places[1:], block.shape[1:], strict=False):
                        here = here * size + others[begin:end]
                    block = block.reshape(-1, *part.shape[1:])
                block.take(here, 0, target[begin:end], "clip")
                begin = end
        if order is not None and begin == len(order) and part.ndim > 1:
            target.take(_back(order), 0, to, "clip")
        elif order is not None:  # putting single elements in place is cheaper than taking them
            to[order[:begin]] = target[:begin]


def _take_joined(
    out: LocalArray, dim: int, at: LocalArray, size: int, starts: Sequence[int], blocks: LocalArrays
) -> None:
    """Take along a later dim, from a few rows of all blocks at a time."""
    lead, after = blocks[0].shape[:dim], blocks[0].shape[dim + 1 :]
    count, width = math.prod(lead), math.prod(after)
    part = out.reshape(count, at.size, width)
    rows = [block.reshape(count, block.shape[dim], width) for block in blocks]
    most = min(count, max(1, PIECE // (size * width * out.itemsize)))
    joined = np.empty((most, size, width), out.dtype)
    for begin in range(0, count, most):
        few = slice(begin, min(begin + most, count))
        whole = joined[: few.stop - begin]
        for start, block in zip(starts, rows, strict=True):
            whole[:, start : start + block.shape[1]] = block[few]
        whole.take(at.ravel(), 1, part[few], "wrap")


def _take_along(
    part: LocalArray,
    dim: int,
    order: LocalArray | None,
    places: LocalArray,
    blocks: LocalArrays,
    ends: Sequence[int],
) -> None:
    """Take along a later dim by owner, and then reorder everything at once.

    Each owner's block has the places in `order` up to its end; None means already in order.
    """
    lead, after = math.prod(part.shape[:dim]), math.prod(part.shape[dim + 1 :])
    rows = part.reshape(lead, len(places), after)
    back = None
    if order is not None:
        back, places = _back(order), places[order]
    both = [
        (block.reshape(lead, block.shape[dim], after), places[begin:end])
        for block, begin, end in zip(blocks, [0, *ends], ends, strict=False)
    ]
    most = max(1, PIECE * lead // max(1, part.nbytes))
    for start in range(0, lead, most):
        few = slice(start, min(start + most, lead))
        by_owner = [block[few].take(at, 1, None, "clip") for block, at in both]
        if back is None:
            np.concatenate(by_owner, 1, rows[few])
        else:
            np.concatenate(by_owner, 1).take(back, 1, rows[few], "clip")


def _concat_blocks(
    indexed: Indexed, sizes: Sequence[int], owners: Owners, *blocks: LocalArray, out: Any = None
) -> LocalArray:
    """Concatenate blocks to an array that is whole along the indexed dims."""
    if out is None:
        shape = list(blocks[0].shape)
        for axis, size in zip(indexed.axes, sizes, strict=True):
            shape[axis] = size
        out = np.empty(shape, blocks[0].dtype)
    index = [slice(None)] * out.ndim
    for block, number in zip(blocks, np.ndindex(owners.counts), strict=True):
        for axis, n, starts in zip(indexed.axes, number, owners.starts, strict=True):
            index[axis] = slice(starts[n], starts[n] + block.shape[axis])
        out[tuple(index)] = block
    return out


def _owner_of(
    indexed: Indexed, sizes: Sequence[int], owners: Owners, positions: LocalArrays, wide: Shape
) -> tuple[LocalArray, list[LocalArray]]:
    """Return the number of the block of each element, and the positions in that block.

    Positions out of bounds get the number after the last block.
    """
    nobody = math.prod(owners.counts)
    owner: Any = None
    local = []
    outside: Any = None
    for axis, (at, size, count) in enumerate(zip(positions, sizes, owners.counts, strict=True)):
        at = in_order(at, wide, size, known=indexed.inside)
        if not indexed.inside:
            outside = at >= size if outside is None else outside | (at >= size)
        number, place = owners.find(axis, at, size)
        owner = number if owner is None else owner * count + number
        local.append(place)
    if outside is not None:
        owner = np.where(outside, nobody, owner)
    return owner.astype(owners.numbers.dtype), local


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
    (
        FromOwners(_owners, Reduce(_states, _local, _merge, _finish), _join),
        FromOwners(_owners, Local(), _join),
    ),
    positional=True,
    stacked=_pair_dims_in_front,
    beside_keys=frozenset(range(1, 64)),
)
"""Operands: the array, then index arrays. Parameters: (`Indexed`, bytes of the fill value for
positions out of bounds, empty for zero)."""
