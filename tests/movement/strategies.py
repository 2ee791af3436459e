"""Random shardings, sources and indices for tests of movement, as plain numbers."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._runtime.runtime import Runtime
from tests.movement.element_oracle import Box, Shape, Side

AXES = "xyz"
DEVICES = 12
"""How many devices the random shardings choose from."""

DTYPES = ("int8", "int16", "float32", "float64", "complex128")


@dataclasses.dataclass(frozen=True)
class Grid:
    """A sharding of a user's own: blocks of any size in a grid, each on at least one device."""

    edges: tuple[tuple[int, ...], ...]
    blocks: tuple[tuple[int, tuple[int, ...]], ...]
    """(device id, block number in each dim) of every device."""

    def boxes(self, shape: Shape) -> dict[int, Box]:
        """The box of every device."""
        assert shape == tuple(edges[-1] for edges in self.edges)
        return {
            device: tuple(slice(e[i], e[i + 1]) for e, i in zip(self.edges, block, strict=True))
            for device, block in self.blocks
        }


@dataclasses.dataclass(frozen=True)
class Free:
    """A sharding of a user's own: any boxes that cover the array; some may be equal or empty."""

    shape: Shape
    bounds: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    """(device id, start and stop in each dim) of every device."""

    def boxes(self, shape: Shape) -> dict[int, Box]:
        """The box of every device."""
        assert shape == self.shape
        return {device: tuple(slice(*b) for b in box) for device, box in self.bounds}


class OwnSharding(gs.Sharding):
    """What a user derives for a `Grid` or `Free` boxes of one shape."""

    def __init__(self, runtime: Runtime, boxes: dict[int, Box]) -> None:
        self._runtime = runtime
        self._boxes = boxes

    @property
    def device_set(self) -> set[Any]:
        return {self._runtime.devices[device] for device in self._boxes}

    def devices_indices_map(self, global_shape: Shape) -> dict[Any, Box]:
        boxes = self._boxes
        return {self._runtime.devices[device]: box for device, box in boxes.items()}


Runtimes = dict[tuple[int, bool], Runtime]
"""By number of memory domains, and whether everything is pooled and runs on streams."""


@contextlib.contextmanager
def runtimes_of(
    domains: tuple[int, ...], pooled: dict[str, Any], inline: dict[str, Any]
) -> Iterator[Runtimes]:
    """Make runtimes of all devices for every number of domains, with two kinds of settings."""
    common = {"host_devices": DEVICES, "host_workers": 1}
    with contextlib.ExitStack() as stack:
        yield {
            (count, streams): stack.enter_context(
                testing.runtime(host_domains=count, **common, **(pooled if streams else inline))
            )
            for count, streams in itertools.product(domains, (True, False))
        }


Layout = Side | Grid | Free


def sharding_of(runtime: Runtime, side: Layout) -> gs.Sharding:
    if isinstance(side, Grid):
        return OwnSharding(runtime, side.boxes(tuple(edges[-1] for edges in side.edges)))
    if isinstance(side, Free):
        return OwnSharding(runtime, side.boxes(side.shape))
    devices = np.array(runtime.devices, object)[list(side.devices)].reshape(side.mesh)
    mesh = gs.Mesh(devices, tuple(AXES[: len(side.mesh)]))
    entries = [tuple(AXES[axis] for axis in axes) or None for axes in side.spec]
    return gs.NamedSharding(mesh, gs.P(*entries))


def numbers(shape: Shape, dtype: Any) -> np.ndarray:
    return np.arange(1, math.prod(shape) + 1).reshape(shape).astype(dtype)


