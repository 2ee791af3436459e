"""Kernels of loop nests from NumPy's functions, tile by tile: what is between stays in cache.

Every value of a tile is an array with a dim for each loop, of length 1 where the value does not
vary; short loops come first, as slabs, so that the last dim is long.

The nest alone decides in which order sums add: pairwise in rows along the last dims, each row by
itself, and one after the other along dims in front. So results do not depend on how loops that are
not reduced are split.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gpushard._runtime.host.nests.block_kernels import kernel_of, scratch
from gpushard._runtime.host.ufuncs import host_ufunc
from gpushard._runtime.nests import LARGE, REDUCTIONS, SHORT, Load, Nest, Op, merged
from gpushard._typing import Dtype, Kernel, LocalArray, LocalArrays, Shape

_TILE = 1 << 18
"""Elements of a tile: some tiles together stay in a core's cache, and calls take longer than the
interpreter's lock is held between them."""


_ROW = 16
"""Elements of short dims from which on functions of NumPy go along them, and not across."""

_SMALL = 1 << 12
"""Elements of a block that is small."""


def tile_kernel(whole: Nest) -> Kernel:
    """Return the kernel of a nest."""
    nest, groups = merged(whole)
    loads, ndim = len(nest.loads), len(nest.sizes)
    order = _order(nest)
    axis = {loop: n for n, loop in enumerate(order)}
    slots, at_result = _homes(nest)
    cut = [loop for loop in order if loop not in nest.short and loop not in nest.inner]
    cut = cut or [loop for loop in order if loop in nest.short and not _needed(nest, loop)]
    widest = max((op.loops.union(op.reduced) for op in nest.ops), key=_elements(nest.sizes))
    places = range(loads, loads + len(nest.ops))
    targets = [f"t{place}" for place in places]
    adding = [_until_cut(op, cut) for op in nest.ops]
    run = _function(
        [*[f"x{n}" for n in range(loads)], *targets],
        *_lines(nest, [_kernel(op, axis, nest) for op in adding], targets),
    )
    cut_of = [tuple([x for x in cut if x in nest.loops(n)]) for n in range(places.stop)]
    ways = list(dict.fromkeys(cut_of))
    way = [ways.index(loops) for loops in cut_of]
    # Sums over loops that are cut: the first tile's are the result, and others' are added to it.
    # Along loops that a sum has nothing to do with they would be the same again.
    ends = {
        place: (
            [n for n, loop in enumerate(cut) if loop in op.reduced],
            [n for n, loop in enumerate(cut) if loop not in op.loops.union(op.reduced)],
            REDUCTIONS[op.name].combine,
        )
        for place, op in zip(places, nest.ops, strict=True)
        if set(cut).intersection(op.reduced)
    }
    slots.update({place: len(nest.ops) + n for n, place in enumerate(ends)})
    summed = {n for over, _, _ in ends.values() for n in over}
    sizes = [nest.sizes[loop] for loop in cut]
    steps = _steps(sizes, math.prod([nest.sizes[loop] for loop in widest if loop not in cut]), {})
    fixed = {n: steps[n] for n in summed}  # the same for all blocks, whatever they have of others

    def part(loops: Sequence[int], bounds: Sequence[tuple[int, int]]) -> tuple[Any, ...]:
        """Return what a tile needs of arrays that vary along some of the loops that are cut."""
        index = [slice(None)] * ndim
        for loop, (start, stop) in zip(cut, bounds, strict=True):
            if loop in loops:
                index[axis[loop]] = slice(start, stop)
        return (*index, ...)

    def kept(lengths: Sequence[int], bounds: Sequence[tuple[int, int]]) -> list[LocalArray | None]:
        """Return memory for what a tile makes and is no result."""
        sizes = [lengths[loop] for loop in order]
        for loop, (start, stop) in zip(cut, bounds, strict=True):
            sizes[axis[loop]] = stop - start
        arrays: list[LocalArray | None] = []
        for place, op in zip(places, nest.ops, strict=True):
            shape = tuple([n if x in op.loops else 1 for n, x in zip(sizes, order, strict=True)])
            slot = slots.get(place)
            arrays.append(None if slot is None else scratch.array(slot, shape, op.dtype))
        return arrays

    def compute(blocks: LocalArrays, outs: list[LocalArray], lengths: tuple[int, ...]) -> None:
        seen = [_seen(np.asarray(blocks[x.operand]), x, axis, lengths) for x in nest.loads]
        outs_as_seen = [_aligned(x.reshape(nest.shape(r, lengths)), r.dims, axis)
                for x, r in zip(outs, nest.results, strict=True)]  # fmt: skip
        written = [
            (place - loads, outs_as_seen[n], way[place], *ends.get(place, ((), (), None)))
            for place, n in at_result.items()
        ]
        rest = math.prod([lengths[loop] for loop in widest if loop not in cut])
        memory: dict[tuple[int, ...], list[LocalArray | None]] = {}
        for bounds in _tiles([lengths[loop] for loop in cut], rest, fixed):
            parts = [part(loops, bounds) for loops in ways]
            sizes = tuple([stop - start for start, stop in bounds])
            if sizes not in memory:
                memory[sizes] = kept(lengths, bounds)
            targets: list[Any] = memory[sizes].copy()
            added = []
            for n, array, at, over, others, function in written:
                total = array[parts[at]]
                if any([bounds[number][0] for number in others]):
                    continue
                if any([bounds[number][0] for number in over]):
                    added.append((function, total, targets[n]))
                else:
                    targets[n] = total
            run(*[x[parts[at]] for x, at in zip(seen, way, strict=False)], *targets)
            for function, total, more in added:
                function(total, more, out=total)
        for n, array, *_ in written:
            if adding[n] is not nest.ops[n]:
                array /= math.prod([lengths[loop] for loop in nest.ops[n].reduced])

    return kernel_of(whole, groups, compute)


