"""Arguments and results of functions that are transformed: their leaves, and what errors say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard.array.array import Array
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.transforms.traced import user_line


def check_function(f: Any, name: str) -> None:
    """Check that what is to be transformed is a function.

    Raises:
      ArgumentTypeError: it is none, or a class.
    """
    if not callable(f) or isinstance(f, type):
        raise ArgumentTypeError(
            f"{name}: f={f!r} must be a function; wrap a class as lambda *args: C(*args)",
            argument="f",
            value=f,
        )


def title(name: str, f: Any) -> str:
    """Return what errors call a transformed function: "vmap of f"."""
    return f"{name} of {getattr(f, '__name__', type(f).__name__)}"


def place_of(f: Any) -> str:
    """Return "file:line" of where a function is written."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    return "a function" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def labelled(f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[[int], str]:
    """Return what names a leaf of the arguments by its number: "argument x['a'] of shape (3,)"."""

    def label(number: int) -> str:
        path, leaf = tree.leaves_with_path((tuple(args), kwargs))[number]
        first = path[1]
        names = _names(f, len(args))
        name = names[first.idx] if hasattr(first, "idx") else str(first.key)
        rest = "".join(map(str, path[2:]))
        shape = f" of shape {np.shape(leaf)}" if hasattr(leaf, "shape") else ""
        return f"argument {name}{rest}{shape}"

    return label


def _names(f: Any, count: int) -> list[str]:
    """Return the names of positional parameters; their numbers where a function hides them."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = []
    for number in range(count):
        own = parameters[min(number, len(parameters) - 1)] if parameters else None
        if own is None or own.kind in (own.KEYWORD_ONLY, own.VAR_KEYWORD):
            names.append(str(number))
        elif own.kind is own.VAR_POSITIONAL:
            names.append(f"{own.name}[{number - len(parameters) + 1}]")
        else:
            names.append(own.name)
    return names


def check_leaf(x: Any, what: str, arg: str) -> None:
    """Check that a leaf of the arguments or results is an array or a number.

    Raises:
      ArgumentTypeError: it is something else.
    """
    if isinstance(x, Array | np.ndarray | np.generic | bool | int | float | complex):
        return
    if not hasattr(x, "__array__"):
        raise ArgumentTypeError(
            f"{what}: {arg} is a {type(x).__name__} ({user_line()}); arguments and results are "
            "arrays, numbers, and pytrees of them",
            argument=arg,
            type=type(x),
        )


def check_axis(axis: Any, ndim: int, what: str, argument: str, arg: str) -> int:
    """Return an axis of a mapped array, counted from the front.

    Raises:
      ArgumentTypeError: it is no integer.
      ArgumentError: the array has no such axis.
    """
    if not isinstance(axis, int | np.integer) or isinstance(axis, bool):
        raise ArgumentTypeError(
            f"{what}: {argument}={axis!r} for {arg} must be an integer or None",
            argument=argument,
            value=axis,
        )
    if not -ndim <= axis < ndim:
        hint = "pass None for what is not mapped" if not ndim else "count from 0, or from -1 back"
        raise ArgumentError(
            f"{what}: {argument}={axis} is beyond {arg}, which has {ndim} dims; {hint}",
            argument=argument,
            axis=int(axis),
            ndim=ndim,
        )
    return int(axis) % ndim
