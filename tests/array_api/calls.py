"""Random calls of the functions of the Array API, for any namespace."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis.extra.array_api import make_strategies_namespace

import gpushard as gs

XPS = make_strategies_namespace(gs.numpy)

REAL = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = (*INTEGERS, *REAL, *COMPLEX)
ORDERED = (*INTEGERS, *REAL)
ALL = ("bool", *NUMBERS)


@dataclasses.dataclass(frozen=True)
class Call:
    """What a function is called with."""

    arrays: tuple[gs.Array, ...]
    """The arrays, which come first."""

    args: tuple[Any, ...] = ()
    """What follows them."""

    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The rest."""


Draw = Callable[[Any], Any]
Calls = Callable[..., Any]


def _elements(dtype: str) -> dict[str, Any]:
    """Return bounds that keep sums and products of few elements finite and exact enough."""
    if dtype in REAL:
        return {"min_value": -8, "max_value": 8, "allow_subnormal": False}
    if dtype in INTEGERS:
        return {"min_value": 0 if dtype[0] == "u" else -5, "max_value": 9}
    return {}


@st.composite
def arrays(
    draw: Draw, dtypes: tuple[str, ...], shapes: Any = None, *, wild: bool = False
) -> gs.Array:
    """Draw an array; `wild` ones have all numbers of their type, NaN and infinities too."""
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(shapes if shapes is not None else XPS.array_shapes(min_dims=0, min_side=0))
    if dtype in COMPLEX and not wild:
        part = "float32" if dtype == "complex64" else "float64"
        real, imag = (draw(XPS.arrays(part, shape, elements=_elements(part))) for _ in range(2))
        return real + 1j * imag
    elements = {} if wild or dtype == "bool" else _elements(dtype)
    if wild and dtype in REAL:
        elements = {"allow_subnormal": False}
    made = draw(XPS.arrays(dtype, shape, elements=elements))
    laid_out: gs.Array = gs.numpy.asarray(np.asarray(made))  # hypothesis reshapes what it makes
    return laid_out


def axis_of(draw: Draw, x: gs.Array) -> int:
    """Draw an axis of an array that has one."""
    axis: int = draw(st.integers(-x.ndim, x.ndim - 1))
    return axis


SOME = XPS.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=9)


def unary(dtypes: tuple[str, ...], *, wild: bool = True) -> Any:
    """Calls of elementwise functions of one array."""
    return arrays(dtypes, wild=wild).map(lambda x: Call((x,)))


@st.composite
def binary(draw: Draw, dtypes: tuple[str, ...], *, positive: bool = False) -> Call:
    """Calls of elementwise functions of two arrays that broadcast."""
    dtype = draw(st.sampled_from(dtypes))
    shapes = draw(XPS.mutually_broadcastable_shapes(2)).input_shapes
    if positive:
        elements = {"min_value": 1, "max_value": 6}
        return Call(tuple(draw(XPS.arrays(dtype, shape, elements=elements)) for shape in shapes))
    return Call(tuple(draw(arrays((dtype,), st.just(shape))) for shape in shapes))


@st.composite
def reduction(draw: Draw, dtypes: tuple[str, ...], *, many: bool = True) -> Call:
    """Calls of functions that reduce dims."""
    x = draw(arrays(dtypes, SOME))
    axis = draw(st.none() | XPS.valid_tuple_axes(x.ndim)) if many else axis_of(draw, x)
    return Call((x,), (), {"axis": axis, "keepdims": draw(st.booleans())})


@st.composite
def along(draw: Draw, dtypes: tuple[str, ...], name: str = "", values: Any = None) -> Call:
    """Calls of functions that work along an axis, perhaps with one more keyword."""
    x = draw(arrays(dtypes, SOME))
    more = {name: draw(values)} if name else {}
    return Call((x,), (), {"axis": axis_of(draw, x)} | more)


@st.composite
def vectors(draw: Draw, dtypes: tuple[str, ...]) -> Call:
    """Calls of functions of a vector."""
    return Call((draw(arrays(dtypes, st.tuples(st.integers(0, 12)))),))


@st.composite
def products(draw: Draw, dtypes: tuple[str, ...] = NUMBERS) -> Call:
    """Calls of functions of two matrices that fit."""
    m, k, n = (draw(st.integers(1, 6)) for _ in range(3))
    dtype = (draw(st.sampled_from(dtypes)),)
    return Call((draw(arrays(dtype, st.just((m, k)))), draw(arrays(dtype, st.just((k, n))))))


@st.composite
def matrices(draw: Draw, *, square: bool = True, sign: int = 0, most: int = 5) -> Call:
    """Calls of functions of stacks of matrices that are well conditioned; `sign` 1: symmetric."""
    stack = draw(st.sampled_from([(), (2,), (3,)]))
    m = draw(st.integers(1, most))
    n = m if square else draw(st.integers(1, most))
    x = draw(arrays(("float64",), st.just((*stack, m, n))))
    if sign:
        x = x + x.mT
    if square:
        x = x + 40 * gs.numpy.eye(m)
    return Call((x,))
