"""Copies that are joined write the same elements, of the same places, as each on its own."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter

import numpy as np
import pytest

from gpushard._movement.planning.strided import FEW, StridedCopies, join_copies
from tests.share import seeds


def drawn(draw: np.random.Generator, groups: int, steps: int) -> StridedCopies:
    """Return copies of rows into several blocks; each block's are at so many different steps."""
    block = np.repeat(np.arange(groups), draw.integers(1, 40, groups))
    count = len(block)
    lasting = np.repeat(draw.integers(1, 4, (2, count)), draw.integers(1, 9, count), axis=1)
    step = lasting[:, :count] if steps > 1 else 1 + np.stack((block, block % 3))
    target, source = 10 * np.cumsum(step, axis=1)
    none = np.zeros(count, np.int64)
    copies = StridedCopies(
        block=block,
        device=block % 2,
        read_pair=none - 1,
        source_domain=none,
        remote=none.astype(bool),
        target_offset=target,
        source_offset=source,
        length=np.full((1, count), 2),
        target_stride=np.ones((1, count), np.int64),
        source_stride=np.full((1, count), 3),
        wave=none,
        phase=none,
        point=np.stack((np.arange(count), none)),
    )
    return copies.take(draw.permutation(count))


def written(copies: StridedCopies) -> Counter[tuple[int, ...]]:
    """Count (block, device, place there, place of the source) of all elements."""
    found: Counter[tuple[int, ...]] = Counter()
    for n, (block, device) in enumerate(zip(copies.block, copies.device, strict=True)):
        for at in itertools.product(*map(range, copies.length[:, n])):
            target = copies.target_offset[n] + at @ copies.target_stride[:, n]
            source = copies.source_offset[n] + at @ copies.source_stride[:, n]
            found[block, device, target, source] += 1
    return found


@pytest.mark.parametrize("steps", [1, 9])
@pytest.mark.parametrize("seed", seeds(20))
def test_joined_copies_write_what_each_would(seed: int, steps: int) -> None:
    draw = np.random.default_rng(seed)
    groups = int(draw.integers(1, 9))
    copies = drawn(draw, groups, steps)
    made = join_copies(copies, 0)
    assert written(made) == written(copies)
    if len(copies.block) <= FEW:
        assert made is copies
    elif steps == 1:
        assert len(made.block) == groups


def in_a_row(count: int, block: np.ndarray) -> StridedCopies:
    """Return rows that all are a step apart, into some blocks."""
    numbers = np.arange(count)
    drew = drawn(np.random.default_rng(0), 1, 1).take(np.zeros(count, np.int64))
    return dataclasses.replace(
        drew, block=block, target_offset=9 * numbers, source_offset=8 * numbers, point=numbers[None]
    )


def test_few_copies_are_not_joined() -> None:
    for count, joint in ((FEW, FEW), (FEW + 1, 1)):
        copies = in_a_row(count, np.zeros(count, np.int64))
        made = join_copies(copies, 0)
        assert len(made.block) == joint and written(made) == written(copies)


def test_what_is_alone_stays_so_at_both_ends() -> None:
    copies = in_a_row(FEW + 2, np.repeat([0, 1, 2], [1, FEW, 1]))
    made = join_copies(copies, 0)
    assert made.block.tolist() == [0, 1, 2] and written(made) == written(copies)


def test_the_same_step_to_another_block_joins_nothing() -> None:
    copies = in_a_row(90, np.arange(90) // 30)
    made = join_copies(copies, 0)
    assert made.block.tolist() == [0, 1, 2] and written(made) == written(copies)
