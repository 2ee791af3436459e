"""Control flow gives what Python's does, eagerly, under jit, and for each of mapped values."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import errors, lax, testing
from gpushard._transforms.control_flow import body_cache
from tests.late import late_devices
from tests.share import some

P = gs.P
VALUE = np.arange(16.0).reshape(8, 2) - 5


def rotate(x: Any) -> Any:
    return x * 2 + 1


def collatz(x: Any) -> Any:
    def step(state: Any) -> Any:
        n, count = state
        return gnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return lax.while_loop(lambda state: state[0] > 1, step, (x, 0))[1]


def collatz_of(n: int) -> int:
    count = 0
    while n > 1:
        n, count = n // 2 if n % 2 == 0 else 3 * n + 1, count + 1
    return count


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "cond": (
        lambda x: lax.cond(x.sum() > 3, lambda x: x + 100, lambda x: -x, x),
        lambda x: x + 100 if x.sum() > 3 else -x,
    ),
    "cond of a closure": (
        lambda x: lax.cond(x[0] > 0, lambda: x * 2, lambda: gnp.zeros(2)),
        lambda x: x * 2 if x[0] > 0 else np.zeros(2),
    ),
    "cond, numbers": (
        lambda x: x + lax.cond(x[0] > 0, lambda: 1.0, lambda: 2.0),
        lambda x: x + (1.0 if x[0] > 0 else 2.0),
    ),
    "switch": (
        lambda x: lax.switch(x[0].astype(int), [lambda x: x, lambda x: x * 2, lambda x: -x], x),
        lambda x: [x, x * 2, -x][min(max(int(x[0]), 0), 2)],
    ),
    "while": (
        lambda x: lax.while_loop(lambda c: c.sum() < 40, rotate, x * x + 1),
        lambda x: _while(lambda c: c.sum() < 40, rotate, x * x + 1),
    ),
    "while of a tuple": (
        lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * x), (0, x))[1],
        lambda x: x**6,
    ),
    "fori": (
        lambda x: lax.fori_loop(0, 5, lambda i, c: c * 2 + i, x),
        lambda x: x * 32 + 26,
    ),
    "fori, an element at a time": (
        lambda x: lax.fori_loop(0, 2, lambda i, c: c + x[i], 0.0),
        lambda x: x.sum(),
    ),
    "fori, as often as an element says": (
        lambda x: lax.fori_loop(0, abs(x[0]).astype(int), lambda i, c: c + i, x),
        lambda x: x + sum(range(int(abs(x[0])))),
    ),
    "while of what does not depend on the value": (
        lambda x: gnp.stack(lax.while_loop(lambda c: c[0] < x[1], lambda c: (c[0] + 1, 7), (0, 0))),
        lambda x: np.array([max(0, x[1]), 7 * (x[1] > 0)]),
    ),
    "fori that assigns": (
        lambda x: lax.fori_loop(0, 2, lambda i, c: c.at[i].set(i * 10.0), x),
        lambda x: np.array([0.0, 10.0]),
    ),
    "scan": (
        lambda x: lax.scan(lambda c, a: (c + a, c * a), 1.0, x)[1],
        lambda x: np.array([x[0], (1 + x[0]) * x[1]]),
    ),
    "scan back": (
        lambda x: lax.scan(lambda c, a: (c + a, c), 0.0, x, reverse=True)[1],
        lambda x: np.array([x[1], 0.0]),
    ),
    "scan of nothing": (
        lambda x: lax.scan(lambda c, _: (c * 2, c), x, None, 3)[1],
        lambda x: np.stack([x, 2 * x, 4 * x]),
    ),
    "map": (lambda x: lax.map(lambda a: a * a, x), lambda x: x * x),
    "associative scan": (lambda x: lax.associative_scan(gnp.add, x), np.cumsum),
    "nested": (
        lambda x: lax.fori_loop(
            0, 3, lambda i, c: lax.cond(i == 1, lambda c: c * 10, lambda c: c + 1, c), x
        ),
        lambda x: (x + 1) * 10 + 1,
    ),
    "scan of a loop": (
        lambda x: lax.scan(lambda c, a: (lax.fori_loop(0, 2, lambda i, v: v + a, c), a), 0.0, x)[0],
        lambda x: 2 * x.sum(),
    ),
    "keys": (
        lambda x: (
            x
            + 0
            * lax.scan(lambda k, _: (gs.random.split(k)[0], k), gs.random.key(0), None, 3)[1].size
        ),
        lambda x: x,
    ),
}


def _while(holds: Any, step: Any, value: Any) -> Any:
    while holds(value):
        value = step(value)
    return value


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_does_what_python_does(name: str) -> None:
    function, plain = FUNCTIONS[name]
    with testing.runtime(host_devices=4):
        sharding = gs.NamedSharding(gs.make_mesh((2, 2), ("x", "y")), P("x", "y"))
        x = gs.device_put(VALUE, sharding)
        want = np.stack([plain(row) for row in VALUE])
        for row in (0, 3, 5, 7):
            for way in (function, gs.jit(function)):
                np.testing.assert_allclose(np.asarray(way(x[row])), want[row])
        for mapped in (gs.vmap(function), gs.jit(gs.vmap(function)), gs.vmap(gs.jit(function))):
            np.testing.assert_allclose(np.asarray(mapped(x)), want)


def test_numbers_of_python_give_way_where_elements_differ() -> None:
    x = np.ones((4, 3), np.float32)
    functions: list[Callable[[Any, Any], Any]] = [
        lambda n, x: lax.fori_loop(0, n, lambda i, c: c * 2 + i, x),
        lambda n, x: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, 7), (0, 0))[1] * x,
        lambda n, x: lax.cond(n > 2, lambda: 1, lambda: 2) * x,
        lambda n, x: lax.switch(n, [lambda: 1.0, lambda: 2.0]) * x,
    ]
    for function in functions:
        for way in (gs.vmap(function), gs.jit(gs.vmap(function))):
            assert way(np.arange(4), x).dtype == np.float32


def test_one_of_several_values_gives_way() -> None:
    for call in (lax.fori_loop, gs.jit(lax.fori_loop, static_argnums=2)):
        first, second = call(0, 3, lambda i, c: (c[0] + gnp.float32(2), c[1] * 2), (0, gnp.ones(2)))
        assert first.dtype == np.float32 and first == 6 and second.tolist() == [8, 8]


def test_each_mapped_value_loops_as_often_as_it_needs() -> None:
    numbers = np.arange(1, 30)
    want = [collatz_of(int(n)) for n in numbers]
    for way in (gs.vmap(collatz), gs.jit(gs.vmap(collatz))):
        assert way(numbers).tolist() == want


def test_collectives_in_loops() -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((4,), ("x",))
        ring = [(n, (n + 1) % 4) for n in range(4)]

        def body(x: Any) -> Any:
            return lax.fori_loop(0, 4, lambda i, c: lax.ppermute(c, "x", ring) + i, x)

        around = gs.shard_map(body, mesh, P("x"), P("x"))
        value = np.arange(8.0)
        for way in (around, gs.jit(around)):
            np.testing.assert_array_equal(np.asarray(way(value)), value + 6)


def test_bounds_of_a_loop_are_of_one_type_or_give_way() -> None:
    weak, int32, int8 = gs.device_put(4), gnp.int32(4), gnp.int8(4)
    for call in (lax.fori_loop, gs.jit(lax.fori_loop, static_argnums=2)):
        for lower, upper in ((1, weak), (1, int32), (weak - 3, 4), (int32 - 3, 4),
                             (int32 - 3, weak), (weak - 3, int32), (int32 - 3, int32)):  # fmt: skip
            assert call(lower, upper, lambda i, c: c * 10 + i, 0) == 123
        with pytest.raises(errors.ArgumentTypeError, match="lower is int32 and upper is int8"):
            call(int32, int8, lambda i, c: c, 0)
    with pytest.raises(errors.ArgumentRangeError, match="upper=300"):
        lax.fori_loop(int8, 300, lambda i, c: c, 0)


@pytest.mark.parametrize("length", range(9))
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scans_of_any_length(length: int, reverse: bool) -> None:
    value = np.random.default_rng(0).integers(0, 50, (2, length))
    want = np.maximum.accumulate(value[:, ::-1] if reverse else value, axis=1)
    found = lax.associative_scan(gnp.maximum, gnp.asarray(value), reverse=reverse, axis=1)
    np.testing.assert_array_equal(np.asarray(found), want[:, ::-1] if reverse else want)


@pytest.mark.parametrize("length", [1, 64, 65, 150])
def test_scans_of_any_length_are_stacked(length: int) -> None:
    x = np.arange(length)
    total, sums = gs.jit(lambda x: lax.scan(lambda c, a: (c + a, c + a), 0, x))(x)
    assert total.item() == sum(range(length))
    np.testing.assert_array_equal(np.asarray(sums), np.cumsum(x))


COUNTED: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], Any]]] = {
    "scan": (lambda c, a: (c + a, c), lambda f, x: lax.scan(f, 0.0, x)),
    "scan of a wider carry": (lambda c, a: (c * 2, a), lambda f, x: lax.scan(f, 1, x)),
    "fori_loop": (lambda i, c: c + i, lambda f, x: lax.fori_loop(0, 3, f, x)),
    "while_loop": (lambda c: c * 2 + 1, lambda f, x: lax.while_loop(small, f, x)),
    "condition": (lambda c: c.sum() < 50, lambda f, x: lax.while_loop(f, rotate, x)),
    "cond": (lambda x: x - 1, lambda f, x: lax.cond(True, f, rotate, x)),
    "other way of cond": (lambda x: x - 1, lambda f, x: lax.cond(True, rotate, f, x)),
    "switch": (lambda x: x - 1, lambda f, x: lax.switch(1, [rotate, f, rotate], x)),
    "map": (lambda a: a + 1, lambda f, x: lax.map(f, x)),
}


def small(x: Any) -> Any:
    return x.sum() < 50


@pytest.mark.parametrize("name", COUNTED)
def test_functions_called_as_they_are_are_traced_once(name: str) -> None:
    traced: list[int] = []
    body, call = COUNTED[name]

    def f(*args: Any) -> Any:
        traced.append(1)
        return body(*args)

    x = gnp.arange(4.0)
    first = call(f, x)
    count = len(traced)
    again = call(f, x + 0)
    assert count and len(traced) == count
    for one, other in zip(gs.tree.leaves(first), gs.tree.leaves(again), strict=True):
        assert one.aval == other.aval
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    call(f, gnp.arange(6.0))
    assert len(traced) == 2 * count
    gs.clear_caches()
    call(f, x)
    assert len(traced) == 3 * count
    gone, before = weakref.ref(f), len(body_cache._caches)
    del f
    gc.collect()
    assert gone() is None and len(body_cache._caches) <= before


def test_a_function_that_uses_arrays_of_outside_sees_what_these_are_now() -> None:
    weights = gnp.ones(2)

    def step(carry: Any, x: Any) -> Any:
        return carry + x * weights, carry

    def weighted(x: Any) -> Any:
        return x * weights

    def whether(x: Any) -> Any:
        return lax.cond(True, weighted, gnp.negative, x)

    x, pair = gnp.arange(3.0), gnp.ones(2)
    assert lax.scan(step, gnp.zeros(2), x)[0].tolist() == [3, 3]
    assert whether(pair).tolist() == [1, 1]
    weights[1] = 10
    assert lax.scan(step, gnp.zeros(2), x)[0].tolist() == [3, 30]
    assert whether(pair).tolist() == [1, 10]


@pytest.mark.parametrize("traced", [False, True])
def test_each_branch_sees_the_arrays_of_outside_that_it_uses(traced: bool) -> None:
    a, b, c, d = (gnp.full(4, float(n)) for n in (10, 20, 30, 40))
    branches = [lambda x: x + a, lambda x: x * b - c + a, lambda x: x, lambda x: d - x]

    def f(number: Any, x: Any) -> Any:
        return lax.switch(number, branches, x)

    x = gnp.arange(4.0)
    for number, branch in enumerate(branches):
        found = (gs.jit(f) if traced else f)(gnp.asarray(number), x)
        np.testing.assert_array_equal(found, branch(x))
    for which in (True, False):
        found = lax.cond(gnp.asarray(which), branches[1], branches[3], x)
        np.testing.assert_array_equal(found, branches[1 if which else 3](x))


def test_many_shapes_keep_memory_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_cache, "_CACHE_BYTES", 60_000)

    def step(carry: Any, x: Any) -> Any:
        return carry + x, None

    for n in range(1, 20):
        lax.scan(step, 0.0, gnp.ones(n))
    kept = body_cache._caches[step]
    assert 0 < len(kept) < 10 and kept.nbytes <= 60_000


def test_what_is_scanned_may_have_no_parts() -> None:
    def of(x: Any) -> Any:
        return lax.scan(lambda c, a: (c + a.sum(), (c, a * 2)), 1.0, x)

    mesh = gs.make_mesh((4, 2), ("x", "y"))
    for shape, spec in (((0, 4), P("x", "y")), ((0,), P()), ((0, 3), P(None, "y"))):
        x = gs.device_put(np.zeros(shape, np.float32), gs.NamedSharding(mesh, spec))
        for call in (of, gs.jit(of)):
            total, (carries, parts) = call(x)
            assert (total.item(), carries.shape, parts.shape) == (1, (0,), shape)
            assert (carries.dtype, parts.dtype) == (total.dtype, np.float32)
    made = gs.vmap(of, in_axes=1)(gnp.zeros((0, 5, 2)))
    assert [x.shape for x in gs.tree.leaves(made)] == [(5,), (5, 0), (5, 0, 2)]
    keys = gs.random.split(gs.random.key(0), 3)[:0]
    assert lax.map(lambda key: key, keys).dtype == keys.dtype


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "shape of a carry": (lambda x: lax.fori_loop(0, 2, lambda i, c: c.sum(), x), "float64"),
    "type of a carry": (lambda x: lax.scan(lambda c, a: (c + 0.5, a), gnp.int32(1), x), "int32"),
    "float that becomes an integer": (lambda x: lax.fori_loop(0, 3, lambda i, c: i, 0.5), "int64"),
    "types that go from value to value": (
        lambda x: lax.fori_loop(0, 2, lambda i, c: (x[0].astype("f"), *c[:-1]), (0,) * 8),
        "float32",
    ),
    "tree of a carry": (lambda x: lax.while_loop(lambda c: True, lambda c: (c, c), x), "structure"),
    "shape of a carry, where elements stop": (
        lambda x: gs.vmap(lambda y: lax.while_loop(lambda c: c.sum() < y, lambda c: c[0] + 1, x))(
            x
        ),
        "float64",
    ),
    "type of a carry, where elements stop": (
        lambda x: gs.vmap(lambda n: lax.fori_loop(0, n, lambda i, c: c.astype("f"), x))(
            gnp.arange(3)
        ),
        "float32",
    ),
    "branches": (lambda x: lax.cond(True, lambda x: x, lambda x: x.sum(), x), "structure"),
    "no condition": (lambda x: lax.while_loop(lambda c: c, lambda c: c, x), "boolean"),
    "no pair": (lambda x: lax.scan(lambda c, a: c, 0.0, x), "pair"),
    "no length": (lambda x: lax.scan(lambda c, a: (c, a), 0.0), "xs is empty, and length=None"),
    "lengths": (lambda x: lax.scan(lambda c, a: (c, c), 0.0, (x, x[1:])), "length"),
    "pred with dims": (lambda x: lax.cond(x > 0, lambda: 1, lambda: 2), "scalar"),
    "index that is a float": (lambda x: lax.switch(x[0], [lambda: 1]), "integer"),
    "no branches": (lambda x: lax.switch(0, []), "branches"),
    "axis": (lambda x: lax.associative_scan(gnp.add, x, axis=3), "axis"),
    "no function": (lambda x: lax.map(3, x), "function"),
    "bound that is a float": (
        lambda x: lax.fori_loop(0, 3.5, lambda i, c: c, x),
        "fori_loop: upper",
    ),
    "bound with dims": (lambda x: lax.fori_loop(x, 3, lambda i, c: c, x), "fori_loop: lower"),
    "a name of its own": (lambda x: lax.fori_loop(0, 2, lambda i, c: c[0], x), "^fori_loop of"),
    "a name of map": (lambda x: lax.map(lambda a: a, x[0]), "^map of"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("traced", [False, True])
def test_what_cannot_be_is_refused(name: str, traced: bool) -> None:
    function, said = REFUSED[name]
    x = gnp.arange(4.0)
    with pytest.raises(errors.GpushardError, match=said):
        (gs.jit(function) if traced else function)(x)
    assert x.tolist() == [0, 1, 2, 3]


def _of_a_tree(carry: Any, x: Any) -> Any:
    return carry + x["a"], x["b"]


@pytest.mark.parametrize("times", [0, 2])
def test_what_comes_back_is_as_weak_as_what_was_given(times: int) -> None:
    weak, strong = gs.device_put(1.5), gnp.zeros(())
    for call in (lax.fori_loop, gs.jit(lax.fori_loop, static_argnums=(1, 2))):
        made = call(0, times, lambda i, value: weak, strong)
        assert not made.weak_type and made == (1.5 if times else 0)


def test_what_branches_give_is_committed_if_one_of_them_is() -> None:
    for x in (gs.device_put(np.ones(3), gs.devices()[0]), gnp.ones(3)):
        for branches in ((lambda x: x.sum(), lambda x: 1.5), (lambda x: 1.5, lambda x: x.sum())):
            for call in (lax.cond, gs.jit(lax.cond, static_argnums=(1, 2))):
                made = call(True, *branches, x)
                assert made.committed == x.committed and not made.weak_type


def test_what_loops_carry_lies_where_something_is_committed() -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((4,), ("x",))
        rows, whole = gs.NamedSharding(mesh, P("x")), gs.NamedSharding(mesh, P())
        placed, free = gs.device_put(np.ones(8), rows), gnp.ones(8)
        for call in (lax.fori_loop, gs.jit(lax.fori_loop, static_argnums=(0, 1, 2))):
            given = call(0, 2, lambda i, c: gnp.ones(8) * 2, placed)
            taken = call(0, 2, lambda i, c: c + placed, free)
            for made, value in ((given, 2), (taken, 3)):
                assert made.sharding == rows and made.committed and made.tolist() == [value] * 8
            assert not call(0, 2, lambda i, c: c * 2, free).committed
            moved = call(0, 2, lambda i, c: gs.reshard(c * 2, whole), placed)
            assert moved.sharding == whole and moved.tolist() == [4] * 8


def test_late_devices() -> None:
    """What is replayed waits for what it reads, whenever devices do their work."""

    def step(carry: Any, x: Any) -> Any:
        new = carry * 2 - x
        return new, (new + x) * carry

    value = np.arange(48.0).reshape(8, 6) % 5
    carry, want = np.ones(6), []
    for row in value:
        carry, made = step(carry, row)
        want.append(made)
    for seed in range(some(6, 40)):
        with late_devices(seed, host_devices=8, host_domains=(1, 4)[seed % 2]):
            mesh = gs.make_mesh((4, 2), ("x", "y"))
            x = gs.device_put(value, gs.NamedSharding(mesh, P(("x", None)[seed % 3 == 0], "y")))
            for call in (lax.scan, lax.scan, gs.jit(lax.scan, static_argnums=0)):
                last, rows = call(step, gnp.ones(6), x)
                np.testing.assert_array_equal(np.asarray(last), carry)
                np.testing.assert_array_equal(np.asarray(rows), want)
            total = lax.fori_loop(0, 4, lambda i, c: (c + i) * 2 - c, x)
            np.testing.assert_array_equal(np.asarray(total), value + 12)


@pytest.mark.oracle
def test_against_jax(jax: Any) -> None:
    jnp, jl = jax.numpy, jax.lax
    cases = [
        (lambda m, own: own.scan(lambda c, x: (c * x, c - x), 2.0, m.arange(1.0, 5.0))),
        (lambda m, own: own.scan(_of_a_tree, 0, {"a": m.arange(3), "b": m.ones((3, 2))})),
        (lambda m, own: own.fori_loop(2, 7, lambda i, c: c * i, 1)),
        (lambda m, own: own.while_loop(lambda c: c < 1000, lambda c: c * 3, 7)),
        (lambda m, own: own.cond(False, lambda a, b: a, lambda a, b: b, 1.5, 2.5)),
        (lambda m, own: own.switch(-3, [lambda: 4, lambda: 5])),
        (lambda m, own: own.map(lambda x: (x, x * 2), m.arange(4))),
        (lambda m, own: own.associative_scan(m.multiply, m.arange(1, 8))),
        (lambda m, own: own.associative_scan(m.minimum, m.eye(5), reverse=True, axis=1)),
        (lambda m, own: own.scan(lambda c, x: (c - x, c), 9, m.arange(4), reverse=True, unroll=2)),
        (lambda m, own: own.scan(lambda c, x: (c * 2, (c, x)), 1, None, length=4)),
        (lambda m, own: own.scan(lambda c, x: (c + x, {"a": c}), 1, m.arange(3), length=3)),
        (lambda m, own: own.scan(lambda c, x: (c + x, (c, x[None])), 1.0, m.zeros((0,)))),
        (lambda m, own: own.scan(lambda c, x: (c, c + 1), m.ones((2, 3)), None, length=0)),
        (lambda m, own: own.map(lambda x: x.sum(), m.ones((0, 3)))),
        (lambda m, own: own.scan(
            lambda c, x: own.scan(lambda d, y: (d + y, d), c, x), 0, m.arange(6).reshape(2, 3)
        )),
        (lambda m, own: own.cond(3, lambda a: a + 1, lambda a: a - 1, operand=4)),
        (lambda m, own: own.cond(True, lambda a: 1, lambda a: 2, operand=None)),
        (lambda m, own: own.cond(0.5 > 1, lambda a, b: a, lambda a, b: b["x"], 1, {"x": 5})),
        (lambda m, own: own.switch(9, [lambda a: a, lambda a: -a], operand=3)),
        (lambda m, own: own.map(lambda x: x * x, m.arange(7), batch_size=3)),
        (lambda m, own: own.map(lambda x: (x["a"] @ x["a"], x["b"]), {
            "a": m.arange(12.0).reshape(4, 3), "b": m.arange(4)}, batch_size=2)),
        (lambda m, own: own.map(lambda x: -x, m.arange(3), batch_size=10)),
        (lambda m, own: own.map(lambda x: -x, m.zeros((0, 2)), batch_size=2)),
        (lambda m, own: own.scan(lambda c, x: (c + x, c), 0, m.ones(3, "float32"))),
        (lambda m, own: own.scan(lambda c, x: (c + 1j * x, c), 0.5, m.ones(3, "float32"))),
        (lambda m, own: own.while_loop(
            lambda c: c[1] < 3, lambda c: (c[1] * m.float32(2), c[1] + 1), (1, 0)
        )),
        (lambda m, own: own.fori_loop(0, 3, lambda i, c: c + m.uint8(1), 4)),
        (lambda m, own: own.fori_loop(0, 3, lambda i, c: (c[1], c[0] + 1), (0, m.int32(3)))),
        (lambda m, own: own.fori_loop(5, 2, lambda i, c: c + 1, 7, unroll=True)),
    ]  # fmt: skip
    for case in cases:
        want = jax.tree.leaves(case(jnp, jl))
        for call in (case, gs.jit(case, static_argnums=(0, 1))):
            for one, other in zip(gs.tree.leaves(call(gnp, lax)), want, strict=True):
                assert one.dtype.kind == other.dtype.kind
                np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-6)


@pytest.mark.parametrize("swapped", [False, True])
def test_branches_may_vary_over_different_maps(swapped: bool) -> None:
    a, b = np.arange(3.0), np.arange(10.0, 12)

    def inner(p: Any, a: Any, b: Any) -> Any:
        ways = (lambda: (1, 2.5, a), lambda: (1, 2.5, b))
        return lax.cond(p, *(ways[::-1] if swapped else ways))[2]

    each = gs.jit(lambda p: gs.vmap(lambda a: gs.vmap(lambda b: inner(p, a, b))(b))(a))
    for p in (True, False):
        grid = np.broadcast_arrays(a[:, None], b)
        np.testing.assert_array_equal(np.asarray(each(p)), grid[int(p == swapped)])
