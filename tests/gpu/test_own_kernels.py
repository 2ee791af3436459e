"""Kernels of our own on a GPU, beside the kernels for NumPy as the oracle."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.aval import Aval
from gpushard._ops.index_arrays import Indexed
from gpushard._ops.row import Row, Site
from gpushard._ops.table import (
    argmin_argmax,
    creation,
    elementwise,
    furthest,
    gather,
    histograms,
    moments,
    nan_moments,
    nonzero,
    random,
    random_keys,
    random_order,
    reductions,
    scatter,
)
from gpushard.testing.runtime import using
from tests.gpu.device import SPLITS, Split, make_driver, make_gpu_runtime, needs_gpu
from tests.ops.cases import cases

pytestmark = needs_gpu

RANDOM = [
    row
    for module in (random, random_keys, random_order)
    for row in vars(module).values()
    if isinstance(row, Row)
]


OTHERS = [
    gather.GATHER, scatter.SCATTER, nonzero.NONZERO, furthest.FURTHEST, histograms.BINCOUNT,
    histograms.HISTOGRAM, argmin_argmax.ARGMIN, argmin_argmax.ARGMAX, reductions.NANMIN,
    reductions.NANMAX, reductions.COUNT_NONZERO, moments.MEAN, moments.VAR, moments.STD,
    nan_moments.NANMEAN, nan_moments.NANVAR, nan_moments.NANSTD, elementwise.WHERE,
    elementwise.CLIP, elementwise.ROUND, elementwise.IMAG, elementwise.VIEW, creation.TRIL,
    creation.TRIU, elementwise.NAN_TO_NUM,
]  # fmt: skip


@pytest.mark.parametrize("row", [*RANDOM, *OTHERS], ids=lambda row: row.name)
def test_results_are_the_hosts_however_operands_are_split(row: Row) -> None:
    for number, case in enumerate(itertools.islice(cases(row), 0, None, 2)):
        split: Split = SPLITS[number % len(SPLITS)]
        axes = {"a": max(split.partitions // 2, 1), "b": min(split.partitions, 2)}
        with using(make_gpu_runtime(make_driver("cupy"), split)):
            close = 1e-9 if case.expected()[0].dtype.itemsize >= 8 else 2e-6
            case.check(gs.make_mesh(tuple(axes.values()), tuple(axes)), close=close)


OPERATIONS = {
    "set": None, "add": np.add, "subtract": np.subtract, "multiply": np.multiply,
    "divide": np.divide, "power": np.power, "minimum": np.minimum, "maximum": np.maximum,
}  # fmt: skip

TYPES = ["?", "b", "H", "i", "L", "e", "f", "d", "F"]


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    """Whole numbers, some of them NaN where there are such."""
    made = rng.integers(1, 4, shape).astype(dtype)
    if made.dtype.kind == "f":
        made[rng.random(shape) < 0.1] = np.nan
    return made


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_updates_are_the_hosts_to_the_bit(name: str, dtype: str) -> None:
    ufunc, rng = OPERATIONS[name], np.random.default_rng(len(name) + ord(dtype))
    if (name in ("divide", "power") and dtype in "?bHiL") or (name, dtype) == ("subtract", "?"):
        pytest.skip("converted first, or not defined")
    if (name in ("minimum", "maximum", "power") and dtype == "F") or (name, dtype) == ("add", "e"):
        pytest.skip("another kernel")
    for shape, count, axis in (((5, 3), 40, -2), ((4, 6), 3, -1), ((3, 0), 4, -2), ((3, 4), 0, -1),
                               ((2, 50, 2), 3000, -2)):  # fmt: skip
        x = numbers(rng, dtype, shape)
        after = -axis - 1
        size = shape[axis]
        at = rng.integers(-size - 2, size + 2, count).astype("b" if count < 9 else "l")
        part = (*shape[: len(shape) + axis], count, *shape[len(shape) - after :])
        values = numbers(rng, dtype, part[1:] if count % 2 else part)
        indexed = Indexed((axis,), after)
        avals = [Aval(array.shape, array.dtype) for array in (x, values, at)]
        site = Site(((0,) * x.ndim,) * 3, (0,) * x.ndim, shape)
        want = np.empty_like(x)
        scatter.SCATTER.kernel(np, avals, (indexed, ufunc))(site, x, values, at, out=want)
        cupy = importlib.import_module("gpushard._runtime.cuda.kernels.namespace")
        found = cupy.empty(shape, dtype)
        given = [cupy.asarray(array) for array in (x, values, at)]
        scatter.SCATTER.kernel(cupy, avals, (indexed, ufunc))(site, *given, out=found)
        np.testing.assert_allclose(found.get(), want, rtol=1e-6 if name == "power" else 0)


def test_numbers_and_arrays_without_dims_are_operands_too() -> None:
    data = np.arange(12.0).reshape(3, 4) - 5
    at = np.array(2)
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[0])):
        x, row = gs.device_put(data), gs.device_put(at)
        np.testing.assert_array_equal(gs.numpy.where(x > 0, x, 2.5), np.where(data > 0, data, 2.5))
        np.testing.assert_array_equal(gs.numpy.take(x, row, axis=1), data[:, 2])
        np.testing.assert_array_equal(x[row, gs.device_put(np.array(-1))], data[2, -1])
        want = data.copy()
        want[2] = 7.5
        np.testing.assert_array_equal(x.at[row].set(7.5), want)
        want[2, 1] += 1
        np.testing.assert_array_equal(x.at[row].set(7.5).at[row, 1].add(1), want)
        for one in (gs.device_put(np.array(1)), gs.device_put(1)):
            found = gs.numpy.zeros(3, int).at[np.array([0, 2, 0])].add(one)
            np.testing.assert_array_equal(found, [2, 0, 1])
        found = x.at[np.array([0, 2, 0])].apply(lambda part: part * 2)
        np.testing.assert_array_equal(found, data * np.array([[4], [1], [2]]))
