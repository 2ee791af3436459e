"""Operations on the CUDA backend, on a driver without a GPU whose streams run late."""

from __future__ import annotations

import itertools

import pytest

import gpushard as gs
from gpushard._ops.row import Row
from gpushard._runtime.checking.checker import Checker
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.testing.runtime import using
from tests.ops.cases import AXES, SAMPLE, cases
from tests.runtime.cuda.fake_driver import FakeDriver
from tests.share import some

DEVICES = 6


def make_runtime(seed: int, gpus: int) -> Runtime:
    chosen = Settings(backend="cuda", partitions=DEVICES // gpus, slab_bytes=1 << 20)
    backend = CudaBackend(chosen, FakeDriver(gpus, seed=seed, peers=seed % 4 != 0))
    return Runtime(chosen, Checker(backend))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: row.name)
def test_splits_do_not_change_results(row: Row) -> None:
    for seed, case in enumerate(itertools.islice(cases(row), 0, None, some(8, 4))):
        with using(make_runtime(seed, (1, 2, 6)[seed % 3])):
            case.check(gs.make_mesh(tuple(AXES.values()), tuple(AXES)))
