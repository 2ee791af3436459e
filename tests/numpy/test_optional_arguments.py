"""Every optional argument does what it does in NumPy, in every function and method that has it."""

from __future__ import annotations

import inspect
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import errors
from tests.right_calls import Call, call_of, functions, named_in, right, special
from tests.share import seeds, some

MASK = np.random.default_rng(0).random((8, 8)) > 0.4
LINE = np.arange(1.0, 9)
ORDERS = (1, 2, -1, -2, np.inf, -np.inf, 0, 3, "fro", "nuc")
RULES = ("lower", "higher", "nearest", "midpoint", "median_unbiased", "weibull", "inverted_cdf")

VALUES: dict[str, list[Any]] = {
    "M": [0, 1, 5],
    "N": [0, 1, 5],
    "UPLO": ["U"],
    "append": [3, np.ones((8, 1))],
    "assume_unique": [True],
    "atol": [0.5],
    "aweights": [LINE],
    "axes": [(0, 1), (1, 0), (-1,), 0, (0,)],
    "axis": [0, -1, 1, None, (0, 1), (1, 0)],
    "axis1": [1],
    "axis2": [0],
    "axisa": [0],
    "axisb": [0],
    "axisc": [0],
    "base": [3.0],
    "bias": [True],
    "bins": ["auto", "sturges", 1, [0, 1, 5]],
    "bitorder": ["little"],
    "casting": ["unsafe"],
    "constant_values": [5, (1, 2)],
    "copy": [True, None, False],
    "correction": [1],
    "count": [0, 5, -3],
    "cov": [True],
    "ddof": [1, 0.5],
    "decimals": [1, -1, 0],
    "default": [3],
    "deg": [0, 2],
    "density": [True],
    "discont": [1.0, 9.0],
    "dtype": ["f4", "D", int, bool],
    "dx": [0.5],
    "edge_order": [1, 2],
    "endpoint": [False],
    "equal_nan": [True, False],
    "full": [True],
    "fweights": [np.arange(1, 9)],
    "hermitian": [True],
    "include_initial": [True],
    "increasing": [True],
    "indexing": ["ij"],
    "initial": [2, -3.5],
    "invert": [True],
    "k": [-1, 1, -2, 3, 9, -9],
    "keepdims": [True],
    "kind": ["stable"],
    "left": [-1.0],
    "m": [0, 2, 3],
    "mean": [0.75],
    "method": [*RULES],
    "minlength": [0, 4, 12],
    "mode": ["wrap", "clip", "edge", "reflect", "symmetric", "same", "valid", "complete", "r"],
    "n": [0, 1, 2, 3, 9],
    "nan": [3.0],
    "ndmin": [0, 1, 3],
    "neginf": [2.0],
    "norm": ["ortho", "forward"],
    "num": [0, 1, 2],
    "obj": [-1, [0, 2], slice(1, 5, 2)],
    "offset": [1, -2, 9],
    "ord": [*ORDERS],
    "pad_width": [(1, 2), ((1, 0), (0, 2)), 0],
    "period": [2.7],  # positions stay apart: of equal ones NumPy takes any
    "posinf": [1.0],
    "prepend": [0, np.ones((8, 1))],
    "q": [0.0, 1.0, 0.33, [0.1, 0.9]],
    "range": [(0, 3), (-2.0, 1.5)],
    "rcond": [1e-3],
    "repeats": [0, 3],
    "reps": [(2, 1), 0, (1, 2, 1)],
    "retstep": [True],
    "return_counts": [True],
    "return_index": [True],
    "return_inverse": [True],
    "returned": [True],
    "right": [True],
    "rowvar": [False],
    "rtol": [0.5],
    "s": [(4, 4), (9, 3)],
    "shape": [(4,)],
    "shift": [0, -3, 9],
    "side": ["right"],
    "sparse": [True],
    "start": [1, 2],
    "step": [2, -1, 0.5],
    "to_begin": [7, [1, 2]],
    "to_end": [7, [1, 2]],
    "tol": [1e-3],
    "trim": ["f", "b"],
    "upper": [True],
    "weights": [LINE, np.ones((8, 8))],
    "where": [MASK, MASK[0], MASK[:, :1], True, False],
    "wrap": [True],
}
"""Values of arguments, most of them others than the default."""

APART = {
    "__array_namespace_info__": "describes the library",
    "argpartition": "each part has any order, and CuPy's another one",
    "argsort": "of equal elements NumPy's has any order",
    "empty": "elements have any value",
    "empty_like": "elements have any value",
    "eig": "vectors have any sign",
    "eigh": "vectors have any sign",
    "svd": "vectors have any sign",
    "qr": "vectors have any sign",
    "partition": "each part has any order, and CuPy's another one",
}
"""Functions whose result is not NumPy's, and why."""

OF_TYPES = {
    "einsum": "dtype is the type of the result",
    "std": "a type that an array is converted to, and whose real part the result has",
    "var": "likewise",
    "nanstd": "likewise",
    "nanvar": "likewise",
}
"""Functions whose `dtype` means something else."""

NAMESPACES = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft, "Array": np.ndarray}


