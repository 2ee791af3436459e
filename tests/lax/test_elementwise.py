"""Functions of each element beside their definitions."""

from __future__ import annotations

from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import gpushard as gs
from gpushard.lax import elementwise
from tests.lax.calls import Call, check, check_everywhere, check_mapped, check_traced, values
from tests.lax.definitions.elementwise import ACCEPTS
from tests.lax.definitions.registry import BFLOAT16, DTYPES
from tests.share import some

RANGES: dict[str, list[tuple[float, float]]] = {
    "acos": [(-1, 1)], "asin": [(-1, 1)], "atanh": [(-0.75, 0.75)], "acosh": [(1, 4)],
    "log": [(0.25, 4)], "log1p": [(-0.75, 3)], "sqrt": [(0, 4)], "rsqrt": [(0.25, 4)],
    "erf_inv": [(-0.75, 0.75)], "lgamma": [(0.25, 5)], "digamma": [(0.25, 5)],
    "igamma": [(0.25, 4), (0, 6)], "igammac": [(0.25, 4), (0, 6)], "zeta": [(1.5, 5), (0.5, 5)],
    "betainc": [(0.25, 4), (0.25, 4), (0.25, 0.75)],
}  # fmt: skip
"""Where functions are defined, operand by operand."""

ARITY = dict.fromkeys(ACCEPTS, 1) | {"betainc": 3} | dict.fromkeys(
    [
        "add", "sub", "mul", "div", "rem", "max", "min", "eq", "ne", "lt", "le", "gt", "ge",
        "atan2", "complex", "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left",
        "shift_right_arithmetic", "shift_right_logical", "nextafter", "igamma", "igammac",
        "polygamma", "zeta",
    ],
    2,
)  # fmt: skip
OTHERS = {"integer_pow", "pow", "round", "reduce_precision"}
EXACT = {
    "abs", "neg", "max", "min", "ceil", "floor", "add", "sub", "mul", "div", "rem", "nextafter",
    "square", "sqrt",
}  # fmt: skip
"""Functions whose floats are those that IEEE 754 says, with the signs of zeros."""

NO_ZEROS = {"max", "min", "nextafter"}
"""Functions of which either zero may come where two are equal."""

BY_SCIPY = {
    "betainc", "bessel_i0e", "bessel_i1e", "digamma", "erf", "erf_inv", "erfc", "igamma", "igammac",
    "lgamma", "polygamma", "zeta",
}  # fmt: skip


def operands(name: str, dtype: Any, shape: Any = (5, 3)) -> list[Any]:
    """Return operands within the domain of a function."""
    ranges = RANGES.get(name, [(-3, 3)] * 3)
    xs = [values(shape, dtype, seed, *ranges[seed]) for seed in range(ARITY[name])]
    if name in NO_ZEROS and dtype.kind == "f":
        xs = [np.where(x == 0, dtype.type(0.125), x) for x in xs]
    if name == "polygamma":
        xs = [abs(np.trunc(xs[0])), abs(xs[1]) + xs[1].dtype.type(0.5)]
    if dtype.kind == "c":  # away from the branch cuts
        xs = [x + x.dtype.type(0.125 + 0.375j) for x in xs]
    return xs


CASES = [
    (name, dtype)
    for name, kinds in ACCEPTS.items()
    if name not in OTHERS
    for dtype in DTYPES
    if dtype.kind in kinds
    and not (name in BY_SCIPY | {"complex", "conj"} and dtype == "f2")
    and (name, dtype) != ("polygamma", "f4")
]


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda x: str(x))
def test_each_type(name: str, dtype: Any) -> None:
    exact = name in EXACT and dtype.kind != "c"
    check(Call(name, *operands(name, dtype)), 0 if exact else None)
    if ARITY[name] > 1:
        x, *more = operands(name, dtype, (4, 1))
        check(Call(name, x, *operands(name, dtype, (4, 5))[1:]))
        check(Call(name, x, *(y[0, 0] for y in more)))
        check(Call(name, x[2, 0], *more))


@pytest.mark.one_of(18)
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda x: str(x))
def test_traced_and_mapped(name: str, dtype: Any) -> None:
    call = Call(name, *operands(name, dtype))
    check_traced(call)
    check_mapped(call)
    check_mapped(call, traced=True)


@pytest.mark.parametrize("name", sorted({*ACCEPTS} - OTHERS))
@pytest.mark.parametrize("shape", [(), (0, 3)], ids=str)
def test_scalars_and_nothing(name: str, shape: Any) -> None:
    dtype = next(dtype for dtype in reversed(DTYPES) if dtype.kind in ACCEPTS[name])
    check(Call(name, *operands(name, dtype, shape)))


