"""Functions that users transform: checks, names in errors, and wrappers that look like them."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from gpushard.errors import ArgumentTypeError


def check_function(f: Any, name: str, argument: str = "f") -> None:
    """Check that an object to transform is a function, and no generator or coroutine function.

    Raises:
      ArgumentTypeError: it is not.
    """
    if not callable(f):
        raise ArgumentTypeError.refusing(
            argument, f, "must be a function, or another object that can be called", name
        )
    if inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f):
        raise ArgumentTypeError.refusing(
            argument,
            f,
            "must be no generator or coroutine function; return all results at once",
            name,
        )


def imitate(wrapper: Any, f: Any) -> None:
    """Give a wrapper the name, the docstring and the attributes of the wrapped function.

    Methods of the wrapper, such as `lower`, stay.
    """
    functools.update_wrapper(wrapper, f, updated=())
    theirs = getattr(f, "__dict__", {})
    vars(wrapper).update({k: v for k, v in theirs.items() if not hasattr(type(wrapper), k)})
    wrapper.__wrapped__ = f


def title(name: str, f: Any) -> str:
    """Name a transformed function for errors: "vmap of f"."""
    return f"{name} of {getattr(f, '__name__', type(f).__name__)}"


def place_of(f: Any) -> str:
    """Return "file:line" of the definition of a function."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    return "a function" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def parameter_names(f: Any, count: int) -> list[str]:
    """List the names of positional parameters, or their numbers if the signature is unknown."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    others = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    beyond = range(count - len(named))
    return named[:count] + [
        str(len(named) + n) if others is None else f"{others}[{n}]" for n in beyond
    ]
