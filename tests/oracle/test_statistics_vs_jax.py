"""Functions that JAX has as we do and NumPy has not: of a size that is given."""

from types import ModuleType

import numpy as np
import pytest

import gpushard as gs
from tests.numpy.compare import put, value


@pytest.mark.parametrize("length", [1, 3, 9])
@pytest.mark.parametrize("axes", ["x", ("x", "y"), None])
def test_counts_of_a_given_length(jax: ModuleType, length: int, axes: object) -> None:
    data = abs(value((23,), "l"))
    weights = value((23,), "d")
    with jax.enable_x64(True):
        for more in ((), (weights,)):
            found = gs.numpy.bincount(put(data, axes), *more, length=length)
            wanted = np.asarray(jax.numpy.bincount(data, *more, length=length))
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-14)


@pytest.mark.parametrize("name", ["nanargmin", "nanargmax"])
def test_where_there_are_only_nans(jax: ModuleType, name: str) -> None:
    data = value((4, 3), "d")
    data[1], data[2, 0] = np.nan, np.nan
    with jax.enable_x64(True):
        wanted = np.asarray(getattr(jax.numpy, name)(data, axis=1))
    found = getattr(gs.numpy, name)(put(data, None, "y"), axis=1)
    np.testing.assert_array_equal(np.asarray(found), wanted)
    assert wanted[1] == -1
