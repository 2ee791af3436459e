"""Calls of `lax` beside their definitions: on arrays split anyhow, in `jit`, and in `vmap`.

A call has NumPy arrays among its arguments. The definition gets them as they are; the function gets
them on a mesh of eight devices, each split along dims drawn from the call itself, evenly or not.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from tests.lax.definitions import (
    elementwise,
    gathering,
    loops,
    matrices,
    products,
    reductions,
    shapes,
    slicing,
    windows,
)
from tests.lax.definitions.registry import DEFINITIONS, Refused, kind_of

MODULES = (elementwise, gathering, loops, matrices, products, reductions, shapes, slicing, windows)
"""What enters all definitions."""

AXES = {"a": 4, "b": 2}


class Held:
    """A NumPy array that a function gets as it is."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Call:
    """A call of a function of `lax`."""

    def __init__(self, name: str, *args: Any, **how: Any) -> None:
        self.name, self.args, self.how = name, args, how

    def __repr__(self) -> str:
        texts = [*map(_said, self.args), *(f"{key}={_said(x)}" for key, x in self.how.items())]
        return f"{self.name}({', '.join(texts)})"

    def seed(self) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(repr(self).encode()))


def _said(x: Any) -> str:
    if isinstance(x, Held):
        return f"numpy {_said(x.value)}"
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{x.tolist() if x.size < 5 else list(x.shape)}".replace(" ", "")
    if isinstance(x, tuple | list):
        return f"{type(x).__name__}({','.join(map(_said, x))})"
    return getattr(x, "__name__", str(x))


def replaced(x: Any, change: Callable[[Any], Any]) -> Any:
    """Return arguments with each array in them changed."""
    if isinstance(x, np.ndarray):
        return change(x)
    if isinstance(x, dict):
        return {key: replaced(value, change) for key, value in x.items()}
    if type(x) in (tuple, list):
        return type(x)(replaced(value, change) for value in x)
    return x


def plain(x: Any) -> Any:
    """Return arguments without `Held`."""
    if type(x) in (tuple, list):
        return type(x)(map(plain, x))
    return x.value if isinstance(x, Held) else x


def placed(x: Any, random: np.random.Generator) -> Any:
    """Put an array on devices, some of its dims split."""
    mesh = gs.make_mesh(tuple(AXES.values()), tuple(AXES))
    entries: list[list[str]] = [[] for _ in range(x.ndim)]
    for axis in AXES if x.ndim else ():
        if random.random() < 0.8:
            entries[random.integers(x.ndim)].append(axis)
    spec = gs.P(*[tuple(entry) or None for entry in entries])
    return gs.device_put(x, gs.NamedSharding(mesh, spec))


def tolerance(dtype: Any) -> float:
    return 2e-2 if dtype.itemsize < 4 else 2e-5 if dtype.char in "fF" else 1e-10


def same(result: Any, wanted: Any, close: float | None = None) -> None:
    """Check values, shapes, dtypes and, where results are exact, the signs of zeros."""
    if isinstance(wanted, tuple | list):
        assert isinstance(result, type(wanted)) and len(result) == len(wanted)
        for a, b in zip(result, wanted, strict=True):
            same(a, b, close)
        return
    if isinstance(wanted, dict):
        assert result.keys() == wanted.keys()
        for key, value in wanted.items():
            same(result[key], value, close)
        return
    if not isinstance(wanted, np.ndarray | np.generic):
        assert result == wanted and not isinstance(result, gs.Array)
        return
    assert isinstance(result, gs.Array), type(result)
    assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
    values = np.asarray(result)
    kind = kind_of(wanted)
    if kind not in "fc":
        np.testing.assert_array_equal(values, wanted)
        return
    wide = np.dtype("c16" if kind == "c" else "f8")
    mine, theirs = values.astype(wide), wanted.astype(wide)
    if close == 0 and kind == "f":
        np.testing.assert_array_equal(mine, theirs)
        numbers = ~np.isnan(theirs)
        np.testing.assert_array_equal(np.signbit(mine)[numbers], np.signbit(theirs)[numbers])
        return
    limit = tolerance(wanted.dtype) if close is None else close
    np.testing.assert_allclose(mine, theirs, limit, limit)


def defined(call: Call) -> Any:
    """Return what a call gives by its definition."""
    with np.errstate(all="ignore"):
        return DEFINITIONS[call.name](*plain(call.args), **plain_of(call.how))


