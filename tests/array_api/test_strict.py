"""`gpushard.numpy` beside array-api-strict: signatures, and random calls on sharded arrays."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import gpushard as gs
from tests.array_api import calls
from tests.array_api.calls import ALL, COMPLEX, INTEGERS, NUMBERS, ORDERED, REAL, Call
from tests.share import some

strict = pytest.importorskip(
    "array_api_strict", reason="array-api-strict is not installed: pip install 'gpushard[test]'"
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that 2025.12 is new
    strict.set_array_api_strict_flags(api_version="2025.12")

SECTIONS = {"": strict, "linalg": strict.linalg, "fft": strict.fft}

SIGNATURES = [
    (section, name)
    for section, module in SECTIONS.items()
    for name in (module.__all__ if section else dir(module))
    if inspect.isfunction(getattr(module, name))
    and "strict_flags" not in name
    and name != "__getattr__"
]


@pytest.mark.parametrize(("section", "name"), SIGNATURES, ids=lambda text: text or "main")
def test_signatures_are_those_of_the_standard(section: str, name: str) -> None:
    """Every way to call the standard's function is a way to call ours, with the same meaning."""
    module = getattr(gs.numpy, section) if section else gs.numpy
    wanted = inspect.signature(getattr(SECTIONS[section], name)).parameters
    got = inspect.signature(getattr(module, name)).parameters
    names = list(got)
    for place, (argument, theirs) in enumerate(wanted.items()):
        if theirs.kind is theirs.VAR_POSITIONAL:
            assert any(ours.kind is ours.VAR_POSITIONAL for ours in got.values())
        elif theirs.kind is theirs.POSITIONAL_ONLY:
            assert got[names[place]].kind in (theirs.POSITIONAL_ONLY, theirs.POSITIONAL_OR_KEYWORD)
        else:
            ours = got[argument]
            by_place = theirs.kind is theirs.POSITIONAL_OR_KEYWORD
            assert ours.kind is theirs.POSITIONAL_OR_KEYWORD or not by_place
            assert not by_place or names.index(argument) == place
            assert ours.kind is not ours.POSITIONAL_ONLY
            assert ours.default is not ours.empty or theirs.default is theirs.empty


