"""What is chosen by its bits is what NumPy chooses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._ops import host_where as module
from gpushard._ops.host_where import select, where_on_host


@pytest.fixture(scope="module", autouse=True)
def few_are_enough():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LEAST", 2)
        patch.setattr(module, "_PIECE", 14)
        yield


@given(
    st.integers(0, 1 << 30),
    st.sampled_from(["?", "b", "H", "e", "i", "f", "q", "d", "F", "D"]),
    st.lists(st.lists(st.booleans(), min_size=2, max_size=2), min_size=3, max_size=3),
    st.sampled_from(["?", "i", "d"]),
    st.booleans(),
)
def test_every_bit_is_that_of_numpy(seed, dtype, wide, of_condition, turned):
    """Operands are blocks, rows, columns or numbers, whose bits are any."""
    rng = np.random.default_rng(seed)

    def operand(dtype, dims):
        shape = tuple(n if d else 1 for n, d in zip((5, 7), dims, strict=True))
        shape = shape[::-1] if turned else shape
        if dtype == "?":
            found = rng.random(shape) < 0.5
        else:
            found = np.frombuffer(rng.bytes(np.dtype(dtype).itemsize * 35), dtype)
            found = found[: shape[0] * shape[1]].reshape(shape)
        found = found.reshape(()) if found.size == 1 else found
        return found.T if turned else found

    x, y = (operand(dtype, dims) for dims in wide[:2])
    condition = operand("?", wide[2]).astype(of_condition)
    out = np.empty((5, 7), dtype)
    select(condition, x, y, out)
    wanted = np.broadcast_to(np.where(condition, x, y), out.shape)
    assert out.tobytes() == wanted.tobytes()


@given(
    st.integers(0, 1 << 30),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=9, max_size=9),
    st.sampled_from(["?", "i", "d"]),
    st.booleans(),
)
def test_operands_of_fewer_dims(seed, dims, wide, of_condition, has_out):
    """All dims have one length, so which of them an operand has is not seen from its shape."""
    rng = np.random.default_rng(seed)
    shapes = [
        tuple([17 if own else 1 for own in wide[3 * n : 3 * n + 3]][3 - dims[n] :])
        for n in range(3)
    ]
    condition, x, y = (rng.integers(-1, 2, shape) for shape in shapes)
    condition = condition.astype(of_condition)
    wanted = np.where(condition, x, y)
    out = np.empty_like(wanted) if has_out else None
    found = where_on_host(x.dtype, condition, x, y, out)
    assert has_out == (found is out)
    np.testing.assert_array_equal(found, wanted)
