"""Reading the arguments of `lax`: operands of one dtype, equal shapes, sequences of integers."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from gpushard._functions.argument_checks import listed
from gpushard._functions.element_types import number_of
from gpushard._functions.values import Value
from gpushard._ops.axes import from_end, one_from_end
from gpushard._ops.scalars import KINDS, is_number
from gpushard._placement.arguments import as_value
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError

_WORDS = {"b": "boolean", "i": "signed", "u": "unsigned", "f": "floating", "c": "complex"}
ELEMENTS = {
    "f": "floats",
    "fc": "floats or complex numbers",
    "c": "complex numbers",
    "iu": "integers",
    "biu": "integers or booleans",
    "ifc": "signed numbers",
    "iuf": "real numbers",
    "iufc": "numbers",
    "biuf": "real numbers or booleans",
    "biufc": "numbers or booleans",
}
"""The words of docstrings for elements of some kinds."""

_KINDS_OF = {bool: "b", int: "iu", float: "f", complex: "c"}


def check_kind(name: str, x: Any, kinds: str) -> None:
    """Check that the kind of the elements of an array is allowed."""
    if kind_of(x.dtype) not in kinds:
        words = ", ".join(_WORDS[kind] for kind in kinds)
        raise ArgumentTypeError(
            f"lax.{name} does not take {x.dtype}; it takes {words} types: convert with "
            "convert_element_type",
            argument="x",
            dtype=x.dtype,
        )


def as_operand(name: str, x: Any) -> Any:
    """Read the only operand of an operation; Python's numbers become arrays of a weak type."""
    return x if isinstance(x, Value) else as_value(x, name, weak=True)


def as_operands(name: str, xs: Sequence[Any]) -> Sequence[Any]:
    """Read operands of one dtype: arrays, and numbers if there is an array, too.

    Python's numbers take the dtype of the arrays, if they are of its kind. Without arrays they
    become arrays of a weak type.

    Raises:
      ArgumentTypeError: dtypes differ.
    """
    dtype: Any = None
    for x in xs:
        if not isinstance(x, Value):
            return _converted(name, xs)
        operand_dtype = cast(Any, x).dtype
        if dtype is not None and operand_dtype != dtype:
            return _converted(name, xs)
        dtype = operand_dtype
    return xs


def _converted(name: str, xs: Sequence[Any]) -> Sequence[Any]:
    """Read operands as `as_operands` does if any of them is on the host."""
    operands = [x if isinstance(x, Value) or is_number(x) else as_value(x, name) for x in xs]
    if all(map(is_number, operands)):
        operands = [x if type(x) in KINDS else as_value(x, name) for x in xs]
    arrays = [x for x in operands if type(x) not in KINDS]
    numbers = {type(x) for x in operands if type(x) in KINDS}
    dtypes = [x.dtype for x in arrays]
    common = dtypes[0] if dtypes else KINDS[type(operands[0])].dtype
    kind = kind_of(common)
    if dtypes.count(common) < len(dtypes) or not all(kind in _KINDS_OF[x] for x in numbers):
        types = ", ".join(type(x).__name__ if type(x) in KINDS else str(x.dtype) for x in operands)
        raise ArgumentTypeError(
            f"lax.{name} takes operands of one dtype, got {types}; convert them with "
            "convert_element_type, or use the function of gpushard.numpy, which promotes",
            argument="x",
            dtypes=tuple(dtypes),
        )
    if all(getattr(x, "weak_type", False) for x in arrays):
        return [as_value(x, name, weak=True) for x in operands]
    return [number_of(x, common, name, "x") if type(x) in KINDS else x for x in operands]


def as_arrays(name: str, *xs: Any) -> list[Any]:
    """Read operands as `as_operands` does, numbers as arrays.

    Raises:
      ArgumentTypeError: dtypes differ.
    """
    return [x if isinstance(x, Value) else as_value(x, name) for x in as_operands(name, xs)]


def check_ranks(name: str, operands: Sequence[Any]) -> None:
    """Check that operands have the same number of dims; scalars go with all."""
    shapes = [x.shape for x in operands]
    if len({len(shape) for shape in shapes if shape}) > 1:
        raise ArgumentError(
            f"lax.{name} takes operands with equally many axes, got shapes "
            f"{', '.join(map(str, shapes))}; add axes with expand_dims or broadcast_in_dim",
            argument="x",
            shapes=tuple(shapes),
        )


def check_shape(name: str, argument: str, shape: Any, expected: Any) -> None:
    """Check that a shape is the expected one."""
    if tuple(shape) != tuple(expected):
        raise ArgumentError(
            f"lax.{name}: {argument} of shape {tuple(shape)} must have shape {tuple(expected)}",
            argument=argument,
            shape=tuple(shape),
            expected=tuple(expected),
        )


def integers(name: str, argument: str, values: Any, length: int | None = None) -> tuple[int, ...]:
    """Read a sequence of integers, and check its length if one is given."""
    try:
        numbers = tuple(map(operator.index, values))
    except TypeError:
        raise ArgumentTypeError.refusing(
            argument, values, "must be a sequence of integers", f"lax.{name}"
        ) from None
    if length is not None and len(numbers) != length:
        raise ArgumentError.refusing(
            argument, values, f"must have {length} integers, one for each axis", f"lax.{name}"
        )
    return numbers


def each(
    name: str, argument: str, values: Any, wanted: str = "a sequence of integers"
) -> list[Any]:
    """Read the entries of a sequence; as in JAX, an integer is not accepted."""
    return listed(values, f"lax.{name}", argument, wanted)


def dims(name: str, values: Any, ndim: int, argument: str = "axes") -> tuple[int, ...]:
    """Read several dims, counted from 0."""
    axes = tuple(values) if np.ndim(values) else values
    return tuple(ndim + axis for axis in from_end(axes, ndim, f"lax.{name}", argument))


def dim(name: str, value: Any, ndim: int, argument: str = "axis") -> int:
    """Read a dim, counted from 0."""
    return ndim + one_from_end(value, ndim, f"lax.{name}", argument)