SPECIAL = [
    0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994,
    4503599627370497.5, 1e300, -1e300, 5e-324, 1.0, -1.0, 3.7,
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize(
    "name",
    sorted(EXACT - {"sqrt"} | {"sign", "eq", "ne", "lt", "le", "gt", "ge", "round", "is_finite"}),
)
def test_special_numbers(name: str, dtype: str) -> None:
    with np.errstate(over="ignore"):
        numbers = np.array(SPECIAL).astype(dtype)
    if name == "round":
        check(Call(name, numbers), 0)
        check(Call(name, numbers, gs.lax.RoundingMethod.TO_NEAREST_EVEN), 0)
        check(Call(name, numbers, 7))
    elif ARITY[name] == 1:
        check(Call(name, numbers), 0 if name in EXACT else None)
    else:
        rows = numbers[numbers != 0] if name in NO_ZEROS else numbers
        check(Call(name, *np.meshgrid(rows, numbers)), 0)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize(
    "name",
    sorted(name for name, kinds in ACCEPTS.items() if name not in OTHERS and {*"iu"} & {*kinds}),
)
def test_ends_of_integers(name: str, dtype: str) -> None:
    kinds, info = ACCEPTS[name], np.iinfo(dtype)
    if np.dtype(dtype).kind not in kinds:
        return
    bits = info.bits
    numbers = [info.min, info.min + 1, 0, 1, 2, 3, bits - 1, bits, bits + 1, info.max - 1, info.max]
    numbers += [-1, -2, -bits] if info.min else [info.max // 2, info.max // 2 + 1]
    array = np.array(numbers, dtype)
    check(Call(name, array) if ARITY[name] == 1 else Call(name, *np.meshgrid(array, array)))


REFUSED = [
    (name, dtype) for name, kinds in ACCEPTS.items() for dtype in DTYPES if dtype.kind not in kinds
]


@pytest.mark.parametrize("name", [*ACCEPTS])
def test_refused_types(name: str) -> None:
    more: dict[str, list[Any]] = {
        "integer_pow": [2], "pow": [2], "round": [], "reduce_precision": [5, 5],
    }  # fmt: skip
    for dtype in DTYPES:
        if dtype.kind in ACCEPTS[name]:
            continue
        xs = [np.ones((2, 3), dtype)]
        args = more.get(name, xs * ARITY[name])[len(xs) if name not in OTHERS else 0 :]
        with pytest.raises(gs.errors.ArgumentTypeError, match=f"lax.{name} does not take {dtype}"):
            getattr(gs.lax, name)(*xs, *args)


@pytest.mark.parametrize("name", ["complex", "conj"])
def test_floats_without_a_complex_type(name: str) -> None:
    check(Call(name, *operands(name, np.dtype("f2"))))


@pytest.mark.parametrize("name", sorted(name for name, n in ARITY.items() if n > 1))
def test_operands_that_do_not_fit(name: str) -> None:
    dtype = next(dtype for dtype in reversed(DTYPES) if dtype.kind in ACCEPTS[name])
    other = next(each for each in DTYPES if each.kind in ACCEPTS[name] and each != dtype)
    x, *rest = operands(name, dtype)
    check(Call(name, x, *operands(name, other)[1:]))
    check(Call(name, operands(name, other)[0], *rest))
    check(Call(name, x, *(y[0] for y in rest)))
    check(Call(name, x[0], *rest))
    with pytest.raises(gs.errors.GpushardError):
        getattr(gs.lax, name)(x, *(y[:2] for y in rest))


@pytest.mark.parametrize("name", ["add", "mul", "max", "eq", "bitwise_and", "div", "sub", "rem"])
def test_python_numbers(name: str) -> None:
    numbers = [True, 3, 2.5, 1 + 2j]
    for dtype in DTYPES:
        if dtype.kind not in ACCEPTS[name]:
            continue
        x = values((4,), dtype, 3)
        for number in numbers:
            check(Call(name, x, number))
            check(Call(name, number, x))


def test_numbers_of_python_give_way_without_arrays() -> None:
    lax, weak = gs.lax, gs.lax.add(1.5, 2.0)
    for made, wanted in ((weak, 3.5), (lax.mul(2, 3), 6), (lax.mul(weak, 2.0), 7.0)):
        assert made.weak_type and made.dtype == np.asarray(wanted).dtype and made == wanted
    strong = lax.add(np.float64(1.5), 2.0)
    assert not strong.weak_type and strong == 3.5
    assert (weak + gs.numpy.ones(2, "f4")).dtype == np.float32


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "f4", "f8", "c16"])
@pytest.mark.parametrize("power", [0, 1, 2, 3, 7, -1, -3, np.int8(2)])
def test_integer_pow(dtype: str, power: int) -> None:
    x = values((5, 2), dtype, 1, 1, 6)
    check_everywhere(Call("integer_pow", x, power)) if power >= 0 or dtype[0] in "fc" else check(
        Call("integer_pow", x, power)
    )


