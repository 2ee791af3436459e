"""Which blocks share memory, as far as writing them in place goes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._movement import ownership
from gpushard._movement.block_collectives import tiling_over
from gpushard._movement.buffer import ShardedBuffer
from gpushard.testing import runtime


@pytest.mark.parametrize(
    ("starts", "apart"),
    [
        ((0, 2, 4), True),
        ((4, 0, 2), True),
        ((0, 2, 3), False),  # the last two
        ((0, 1, 4), False),  # the first two
        ((0, 2, 2), False),
        ((0, 6, 1), False),
    ],
)
def test_blocks_that_differ_are_apart_where_they_have_no_byte_in_common(
    starts: tuple[int, ...], apart: bool
) -> None:
    memory = np.arange(8)
    with runtime(host_devices=3) as rt:
        tiling = tiling_over(rt.devices, (6,), 0)
        buffer = ShardedBuffer(tiling, memory.dtype, [memory[n : n + 2] for n in starts], [])
        assert buffer.are_apart() is apart
        assert buffer.are_apart() is apart
        replicas = tiling_over(rt.devices, (2,), None)
        for of, same in (([memory[:2]] * 3, True), ([memory[n : n + 2] for n in (0, 0, 1)], False)):
            assert ShardedBuffer(replicas, memory.dtype, of, []).are_apart() is same


def test_replicas_are_one_if_each_has_the_claim_and_the_address_of_the_first() -> None:
    memory, claim, other = np.arange(8), object(), object()
    backend = SimpleNamespace(address=lambda x: x.__array_interface__["data"][0])
    values = [memory, memory, memory.view(), memory.copy(), memory[1:]]
    buffer: Any = SimpleNamespace(
        runtime=SimpleNamespace(backend=backend), values=values, claims=[claim] * 5
    )
    for sharers, one in (((0, 1), True), ((0, 2), True), ((0, 3), False), ((0, 1, 2, 4), False)):
        block: Any = SimpleNamespace(home=0, sharers=sharers)
        assert ownership._is_one(buffer, block) is one
    buffer.claims[1] = other
    block = SimpleNamespace(home=0, sharers=(0, 1, 2))
    assert not ownership._is_one(buffer, block)


@pytest.mark.parametrize("devices", [4, 24])
def test_an_array_whose_blocks_have_one_claim_is_written_in_place(devices: int) -> None:
    """However many there are; and not while one of them is held elsewhere."""
    with runtime(host_devices=devices) as rt:
        rows = gs.NamedSharding(gs.make_mesh((devices,), "x"), gs.P("x"))
        first = gs.device_put(np.zeros(2 * devices), rows)
        x = gs.reshard(gs.reshard(first, gs.NamedSharding(rows.mesh, gs.P())), rows)
        del first
        x = (x + 1).block_until_ready()
        addresses = [rt.backend.address(shard) for shard in x._live().values]
        x[1:3] = 5
        assert [rt.backend.address(shard) for shard in x._live().values] == addresses
        held = x.addressable_data(0)
        x[1:3] = 6
        assert np.asarray(held).tolist() == [1, 5]
        assert np.asarray(x).tolist() == [1, 6, 6] + [1] * (2 * devices - 3)
