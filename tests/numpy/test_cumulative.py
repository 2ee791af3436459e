"""Running totals against NumPy's."""

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.table.cumulative import doubling
from gpushard.errors import ArgumentError
from tests.numpy.calls import KINDS, Call, alike, everywhere, with_nans
from tests.numpy.compare import LAYOUTS, placed, same

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("domains")

CALLS: dict[str, Call] = {
    "cumsum": lambda ns, x: ns.cumsum(x, axis=0),
    "cumsum last": lambda ns, x: ns.cumsum(x, axis=-1),
    "cumsum all": lambda ns, x: ns.cumsum(x),
    "cumsum in a type": lambda ns, x: ns.cumsum(x, 1, dtype="F"),
    "cumprod": lambda ns, x: ns.cumprod(x, 1),
    "cumprod all": lambda ns, x: x.cumprod(),
    "method": lambda ns, x: x.cumsum(0, "D"),
    "cumulative_sum": lambda ns, x: ns.cumulative_sum(x, axis=0),
    "cumulative_sum from nothing": lambda ns, x: ns.cumulative_sum(
        x, axis=-1, include_initial=True
    ),
    "cumulative_prod": lambda ns, x: ns.cumulative_prod(x, axis=0, include_initial=True, dtype="D"),
    "no axis": lambda ns, x: ns.cumulative_sum(x),
    "no such axis": lambda ns, x: ns.cumsum(x, axis=7),
    "add": lambda ns, x: np.add.accumulate(x, axis=1),
    "add in a type": lambda ns, x: np.add.accumulate(x, dtype="D"),
    "multiply": lambda ns, x: np.multiply.accumulate(x),
    "maximum": lambda ns, x: np.maximum.accumulate(x, axis=-1),
    "minimum": lambda ns, x: np.minimum.accumulate(x),
    "logical_and": lambda ns, x: np.logical_and.accumulate(x),
    "logical_or": lambda ns, x: np.logical_or.accumulate(x, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    data, x = placed(layout)
    for call in CALLS.values():
        alike(call, data, x)


@pytest.mark.parametrize("dtype", [*KINDS, "e", "H"])
def test_types(dtype: str) -> None:
    data, x = placed("uneven", dtype)
    for call in CALLS.values():
        alike(call, data, x)


@pytest.mark.parametrize("name", ["nancumsum", "nancumprod"])
def test_nans(name: str) -> None:
    for axis in (None, 0, 1):
        call: Call = lambda ns, x, axis=axis: getattr(ns, name)(x, axis=axis)  # type: ignore[misc]  # noqa: E731
        everywhere(call, with_nans((5, 3)))
        everywhere(call, np.arange(6).reshape(2, 3))
    data = with_nans((7,))
    everywhere(lambda ns, x: np.maximum.accumulate(x), data)
    everywhere(lambda ns, x: ns.cumulative_sum(x), data)


def test_refusals_name_the_function_that_was_called() -> None:
    _, x = placed("even")
    for name, call in {
        "cumsum": lambda: gnp.cumsum(x, 5),
        "cumulative_sum": lambda: gnp.cumulative_sum(x, axis=5),
        "cumulative_prod": lambda: gnp.cumulative_prod(x, axis=5),
        "add.accumulate": lambda: np.add.accumulate(x, 5),
    }.items():
        with pytest.raises(ArgumentError, match=f"^{name}: axis=5 is out of range"):
            call()


def test_a_split_dim_stays_split() -> None:
    _, x = placed("even")
    assert gnp.cumsum(x, axis=0).sharding.spec == x.sharding.spec
    assert np.maximum.accumulate(x, axis=1).sharding.spec == x.sharding.spec
    assert gnp.cumsum(x, axis=0, out_sharding=gs.P(None, "x")).sharding.spec == gs.P(None, "x")


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9])
@pytest.mark.parametrize("axis", [-1, -2])
def test_accumulating_without_a_function_for_it(n: int, axis: int) -> None:
    data: Any = np.random.default_rng(n).standard_normal((n, n))
    found = doubling(np.maximum, data.copy(), axis)
    np.testing.assert_array_equal(found, np.maximum.accumulate(data, axis))


def test_lists() -> None:
    same(gnp.cumsum([1, 2, 3]), np.cumsum([1, 2, 3]))
    same(gnp.cumulative_prod([1, 2, 3]), np.cumprod([1, 2, 3]))
