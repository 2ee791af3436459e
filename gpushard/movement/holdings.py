"""Which blocks each memory domain holds, and on which device. Pure."""

from __future__ import annotations

import dataclasses
import functools
import weakref

import numpy as np

from gpushard.geometry.tiling import Assignment
from gpushard.typing import IntArray


@dataclasses.dataclass(frozen=True, eq=False)
class Holdings:
    """The distinct (memory domain, block) pairs of an assignment, sorted.

    Devices of a domain that hold the same block share one copy of it; its home is the device that
    is charged for it.
    """

    blocks: int
    """Number of blocks of the grid."""

    key: IntArray
    """domain * blocks + block of each pair, ascending."""

    domain: IntArray
    """Domain of each pair."""

    block: IntArray
    """Row-major block number of each pair."""

    home: IntArray
    """Device position that is charged for each pair: holder number (block mod holders)."""

    of_device: IntArray
    """The pair of each device."""

    device_domain: IntArray
    """The domain of each device."""

    coordinates: IntArray
    """Block number of each pair in each dim, shape (ndim, pairs)."""

    def find(self, domain: IntArray, block: IntArray) -> tuple[IntArray, IntArray]:
        """Look up pairs.

        Returns:
          The pair's number, and whether the domain holds the block at all.
        """
        wanted = domain * self.blocks + block
        at = np.minimum(self.key.searchsorted(wanted), len(self.key) - 1)
        return at, np.asarray(self.key[at] == wanted)

    @functools.cached_property
    def by_block(self) -> tuple[IntArray, IntArray, IntArray]:
        """Pairs sorted by block, the first of each block, and how many domains hold it."""
        order = np.argsort(self.block, kind="stable")
        counts = np.bincount(self.block, minlength=self.blocks)
        return order, np.cumsum(counts) - counts, counts

    def in_domains(self, domains: IntArray) -> tuple[IntArray, IntArray]:
        """Return the first pair of each given domain, and how many pairs it has."""
        start = self.domain.searchsorted(domains, side="left")
        return start, self.domain.searchsorted(domains, side="right") - start


_holdings: weakref.WeakKeyDictionary[Assignment, Holdings] = weakref.WeakKeyDictionary()


def holdings(assignment: Assignment) -> Holdings:
    """Return the distinct (domain, block) pairs of an assignment; cached as long as it lives.

    A device's domain is its `memory_domain`; one without is a domain of its own.
    """
    found = _holdings.get(assignment)
    if found is None:
        found = _holdings[assignment] = _make_holdings(assignment)
    return found


def _make_holdings(assignment: Assignment) -> Holdings:
    devices = assignment.devices
    domain = np.array(
        [getattr(device, "memory_domain", i) for i, device in enumerate(devices)], np.int64
    )
    blocks = int(np.prod(assignment.counts, dtype=np.int64))
    keys = domain * blocks + assignment.flat
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    first = np.concatenate(([True], in_order[1:] != in_order[:-1]))
    starts = np.flatnonzero(first)
    of_device = np.empty(len(devices), np.int64)
    of_device[order] = np.cumsum(first) - 1
    members = np.diff(starts, append=len(devices))
    block = in_order[starts] % blocks
    strides = np.array(assignment.strides, np.int64)[:, None]
    counts = np.array(assignment.counts, np.int64)[:, None]
    return Holdings(
        blocks=blocks,
        key=in_order[starts],
        domain=in_order[starts] // blocks,
        block=block,
        home=order[starts + block % members],
        of_device=of_device,
        device_domain=domain,
        coordinates=block // strides % counts,
    )
