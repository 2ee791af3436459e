"""`gpushard.numpy` against `jax.numpy`: the same calls on the same arrays, split anyhow.

Each call is made eagerly, under `jit`, and under `vmap` of both, with arrays that are split
unevenly over eight devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime


@pytest.fixture(autouse=True)
def wide_types(jax: ModuleType) -> Iterator[None]:
    """Run with eight devices here, and 64-bit types in JAX."""
    with runtime(host_domains=2), jax.enable_x64(True):
        yield


class _Case:
    """A call of a namespace with arrays, each "type:lengths", such as "f8:5,3"."""

    def __init__(self, call: Callable[..., Any], *arrays: str) -> None:
        self.call, self.arrays = call, arrays


def _value(text: str, seed: int) -> np.ndarray:
    kind, _, lengths = text.partition(":")
    random = np.random.default_rng(seed)
    shape = tuple(int(n) for n in lengths.split(",") if n)
    if kind == "?":
        return random.random(shape) < 0.5
    if np.dtype(kind).kind in "iu":
        low = 0 if np.dtype(kind).kind == "u" else -4
        return random.integers(low, 5, shape).astype(kind)
    x = random.standard_normal(shape) * 3
    x = x + 4j * random.standard_normal(shape) if np.dtype(kind).kind == "c" else x
    return np.asarray(x).astype(kind)


def _placed(x: np.ndarray, seed: int) -> gs.Array:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    specs = [("x", "y"), ("y", None), (("x", "y"),), (None, ("y", "x")), ()]
    placed: gs.Array = gs.device_put(
        x, gs.NamedSharding(mesh, gs.P(*specs[seed % len(specs)][: x.ndim]))
    )
    return placed


def _check(got: Any, want: Any) -> None:
    got, want = gs.tree.leaves(got), gs.tree.leaves(want)
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype), (mine, theirs)
        if theirs.dtype.kind in "fc":
            limit = 1e-5 if theirs.dtype.char in "fF" else 1e-2 if theirs.dtype == "e" else 1e-12
            np.testing.assert_allclose(mine, theirs, rtol=limit, atol=limit)
        else:
            np.testing.assert_array_equal(mine, theirs)


def _pad(mode: str, **options: Any) -> Callable[..., Any]:
    return lambda m, x: m.pad(x, ((2, 1), (0, 4)), mode, **options)


def _first(m: Any, row: Any, width: Any, axis: int, options: Any) -> Any:
    return row.at[: width[0]].set(axis + options["value"])


def _at(method: str, *args: Any, **hints: Any) -> Callable[..., Any]:
    return lambda m, x, i: getattr(m.asarray(x).at[i], method)(*args, **hints)


FAR = np.array([-1, 3, -7, 0, 9, 3])
WRAP: dict[str, Any] = {"wrap_negative_indices": False}
CASES: dict[str, _Case] = {
    **{
        f"pad {mode} {kind}": _Case(_pad(mode), f"{kind}:4,5")
        for mode in ("edge", "wrap", "reflect", "symmetric", "maximum", "minimum", "mean", "median")
        for kind in ("f8", "i1")
    },
    "pad ramp": _Case(_pad("linear_ramp", end_values=((7, -2), (0, 1))), "f8:4,5"),
    "pad ramp i4": _Case(_pad("linear_ramp", end_values=9), "i4:4,5"),
    "pad empty": _Case(lambda m, x: m.pad(x, 2, "empty")[2:-2], "f8:5"),
    "pad odd": _Case(_pad("reflect", reflect_type="odd"), "f8:4,5"),
    "pad odd twice": _Case(lambda m, x: m.pad(x, 9, "reflect", reflect_type="odd"), "i2:4"),
    "pad odd symmetric": _Case(_pad("symmetric", reflect_type="odd"), "c16:4,5"),
    "pad mean of two": _Case(_pad("mean", stat_length=((2, 1), (3, 2))), "f8:4,5"),
    "pad function": _Case(
        lambda m, x: m.pad(x, ((1, 2), (2, 0)), lambda *a: _first(m, *a), value=3), "f8:3,2"
    ),
    "interp": _Case(
        lambda m, x: m.interp(x, np.arange(4.0), np.array([1.0, 3, 2, 9]), "extrapolate", -1.0),
        "f8:5,3",
    ),
    "interp right": _Case(
        lambda m, x: m.interp(x, np.arange(4.0), np.array([1.0, 3, 2, 9]), None, "extrapolate"),
        "f8:7",
    ),
    "interp arrays": _Case(
        lambda m, x, left: m.interp(x, np.arange(3.0), np.array([1.0, 3, 2]), left, left * 2),
        "f8:7", "f8:7",
    ),
    "interp period": _Case(
        lambda m, x, p: m.interp(x, np.arange(3.0), np.array([1.0, 3, 2]), period=abs(p) + 1),
        "f8:7", "f8:",
    ),
    **{
        f"{name} {one} {two}": _Case(
            lambda m, x, y, name=name: getattr(m, name)(x, y), f"{one}:5,3", f"{two}:5,3"
        )
        for name in ("logaddexp", "logaddexp2")
        for one, two in (("c16", "c16"), ("c8", "f4"), ("f8", "c16"), ("f8", "f8"))
    },
    **{
        f"cross {one} {two}": _Case(lambda m, x, y: m.cross(x, y), f"f8:{one}", f"i4:{two}")
        for one, two in (("5,2", "5,2"), ("2", "4,2"), ("5,2", "3"), ("2,3", "2,2"))
    },
    "take None": _Case(lambda m, x: m.take(x, np.array([1, -2]), 0, mode=None), "f8:5,3"),
    "take along": _Case(
        lambda m, x: m.take_along_axis(x, FAR[:, None] * np.ones((1, 3), int), 0, mode="fill",
                                       fill_value=-5, wrap_negative_indices=False),
        "f8:5,3",
    ),
    "take along clip": _Case(
        lambda m, x: m.take_along_axis(x, FAR, 0, mode="clip", wrap_negative_indices=False), "f8:5"
    ),
    **{
        f"at {method} {mode}": _Case(
            _at(method, *([] if method == "get" else [2]), mode=mode, **WRAP), "f8:5,3", "i8:4"
        )
        for method in ("get", "set", "add", "subtract", "multiply", "divide", "power", "min", "max")
        for mode in (None, "clip", "drop", "fill")
    },
    "at two": _Case(
        lambda m, x, i: m.asarray(x).at[i, 1 - i].set(7, **WRAP), "f8:5,3", "i8:4"
    ),
    "at integer": _Case(lambda m, x: m.asarray(x).at[-1, 1:].add(7, **WRAP), "f8:5,3"),
    "at slice": _Case(lambda m, x: m.asarray(x).at[-2:].add(7, **WRAP), "f8:5,3"),
    **{
        f"apply {hints}": _Case(
            lambda m, x, i, hints=hints: (
                m.asarray(x).at[i].apply(lambda v: v * 2 + 1, mode="drop", **hints)
            ),
            "f8:5,3", "i8:6",
        )
        for hints in ({}, WRAP)
    },
    "apply two": _Case(
        lambda m, x, i: m.asarray(x).at[i, i].apply(lambda v: v * 3 - 1, mode="drop"),
        "f8:5,5", "i8:9",
    ),
    "put": _Case(lambda m, x: m.put(x, FAR[:4], FAR[:4] + 0.5, inplace=False), "f8:5,3"),
    "put None": _Case(
        lambda m, x: m.put(x, np.array([1, 3]), np.array([9.0]), mode=None, inplace=False),
        "f8:5,3",
    ),
    "fft": _Case(lambda m, x: m.fft.fft(x), "f8:3,0"),
    "irfftn": _Case(lambda m, x: m.fft.irfftn(x), "c16:0,3"),
    **{
        f"repeat {n}": _Case(
            lambda m, x, k, n=n: m.repeat(x, abs(k), 0, total_repeat_length=n), "f8:5,3", "i8:"
        )
        for n in (0, 3, 10, 25)
    },
    **{
        f"byteswap {kind}": _Case(lambda m, x: m.asarray(x).byteswap(), f"{kind}:5,3")
        for kind in ("?", "i1", "u2", "i8")
    },
    "allclose": _Case(lambda m, x, y: m.asarray(m.allclose(x, y, atol=3)), "f8:5", "f8:5"),
    "allclose itself": _Case(lambda m, x: m.asarray(m.allclose(x, x + 1e-12)), "f8:5"),
    "array_equal": _Case(lambda m, x: m.asarray(m.array_equal(x, x)), "f8:5,3"),
    "array_equiv": _Case(lambda m, x, y: m.asarray(m.array_equiv(x, y)), "i4:5,3", "i4:3"),
    **{
        f"{name} {n} {k}": _Case(
            lambda m, k, name=name, n=n, more=more: (
                getattr(m, name)(n, k=k.astype(int) + more, dtype="f4")
            ),
            "i8:",
        )
        for name in ("eye", "tri")
        for n, more in ((3, 0), (5, 2), (4, -9))
        for k in (more,)
    },
    "polymul": _Case(lambda m, x, y: m.polymul(x, y), "f8:4", "f8:3"),
    "polymul f4": _Case(
        lambda m, x, y: m.polymul(x, y, trim_leading_zeros=False), "f4:4", "f4:6"
    ),
    "polydiv": _Case(
        lambda m, x, y: m.polydiv(x, y, trim_leading_zeros=False), "f8:6", "f8:3"
    ),
    "polydiv shorter": _Case(
        lambda m, x, y: m.polydiv(x, y, trim_leading_zeros=False), "f8:2", "f8:4"
    ),
    **{
        f"{name} {one} {two} {to}": _Case(
            lambda m, x, y, name=name, to=to: (
                getattr(m, name)(x, y, preferred_element_type=to)
            ),
            f"{one}:4,4", f"{two}:4,4",
        )
        for name in ("matmul", "dot", "inner", "vdot", "tensordot", "vecdot")
        for one, two, to in (("f4", "f4", "i4"), ("i1", "i2", "i4"), ("f4", "f8", "f4"))
    },
}  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", CASES)
def test_eagerly_and_traced(name: str, jax: ModuleType) -> None:
    case = CASES[name]
    for seed in range(2):
        data = [_value(text, 10 * seed + n) for n, text in enumerate(case.arrays)]
        want = case.call(jax.numpy, *map(jax.numpy.asarray, data))
        xs = [_placed(x, seed + n) for n, x in enumerate(data)]
        _check(case.call(gs.numpy, *xs), want)
        _check(gs.jit(lambda *xs: case.call(gs.numpy, *xs))(*xs), want)


@pytest.mark.parametrize("name", CASES)
def test_mapped(name: str, jax: ModuleType) -> None:
    case = CASES[name]
    rows = [[_value(text, 7 * n + row) for row in range(3)] for n, text in enumerate(case.arrays)]
    each = [case.call(jax.numpy, *map(jax.numpy.asarray, row)) for row in zip(*rows, strict=True)]
    want = gs.tree.map(lambda *xs: np.stack([np.asarray(x) for x in xs]), *each)
    xs = [_placed(np.stack(row), n) for n, row in enumerate(rows)]
    mapped = gs.vmap(lambda *xs: case.call(gs.numpy, *xs))
    _check(mapped(*xs), want)
    _check(gs.jit(mapped)(*xs), want)
