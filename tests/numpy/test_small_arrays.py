"""Functions of arrays at the edges: none or one element, no dims, narrow types, uneven splits.

Against NumPy's; and traced and mapped functions against these.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import GpushardError, TracedValueError
from tests.numpy.compare import put
from tests.numpy.matrices import ONE_RUNTIME
from tests.share import seeds

gnp = gs.numpy
pytestmark = [pytest.mark.usefixtures("domains"), ONE_RUNTIME]

SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (5,), (0, 3), (7, 3), (3, 0), (2, 3, 5)]
SPECS: list[tuple[Any, ...]] = [("x", "y"), (("x", "y"),), (None, "x"), ()]
TYPES = ["?", "i1", "u8", "f2", "f4", "c16"]

Draw = Callable[..., Any]
"""Takes alternatives, and returns one of them."""

CALLS: dict[str, Callable[[Any, Any, Draw], Any]] = {
    "append": lambda m, x, r: m.append(x, x, axis=r(None, 0)),
    "apply": lambda m, x, r: m.apply_along_axis(lambda line: line.sum(), 0, x),
    "argwhere": lambda m, x, r: m.argwhere(x),
    "bincount": lambda m, x, r: m.bincount(abs(x.ravel().real).astype(int), minlength=r(0, 9)),
    "block": lambda m, x, r: m.block([[x, x], [x, x]]),
    "clip": lambda m, x, r: m.clip(x, r(None, 0, 1), r(2, 3)),
    "compress": lambda m, x, r: m.compress([True, False, True], x, axis=r(None, 0, -1)),
    "concatenate": lambda m, x, r: m.concatenate([x, x[:0], x], axis=r(0, -1, None)),
    "convolve": lambda m, x, r: m.convolve(
        x.ravel(), x.ravel()[:2], mode=r("full", "same", "valid")
    ),
    "cov": lambda m, x, r: m.cov(x.real.astype(float), bias=r(True, False)),
    "cumsum": lambda m, x, r: m.cumsum(x, axis=r(None, 0, -1), dtype=r(None, "f4", "c8")),
    "delete": lambda m, x, r: m.delete(x, r(0, -1, [0, 0], slice(1, None)), axis=r(None, 0, -1)),
    "diagonal": lambda m, x, r: m.diagonal(x, offset=r(0, 1, -9)),
    "diff": lambda m, x, r: m.diff(x, n=r(0, 1, 2, 9), axis=r(0, -1)),
    "digitize": lambda m, x, r: m.digitize(x.real, np.array(r([0.0, 1, 2], [2.0, 1, 0], [1.0]))),
    "dot": lambda m, x, r: m.dot(x, x.T if x.ndim < 3 else x.swapaxes(-1, -2)),
    "einsum": lambda m, x, r: m.einsum("...i->...", x),
    "expand_dims": lambda m, x, r: m.expand_dims(x, r(0, -1, (0, -1))),
    "fft": lambda m, x, r: m.fft.fft(x.astype(complex), n=r(3, 8), norm=r(None, "ortho")),
    "fill_diagonal": lambda m, x, r: _changed(m.fill_diagonal, x, [1, 2], wrap=r(True, False)),
    "histogram": lambda m, x, r: m.histogram(x.real.astype(float), r(1, 4), range=(-3, 3)),
    "index": lambda m, x, r: x[r(0, -1, slice(None, None, -2), slice(5, 1), (..., None), [0, 0])],
    "insert": lambda m, x, r: m.insert(x, r(0, -1, [0, 0]), 1, axis=r(None, 0, -1)),
    "interp": lambda m, x, r: m.interp(x.real, [0.0, 1, 2], [1.0, 5, 2], left=r(None, -1.0)),
    "intersect1d": lambda m, x, r: m.intersect1d(x, x),
    "isin": lambda m, x, r: m.isin(x, r([1, 2], np.array([0.0]))),
    "kron": lambda m, x, r: m.kron(x, x[:1]),
    "lexsort": lambda m, x, r: m.lexsort((x, x)),
    "matmul": lambda m, x, r: m.matmul(x, x.T if x.ndim < 3 else x.swapaxes(-1, -2)),
    "meshgrid": lambda m, x, r: m.meshgrid(x.ravel(), x.ravel()[:2], sparse=r(True, False)),
    "nan_to_num": lambda m, x, r: m.nan_to_num(x / 0),
    "nonzero": lambda m, x, r: m.nonzero(x),
    "norm": lambda m, x, r: m.linalg.norm(x.astype(complex), axis=r(0, -1), ord=r(None, 1)),
    "outer": lambda m, x, r: m.outer(x, x),
    "packbits": lambda m, x, r: m.packbits(x != 0, axis=r(None, -1) if x.ndim else None),
    "pad": lambda m, x, r: m.pad(
        x, r(0, 1, 2), r("constant", "edge", "wrap", "reflect", "symmetric", "mean", "linear_ramp")
    ),
    "place": lambda m, x, r: _changed(m.place, x, x != 0, r([3, 4], [1])),
    "polyadd": lambda m, x, r: m.polyadd(x.ravel(), x.ravel()[:1]),
    "polyint": lambda m, x, r: m.polyint(x.ravel(), r(0, 1, 2)),
    "polyval": lambda m, x, r: m.polyval(x.ravel(), 2.0),
    "put": lambda m, x, r: _changed(m.put, x, [0, -1], [3, 4], mode=r("raise", "wrap", "clip")),
    "putmask": lambda m, x, r: _changed(m.putmask, x, x != 0, [3, 4]),
    "quantile": lambda m, x, r: m.quantile(
        x.real.astype(r("f2", "f4", "f8")), r(0, 0.25, [0.5, 1.0]), axis=r(None, 0, -1),
        method=r("linear", "lower", "nearest"), keepdims=r(True, False),
    ),
    "repeat": lambda m, x, r: m.repeat(x, r(0, 2, [2]), axis=r(None, -1) if x.ndim else None),
    "resize": lambda m, x, r: m.resize(x, r((2, 3), 0, (7,), (0, 2))),
    "roll": lambda m, x, r: m.roll(x, r(1, -2, 9), r(None, 0, -1)),
    "rot90": lambda m, x, r: m.rot90(x, r(1, 2, -1)),
    "round": lambda m, x, r: m.round(x, r(0, 1, -1)),
    "searchsorted": lambda m, x, r: m.searchsorted(m.sort(x.ravel()), x, side=r("left", "right")),
    "select": lambda m, x, r: m.select([x == 0, x == 1], [x, x]),
    "sort": lambda m, x, r: m.sort(x, axis=r(None, 0, -1)),
    "split": lambda m, x, r: m.array_split(x, r(1, 3, [1, 9], [-1], [0, 0])),
    "stack": lambda m, x, r: m.stack([x, x], axis=r(0, -1, 1)),
    "take": lambda m, x, r: m.take(
        x, r([0], [-1, 0], [[0, 1], [1, 0]], 0), axis=r(None, 0), mode=r("raise", "wrap", "clip")
    ),
    "tensordot": lambda m, x, r: m.tensordot(x, x, axes=r(0, x.ndim)),
    "tile": lambda m, x, r: m.tile(x, r(0, 2, (2, 1), (1, 0, 2), ())),
    "trace": lambda m, x, r: m.trace(x, offset=r(0, 1, -9)),
    "unique": lambda m, x, r: m.unique(x, return_index=True, return_counts=True),
    "vander": lambda m, x, r: m.vander(x.ravel(), r(None, 0, 3)),
    "where": lambda m, x, r: m.where(x, x, 0),
}  # fmt: skip


def _changed(function: Any, x: Any, *args: Any, **named: Any) -> Any:
    """Return what a function makes of a copy."""
    new = x.copy()
    function(new, *args, **named)
    return new


def _value(seed: int, call: str) -> tuple[np.ndarray, Callable[[Any, Any], Any]]:
    """Return data, and the call with arguments drawn from a seed."""
    random = np.random.default_rng([seed, *call.encode()])
    shape, dtype = SHAPES[random.integers(len(SHAPES))], np.dtype(TYPES[random.integers(6)])
    data = np.asarray(random.integers(0 if dtype.kind in "ub" else -4, 5, shape) * 0.75)
    if dtype.kind == "c":
        data = data + 1j * np.asarray(random.integers(-2, 3, shape))
    more = int(random.integers(1 << 30))

    def run(m: Any, x: Any) -> Any:
        drawn = np.random.default_rng(more)
        return CALLS[call](m, x, lambda *choices: choices[drawn.integers(len(choices))])

    return np.asarray(data).astype(dtype), run


def _same(got: Any, want: Any) -> None:
    got, want = gs.tree.leaves(got), gs.tree.leaves(want)
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        close = {"e": 1e-2, "f": 1e-4, "F": 1e-4}.get(mine.dtype.char, 1e-10)
        np.testing.assert_allclose(
            mine.astype(complex), theirs.astype(complex), close, close if theirs.size else 0
        )


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_edges(name: str) -> None:
    compared = 0
    for seed in seeds(27):
        data, run = _value(seed, name)
        x = put(data, *SPECS[seed % len(SPECS)][: data.ndim])
        with np.errstate(all="ignore"):
            try:
                want = run(np, data)
            except Exception:  # NumPy refuses in many ways; some of it works here
                continue
            try:
                got = run(gnp, x)
            except GpushardError:
                assert not data.ndim, "only of no dims are axes 0 and -1 refused"
                continue
            _same(got, want)
            compared += 1
            function = functools.partial(run, gnp)
            try:
                traced = gs.jit(function)(x)
                mapped = gs.vmap(function)(gnp.stack([x, x]))
            except TracedValueError:
                continue  # a shape depends on values
            _same(traced, want)
            _same(gs.tree.map(lambda leaf: leaf[1], mapped), want)
    assert compared


def test_of_single_numbers() -> None:
    for number in (0.0, 3.0):
        data = np.array(number)
        _same(gnp.argwhere(put(data)), np.argwhere(data))
        _same(gnp.lexsort([put(data), put(data)]), np.lexsort([data, data]))
        _same(gnp.lexsort(put(np.array([2.0, 1.0]))), np.lexsort(np.array([2.0, 1.0])))
        for values in ([7.0], [7.0, 8.0]):
            expected = _changed(np.place, data, data != 0, values)
            place = functools.partial(_changed, gnp.place)
            _same(place(put(data), put(data) != 0, values), expected)
            _same(gs.jit(lambda x: place(x, x != 0, values))(data), expected)  # noqa: B023
    _same(gs.jit(lambda x: place(x, x != 0, values))(np.array([0.0, 1.0])), np.array([0.0, 7.0]))
    assert gnp.argwhere(gnp.asarray(3.0), size=2).shape == (2, 0)
    _same(gs.jit(gnp.polymul)(np.zeros(0), np.ones(2)), np.zeros(2))


CHANGES: dict[str, Callable[..., Any]] = {
    "put": lambda xp, x, m, v, **how: xp.put(x, m.astype(int), v, **how),
    "put_along_axis": lambda xp, x, m, v, **how: xp.put_along_axis(x, m.astype(int), v, 0, **how),
    "flat put_along_axis": lambda xp, x, m, v, **how: xp.put_along_axis(
        x, m.astype(int).ravel(), v, None, **how
    ),
    "place": lambda xp, x, m, v, **how: xp.place(x, m, v, **how),
    "fill_diagonal": lambda xp, x, m, v, **how: xp.fill_diagonal(x, v, **how),
    "add.at": lambda xp, x, m, v, **how: xp.add.at(x, m.astype(int), v, **how),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("shape", [(), (4,), (3, 3)])
@pytest.mark.parametrize("traced", [*itertools.product([False, True], repeat=3)])
def test_new_arrays_of_what_is_traced_or_not(
    name: str, shape: tuple[int, ...], traced: tuple[bool, ...]
) -> None:
    """The array, the mask and the values may each come from outside of a traced function."""
    change = CHANGES[name]
    if (not shape and name not in ("put", "place")) or (len(shape) < 2 and name == "fill_diagonal"):
        return
    rng = np.random.default_rng(len(shape))
    given = rng.random(shape), rng.random(shape) > 0.4, np.array([7.0])
    expected = given[0].copy()
    change(np, expected, *given[1:])
    inside = [value for value, is_traced in zip(given, traced, strict=True) if is_traced]

    def function(*inside: Any) -> Any:
        rest = iter(inside)
        x, mask, values = (
            next(rest) if is_traced else put(value)
            for value, is_traced in zip(given, traced, strict=True)
        )
        found = change(gnp, x, mask, values, inplace=False)
        assert found is not x
        return found

    _same(function(*map(put, inside)), expected)
    _same(gs.jit(function)(*map(put, inside)), expected)


@pytest.mark.parametrize("method", ["set", "add", "multiply", "divide", "power", "min", "max"])
@pytest.mark.parametrize("index", [1, slice(1, 3), np.array([2, 0]), np.array([True, False] * 2)])
def test_updates_of_captured_arrays_by_what_is_traced(method: str, index: Any) -> None:
    data, values = np.arange(4.0) + 1, np.full(np.arange(4)[index].shape, 3.0)
    captured = put(data, "x")
    expected = getattr(captured.at[index], method)(values)
    for x in captured, put(data):
        _same(gs.jit(lambda v: getattr(x.at[index], method)(v))(values), expected)  # noqa: B023
        if isinstance(index, np.ndarray) and index.dtype.kind == "i":
            found = gs.jit(lambda i: getattr(x.at[i], method)(values))(index)  # noqa: B023
            _same(found, expected)
