"""Where the mesh axes of a reshaped array go."""

from __future__ import annotations

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing

CASES = [
    ((8, 6), (48,), ("x",), ("x",)),
    ((8, 6), (48,), (None, "y"), ("y",)),  # moved to the only dim there is
    ((8, 6), (48,), ("x", "y"), ("x",)),  # which has room for one
    ((16,), (4, 4), ("x",), ("x",)),
    ((16,), (2, 8), ("x",), (None, "x")),  # 2 are too few for 4 blocks
    ((4, 2, 6), (8, 6), ("x", None, "y"), ("x", "y")),
    ((4, 2, 6), (8, 6), ("x", "y"), ("x",)),
    ((4, 2, 6), (8, 6), (None, "y"), ("y",)),
    ((8, 6), (8, 2, 3), ("x", "y"), ("x", "y")),
    ((8, 6), (8, 3, 2), ("x", "y"), ("x", "y")),
    ((8, 1, 6), (8, 6), ("x", None, "y"), ("x", "y")),
    ((6, 8), (12, 4), ("y", "x"), ("y", "x")),
    ((12, 4), (6, 8), ("y",), ("y",)),  # 12 goes on into 8, where it does not begin
    ((6, 8), (12, 4), (None, "y"), ("y",)),  # 8 begins within 12
    ((5, 6), (30,), ("x",), ("x",)),
    ((6, 4), (24,), ("x", "y"), ("x",)),  # neither divides: the first dim has its way
]


@pytest.mark.parametrize(("shape", "new", "spec", "expected"), CASES)
def test_axes_stay_where_their_dim_begins(
    shape: tuple[int, ...],
    new: tuple[int, ...],
    spec: tuple[str | None, ...],
    expected: tuple[str | None, ...],
) -> None:
    with testing.runtime(host_devices=8):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        value = np.arange(np.prod(shape)).reshape(shape)
        x = gs.device_put(value, gs.NamedSharding(mesh, gs.P(*spec)))
        found = x.reshape(new)
        assert found.sharding.is_equivalent_to(gs.NamedSharding(mesh, gs.P(*expected)), len(new))
        np.testing.assert_array_equal(found, value.reshape(new))
