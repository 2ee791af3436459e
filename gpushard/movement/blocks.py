"""What the host copies: the distinct blocks of a tiling, each once. Pure."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.box import whole
from gpushard.geometry.tiling import Assignment, Tiling
from gpushard.movement.dim_map import identity
from gpushard.movement.holdings import holdings
from gpushard.movement.overlap import volumes
from gpushard.movement.plan import make_plan
from gpushard.typing import HostArray, Index, Shape


@dataclass(frozen=True, eq=False)
class Blocks:
    """The distinct (memory domain, block) pairs of a tiling, for copies from and to the host."""

    homes: list[int]
    """Position of the device that is charged for each pair."""

    shapes: list[Shape]
    """Shape of each pair's block."""

    indices: list[Index]
    """Slices of the global array that it holds."""

    volumes: list[int]
    """Elements of it."""

    of_device: list[int]
    """The pair of each device."""

    sharers: list[list[int]]
    """For each distinct block, the pairs that hold it."""

    distinct: list[int]
    """For each distinct block that is not empty, one of them."""

    whole: int | None
    """One of them that is the whole array."""

    fetches: list[tuple[int, Index, Index]]
    """(device, index within its shard, index of the global array) of copies that read every
    element once."""

    largest: int
    """Elements of the largest block."""

    total: int
    """Elements of all of them."""


_blocks: weakref.WeakKeyDictionary[Tiling, Blocks] = weakref.WeakKeyDictionary()


def blocks_of(tiling: Tiling) -> Blocks:
    """Return the distinct blocks of a tiling; cached as long as the tiling lives."""
    found = _blocks.get(tiling)
    if found is None:
        found = _blocks[tiling] = _make_blocks(tiling)
    return found


def _make_blocks(tiling: Tiling) -> Blocks:
    pairs = holdings(tiling.assignment)
    homes = pairs.home.tolist()
    volume = volumes(pairs, tiling)
    order, first, counts = pairs.by_block
    sharers = [order[i : i + n].tolist() for i, n in zip(first, counts, strict=True) if n]
    distinct = [group[0] for group in sharers if volume[group[0]]]
    size = math.prod(tiling.shape)
    if pairs.spans is None:
        fetches = [(homes[pair], whole(()), tiling.indices[homes[pair]]) for pair in distinct]
    else:
        fetches = _fetches_of_boxes(tiling)
    return Blocks(
        homes=homes,
        shapes=[tiling.shard_shapes[home] for home in homes],
        indices=[tiling.indices[home] for home in homes],
        volumes=volume.tolist(),
        of_device=pairs.of_device.tolist(),
        sharers=sharers,
        distinct=distinct,
        whole=next((pair for pair in distinct if volume[pair] == size), None),
        fetches=fetches,
        largest=int(volume.max()),
        total=int(volume.sum()),
    )


@dataclass(frozen=True)
class _Reader:
    """Stands for the host where copies to it are planned."""

    memory_domain: int
    """One that no device has."""


def _fetches_of_boxes(tiling: Tiling) -> list[tuple[int, Index, Index]]:
    """Share all elements out among devices whose boxes may overlap."""
    reader = _Reader(1 + max(getattr(device, "memory_domain", 0) for device in tiling.devices))
    here = np.zeros((tiling.ndim, 1), np.int64)
    to_host = Tiling.regular(tiling.shape, Assignment((reader,), (1,) * tiling.ndim, here))
    plan = make_plan(tiling, to_host, identity(tiling.shape), itemsize=1)
    return [
        (of, index[:-1], host_index[:-1])  # without the "..."
        for step in plan.recipe.steps
        for phase in step.phases
        for _, host_index, of, index, _ in phase.moves
    ]


def box_of(array: HostArray, index: Index) -> HostArray:
    """Return a box of a host array as a view, of a 0-d array too."""
    entries: Any = (*index, ...)
    box: HostArray = array[entries]
    return box
