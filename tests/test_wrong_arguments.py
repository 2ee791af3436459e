"""Every function and method refuses a wrong value of every argument that has few right ones.

Calls are made from signatures: an argument of a name means the same everywhere, so one table says
which values are wrong. The error is a typed one that names the argument. Each function is called
with right arguments first, so that it is the wrong one that it refuses.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import random
from gpushard.errors import GpushardError

MODULES = ["numpy", "numpy.linalg", "numpy.fft", "special", "random"]

WRONG: dict[str, list[Any]] = {
    "N": [0.5],
    "M": [0.5],
    "UPLO": ["X"],
    "axes": [9, 0.5, (0, 0), (0, -2)],
    "axis": [9, -9, 0.5, (0, 0), "x"],
    "axis1": [9, 0.5],
    "axis2": [9, 0.5],
    "axisa": [9],
    "axisb": [9],
    "axisc": [9],
    "bitorder": ["middle"],
    "casting": ["soft", "unsaf"],
    "correction": ["x"],
    "count": ["x", 0.5],
    "ddof": ["x"],
    "decimals": ["x", 0.5],
    "deg": [-1, 0.5],
    "destination": [9],
    "device": [3, "x"],
    "dimensions": [-1, 0.5],
    "dtype": ["nonsense", object, "M8[s]"],
    "edge_order": [7],
    "impl": ["x"],
    "indexing": ["yx"],
    "initial": ["x"],
    "k": ["x", 0.5],
    "key": [3, "x"],
    "kind": ["soft"],
    "kth": [99, 0.5],
    "m": [-1, 0.5],
    "method": ["soft"],
    "minlength": [-1, 0.5],
    "mode": ["soft"],
    "n": ["x", 0.5],
    "ndmin": ["x", 0.5],
    "norm": ["half"],
    "num": [-1, 0.5],
    "offset": ["x", 0.5],
    "order": ["F", "X", 3],
    "out": [np.zeros(1)],
    "out_sharding": [3, "x"],
    "precision": ["x"],
    "preferred_element_type": ["nonsense", object],
    "range": [(3, 1), 3],
    "repeats": [-1, 0.5],
    "shape": [-1, 2.5, (-1,), "x"],
    "shift": ["x", 0.5],
    "side": ["middle"],
    "size": [-1, 2.5],
    "source": [9],
    "total_repeat_length": [-1, 0.5],
    "trim": ["x"],
    "where": ["x", np.ones((3, 5, 7), bool)],
}
"""Wrong values of arguments."""

RIGHT: dict[str, list[Any]] = {
    "UPLO": ["L", "U"],
    "bitorder": ["big", "little"],
    "casting": ["no", "equiv", "safe", "same_kind", "unsafe"],
    "indexing": ["xy", "ij"],
    "norm": [None, "backward", "ortho", "forward"],
    "order": ["C", "A", "K", None],
    "out": [None],
    "side": ["left", "right"],
    "trim": ["f", "b", "fb"],
}
"""All right values of some arguments."""

OTHERWISE: dict[str, dict[str, str]] = {
    "axes": {"tensordot": "dims of two arrays"},
    "axis": {"roll": "moves along a dim twice"},
    "k": {"polyint": "constants of integration"},
    "m": dict.fromkeys(("cov", "flip", "fliplr", "flipud", "rot90", "tril", "triu"), "an array"),
    "mode": {"triangular": "a number"},
    "deg": {"angle": "whether it is in degrees"},
    "n": {
        "binomial": "floats, which say that there is no such number",
        "multinomial": "likewise",
    },
    "order": {
        **dict.fromkeys(("sort", "argsort", "partition", "argpartition"), "fields, of which none"),
        **dict.fromkeys(("tobytes", "ravel_multi_index", "unravel_index"), '"F", too'),
    },
}
"""Arguments that mean something else in a function."""

NOT_CALLED = {"Array.unsafe_buffer_pointer", "numpy.load", "numpy.save", "numpy.savez"}
"""Functions of files, and of arrays on one device."""

SAME = {
    "axis": ("axisa",),
    "ddof": ("correction",),
    "device": ("out_sharding", "sharding"),
    "dtype": ("impl", "type"),
    "n": ("N",),
    "out_sharding": ("device",),
}
"""Another name under which an error may speak of an argument."""

NUMBERS: dict[str, Any] = {
    "N": 8,
    "M": 8,
    "axis": 0,
    "axis1": 0,
    "axis2": 1,
    "base": 2.0,
    "beta": 1.0,
    "bins": 4,
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
    "key": random.key(0),
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


@functools.cache
def operands() -> list[gs.Array]:
    mesh = gs.make_mesh((2,), "x")
    values = [np.eye(8) + 0.1, np.arange(1.0, 9), np.arange(8), np.arange(8, dtype=np.uint8)]
    return [gs.device_put(value, gs.NamedSharding(mesh, gs.P("x"))) for value in values]


Call = tuple[list[Any], dict[str, Any]]


@functools.cache
def given() -> dict[str, Any]:
    """Return arguments without a default."""
    matrix, vector, places, _ = operands()
    arrays = dict.fromkeys(("p", "u", "a1", "a2", "ar", "ar1", "ar2", "vals", "xp", "fp"), vector)
    arrays |= dict.fromkeys(("weights", "seq_of_zeros", "test_elements", "logits"), vector)
    arrays |= dict.fromkeys(("b", "c", "cov", "sample", "values", "element", "A", "xs"), matrix)
    arrays |= dict.fromkeys(("arrays", "tup", "choices"), (matrix, matrix))
    arrays |= dict.fromkeys(("prototype", "object"), matrix)
    mask = matrix > 0
    arrays |= {"condition": mask, "mask": mask, "condlist": [mask], "choicelist": [matrix]}
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
            if p.kind == p.POSITIONAL_ONLY or (variadic and p.kind == p.POSITIONAL_OR_KEYWORD):
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


@functools.cache
def right() -> dict[str, tuple[Callable[..., Any], Call, set[str]]]:
    """Return for each function arguments that it takes, and which it takes by name."""
    found = {}
    for name, function in functions():
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        parameters = inspect.signature(function).parameters.values()
        by_name = {p.name for p in parameters if p.kind in kinds}
        for x in operands():
            args, named = special().get(name) or call(function, x.copy())  # some change it
            by_name -= {p.name for p in list(parameters)[: len(args)] if name in special()}
            if name.startswith("Array."):
                args, named = [x.copy(), *args], {k: v for k, v in named.items() if k != "self"}
            if attempt(function, args, named) is None:
                found[name] = function, (args, named), by_name
                break
    return found


def cases(argument: str) -> Iterator[tuple[str, Callable[..., Any], Call]]:
    for name, (function, made, by_name) in right().items():
        base = name.rpartition(".")[2]
        if argument in by_name and base not in OTHERWISE.get(argument, {}):
            yield name, function, made


def complaint(argument: str, value: Any, error: Any) -> str | None:
    """Return what is wrong with an error, if anything is."""
    if error is None:
        return "takes it"
    if not isinstance(error, GpushardError):
        return repr(error)
    names = argument, *SAME.get(argument, ())
    if any(re.search(rf"\b{name}\b", f"{error.argument}: {error}") for name in names):
        return None
    return f"does not name it: {error}"


@pytest.mark.parametrize("argument", WRONG)
def test_wrong_values_are_refused(argument: str) -> None:
    wrong = {}
    for name, function, (args, named) in cases(argument):
        for value in WRONG[argument]:
            error = attempt(function, args, {**named, argument: value})
            found = complaint(argument, value, error)
            if found is not None:
                wrong[name, repr(value)] = found
    assert wrong == {}


@pytest.mark.parametrize("argument", RIGHT)
def test_right_values_are_taken(argument: str) -> None:
    wrong = {}
    for name, function, (args, named) in cases(argument):
        for value in RIGHT[argument]:
            error = attempt(function, args, {**named, argument: value})
            if error is not None:
                wrong[name, repr(value)] = error
    assert wrong == {}


def test_most_functions_are_called() -> None:
    every = {name for name, _ in functions()}
    assert every - right().keys() == NOT_CALLED


def test_every_argument_is_one_of_some_function() -> None:
    for argument in WRONG | RIGHT:
        assert any(cases(argument)), argument
    for argument, names in OTHERWISE.items():
        every = {n.rpartition(".")[2] for n, (_, _, taken) in right().items() if argument in taken}
        assert names.keys() <= every, argument
