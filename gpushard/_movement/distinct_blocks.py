"""The distinct blocks of a tiling, for copies between the host and shards: each is copied once."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.tiling import Assignment, Tiling, whole
from gpushard._movement.planning.copies import expand
from gpushard._movement.planning.dim_maps import identity
from gpushard._movement.planning.holdings import holdings, overlap, volumes
from gpushard._typing import HostArray, Index, Shape


@dataclass(frozen=True, eq=False)
class Blocks:
    """The distinct (memory domain, block) pairs of a tiling, for copies from and to the host."""

    homes: list[int]  # position of the device that is charged for each pair
    shapes: list[Shape]  # shape of each pair's block
    indices: list[Index]  # slices of the global array that it holds
    volumes: list[int]  # elements of it
    of_device: list[int]  # the pair of each device
    sharers: list[list[int]]  # for each distinct block, the pairs that hold it
    distinct: list[int]  # for each distinct block that is not empty, one of them
    whole: int | None  # one of them that is the whole array
    # (device, index within its shard, index of the global array) of copies that read every element
    # once.
    fetches: list[tuple[int, Index, Index]]
    largest: int  # elements of the largest block
    total: int  # elements of all of them


_blocks: weakref.WeakKeyDictionary[Tiling, Blocks] = weakref.WeakKeyDictionary()


def blocks_of(tiling: Tiling) -> Blocks:
    """Return the distinct blocks of a tiling; cached as long as the tiling lives."""
    blocks = _blocks.get(tiling)
    if blocks is None:
        blocks = _blocks[tiling] = _make_blocks(tiling)
    return blocks


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

    memory_domain: int  # one that no device has


def _fetches_of_boxes(tiling: Tiling) -> list[tuple[int, Index, Index]]:
    """Share all elements out among devices whose boxes may overlap."""
    reader = _Reader(1 + max(getattr(device, "memory_domain", 0) for device in tiling.devices))
    here = np.zeros((tiling.ndim, 1), np.int64)
    to_host = Tiling.regular(tiling.shape, Assignment((reader,), (1,) * tiling.ndim, here))
    cut = overlap(tiling, to_host, identity(tiling.shape))
    copies = expand(cut, np.flatnonzero(cut.volume))
    rows = zip(
        cut.held.home[copies.held].tolist(),
        copies.source_offset.T.tolist(),
        copies.destination_offset.T.tolist(),
        copies.length.T.tolist(),
        strict=True,
    )
    return [(of, _slices(at, size), _slices(to, size)) for of, at, to, size in rows]


def _slices(start: Sequence[int], length: Sequence[int]) -> Index:
    return tuple(slice(at, at + n) for at, n in zip(start, length, strict=True))


def box_of(array: HostArray, index: Index) -> HostArray:
    """Return a box of a host array as a view, of a 0-d array too."""
    entries: Any = (*index, ...)
    box: HostArray = array[entries]
    return box
