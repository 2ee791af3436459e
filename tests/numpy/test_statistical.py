"""Reductions against NumPy's."""

import itertools
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops.aval import Aval
from gpushard._ops.row import Site
from gpushard._ops.table import argmin_argmax, reductions
from gpushard.errors import ArgumentError, ArgumentRangeError, ArgumentTypeError
from tests.numpy.compare import LAYOUTS, agree, memory_of, placed, put, same
from tests.traffic import received

gnp = gs.numpy
NAMES = ["sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "count_nonzero"]
pytestmark = pytest.mark.usefixtures("domains")


@pytest.mark.one_of(2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_axes(name: str, layout: str) -> None:
    data, x = placed(layout)
    ours, theirs = getattr(gnp, name), getattr(np, name)
    for axis in (None, 0, -1, (0, 1), ()):
        for keepdims in (False, True):
            if name in ("mean", "var", "std") and layout == "empty" and axis in (None, 0, (0, 1)):
                continue  # NumPy warns of these
            agree(
                lambda: ours(x, axis=axis, keepdims=keepdims),  # noqa: B023
                lambda: theirs(data, axis=axis, keepdims=keepdims),  # noqa: B023
                exact=False,
            )


@pytest.mark.parametrize("dtype", ["?", "b", "H", "l", "e", "f", "D"])
@pytest.mark.parametrize("name", [*NAMES, "argmin", "argmax"])
def test_types(name: str, dtype: str) -> None:
    data, x = placed("uneven", dtype)
    if dtype == "D" and name.startswith("arg"):
        return  # complex numbers have no order here
    if dtype == "e":  # NumPy sums half precision in half precision
        found, wanted = getattr(gnp, name)(x, axis=0), getattr(np, name)(data, axis=0)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=4e-3, atol=4e-3)
        return
    agree(
        lambda: getattr(gnp, name)(x, axis=0), lambda: getattr(np, name)(data, axis=0), exact=False
    )


@pytest.mark.parametrize("layout", ["even", "uneven", "joined", "cube"])
@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_positions(name: str, layout: str) -> None:
    data, x = placed(layout, "l")
    for axis in (None, 0, -1):
        for keepdims in (False, True):
            same(
                getattr(gnp, name)(x, axis=axis, keepdims=keepdims),
                getattr(np, name)(data, axis=axis, keepdims=keepdims),
            )


def test_a_type_to_work_in() -> None:
    data, x = placed("uneven", "b")
    for dtype in ("f", "l", "D"):
        for name in ("sum", "prod", "mean"):
            same(
                getattr(gnp, name)(x, axis=0, dtype=dtype),
                getattr(np, name)(data, axis=0, dtype=dtype),
                exact=False,
            )
    same(gnp.var(x, dtype="f"), np.var(data, dtype="f"), exact=False)


@pytest.mark.parametrize("taken", [0, 1, 1.5])
def test_corrections(taken: Any) -> None:
    data, x = placed("uneven")
    for name in ("var", "std"):
        wanted = getattr(np, name)(data, axis=1, ddof=taken)
        same(getattr(gnp, name)(x, axis=1, ddof=taken), wanted, exact=False)
        same(getattr(gnp, name)(x, axis=1, correction=taken), wanted, exact=False)


@pytest.mark.parametrize("taken", [2**63 - 1, 2**63, 2**64])
def test_a_correction_may_be_any_integer(taken: int) -> None:
    """NumPy takes those of 64 bits."""
    x = put(np.array([1.0, 2, 4]))
    for where in (True, [True, False, True]):
        assert gnp.var(x, ddof=taken, where=where) == gnp.std(x, ddof=taken, where=where) == np.inf


def test_results_go_where_they_are_asked_to() -> None:
    data, x = placed("even")
    found = gnp.sum(x, axis=0, out_sharding=gs.P(("x", "y")))
    same(found, data.sum(axis=0), exact=False)
    assert found.sharding.spec == gs.P(("x", "y"))
    to = x.sharding.with_spec(gs.P(("y", "x")))
    for name, more in {"mean": {}, "var": {}, "std": {}, "sum": {"initial": 2}}.items():
        found = getattr(x, name)(1, where=np.arange(6) > 1, out_sharding=to, **more)
        same(found, getattr(data, name)(1, where=np.arange(6) > 1, **more), exact=False)
        assert found.sharding is to


@pytest.mark.parametrize("name", ["sum", "mean", "std", "min", "any", "argmax"])
def test_out_is_refused(name: str) -> None:
    _, x = placed("even")
    with pytest.raises(ArgumentError, match="out= is not supported"):
        getattr(gnp, name)(x, out=np.zeros(()))


def test_lists() -> None:
    same(gnp.sum([[1, 2], [3, 4]], axis=0), np.sum([[1, 2], [3, 4]], axis=0))
    same(gnp.max(np.arange(4)), np.max(np.arange(4)))


def test_a_sum_that_is_wanted_split_is_merged_where_it_is_wanted() -> None:
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        mesh = gs.make_mesh((8,), "x")
        value = np.arange(8 * 64, dtype=np.int64).reshape(8, 64)
        x = gs.device_put(value, gs.NamedSharding(mesh, gs.P("x")))
        before = received(runtime)
        made = gs.numpy.sum(x, axis=0, out_sharding=gs.P("x"))
        moved = received(runtime) - before
        assert moved == 7 * 64 * 8 and made.sharding.spec == gs.P("x")
        np.testing.assert_array_equal(np.asarray(made), value.sum(0))


INITIAL = {"sum": 1.5, "prod": 2.5, "max": 2.6, "min": 0.4}


@pytest.mark.parametrize("dtype", ["?", "b", "l", "e", "f"])
@pytest.mark.parametrize("name", INITIAL)
def test_an_initial_number_has_no_say_in_the_type(name: str, dtype: str) -> None:
    data, x = placed("uneven", dtype)
    ours, theirs = getattr(gnp, name), getattr(np, name)
    for initial in (INITIAL[name], 1, True, np.float64(2), np.int8(1)):
        same(ours(x, initial=initial), theirs(data, initial=initial), exact=dtype not in "ef")
        some = data > 0
        found = ours(x, axis=0, initial=initial, where=some)
        same(found, theirs(data, axis=0, initial=initial, where=some), exact=dtype not in "ef")
    assert ours(x, initial=gnp.asarray(1.0)).dtype == theirs(data).dtype


def test_what_an_initial_number_must_not_be() -> None:
    x = placed("uneven", "b")[1]
    with pytest.raises(ArgumentRangeError, match="initial=300 does not fit int8"):
        gnp.max(x, initial=300)
    for initial in (2j, np.complex64(2), "one"):
        with pytest.raises(ArgumentTypeError, match=r"initial=.* must be a number that int8"):
            gnp.max(x, initial=initial)


def test_positions_and_counts_copy_nothing() -> None:
    data = np.random.default_rng(0).random((128, 256))
    site = Site(((0, 0),), (0,), (128,))
    kernel = argmin_argmax.ARGMIN.kernel(np, (Aval(data.shape, data.dtype),), ((-1,), False, None))
    assert memory_of(kernel, site, data) < 40 * len(data)
    mask = data > 0.5
    every = ((-2, -1), False, None)
    kernel = reductions.COUNT_NONZERO.kernel(np, (Aval(mask.shape, mask.dtype),), every)
    assert kernel(mask) == mask.sum()
    assert memory_of(kernel, mask) < mask.nbytes / 8


PART = np.arange(48).reshape(8, 6) % 5 > 1
PART[3] = False
REDUCED: dict[str, dict[str, Any]] = {
    "sum": {"initial": 2},
    "prod": {"initial": 2},
    "min": {"initial": 0},
    "max": {"initial": 0},
    "any": {},
    "all": {},
    "mean": {},
    "var": {"ddof": 1},
    "std": {},
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, where nothing takes part
@pytest.mark.parametrize("nan", ["", "nan"])
@pytest.mark.parametrize("name", REDUCED)
def test_a_part_is_reduced_by_functions_and_methods(name: str, nan: str) -> None:
    if not hasattr(np, nan + name):
        return
    rng = np.random.default_rng(5)
    floats = rng.standard_normal(PART.shape)
    floats[5] = floats[1, 2] = np.nan
    forms = [lambda m, x, k: getattr(m, nan + name)(x, **k)]
    if not nan:
        forms.append(lambda m, x, k: getattr(x, name)(**k))
    for data, (part, given), axis, form in itertools.product(
        (floats, rng.integers(-9, 9, PART.shape)),
        ((PART, put(PART, "x", "y")), (PART[0], PART[0].tolist()), (True, True)),
        (None, 1),
        forms,
    ):
        keywords = REDUCED[name] | {"axis": axis, "keepdims": axis == 1}
        x = put(data, "x", "y")
        agree(
            lambda: form(gs.numpy, x, keywords | {"where": given}),  # noqa: B023
            lambda: form(np, data, keywords | {"where": part}),  # noqa: B023
            exact=False,
        )


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
def test_a_row_on_devices_says_what_takes_part() -> None:
    data, row = np.arange(12, dtype="f").reshape(3, 4), np.array([True, False, True, True])
    x, given = put(data, "x"), put(row)
    for axis, dtype in ((0, None), (1, None), (1, "d")):
        wanted = np.mean(data, axis, dtype, where=row)
        same(gnp.mean(x, axis, dtype, where=given), wanted, exact=False)


@pytest.mark.parametrize("name", ["min", "max"])
def test_an_initial_number_beside_one_element_and_none(name: str) -> None:
    data = np.array([[1.0, 7.0, 4.0]])
    for part in (data, data[:0]):
        for initial in (3.0, -9.0, 9.0):
            wanted = getattr(np, name)(part, 0, initial=initial)
            same(getattr(gnp, name)(put(part), 0, initial=initial), wanted)


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_a_mean_that_is_known(name: str) -> None:
    data = np.random.default_rng(6).standard_normal(PART.shape)
    mean = data.mean(1, keepdims=True)
    x = put(data, "x", "y")
    agree(
        lambda: getattr(gs.numpy, name)(x, 1, mean=gs.numpy.asarray(mean), ddof=1),
        lambda: getattr(np, name)(data, 1, mean=mean, ddof=1),
        exact=False,
    )
