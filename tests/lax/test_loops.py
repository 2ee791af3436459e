"""Branches and loops beside those of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from tests.lax.calls import Call, check, check_everywhere, check_mapped, values
from tests.lax.definitions.registry import DTYPES

X = values((5, 3), "f8", 1)
Y = values((5, 3), "f8", 2)


def double(x: Any) -> Any:
    return x * 2


def less(x: Any) -> Any:
    return x - 1


def both(x: Any, y: Any) -> Any:
    return {"sum": x + y, "pair": (x, [y - x])}


def turned(x: Any, y: Any) -> Any:
    return {"sum": x * y, "pair": (y, [x + x])}


PREDICATES = [True, False, 1, 0, 2, -1, 0.5, 0.0, *np.array([0, 1, 3], "i4")]
PREDICATES += [np.array(each) for each in (True, False, 0, 2, -0.0, 0.25)]


def test_cond() -> None:
    for pred in PREDICATES:
        check(Call("cond", pred, double, less, X))
        check(Call("cond", pred, both, turned, X, Y))
        check(Call("cond", pred, double, less, operand=X))
    for bad in (np.array([True]), np.array([[1]])):
        check(Call("cond", bad, double, less, X))
    for pred in (np.array(True), np.array(2), np.array(0.25)):
        check_everywhere(Call("cond", pred, both, turned, X, Y))
        check_mapped(Call("cond", pred, double, less, X), traced=True)


BRANCHES = [double, less, lambda x: x + x * x, lambda x: -x]


@pytest.mark.parametrize("count", range(5))
def test_switch(count: int) -> None:
    for index in range(-6, 7):
        for form in (index, np.int8(index), np.array(index)):
            check(Call("switch", form, BRANCHES[:count], X))
        if index >= 0:
            check(Call("switch", np.array(index, "u1"), tuple(BRANCHES[:count]), X))
    check(Call("switch", 0, [both, turned], X, Y))
    for bad in (0.5, np.array([1]), np.array(1.0), True):
        if count:
            with pytest.raises(gs.errors.ArgumentTypeError):
                gs.lax.switch(bad, BRANCHES[:count], X)
    if count:
        check_everywhere(Call("switch", np.array(2), BRANCHES[:count], X))
        check_mapped(Call("switch", np.array(1), BRANCHES[:count], X), traced=True)


def below(limit: int) -> Any:
    return lambda value: value[0] < limit


def step(value: Any) -> Any:
    return value[0] + value[1], value[1], value[2] * 2 - value[0]


@pytest.mark.parametrize("limit", [-3, 0, 1, 2, 3, 7, 20])
def test_while_loop(limit: int) -> None:
    for start in (-2, 0, 3, 5):
        value = np.array(start), np.array(2), values((5, 3), "i8", 1)
        check(Call("while_loop", below(limit), step, value))
    check_everywhere(Call("while_loop", below(limit), step, value))
    check_mapped(Call("while_loop", below(limit), step, value), traced=True)


def collatz(value: Any) -> Any:
    number, steps = value
    odd = number % 2
    return odd * (3 * number + 1) + (1 - odd) * (number // 2), steps + 1


def test_loops_of_other_lengths_for_each_element() -> None:
    numbers = np.arange(1, 12)
    wanted = []
    for number in numbers.tolist():
        value = number, 0
        while value[0] != 1:
            value = collatz(value)
        wanted.append(value[1])
    loop = gs.vmap(lambda n: gs.lax.while_loop(lambda v: v[0] != 1, collatz, (n, n * 0))[1])
    assert loop(numbers).tolist() == gs.jit(loop)(numbers).tolist() == wanted


def add_number(i: Any, value: Any) -> Any:
    return value[0] + i, value[1] * 2 + i


@pytest.mark.parametrize("lower", range(-3, 4))
def test_fori_loop(lower: int) -> None:
    value = np.array(1), values((3,), "i8", 1)
    for upper in range(-4, 6):
        check(Call("fori_loop", lower, upper, add_number, value))
        check(Call("fori_loop", np.array(lower), np.array(upper), add_number, value))
        check(Call("fori_loop", lower, upper, add_number, value, unroll=2))
    check_everywhere(Call("fori_loop", lower, 4, add_number, value))
    check_everywhere(Call("fori_loop", np.array(lower), np.array(3), add_number, value))
    check_mapped(Call("fori_loop", np.array(lower), np.array(3), add_number, value), traced=True)


def running(carry: Any, x: Any) -> Any:
    total = carry["total"] * 2 + x["a"] - x["b"][0]
    return {"total": total, "count": carry["count"] + 1}, (total, [x["a"], None])


def counted(carry: Any, x: Any) -> Any:
    return carry * 3 + 1, carry


@pytest.mark.parametrize("length", [0, 1, 2, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(length: int, reverse: bool) -> None:
    carry = {"total": values((3,), "i8", 1), "count": np.array(0)}
    xs = {"a": values((length, 3), "i8", 2), "b": (values((length,), "i8", 3),)}
    for unroll in (1, 2, True):
        check(Call("scan", running, carry, xs, reverse=reverse, unroll=unroll))
    check(Call("scan", running, carry, xs, length, reverse))
    check(Call("scan", counted, np.array(1), None, length, reverse))
    check(Call("scan", counted, np.array(1), length=length, reverse=reverse))
    call = Call("scan", running, carry, xs, None, reverse)
    check_everywhere(call)
    check_mapped(call, traced=True)
    check_everywhere(Call("scan", counted, np.array(1), None, length))


def test_scan_that_does_not_fit() -> None:
    for xs, length in (((X, X[1:]), None), (X, 4), (None, None), (np.array(1), None), ((), None)):
        check(Call("scan", lambda c, x: (c, c), np.array(1), xs, length))
    check(Call("scan", counted, np.array(1), None, -1))


def part(x: Any) -> Any:
    return {"sum": x[0] + x[1], "row": (x[0] * 2,)}


@pytest.mark.parametrize("size", [None, 1, 2, 3, 4, 5, 6, 9, 0, -1])
def test_map(size: Any) -> None:
    how = {} if size is None else {"batch_size": size}
    for length in (0, 1, 4, 5):
        check(Call("map", part, (X[:length], values((length,), "f8", 3)), **how))
    check(Call("map", part, (X, Y[:3]), **how))
    if size != 0 and size != -1:
        check_everywhere(Call("map", part, (X, values((5,), "f8", 3)), **how))
        check_mapped(Call("map", double, X, **how), traced=True)


def after(a: Any, b: Any) -> Any:
    """One linear function after the other: the order matters."""
    return a[0] * b[0], a[1] * b[0] + b[1]


def together(a: Any, b: Any) -> Any:
    return a + b


@pytest.mark.one_of(2)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 7, 8, 9, 16])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(length: int, reverse: bool) -> None:
    x, y = values((length, 2), "i8", 1), values((length, 2), "i8", 2)
    for axis in (0, -2, 1, -1, 2, -3):
        check(Call("associative_scan", together, x, reverse, axis))
    check(Call("associative_scan", after, (x, y), reverse))
    check(Call("associative_scan", after, (x.T, y.T), reverse, axis=1))
    if length in (1, 5, 8):
        check_everywhere(Call("associative_scan", after, (x, y), reverse))
        check_mapped(Call("associative_scan", after, (x, y), reverse, -2), traced=True)


def test_associative_scan_that_does_not_fit() -> None:
    check(Call("associative_scan", after, (X, Y[:2])))
    check(Call("associative_scan", after, (X, Y[0, 0] * np.ones(()))))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_type(dtype: Any) -> None:
    x = values((4, 3), dtype, 1)
    check(Call("cond", True, lambda x: x[0], lambda x: x[1], x))
    check(
        Call("while_loop", lambda v: v[0] < 3, lambda v: (v[0] + 1, v[1][::-1]), (np.array(0), x))
    )
    check(Call("scan", lambda c, row: (row, c), x[0], x))
    check(Call("map", lambda row: row[::-1], x))
    if dtype.kind != "b":
        check(Call("associative_scan", together, x))


def test_with_sharding_constraint() -> None:
    mesh = gs.make_mesh((4, 2), ("a", "b"))
    for spec in (gs.P("a"), gs.P("b", "a"), gs.P(None, ("a", "b"))):
        place = gs.NamedSharding(mesh, spec)
        check(Call("with_sharding_constraint", X, place))
        check(Call("with_sharding_constraint", (X, [Y]), place))
        result = gs.jit(lambda x, place=place: gs.lax.with_sharding_constraint(x * 2, place))(X)
        assert result.sharding == place and np.array_equal(result, X * 2)
