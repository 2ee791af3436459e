"""Axes with an element, or a chunk of elements, on each of several devices: those of `pmap`.

A `pmap` lays its devices out as a mesh with one axis, and a `pmap` within it as a mesh with two.
Users never see these meshes. When the outer call begins, it is not known whether its function will
call another `pmap`. So the inner call makes the larger mesh, and values that it meets move there.

An example, on 8 devices, with `x` of shape (2, 3, 5):

1. `pmap(f)(x)` makes a mesh of 2 devices, {"pmap 0": 2}. Each device has a block of shape
   (1, 3, 5). The first dim gets a name, and `f` sees shape (3, 5).
2. `f` calls `pmap(g)` on its argument. That makes a mesh of 6 devices, {"pmap 0": 2, "pmap 1": 3}.
   The argument moves there: device 3 * i + j gets `x[i, j]`. `g` sees shape (5,).
3. The result of `g` lies on the 6 devices, one element of shape (5,) on each. To `f`, the result
   of the inner call has shape (3, 5). The result of the outer call has shape (2, 3, 5), and its
   `PmapSharding` lists the 6 devices, with both axes unstacked.
4. If that result is the argument of the next call, `pmap` begins with the mesh of 6 devices, so
   nothing moves. If that call has no inner `pmap`, its results return to the first 2 devices.
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
from gpushard._array.array import ConcreteArray
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.older.pmap_gspmd_sharding import PmapSharding
from gpushard._geometry.older.sharding_spec import (
    Chunked,
    Replicated,
    ShardedAxis,
    ShardingSpec,
    Unstacked,
)
from gpushard._geometry.partition_spec import P
from gpushard._geometry.sharding import Sharding
from gpushard._ops.rule import Splits
from gpushard._transforms.values.enter_leave import check_result, enter, enter_blocks, leave_blocks
from gpushard._transforms.values.frames import Frame, Names, Source, innermost, places_of_names
from gpushard._transforms.values.labels import Labels, labels
from gpushard._transforms.values.leaves import each_result, is_array
from gpushard._transforms.values.mapped import Mapped, as_mapped, broadcast_along, move_to_mesh
from gpushard._transforms.values.mapped_axes import mapped_arguments
from gpushard._typing import Shape
from gpushard.errors import ArgumentError, ArgumentTypeError, MeshError, NoDeviceError

_CHUNKS = "soft_pmap"
"""The beginning of names of axes on which each device has a chunk of elements."""

_PARTS = "parts"
"""The beginning of names of axes that cut dims of values into parts, as `sharded_jit` does."""


class DeviceFrame(Frame):
    """One active call of a function that is mapped over devices, as `pmap` does.

    Args:
      what: the function, for errors.
      label: names an argument by its number, for errors.
      size: the number of mapped elements.
      devices: the devices to choose from; only those of the outermost call count.
      kind: "pmap" gives each device one element; "soft_pmap" may give it several; "parts" cuts dims
        of values into parts.
      ahead: sizes of further mesh axes, for calls within this one; of the outermost call.
    """

    __slots__ = ("axis", "pool", "sizes", "used")

    pool: tuple[Any, ...]
    sizes: Shape  # sizes of its named dims: devices, and elements of a chunk if there are chunks
    used: int  # the number of mesh axes that calls are mapped over; of the outermost call

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
                    f"{what} in the {frame.what}, and its named axes use the devices. Try: use "
                    "vmap here, or give the xmap more mesh axes in axis_resources=",
                    argument="fun",
                )
        around = [frame for frame in others if isinstance(frame, DeviceFrame)]
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
                f"{what}: the enclosing function is mapped over the mesh {dict(self.mesh.shape)}, "
                "which uses the devices. Try: use vmap here",
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
        enclosing, frame = [], self.outer
        while frame is not None:
            enclosing.append(frame)
            frame = frame.outer
        return enclosing

    @property
    def count(self) -> int:
        """The number of devices that the mapped axis lies on."""
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
    """Lay out the first devices as a mesh with the axes `before`, `axis`, and those of `ahead`."""
    if not size:
        raise ArgumentError(
            f"{what}: an axis of 0 elements has no devices. Try: check its size first, or use vmap",
            argument="axis_size",
            size=0,
        )
    count = math.prod(n for _, n in before)
    most = len(devices) // count
    if chunked and size > most:
        if not most or size % most:
            raise ArgumentError(
                f"{what}: an axis of {size} elements does not come in equal chunks for {most} "
                f"devices. Try: pad it to a multiple of {most}",
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
            f"{len(devices)}. Try: use {way}",
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
      sizes: the sizes of the named dims: devices, and elements of a chunk if there are chunks.
      shape: the shape of the array without the mapped dim.
      lead: for each dim in front that has a name already, the axes of its place.
      at: the position of the mapped dim; None for an array without it.
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
    shown = list_sharding(mesh, known.whole, full)
    return dataclasses.replace(known, shown=shown, shown_tiling=shown.tiling(full))


def list_sharding(mesh: Mesh, sharding: NamedSharding, shape: Shape) -> PmapSharding:
    """Convert a sharding over the grid to one over a list of devices, which users see."""
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
def grid_sharding(sharding: PmapSharding) -> NamedSharding:
    """Convert a sharding over a list of devices to the grid that `list_sharding` made it of."""
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


def _further_sizes(
    leaves: Sequence[Any], dims: Sequence[int | None], size: int, devices: tuple[Any, ...]
) -> Shape:
    """Find an argument that lies on a larger grid, and list the sizes of its further axes."""
    for x, dim in zip(leaves, dims, strict=True):
        lies = getattr(x, "_sharding", None)
        if type(lies) is not PmapSharding or lies.num_devices <= size or dim is None:
            continue
        grid = grid_sharding(lies)
        first, *ahead = grid.mesh.axis_sizes
        same_devices = tuple(lies.devices.flat) == devices[: lies.num_devices]
        if same_devices and first == size and grid.spec.axes(dim) == ("pmap 0",):
            return tuple(ahead)
    return ()


def _enter(x: Any, axis: int | None, frame: DeviceFrame, number: int) -> Any:
    """Make the value that a function sees of an argument; its mapped dim goes to the devices."""
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
    others: Splits = ((),) * (len(shape) - len(outer))
    if frame.axis != mesh.axis_names[-1] and is_array(x):
        split = _elements(x._sharding, x.shape, len(outer), mesh, every=True)
        split = split[:axis] + split[axis + 1 :]
        others = tuple([axes if frame.axis not in axes else () for axes in split])
    lies = _labels(mesh, frame.axis, frame.sizes, shape, places_of_names(outer), axis, others)
    return enter_blocks(x, lies, outer + frame.dims, frame, source)


def _result(x: Any, axis: Any, arg: str, frame: DeviceFrame, fun: Any) -> Any:
    """Put the mapped axis of a result where `out_axes` says, or leave it out."""
    x, axis = check_result(x, axis, arg, frame, fun)
    names, mesh = frame.dims, frame.mesh
    assert mesh is not None
    outer: Names = ()
    if x._names != names:
        outer = tuple([name for name in x._names if name not in names])
        x = x if axis is None else broadcast_along(x, outer + names)
    if frame.brings:
        x = move_to_mesh(x, mesh)
    value, ahead = x._value, len(x._names)
    others = _elements(value._sharding, value._shape, ahead, mesh)
    if frame.outer is None and frame.used < len(mesh.axis_names):
        used = frame.used
        mesh = _mesh(frame.pool, mesh.axis_sizes[:used], mesh.axis_names[:used])
        others = tuple([axes if set(axes) <= set(mesh.axis_names) else () for axes in others])
    shape = value._shape[: len(outer)] + value._shape[ahead:]
    lies = _labels(mesh, frame.axis, frame.sizes, shape, places_of_names(outer), axis, others)
    return leave_blocks(x, lies, outer, frame)


@functools.lru_cache(maxsize=4096)
def _elements(
    sharding: Sharding, shape: Shape, ahead: int, mesh: Mesh, every: bool = False
) -> Splits:
    """List the mesh axes that split each dim after the first `ahead` ones, and may stay. Pure.

    A single axis may stay if the dim has one element for each of its devices. Axes of parts may
    stay if they divide the dim. With `every`, any axes that divide the dim may stay. Along other
    axes the dim becomes whole.
    """
    if type(sharding) is PmapSharding:
        sharding = grid_sharding(sharding)
    splits: list[tuple[str, ...]] = []
    for dim in range(ahead, len(shape)):
        axes: tuple[str, ...] = ()
        if isinstance(sharding, NamedSharding) and sharding.mesh == mesh:
            axes = sharding.spec.axes(dim)
        fits = len(axes) == 1 and shape[dim] == mesh.shape[axes[0]]
        count = math.prod([mesh.shape[axis] for axis in axes])
        parts = every or all(axis.startswith(_PARTS) for axis in axes)
        splits.append(axes if fits or (parts and shape[dim] % count == 0) else ())
    return tuple(splits)


class DeviceCall:
    """One call of a function that is mapped over devices, with checked arguments.

    Args:
      fun: the function.
      what: the function, for errors.
      arguments: its positional and keyword arguments.
      in_axes: the mapped axis of each argument.
      axis: the name of the mapped axis.
      size: the size of the mapped axis, if the caller gave it.
      pool: the devices, and True if all of them must get an element, as the caller listed them. It
        is False if they need not, and None if each may get several elements.
      label: names an argument by its number, for errors.
    """

    __slots__ = ("_dims", "_fun", "_together", "frame", "leaves")

    def __init__(
        self,
        fun: Any,
        what: str,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        in_axes: Any,
        axis: Hashable,
        size: int | None,
        pool: tuple[tuple[Any, ...], bool | None],
        label: Callable[[int], str],
    ) -> None:
        args, kwargs = arguments
        self.leaves, self._dims, size, self._together = mapped_arguments(
            args, kwargs, in_axes, size, label, (what, "in_axes")
        )
        for number, x in enumerate(self.leaves):
            if type(x) is not ConcreteArray and not getattr(x, "pmap_takes", True):
                raise ArgumentTypeError(
                    f"{what}: {label(number)} is a {type(x).__name__}, and its shards are "
                    "blocks over a mesh. Try: use jit or shard_map, or pass the Array that "
                    "gpushard.device_put(x, x.sharding) returns",
                    argument="args",
                    type=type(x),
                )
        devices, all_used = pool
        if all_used and len(devices) != size:
            raise ArgumentError(
                f"{what}: devices= has {len(devices)} devices for an axis of {size} elements. Try: "
                "give one for each element",
                argument="devices",
                devices=len(devices),
                size=size,
            )
        self._fun = fun
        ahead: Shape = ()
        if innermost() is None and all_used is not None:
            ahead = _further_sizes(self.leaves, self._dims, size, devices)
        self.frame = frame = DeviceFrame(
            what, label, size, devices, kind=_CHUNKS if all_used is None else "pmap", ahead=ahead
        )
        count = size if all_used is not None else frame.count
        frame.name(axis, count, (frame.axis,))
        frame.sizes = (count,)
        if all_used is None:
            frame.name(axis, size // count)
            frame.sizes = (count, size // count)

    def check_shapes(self, args: Any, shapes: Any) -> None:
        """Check that the shapes in `global_arg_shapes` are those that the function sees."""
        wanted = tree.broadcast_prefix(
            shapes, args, _is_shape, names=("global_arg_shapes", "the arguments")
        )
        for number, (shape, dim) in enumerate(zip(wanted, self._dims, strict=False)):
            full = np.shape(self.leaves[number])
            seen = full if dim is None else (*full[:dim], *full[dim + 1 :])
            if shape is not None and (not _is_shape(shape) or tuple(shape) != seen):
                raise ArgumentError(
                    f"{self.frame.what}: global_arg_shapes has {shape!r} for "
                    f"{self.frame.label(number)}, and the function sees {seen}. One process has "
                    "all of it. Try: give that shape, or None",
                    argument="global_arg_shapes",
                    value=shape,
                    shape=seen,
                )

    def run(self, call: Callable[..., Any], out_axes: Any) -> Any:
        """Call a function with the values that it sees, and make arrays of its results."""
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
