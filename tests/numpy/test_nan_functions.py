"""Reductions that skip NaNs, averages, and kinds of numbers, against NumPy's."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.aval import Aval
from gpushard._ops.table.nan_moments import NANMEAN, NANVAR
from tests.numpy.calls import KINDS, Call, alike, everywhere, with_nans
from tests.numpy.compare import LAYOUTS, placed, put, same, value

gnp = gs.numpy
NAMES = ["nansum", "nanprod", "nanmin", "nanmax", "nanmean", "nanvar", "nanstd"]
pytestmark = pytest.mark.usefixtures("domains")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """NumPy warns of NaNs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.mark.parametrize("layout", [n for n in LAYOUTS if n != "empty"])
def test_axes(layout: str) -> None:
    shape, entries = LAYOUTS[layout]
    data = with_nans(shape)
    data[np.isinf(data)] = 1.5  # no NaNs from infinities, whose place depends on the order
    x = put(data, *entries)
    for name in NAMES:
        for axis in (None, 0, -1, (0, 1)):
            for keepdims in (False, True):
                alike(
                    lambda ns, x: getattr(ns, name)(x, axis=axis, keepdims=keepdims),  # noqa: B023
                    data,
                    x,
                )


@pytest.mark.parametrize("dtype", KINDS)
def test_types(dtype: str) -> None:
    data, x = placed("uneven", dtype)
    if dtype in "fD":
        data = data.copy()
        data[1, :2] = np.nan
        x = put(data, "y", "x")
    for name in NAMES:
        alike(lambda ns, x: getattr(ns, name)(x, axis=0), data, x)  # noqa: B023
    calls: list[Call] = [
        lambda ns, x: ns.nan_to_num(x),
        lambda ns, x: ns.nan_to_num(x, nan=2, posinf=3.5, neginf=-1),
        lambda ns, x: ns.average(x, axis=0),
        lambda ns, x: ns.isreal(x),
        lambda ns, x: ns.iscomplex(x),
        lambda ns, x: ns.isposinf(x),
        lambda ns, x: ns.isneginf(x),
        lambda ns, x: ns.sinc(x),
    ]
    for call in calls:
        if call is calls[-1] and dtype == "f":
            continue  # NumPy multiplies float32 by a double, see below
        alike(call, data, x)
    assert gnp.iscomplexobj(x) == np.iscomplexobj(data) != gnp.isrealobj(x)


def test_types_to_work_in() -> None:
    data = with_nans((5, 3), "f")
    data[np.isinf(data)] = 1
    x = put(data, "x")
    for name in ("nansum", "nanmean", "nanvar", "nanstd", "nanprod"):
        alike(lambda ns, x: getattr(ns, name)(x, axis=0, dtype="d"), data, x)  # noqa: B023
    for taken in (1, 2.5, 3.5):
        alike(lambda ns, x: ns.nanvar(x, axis=0, ddof=taken), data, x)  # noqa: B023
    half = data.astype("e")
    found = gnp.nanmean(put(half, "x"), axis=0)
    assert found.dtype == np.float16
    np.testing.assert_allclose(np.asarray(found), np.nanmean(data, axis=0), rtol=1e-2)


def test_nothing_is_divided_by_zero() -> None:
    data = np.array([[np.nan, 3.0], [np.nan, np.nan], [1.0, 3.0]])
    aval = Aval(data.shape, data.dtype)
    for row, more in ((NANMEAN, None), (NANVAR, 1), (NANVAR, 2)):
        with np.errstate(all="raise"):
            found = row.kernel(np, [aval], ((-1,), False, more))(data)
        wanted = {None: [3, np.nan, 2], 1: [np.nan, np.nan, 2], 2: [np.nan] * 3}[more]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["nanargmin", "nanargmax"])
def test_places(name: str) -> None:
    data = with_nans((5, 4))[1:]
    for axis in (None, 0, 1):
        for keepdims in (False, True):
            everywhere(
                lambda ns, x: getattr(ns, name)(x, axis=axis, keepdims=keepdims),  # noqa: B023
                data,
                exact=True,
            )
    same(getattr(gnp, name)(put(with_nans((5, 4)), "x"), axis=1)[0], -1)
    everywhere(lambda ns, x: getattr(ns, name)(x), np.arange(6), exact=True)


def test_replacing() -> None:
    data = with_nans((5, 4))
    everywhere(lambda ns, x: ns.nan_to_num(x), data, exact=True)
    everywhere(lambda ns, x: ns.nan_to_num(x.astype("f"), posinf=9), data, exact=True)
    everywhere(lambda ns, x: ns.nan_to_num(x + 1j * x, neginf=9), data, exact=True)


@pytest.mark.parametrize("layout", [n for n in LAYOUTS if n != "empty"])
def test_averages(layout: str) -> None:
    data, x = placed(layout)
    weights = 1 + np.arange(data.size).reshape(data.shape) % 3
    line = 1.0 + np.arange(data.shape[0])
    calls: list[Call] = [
        lambda ns, x: ns.average(x),
        lambda ns, x: ns.average(x, weights=weights),
        lambda ns, x: ns.average(x, axis=0, weights=line, keepdims=True),
        lambda ns, x: ns.average(x, axis=-1, weights=weights, returned=True),
        lambda ns, x: (
            ns.average(x, axis=(1, 0), weights=weights.swapaxes(0, 1)[:, :, 0])
            if data.ndim == 3
            else ns.average(x, 1, returned=True)
        ),
        lambda ns, x: ns.ptp(x, axis=0),
        lambda ns, x: ns.ptp(x, keepdims=True),
        lambda ns, x: ns.average(x, weights=line[:2]),
    ]
    for call in calls:
        alike(call, data, x)
    alike(lambda ns, x: ns.average(x, weights=ns.asarray(weights)), data, x)
    same(gnp.average([1, 2], weights=[3, 1]), np.average([1, 2], weights=[3, 1]))


def test_results_lie_where_those_of_other_reductions_do() -> None:
    x = put(value((64, 64), "d"), "x", "y")
    for axis in (0, 1):
        for name in ("sum", "mean", "max", "var"):
            wanted = getattr(gnp, name)(x, axis).sharding
            assert getattr(gnp, f"nan{name}")(x, axis).sharding == wanted
    assert gnp.nan_to_num(x).sharding.spec == x.sharding.spec


def test_numbers() -> None:
    values: Any = [0.0, -0.5, 1.0, 1e-300]
    everywhere(lambda ns, x: ns.sinc(x), np.array(values))
    everywhere(lambda ns, x: ns.fix(x), np.array([-1.5, 2.7, np.nan]))
    assert gnp.iscomplexobj(1j) and gnp.isrealobj([1.0])


def test_none_stands_for_the_numbers_that_replace_others() -> None:
    data = np.array([np.nan, np.inf, -np.inf, 2.5])
    x = put(data, "x")
    for dtype in ("d", "f", "D"):
        wanted = np.nan_to_num(data.astype(dtype))
        found = gnp.nan_to_num(x.astype(dtype), True, None, None, None)
        np.testing.assert_array_equal(found, wanted)
