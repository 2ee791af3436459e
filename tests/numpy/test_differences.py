"""Differences, derivatives, areas, interpolation and convolutions against NumPy's."""

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError, ArgumentTypeError
from tests.numpy.calls import KINDS, Call, alike, everywhere
from tests.numpy.compare import LAYOUTS, placed, put, same, value

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("domains")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    data, x = placed(layout)
    n, m = data.shape[0], data.shape[-1]
    rows = np.cumsum(1.0 + np.arange(n) % 3)
    columns = np.cumsum(1.0 + np.arange(m) % 2)
    calls: list[Call] = [
        lambda ns, x: ns.diff(x),
        lambda ns, x: ns.diff(x, axis=0),
        lambda ns, x: ns.diff(x, 3, axis=0),
        lambda ns, x: ns.diff(x, 2, prepend=0, append=[[1.5]] * n if x.ndim == 2 else 1),
        lambda ns, x: ns.diff(x, n=0),
        lambda ns, x: ns.diff(x, n=-1),
        lambda ns, x: ns.ediff1d(x),
        lambda ns, x: ns.ediff1d(x, to_end=[1, 2], to_begin=-3),
        lambda ns, x: ns.trapezoid(x),
        lambda ns, x: ns.trapezoid(x, dx=0.5, axis=0),
        lambda ns, x: ns.trapezoid(x, x=columns),
        lambda ns, x: ns.trapezoid(x, ns.asarray(rows), axis=0),
        lambda ns, x: ns.trapezoid(x, x * x, axis=0),
        lambda ns, x: ns.unwrap(x),
        lambda ns, x: ns.unwrap(x, axis=0, period=2.5),
        lambda ns, x: ns.unwrap(x, discont=4, axis=0, period=3),
    ]
    if x.ndim == 2:
        calls += [
            lambda ns, x: ns.gradient(x),
            lambda ns, x: ns.gradient(x, 0.5, axis=1),
            lambda ns, x: ns.gradient(x, rows, columns),
            lambda ns, x: ns.gradient(x, ns.asarray(rows), 2, edge_order=2),
            lambda ns, x: ns.gradient(x, columns, axis=-1, edge_order=2),
            lambda ns, x: ns.gradient(x, axis=0, edge_order=2),
            lambda ns, x: ns.gradient(x, 1, 2, 3),
        ]
    for call in calls:
        alike(call, data, x)


@pytest.mark.parametrize("dtype", KINDS)
def test_types(dtype: str) -> None:
    data, x = placed("even", dtype)
    points = np.cumsum(1.0 + np.arange(6) % 2)
    calls: list[Call] = [
        lambda ns, x: ns.diff(x, axis=0),
        lambda ns, x: ns.diff(x, 2),
        lambda ns, x: ns.ediff1d(x, to_end=x[0]),
        lambda ns, x: ns.trapezoid(x, axis=0),
    ]
    if dtype not in "?":
        calls += [lambda ns, x: ns.gradient(x), lambda ns, x: ns.gradient(x, points, axis=1)]
    if dtype in "lfd":
        calls += [lambda ns, x: ns.unwrap(x, axis=0), lambda ns, x: ns.unwrap(x, period=4)]
    if dtype == "?":
        calls = calls[:2]  # NumPy does not take differences of booleans
    for call in calls:
        agrees = np.float32 if dtype == "f" else None
        if agrees:
            found, wanted = call(gnp, x), call(np, data)
            many = isinstance(wanted, tuple)
            for one, other in zip(found, wanted, strict=True) if many else [(found, wanted)]:
                assert one.dtype == other.dtype
                np.testing.assert_allclose(np.asarray(one), other, rtol=1e-5, atol=1e-5)
        else:
            alike(call, data, x)


def test_types_that_do_not_fit() -> None:
    _, x = placed("even", "l")
    alike(lambda ns, x: ns.ediff1d(x, to_end=1.5), np.asarray(x), x)
    alike(lambda ns, x: ns.ediff1d(x > 0), np.asarray(x), x)


def test_steps_that_are_no_numbers() -> None:
    data = np.array([0.0, 3.0, 5.9, 0.2, 2.5, 6.2])
    everywhere(lambda ns, x: ns.unwrap(x), data)
    everywhere(lambda ns, x: ns.unwrap(x, discont=5), data)
    everywhere(lambda ns, x: ns.unwrap(x, period=4), np.array([0, 2, 4, 1, 3, 0]))
    everywhere(lambda ns, x: ns.gradient(x, 2.0), data)
    downwards = np.array([9, 8, 5, 4, 2, 1], np.uint8)
    everywhere(lambda ns, x: ns.gradient(x, downwards), data)
    everywhere(lambda ns, x: ns.unwrap(x, period=5), np.array([0, 3, 1, 4, 1, 3, 0]))


def test_spacings_of_square_arrays() -> None:
    data = value((4, 4), "d")
    everywhere(lambda ns, x: ns.gradient(x, 2.0), data)
    everywhere(lambda ns, x: ns.gradient(x, np.arange(4.0) ** 2), data)  # which both refuse


def test_angles_without_jumps_stay_to_the_bit() -> None:
    turns = np.cumsum([2.4, -2.9, 3.1, -2.2, 2.7, -3.0])  # below half a period
    everywhere(lambda ns, x: ns.unwrap(x), turns, exact=True)
    everywhere(lambda ns, x: ns.unwrap(x, period=1), np.array([0, 0.5, 0.25]), exact=True)