def straight_kernel(whole: Nest, shapes: Sequence[Shape]) -> Kernel | None:
    """Return the kernel of a nest for small blocks: its operations as lines of one function.

    Where blocks are that small, cutting them into tiles takes longer than what it saves. The lines
    have all shapes and views, so that a call works none of them out. For rows of 3 numbers that are
    divided by their sum, in a block of 2 rows:

        o0 = (None) if out is None else (out)
        x0 = a0
        x1 = f1(x0, out=None)
        x2 = f2(x0, x1, out=o0)
        return x2

    Args:
      whole: what it computes.
      shapes: the shape of the block of each operand.

    Returns:
      The kernel; None where blocks are large or empty, or reductions may need several tiles.
    """
    reduces = any(op.reduced for op in whole.ops)
    nest, groups = merged(whole) if reduces else (whole, [[n] for n in range(len(whole.sizes))])
    every = whole.lengths(shapes)
    lengths = [math.prod([every[loop] for loop in group]) for group in groups]
    most = max(_elements(lengths)(op.loops.union(op.reduced)) for op in nest.ops)
    if 0 in lengths or most > (LARGE if nest.large < LARGE else _SMALL):
        return None
    if reduces and (nest.large >= LARGE or math.prod(nest.sizes) > _TILE):
        return None
    order = _order(nest)
    axis = {loop: n for n, loop in enumerate(order)}
    lines = [
        f"x{n} = {_seen_from(x, shapes[x.operand], axis, lengths)}"
        for n, x in enumerate(nest.loads)
    ]
    # An operation returns its result as its operands lie in memory. Results are dense.
    every_shape = [whole.shape(result, every) for result in whole.results]
    views = [
        _view(shape, result.dims, axis, lengths)
        for shape, result in zip(every_shape, nest.results, strict=True)
    ]
    turned = any(".transpose" in text for text in (*lines, *views))
    names: dict[str, Any] = {"empty": np.empty, "concatenate": np.concatenate}
    memory, targets = [], [""] * len(nest.ops)
    for n, (result, shape, view) in enumerate(zip(nest.results, every_shape, views, strict=True)):
        number = result.place - len(nest.loads)
        targets[number] = f"o{n}"
        if not (view or turned or nest.ops[number].reduced):
            memory.append("None")
            continue
        memory.append(f"empty({shape}, t{result.place})")
        if view:
            targets[number] = f"r{n}"
            lines.append(f"r{n} = o{n}{view}")
    kernels = []
    for number, op in enumerate(nest.ops):
        names[f"t{len(nest.loads) + number}"] = op.dtype
        along = op.loops.union(op.reduced)
        shape = tuple([lengths[loop] if loop in along else 1 for loop in order])
        kernels.append(_kernel(op, axis, nest, None if turned else shape))
        if not targets[number]:
            ended = tuple([lengths[loop] if loop in op.loops else 1 for loop in order])
            has_position = op.reduced and REDUCTIONS[op.name].position
            fresh = f"empty({ended}, t{len(nest.loads) + number})"
            targets[number] = fresh if has_position else "None"
    operation_lines, functions = _lines(nest, kernels, targets)
    outs = ", ".join(f"o{n}" for n in range(len(memory)))
    return _function(
        [*[f"a{n}" for n in range(nest.operands)], "out=None"],
        [
            f"{outs} = ({', '.join(memory)}) if out is None else out",
            *lines,
            *operation_lines,
            "return "
            + ", ".join(
                f"x{result.place}" if of == "None" else f"o{n}"
                for n, (result, of) in enumerate(zip(nest.results, memory, strict=True))
            ),
        ],
        names | functions,
    )


