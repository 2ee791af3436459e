"""Checks that arguments of several functions share: shapes, dtypes and placements."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import numpy as np

from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard._geometry.tiling import MOST_DIMS, MOST_ELEMENTS, Tiling
from gpushard._movement.buffer import devices_of
from gpushard._runtime.runtime import Device
from gpushard._typing import Shape
from gpushard.dtypes import NAMES, element, is_installed, kind_of, named
from gpushard.errors import (
    ArgumentError,
    ArgumentRangeError,
    ArgumentTypeError,
    OutOfMemoryError,
    TracedValueError,
)

T = TypeVar("T")


_SEVERAL, _INTEGERS = (tuple, list), (int, np.integer)  # here as each use would make a union anew


def as_shape(shape: Any, argument: str = "shape") -> Shape:
    """Return a shape as a tuple of non-negative integers.

    >>> as_shape([2, 3]), as_shape(4)
    ((2, 3), (4,))
    """
    try:
        several = isinstance(shape, _SEVERAL) or np.ndim(shape) > 0
        result = tuple([int(n.__index__()) for n in (shape if several else (shape,))])
    except TracedValueError:
        raise
    except (TypeError, AttributeError, ValueError):
        raise ArgumentTypeError.refusing(argument, shape, "must be a tuple of integers") from None
    if min(result, default=0) < 0:
        raise ArgumentError.refusing(argument, result, "has a negative size; sizes start at 0")
    return result


def as_dtype(dtype: Any, argument: str = "dtype") -> np.dtype[Any]:
    """Return a numeric dtype in native byte order.

    >>> as_dtype("f4")
    dtype('float32')
    """
    try:
        known = isinstance(dtype, str) and dtype in NAMES and is_installed()
        checked: np.dtype[Any] = np.dtype(named(dtype) if known else dtype)
    except (TypeError, ValueError):
        dtype = getattr(dtype, "dtype", dtype)
        raise ArgumentTypeError.refusing(
            argument, dtype, "is no dtype; use one of NumPy's, such as 'float32'"
        ) from None
    return check_dtype(checked, argument)


def check_dtype(dtype: np.dtype[Any], argument: str) -> np.dtype[Any]:
    """Return a numeric dtype in native byte order.

    >>> check_dtype(np.dtype(">f4"), "x")
    dtype('float32')
    """
    custom = dtype.isbuiltin == 2  # registered with NumPy by others, such as bfloat16
    if dtype.kind not in "?biufc" and not custom:
        raise ArgumentTypeError(
            f"{argument} has dtype {dtype}; arrays hold booleans, integers, floats or complex "
            "numbers. Convert it first",
            argument=argument,
            dtype=dtype,
        )
    return dtype.newbyteorder("=") if not dtype.isnative else dtype


def sharding_at(device: Any) -> Sharding:
    """Return the sharding that a device, or a sharding, stands for."""
    if isinstance(device, Sharding):
        return device
    if not isinstance(device, Device):
        raise ArgumentTypeError.refusing(
            "device", device, "must be one of gpushard.devices(), or a Sharding"
        )
    return SingleDeviceSharding(device)


def place_tiling(sharding: Sharding, shape: Shape) -> Tiling:
    """Return the tiling of an array that is about to be made."""
    tiling = sharding.tiling(shape)
    devices_of(tiling)
    return tiling


def integer(value: Any, name: str, argument: str) -> int:
    """Return an integer."""
    try:
        return operator.index(value)
    except TracedValueError:
        raise
    except TypeError:
        raise ArgumentTypeError.refusing(argument, value, "must be an integer", name) from None


def count(number: Any, name: str, argument: str) -> int:
    """Return a non-negative integer."""
    value = integer(number, name, argument)
    if value < 0:
        raise ArgumentError.refusing(argument, value, "must not be negative", name)
    return value


def element_count(number: Any, name: str, argument: str) -> int:
    """Check that an array can have this number of elements, and return it."""
    value = count(number, name, argument)
    if value > MOST_ELEMENTS:
        raise ArgumentError.refusing(
            argument, value, "is more than 2**58 elements; use a smaller number", name
        )
    return value


def dim_count(number: Any, name: str, argument: str) -> int:
    """Check that an array can have this number of dims, and return it."""
    value = integer(number, name, argument)
    if value > MOST_DIMS:
        raise ArgumentError.refusing(
            argument, value, f"is more than {MOST_DIMS} dims; use fewer", name, most=MOST_DIMS
        )
    return value


def ranged(value: Any, name: str, argument: str, bits: int = 64) -> int:
    """Check that an integer fits a signed type of some number of bits, and return it."""
    number = integer(value, name, argument)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ArgumentRangeError.refusing(
            argument,
            number,
            f"does not fit an integer of {bits} bits; use -2**{bits - 1} to 2**{bits - 1} - 1",
            name,
        )
    return number


def listed(values: Any, name: str, argument: str, wanted: str = "a sequence") -> list[Any]:
    """Return the entries of a sequence as a list; refuse anything else by its name.

    >>> listed((0, 1), "lax.rev", "dimensions")
    [0, 1]
    """
    try:
        return list(values)
    except TracedValueError:
        raise
    except TypeError:
        raise ArgumentTypeError.refusing(argument, values, f"must be {wanted}", name) from None


def check_key(value: Any, name: str, argument: str, wanted: str) -> None:
    """Check that a value can be looked up in a table of choices."""
    try:
        hash(value)
    except TypeError:
        raise ArgumentTypeError.refusing(argument, value, f"must be {wanted}", name) from None


def on_host(name: str, make: Callable[..., T], *args: Any) -> T:
    """Call a function of NumPy for a public function, which the error names.

    Raises:
      OutOfMemoryError: the host has no room.
    """
    try:
        return make(*args)
    except MemoryError as error:
        raise OutOfMemoryError(
            f"{name}: the host has no room for the numbers that it makes there: {error}; use "
            "smaller sizes",
            operation=name,
        ) from None


def correction_of(ddof: Any, correction: Any, name: str) -> Any:
    """Read `ddof` or `correction`, two names of one argument."""
    taken = ddof if correction is None else correction
    try:
        small = isinstance(taken, int) and abs(taken) < 1 << 63
        return taken if small else float(taken)
    except OverflowError:
        raise ArgumentRangeError.refusing(
            "correction", taken, "does not fit float64", name
        ) from None
    except TracedValueError:
        raise
    except (TypeError, ValueError):
        raise ArgumentTypeError.refusing("correction", taken, "must be a number", name) from None


def check_order(order: Any) -> None:
    """Check that `order` is row-major, the only order of arrays."""
    if order not in ("C", "A", "K", None):
        raise ArgumentError.refusing(
            "order", order, 'is not supported; elements are in row-major order, "C"'
        )


def new_shape_of(shape: Shape, new_shape: Any) -> Shape:
    """Return a new shape without -1."""
    sizes = new_shape if isinstance(new_shape, _SEVERAL) else (new_shape,)
    unknown = [dim for dim, n in enumerate(sizes) if isinstance(n, _INTEGERS) and n == -1]
    if unknown:
        sizes = [1 if dim in unknown else n for dim, n in enumerate(sizes)]
    known = as_shape(sizes, "shape")
    elements, wanted = math.prod(shape), math.prod(known)
    if len(unknown) == 1 and wanted and elements % wanted == 0:
        dim = unknown[0]
        return (*known[:dim], elements // wanted, *known[dim + 1 :])
    if unknown or elements != wanted:
        asked = tuple([-1 if dim in unknown else n for dim, n in enumerate(sizes)])
        raise ArgumentError(
            f"reshape: shape {shape} of {elements} elements does not fit {asked}; sizes "
            "must multiply to the same number, and one of them may be -1",
            argument="shape",
            shape=shape,
            new_shape=asked,
        )
    return known


def refuse_out(name: str, out: Any) -> None:
    """Check that `out` is None."""
    if out is None:
        return
    if not isinstance(out, tuple) or any(entry is not None for entry in out):
        raise ArgumentError(
            f"{name}: out= is not supported, results are values; write x = {name}(...), and "
            "numpy.asarray(x) for the host",
            argument="out",
        )


def number_of(value: Any, dtype: np.dtype[Any], name: str, argument: str) -> Any:
    """Convert a number to a dtype, as an assignment to an array of that dtype does."""
    try:
        kind = type(value)
        if kind is int or (kind is float and kind_of(dtype) not in "iu"):
            return element(value, dtype)
        data = np.asarray(value)
        if data.ndim or (data.dtype.kind == "c" and kind_of(dtype) not in "cb"):
            raise TypeError
        if kind_of(dtype) in "iu":
            with np.errstate(invalid="ignore"):
                return data.astype(dtype)[()]
        return element(value, dtype)
    except OverflowError:
        raise ArgumentRangeError.refusing(
            argument, value, f"does not fit {dtype}; choose another dtype", name, dtype=dtype
        ) from None
    except (TypeError, ValueError):
        raise ArgumentTypeError.refusing(
            argument, value, f"must be a number that {dtype} can hold", name, dtype=dtype
        ) from None


def check_choice(
    name: str, argument: str, value: Any, known: Collection[Any], more: str = ""
) -> None:
    """Check that a value is among the known ones."""
    try:
        known_choice = value in known
    except TracedValueError:
        raise
    except (TypeError, ValueError):  # it cannot be hashed, or it is an array
        known_choice = False
    if not known_choice:
        raise ArgumentError(
            f"{name}: {argument}={value!r} is unknown; use one of "
            + ", ".join(map(repr, known))
            + more,
            argument=argument,
            value=value,
        )


def check_hint(name: str, argument: str, value: Any, known: Collection[Any]) -> None:
    """Check a choice of JAX that makes no difference here."""
    check_choice(name, argument, value, known, "; it makes no difference")


def broadcast(name: str, shapes: Collection[Shape]) -> Shape:
    """Return the shape that shapes broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise do_not_broadcast(name, shapes) from None


