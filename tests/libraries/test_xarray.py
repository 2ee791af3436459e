"""xarray's operations on sharded arrays: the values of NumPy's, and the data stay sharded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs

xr = pytest.importorskip("xarray", reason="xarray is not installed: pip install 'gpushard[test]'")

DATA = np.random.default_rng(5).standard_normal((12, 7, 4))

Work = Callable[[Any], Any]

OPERATIONS: dict[str, Work] = {
    "arithmetic": lambda a: (a * 2 + a**2 - 1) / 3,
    "comparison": lambda a: a > 0,
    "numpy function": lambda a: np.sin(a),
    "broadcasting": lambda a: a - a.isel(level=0),
    "sum": lambda a: a.sum("time"),
    "mean": lambda a: a.mean(("time", "level")),
    "mean with holes": lambda a: a.where(a < 1).mean("time"),
    "std": lambda a: a.std("level"),
    "max": lambda a: a.max("place"),
    "argmax": lambda a: a.argmax("time"),
    "count": lambda a: a.where(a > 0).count("time"),
    "cumsum": lambda a: a.cumsum("time"),
    "rolling mean": lambda a: a.rolling(time=3).mean(),
    "centered rolling max": lambda a: a.rolling(time=4, center=True).max(),
    "rolling windows": lambda a: a.rolling(level=2).construct("window"),
    "diff": lambda a: a.diff("time"),
    "isel": lambda a: a.isel(time=slice(2, 9, 2), place=-1),
    "isel with a list": lambda a: a.isel(time=[3, 0, 3]),
    "sel": lambda a: a.sel(place=[10, 30]),
    "transpose": lambda a: a.transpose("level", "time", "place"),
    "where": lambda a: a.where(a > 0, 0.0),
    "fillna": lambda a: a.where(a > 0).fillna(-1.0),
    "clip": lambda a: a.clip(-1, 1),
    "concat": lambda a: xr.concat([a, a + 1], "time"),
    "stack": lambda a: a.stack(both=("time", "place")),
    "shift": lambda a: a.shift(time=2),
    "roll": lambda a: a.roll(time=3),
    "pad": lambda a: a.pad(time=(1, 2), constant_values=0.0),
    "coarsen": lambda a: a.coarsen(time=3).mean(),
    "dot": lambda a: xr.dot(a, a.isel(level=0), dim="time"),
    "expand_dims": lambda a: a.expand_dims("new", 1),
    "quantile": lambda a: a.quantile(0.5, "time"),
    "median": lambda a: a.median("time"),
    "groupby": lambda a: a.groupby("group").mean(),
    "weighted": lambda a: a.weighted(abs(a.isel(level=0, place=0))).mean("time"),
    "dropna": lambda a: a.dropna("time"),
    "astype": lambda a: a.astype("float32"),
    "real": lambda a: a.real,
}


def labelled(data: Any) -> Any:
    coordinates = {
        "place": np.arange(7) * 10,
        "group": ("time", np.arange(12) % 3),
    }
    return xr.DataArray(data, dims=("time", "place", "level"), coords=coordinates, name="a")


@pytest.mark.one_of(2)
@pytest.mark.parametrize("spec", [gs.P("x"), gs.P("x", "y"), gs.P(None, ("x", "y"))], ids=repr)
@pytest.mark.parametrize("name", OPERATIONS)
def test_results_are_those_for_numpy_arrays(name: str, spec: gs.P) -> None:
    mesh = gs.make_mesh((3, 2), ("x", "y"), devices=gs.devices()[:6])
    x = gs.device_put(DATA, gs.NamedSharding(mesh, spec))
    want, got = (OPERATIONS[name](labelled(data)) for data in (DATA, x))
    value = getattr(got, "data", got)
    assert isinstance(value, gs.Array)
    want = getattr(want, "data", want)
    assert value.shape == want.shape and value.dtype == want.dtype
    np.testing.assert_allclose(np.asarray(value), want, rtol=1e-12, atol=1e-12)
