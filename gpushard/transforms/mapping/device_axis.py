"""Dims with an element, or a chunk of elements, for each of several devices: where pmap's lie.

The devices of `pmap` are a line, those of a `pmap` in it a grid: an axis for each, which only this
module knows. A call does not know of calls within it, which bring what they meet to their grid. An
argument may lie on such a grid already: then the call works there, and results go back to the line
if no call within it has asked for more.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard.array.array import ConcreteArray
from gpushard.errors import ArgumentError, ArgumentTypeError, MeshError, NoDeviceError
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.older.listed_sharding import PmapSharding
from gpushard.geometry.older.sharding_spec import (
    Chunked,
    Replicated,
    ShardedAxis,
    ShardingSpec,
    Unstacked,
)
from gpushard.geometry.partition_spec import P
from gpushard.geometry.sharding import Sharding
from gpushard.ops.rule import Splits
from gpushard.transforms.values.doors import checked_result, enter, enter_blocks, leave_blocks
from gpushard.transforms.values.frames import Frame, Names, Source, innermost
from gpushard.transforms.values.mapped import Mapped, as_mapped, brought, spread
from gpushard.transforms.values.relabel import Labels, labels
from gpushard.transforms.values.signature import (
    each_result,
    is_array,
    mapped_arguments,
)
from gpushard.typing import Shape

_CHUNKS = "soft_pmap"
"""What begins the names of axes on which devices have chunks, be it of one element each."""

_PARTS = "parts"
"""What begins the names of axes that cut dims of the function's into parts."""


class StackedFrame(Frame):
    """One call of a function that is mapped over devices.

    Args:
      what: the function, for errors.
      label: gives the name of an argument by its number, for errors.
      size: how many elements are mapped.
      devices: to choose from; for the outermost call.
      kind: what the axis is: "pmap" gives each device an element, "soft_pmap" may give it several,
        "parts" is there to cut dims of the function's.
      ahead: sizes of further axes that calls within may have; for the outermost call.
    """

    __slots__ = ("axis", "pool", "sizes", "used")

    pool: tuple[Any, ...]
    sizes: Shape  # of its named dims: one element for each device, and those of a chunk if any
    used: int  # how many axes calls are mapped over; of the outermost call

    def __init__(
        self,
        what: str,
        label: Callable[[int], str],
        size: int,
        devices: Sequence[Any],
        *,
        kind: str = "pmap",
        ahead: Shape = (),
    ) -> None:
        super().__init__(what, None, label)
        others = self._around() if self.outer is not None else []
        for frame in others:
            if frame.has_devices:
                raise ArgumentError(
                    f"{what} in the {frame.what}, whose named dims have the devices; use vmap "
                    "here, or give its axis_resources more mesh axes",
                    argument="fun",
                )
        around = [frame for frame in others if isinstance(frame, StackedFrame)]
        self.pool = around[0].pool if around else tuple(devices)
        self.axis = f"{kind} {len(around)}"
        self.used = 1
        before: tuple[tuple[str, int], ...] = ()
        if around and around[0].mesh is not None:
            grid = tuple(around[0].mesh.shape.items())
            before, after = grid[: len(around)], [n for _, n in grid[len(around) :]]
            ahead = tuple(after[1:]) if after[:1] == [size] else ()
            around[-1].used = max(around[-1].used, len(around) + 1)
        elif self.mesh is not None:
            raise MeshError(
                f"{what}: the function around it is mapped over the mesh {dict(self.mesh.shape)}, "
                "whose devices have their work; use vmap here",
                argument="fun",
            )
        self.mesh = _grid(self.pool, before, self.axis, size, ahead, what, kind == _CHUNKS)
        if around:
            for frame in (*others, self):
                frame.mesh = self.mesh
                frame.brings = True
        else:
            self.brings = False

    def _around(self) -> list[Frame]:
        found, frame = [], self.outer
        while frame is not None:
            found.append(frame)
            frame = frame.outer
        return found

    @property
    def count(self) -> int:
        """How many devices the mapped dim is on."""
        assert self.mesh is not None
        return self.mesh.shape[self.axis]


