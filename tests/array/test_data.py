"""Views of blocks in other shapes share the memory of the array."""

import gc

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing


@pytest.mark.parametrize("step", [1, -1])
def test_blocks_in_other_shapes_keep_the_memory_of_their_array(step: int) -> None:
    with testing.runtime(backend="host", host_devices=4) as runtime:
        data = np.arange(8.0).reshape(4, 2)
        devices = np.array(gs.devices())
        mesh, other = (gs.Mesh(order, ("x",)) for order in (devices, devices[::step]))
        x = gs.device_put(data, gs.NamedSharding(mesh, gs.P("x"))).block_until_ready()
        gc.collect()
        before = runtime.claimed_bytes()
        sharding = gs.NamedSharding(other, gs.P("x"))
        view = x._relabel(sharding.tiling((4, 1, 2)), sharding)
        assert runtime.claimed_bytes() == before
        del x
        gc.collect()
        assert runtime.claimed_bytes() == before
        np.testing.assert_array_equal(view, data[::step, None])
        del view
        gc.collect()
        assert runtime.claimed_bytes() == before - data.nbytes
