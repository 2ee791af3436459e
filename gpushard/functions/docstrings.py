"""The texts of arguments that mean the same in many functions, written once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_VARIADIC = ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**"))

COMMON = {
    "a": "an array.",
    "b": "an array.",
    "x": "an array.",
    "x1": "an array.",
    "x2": "an array.",
    "m": "an array.",
    "arr": "an array.",
    "ary": "an array.",
    "axis": "which dims.",
    "axis1": "the dim of rows.",
    "axis2": "the dim of columns.",
    "copy": "arrays are values, so this makes no difference.",
    "correction": "`ddof`, as the Array API calls it.",
    "ddof": "what is taken from the number of elements that squares are divided by.",
    "descending": "whether the greatest element comes first; NaNs come last in any case.",
    "initial": "a number that takes part, too.",
    "keepdims": "whether dims stay, with length 1.",
    "k": "which diagonal: 0 for the main one, positive for one above it.",
    "mean": "their mean, if it is known, with `axis` kept as of length 1.",
    "method": "makes no difference.",
    "offset": "which diagonal: 0 for the main one, positive for one above it.",
    "order": "must be None.",
    "out": "must be None; results are values.",
    "out_sharding": "where the result goes; by default it stays where it was made.",
    "overwrite_input": "arrays are values, so this makes no difference.",
    "precision": "makes no difference; products have all digits of their type.",
    "preferred_element_type": "type of the result, which operands are converted to.",
    "stable": "whether equal elements have to keep their order.",
    "where": "which elements take part, booleans that broadcast to the array; all by default.",
}
"""What an argument of a name means where a docstring does not say."""

_PARTS = re.compile(r"\n\n(?=Returns:\n|Yields:\n|Raises:\n|>>> )")
_ENTRY = re.compile(r"^  (?=\S)", re.MULTILINE)


def complete(function: FunctionType, *, bound: bool = False) -> str:
    """Return the docstring of a function with all arguments described, in their order.

    Args:
      function: its own docstring may leave out what `COMMON` says.
      bound: whether the first argument is bound, and so none of those that are described.
    """
    text = inspect.cleandoc(function.__doc__ or "")
    head, _, own = text.partition("\n\nArgs:\n")
    rest = own if own else head
    before = _PARTS.search(rest)
    part, tail = (rest, "") if before is None else (rest[: before.start()], rest[before.start() :])
    entries = {}
    if own:
        for entry in _ENTRY.split(part)[1:]:
            entries[entry.partition(":")[0]] = entry.rstrip("\n")
    else:
        head = part
    lines = [
        f"  {entries[name] if name in entries else f'{name}: {COMMON[name]}'}"
        for name in _parameters(function)[bound:]
        if name in entries or name in COMMON
    ]
    return "\n".join([f"{head}\n\nArgs:", *lines]) + tail if lines else head + tail


def described(function: F) -> F:
    """Complete the docstring of a function, and return the function."""
    function.__doc__ = complete(cast(FunctionType, function))
    return function


def _parameters(function: FunctionType) -> list[str]:
    """Return the names of the parameters in their order, as docstrings have them."""
    code = function.__code__
    places, named = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    variadic = [f"{star}" for flag, star in _VARIADIC if code.co_flags & flag]
    extra = [f"{s}{n}" for s, n in zip(variadic, names[places + named :], strict=False)]
    args = [one for one in extra if one[:2] != "**"]
    keywords = [one for one in extra if one[:2] == "**"]
    return [*names[:places], *args, *names[places : places + named], *keywords]
