"""Check the arguments of distributions, and draw their numbers."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice
from gpushard._functions.docstrings import complete
from gpushard._functions.element_types import as_dtype
from gpushard._functions.shapes import as_shape, broadcast
from gpushard._functions.values import is_value
from gpushard._ops.prng.distribution import Distribution, Domain
from gpushard._ops.table.random import ANY
from gpushard._placement.device_put import as_host_array
from gpushard._typing import Shape
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.random.keys import single_key
from gpushard.random.placing import bind_at

_F = TypeVar("_F", bound=Callable[..., Array])

_TYPES = {
    "f": "a floating-point dtype; float64 by default",
    "fc": "a floating-point or complex dtype; float64 by default",
    "iu": "an integer dtype; int64 by default",
    "u": "an unsigned integer dtype; uint64 by default",
    "if": "an integer or floating-point dtype; int64 by default",
}


def documented(row: Distribution, **texts: str) -> Callable[[_F], _F]:
    """Complete the docstring of a distribution's function with its arguments."""
    common = {
        "key": "a random key; do not use it again.",
        "shape": "the shape of the result.",
        "dtype": f"{_TYPES.get(row.kinds, '')}.",
        "out_sharding": "a sharding or `PartitionSpec` for the result.",
    }

    def write(function: _F) -> _F:
        if inspect.signature(function).parameters["shape"].default is None:
            names = [name for name, _ in row.parameters]
            common["shape"] = f"the shape of the result; by default {_default_shape(names)}."
        described = common | {name: f"{text}." for name, text in texts.items()}
        text = complete(cast("FunctionType", function), described)
        if "\n\nRaises:\n" not in text and any(domain.contains for _, domain in row.parameters):
            head, example, rest = text.partition("\n\n>>> ")
            text = f"{head}\n\nRaises:\n{_refusals(row)}{example}{rest}"
        function.__doc__ = text
        return function

    return write


def _default_shape(names: Sequence[str]) -> str:
    """Describe the shape that parameters have together."""
    if len(names) == 1:
        return f"the shape of `{names[0]}`"
    return f"the broadcast shape of {_joined(names, 'and')}"


def _refusals(row: Distribution) -> str:
    """Describe which parameters raise an `ArgumentError`."""
    names_of: dict[str, list[str]] = {}  # by the text of their domain
    for name, domain in row.parameters:
        if domain.contains is not None:
            names_of.setdefault(domain.text, []).append(name)
    refused = _joined([name for name, _ in row.parameters], "or")
    rules = [f"{_joined(names, 'and')} must be {text}." for text, names in names_of.items()]
    text = (
        f"ArgumentError: {refused} does not broadcast to `shape`, or is out of range. "
        f"{' '.join(rules)} gpushard checks ranges only for numbers on the host."
    )
    return textwrap.fill(text, 96, initial_indent="  ", subsequent_indent="    ")


def _joined(names: Sequence[str], word: str) -> str:
    """Join names by commas and a word.

    >>> _joined(["a", "b", "c"], "and")
    '`a`, `b` and `c`'
    """
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} {word} {last}" if first else last


def sample(
    row: Distribution,
    key: Any,
    parameters: tuple[Any, ...] = (),
    shape: Any = (),
    dtype: Any = None,
    out_sharding: Any = None,
    tail: Shape | None = (),
) -> Any:
    """Draw the numbers of a distribution."""
    target = row.default if dtype is None else dtype_of(row, dtype)
    operands = parameters and [
        parameter(x, row.title, argument, domain)
        for x, (argument, domain) in zip(parameters, row.parameters, strict=True)
    ]
    element = single_key(key, row.title)
    sizes = () if shape is None else as_shape(shape)
    if shape is None or tail is None:
        tail = broadcast(row.title, [np.shape(x) for x in operands])
    whole = (*sizes, *tail)
    return bind_at(row, (element, *operands), (whole, target), whole, out_sharding)


def dtype_of(row: Distribution, dtype: Any, name: str = "") -> np.dtype[Any]:
    """Check the dtype that a user asks for, and return it."""
    if dtype is None:
        return row.default
    target, kinds = as_dtype(dtype), row.kinds
    if kinds[0] != "f":
        fits = target.kind in kinds
        wanted = f"{_TYPES[kinds].split(';')[0]}, such as {row.default}"
    else:
        if target.isbuiltin == 1:
            fits = target.kind in kinds and np.finfo(target).bits <= 64
        else:  # a type of ml_dtypes: bfloat16 or float8, but not int4
            fits = np.can_cast(target, np.float32) and not np.can_cast(target, np.int64)
        names = "float16, float32, float64" + (", complex64, complex128" if "c" in kinds else "")
        wanted = f"one of {names}, or a type of floats of ml_dtypes"
    if not fits:
        raise ArgumentTypeError(
            f"{name or row.title}: dtype={target} must be {wanted}", argument="dtype", dtype=target
        )
    return target


def is_whole(dtype: Any) -> bool:
    """Test whether a user asks for integers from a distribution that also has floats."""
    return dtype is not None and as_dtype(dtype).kind in "iu"


def is_high(mode: Any, name: str) -> bool:
    """Test whether a mode draws twice as many bits for each number."""
    check_choice(name, "mode", mode, ("low", "high", None))
    return bool(mode == "high")


def parameter(x: Any, name: str, argument: str, domain: Domain = ANY, dtype: Any = None) -> Any:
    """Check a parameter of a distribution if it is on the host, and return it."""
    if not is_value(x):
        x = as_host_array(np.array(x) if isinstance(x, list | tuple) else x, argument)[0]
    if x.dtype.kind == "c":
        raise ArgumentTypeError(
            f"{name}: {argument} has dtype {x.dtype}; it must be real",
            argument=argument,
            dtype=x.dtype,
        )
    if not isinstance(x, np.ndarray):
        return x
    if domain.contains is not None and not np.all(possible := np.asarray(domain.contains(x))):
        wrong = x[~possible].ravel()[0]
        raise ArgumentError(
            f"{name}: {argument}={wrong} is invalid; it must be {domain.text}",
            argument=argument,
            value=wrong.item(),
        )
    cast = x if dtype is None else x.astype(dtype, copy=False)
    return cast if cast.ndim else cast[()]