def _seen_from(load: Load, shape: Shape, axis: Mapping[int, int], lengths: Sequence[int]) -> str:
    """Write what `_seen` returns for a block of a shape, as Python."""
    text, starts = f"a{load.operand}", list(load.starts)
    for dim in load.periodic:
        before, start = ":, " * dim, starts[dim]
        text = f"concatenate(({text}[{before}{start}:], {text}[{before}:{start}]), {dim})"
        starts[dim] = 0
    if any(load.more):
        shape = tuple([1 if dim is None else lengths[dim] for dim in load.dims])
        ends = [f"{start}:{start + n}" for start, n in zip(starts, shape, strict=True)]
        text += f"[{', '.join(ends)}]"
    return text + _view(shape, load.dims, axis, lengths)


def _view(
    shape: Shape, dims: Sequence[int | None], axis: Mapping[int, int], lengths: Sequence[int]
) -> str:
    """Write how an array of a shape becomes a view with an axis for each loop; "" if it is one.

    >>> _view((6, 1, 4), (1, None, 0), {0: 0, 1: 1, 2: 2}, [4, 6, 9])
    '.reshape((6, 4)).transpose((1, 0)).reshape((4, 6, 1))'
    """
    text = ""
    loops = [dim for dim in dims if dim is not None]
    in_order = sorted(loops, key=axis.__getitem__)
    if loops != in_order:
        merged_shape = tuple([lengths[loop] for loop in loops])
        if shape != merged_shape:
            text += f".reshape({merged_shape})"
        text += f".transpose({tuple([loops.index(loop) for loop in in_order])})"
        shape = tuple([lengths[loop] for loop in in_order])
    seen = tuple([lengths[loop] if loop in loops else 1 for loop in axis])
    return text if shape == seen else f"{text}.reshape({seen})"


def _lines(
    nest: Nest, kernels: Sequence[Any], targets: Sequence[str]
) -> tuple[list[str], dict[str, Any]]:
    """Return the operations of a nest as lines of Python, and what these name.

    The value at place 2 is x2; of each operation the line says where its result goes.
    """
    names: dict[str, Any] = {}
    lines = []
    for place, (op, kernel, target) in enumerate(
        zip(nest.ops, kernels, targets, strict=True), len(nest.loads)
    ):
        taken = []
        for number, (at, value) in enumerate(op.operands):
            taken.append(f"n{place}_{number}" if at is None else f"x{at}")
            names[f"n{place}_{number}"] = value
        names[f"f{place}"] = kernel
        lines.append(f"x{place} = f{place}({', '.join(taken)}, out={target})")
    return lines, names


def _function(arguments: Sequence[str], lines: Sequence[str], names: dict[str, Any]) -> Kernel:
    """Return a function of lines of Python."""
    exec("\n    ".join([f"def kernel({', '.join(arguments)}):", *lines]), names)
    kernel: Kernel = names.pop("kernel")  # which would be in a cycle with its own globals
    return kernel