def on_host(value: Any) -> Any:
    """Return arguments or results with arrays of NumPy's in place of ours."""
    if isinstance(value, gs.Array):
        return np.array(value)
    if isinstance(value, list | tuple):
        return [*map(on_host, value)] if isinstance(value, list) else tuple(map(on_host, value))
    if inspect.isfunction(value) and value.__module__.startswith("gpushard.numpy"):
        return getattr(np, value.__name__)
    return value


def difference(found: Any, wanted: Any) -> str | None:
    """Return how a result differs from NumPy's, if it does."""
    if isinstance(wanted, list | tuple):
        if not isinstance(found, list | tuple) or len(found) != len(wanted):
            return f"{type(found)} for {type(wanted)}"
        each = (difference(*pair) for pair in zip(found, wanted, strict=True))
        return next((one for one in each if one), None)
    if isinstance(wanted, np.int32) and np.asarray(found).dtype == np.int64:  # counts, of C's int
        wanted = np.int64(wanted)
    mine, theirs = np.asarray(found), np.asarray(wanted)
    if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
        return f"{mine.shape} of {mine.dtype} for {theirs.shape} of {theirs.dtype}"
    if theirs.dtype.kind in "fc":
        close = np.allclose(mine, theirs, rtol=2e-5, atol=1e-6, equal_nan=True)
        return None if close else f"{mine} for {theirs}"
    return None if np.array_equal(mine, theirs) else f"{mine} for {theirs}"


def copied(value: Any) -> Any:
    return value.copy() if isinstance(value, gs.Array) else value


def compare(name: str, function: Callable[..., Any], args: Any, named: Any) -> str | None:
    """Return how a call differs from NumPy's; "refused" where that takes no such arguments."""
    module, _, base = name.rpartition(".")
    mine = [copied(x) for x in args]
    oracle = getattr(NAMESPACES[module], base)
    try:
        wanted = oracle(*on_host(mine), **{key: on_host(x) for key, x in named.items()})
    except Exception:  # whatever it is that NumPy takes there
        return "refused"
    if module == "Array" and not isinstance(wanted, np.ndarray | np.generic):
        return None
    try:
        found = function(*mine, **named)
    except Exception as error:
        return repr(error)
    return difference(on_host(found), on_host(wanted))


def differences(
    argument: str | None, calls: dict[str, tuple[Callable[..., Any], Call, set[str]]]
) -> tuple[dict[Any, str], int]:
    """Return how results differ from NumPy's, and how many do not."""
    apart, alike = {}, 0
    for name, (function, (args, named), by_name) in calls.items():
        base = name.rpartition(".")[2]
        if not (argument is None or argument in by_name) or (
            argument == "dtype" and base in OF_TYPES
        ):
            continue
        for value in [None] if argument is None else VALUES[argument]:
            given = named if argument is None else {**named, argument: value}
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = compare(name, function, args, given)
            if found is None:
                alike += 1
            elif found != "refused":
                apart[name, argument, repr(value)] = found
    return apart, alike


def is_comparable(name: str) -> bool:
    module, _, base = name.rpartition(".")
    return module in NAMESPACES and hasattr(NAMESPACES[module], base) and base not in APART


@pytest.mark.one_of(2)
@pytest.mark.parametrize("argument", [None, *VALUES])
def test_optional_arguments_are_numpys(argument: str | None) -> None:
    apart, alike = differences(argument, {n: c for n, c in right().items() if is_comparable(n)})
    assert apart == {}
    assert alike


def other_operands() -> dict[str, np.ndarray]:
    """Return operands of other kinds and shapes."""
    matrix = np.random.default_rng(5).integers(-3, 4, (8, 8)) / 2
    holes = matrix.copy()
    holes[::2, 1] = holes[3] = np.nan
    holes[5:7, 5], holes[7, 0] = (np.inf, -np.inf), -0.0
    return {
        "ties": (matrix % 2).astype(np.int8),
        "holes": holes,
        "uneven": matrix[:5, :3],
        "empty": matrix[:0],
        "booleans": matrix > 0,
        "complex": matrix + 1j * matrix.T,
        "narrow cube": np.stack([matrix[:4, :4]] * 3).astype(np.float32),
        "one": matrix[:1, :1],
        "nothing": matrix[0, :0],
        "pair": np.array([2.5, -1]),
        "two": matrix[:2, 1:3],
        "scalar": np.array(2.5),
    }


SAME_OPERANDS = {
    "ascontiguousarray": "a scalar stays one",
    "corrcoef": "of nothing NumPy's has always one type",
    "cov": "likewise",
    "eigvals": "always complex, as in JAX",
    "lexsort": "keys have a dim",
    "nanpercentile": "of infinities NumPy's is NaN, and of nothing it has no dims",
    "nanquantile": "likewise",
    "percentile": "where the largest is infinite, NumPy's of all is NaN",
    "quantile": "likewise",
    "polydiv": "the type of a remainder",
    "unique_inverse": "NaNs are one in NumPy's positions",
    "unique_values": "sorted here",
}
"""Functions whose results are not NumPy's for operands of some kind, and why."""


