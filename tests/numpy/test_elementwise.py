"""Elementwise functions against NumPy's, for all types, and over shardings."""

import inspect
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard.errors import ArgumentError, ArgumentRangeError, GpushardError
from gpushard.numpy import elementwise
from tests.numpy.compare import LAYOUTS, agree, placed, put, same, value
from tests.traffic import received

gnp = gs.numpy
DTYPES = ["?", "b", "H", "l", "e", "f", "d", "D"]
NUMPY_NAMES = {"bitwise_invert": "invert"}
NO_UFUNCS = ["angle", "clip", "fix", "i0", "imag", "real", "round", "sinc", "where"]
UFUNCS = sorted(
    {
        function.__name__
        for name, function in vars(elementwise).items()
        if inspect.isfunction(function)
        and function.__module__ == elementwise.__name__
        and not name.startswith("_")
    }
    - set(NO_UFUNCS)
)
pytestmark = pytest.mark.usefixtures("rt")


def reference(name: str) -> np.ufunc:
    ufunc = getattr(np, NUMPY_NAMES.get(name, name))
    assert isinstance(ufunc, np.ufunc)
    return ufunc


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", UFUNCS)
def test_every_type(name: str) -> None:
    theirs, ours = reference(name), getattr(gnp, name)
    for dtype in DTYPES:
        if name.startswith("logaddexp") and np.dtype(dtype).kind == "c":
            continue  # NumPy's are of real numbers; test_numpy_vs_jax.py compares them
        data, x = placed("uneven", dtype)
        if theirs.nin == 1:
            if name == "reciprocal" and gs.default_backend() == "gpu" and data.dtype.kind in "iu":
                data = np.where(data, data, 1)  # NumPy's of 0 is what the CPU makes of infinity
                x = put(data, "y", "x")
            agree(lambda: ours(x), lambda: theirs(data), exact=False)  # noqa: B023
            continue
        other = value((5, 1), dtype, "other")
        if np.dtype(dtype).kind in "iu" and name in ("pow", "left_shift", "right_shift"):
            other = np.abs(other)
        y = put(other, "y")
        agree(lambda: ours(x, y), lambda: theirs(data, other), exact=False)  # noqa: B023
        agree(lambda: ours(x, 2), lambda: theirs(data, 2), exact=False)  # noqa: B023


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["add", "maximum", "hypot", "less", "divmod"])
def test_every_layout(name: str, layout: str) -> None:
    data, x = placed(layout)
    other, y = placed(layout, seed="other")
    ours, theirs = getattr(gnp, name), reference(name)
    with np.errstate(all="ignore"):
        same(ours(x, y), theirs(data, other), exact=False)
        same(ours(x, other), theirs(data, other), exact=False)
        same(ours(other, x), theirs(other, data), exact=False)
    result = ours(x, y)
    first = result[0] if isinstance(result, tuple) else result
    if layout != "empty":
        assert first.sharding == x.sharding


def test_names_of_the_array_api_are_those_of_numpy() -> None:
    pairs = {
        "acos": "arccos",
        "acosh": "arccosh",
        "asin": "arcsin",
        "asinh": "arcsinh",
        "atan": "arctan",
        "atan2": "arctan2",
        "atanh": "arctanh",
        "bitwise_left_shift": "left_shift",
        "bitwise_right_shift": "right_shift",
        "bitwise_invert": "invert",
        "pow": "power",
        "concat": "concatenate",
        "permute_dims": "transpose",
        "abs": "absolute",
        "conj": "conjugate",
    }
    for one, other in pairs.items():
        assert getattr(gnp, one) is getattr(gnp, other)


@pytest.mark.parametrize("name", UFUNCS)
def test_out_is_refused(name: str) -> None:
    _, x = placed("even")
    operands = (x,) * reference(name).nin
    with pytest.raises(ArgumentError, match="out= is not supported, results are values"):
        getattr(gnp, name)(*operands, out=x)


@pytest.mark.parametrize("dtype", ["f", "d", "D", "l"])
def test_a_type_of_the_result(dtype: str) -> None:
    data, x = placed("uneven", "l")
    agree(lambda: gnp.add(x, 1, dtype=dtype), lambda: np.add(data, 1, dtype=dtype))
    agree(lambda: gnp.sqrt(x, dtype=dtype), lambda: np.sqrt(data, dtype=dtype), exact=False)
    agree(lambda: gnp.less(x, 2, dtype=bool), lambda: np.less(data, 2, dtype=bool))


@pytest.mark.parametrize("layout", ["even", "uneven", "empty", "cube"])
def test_where(layout: str) -> None:
    data, x = placed(layout)
    other, y = placed(layout, "f", "other")
    same(gnp.where(x > 0, x, y), np.where(data > 0, data, other))
    same(gnp.where(x > 0, y, 0), np.where(data > 0, other, 0))
    same(gnp.where(x > 0, 1, 2.5), np.where(data > 0, 1, 2.5))