@functools.lru_cache(maxsize=256)
def _grid(
    devices: tuple[Any, ...],
    before: tuple[tuple[str, int], ...],
    axis: str,
    size: int,
    ahead: Shape,
    what: str,
    chunked: bool,
) -> Mesh:
    """Return the first devices in a grid that has an axis after others, and maybe some more."""
    if not size:
        raise ArgumentError(
            f"{what}: an axis of 0 elements has no devices; check its size first, or use vmap",
            argument="axis_size",
            size=0,
        )
    count = math.prod(n for _, n in before)
    most = len(devices) // count
    if chunked and size > most:
        if not most or size % most:
            raise ArgumentError(
                f"{what}: an axis of {size} elements does not come in equal chunks for {most} "
                "devices; pad it to a multiple of them",
                argument="axis_size",
                size=size,
                devices=most,
            )
        size = most
    if size > most:
        inner = f" in {count} functions at once" if before else ""
        soft = "soft_pmap, which gives each device several elements, or vmap"
        way = "vmap here" if before else soft
        raise NoDeviceError(
            f"{what}: an axis of {size} elements{inner} needs {size * count} devices, there are "
            f"{len(devices)}; use {way}",
            argument="axis_size",
            size=size,
            devices=len(devices),
        )
    return _mesh(devices, (*[n for _, n in before], size, *ahead), (*[x for x, _ in before], axis))


def _mesh(devices: tuple[Any, ...], sizes: Shape, names: tuple[str, ...] = ()) -> Mesh:
    grid = np.array(devices[: math.prod(sizes)], object).reshape(sizes)
    return Mesh(grid, (*names, *[f"pmap {n}" for n in range(len(names), len(sizes))]))


@functools.lru_cache(maxsize=4096)
def _labels(
    mesh: Mesh,
    axis: str,
    sizes: Shape,
    shape: Shape,
    lead: Splits,
    at: int | None,
    others: Splits,
) -> Labels:
    """Compute how a dim on an axis of devices becomes named dims. Pure.

    Args:
      mesh: the devices.
      axis: the axis.
      sizes: of the named dims: one element for each device, and those of a chunk if there are.
      shape: of the array without the mapped dim.
      lead: the axes of each dim in front that has a name already.
      at: the mapped dim of what the function returns; None where it has none.
      others: for each other dim the axes that split it.
    """
    first, body = shape[: len(lead)], shape[len(lead) :]
    chunk: Shape = ()
    if at is not None:
        chunk = sizes[1:]
        body = (*body[:at], math.prod(sizes), *body[at:])
        others = (*others[:at], (), *others[at:])
    spec = P(*[(axis,) if dim == at else () for dim in range(len(body))])
    full = (*first, *body)
    known = labels(mesh, (axis,), spec, full, lead, others, chunk)
    shown = listed(mesh, known.whole, full)
    return dataclasses.replace(known, shown=shown, shown_tiling=shown.tiling(full))


def listed(mesh: Mesh, sharding: NamedSharding, shape: Shape) -> PmapSharding:
    """Return how an array over the grid lies, as a list of devices: dims that `pmap` maps go."""
    cuts: dict[str, int] = {}
    dims: list[Any] = []
    for dim, n in enumerate(shape):
        axes = sharding.spec.axes(dim)
        if not axes:
            dims.append(None)
            continue
        for axis in axes:
            cuts[axis] = len(cuts)
        sizes = tuple([mesh.shape[axis] for axis in axes])
        elements = sizes == (n,) and not axes[0].startswith((_CHUNKS, _PARTS))
        dims.append(Unstacked(n) if elements else Chunked(sizes))
    spec = ShardingSpec(
        dims,
        [
            ShardedAxis(cuts[axis]) if axis in cuts else Replicated(size)
            for axis, size in mesh.shape.items()
        ],
    )
    return PmapSharding(list(mesh.assignment), spec)


