"""Every row of the table on a GPU, divided in every way; and on a driver without one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.row import Row
from gpushard.errors import ArgumentTypeError
from gpushard.testing.runtime import using
from tests.gpu.device import CUPY_LACKS, DRIVERS, SPLITS, Split, make_driver, make_gpu_runtime
from tests.ops.cases import SAMPLE, cases
from tests.share import some


def axes_of(partitions: int) -> dict[str, int]:
    """Two axes over so many devices."""
    return {"a": max(partitions // 2, 1), "b": min(partitions, 2)}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("kind", DRIVERS)
@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: row.name)
def test_splits_do_not_change_results(row: Row, kind: str) -> None:
    for number, case in enumerate(itertools.islice(cases(row), 0, None, some(5, 3))):
        split: Split = SPLITS[number % len(SPLITS)]
        axes = axes_of(split.partitions)
        lacks = kind == "cupy" and (row.name, case.arrays[0].dtype.char) in CUPY_LACKS
        with using(make_gpu_runtime(make_driver(kind), split)):
            mesh = gs.make_mesh(tuple(axes.values()), tuple(axes))
            if lacks:
                with pytest.raises(ArgumentTypeError, match="not available for complex128"):
                    case.run(mesh)
            else:
                case.check(mesh, close=1e-6)


@pytest.mark.parametrize("kind", DRIVERS)
def test_zeta_begins_with_one_unless_something_else_is_said(kind: str) -> None:
    with using(make_gpu_runtime(make_driver(kind), SPLITS[0])):
        x = gs.device_put(np.array([2.0, 4.0]))
        first, second = math.pi**2 / 6, math.pi**4 / 90
        np.testing.assert_allclose(gs.special.zeta(x), [first, second])
        np.testing.assert_allclose(gs.special.zeta(x, 2.0), [first - 1, second - 1])
