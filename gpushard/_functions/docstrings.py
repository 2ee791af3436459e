"""Texts of arguments that many functions have in common."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Mapping
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_ARRAYS = (
    "A", "a", "ar", "arr", "array", "ary", "b", "filt", "m", "v", "val", "x", "x1", "x2", "z",
)  # fmt: skip

COMMON = {
    **dict.fromkeys(_ARRAYS, "an array."),
    "axis": "the axes, an integer or a tuple of integers; all by default.",
    "axis1": "the axis of rows.",
    "axis2": "the axis of columns.",
    "copy": "ignored: a change of the result never changes the operand.",
    "correction": "another name of `ddof`, from the Array API.",
    "ddof": "the sum of squares is divided by the number of elements minus `ddof`.",
    "descending": "whether the greatest element comes first; NaNs always come last.",
    "indices_are_sorted": "ignored.",
    "initial": "a number that is treated as one more element of the array.",
    "inplace": "whether to change the array; if False, the function returns a new array.",
    "keepdims": "whether reduced axes stay, with length 1.",
    "k": "the diagonal: 0 for the main one, positive above it, negative below it.",
    "mean": "the mean, if you have it, as `mean` returns it with `keepdims=True`.",
    "method": "ignored.",
    "offset": "the diagonal: 0 for the main one, positive above it, negative below it.",
    "order": "must be None.",
    "out": "must be None: the result is always a new array.",
    "out_sharding": "the sharding or `PartitionSpec` of the result; gpushard chooses by default.",
    "overwrite_input": "ignored: the array is never overwritten.",
    "precision": "ignored: products are computed in the full precision of their dtype.",
    "preferred_element_type": "the dtype of the result, in which products are summed.",
    "stable": "whether equal elements must keep their order.",
    "unique_indices": "ignored.",
    "where": "the elements to include, booleans that broadcast to the array; all by default.",
}
"""The text of an argument by its name, unless the docstring of a function describes it."""

_SEVERAL = "the sharding or `PartitionSpec` of the results; gpushard chooses by default."

_PARTS = re.compile(r"\n\n(?=Returns:\n|Yields:\n|Raises:\n|>>> )")
_ENTRY = re.compile(r"^  (?=\S)", re.MULTILINE)


def complete(
    function: FunctionType,
    texts: Mapping[str, str] = MappingProxyType({}),
    like: FunctionType | None = None,
    *,
    bound: bool = False,
) -> str:
    """Return the docstring of a function with all arguments described, in their order.

    Args:
      function: the function; its docstring may leave out the arguments in `COMMON`.
      texts: the texts of arguments in a family of functions; they replace those of `COMMON`.
      like: another function with the same arguments.
      bound: whether the first argument is bound, and not described.
    """
    head, entries, tail = _read(function)
    if like is not None:
        entries = _read(like)[1] | entries
    known = {**COMMON, **texts}
    if (like or function).__annotations__.get("return") != "Array" and "out_sharding" not in texts:
        known["out_sharding"] = _SEVERAL
    lines = [
        f"  {entries.get(name) or f'{name}: {known[name]}'}"
        for name in _parameters(like or function)[bound:]
        if name in entries or name in known
    ]
    return "\n".join([f"{head}\n\nArgs:", *lines] if lines else [head]) + tail


def _read(function: FunctionType) -> tuple[str, dict[str, str], str]:
    """Split a docstring into the text before its Args, the Args by name, and the rest."""
    head, _, args_text = inspect.cleandoc(function.__doc__ or "").partition("\n\nArgs:\n")
    body, tail = _split(args_text or head)
    entries = {entry.partition(":")[0]: entry.rstrip("\n") for entry in _ENTRY.split(body)[1:]}
    return (head, entries, tail) if args_text else (body, {}, tail)


def _split(text: str) -> tuple[str, str]:
    """Split a text at the next section of a docstring."""
    end = _PARTS.search(text)
    return (text, "") if end is None else (text[: end.start()], text[end.start() :])


def named(function: F, name: str, text: str) -> F:
    """Give a function of a family its name and its docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def described(**texts: str) -> Callable[[F], F]:
    """Make a decorator that completes the docstring of a function, and changes nothing else."""

    def decorate(function: F) -> F:
        function.__doc__ = complete(cast(FunctionType, function), texts)
        return function

    return decorate


def _parameters(function: FunctionType) -> list[str]:
    """Return the names of the parameters in their order, as docstrings have them."""
    code = function.__code__
    names = iter(code.co_varnames)
    places = [*itertools.islice(names, code.co_argcount)]
    keywords = [*itertools.islice(names, code.co_kwonlyargcount)]
    if code.co_flags & inspect.CO_VARARGS:
        places.append(f"*{next(names)}")
    if code.co_flags & inspect.CO_VARKEYWORDS:
        keywords.append(f"**{next(names)}")
    return places + keywords
