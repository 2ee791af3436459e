"""Blocks of slabs never overlap, and what is given back can be had again, whole."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._runtime.cuda.memory.slabs import GRANULE, SlabRange, Slabs

SLAB = 16 * GRANULE


class Source:
    """Addresses, some of them side by side, as a driver hands them out."""

    def __init__(self, limit: int | None = None, apart: int = 0) -> None:
        self.limit = limit
        self.apart = apart
        self.next = 1 << 20
        self.slabs: dict[int, int] = {}

    def malloc(self, nbytes: int) -> int:
        if self.limit is not None and sum(self.slabs.values()) + nbytes > self.limit:
            raise MemoryError
        start = self.next
        self.next += nbytes + self.apart
        self.slabs[start] = nbytes
        return start

    def free(self, start: int) -> None:
        del self.slabs[start]


def check(slabs: Slabs, source: Source, blocks: list[SlabRange]) -> None:
    spans = sorted((block.address, block.address + block.nbytes) for block in blocks)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans)), "blocks overlap"
    for start, stop in spans:
        assert start % GRANULE == 0
        within = [at for at, n in source.slabs.items() if at <= start and stop <= at + n]
        assert within, "a block is in no slab"
    assert slabs.total == sum(source.slabs.values())
    assert slabs.free == slabs.total - sum(block.nbytes for block in blocks)


@given(st.lists(st.tuples(st.integers(0, 3 * SLAB), st.integers(0, 7))), st.sampled_from([0, 4096]))
def test_any_order_of_taking_and_giving(steps: list[tuple[int, int]], apart: int) -> None:
    source = Source(apart=apart)
    slabs = Slabs(source.malloc, source.free, SLAB)
    blocks: list[SlabRange] = []
    for nbytes, choice in steps:
        if choice < 4 or not blocks:
            blocks.append(slabs.take(nbytes))
            assert blocks[-1].nbytes >= max(nbytes, 1)
        elif choice < 7:
            slabs.give(blocks.pop(nbytes % len(blocks)))
        else:
            slabs.trim()
        check(slabs, source, blocks)
    for block in blocks:
        slabs.give(block)
    slabs.trim()
    assert (slabs.total, slabs.free, source.slabs) == (0, 0, {})


def test_neighbours_are_joined_within_a_slab_only() -> None:
    source = Source()  # slabs lie side by side
    slabs = Slabs(source.malloc, source.free, SLAB)
    halves = [slabs.take(SLAB // 2) for _ in range(4)]
    for block in halves:
        slabs.give(block)
    assert slabs.take(SLAB).nbytes == SLAB and len(source.slabs) == 2
    slabs.take(SLAB)
    slabs.take(GRANULE)
    assert len(source.slabs) == 3, "a block spans two slabs"


def test_the_smallest_range_that_fits_is_cut() -> None:
    source = Source()
    slabs = Slabs(source.malloc, source.free, SLAB)
    taken = [slabs.take(n * GRANULE) for n in (3, 1, 2, 1, 9)]
    slabs.give(taken[0])
    slabs.give(taken[2])
    assert slabs.take(2 * GRANULE).address == taken[2].address


def test_a_full_driver_is_asked_for_less_and_gets_idle_slabs_back() -> None:
    source = Source(limit=SLAB + 2 * GRANULE)
    slabs = Slabs(source.malloc, source.free, SLAB)
    first = slabs.take(SLAB)
    assert slabs.take(GRANULE).nbytes == GRANULE  # a slab as small as that
    with pytest.raises(MemoryError):
        slabs.take(2 * GRANULE)
    slabs.give(first)
    assert slabs.take(SLAB + GRANULE).nbytes == SLAB + GRANULE
    assert sorted(source.slabs.values()) == [GRANULE, SLAB + GRANULE]