def do_not_broadcast(name: str, shapes: Collection[Shape]) -> ArgumentError:
    """Return the error for shapes that do not broadcast."""
    return ArgumentError(
        f"{name}: shapes {', '.join(map(str, shapes))} do not broadcast; dims must be equal or 1, "
        "counted from the last",
        argument="shape",
        shapes=tuple(shapes),
    )


def check_vector(name: str, argument: str, x: Any) -> None:
    """Check that an array, here or on the host, has one dim."""
    if len(x.shape) != 1:
        raise ArgumentError(
            f"{name}: {argument} of shape {x.shape} must have one dim; give a vector, such as "
            f"{argument}.ravel()",
            argument=argument,
            shape=x.shape,
        )


def check_dims(name: str, x: Any, least: int) -> None:
    """Check that an array has some dims at least, up to three."""
    if x.ndim < least:
        words = ("one dim", "two dims", "three dims")[least - 1]
        raise ArgumentError(
            f"{name} needs at least {words}, the shape is {x.shape}", argument="x", shape=x.shape
        )


def check_ordered(name: str, x: Any) -> None:
    """Check that the elements of an array have an order."""
    if kind_of(x.dtype) == "c":
        raise ArgumentTypeError(
            f"{name} is not defined for {x.dtype}: complex numbers have no order; take the real "
            "part or the absolute value first",
            argument="x",
            dtype=x.dtype,
        )


_PRECISIONS = (
    None,
    "default",
    "high",
    "highest",
    "fastest",
    "bfloat16",
    "tensorfloat32",
    "float32",
)


def check_precision(name: str, precision: Any) -> None:
    """Check a precision of products, as JAX knows them; products have all that their type has."""
    pair = precision if isinstance(precision, tuple) else (precision,)
    for entry in pair:
        text = getattr(entry, "name", entry)
        known = text.lower() if isinstance(text, str) else text
        check_hint(name, "precision", known, _PRECISIONS)