@functools.lru_cache(maxsize=1024)
def gridded(sharding: PmapSharding) -> NamedSharding:
    """Return how an array lies over the grid of its devices: what `listed` made a list of."""
    spec = sharding.sharding_spec
    axes = {
        entry.axis: f"pmap {n}"
        for n, entry in enumerate(spec.mesh_mapping)
        if isinstance(entry, ShardedAxis)
    }
    cuts = itertools.count()
    entries: list[Any] = []
    for entry in spec.sharding:
        pieces = len(entry.chunks) if isinstance(entry, Chunked) else isinstance(entry, Unstacked)
        entries.append(tuple([axes[next(cuts)] for _ in range(pieces)]))
    return NamedSharding(_mesh(tuple(sharding.devices.flat), spec.mesh_shape), P(*entries))


def _ahead(
    leaves: Sequence[Any], dims: Sequence[int | None], size: int, devices: tuple[Any, ...]
) -> Shape:
    """Return the sizes of further axes of a grid on which an argument has its elements already."""
    for x, dim in zip(leaves, dims, strict=True):
        lies = getattr(x, "_sharding", None)
        if type(lies) is not PmapSharding or lies.num_devices <= size or dim is None:
            continue
        own = gridded(lies)
        first, *ahead = own.mesh.axis_sizes
        there = tuple(lies.devices.flat) == devices[: lies.num_devices]
        if there and first == size and own.spec.axes(dim) == ("pmap 0",):
            return tuple(ahead)
    return ()


def _enter(x: Any, axis: int | None, frame: StackedFrame, number: int) -> Any:
    """Make what a function sees of an argument, a dim of which has elements for devices."""
    if axis is None:
        return enter(x, (), (), frame, number)
    source: Source = (frame, number)
    mesh = frame.mesh
    assert mesh is not None
    outer: Names = ()
    if type(x) is Mapped:
        x = as_mapped(x, frame)
        x, outer, source = x._value, x._names, x._source or source
    at, shape = len(outer) + axis, x._shape if is_array(x) else x.shape
    shape = shape[:at] + shape[at + 1 :]
    lead = tuple([name.place or () for name in outer]) if outer else ()
    others: Splits = ((),) * (len(shape) - len(outer))
    if frame.axis != mesh.axis_names[-1] and is_array(x):
        split = _elements(x._sharding, x.shape, len(outer), mesh, every=True)
        split = split[:axis] + split[axis + 1 :]
        others = tuple([axes if frame.axis not in axes else () for axes in split])
    own = _labels(mesh, frame.axis, frame.sizes, shape, lead, axis, others)
    return enter_blocks(x, own, outer + frame.dims, frame, source)


def _result(x: Any, axis: Any, arg: str, frame: StackedFrame, fun: Any) -> Any:
    """Return a result with the mapped dim where it is wanted, or without it."""
    x, axis = checked_result(x, axis, arg, frame, fun)
    names, mesh = frame.dims, frame.mesh
    assert mesh is not None
    outer: Names = ()
    if x._names != names:
        outer = tuple([name for name in x._names if name not in names])
        x = x if axis is None else spread(x, outer + names)
    if frame.brings:
        x = brought(x, mesh)
    value, ahead = x._value, len(x._names)
    others = _elements(value._sharding, value._shape, ahead, mesh)
    if frame.outer is None and frame.used < len(mesh.axis_names):
        used = frame.used
        mesh = _mesh(frame.pool, mesh.axis_sizes[:used], mesh.axis_names[:used])
        others = tuple([axes if set(axes) <= set(mesh.axis_names) else () for axes in others])
    lead = tuple([name.place or () for name in outer]) if outer else ()
    shape = value._shape[: len(outer)] + value._shape[ahead:]
    own = _labels(mesh, frame.axis, frame.sizes, shape, lead, axis, others)
    return leave_blocks(x, own, outer, frame)