def _until_cut(op: Op, cut: Sequence[int]) -> Op:
    """Return what a tile does: a mean over loops that are cut is a sum until the last tile."""
    is_mean = op.name == "mean" and not set(cut).isdisjoint(op.reduced)
    return dataclasses.replace(op, name="sum") if is_mean else op


def _elements(sizes: Sequence[int]) -> Callable[[frozenset[int]], int]:
    return lambda loops: math.prod(sizes[loop] for loop in loops)


def _needed(nest: Nest, loop: int) -> bool:
    """Whether something reduces a loop."""
    return any(loop in op.reduced for op in nest.ops)


def _order(nest: Nest) -> list[int]:
    """Return the loops: short ones first, unless there are no others, then as arrays have them."""
    arrays = [array.dims for array in nest.results] + [array.dims for array in nest.loads]
    dims_in_order = [loop for dims in arrays for loop in dims]
    loops = [loop for loop in dict.fromkeys(dims_in_order) if loop is not None]
    loops = sorted(loops, key=lambda loop: loop in nest.inner)
    if not any(load.is_cut for load in nest.loads):
        longest = max((load.dims for load in nest.loads), key=len)
        inside = [loop for loop in longest if loop is not None]
        if len(inside) == len(loops):
            loops = inside  # as the largest array lies
    several = [op for op in nest.ops if any(loop in nest.short for loop in op.reduced)]
    if not several and not any(loop in nest.short for loop in loops[:-1]):
        return loops
    if _has_short_rows(nest):
        return sorted(loops, key=lambda loop: (loop in nest.short, loop in nest.inner))
    return sorted(loops, key=lambda loop: (loop not in nest.short, loop in nest.inner))


def _has_short_rows(nest: Nest) -> bool:
    """Whether short dims are behind long ones in all arrays that have both, and worth a call.

    Then elements are next to each other in the order of the arrays, and far apart as slabs.
    """
    has_short = False
    for dims in [*(x.dims for x in nest.loads), *(x.dims for x in nest.results)]:
        own = [dim for dim in dims if dim is not None]
        short = [dim for dim in own if dim in nest.short]
        if short and len(short) < len(own):
            if own[-len(short) :] != short or math.prod([nest.sizes[x] for x in short]) < _ROW:
                return False
            has_short = True
    return has_short


def _seen(
    array: LocalArray, load: Load, axis: dict[int, int], lengths: Sequence[int]
) -> LocalArray:
    """Return what a load reads, with a dim for each loop."""
    pairs = list(zip(load.dims, load.starts, strict=True))
    for dim in load.periodic:
        loop, start = pairs[dim]
        before = (slice(None),) * dim
        halves = array[(*before, slice(start, None))], array[(*before, slice(start))]
        array, pairs[dim] = np.concatenate(halves, dim), (loop, 0)
    if any(load.more):
        array = array[
            tuple([slice(a, a + (1 if dim is None else lengths[dim])) for dim, a in pairs])
        ]
    else:
        array = array.reshape([1 if dim is None else lengths[dim] for dim, _ in pairs])
    return _aligned(array, load.dims, axis)


def _aligned(array: LocalArray, dims: Sequence[int | None], axis: dict[int, int]) -> LocalArray:
    """Return a view with a dim for each loop."""
    kept = array[(*[0 if dim is None else slice(None) for dim in dims], ...)]
    present = [axis[dim] for dim in dims if dim is not None]
    kept = kept.transpose(sorted(range(len(present)), key=present.__getitem__))
    return kept[(*[slice(None) if n in present else None for n in range(len(axis))], ...)]


