"""Every function and method refuses a wrong value of every argument that has few right ones.

Calls are made from signatures: an argument of a name means the same everywhere, so one table says
which values are wrong. The error is a typed one that names the argument. Each function is called
with right arguments first, so that it is the wrong one that it refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import GpushardError
from tests.right_calls import Call, attempt, functions, right

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
    "device": [3, "x", float, [None]],
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
    "out_sharding": [3, "x", float, [None]],
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

NOT_CALLED = {
    "Array.unsafe_buffer_pointer",
    "numpy.frompyfunc",
    "numpy.load",
    "numpy.save",
    "numpy.savez",
}
"""Functions of files, of functions, and of arrays on one device."""

SAME = {
    "axis": ("axisa",),
    "ddof": ("correction",),
    "dtype": ("impl", "type"),
    "n": ("N",),
}
"""Another name under which an error may speak of an argument."""


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


@pytest.mark.parametrize("argument", ["device", "out_sharding"])
def test_a_spec_that_fits_no_mesh_is_called_as_it_was_given(argument: str) -> None:
    for name, function, (args, named) in cases(argument):
        error = attempt(function, list(args), {**named, argument: gs.P("nope")})
        assert isinstance(error, GpushardError), name
        assert error.argument in (argument, "spec"), (name, error)