@pytest.mark.parametrize("bounds", [(-1, 1), (None, 0.5), (0.5, None), (None, None), (1, -1)])
def test_clip(bounds: tuple[Any, Any]) -> None:
    for dtype in ("b", "l", "f"):
        data, x = placed("uneven", dtype)
        if dtype == "f":
            same(gnp.clip(x, *bounds), np.clip(data, *bounds))
        else:
            whole = tuple(None if b is None else int(b) for b in bounds)
            same(gnp.clip(x, *whole), np.clip(data, *whole))
    low = value((5, 1), "f", "low")
    data, x = placed("uneven", "f")
    same(gnp.clip(x, put(low, "y"), 2), np.clip(data, low, 2))
    same(gnp.clip(x, min=low), np.clip(data, low, None))


def test_integers_that_nothing_is_beyond_do_not_clip() -> None:
    data, x = placed("uneven", "B")
    for low, high in ((-1, 2), (None, 300), (-5, 2.5), (-1, 256)):
        same(gnp.clip(x, low, high), np.clip(data, low, high))
    for low, high in ((300, None), (None, -1)):
        with pytest.raises(ArgumentRangeError, match="does not fit uint8"):
            gnp.clip(x, low, high)


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_and_rounding(dtype: str) -> None:
    data, x = placed("uneven", dtype)
    same(gnp.real(x), np.real(data))
    same(gnp.imag(x), np.imag(data))
    same(gnp.angle(x), np.angle(data), exact=False)
    same(gnp.conj(x), np.conj(data)) if dtype != "?" else None
    if dtype != "?":
        same(gnp.round(x), np.round(data))
        same(gnp.round(x, 1), np.round(data, 1))


def test_data_of_the_host_alone() -> None:
    same(gnp.add([1, 2], [3.5, 4]), np.add([1, 2], [3.5, 4]))
    same(gnp.add(np.arange(3), 1), np.arange(3) + 1)
    same(gnp.sqrt(4.0), np.sqrt(4.0))
    same(gnp.add(1, 2.5), np.add(1, 2.5))
    same(gnp.add(np.float32(1), 2.5), np.add(np.float32(1), 2.5))
    same(gnp.multiply(2, np.float32([1, 2])), 2 * np.float32([1, 2]))


def test_results_go_where_they_are_asked_to() -> None:
    data, x = placed("even")
    found = gnp.add(x, 1, out_sharding=gs.P("y"))
    same(found, data + 1)
    assert found.sharding == x.sharding.with_spec(gs.P("y"))
    there = gs.SingleDeviceSharding(gs.devices()[3])
    quotient, rest = gnp.divmod(x, 2, out_sharding=there)
    assert quotient.sharding == rest.sharding == there
    with pytest.raises(GpushardError, match="at most one entry per axis"):
        gnp.add(x, 1, out_sharding=gs.P(None, None, "x"))


def test_a_result_on_all_devices_is_computed_there() -> None:
    """Operands are moved rather than the result, which may have more elements."""
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        mesh = gs.make_mesh((8,), "x")
        column, row = np.arange(8.0)[:, None], np.arange(1000.0)
        x = gs.device_put(column, gs.NamedSharding(mesh, gs.P("x")))
        y = gs.device_put(row, gs.NamedSharding(mesh, gs.P()))
        before = received(runtime)
        found = gnp.add(x, y, out_sharding=gs.P())
        assert received(runtime) - before == 7 * column.nbytes
        same(found, column + row)


def test_one_condition_of_piecewise_may_be_a_host_array() -> None:
    data = np.arange(-3.0, 3)
    found = gs.numpy.piecewise(gs.device_put(data), data > 0, [5, -5])
    assert np.array_equal(found, np.piecewise(data, data > 0, [5, -5]))


@pytest.mark.parametrize("dtype", ["F", "D"])
def test_logarithms_of_sums_of_complex_powers(dtype: str) -> None:
    random = np.random.default_rng(0)
    pair = [3 * random.standard_normal((5, 3)) + 4j * random.standard_normal((5, 3)) for _ in "xy"]
    data, other = (each.astype(dtype) for each in pair)
    x, y = put(data, "y", "x"), put(other, "x")
    close = 1e-5 if dtype == "F" else 1e-12
    for ours, base in ((gnp.logaddexp, np.e), (gnp.logaddexp2, 2.0)):
        wide = [np.asarray(each, complex) for each in (data, other)]
        expected = np.log(base ** wide[0] + base ** wide[1]) / np.log(base)
        for found in (ours(x, y), ours(data, y), gs.jit(ours)(x, y)):
            assert found.dtype == dtype
            np.testing.assert_allclose(np.asarray(found), expected, close, close)
        least = np.array([complex(-np.inf, 0), 800 + 1j], dtype)
        ends = np.asarray(ours(put(least), put(least)))
        np.testing.assert_allclose(ends, least + np.array([0, np.log(2) / np.log(base)]), close)
    assert gnp.logaddexp(x, y, dtype="F").dtype == np.complex64