def test_integer_pow_of_fractions() -> None:
    for power in (1.5, 2.0, "2"):
        check(Call("integer_pow", np.ones(3), power))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_pow(dtype: str) -> None:
    x, y = (values((4, 3), dtype, seed, 0.25, 3) for seed in (1, 2))
    check_everywhere(Call("pow", x, y))
    check_everywhere(Call("pow", x, values((4, 3), "i4", 3)))
    check(Call("pow", x, values((), "u1", 3)))
    check(Call("pow", x, 2))
    check(Call("pow", x, -2))
    check(Call("pow", x, y[0]))
    check(Call("pow", x, y.astype("c8")))
    check(Call("pow", x, values((4, 3), bool)))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", BFLOAT16], ids=str)
def test_reduce_precision(dtype: Any) -> None:
    info = ml_dtypes.finfo(dtype)
    random = np.random.default_rng(0)
    scales = 2.0 ** random.integers(info.minexp, info.maxexp - 1, 60)
    with np.errstate(over="ignore", under="ignore"):
        numbers = np.concatenate([
            (random.standard_normal(60) * scales).astype(dtype),
            np.array([*SPECIAL, info.max, -info.max, info.tiny, info.tiny / 4]).astype(dtype),
            np.array([1, 1.5, 1.25, 1.75, 1.125, 1.375, 1.9999, 7.99, 15.9, 255.9]).astype(dtype),
        ])  # fmt: skip
    for exponent in some([1, 2, 5, 8, 11], range(1, 12)):
        for mantissa in some([0, 1, 2, 6, 7, 9, 10, 22, 23, 51, 52, 60], range(61)):
            check(Call("reduce_precision", numbers, exponent, mantissa), 0)
    check_everywhere(Call("reduce_precision", numbers, 5, 3), 0)
    for bits in ((0, 3), (3, -1), (-1, 3)):
        check(Call("reduce_precision", numbers, *bits))


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", "c16"])
def test_clamp(dtype: str) -> None:
    low, x, high = (values((5, 3), dtype, seed) for seed in range(3))
    for bounds in ((low, high), (low[0, 0], high), (low, high[0, 0]), (low[1, 1], high[2, 2])):
        check_everywhere(Call("clamp", bounds[0], x, bounds[1]), 0 if dtype[0] == "f" else None)
    check(Call("clamp", low[0], x, high))
    check(Call("clamp", low, x, high[:, :1]))
    check(Call("clamp", low, x[0], high))
    check(Call("clamp", low, x, values((5, 3), "u4")))
    number = {"?": True, "i": 2, "u": 2, "f": 0.5, "c": 1j}[dtype[0]]
    check(Call("clamp", number, x, high))
    check(Call("clamp", low, x, number))


def test_clamp_of_special_numbers() -> None:
    low, x, high = np.meshgrid([-1.0, np.nan, 0.5], SPECIAL, [2.0, np.nan, -2.0])
    check(Call("clamp", low, x, high), None)


@pytest.mark.parametrize("dtype", ["?", "i2", "f8", "c8"])
def test_select(dtype: str) -> None:
    cases = [values((5, 3), dtype, seed) for seed in range(4)]
    for shape in ((5, 3), ()):
        truth = values(shape, bool, 7)
        check_everywhere(Call("select", truth, *cases[:2]))
        check_everywhere(Call("select_n", truth, *cases[:2]))
        for which in some(("i1", "u4"), ("i1", "i8", "u4")):
            numbers = values(shape, which, 7, -3, 6)
            for count in (1, 2, 3, 4):
                check(Call("select_n", numbers, *cases[:count]))
            check_everywhere(Call("select_n", numbers, *cases))
    check(Call("select_n", values((5, 3), bool), cases[0]))
    for which in (truth, values((5, 3), "i4")):
        check(Call("select_n", which))
    for bad in (np.ones((5, 3)), np.ones(3, bool), np.ones((5, 1), bool)):
        check(Call("select_n", bad, *cases[:2]))
    check(Call("select_n", values((5, 3), bool), *cases))
    check(Call("select", truth, cases[0], cases[1][0]))
    check(Call("select", truth, cases[0], values((5, 3), "u1")))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_convert_element_type(dtype: Any) -> None:
    x = values((5, 3), dtype, 4, 0, 6)
    for to in DTYPES:
        check(Call("convert_element_type", x, to))
    check_everywhere(Call("convert_element_type", x, "i2"))
    check_everywhere(Call("convert_element_type", x, np.float32))
    if dtype.kind in "ifc":
        check(Call("convert_element_type", values((6,), dtype, 5), "i1"))


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_bitcast_convert_type(dtype: Any) -> None:
    for to in DTYPES[1:]:
        if "c" in (dtype.kind, to.kind):
            continue
        ratio = to.itemsize // dtype.itemsize
        shape = (5, 3) if ratio <= 1 else (5, 3, ratio)
        check(Call("bitcast_convert_type", values(shape, dtype, 4, 0, 6), to))
        if ratio > 1:
            check(Call("bitcast_convert_type", values((5, 2 * ratio), dtype), to))
            check(Call("bitcast_convert_type", values((), dtype), to))
    if dtype.kind != "c":
        check_everywhere(
            Call("bitcast_convert_type", values((5, 3), dtype, 4), f"u{dtype.itemsize}")
        )
        check_everywhere(Call("bitcast_convert_type", values((4, 8), dtype, 4), "i1"))