def test_a_split_dim_stays_split() -> None:
    x = put(value((64,), "d"), "x")
    assert gnp.diff(x).sharding.spec == gs.P("x")
    assert gnp.interp(x, [0, 1], [2, 3]).sharding.spec == gs.P("x")
    assert gnp.convolve(x, [1, 2, 1]).sharding.spec == gs.P("x")
    assert gnp.convolve(x, np.ones(64)).sharding.spec == gs.P("x")  # the first of equal lengths
    assert gnp.convolve(np.ones(65), x).sharding.spec == gs.P()  # the longer one
    assert gnp.convolve(x, np.ones(64), "valid").sharding.spec == gs.P()  # a single element


@pytest.mark.parametrize("dtype", ["l", "f", "d", "D"])
def test_interpolation(dtype: str) -> None:
    where = np.linspace(-3, 4, 21).reshape(7, 3)
    points, values = np.array([-2.0, 0, 0.5, 3]), value((4,), dtype)
    calls: list[Call] = [
        lambda ns, x: ns.interp(x, points, values),
        lambda ns, x: ns.interp(x, ns.asarray(points), ns.asarray(values), left=-9),
        lambda ns, x: ns.interp(x, points, values, right=7.5),
        lambda ns, x: ns.interp(x, points, values, 1, 2),
        lambda ns, x: ns.interp(x, points, values, period=2.5),
        lambda ns, x: ns.interp(x, points, values[:2]),
        lambda ns, x: ns.interp(x, points, values, period=0),
    ]
    for call in calls:
        everywhere(call, where)
    same(gnp.interp(0.25, points, values), np.interp(0.25, points, values))
    far = gnp.interp(where, points, values, "extrapolate", "extrapolate")
    slopes = np.diff(values) / np.diff(points)
    wanted = np.where(
        where < -2, values[0] + (where + 2) * slopes[0], np.interp(where, points, values)
    )
    same(far, np.where(where > 3, values[-1] + (where - 3) * slopes[-1], wanted))
    on_devices = gnp.interp(where, put(points, "x"), values)
    same(on_devices, np.interp(where, points, values))


@pytest.mark.parametrize("period", [2.5, 4, -1.5, np.float32(7)])
def test_interpolation_over_a_traced_period(period: Any) -> None:
    where = np.linspace(-3, 9, 25).reshape(5, 5)
    points, values = np.array([4.7, -2, 0, 0.6]), np.array([1.0, 3, -2, 8])
    for x in (where, put(where, "x"), where.astype("i")):
        got = gs.jit(lambda x, p: gnp.interp(x, points, values, 7, 8, p))(x, period)
        same(got, np.interp(np.asarray(x), points, values, period=period), exact=False)
    single = gs.jit(lambda x, p: gnp.interp(x, points[:1], values[:1], period=p))(where, period)
    same(single, np.full((5, 5), 1.0))


def test_what_stands_beyond_the_points() -> None:
    x, points, values = np.array([-2.0, 0.5, 4]), np.array([0.0, 1]), np.array([3.0, 5])
    for ends in ((-1, np.float32(2)), (np.array(-1.0), gs.device_put(2.0))):
        same(gnp.interp(x, points, values, *ends), np.interp(x, points, values, -1, 2))
        same(gnp.interp(x, points, 1j * values, *ends), np.interp(x, points, 1j * values, -1, 2))
    for end in (1j, np.complex64(1j), np.array(1j), gs.device_put(1j)):
        found = gnp.interp(x, points, 1j * values, end)
        same(found, np.interp(x, points, 1j * values, np.complex128(1j)))
        with pytest.raises(ArgumentTypeError, match="must be a number such as those of fp"):
            gnp.interp(x, points, values, end)


def test_a_single_point_has_no_line_to_extrapolate() -> None:
    where = np.linspace(-1, 3, 5)
    same(gnp.interp(where, [1.0], [6.0], "extrapolate", "extrapolate"), np.full(5, 6.0))
    same(gnp.interp(where, [0.0, 1], [3.0, 5], "extrapolate", "extrapolate"), 2 * where + 3)


@pytest.mark.parametrize("dtypes", ["dd", "lB", "fD", "?l"])
def test_convolutions(dtypes: str) -> None:
    for n, m in ((7, 3), (2, 5), (1, 1)):
        data, kernel = value((n,), dtypes[0]), value((m,), dtypes[1], "kernel")
        for mode in ("full", "same", "valid"):
            for name in ("convolve", "correlate"):
                call: Call = lambda ns, x, name=name, mode=mode, k=kernel: getattr(ns, name)(  # type: ignore[misc]  # noqa: E731
                    x, k, mode
                )
                everywhere(call, data)
        alike(lambda ns, x: ns.convolve(kernel, x), data, put(data, "x"))  # noqa: B023
        exact = gs.default_backend() == "cpu"  # on GPUs by Fourier transforms
        same(gnp.convolve(put(data, "x"), put(kernel, "y")), np.convolve(data, kernel), exact=exact)


def test_numbers() -> None:
    x: Any = gs.device_put(np.arange(3.0))
    exact = gs.default_backend() == "cpu"
    same(gnp.convolve(x, 2), np.convolve(np.arange(3.0), 2), exact=exact)
    same(gnp.convolve([1, 2], [3, 4]), np.convolve([1, 2], [3, 4]))


@pytest.mark.parametrize("other", [[], [[1.0, 2.0]]])
def test_what_is_not_convolved(other: Any) -> None:
    for pair in (([1.0, 2.0], other), (other, [1.0, 2.0])):
        with pytest.raises(ArgumentError, match="must be vectors of one element at least"):
            gnp.convolve(*pair)
