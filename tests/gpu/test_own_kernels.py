"""Kernels of our own on a GPU, beside the kernels for NumPy as the oracle."""

from __future__ import annotations

import itertools

import pytest

import gpushard as gs
from gpushard.ops.row import Row
from gpushard.ops.table import random, random_counts, random_keys, random_order
from gpushard.testing.runtime import using
from tests.gpu.device import SPLITS, Split, make_driver, make_gpu_runtime, needs_gpu
from tests.ops.cases import cases

pytestmark = needs_gpu

RANDOM = [
    row
    for module in (random, random_counts, random_keys, random_order)
    for row in vars(module).values()
    if isinstance(row, Row)
]


@pytest.mark.parametrize("row", RANDOM, ids=lambda row: row.name)
def test_random_numbers_are_the_hosts(row: Row) -> None:
    for number, case in enumerate(itertools.islice(cases(row), 0, None, 2)):
        split: Split = SPLITS[number % len(SPLITS)]
        axes = {"a": max(split.partitions // 2, 1), "b": min(split.partitions, 2)}
        with using(make_gpu_runtime(make_driver("cupy"), split)):
            close = 1e-9 if case.expected()[0].dtype.itemsize >= 8 else 2e-6
            case.check(gs.make_mesh(tuple(axes.values()), tuple(axes)), close=close)