@functools.lru_cache(maxsize=4096)
def _elements(own: Sharding, shape: Shape, ahead: int, mesh: Mesh, every: bool = False) -> Splits:
    """Return the axes of each dim after the first ones: those of parts, and one of elements. Pure.

    Along others, unless every one is asked for, it is brought together.
    """
    if type(own) is PmapSharding:
        own = gridded(own)
    found: list[tuple[str, ...]] = []
    for dim in range(ahead, len(shape)):
        axes = own.spec.axes(dim) if isinstance(own, NamedSharding) and own.mesh == mesh else ()
        fits = len(axes) == 1 and shape[dim] == mesh.shape[axes[0]]
        count = math.prod([mesh.shape[axis] for axis in axes])
        parts = every or all(axis.startswith(_PARTS) for axis in axes)
        found.append(axes if fits or (parts and shape[dim] % count == 0) else ())
    return tuple(found)


class Opened:
    """A call of a function that is mapped over devices, whose arguments were checked.

    Args:
      fun: the function.
      what: what errors call it.
      given: its arguments.
      in_axes: their mapped dims.
      axis: the name of the dim.
      size: how long it is, if that is said.
      pool: devices, and whether all of them are to be used; None where each may have several
        elements.
      label: gives the name of an argument by its number, for errors.
    """

    __slots__ = ("_dims", "_fun", "_together", "frame", "leaves")

    def __init__(
        self,
        fun: Any,
        what: str,
        given: tuple[tuple[Any, ...], dict[str, Any]],
        in_axes: Any,
        axis: Hashable,
        size: int | None,
        pool: tuple[tuple[Any, ...], bool | None],
        label: Callable[[int], str],
    ) -> None:
        args, kwargs = given
        self.leaves, self._dims, size, self._together = mapped_arguments(
            args, kwargs, in_axes, size, label, (what, "in_axes")
        )
        for number, x in enumerate(self.leaves):
            if type(x) is not ConcreteArray and not getattr(x, "pmap_takes", True):
                raise ArgumentTypeError(
                    f"{what}: {label(number)} is a {type(x).__name__}, whose shards are blocks "
                    "over a mesh; use jit or shard_map, or give the Array that "
                    "gpushard.device_put(x, x.sharding) returns",
                    argument="args",
                    type=type(x),
                )
        devices, every = pool
        if every and len(devices) != size:
            raise ArgumentError(
                f"{what}: devices= has {len(devices)} devices for an axis of {size} elements; give "
                "one for each",
                argument="devices",
                devices=len(devices),
                size=size,
            )
        self._fun = fun
        ahead: Shape = ()
        if innermost() is None and every is not None:
            ahead = _ahead(self.leaves, self._dims, size, devices)
        self.frame = frame = StackedFrame(
            what, label, size, devices, kind=_CHUNKS if every is None else "pmap", ahead=ahead
        )
        count = size if every is not None else frame.count
        frame.name(axis, count, (frame.axis,))
        frame.sizes = (count,)
        if every is None:
            frame.name(axis, size // count)
            frame.sizes = (count, size // count)

    def check_shapes(self, args: Any, shapes: Any) -> None:
        """Check that what the function sees of arguments has the shapes that are said."""
        said = tree.broadcast_prefix(
            shapes, args, _is_shape, names=("global_arg_shapes", "the arguments")
        )
        for number, (shape, dim) in enumerate(zip(said, self._dims, strict=False)):
            full = np.shape(self.leaves[number])
            own = full if dim is None else (*full[:dim], *full[dim + 1 :])
            if shape is not None and (not _is_shape(shape) or tuple(shape) != own):
                raise ArgumentError(
                    f"{self.frame.what}: global_arg_shapes has {shape!r} for "
                    f"{self.frame.label(number)}, of which the function sees {own}; one process "
                    "has all of it, so give that shape, or None",
                    argument="global_arg_shapes",
                    value=shape,
                    shape=own,
                )

    def run(self, call: Callable[..., Any], out_axes: Any) -> Any:
        """Call a function with what it sees of the arguments, and return its results as arrays."""
        frame, fun = self.frame, self._fun
        inside = [
            _enter(leaf, dim, frame, number)
            for number, leaf, dim in zip(itertools.count(), self.leaves, self._dims)
        ]
        with frame:
            args, kwargs = self._together(inside)
            return each_result(call(*args, **kwargs), out_axes, _result, frame, fun)


def _is_shape(x: Any) -> bool:
    return x is None or (type(x) is tuple and all(type(n) is int for n in x))
