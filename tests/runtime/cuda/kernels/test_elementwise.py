"""Which statements kernels can be made of, and of which types."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from gpushard._runtime.cuda.kernels.elementwise import (
    Signature,
    Statement,
    can_be,
    is_known,
    source,
)

SINGLE, DOUBLE, HALF = map(np.dtype, "fde")
COMPLEX, LONG = map(np.dtype, "Fg")


def test_real_numbers_are_converted_and_no_others() -> None:
    statement = Statement("out0 = in0 + in1", "", (SINGLE, SINGLE), (DOUBLE,))
    for pair in itertools.product(map(np.dtype, "?bBhHiIlLfd"), repeat=2):
        assert can_be(statement, pair, [DOUBLE])
    for odd in HALF, COMPLEX, LONG:
        assert not can_be(statement, (SINGLE, odd), [DOUBLE])
        assert not can_be(statement, (odd, SINGLE), [DOUBLE])
    assert not can_be(statement, (SINGLE, SINGLE), [SINGLE])


@pytest.mark.parametrize("place", range(3))
def test_one_type_that_cuda_lacks_is_enough(place: int) -> None:
    types = [SINGLE] * 3
    types[place] = LONG
    a, b, result = types
    assert not can_be(Statement("out0 = in0 + in1", "", (a, b), (result,)), (a, b), (result,))
    assert not is_known(LONG) and all(map(is_known, (SINGLE, DOUBLE, HALF, COMPLEX)))


def test_each_array_has_addresses_of_its_own() -> None:
    statement = Statement("out0 = in0 + in1 * in2", "", (SINGLE,) * 3, (SINGLE,))
    text = source(statement, Signature((SINGLE,) * 3, (1,), (SINGLE,), 8, False))
    found = re.findall(r"(\w+) = \(\w+ ?\w*\*\)batch\.at\[(\d) \* calls", text)
    assert found == [("from0", "0"), ("from2", "1"), ("to0", "2")]