def _kernel(
    op: Op, axis: dict[int, int], nest: Nest, shape: Shape | None = None
) -> Callable[..., LocalArray]:
    """Return what does an operation on the values of a tile, into an array.

    Args:
      op: the operation.
      axis: the axis of each loop.
      nest: what is computed.
      shape: that of what is reduced, if it is always the same and its elements lie in order.
    """
    if op.kernel is not None:
        return host_ufunc(op.kernel) if isinstance(op.kernel, np.ufunc) else op.kernel
    axes = tuple(axis[loop] for loop in op.reduced)
    if REDUCTIONS[op.name].position:
        return _positions(op, axes)
    if op.name == "product" and nest.large >= LARGE:
        return lambda a, b, out: _product(a, b, axes, out)
    function = REDUCTIONS[op.name].combine
    if shape is not None and op.types[0] == op.dtype and function in (np.add, np.multiply):
        reduce = _reduction_in_order(function, op.dtype, axes, shape)
    else:
        reduce = _reduction(function, op.dtype, axes)
    if op.name == "product":
        return lambda a, b, out: reduce(np.multiply(a, b), out)
    if op.name != "mean":
        return reduce

    def mean(x: LocalArray, out: LocalArray | None) -> LocalArray:
        out = reduce(x, out)
        out /= math.prod([x.shape[at] for at in axes])
        return out

    return mean


def _reduction(function: Any, dtype: Dtype, axes: tuple[int, ...]) -> Callable[..., LocalArray]:
    """Return a reduction of some axes, in an order that depends on their lengths alone."""
    if function not in (np.add, np.multiply):
        return lambda x, out: function.reduce(x, axes, dtype, out, True)

    @functools.lru_cache(maxsize=64)
    def of_shape(shape: Shape) -> Callable[..., LocalArray]:
        return _reduction_in_order(function, dtype, axes, shape)

    def reduce(x: LocalArray, out: LocalArray | None) -> LocalArray:
        x = _in_order(x.astype(dtype, copy=False))
        return of_shape(x.shape)(x, out)

    return reduce


def _reduction_in_order(
    function: Any, dtype: Dtype, axes: tuple[int, ...], shape: Shape
) -> Callable[..., LocalArray]:
    """Return such a reduction for arrays of one shape and of the result's type, which lie in order.

    NumPy's inner loop is along the axis whose elements are closest, of those that have several. So
    an axis of length 1 must not decide whether that is a reduced one.
    """
    last = len(shape)
    while last - 1 in axes:
        last -= 1
    ahead = tuple(sorted(at for at in axes if at < last))
    before = (*shape[:last], *(1,) * (len(shape) - last))  # once the last axes are reduced
    rows = (*shape[:last], math.prod(shape[last:]))
    after = tuple([1 if at in axes else n for at, n in enumerate(shape)])
    behind = bool(ahead) and math.prod(shape[ahead[-1] + 1 : last]) > 1
    order = [*[at for at in range(len(shape)) if at not in ahead], *ahead]
    lines = (*[before[at] for at in order[: len(order) - len(ahead)]], -1)

    def reduce(x: LocalArray, out: LocalArray | None) -> LocalArray:
        if last < len(shape):
            x = function.reduce(x.reshape(rows), -1, dtype).reshape(before)
        if behind:
            x = function.reduce(x, ahead, dtype, None, True)
        elif ahead:
            x = function.accumulate(x.transpose(order).reshape(lines), -1, dtype)[..., -1]
            x = x.reshape(after)
        if out is None:
            return x
        out[...] = x
        return out

    return reduce


def _in_order(x: LocalArray) -> LocalArray:
    """Return an array whose elements are closer along later axes."""
    strides = [stride for stride, n in zip(x.strides, x.shape, strict=True) if n > 1]
    return x if strides == sorted(strides, reverse=True) else np.ascontiguousarray(x)


def _positions(op: Op, axes: tuple[int, ...]) -> Callable[..., LocalArray]:
    name = op.name

    def positions(x: LocalArray, out: LocalArray) -> LocalArray:
        long = out.shape[-1] >= _SMALL and x.dtype.kind in "fiu"
        if long and len(axes) == 1 and x.shape[axes[0]] <= SHORT:
            _across(name, x, axes[0], out)
        elif len(axes) == 1:
            out[...] = getattr(np, name)(x, axes[0], keepdims=True)
        else:
            rows = np.moveaxis(x, axes, range(-len(axes), 0))
            indices = getattr(np, name)(rows.reshape(*rows.shape[: -len(axes)], -1), axis=-1)
            out[...] = np.expand_dims(indices, tuple(sorted(axes)))
        return out

    return positions