def plain_of(how: dict[str, Any]) -> dict[str, Any]:
    return {key: plain(x) for key, x in how.items()}


def eagerly(call: Call) -> Any:
    """Call a function with arrays that are split."""
    random = call.seed()
    args, how = replaced((call.args, call.how), lambda x: placed(x, random))
    with np.errstate(all="ignore"):
        return getattr(gs.lax, call.name)(*plain(args), **plain_of(how))


def check(call: Call, close: float | None = None) -> None:
    """Compare a call with its definition: the value, or the error where it has none."""
    try:
        wanted = defined(call)
    except Refused as refusal:
        errors = tuple(getattr(gs.errors, name) for name in str(refusal).split("|"))
        with pytest.raises(errors):
            eagerly(call)
        return
    same(eagerly(call), wanted, close)


def _apart(call: Call) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """Return the arrays of a call, and the function of them that makes it."""
    arrays: list[Any] = []
    replaced((call.args, call.how), arrays.append)

    def function(values: Sequence[Any]) -> Any:
        left = iter(values)
        args, how = replaced((call.args, call.how), lambda _: next(left))
        return getattr(gs.lax, call.name)(*plain(args), **plain_of(how))

    return arrays, function


def check_traced(call: Call, close: float | None = None) -> None:
    """Compare a call with its definition where all arrays are traced."""
    random = call.seed()
    arrays, function = _apart(call)
    with np.errstate(all="ignore"):
        result = gs.jit(function)([placed(x, random) for x in arrays])
    same(result, defined(call), close)


def _variants(x: Any) -> list[Any]:
    """Return arrays like one: the same numbers in other places."""
    if x.ndim:
        return [x, np.roll(x.ravel(), 1).reshape(x.shape), x.ravel()[::-1].reshape(x.shape)]
    if x.dtype == bool:
        return [x, ~x, x]
    return [x, (x + x.dtype.type(1)).astype(x.dtype), (x - x.dtype.type(1)).astype(x.dtype)]


def check_mapped(call: Call, close: float | None = None, *, traced: bool = False) -> None:
    """Compare a call that is mapped over some of its arrays with the definition of each element."""
    random = call.seed()
    arrays, function = _apart(call)
    over = [bool(random.random() < 0.7) for _ in arrays]
    over[random.integers(len(over))] = True
    dims = [int(random.integers(x.ndim + 1)) if is_mapped else None
            for x, is_mapped in zip(arrays, over, strict=True)]  # fmt: skip
    variants = [_variants(x) if is_mapped else [x] * 3
                for x, is_mapped in zip(arrays, over, strict=True)]  # fmt: skip
    stacks = [placed(each[0] if dim is None else np.stack(each, dim), random)
              for each, dim in zip(variants, dims, strict=True)]  # fmt: skip
    mapped = gs.vmap(lambda *values: function(values), in_axes=tuple(dims))
    with np.errstate(all="ignore"):
        result = (gs.jit(mapped) if traced else mapped)(*stacks)
    wanted = []
    for number in range(3):
        left = iter([each[number] for each in variants])
        args, how = replaced((call.args, call.how), lambda _, left=left: next(left))
        wanted.append(defined(Call(call.name, *args, **how)))
    same(result, _stacked(wanted), close)


def _stacked(each: list[Any]) -> Any:
    if each[0] is None:
        return None
    if isinstance(each[0], dict):
        return {key: _stacked([one[key] for one in each]) for key in each[0]}
    if isinstance(each[0], tuple | list):
        return type(each[0])(_stacked(list(column)) for column in zip(*each, strict=True))
    return np.stack([np.asarray(x) for x in each])


def check_everywhere(call: Call, close: float | None = None) -> None:
    """Compare a call with its definition eagerly, traced, and mapped."""
    check(call, close)
    check_traced(call, close)
    check_mapped(call, close)


def values(shape: Any, dtype: Any, seed: int = 0, low: float = -3, high: float = 3) -> Any:
    """Return numbers of a dtype, equal ones among them; floats are multiples of 1 / 4."""
    random, dtype = np.random.default_rng(seed), np.dtype(dtype)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        return random.integers(0 if dtype.kind == "u" else int(low), int(high) + 1, shape).astype(
            dtype
        )
    real = random.integers(int(4 * low), int(4 * high) + 1, shape) / 4
    if dtype.kind == "c":
        real = real + 1j * random.integers(int(4 * low), int(4 * high) + 1, shape) / 4
    return np.asarray(real).astype(dtype)
