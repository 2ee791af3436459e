"""Which operands say where an operation runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops.aval import Aval
from gpushard._ops.committed import common_devices, common_memory, is_committed
from gpushard._ops.operand import Scalar, Sharded
from gpushard.errors import ShardingError

FLOAT = np.dtype(float)


def operand(shape: tuple[int, ...], sharding: Any, *, committed: bool = True) -> Sharded:
    return Sharded(Aval(shape, FLOAT), sharding.tiling(shape), sharding, committed)


def test_what_has_dims_decides_before_what_has_none_and_where_the_result_goes() -> None:
    with testing.runtime(host_devices=4):
        devices = gs.devices()
        here, there, out = (gs.SingleDeviceSharding(device) for device in devices[:3])
        x, number = operand((8,), here), operand((), there)
        for operands in ([x, number], [number, x]):
            common = common_devices("f", operands, (out, (8,)))
            assert common.devices == (devices[0],) and common.single == here
        common = common_devices("f", [number], (out, (8,)))
        assert common.devices == (devices[2],) and common.single == out
        assert common_devices("f", [number, Scalar(Aval((), FLOAT, True))]).single == there
        line = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        common = common_devices("f", [number], (line, (8,)))
        assert common.named == (line.mesh,) and common.devices == tuple(devices)
        loose = operand((), here, committed=False)
        assert common_devices("f", [loose, number]).devices == (devices[1],)
        assert is_committed([loose, number]) and not is_committed([loose])
        free = operand((8,), here, committed=False)
        assert not is_committed([free, number])  # what has no dims has no say


def test_of_uncommitted_arrays_the_one_on_most_devices_decides() -> None:
    with testing.runtime(host_devices=4):
        line = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        one = gs.SingleDeviceSharding(gs.devices()[1])
        operands = [operand((8,), sharding, committed=False) for sharding in (one, line, one)]
        common = common_devices("add", operands)
        assert common.named == (line.mesh,) and common.devices == tuple(gs.devices())


def test_results_lie_in_the_memory_that_all_operands_lie_in() -> None:
    with testing.runtime(host_devices=4):
        line = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        beside = line.with_memory_kind("pinned_host")
        x, y = operand((8,), line), operand((8,), beside)
        found = [common_memory(operands) for operands in ([x], [y], [y, y], [x, y], [y, x])]
        assert found == ["device", "pinned_host", "pinned_host", "device", "device"]


def test_errors_name_four_devices_and_of_five_the_first_three() -> None:
    with testing.runtime(host_devices=6):
        *devices, last = gs.devices()
        other = operand((8,), gs.SingleDeviceSharding(last))
        for many, named in ((4, devices[:4]), (5, [*devices[:3], "... 5 in all"])):
            line = gs.NamedSharding(gs.make_mesh((many,), "x", devices=devices[:many]), gs.P())
            with pytest.raises(ShardingError) as caught:
                common_devices("add", [operand((8,), line), other])
            assert f"on {', '.join(map(str, named))} and" in str(caught.value)
