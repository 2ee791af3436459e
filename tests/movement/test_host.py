"""Which parts of arrays go between the host and devices."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from gpushard._geometry.free_boxes import tiling_from_indices
from gpushard._geometry.tiling import Tiling
from gpushard._movement.distinct_blocks import blocks_of
from gpushard._movement.from_host import can_alias


@dataclass(frozen=True)
class FakeDevice:
    """A device, and the memory domain that it is in."""

    id: int
    memory_domain: int


def tiling_of(shape: tuple[int, ...], domains: tuple[int, ...], *boxes: str) -> Tiling:
    """Return a tiling of boxes that are written as indices, such as "2:4, :"."""
    devices = [FakeDevice(n, domain) for n, domain in enumerate(domains)]
    parts = [eval(f"np.s_[{box},]", {"np": np}) for box in boxes]
    return tiling_from_indices(shape, dict(zip(devices, parts, strict=True)))


@pytest.mark.parametrize("domains", [(0, 1), (1, 0), (3, 0), (0, 2)])
def test_elements_that_two_domains_have_are_read_from_both(domains: tuple[int, int]) -> None:
    tiling = tiling_of((12,), domains, "0:8", "4:12")
    value = np.arange(12)
    read: dict[int, list[int]] = {0: [], 1: []}
    for device, of, to in blocks_of(tiling).fetches:
        shard = value[tiling.indices[device]]
        assert shard[of].tolist() == value[to].tolist()
        read[device] += shard[of].tolist()
    assert sorted(read[0] + read[1]) == value.tolist()
    assert len(read[0]) == len(read[1]) == 6


def test_host_data_is_used_in_place_if_all_boxes_are_dense_and_aligned() -> None:
    """At multiples of 16 bytes."""
    memory = np.zeros(80, np.uint8)
    start = -memory.__array_interface__["data"][0] % 16

    def data(shape: tuple[int, ...], dtype: str, offset: int = 0) -> np.ndarray:
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        return memory[start + offset :][:nbytes].view(dtype).reshape(shape)

    double = np.dtype(np.float64)
    halves, thirds = (tiling_of((6,), (0, 0), *cut) for cut in (("0:4", "4:6"), ("0:3", "3:6")))
    assert can_alias(halves, double, data((6,), "f8"))
    assert not can_alias(halves, double, data((6,), "f8", 8))
    assert not can_alias(halves, double, data((6,), "f8", 4))
    assert not can_alias(halves, double, data((6,), "i8"))
    assert not can_alias(thirds, double, data((6,), "f8"))  # the first box is aligned
    assert not can_alias(thirds, double, data((6,), "f8", 8))  # the second one is
    assert can_alias(thirds, np.dtype(np.complex64), data((6,), "c8")) is False
    assert can_alias(tiling_of((6,), (0, 0), "0:0", "0:6"), double, data((6,), "f8"))
    columns = tiling_of((2, 4), (0, 0), ":, 0:2", ":, 2:4")
    assert not can_alias(columns, double, data((2, 4), "f8"))
    rows = tiling_of((2, 4), (0, 0), "0:1, :", "1:2, :")
    assert can_alias(rows, double, data((2, 4), "f8"))
