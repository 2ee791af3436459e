"""Remainders by one number are NumPy's to the bit, and none is taken one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._ops import host_remainder
from gpushard._ops.host_remainder import remainder
from gpushard.testing import runtime

_TYPES = [*np.typecodes["AllInteger"]]


@pytest.fixture(scope="module", autouse=True)
def few_are_enough():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_remainder, "LEAST", 2)
        yield


@given(st.sampled_from(_TYPES), st.sampled_from(_TYPES), st.data(), st.booleans(), st.booleans())
def test_every_integer_and_divisor(dtype, other, data, turned, given_out):
    dtype, other = np.dtype(dtype), np.dtype(other if data.draw(st.booleans()) else dtype)
    ends = np.iinfo(dtype)
    bits = data.draw(st.binary(min_size=6 * dtype.itemsize, max_size=6 * dtype.itemsize))
    x = np.frombuffer(bits, dtype).copy()
    x[:2] = ends.min, ends.max
    x = x.reshape(2, 3).T if turned else x.reshape(2, 3)
    of = np.iinfo(other)
    edges = st.sampled_from([of.min, of.max, 0, 1, 2, 7, of.max // 2])
    y = other.type(data.draw(edges | st.integers(of.min, of.max)))
    with np.errstate(all="ignore"):
        wanted = np.remainder(x, y)  # floats, of uint64 and signed integers
        out = np.empty(x.shape, wanted.dtype) if given_out else None
        found = remainder(x, y, out=out)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    assert out is None or found is out


def test_the_row_divides_and_calls_no_remainder(monkeypatch):
    """Of one number; arrays of divisors are left to NumPy."""
    calls = []

    class Counting:
        def __getattr__(self, name):
            calls.append(name)
            return getattr(np, name)

    monkeypatch.setattr(host_remainder, "np", Counting())
    with runtime(backend="host", host_devices=2):
        host = np.arange(-40, 40, dtype=np.int32).reshape(8, 10)
        x = gs.device_put(host, gs.NamedSharding(gs.make_mesh((2,), ("x",)), gs.P("x")))
        assert np.array_equal(x % 7, host % 7)
        assert "floor_divide" in calls and "remainder" not in calls
        assert np.array_equal(x % np.full((8, 10), 7, np.int32), host % 7)
    assert "remainder" in calls
