"""What a reshard costs in calls of CUDA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from tests.gpu.device import DRIVERS, Counted, Split, gpu_runtime, make_driver

LAUNCHES = ("launch_pieces", "launch_table", "copy", "copy_peer")


@pytest.mark.parametrize("kind", DRIVERS)
@pytest.mark.parametrize("size", [16, 64, 256])
def test_a_small_reshard_is_at_most_two_launches_and_two_records(kind: str, size: int) -> None:
    driver = Counted(make_driver(kind))
    with gpu_runtime(driver, Split(8, False), poisoned=False):
        mesh = gs.make_mesh((8,), "x")
        rows, columns = (gs.NamedSharding(mesh, gs.P(*spec)) for spec in (("x",), (None, "x")))
        value = np.arange(float(size * size)).reshape(size, size)
        x = gs.device_put(value, rows).block_until_ready()
        gs.reshard(x, columns).block_until_ready()  # makes the plan, and its table
        for _ in range(3):
            x.block_until_ready()
            driver.counts.clear()
            y = gs.reshard(x, columns)
            y.block_until_ready()
            counts: dict[str, Any] = driver.counts
            assert sum(counts.get(name, 0) for name in LAUNCHES) <= 2, counts
            assert counts.get("record", 0) <= 2, counts
            assert not counts.keys() & {"malloc", "upload", "event", "stream"}, counts
            assert np.array_equal(np.asarray(y), value)
