"""Functions of `gpushard.numpy` on mapped values, against NumPy on each of them.

They are made of several operations, some of which read the host for plain arrays: nothing does so
for mapped ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard.errors import TracedValueError

P = gs.P
gnp = gs.numpy

IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "sort": lambda y, m: y.sort(),
    "partition": lambda y, m: y.partition(2),
    "fill": lambda y, m: y.fill(3),
    "put": lambda y, m: y.put([0, 2], [7, 8]),
    "put_along_axis": lambda y, m: m.put_along_axis(y, m.argsort(y, axis=0)[:1], 9, 0),
    "putmask": lambda y, m: m.putmask(y, y > 3, -1),
    "fill_diagonal": lambda y, m: m.fill_diagonal(y, 3) if y.ndim > 1 else None,
    "mask": lambda y, m: y.__setitem__(y > 3, 0),
    "slice": lambda y, m: y.__setitem__(slice(1, 3), y[:2] * 2),
    "last": lambda y, m: y.__setitem__((Ellipsis, -1), 5),
    "rows": lambda y, m: y.__setitem__([0, 2], y[[1, 1]]),
}
"""They change what they are given."""


def spd(y: Any, m: Any) -> Any:
    """Return a matrix that has an inverse."""
    return m.eye(y.size) * 2 + m.outer(y.ravel(), y.ravel())


def number(y: Any, m: Any) -> Any:
    """Return an integer that differs between what is mapped."""
    return m.abs(y).sum().astype(int) % 5


def xor(y: Any, m: Any) -> Any:
    """Return the sum of what is in one of two arrays, of a length that is said where it must be."""
    said = {} if m is np else {"size": y.size + 3, "fill_value": 0}
    return m.setxor1d(m.rint(y).ravel(), np.array([1.0, 2, 4]), **said).sum()


def placed(y: Any, m: Any) -> Any:
    """Return an array into which values are placed where it is large."""
    z = y.copy()
    m.place(z, z > 2, [7.0, 8.0])
    return z


def applied(y: Any, m: Any) -> Any:
    """Return an array of which a part is replaced by a function of it."""
    at = number(y, m) % 3
    if m is np:
        z = y.copy()
        z[at] = np.exp(z[at])
        return np.where(z > 3, -z, z)
    z = y.at[at].apply(m.exp)
    return z.at[z > 3].apply(lambda part: -part)


VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "at, apply": applied,
    "choose": lambda y, m: m.choose(number(y, m) % 3, [y, y * 2, y * 3]),
    "geomspace": lambda y, m: m.geomspace(m.abs(y).max() + 1, 9, 4),
    "linspace to numbers": lambda y, m: m.linspace(y.min(), y.max(), 5),
    "linspace, not to the end": lambda y, m: m.linspace(1, y.max(), 3, endpoint=False),
    "logspace": lambda y, m: m.logspace(y.min() / 9, y.max() / 9, 4),
    "logspace by a base": lambda y, m: m.logspace(0, 1, 4, base=m.abs(y).max() + 1),
    "lstsq": lambda y, m: m.linalg.lstsq(spd(y, m)[:, :2], y.ravel())[0],
    "lstsq, what is left": lambda y, m: m.linalg.lstsq(spd(y, m)[:, :2], y.ravel())[1],
    "pad with a value": lambda y, m: m.pad(y, (1, 2), constant_values=y.max()),
    "pad with values": lambda y, m: m.pad(y, 1, constant_values=(y.max(), 3)),
    "piecewise, by cases": lambda y, m: m.piecewise(y, [y > 2, y < -1], [7, lambda y: y * 2, 1]),
    "place": placed,
    "roll by a number": lambda y, m: m.roll(y, number(y, m)),
    "roll along a dim": lambda y, m: m.roll(y, -number(y, m), -1),
    "roll by several": lambda y, m: m.roll(y, (number(y, m), 1, 2), 0),
    "setxor1d": xor,
    "unravel_index": lambda y, m: m.stack(m.unravel_index(number(y, m) + 3, (2, 4))),
    "append": lambda y, m: m.append(y, y),
    "apply_along_axis": lambda y, m: m.apply_along_axis(lambda row: row * 2, 0, y),
    "argmax": lambda y, m: m.argmax(y),
    "argmin": lambda y, m: m.argmin(y, axis=0),
    "convolve": lambda y, m: m.convolve(y.ravel(), np.array([1.0, 2.0])),
    "corrcoef": lambda y, m: m.corrcoef(m.stack([y.ravel(), (y**2).ravel()])),
    "cov": lambda y, m: m.cov(m.atleast_2d(y)),
    "cumprod": lambda y, m: m.cumprod(y),
    "delete": lambda y, m: m.delete(y, 1, axis=0),
    "diff": lambda y, m: m.diff(y, axis=0),
    "digitize": lambda y, m: m.digitize(y, np.array([1.0, 4.0, 8.0])),
    "einsum": lambda y, m: m.einsum("i,j->ij", y.ravel(), y.ravel()),
    "fft": lambda y, m: m.fft.fft(y).real,
    "flip": lambda y, m: m.flip(y),
    "full_like": lambda y, m: m.full_like(y, 3) + m.arange(y.shape[-1]),
    "gradient": lambda y, m: m.gradient(y.ravel()),
    "histogram": lambda y, m: m.histogram(y, bins=4)[0],
    "insert": lambda y, m: m.insert(y, 1, 5, axis=0),
    "interp": lambda y, m: m.interp(y.ravel(), np.array([0.0, 5.0]), np.array([1.0, 2.0])),
    "inv": lambda y, m: m.linalg.inv(spd(y, m)),
    "isin": lambda y, m: m.isin(y, [1.5, 5.5]),
    "kron": lambda y, m: m.kron(y, y),
    "lexsort": lambda y, m: m.lexsort((y.ravel(), (-y).ravel())),
    "linspace": lambda y, m: m.ones_like(y) * m.linspace(0, 1, y.shape[-1]),
    "matmul": lambda y, m: m.atleast_2d(y) @ m.atleast_2d(y).T,
    "median": lambda y, m: m.median(y),
    "meshgrid": lambda y, m: m.meshgrid(y.ravel(), y.ravel())[0],
    "nanmean": lambda y, m: m.nanmean(y),
    "norm": lambda y, m: m.linalg.norm(y),
    "pad": lambda y, m: m.pad(y, 1, constant_values=3),
    "pad, edge": lambda y, m: m.pad(y, 1, mode="edge"),
    "percentile": lambda y, m: m.percentile(y, 30),
    "polyval": lambda y, m: m.polyval(np.array([1.0, 2.0]), y),
    "ptp": lambda y, m: m.ptp(y),
    "repeat": lambda y, m: m.repeat(y, 2, 0),
    "roll": lambda y, m: m.roll(y, 1),
    "searchsorted": lambda y, m: m.searchsorted(m.sort(y.ravel()), y.ravel()),
    "select": lambda y, m: m.select([y > 3, y > 1], [y, y * 2], 0),
    "solve": lambda y, m: m.linalg.solve(spd(y, m), y.ravel()),
    "split": lambda y, m: m.split(y, 2)[0],
    "std": lambda y, m: y.std(),
    "svd": lambda y, m: m.linalg.svd(m.atleast_2d(y), compute_uv=False),
    "swapaxes": lambda y, m: m.swapaxes(y[None], 0, -1),
    "take_along_axis": lambda y, m: m.take_along_axis(y, m.argsort(y, axis=0), 0),
    "tile": lambda y, m: m.tile(y, 2),
    "trace": lambda y, m: m.trace(m.outer(y.ravel(), y.ravel())),
    "transpose": lambda y, m: y.T,
    "trapezoid": lambda y, m: m.trapezoid(y),
    "tril": lambda y, m: m.tril(m.outer(y.ravel(), y.ravel())),
    "unwrap": lambda y, m: m.unwrap(y),
    "vander": lambda y, m: m.vander(y.ravel(), 3),
    "vstack": lambda y, m: m.vstack([m.atleast_2d(y)] * 2),
    "where": lambda y, m: m.where(y > 2, y, 0),
}  # fmt: skip


def called(name: str, x: Any, m: Any) -> Any:
    """Return what a function makes of a copy of an array."""
    y = x + 0
    if name in IN_PLACE:
        IN_PLACE[name](y, m)
        return y
    return VALUES[name](y, m)


NAMES = [*IN_PLACE, *VALUES]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 6)])
@pytest.mark.parametrize("name", NAMES)
def test_a_function_of_mapped_values_is_numpys_of_each(name: str, shape: tuple[int, ...]) -> None:
    value = np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape) + 0.5
    want = np.stack([np.asarray(called(name, part, np)) for part in value])
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((4,), ("x",))

        def block(x: Any) -> Any:
            return called(name, x[0], gs.numpy)[None]

        ways = [
            gs.vmap(lambda x: called(name, x, gs.numpy)),
            gs.shard_map(block, mesh, P("x"), P("x")),
            gs.pmap(lambda x: called(name, x, gs.numpy)),
        ]
        for way in ways:
            got = np.asarray(way(value))
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


KNOWN: dict[str, Any] = {
    "bincount": lambda x, n: gnp.bincount(x, length=n),
    "cov": lambda x, n: gnp.cov(x, ddof=n),
    "expand_dims": lambda x, n: gnp.expand_dims(x, n),
    "gradient": lambda x, n: gnp.gradient(x, edge_order=n),
    "histogram": lambda x, n: gnp.histogram(x, n),
    "nonzero": lambda x, n: gnp.nonzero(x, size=3, fill_value=n),
    "partition": lambda x, n: gnp.partition(x, n),
    "partition by several": lambda x, n: gnp.partition(x, (0, n)),
    "std": lambda x, n: gnp.std(x, ddof=n),
    "sum": lambda x, n: gnp.sum(x, axis=n),
    "var": lambda x, n: x.var(correction=n),
}


@pytest.mark.parametrize("name", KNOWN)
def test_numbers_that_shape_a_program_cannot_be_traced(name: str) -> None:
    with pytest.raises(TracedValueError, match=r"needs elements, at .*test_functions\.py"):
        gs.jit(KNOWN[name])(np.arange(8), 0)


@pytest.mark.parametrize("name", ["array_equal", "array_equiv", "allclose"])
def test_comparisons_of_traced_arrays(name: str) -> None:
    x = np.arange(6.0).reshape(2, 3)
    for y in (x, x + np.array([0, 0, 1e-3]), x[:1], x[:, :2]):
        if name != "allclose" or y.shape != (2, 2):
            wanted = getattr(np, name)(x, y)
            found = gs.jit(getattr(gnp, name))(x, y)
            assert bool(found) is wanted
            if x.shape == y.shape:
                assert isinstance(found, gs.Array)