def _across(name: str, x: LocalArray, axis: int, out: LocalArray) -> None:
    """Find positions among slabs: the first that is as their extreme, or is no number."""
    best = REDUCTIONS[name].combine.reduce(x, axis, keepdims=True)
    others = x != best
    if (best != best).any():
        others &= x == x
    far = np.negative(others.view(np.uint8))  # 255 for others
    places = np.expand_dims(np.arange(x.shape[axis], dtype=np.uint8), (*range(1, x.ndim - axis),))
    out[...] = np.minimum.reduce(np.bitwise_or(far, places, out=far), axis, keepdims=True)


def _product(a: LocalArray, b: LocalArray, axes: tuple[int, ...], out: LocalArray) -> LocalArray:
    """Sum products over some axes, which both have."""
    ndim = out.ndim
    own = [n for n in range(ndim) if n not in axes and a.shape[n] > 1]
    other = [n for n in range(ndim) if n not in axes and b.shape[n] > 1 and n not in own]
    both = [n for n in own if b.shape[n] > 1]
    if both:
        every = list(range(ndim))
        kept = [n for n in every if n not in axes]
        np.einsum(a, every, b, every, kept, out=out.squeeze(axes))
        return out
    left = a.transpose([*own, *axes, *_rest(ndim, own, axes)]).reshape(
        math.prod([a.shape[n] for n in own]), -1
    )
    right = b.transpose([*axes, *other, *_rest(ndim, other, axes)]).reshape(left.shape[1], -1)
    shape = [a.shape[n] for n in own] + [b.shape[n] for n in other]
    product = np.matmul(left, right).reshape(shape)  # `dot` of one number leaves 0 * NaN out
    order = sorted(range(len(shape)), key=[*own, *other].__getitem__)
    out[...] = product.transpose(order).reshape(out.shape)
    return out


def _rest(ndim: int, own: Sequence[int], axes: Sequence[int]) -> list[int]:
    return [n for n in range(ndim) if n not in own and n not in axes]


def _homes(nest: Nest) -> tuple[dict[int, int], dict[int, int]]:
    """Return where each value between operations is kept: where one was that is used no more.

    Returns:
      The slot of each value that is kept in one, and the number of the result whose memory each
      of the others is kept in: results, and what they are written over.
    """
    first = len(nest.loads)
    homes = {result.place: n for n, result in enumerate(nest.results)}
    last = {at: n for n, op in enumerate(nest.ops) for at in op.places}
    slots: dict[int, int] = {}
    before: dict[int, int] = {}  # for each value the one that it is written over
    free: list[int] = []
    count = 0
    for n, op in enumerate(nest.ops):
        place = first + n
        ended = {at for at in op.places if at in slots and last[at] == n}
        if isinstance(op.kernel, np.ufunc):  # in place: others may read what they wrote
            alike = [at for at in ended if (nest.dtype(at), nest.loops(at)) == (op.dtype, op.loops)]
            if alike:
                before[place] = alike[0]
        if place not in homes:
            if place in before:
                slots[place] = slots[before[place]]
                ended.discard(before[place])
            elif free:
                slots[place] = free.pop()
            else:
                slots[place], count = count, count + 1
        free += [slots[at] for at in ended]
    for place, number in list(homes.items()):
        while place in before:
            place = before[place]
            homes[place] = number
            del slots[place]
    return slots, homes


def _steps(lengths: Sequence[int], rest: int, fixed: Mapping[int, int]) -> list[int]:
    """Return how many indices of each loop a tile has; `fixed` are those that are known."""
    room, steps = _TILE // max(1, rest), [1] * len(lengths)
    for n in reversed(range(len(lengths))):
        steps[n] = fixed.get(n) or max(1, min(lengths[n], room))
        room //= steps[n]
    return steps


def _tiles(
    lengths: Sequence[int], rest: int, fixed: Mapping[int, int]
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield the bounds of the tiles of some loops, which have so many elements with the others."""
    steps = _steps(lengths, rest, fixed)
    return itertools.product(*[
        [(start, min(start + step, n)) for start in range(0, n, step)]
        for n, step in zip(lengths, steps, strict=True)
    ])  # fmt: skip
