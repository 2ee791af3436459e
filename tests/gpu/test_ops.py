"""Every row of the table on a GPU, divided in every way; and on a driver without one."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import special
from gpushard.errors import ArgumentTypeError
from gpushard.ops.row import Row
from gpushard.testing.runtime import using
from tests.gpu.device import DRIVERS, SPLITS, Split, make_driver, make_gpu_runtime, needs_gpu
from tests.ops.cases import SAMPLE, cases

LACKING = {"erf": "c"}
"""Kinds of types that CuPy has no loop for, by the name of the row; they are refused."""


def axes_of(partitions: int) -> dict[str, int]:
    """Two axes over so many devices."""
    return {"a": max(partitions // 2, 1), "b": min(partitions, 2)}


@pytest.mark.parametrize("kind", DRIVERS)
@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: row.name)
def test_splits_do_not_change_results(row: Row, kind: str) -> None:
    for number, case in enumerate(itertools.islice(cases(row), 0, None, 3)):
        split: Split = SPLITS[number % len(SPLITS)]
        axes = axes_of(split.partitions)
        lacking = kind == "cupy" and any(
            x.dtype.kind in LACKING.get(row.name, "") for x in case.arrays
        )
        refused: Any = pytest.raises(ArgumentTypeError) if lacking else contextlib.nullcontext()
        with using(make_gpu_runtime(make_driver(kind), split)), refused:
            case.check(gs.make_mesh(tuple(axes.values()), tuple(axes)), close=1e-6)


@needs_gpu
def test_what_cupy_has_no_loop_for_is_computed_another_way_or_refused() -> None:
    x, y = np.array([1j, 0, 2, -1 - 1j]), np.array([0, 0, 1j, np.nan])
    with using(make_gpu_runtime(make_driver("cupy"), Split(4, False))):
        sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        ours = [gs.device_put(value, sharding) for value in (x, y)]
        for name in ("logical_and", "logical_or", "logical_xor"):
            for other, theirs in ((ours[1], y), (0, 0), (True, True)):
                found = getattr(gs.numpy, name)(ours[0], other)
                np.testing.assert_array_equal(np.asarray(found), getattr(np, name)(x, theirs))
        np.testing.assert_array_equal(np.asarray(gs.numpy.logical_not(ours[0])), np.logical_not(x))
        for bounds in ((0, 1), (-1j, None), (None, 1 + 1j), (y, 2)):
            found = gs.numpy.clip(ours[0], *bounds)
            np.testing.assert_array_equal(np.asarray(found), np.clip(x, *bounds))
        with pytest.raises(ArgumentTypeError, match=r"erf of complex128 is not available on GPUs"):
            special.erf(ours[0])
