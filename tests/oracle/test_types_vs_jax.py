"""Types of results beside JAX's: narrow floats keep theirs, Python's numbers stay weak.

Each function gets every type, as many operands of it as it takes. Where JAX has a result, so has
gpushard, of the same type; where JAX refuses a type, so does gpushard. `gpushard.special` gives
integers SciPy's types and Python's numbers strong ones, so only floats are compared there.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.lax import elementwise

FLOATS = ("float16", "bfloat16", "float32", "float64")
NUMBERS = (int, float, complex, bool)
TYPES = (*FLOATS, "int8", "uint16", "int64", "bool", "complex64", *NUMBERS)
OTHERS = {
    "RoundingMethod",
    "bitcast_convert_type",
    "convert_element_type",
    "integer_pow",
    "reduce_precision",
    "select",
    "select_n",
}
"""Names of `lax.elementwise` that do not take operands of one type alone."""

LAX = [name for name in elementwise.__all__ if name not in OTHERS]
SPECIAL = [name for name in gs.special.__all__ if name not in ("zeta", "polygamma", "multigammaln")]
NN = [
    "celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity",
    "leaky_relu", "log1mexp", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu",
    "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid", "squareplus", "swish", "tanh",
]  # fmt: skip
"""Functions of one operand, element by element."""

STRONG = {
    "clz", "complex", "conj", "div", "polygamma", "population_count", "rem", "round", "shift_left",
    "shift_right_arithmetic", "shift_right_logical",
}  # fmt: skip
"""Functions whose results of Python's numbers may be strong: they convert, or choose by `where`."""

REAL = {"atan2"}
"""Functions that JAX has for complex numbers, too."""


@pytest.fixture(autouse=True)
def wide_types(jax: ModuleType) -> Iterator[None]:
    """Run with 64-bit types in JAX."""
    with jax.enable_x64(True):
        yield


def operand(kind: Any, array: Any) -> Any:
    """Return a number of Python's, or a vector of a type."""
    if isinstance(kind, type):
        return kind(1)
    dtype = gs.bfloat16 if kind == "bfloat16" else kind
    return array(np.ones(2).astype(dtype))


def type_of(function: Any, kind: Any, array: Any, count: int) -> Any:
    """Return the type of a result, and whether it is weak; None where the function refuses.

    JAX compiles nothing: it only says what it would give.
    """
    operands = [operand(kind, array)] * count
    try:
        if array is gs.numpy.asarray:
            found = function(*operands)
        else:
            found = importlib.import_module("jax").eval_shape(lambda: function(*operands))
    except (TypeError, ValueError, NotImplementedError):
        return None
    dtype = np.dtype(found.dtype)
    return dtype.name, bool(found.weak_type) and dtype.kind != "b"


def count_of(function: Any) -> int:
    """Return how many operands a function needs."""
    parameters = inspect.signature(function).parameters.values()
    return sum(parameter.default is parameter.empty for parameter in parameters)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("name", LAX)
def test_lax(jax: ModuleType, name: str, kind: Any) -> None:
    ours, theirs = getattr(gs.lax, name), getattr(jax.lax, name)
    count = count_of(ours)
    if name in REAL and kind in ("complex64", complex):
        assert type_of(ours, kind, gs.numpy.asarray, count) is None
        return
    wanted = type_of(theirs, kind, jax.numpy.asarray, count)
    for function in (ours, gs.jit(ours)) if wanted and kind in ("float16", float) else (ours,):
        found = type_of(function, kind, gs.numpy.asarray, count)
        if found and name in STRONG:
            assert found[0] == wanted[0]
        else:
            assert found == wanted


@pytest.mark.parametrize("name", NN)
def test_nn(jax: ModuleType, name: str) -> None:
    for kind in FLOATS:
        wanted = type_of(getattr(jax.nn, name), kind, jax.numpy.asarray, 1)
        assert type_of(getattr(gs.nn, name), kind, gs.numpy.asarray, 1) == wanted, kind


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SciPy, for counts that are floats
@pytest.mark.parametrize("name", SPECIAL)
def test_special(jax: ModuleType, name: str) -> None:
    theirs = getattr(importlib.import_module("jax.scipy.special"), name, None)
    ours = getattr(gs.special, name)
    count = sum(
        p.default is p.empty and p.kind != p.KEYWORD_ONLY
        for p in inspect.signature(ours).parameters.values()
    )
    for kind in FLOATS:
        wanted = None if theirs is None else type_of(theirs, kind, jax.numpy.asarray, count)
        found = type_of(ours, kind, gs.numpy.asarray, count)
        assert found == (wanted or (kind, False)), kind
