"""`reduce`, `accumulate`, `outer`, `at` and `reduceat` of ufuncs, against NumPy's.

Of NumPy's ufuncs on arrays, of the functions of `gpushard.numpy`, and of `frompyfunc`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError, ArgumentTypeError, ArrayIndexError
from tests.numpy.compare import LAYOUTS, put, same
from tests.numpy.matrices import ONE_RUNTIME
from tests.share import some

gnp = gs.numpy
pytestmark = [pytest.mark.usefixtures("domains"), ONE_RUNTIME]

UFUNCS = {
    "add": "bHldD?",
    "subtract": "bHldD",
    "multiply": "bld?",
    "divide": "ldD",
    "maximum": "bHld?",
    "minimum": "ld",
    "fmax": "ld",
    "bitwise_and": "bH?",
    "bitwise_or": "bl?",
    "bitwise_xor": "bHl?",
    "logical_and": "bd?",
    "logical_or": "ld?",
    "logical_xor": "bd?",
    "logaddexp": "d",
    "logaddexp2": "df",
    "gcd": "bHl",
    "lcm": "l",
    "hypot": "d",
    "floor_divide": "bld",
}

MASK = np.array([True, False, True, True, False])


def _apply(function: Any, x: Any, *how: Any) -> Any:
    """Return what `at` makes of a copy."""
    new = x.copy()
    assert function.at(new, *how) is None
    return new


FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "reduce": lambda f, x: f.reduce(x),
    "reduce last": lambda f, x: f.reduce(x, axis=-1, keepdims=True),
    "reduce dtype": lambda f, x: f.reduce(x, dtype=x.dtype),
    "reduce initial": lambda f, x: f.reduce(x, initial=x.dtype.type(1)),
    "reduce where": lambda f, x: f.reduce(x, where=MASK[: len(x), None], initial=1),
    "accumulate": lambda f, x: f.accumulate(x),
    "accumulate last": lambda f, x: f.accumulate(x, axis=-1),
    "outer": lambda f, x: f.outer(x, x[:2, 0]),
    "reduceat": lambda f, x: f.reduceat(x, [0, 2, 1, 4]),
    "reduceat last": lambda f, x: f.reduceat(x, np.array([1, 0, 2]), axis=1),
}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", UFUNCS)
def test_methods(name: str, form: str) -> None:
    theirs, call = getattr(np, name), FORMS[form]
    for number, dtype in enumerate(UFUNCS[name]):
        data = np.random.default_rng(3).integers(1, 4, (5, 3)).astype(dtype)
        if name == "divide" and dtype == "l" and form == "reduce dtype":
            continue  # quotients are no integers
        if name.startswith("logical") and form in ("reduce dtype", "reduce initial"):
            continue  # NumPy's have no such type
        with np.errstate(all="ignore"):
            expected = call(theirs, data)
        x = put(data, "x", "y")
        function = getattr(gnp, name)
        same(call(theirs, x), expected, exact=False)
        same(call(function, x), expected, exact=False)
        if some(number == 0, True):
            same(gs.jit(lambda x, f=function: call(f, x))(x), expected, exact=False)


@pytest.mark.parametrize("name", ["add", "multiply", "bitwise_xor", "logical_or", "gcd", "fmin"])
def test_all_axes(name: str) -> None:
    for layout in LAYOUTS.values():
        data = np.random.default_rng(1).integers(1, 3, layout[0])
        x, theirs = put(data, *layout[1]), getattr(np, name)
        for axis in (None, (0, 1)):
            try:
                expected = theirs.reduce(data, axis=axis)
            except ValueError:
                with pytest.raises((ArgumentError, ValueError)):
                    theirs.reduce(x, axis=axis)
            else:
                same(theirs.reduce(x, axis=axis), expected)


def test_an_initial_value_decides_what_no_element_does() -> None:
    x = np.array([[True, True], [False, False]])
    for name in ("logical_and", "logical_or", "logical_xor"):
        for initial in (False, True):
            wanted = getattr(np, name).reduce(x, axis=1, initial=initial)
            same(getattr(gnp, name).reduce(put(x, "y"), axis=1, initial=initial), wanted)


AT: dict[str, tuple[Any, Any]] = {
    "repeated": ([0, 1, 0, -1], [1, 2, 3, 4]),
    "grid": ((np.array([[0], [2]]), np.array([1, 1, 0])), np.array([[1, 2, 3], [4, 5, 6]])),
    "slice": (slice(1, None, 2), 3),
    "column": ((slice(None), [0, 0]), 2),
    "mask": (np.array([True, False, True, True]), 1),
    "number": ((1, 2), 5),
    "none": ([], 5),
}


@pytest.mark.parametrize("case", AT)
def test_at(case: str) -> None:
    indices, values = AT[case]
    data = np.arange(12).reshape(4, 3)
    if case == "repeated":
        data = data[:, 0].copy()
    x = put(data, "x")
    minus = gnp.frompyfunc(lambda a, b: 2 * a - b, 2, 1)
    theirs = np.frompyfunc(lambda a, b: 2 * a - b, 2, 1)
    expected = data.astype(object)
    theirs.at(expected, indices, values)
    same(_apply(minus, x, indices, values), expected.astype(np.int64))
    same(minus.at(data, indices, values, inplace=False), expected.astype(np.int64))
    same(
        gs.jit(lambda x: minus.at(x, indices, values, inplace=False))(x), expected.astype(np.int64)
    )
    for name in ("add", "subtract", "maximum", "bitwise_xor"):
        expected = _apply(getattr(np, name), data, indices, values)
        same(_apply(getattr(gnp, name), x, indices, values), expected)
        same(_apply(getattr(np, name), x, indices, values), expected)
    expected = _apply(np.negative, data, indices)
    same(_apply(gnp.negative, x, indices), expected)
    np.testing.assert_array_equal(x, data)


def test_of_users() -> None:
    ours, theirs = (m.frompyfunc(lambda a, b: 2 * a - b, 2, 1) for m in (gnp, np))
    data = np.random.default_rng(0).integers(-9, 9, (5, 3))
    x = put(data, "y")

    def check(call: Callable[[Any, Any], Any]) -> None:
        expected = np.asarray(call(theirs, data.astype(object))).astype(np.int64)
        same(call(ours, x), expected)
        same(gs.jit(lambda x: call(ours, x))(x), expected)
        mapped = gs.vmap(lambda x: call(ours, x))(gnp.stack([x * 0, x]))
        np.testing.assert_array_equal(np.asarray(mapped)[1], expected)

    check(lambda f, x: f(x, 3))
    check(lambda f, x: f(x, x[0]))
    check(lambda f, x: f.reduce(x))
    check(lambda f, x: f.reduce(x, axis=1, keepdims=True))
    check(lambda f, x: f.reduce(x, initial=3))
    check(lambda f, x: f.accumulate(x, axis=1))
    check(lambda f, x: f.outer(x, x[0, :2]))
    check(lambda f, x: f.reduceat(x, [0, 3, 1]))


def test_identities() -> None:
    total = gnp.frompyfunc(lambda a, b: a + b, 2, 1, identity=0)
    data = np.arange(12).reshape(4, 3)
    same(total.reduce(data[:0]), np.zeros(3, np.int64))
    same(total.reduce(data, where=data > 4), data.sum(0, where=data > 4))
    assert (total.identity, total.nin, total.nout, total.nargs) == (0, 2, 1, 2)
    assert repr(gnp.ufunc(max, 2, 1, name="most")) == "<gpushard.numpy.ufunc 'most'>"
    two = gnp.frompyfunc(lambda a: (a + 1, a * 2), 1, 2)
    same(two(data), (data + 1, data * 2))


@pytest.mark.parametrize("name", ["gcd", "hypot", "bitwise_and", "logaddexp", "subtract"])
def test_a_single_element(name: str) -> None:
    alone = np.array([[-3, -4]], "d" if name in ("hypot", "logaddexp") else "l")
    calls: list[Callable[[Any, Any], Any]] = [
        lambda m, x: getattr(m, name).reduce(x),
        lambda m, x: getattr(m, name).reduce(x, axis=()),
        lambda m, x: getattr(m, name).reduceat(x, [0, 1], axis=1),
        lambda m, x: getattr(m, name).accumulate(x),
    ]
    for call in calls:
        same(call(gnp, put(alone)), call(np, alone))
    same(gnp.frompyfunc(lambda a, b: a - b, 2, 1, identity=9).reduce(alone), alone[0])


def test_what_is_written_of_a_function_is_written_of_its_ufunc() -> None:
    def double(a: Any) -> Any:
        """Twice as much."""
        return a * 2

    made = gnp.frompyfunc(double, 1, 1)
    assert (made.__name__, made.__doc__) == ("double", "Twice as much.")


def test_nothing_to_accumulate_and_no_slices() -> None:
    most = gnp.frompyfunc(gnp.maximum, 2, 1)
    for shape in ((0, 3), (3, 0)):
        x = put(np.zeros(shape, "f"))
        same(most.accumulate(x, axis=1), np.maximum.accumulate(np.zeros(shape, "f"), axis=1))
        same(most.accumulate(x, dtype="l"), np.zeros(shape, "l"))
    data = np.arange(12, dtype="f").reshape(4, 3)
    for axis in (0, 1, -1):
        for dtype in (None, "d"):
            wanted = np.subtract.reduceat(data, np.zeros(0, int), axis=axis, dtype=dtype)
            same(gnp.subtract.reduceat(put(data, "x"), [], axis=axis, dtype=dtype), wanted)


def test_slices_at_traced_positions() -> None:
    data = np.arange(10.0).reshape(5, 2)
    for indices in ([0, 2, 1, 4], [3], [4, 4, 0]):
        for name in ("add", "subtract", "maximum"):
            expected = getattr(np, name).reduceat(data, indices)
            traced = gs.jit(lambda x, at, name=name: getattr(gnp, name).reduceat(x, at))
            same(traced(put(data, "x"), np.array(indices)), expected)
            same(getattr(gnp, name).reduceat(put(data, "x"), put(np.array(indices))), expected)


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "unary": (lambda x: gnp.frompyfunc(abs, 1, 1).reduce(x), ArgumentError, "takes 1"),
    "unary slices": (
        lambda x: gnp.frompyfunc(abs, 1, 1).reduceat(x, [0]), ArgumentError, "reduceat: abs takes",
    ),
    "unary running": (
        lambda x: gnp.frompyfunc(abs, 1, 1).accumulate(x), ArgumentError, "accumulate: abs takes",
    ),
    "unary outer": (
        lambda x: gnp.frompyfunc(abs, 1, 1).outer(x, x), ArgumentError, "outer: abs takes",
    ),
    "no identity": (lambda x: gnp.subtract.reduce(x[:0]), ArgumentError, "give initial="),
    "where": (lambda x: gnp.subtract.reduce(x, where=x > 1), ArgumentError, "where=; give init"),
    "slices": (lambda x: gnp.add.reduceat(x, [0, 8]), ArrayIndexError, "8 is out of bounds"),
    "operands": (lambda x: gnp.add.at(x, [0]), ArgumentError, "takes 2 operands"),
    "host": (lambda x: gnp.add.at(np.ones(3), [0], 1), ArgumentTypeError, "inplace=False"),
    "out": (lambda x: gnp.add.reduce(x, out=x), ArgumentError, "out="),
    "out, running": (lambda x: gnp.add.accumulate(x, out=x), ArgumentError, "accumulate: out="),
    "out of slices": (lambda x: gnp.add.reduceat(x, [0], out=x), ArgumentError, "reduceat: out="),
    "out of a call": (
        lambda x: gnp.frompyfunc(max, 2, 1)(x, x, out=x), ArgumentError, "max: out=",
    ),
    "many": (lambda x: gnp.frompyfunc(max, 2, 1)(x), ArgumentTypeError, "takes 2 operands, got 1"),
    "no type to accumulate": (
        lambda x: np.bitwise_and.accumulate(x), ArgumentTypeError, "bitwise_and is not defined for",
    ),
    "no function": (lambda x: gnp.frompyfunc(3, 2, 1), ArgumentTypeError, "func=3"),
    "mask": (
        lambda x: gnp.frompyfunc(abs, 1, 1)(x, where=x > 1), ArgumentTypeError, "where",
    ),
    "results": (
        lambda x: gnp.frompyfunc(lambda a, b: (a, b), 2, 2).reduce(x), ArgumentError, "2 results",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, kind, words = REFUSED[name]
    x = put(np.arange(8.0), "x")
    with pytest.raises(kind, match=words):
        call(x)
    np.testing.assert_array_equal(x, np.arange(8.0))