@st.composite
def sides(draw: st.DrawFn, ndim: int) -> Side:
    """A mesh over some of the devices, in any order, and a spec over some of its axes."""
    mesh: list[int] = []
    for _ in range(draw(st.integers(1, 3))):
        mesh.append(draw(st.integers(1, min(6, DEVICES // math.prod(mesh)))))
    devices = draw(st.permutations(range(DEVICES)))[: math.prod(mesh)]
    spec: list[list[int]] = [[] for _ in range(ndim)]
    for axis in draw(st.permutations(range(len(mesh)))):
        dim = draw(st.integers(-1, ndim - 1))
        if dim >= 0:
            spec[dim].append(axis)
    return Side(tuple(mesh), tuple(devices), tuple(map(tuple, spec)))


@st.composite
def far_pairs(draw: st.DrawFn, shape: Shape, result: Shape) -> tuple[Side, Side]:
    """A source with two or three holders of every block, and a destination on other devices."""
    devices = draw(st.permutations(range(DEVICES)))
    mesh = (draw(st.integers(2, 3)), draw(st.integers(1, 2)))
    source_dim, dim = (draw(st.integers(-1, len(s) - 1)) for s in (shape, result))
    spec = tuple((1,) if i == source_dim else () for i in range(len(shape)))
    source = Side(mesh, tuple(devices[: math.prod(mesh)]), spec)
    receivers = draw(st.integers(1, 6))
    spec = tuple((0,) if i == dim else () for i in range(len(result)))
    return source, Side((receivers,), tuple(devices[-receivers:]), spec)


@st.composite
def grids(draw: st.DrawFn, shape: Shape) -> Grid:
    """Blocks of any size; every one of them on some device, in any order."""
    room, edges = DEVICES, []
    for n in shape:
        cuts = draw(st.sets(st.integers(1, n - 1), max_size=min(4, room) - 1)) if n > 1 else ()
        edges.append((0, *sorted(cuts), n))
        room //= len(cuts) + 1
    blocks = list(itertools.product(*(range(len(e) - 1) for e in edges)))
    more = st.lists(st.sampled_from(blocks), max_size=DEVICES - len(blocks))
    blocks += draw(more)
    devices = draw(st.permutations(range(DEVICES)))
    return Grid(tuple(edges), tuple(zip(devices, blocks, strict=False)))


@st.composite
def free_boxes(draw: st.DrawFn, shape: Shape) -> Free:
    """Boxes that tile the array like bricks, some grown, and others besides; in any order."""
    boxes = [tuple((0, n) for n in shape)]
    for _ in range(draw(st.integers(0, 6)) if shape else 0):
        box = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        dim = draw(st.integers(0, len(shape) - 1))
        (start, stop) = box[dim]
        cut = draw(st.integers(start, stop))
        for part in ((start, cut), (cut, stop)):
            boxes.append((*box[:dim], part, *box[dim + 1 :]))
    for at in draw(st.lists(st.integers(0, len(boxes) - 1), max_size=3)):
        growth = [
            (draw(st.integers(0, a)), draw(st.integers(b, n)))
            for (a, b), n in zip(boxes[at], shape, strict=True)
        ]
        boxes[at] = tuple(growth)
    boxes += draw(st.lists(st.sampled_from(boxes), max_size=3))
    if draw(st.booleans()):
        starts = [draw(st.integers(0, n)) for n in shape]
        boxes.append(
            tuple((a, draw(st.integers(a, n))) for a, n in zip(starts, shape, strict=True))
        )
    devices = draw(st.permutations(range(DEVICES)))
    return Free(shape, tuple(zip(devices, draw(st.permutations(boxes)), strict=False)))


@st.composite
def sources(draw: st.DrawFn) -> tuple[np.ndarray, Side]:
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=0, max_size=3)))
    return numbers(shape, draw(st.sampled_from(DTYPES))), draw(sides(len(shape)))


@st.composite
def strides(draw: st.DrawFn, shape: Shape) -> tuple[slice, ...]:
    """A slice of every dim with any step, which leaves something of every dim."""
    parts = []
    for n in shape:
        start, step = draw(st.integers(0, n - 1)), draw(st.integers(-3, 3).filter(bool))
        parts.append(slice(start, None, step))
    return tuple(parts)


@st.composite
def indices(draw: st.DrawFn, shape: Shape) -> tuple[Any, ...]:
    """A basic index: integers, slices with any step, new dims, perhaps `...`."""
    steps = st.sampled_from([-4, -3, -2, -1, 1, 1, 2, 3, 5])
    entries: list[Any] = []
    for n in shape:
        bound = st.none() | st.integers(-n - 1, n + 1)
        part = st.builds(slice, bound, bound, st.none() | steps)
        entries.append(draw(st.integers(-n, n - 1) | part | part if n else part))
    kept = draw(st.integers(0, len(entries)))
    if kept < len(entries):
        entries = [*entries[:kept], Ellipsis] if draw(st.booleans()) else entries[:kept]
    for _ in range(draw(st.integers(0, 2))):
        entries.insert(draw(st.integers(0, len(entries))), None)
    return tuple(entries)


def side_of_part(shape: Shape, source: Side, index: tuple[Any, ...]) -> Side:
    """How `x[index]` lies: kept dims keep their axes, unless they have at most one element left."""
    taken = sum(entry is not None and entry is not Ellipsis for entry in index)
    if Ellipsis not in index:
        index = (*index, Ellipsis)
    spec: list[tuple[int, ...]] = []
    dim = 0
    for entry in index:
        if entry is None:
            spec.append(())
        elif entry is Ellipsis:
            for _ in range(len(shape) - taken):
                spec.append(source.spec[dim] if shape[dim] > 1 else ())
                dim += 1
        else:
            if isinstance(entry, slice):
                spec.append(source.spec[dim] if len(range(shape[dim])[entry]) > 1 else ())
            dim += 1
    return dataclasses.replace(source, spec=tuple(spec))