UNARY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(["abs", "square", "negative", "positive", "sign"], NUMBERS),
    **dict.fromkeys(
        ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1"], REAL
    ),
    **dict.fromkeys(
        ["log", "log10", "log1p", "log2", "reciprocal", "sin", "sinh", "sqrt", "tan", "tanh"], REAL
    ),
    **dict.fromkeys(["ceil", "floor", "trunc"], ORDERED),
    "signbit": REAL,
    **dict.fromkeys(["conj", "imag", "real"], COMPLEX),
    **dict.fromkeys(["isfinite", "isinf", "isnan", "round"], NUMBERS),
    "bitwise_invert": ("bool", *INTEGERS),
    "logical_not": ("bool",),
}
BINARY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(["add", "multiply", "subtract"], NUMBERS),
    **dict.fromkeys(["equal", "not_equal"], ALL),
    **dict.fromkeys(
        ["greater", "greater_equal", "less", "less_equal", "maximum", "minimum"], ORDERED
    ),
    **dict.fromkeys(["atan2", "copysign", "hypot", "logaddexp", "nextafter"], REAL),
    **dict.fromkeys(["bitwise_and", "bitwise_or", "bitwise_xor"], ("bool", *INTEGERS)),
    **dict.fromkeys(["logical_and", "logical_or", "logical_xor"], ("bool",)),
}
POSITIVE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(["floor_divide", "pow", "remainder"], ORDERED),
    **dict.fromkeys(["bitwise_left_shift", "bitwise_right_shift"], INTEGERS),
    "divide": REAL,
}
CALLS: dict[str, Any] = {
    **{name: calls.unary(dtypes) for name, dtypes in UNARY.items()},
    **{name: calls.binary(dtypes) for name, dtypes in BINARY.items()},
    **{name: calls.binary(dtypes, positive=True) for name, dtypes in POSITIVE.items()},
    **{name: calls.reduction(NUMBERS) for name in ("sum", "prod")},
    **{name: calls.reduction((*REAL, *COMPLEX)) for name in ("mean",)},
    **{name: calls.reduction(REAL) for name in ("std", "var")},
    **{name: calls.reduction(ORDERED) for name in ("max", "min")},
    **{name: calls.reduction(ALL) for name in ("all", "any", "count_nonzero")},
    **{name: calls.reduction(ORDERED, many=False) for name in ("argmax", "argmin")},
    **{
        name: calls.along(NUMBERS, "include_initial", st.booleans())
        for name in ("cumulative_sum", "cumulative_prod")
    },
    "diff": calls.along(NUMBERS, "n", st.integers(0, 2)),
    "flip": calls.along(ALL),
    "roll": calls.along(ALL, "shift", st.integers(-9, 9)),
    "repeat": calls.along(ALL).map(lambda call: Call(call.arrays, (2,), call.kwargs)),
    "sort": calls.along(ORDERED, "descending", st.booleans()),
    "argsort": calls.along(ORDERED, "descending", st.booleans()),
    **{name: calls.unary(ALL) for name in ("zeros_like", "ones_like", "broadcast_arrays")},
    **{name: calls.vectors(ORDERED) for name in ("unique_all", "unique_counts")},
    **{name: calls.vectors(ORDERED) for name in ("unique_inverse", "unique_values")},
    "nonzero": calls.along(ALL).map(lambda call: Call(call.arrays)),
    "matmul": calls.products(),
    "matrix_transpose": calls.products().map(lambda call: Call(call.arrays[:1])),
    "tensordot": calls.products().map(lambda call: Call(call.arrays, (), {"axes": 1})),
    "isin": calls.binary(INTEGERS),
    "tril": calls.products().map(lambda call: Call(call.arrays[:1])),
    "triu": calls.products().map(lambda call: Call(call.arrays[:1], (), {"k": -1})),
    "linalg.cholesky": calls.matrices(sign=1),
    "linalg.det": calls.matrices(),
    "linalg.diagonal": calls.matrices(square=False),
    "linalg.eigvalsh": calls.matrices(sign=1),
    "linalg.inv": calls.matrices(),
    "linalg.matrix_norm": calls.matrices(square=False),
    "linalg.matrix_power": calls.matrices().map(lambda call: Call(call.arrays, (3,))),
    "linalg.matrix_rank": calls.matrices(),
    "linalg.pinv": calls.matrices(),
    "linalg.slogdet": calls.matrices(),
    "linalg.solve": calls.matrices().map(lambda call: Call((call.arrays[0], call.arrays[0]))),
    "linalg.svdvals": calls.matrices(square=False),
    "linalg.trace": calls.matrices(square=False),
    "linalg.vector_norm": calls.reduction(REAL),
    **{
        f"fft.{name}": calls.along(COMPLEX if name in ("fft", "ifft") else REAL)
        for name in ("fft", "ifft", "rfft", "ihfft")
    },
    "fft.fftshift": calls.along((*REAL, *COMPLEX)).map(lambda call: Call(call.arrays)),
}
"""Calls of a function, by its name."""


def _find(root: Any, name: str) -> Any:
    for part in name.split("."):
        root = getattr(root, part)
    return root


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", CALLS)
def test_random_calls_give_what_the_standard_says(name: str) -> None:
    split = 0

    @settings(
        max_examples=some(8, 12),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(call=CALLS[name])
    def check(call: Call) -> None:
        nonlocal split
        split += any(len({*x._live().tiling.assignment.flat}) > 1 for x in call.arrays)
        theirs = [strict.asarray(np.asarray(x)) for x in call.arrays]
        with np.errstate(all="ignore"):
            want = _find(strict, name)(*theirs, *call.args, **call.kwargs)
        got = _find(gs.numpy, name)(*call.arrays, *call.args, **call.kwargs)
        _compare(want, got)

    with gs.use_mesh(gs.make_mesh((3, 2), ("x", "y")), "auto"):
        check()
    assert split


def _compare(want: Any, got: Any) -> None:
    if isinstance(want, tuple | list):
        assert len(want) == len(got)
        for one, other in zip(want, got, strict=True):
            _compare(one, other)
        return
    assert isinstance(got, gs.Array)
    expected, value = np.asarray(want._array), np.asarray(got)
    assert value.dtype == expected.dtype and value.shape == expected.shape
    if expected.dtype.kind in "fc":
        close = 1e-4 if expected.dtype.itemsize // (1 + (expected.dtype.kind == "c")) == 4 else 1e-9
        np.testing.assert_allclose(value, expected, rtol=close, atol=close)
    else:
        np.testing.assert_array_equal(value, expected)