@pytest.mark.filterwarnings("error::numpy.exceptions.ComplexWarning")
def test_imaginary_parts_are_lost_without_a_warning() -> None:
    for to in ("f4", "i2"):
        made = gs.lax.convert_element_type(np.array([1 + 2j, 3 - 1j]), to)
        np.testing.assert_array_equal(made, np.array([1, 3], to))


@pytest.mark.parametrize(
    "name", ["shift_left", "shift_right_arithmetic", "shift_right_logical", "clz"]
)
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_no_shift_is_by_more_than_there_is(name: str, dtype: str) -> None:
    """NumPy knows what comes of that; GPUs do not."""
    x = gs.device_put(np.arange(3, 9).astype(dtype))
    bits = 8 * x.dtype.itemsize
    by = gs.device_put(np.array([0, 1, bits - 1, bits, bits + 1, 100]).astype(dtype))
    ways = "bitwise_left_shift", "bitwise_right_shift"
    shifts = [getattr(elementwise.ew, way) for way in ways]
    with (
        mock.patch.object(elementwise.ew, ways[0], side_effect=shifts[0]) as left,
        mock.patch.object(elementwise.ew, ways[1], side_effect=shifts[1]) as right,
    ):
        getattr(gs.lax, name)(*(x, by)[: ARITY[name]])
    steps = [np.asarray(call.args[1]) for call in (*left.mock_calls, *right.mock_calls)]
    assert steps and all(step.min() >= 0 and step.max() < bits for step in steps)


NEXT_TO_ARRAYS = {
    "add": lambda x: (gs.lax.add(x, 2.0), 2 + x),
    "add, of NumPy's": lambda x: (gs.lax.add(np.float32(2), x), 2 + x),
    "div": lambda x: (gs.lax.div(x, 2.0), x / 2),
    "pow": lambda x: (gs.lax.pow(x, 2), x**2),
    "clamp": lambda x: (gs.lax.clamp(0.5, x, 1.5), x.clip(0.5, 1.5)),
    "select": lambda x: (gs.lax.select(x > 1, x, gs.lax.mul(x, 0.0)), gs.numpy.where(x > 1, x, 0)),
    "pad": lambda x: (gs.lax.pad(x, 0.0, [(1, 1, 0)]), gs.numpy.pad(x, 1)),
    "reduce": lambda x: (gs.lax.reduce(x, 1.0, gs.lax.add, (0,)), 1 + x.sum()),
    "reduce_window": lambda x: (
        gs.lax.reduce_window(x, 0.0, gs.lax.max, (2,)), gs.numpy.maximum(x[1:], x[:-1])
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NEXT_TO_ARRAYS)
def test_numbers_next_to_arrays_go_nowhere(name: str) -> None:
    """They are operands as they are: no device gets an array of them first."""
    x = gs.device_put(np.arange(4, dtype=np.float32))
    with mock.patch("gpushard._placement.arguments.device_put", side_effect=AssertionError):
        found, wanted = NEXT_TO_ARRAYS[name](x)
    assert found.dtype == np.float32 and not found.weak_type
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


@pytest.mark.parametrize(
    "call",
    [
        lambda: gs.lax.add(np.float32(1), 2.0),
        lambda: gs.lax.clamp(np.float32(1), 2.0, np.float32(3)),
        lambda: gs.lax.clamp(1.0, np.float32(5), gs.device_put(np.float32(2))),
    ],
)
def test_numbers_alone_become_arrays(call: Any) -> None:
    found = call()
    assert isinstance(found, gs.Array) and found.dtype == np.float32 and not found.weak_type
    assert float(found) in (3.0, 2.0)
