"""Which device pays for what the calls of a kernel make."""

import itertools

import numpy as np
import pytest

import gpushard as gs

AXES = None, "x", "y", ("x", "y")


def charges() -> np.ndarray:
    return np.array([device.memory_stats()["bytes_in_use"] for device in gs.devices()])


@pytest.mark.parametrize("shape", [(8, 12), (7, 5)])
def test_blocks_of_results_are_charged_as_those_of_arrays_that_are_put_there(shape):
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    values = np.arange(float(np.prod(shape))).reshape(shape)
    for rows, columns in itertools.product(AXES, repeat=2):
        if set(rows or ()) & set(columns or ()):
            continue
        start = charges()
        x = gs.device_put(values, gs.NamedSharding(mesh, gs.P(rows, columns)))
        put = charges()
        y = x + x
        assert np.array_equal(charges() - put, put - start), (rows, columns)
        assert y.sharding == x.sharding
        del x, y