ON_GPUS = {
    "expm1": "of infinity the imaginary part of NumPy's is NaN",
    "fft": "which elements infinities turn into NaN depends on the order of the sums",
    "i0": "of infinity NumPy's is NaN",
    "reciprocal": "of 0 as an integer NumPy's is what the CPU makes of infinity",
}
"""Functions, or the namespaces of some, that give others there, and why."""


def may_differ(name: str) -> bool:
    """Whether a function may give other results than NumPy for operands of some kind."""
    names = name.split(".")
    return names[-1] in SAME_OPERANDS or (
        gs.default_backend() == "gpu" and not ON_GPUS.keys().isdisjoint(names)
    )


def calls_on(kind: str) -> dict[str, tuple[Callable[..., Any], Call, set[str]]]:
    """Return a call of every function that takes an operand of a kind."""
    data = other_operands()[kind]
    x = gs.device_put(data)
    if data.ndim:
        x = gs.device_put(data, gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x")))
    calls = {}
    for name, function in functions():
        if is_comparable(name) and name not in special():
            args, named = call_of(name, function, x)
            calls[name] = function, (args, named), named_in(function, args)
    return calls


OTHERS = ["ties", "holes", "narrow cube", "empty", "booleans", "pair"]
REST = ["complex", "uneven", "one", "nothing", "scalar", "two"]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("kind", some(OTHERS, [*OTHERS, *REST]))
def test_operands_of_every_kind_are_taken_as_in_numpy(kind: str) -> None:
    """Every function that takes an operand gives what NumPy gives; what is refused has rows."""
    calls = calls_on(kind)
    apart, alike = {}, 0
    for argument in (None, *VALUES):
        found, many = differences(argument, calls)
        apart |= found
        alike += many
    assert {
        call: found
        for call, found in apart.items()
        if not (may_differ(call[0]) or is_refusal(found))
    } == {}
    assert alike > 1000


@pytest.mark.parametrize("seed", seeds(9))
@pytest.mark.parametrize("kind", ["right", "holes", *some([], ["narrow cube", "complex", "ties"])])
def test_several_optional_arguments_at_once(seed: int, kind: str) -> None:
    rng = random.Random(seed)
    apart, alike = {}, 0
    calls = right() if kind == "right" else calls_on(kind)
    for name, (function, (args, named), by_name) in calls.items():
        known, base = sorted(by_name & VALUES.keys()), name.rpartition(".")[2]
        if len(known) < 2 or not is_comparable(name) or base in OF_TYPES:
            continue
        for _ in range(4):
            chosen = rng.sample(known, rng.randint(2, min(3, len(known))))
            given = {argument: rng.choice(VALUES[argument]) for argument in chosen}
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = compare(name, function, args, {**named, **given})
            alike += found is None
            refused = found in (None, "refused") or is_refusal(str(found))
            if not refused and (kind == "right" or not may_differ(name)):
                apart[name, repr(given)] = found
    assert apart == {}
    assert alike > 100


def is_refusal(found: str) -> bool:
    """Whether a call was refused by an error of ours."""
    return found.partition("(")[0] in vars(errors)


class Foreign:
    """Has an array, and is none."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.arange(3.0)


def weak(m: Any, number: Any) -> Any:
    """Return a number whose type follows that of others."""
    return number if m is np else gs.device_put(number)


SPLIT = gs.P("x")

DEVICE_ARGUMENTS: dict[str, Callable[[Any, Any], Any]] = {
    "a part that broadcasts": lambda m, x: m.mean(x, axis=1, where=m.asarray(MASK[0])),
    "a part that broadcasts, counted": lambda m, x: m.var(x, where=m.asarray(MASK[:, :1])),
    "counts of nothing": lambda m, x: m.repeat(x[:0], m.asarray(np.zeros(0, int)), axis=0),
    "counts": lambda m, x: m.repeat(x, m.asarray(np.arange(8) % 3), axis=0),
    "positions that wrap": lambda m, x: m.take(x, m.asarray([9, -9, 17]), axis=0, mode="wrap"),
    "positions that are cut": lambda m, x: m.take(x, m.asarray([9, -9, 3]), axis=0, mode="clip"),
    "a number in a type": lambda m, x: m.add(m.asarray(3), x, dtype="f4"),
    "a number that follows": lambda m, x: m.add(weak(m, 3), (9 * x).astype("b"), dtype="i2"),
    "what has an array": lambda m, x: m.sum(Foreign()) + x,
    "one shift for two dims": lambda m, x: m.roll(x, (3,), (0, 1)),
    "two shifts of one dim": lambda m, x: m.roll(x, (3, -1), 0),
    "no shift": lambda m, x: m.roll(x, (), ()),
}


@pytest.mark.parametrize("name", DEVICE_ARGUMENTS)
def test_arguments_that_are_on_devices(name: str) -> None:
    data = np.random.default_rng(8).random((8, 8))
    x = gs.device_put(data, gs.NamedSharding(gs.make_mesh((4,), "x"), SPLIT))
    found = DEVICE_ARGUMENTS[name](gs.numpy, x)
    assert difference(np.asarray(found), DEVICE_ARGUMENTS[name](np, data)) is None
