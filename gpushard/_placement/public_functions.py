"""Functions of values made public: they take data on the host, too, and `out_sharding`."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast, overload

from gpushard._array import Array
from gpushard._functions.docstrings import complete
from gpushard._functions.values import Value, is_value, wanted
from gpushard._placement.arguments import as_values, as_weak_values, settle
from gpushard._placement.arguments import operands as place_operands

P = ParamSpec("P")
R = TypeVar("R")


@overload
def public(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def public(
    *, arrays: int = 0, operands: int = 0, weak: bool = False, **texts: str
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def public(
    function: Any = None,
    /,
    *,
    arrays: int = 0,
    operands: int = 0,
    weak: bool = False,
    **texts: str,
) -> Any:
    """Make a function of values public.

    The public function takes data on the host, which go where new data goes, or next to the arrays.
    `out_sharding` may be a `PartitionSpec`, a device or any other place. The result is never an
    argument itself, as callers may assign to it. The docstring describes all arguments.

    Args:
      function: the function of values. It gets `out_sharding` as a sharding, or None if only the
        result determines it, and may ignore it.
      arrays: the number of first arguments that are arrays; one without parentheses.
      operands: the number of first arguments that are operands: numbers stay numbers, and data on
        the host stay there, as long as one of them is an array. With neither `arrays` nor
        `operands` the function gets all arguments unchanged.
      weak: whether Python's numbers become arrays of a weak type, as in JAX, not as in NumPy.
      **texts: the texts of arguments in a family of functions.
    """
    module = sys._getframe(1).f_globals
    if function is None:
        return lambda function: _public(function, arrays, operands, module, texts, weak=weak)
    return _public(function, 1, 0, module, {})


def public_array(function: Callable[P, Any], *, operands: int = 0) -> Callable[P, Array]:
    """Make a function of values public that returns an array; see `public`."""
    module = sys._getframe(1).f_globals
    return cast("Callable[P, Array]", _public(function, not operands, operands, module, {}))


def public_like(pattern: Callable[P, R]) -> Callable[[Callable[..., Any]], Callable[P, R]]:
    """Make functions public that take and pass on the arguments of another public function."""
    module = sys._getframe(1).f_globals
    like = inspect.unwrap(pattern)
    return lambda function: _public(function, 1, 0, module, {}, cast("FunctionType", like))


def _public(
    function: Any,
    arrays: int,
    operands: int,
    module: dict[str, Any],
    texts: dict[str, str],
    like: FunctionType | None = None,
    *,
    weak: bool = False,
) -> Any:
    value, copied, finish = Value, copy.copy, settle
    place_each = as_weak_values if weak else as_values if arrays else place_operands
    prepare = _Arguments(function, like or function, arrays or operands, place_each)
    is_first = arrays == 1 and like is None

    def call(*args: Any, **kwargs: Any) -> Any:
        place = kwargs.get("out_sharding")
        if place is not None or not is_first or not args or not isinstance(args[0], value):
            args, kwargs = prepare(args, kwargs)
        result = function(*args, **kwargs)
        if place is not None:
            return finish(result, place)
        return copied(result) if args and result is args[0] else result

    # The names that it uses are its own, so that it can be of the module that has the function:
    # doctest and pickle look there.
    wrapper = FunctionType(call.__code__, module, function.__name__, None, call.__closure__)
    functools.update_wrapper(wrapper, function)
    wrapper.__dict__["__wrapped__"] = like or function  # which has the signature
    wrapper.__module__ = module["__name__"]
    wrapper.__doc__ = complete(function, texts, like)
    return wrapper


class _Arguments:
    """Reads the arguments of a public function; see `public`."""

    __slots__ = ("_name", "_names", "_place", "_taken")

    def __init__(
        self,
        function: FunctionType,
        like: FunctionType,
        number: int,
        place: Callable[..., list[Any]],
    ) -> None:
        self._name = function.__name__
        self._place = place
        self._taken = None if like is function else frozenset(inspect.signature(like).parameters)
        self._names = like.__code__.co_varnames[:number]

    def __call__(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Place the arrays among arguments, and convert `out_sharding` to a sharding."""
        for name in () if self._taken is None else kwargs.keys() - self._taken:
            raise TypeError(f"{self._name}() got an unexpected keyword argument {name!r}")
        number = len(self._names)
        first = args[:number]
        named = [name for name in self._names[len(first) :] if name in kwargs]
        xs = [*first, *[kwargs[name] for name in named]]
        if len(xs) == number and not (number == len(first) == 1 and is_value(xs[0])):
            xs = self._place(self._name, *xs)
            kwargs |= zip(named, xs[len(first) :], strict=True)
            args = (*xs[: len(first)], *args[number:])
        if number and kwargs.get("out_sharding") is not None:
            kwargs["out_sharding"] = wanted(kwargs["out_sharding"], *xs)
        return args, kwargs
