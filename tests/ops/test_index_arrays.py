"""Index arrays and the dims of an array that are paired with theirs."""

from __future__ import annotations

import numpy as np
import pytest

from gpushard._ops.index_arrays import Indexed, integers


@pytest.mark.parametrize("paired", [4, 1])
def test_the_first_element_along_indexed_dims_beside_those_that_are_paired(paired: int) -> None:
    """Where a paired dim of the block has one element, all index arrays see that one."""
    block = np.arange(2 * paired * 3 * 5).reshape(2, paired, 3, 5)
    indexed = Indexed((-2,), 1, ((-3, -2),))
    view, steps = indexed.first_of(np, block, (4, 6))
    assert view.shape == (2, 4, 6, 5) and steps == [block.strides[2]]
    wanted = np.broadcast_to(block[:, :, :1], (2, 4, 1, 5)) if paired == 1 else block[:, :, :1]
    np.testing.assert_array_equal(view, np.broadcast_to(wanted, view.shape))


def test_positions_of_other_types_become_integers() -> None:
    for dtype in ("?", "i1", "u8"):
        at = np.ones(3, dtype)
        assert integers(at) is at
    found = integers(np.array([2.0, 0.0, 1.0], np.float32))
    assert found.dtype == np.int64 and found.tolist() == [2, 0, 1]
