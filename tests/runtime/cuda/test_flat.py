"""Jobs number exactly the common elements of two boxes, in flat order, in few rows."""

from __future__ import annotations

import dataclasses
import math
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard.runtime.cuda.batches import Allocation
from gpushard.runtime.cuda.flat import (
    MOST_DIMS,
    UNITS_PER_BLOCK,
    FlatBox,
    FlatCopy,
    FlatJobs,
    count_common,
    make_flat_jobs,
)
from tests.kernels.flats import indices, random_box, random_shape
from tests.share import examples

EVERYTHING = Allocation(0, 1 << 62)


def copy_of(box: FlatBox, other: FlatBox, itemsize: int = 4, buffer: int = 1 << 30) -> FlatCopy:
    return FlatCopy(1 << 20, EVERYTHING, box, other, buffer, EVERYTHING, itemsize)


def positions(jobs: FlatJobs) -> list[int]:
    """The position in the shard of every common unit, by the definition of a job."""
    (job,) = jobs.table
    count = int(job["row_count"])
    numbers = jobs.rows[int(job["rows"]) :][: count * (3 if job["mapped"] else 2)]
    before, offset, *shift = numbers.reshape(-1, count)
    found = []
    for n in range(int(job["total"])):
        row = int(np.searchsorted(before, n, side="right")) - 1
        low = int(jobs.block_rows[n // UNITS_PER_BLOCK])
        assert low <= row
        rank = n + int(offset[row])
        if not job["mapped"]:
            found.append(rank)
            continue
        flat = int(job["start"])
        for dim in reversed(range(int(job["dims"]))):
            rank, digit = divmod(rank, int(job["extent"][dim]))
            flat += digit * int(job["stride"][dim])
        assert rank == 0
        found.append(flat + int(shift[0][row]))
    return found


@given(st.lists(st.sampled_from((1, 2, 2, 3, 5)), max_size=8), st.randoms(use_true_random=False))
@examples(300)
def test_common_elements_are_numbered_in_flat_order(
    factors: list[int], source: random.Random
) -> None:
    box, other = (random_box(source, random_shape(source, factors, 8)) for _ in range(2))
    common = np.isin(indices(box), indices(other))
    itemsize, shift = source.choice((1, 2, 4, 8, 16)), source.choice((0, 1))
    jobs = make_flat_jobs([copy_of(box, other, itemsize, (1 << 30) + shift * itemsize)])
    assert count_common(box, other) == count_common(other, box) == common.sum()
    if not common.any():
        assert jobs.blocks == 0 and len(jobs.table) == 0
        return
    unit = int(jobs.table["unit"][0])
    group = unit // itemsize
    found = [at * group + i for at in positions(jobs) for i in range(group)]
    assert found == np.flatnonzero(common).tolist()
    assert all(int(jobs.table[side][0]) % unit == 0 for side in ("storage", "buffer"))


def test_what_is_whole_in_one_shape_is_one_row() -> None:
    box = FlatBox((4, 6, 10), (1, 0, 0), (3, 6, 10))
    other = FlatBox((8, 30), (3, 0), (7, 30))
    (job,) = make_flat_jobs([copy_of(box, other)]).table
    assert job["row_count"] == 1 and not job["mapped"]
    assert job["unit"] == 8 and job["total"] == 90 // 2


def test_neighbours_that_stay_together_are_one_unit() -> None:
    for columns, unit in ((16, 16), (8, 8), (12, 4), (4, 4), (3, 1)):
        box = FlatBox((64, 48), (0, columns), (64, 2 * columns))
        other = FlatBox((16, 192), (1, 0), (9, 48))
        (job,) = make_flat_jobs([copy_of(box, other, itemsize=1)]).table
        assert job["unit"] == unit
    (job,) = make_flat_jobs([copy_of(box, other, 1, (1 << 30) + 1)]).table
    assert job["unit"] == 1


def test_many_short_rows_are_mapped_from_few_long_ones() -> None:
    column = FlatBox((1000, 100), (0, 7), (1000, 8))
    halves = FlatBox((2, 50_000), (1, 0), (2, 50_000))
    (job,) = make_flat_jobs([copy_of(halves, column)]).table
    assert job["mapped"] and job["row_count"] == 1 and job["total"] == 500
    (job,) = make_flat_jobs([copy_of(column, halves)]).table
    assert not job["mapped"] and job["row_count"] == 1


def test_the_packer_works_for_the_rows_within_the_other_box_only() -> None:
    rows = 1 << 40
    box = FlatBox((rows, 3), (0, 1), (rows, 2))
    other = FlatBox((3, rows // 4, 4), (2, 5, 1), (3, 8, 3))
    tracemalloc.start()
    jobs = make_flat_jobs([copy_of(box, other), copy_of(other, box)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    first = 2 * rows + 4 * 5 + 1
    expected = sum((first + 4 * i + j) % 3 == 1 for i in range(3) for j in range(2))
    assert jobs.table["total"].tolist() == [expected, expected]
    assert peak < 1 << 20


def test_blocks_are_dealt_out_by_units_and_know_their_rows() -> None:
    box = FlatBox((100, 96), (0, 0), (100, 95))
    other = FlatBox((50, 192), (0, 0), (50, 191))
    jobs = make_flat_jobs([copy_of(box, other), copy_of(box, box)])
    totals = jobs.table["total"].tolist()
    assert totals == [100 * 95, 100 * 95]
    per_job = [math.ceil(total / UNITS_PER_BLOCK) for total in totals]
    assert jobs.first.tolist() == [0, per_job[0], sum(per_job)]
    assert len(jobs.block_rows) == jobs.blocks and jobs.block_rows[0] == 0
    assert jobs.block_rows[per_job[0]] == 0, "rows are counted for each job"
    assert make_flat_jobs([]).blocks == 0


def test_scalars_and_empty_arrays_have_flat_orders_too() -> None:
    scalar = FlatBox((), (), ())
    assert count_common(scalar, FlatBox((1, 1), (0, 0), (1, 1))) == 1
    assert make_flat_jobs([copy_of(scalar, scalar)]).table["total"].tolist() == [1]
    empty = FlatBox((0, 3), (0, 0), (0, 3))
    assert count_common(empty, FlatBox((5, 0), (1, 0), (2, 0))) == 0
    assert make_flat_jobs([copy_of(empty, empty)]).blocks == 0


def test_what_leaves_its_allocation_or_is_no_reshape_is_refused() -> None:
    memory, buffer = Allocation(4096, 8 * 4), Allocation(8192, 4 * 4)
    box, other = FlatBox((4, 4), (0, 0), (2, 4)), FlatBox((2, 8), (0, 2), (2, 6))
    fine = FlatCopy(4096, memory, box, other, 8192, buffer, 4)
    assert make_flat_jobs([fine]).blocks == 1
    for change, message in (
        ({"storage": 4100}, "outside"),
        ({"storage": 4080}, "outside"),
        ({"storage_memory": Allocation(4096, 31)}, "outside"),
        ({"buffer": 8196}, "outside"),
        ({"buffer_memory": Allocation(8192, 15)}, "outside"),
        ({"itemsize": 8}, "outside"),
        ({"buffer": 8190, "buffer_memory": Allocation(8190, 64)}, "misaligned"),
        ({"itemsize": 3}, "3 bytes"),
        ({"other": FlatBox((3, 5), (0, 0), (3, 5))}, "differ in size"),
    ):
        with pytest.raises(AssertionError, match=message):
            make_flat_jobs([dataclasses.replace(fine, **change)])
    with pytest.raises(AssertionError, match="not a box"):
        FlatBox((4, 4), (0, 0), (4, 5))
    many = MOST_DIMS + 1
    with pytest.raises(AssertionError, match="more than 8 dims"):
        count_common(*[FlatBox((4,) * many, (1,) * many, (3,) * many)] * 2)
