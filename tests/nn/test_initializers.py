"""`gpushard.nn.initializers`: distributions, shapes and shardings, and what they refuse."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError, ArgumentTypeError, AxisError, GpushardError
from gpushard.nn import initializers as init

KEY = gs.random.key(0)
OF_SHAPE = {
    "lecun": ("fan_in", 1.0), "glorot": ("fan_avg", 1.0), "xavier": ("fan_avg", 1.0),
    "he": ("fan_in", 2.0), "kaiming": ("fan_in", 2.0),
}  # fmt: skip
MAKERS = {
    name: (lambda name=name: getattr(init, name)())
    for name in init.__all__
    if name not in ("Initializer", "constant", "ones", "variance_scaling", "zeros")
} | {
    "constant": lambda: init.constant(2.5),
    "variance_scaling": lambda: init.variance_scaling(2.0, "fan_geo_avg", "normal"),
    "ones": lambda: init.ones,
    "zeros": lambda: init.zeros,
}


def mean_square(x: gs.Array) -> float:
    return float((np.asarray(x, np.float64) ** 2).mean())


@pytest.mark.parametrize(
    "name", [f"{who}_{what}" for who in OF_SHAPE for what in ("normal", "uniform")]
)
def test_variances_are_those_of_the_shape(name: str) -> None:
    who, what = name.split("_")
    mode, scale = OF_SHAPE[who]
    inputs, outputs = 3 * 5 * 120, 3 * 5 * 80
    fan = inputs if mode == "fan_in" else (inputs + outputs) / 2
    x = getattr(init, name)()(KEY, (3, 5, 120, 80), "float32")
    assert (x.shape, x.dtype) == ((3, 5, 120, 80), np.float32)
    assert mean_square(x) == pytest.approx(scale / fan, rel=0.02)
    most = float(abs(x).max()) / math.sqrt(scale / fan)
    wanted = math.sqrt(3) if what == "uniform" else 2 / 0.87962566103423978
    assert 0.99 * wanted < most <= wanted * (1 + 1e-6)


@pytest.mark.parametrize("name", ["lecun_normal", "glorot_uniform"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_have_the_variance_in_all(name: str, dtype: Any) -> None:
    x = np.asarray(getattr(init, name)()(KEY, (200, 200), dtype))
    assert x.dtype == dtype and abs(x.mean()) < 1e-3
    size, most = 1.0, math.sqrt(2)
    if name == "lecun_normal":
        size, most = (1 - 4 / math.expm1(4)) / 0.95311164380491208**2, 2 / 0.95311164380491208
    for part in (x.real, x.imag):
        assert mean_square(part) == pytest.approx(size / 400, rel=0.02)
    assert 0.99 * most < abs(x).max() * math.sqrt(200) <= most * (1 + 1e-6)


@pytest.mark.parametrize("axes", [(-2, -1, ()), (0, 1, (2, 3)), ((0, 3), 1, ()), (1, (0, 2), 3)])
@pytest.mark.parametrize("mode", ["fan_in", "fan_out", "fan_avg", "fan_geo_avg"])
def test_inputs_and_outputs_are_counted_along_the_dims_that_are_named(mode: str, axes: Any) -> None:
    shape = (20, 30, 10, 15)
    sizes = [math.prod(shape[at] for at in np.atleast_1d(np.array(a, int))) for a in axes]
    window = math.prod(shape) / math.prod(sizes)
    fan_in, fan_out = sizes[0] * window, sizes[1] * window
    fan = {
        "fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2,
        "fan_geo_avg": math.sqrt(fan_in * fan_out),
    }[mode]  # fmt: skip
    for distribution in ("normal", "uniform", "truncated_normal"):
        x = init.variance_scaling(0.5, mode, distribution, *axes)(KEY, shape)
        assert mean_square(x) * fan == pytest.approx(0.5, rel=0.03)


def test_numbers_that_do_not_depend_on_the_shape() -> None:
    assert mean_square(init.normal(0.5)(KEY, (90000,))) == pytest.approx(0.25, rel=0.02)
    x = np.asarray(init.uniform(3.0)(KEY, (90000,)))
    assert 0 <= x.min() < 0.01 and 2.99 < x.max() < 3 and x.mean() == pytest.approx(1.5, rel=0.02)
    x = np.asarray(init.truncated_normal(2.0, lower=-0.5, upper=1.5)(KEY, (90000,)))
    assert -1 < x.min() < -0.99 and 2.99 < x.max() < 3
    np.testing.assert_array_equal(init.constant([1, 2])(None, (3, 2), "int8"), [[1, 2]] * 3)
    for name, value in (("zeros", 0), ("ones", 1)):
        x = getattr(init, name)(KEY, (2, 3))
        assert x.dtype == np.float64 and (np.asarray(x) == value).all()


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (3, 2, 4), (4, 1)])
@pytest.mark.parametrize("axis", [0, -1])
def test_rows_or_columns_are_orthonormal(shape: tuple[int, ...], axis: int) -> None:
    x = np.asarray(init.orthogonal(3.0, axis)(KEY, shape)) / 3
    assert x.shape == shape
    matrix = np.moveaxis(x, axis, -1).reshape(-1, shape[axis])
    matrix = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(matrix.shape[1]), atol=1e-12)


@pytest.mark.parametrize("window", [(3,), (4, 3), (2, 1, 5)])
@pytest.mark.parametrize("outputs", [3, 4])
def test_the_middle_of_a_window_is_orthogonal(window: tuple[int, ...], outputs: int) -> None:
    x = np.array(init.delta_orthogonal(2.0)(KEY, (*window, 3, outputs)))
    middle = tuple((n - 1) // 2 for n in window)
    np.testing.assert_allclose(x[middle] @ x[middle].T, 4 * np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(x[middle], init.orthogonal(2.0)(KEY, (3, outputs)))
    x[middle] = 0
    assert not x.any()


def test_without_more_said_the_last_dims_are_inputs_and_outputs() -> None:
    shape = (3, 4, 5, 6)
    for maker, how, last in (
        (init.variance_scaling, (0.5, "fan_geo_avg", "normal"), (-2, -1)),
        (init.orthogonal, (1.0,), (-1,)),
        (init.truncated_normal, (1e-2, None), (-2.0, 2.0)),
    ):
        wanted = maker(*how, *last)(KEY, shape)
        np.testing.assert_array_equal(maker(*how)(KEY, shape), wanted)


def test_a_new_maker_has_its_name_its_text_and_the_last_dims() -> None:
    make = init._scaling("new", 0.5, "fan_geo_avg", "normal", "numbers of a new kind")
    assert (make.__name__, make.__qualname__) == ("new", "new")
    assert make.__doc__.startswith("Make an initializer of numbers of a new kind.\n")
    for name in inspect.signature(make).parameters:
        assert f"      {name}: " in make.__doc__
    wanted = init.variance_scaling(0.5, "fan_geo_avg", "normal", -2, -1)
    np.testing.assert_array_equal(make()(KEY, (3, 4, 5, 6)), wanted(KEY, (3, 4, 5, 6)))


@pytest.mark.parametrize("name", MAKERS)
def test_numbers_are_the_same_for_every_sharding(name: str) -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    whole = MAKERS[name]()(KEY, (5, 6, 7), "float32")
    for spec in (gs.P("x"), gs.P(None, "y", "x"), gs.P(("y", "x"))):
        sharding = gs.NamedSharding(mesh, spec)
        for each in (
            MAKERS[name]()(KEY, (5, 6, 7), "float32", sharding),
            gs.jit(lambda key, s=sharding: MAKERS[name]()(key, (5, 6, 7), "float32", s))(KEY),
        ):
            assert each.sharding.is_equivalent_to(sharding, 3)
            np.testing.assert_array_equal(np.asarray(each), np.asarray(whole))


@pytest.mark.parametrize("name", MAKERS)
def test_the_dtype_is_that_of_the_call_or_of_the_maker(name: str) -> None:
    assert MAKERS[name]()(KEY, (2, 3, 4)).dtype == np.float64
    assert MAKERS[name]()(KEY, (2, 3, 4), np.float32).dtype == np.float32
    make = getattr(init, name)
    if "dtype" in inspect.signature(make).parameters and name not in ("zeros", "ones"):
        how = {"constant": (1,), "variance_scaling": (1, "fan_in", "normal")}.get(name, ())
        assert make(*how, dtype="float32")(KEY, (2, 3, 4)).dtype == np.float32
    assert MAKERS[name]()(KEY, (2, 0, 4)).shape == (2, 0, 4) or name == "delta_orthogonal"


WRONG: dict[str, tuple[Any, type[GpushardError], str]] = {
    "mode": (lambda: init.variance_scaling(1, "fan", "normal"), ArgumentError, "'fan'.*fan_in"),
    "distribution": (
        lambda: init.variance_scaling(1, "fan_in", "gauss"), ArgumentError, "'gauss'.*uniform",
    ),
    "scale": (lambda: init.variance_scaling(0, "fan_in", "normal"), ArgumentError, "scale=0"),
    "scale-type": (lambda: init.variance_scaling("1", "fan_in", "normal"), ArgumentError, "'1'"),
    "one-dim": (lambda: init.lecun_normal()(KEY, (3,)), ArgumentError, r"\(3,\) have no axis"),
    "in_axis": (lambda: init.he_normal(in_axis=4)(KEY, (3, 2)), AxisError, "in_axis=4"),
    "out_axis": (lambda: init.he_normal(out_axis="x")(KEY, (3, 2)), ArgumentTypeError, "out_"),
    "shape": (lambda: init.lecun_normal()(KEY, (3, -2)), ArgumentError, "shape"),
    "key": (lambda: init.normal()(3, (3,)), ArgumentTypeError, r"key.*random\.key"),
    "integers": (lambda: init.normal()(KEY, (3,), "int32"), ArgumentTypeError, "int32"),
    "deviation": (lambda: init.normal("x")(KEY, (3,)), ArgumentTypeError, "stddev='x'"),
    "orthogonal": (lambda: init.orthogonal()(KEY, (3,)), ArgumentError, r"shape=\(3,\) needs two"),
    "column_axis": (lambda: init.orthogonal(1, 2)(KEY, (3, 3)), AxisError, "column_axis=2"),
    "delta": (lambda: init.delta_orthogonal()(KEY, (3, 4, 2)), ArgumentError, r"\(3, 4, 2\) must"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls_say_what_is_wrong(case: str) -> None:
    call, error, text = WRONG[case]
    with pytest.raises(error, match=text) as caught:
        call()
    assert type(caught.value) is error
