"""Right calls of every public function of arrays and every method, made from signatures.

An argument of a name means the same everywhere, so one table says which value it has; the few
functions in which it does not have an entry of their own.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

import gpushard as gs
from gpushard import random

T = TypeVar("T")

MODULES = ["numpy", "numpy.linalg", "numpy.fft", "special", "random"]

NUMBERS: dict[str, Any] = {
    "N": 8,
    "M": 8,
    "axis": 0,
    "axis1": 0,
    "axis2": 1,
    "base": 2.0,
    "beta": 1.0,
    "bins": 2,
    "buffer": bytes(64),
    "d": 3,
    "data": 3,
    "deg": 1,
    "destination": 1,
    "df": 2.0,
    "dfden": 2.0,
    "dfnum": 2.0,
    "dimensions": (2, 2),
    "dims": (8, 8),
    "dtype": float,
    "fill_value": 1,
    "from_": "f4",
    "func": lambda a, axis: a.sum(axis),
    "funclist": [1],
    "indices": 0,
    "indices_or_sections": 2,
    "iter": [1, 2],
    "k": 1,
    "kth": 1,
    "left": 0.0,
    "lower": -1.0,
    "max": 3,
    "maxval": 9,
    "mean": 1.0,
    "min": 1,
    "minval": 0,
    "mode": 1.0,
    "n": 2,
    "new_shape": (64,),
    "num": 5,
    "obj": 0,
    "pad_width": 1,
    "q": 0.5,
    "repeats": 2,
    "reps": 2,
    "right": 2.0,
    "scale": 1.0,
    "seed": 1,
    "shape": (8,),
    "shapes": (2, 2),
    "shift": 1,
    "sigma": 1.0,
    "source": 0,
    "start": 1.0,
    "stop": 5.0,
    "subscripts": "ij->ji",
    "to": float,
    "upper": 1.0,
}
"""Arguments without a default, where they are no arrays."""

ARRAYS = {"a", "x", "array", "arr", "ary", "x1", "x2", "x3", "y", "z", "m", "v"}
"""Names of the operand, which is an array of each kind until one fits."""


def once(make: Callable[[], T]) -> Callable[[], T]:
    """Keep what a function makes as long as the runtime is the same."""
    made = functools.lru_cache(maxsize=1)(lambda runtime: make())
    return functools.wraps(make)(lambda: made(gs.devices()[0].runtime))


@once
def operands() -> list[gs.Array]:
    """Return arrays that functions are called with: the first of them that they take."""
    mesh = gs.make_mesh((2,), "x")
    matrix = np.random.default_rng(3).integers(-3, 4, (8, 8)) / 2 + 9 * np.eye(8)
    values = [matrix, np.arange(1.0, 9), np.arange(8), np.arange(8, dtype=np.uint8)]
    return [gs.device_put(value, gs.NamedSharding(mesh, gs.P("x"))) for value in values]


Call = tuple[list[Any], dict[str, Any]]


@once
def given() -> dict[str, Any]:
    """Return arguments without a default."""
    matrix, vector, places, _ = operands()
    arrays = dict.fromkeys(("p", "u", "a1", "a2", "ar", "ar1", "ar2", "vals", "xp", "fp"), vector)
    arrays |= dict.fromkeys(("weights", "seq_of_zeros", "test_elements", "logits"), vector)
    arrays |= dict.fromkeys(("b", "c", "cov", "values", "element", "A", "xs"), matrix)
    arrays |= dict.fromkeys(("arrays", "tup", "choices"), (matrix, matrix))
    arrays |= dict.fromkeys(("prototype", "object"), matrix)
    arrays["sample"] = matrix[:, :2]
    mask = matrix > 0
    arrays |= {"condition": mask, "mask": mask, "condlist": [mask], "choicelist": [matrix]}
    arrays["key"] = random.key(0)
    return NUMBERS | arrays | {"ind": places, "multi_index": (places, places)}


def special() -> dict[str, Call]:
    """Return arguments of functions in which names mean something else."""
    matrix, vector, places, _ = operands()
    three, row = vector[:3], places.reshape(1, 8)
    return {
        "Array.addressable_data": ([0], {}),
        "Array.choose": ([[vector, vector, vector, vector, vector, vector, vector, vector]], {}),
        "Array.compress": ([[True, False]], {}),
        "Array.item": ([0], {}),
        "Array.plan": ([matrix.sharding], {}),
        "Array.reshape": ([matrix.shape], {}),
        "Array.to_device": ([gs.devices()[0]], {}),
        "Array.transpose": ([], {}),
        "numpy.apply_along_axis": ([lambda line: line, 0, matrix], {}),
        "numpy.apply_over_axes": ([lambda x, axis: x.sum(axis), matrix, [0]], {}),
        "numpy.arange": ([1.0, 9.0], {}),
        "numpy.block": ([[matrix, matrix]], {}),
        "numpy.choose": ([places, [vector] * 8], {}),
        "numpy.compress": ([[True, False], matrix], {}),
        "numpy.cross": ([three, three], {}),
        "numpy.digitize": ([vector, vector], {}),
        "numpy.dsplit": ([matrix[None], 2], {}),
        "numpy.fromfunction": ([lambda i, j: i + j, (2, 2)], {}),
        "numpy.insert": ([vector, 0, 1.0], {}),
        "numpy.linalg.cross": ([three, three], {}),
        "numpy.linalg.inv": ([matrix], {}),
        "numpy.linalg.solve": ([matrix, vector], {}),
        "numpy.linalg.tensorinv": ([matrix], {"ind": 1}),
        "numpy.linalg.tensorsolve": ([matrix, vector], {}),
        "numpy.mask_indices": ([3, gs.numpy.triu], {}),
        "numpy.put_along_axis": ([matrix.copy(), row, 0.0], {}),
        "numpy.reshape": ([matrix, (64,)], {}),
        "numpy.take_along_axis": ([matrix, row], {}),
        "random.generalized_normal": ([random.key(0), 2.0], {}),
        "random.key_data": ([random.key(0)], {}),
        "random.key_impl": ([random.key(0)], {}),
        "random.multivariate_normal": ([random.key(0), vector, matrix], {}),
        "random.wrap_key_data": ([np.zeros(2, np.uint32)], {}),
    }


def call(function: Callable[..., Any], x: gs.Array) -> Call:
    """Return arguments for a function of an array."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    parameters = inspect.signature(function).parameters.values()
    variadic = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    for p in parameters:
        value = x if p.name in ARRAYS else given().get(p.name, x)
        if p.kind == p.VAR_POSITIONAL:
            args.append(x)
        elif p.default is p.empty and p.kind != p.VAR_KEYWORD:
            first = p.name in ARRAYS and p.kind != p.KEYWORD_ONLY and not named
            if first or variadic or p.kind == p.POSITIONAL_ONLY:
                args.append(value)
            else:
                named[p.name] = value
    return args, named


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in MODULES:
        found = importlib.import_module(f"gpushard.{module}")
        for name in found.__all__:
            function = getattr(found, name)
            if inspect.isfunction(function) and function.__module__.startswith("gpushard"):
                yield f"{module}.{name}", function
    for name in dir(gs.Array):
        method = inspect.getattr_static(gs.Array, name)
        if inspect.isfunction(method) and name[0] != "_" and name not in ("delete", "fill"):
            yield f"Array.{name}", method


def attempt(function: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> Any:
    """Return what a call raises, or None."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function(*args, **named)
    except Exception as error:
        return error
    return None


def named_in(function: Callable[..., Any], args: list[Any]) -> set[str]:
    """Return which arguments a call with some by place can have by name."""
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = list(inspect.signature(function).parameters.values())
    return {p.name for p in parameters if p.kind in kinds} - {
        p.name for p in parameters[: len(args)]
    }


def call_of(name: str, function: Callable[..., Any], x: gs.Array) -> Call:
    """Return arguments for a function, or for a method of an array."""
    args, named = special().get(name) or call(function, x.copy())  # some change it
    if not name.startswith("Array."):
        return args, named
    return [x.copy(), *args], {key: value for key, value in named.items() if key != "self"}


@once
def right() -> dict[str, tuple[Callable[..., Any], Call, set[str]]]:
    """Return for each function arguments that it takes, and which others it takes by name."""
    found = {}
    for name, function in functions():
        for x in operands():
            args, named = call_of(name, function, x)
            if attempt(function, args, named) is None:
                found[name] = function, (args, named), named_in(function, args)
                break
    return found
