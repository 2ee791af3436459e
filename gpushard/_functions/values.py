"""Values, the operands of functions: plain arrays, and traced or mapped values."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

from gpushard._functions.docstrings import complete
from gpushard._functions.host_reads import Concrete
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.sharding import Sharding
from gpushard._ops.bind import bind
from gpushard._ops.row import Params, Row
from gpushard._ops.table.elementwise import COPY
from gpushard._ops.table.manipulation import INDEX, index
from gpushard.errors import ArgumentTypeError

Array = TypeVar("Array", bound=Any)
"""A value: a plain array, or a value of an interpreter. Results are values of the same kind."""

P = ParamSpec("P")
R = TypeVar("R")


class Value:
    """Base of arrays with data and of traced values."""

    __slots__ = ()


def is_value(x: Any) -> bool:
    """Whether an object is a value: an array, or a value of an interpreter."""
    return isinstance(x, Value) or hasattr(x, "interpreter")


def offered(x: Any) -> Any:
    """Return the array that an object of another class offers by `__jax_array__`, or the object.

    Raises:
      ArgumentTypeError: it offers something else.
    """
    offer = None if isinstance(x, type) else getattr(x, "__jax_array__", None)
    if offer is None or is_value(x):
        return x
    array = offer()
    if not is_value(array):
        raise ArgumentTypeError(
            f"__jax_array__ of a {type(x).__name__} returned a {type(array).__name__}; return an "
            "array of gpushard",
            argument="x",
            type=type(array),
        )
    return array


def is_traced(x: Any) -> bool:
    """Whether a value is of an interpreter and has no data: neither elements nor a place."""
    return hasattr(x, "interpreter") and not isinstance(x, Concrete)


def sharding_of(x: Any) -> Sharding | None:
    """Return the sharding of an array; None for data on the host, and for mapped values.

    A traced value has a sharding, too: that of the same operations called one by one.
    """
    return getattr(_held(x), "_sharding", None)


def is_committed(x: Any) -> bool:
    """Whether a user chose where an array lies; see `sharding_of`."""
    return getattr(_held(x), "_committed", False)


def _held(x: Any) -> Any:
    """Return a value, or the value in a box; None for data on the host."""
    if not isinstance(x, Value):
        x = getattr(x, "raw_value", x)
    return x if isinstance(x, Value) else None


def method(function: Callable[P, R]) -> Callable[P, R]:
    """Make a method of its first argument from a function of values, with the same code."""
    plain = cast(FunctionType, function)
    first, *others = plain.__code__.co_varnames
    code = plain.__code__.replace(co_varnames=("self", *others))
    bound = FunctionType(code, plain.__globals__, plain.__name__, plain.__defaults__)
    bound.__kwdefaults__ = plain.__kwdefaults__
    bound.__annotations__ = {k: v for k, v in plain.__annotations__.items() if k != first}
    bound.__module__ = plain.__module__
    bound.__doc__ = complete(plain, bound=True)
    return cast("Callable[P, R]", bound)


def laid_out(x: Any, sharding: Sharding | None) -> Any:
    """Move a value to a sharding, if there is one."""
    return x if sharding is None else bind(COPY, (x,), (), sharding)


def wanted(out_sharding: Any, *xs: Any) -> Sharding | None:
    """Convert `out_sharding` to a sharding, so that operations can choose their split by it.

    Args:
      out_sharding: a sharding, a `PartitionSpec` on the mesh of the first operand that has one, or
        None.
      *xs: the operands.

    Returns:
      The sharding; None if nothing is wanted, or if only the result can say what is meant.
    """
    if out_sharding is None or isinstance(out_sharding, Sharding):
        return out_sharding
    if isinstance(out_sharding, PartitionSpec):
        for x in xs:
            if isinstance(sharding := sharding_of(x), NamedSharding):
                return sharding.with_spec(out_sharding)
    return None


DENSE: Params = ("dense",)
"""Parameters of `view` for an operation that only copies memory with gaps, in NumPy."""


def view(x: Any, row: Row | None, params: Params = (), to: Sharding | None = None) -> Any:
    """Apply an operation of which NumPy returns a view.

    Plain arrays remember the array that they are a view of.

    Args:
      x: the value.
      row: the operation; None for the one that changes nothing.
      params: its parameters.
      to: how the result is laid out; None for as it comes.
    """
    if to is not None:
        return laid_out(x, to) if row is None else _part(x, row, params, to)
    remembering = getattr(x, "_viewed", None)
    if remembering is not None:
        return remembering(row, params)
    return copy.copy(x) if row is None else _part(x, row, params)


def _part(x: Any, row: Row, params: Params, to: Sharding | None = None) -> Any:
    """Apply an operation; for indexing the whole index is a parameter."""
    return index(x, params[0], to) if row is INDEX else bind(row, (x,), params, to)
