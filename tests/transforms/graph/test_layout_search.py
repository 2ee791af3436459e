"""Values of traced functions lie where fewest bytes move, and results where they are to lie."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import lax, nn, testing
from gpushard._geometry import sharding
from gpushard._ops.aval import Aval
from gpushard._ops.operand import Sharded
from gpushard._transforms.graph import layout_search
from gpushard._transforms.graph.continued import continued
from gpushard._transforms.graph.costs import costs
from gpushard._transforms.graph.graph import Graph
from gpushard._transforms.graph.layout_search import optimized
from gpushard._transforms.graph.priced import _has_a_say
from tests.share import examples, some
from tests.traffic import received
from tests.transforms.graph import least_bytes

P = gs.P
U = P.UNCONSTRAINED
SPECS = [P(), P("x"), P(None, "x"), P("x", "y"), P("y", "x"), P(("x", "y")), P(None, ("y", "x"))]
MESHES = [(2, 2), (2, 2), (4, 1), (1, 4)]
OPEN = [P(U), P(U, "x"), P("y", U)]

ROWS = np.array([5, 0, 7, 7, 2, 3, 6, 1])
"""Positions that are chosen and assigned to, some of them twice."""


def _positions(x: Any, m: Any) -> Any:
    """Return positions that depend on a value."""
    return m.clip(m.rint(m.abs(m.where(x[:, 0] == x[:, 0], x[:, 0], 0)) * 3), 0, 7).astype("int64")


def _updated(x: Any, m: Any, at: Any, values: Any, how: str) -> Any:
    """Return a value some elements of which are others."""
    if m is not np:
        return getattr(x.at[at], how)(values)
    made = x.copy()
    if how == "add":
        np.add.at(made, at, values)
    else:
        made[at] = values
    return made


UNARY: dict[str, Callable[[Any, Any], Any]] = {
    "tanh": lambda x, m: m.tanh(x),
    "turned": lambda x, m: x.T,
    "rolled": lambda x, m: m.roll(x, 1, 0),
    "flipped": lambda x, m: m.flip(x, 1),
    "sorted": lambda x, m: m.sort(x, axis=0),
    "summed": lambda x, m: m.tanh(x.sum(0)) + x,
    "shares": lambda x, m: x / (1 + m.abs(x).sum(axis=1, keepdims=True)),
    "product": lambda x, m: m.tanh(x @ x / 8),
    "moments": lambda x, m: x - x.mean(axis=0, keepdims=True),
    "running": lambda x, m: m.cumsum(x, axis=1) / 8,
    "chosen": lambda x, m: m.where(x > 0, x, x / 2),
    "rows": lambda x, m: x[ROWS],
    "columns": lambda x, m: x[:, ROWS],
    "pairs": lambda x, m: x[ROWS[:, None], ROWS[::-1]],
    "taken": lambda x, m: m.take(x, ROWS, axis=1),
    "taken along": lambda x, m: m.take_along_axis(x, ROWS[:, None] * (ROWS < 9), axis=1),
    "rows at": lambda x, m: x[_positions(x, m)],
    "row assigned": lambda x, m: _updated(x, m, 3, 0.5, "set"),
    "part assigned": lambda x, m: _updated(x, m, (slice(1, 5), slice(2, None)), 0.5, "set"),
    "rows added": lambda x, m: _updated(x, m, ROWS, x / 2, "add"),
}
BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda x, y, m: x + y,
    "product": lambda x, y, m: m.tanh(x @ y / 8),
    "beside": lambda x, y, m: m.concatenate([x, y])[::2],
    "outer": lambda x, y, m: x * y.sum(0) / 8,
    "rows at": lambda x, y, m: x[_positions(y, m)],
    "rows assigned": lambda x, y, m: _updated(x, m, ROWS[[0, 1, 2, 4]], y[:4], "set"),
    "columns assigned": lambda x, y, m: _updated(x, m, (slice(None), [1, 6]), y[:, :2], "set"),
    "part assigned": lambda x, y, m: _updated(x, m, slice(2, 6), y[:4], "set"),
    "rows added": lambda x, y, m: _updated(x, m, ROWS, y / 2, "add"),
    "rows added at": lambda x, y, m: _updated(x, m, _positions(y, m), y / 2, "add"),
}


@st.composite
def programs(draw: Any) -> list[tuple[str, int, int]]:
    """Draw a program: functions, or specs of constraints, and the values that they take."""
    found: list[Any] = []
    for n in range(draw(st.integers(1, 10))):
        names = [*UNARY, *(f"{name} of two" for name in BINARY), "constraint"]
        at = st.integers(0, n + 1)
        name = draw(st.sampled_from(names))
        of = draw(st.sampled_from([*SPECS, *OPEN])) if name == "constraint" else draw(at)
        found.append((name, draw(at), of))
    return found


def interpreted(program: Any, x: Any, y: Any, m: Any, mesh: Any = None) -> tuple[Any, ...]:
    """Return some of the values of a program."""
    values = [x, y]
    for name, a, b in program:
        if name == "constraint":
            sharding = None if mesh is None else gs.NamedSharding(mesh, b)
            held = values[a]
            values.append(held if mesh is None else lax.with_sharding_constraint(held, sharding))
        elif name.endswith(" of two"):
            values.append(BINARY[name.removesuffix(" of two")](values[a], values[b], m))
        else:
            values.append(UNARY[name](values[a], m))
    return values[-1], values[len(values) // 2] * 2, values[-1].sum()


@examples(360)
@given(
    programs(), st.sampled_from(SPECS), st.sampled_from(SPECS), st.sampled_from([None, *SPECS]),
    st.sampled_from(MESHES),
)  # fmt: skip
@example([("rows assigned of two", 0, 0)], P("x"), P(), None, (2, 2))
@example([("rows assigned of two", 0, 1), ("tanh", 2, 0)], P(), P("x"), None, (2, 2))
@example([("rolled", 0, 0)], P("x"), P(), None, (2, 2))
def test_random_programs_move_no_more_and_give_the_same(
    program: Any, first: gs.P, second: gs.P, out: gs.P | None, sizes: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-2, 2, (2, 8, 8))
    with testing.runtime(host_devices=4, host_domains=4) as own:
        mesh = gs.make_mesh(sizes, ("x", "y"))
        x, y = (
            gs.device_put(value, gs.NamedSharding(mesh, spec))
            for value, spec in ((a, first), (b, second))
        )
        last = None if out is None else gs.NamedSharding(mesh, out)
        f = gs.jit(
            lambda x, y: interpreted(program, x, y, gnp, mesh), out_shardings=(last, None, None)
        )
        before = dict(own.backend.traffic)
        eager = list(interpreted(program, x, y, gnp, mesh))
        if last is not None:
            eager[0] = gs.reshard(eager[0], last)
        plain = received(own, before)
        before = dict(own.backend.traffic)
        traced = f(x, y)
        assert received(own, before) <= plain
        for got, one, want in zip(traced, eager, interpreted(program, a, b, np), strict=True):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-9, atol=1e-9)
            assert got.sharding in (one.sharding, x.sharding, y.sharding)
            assert got.committed == one.committed
        assert last is None or traced[0].sharding == last


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", least_bytes.PROGRAMS)
def test_as_few_bytes_as_any_layout_moves(name: str) -> None:
    one_by_one, traced, said, least = least_bytes.measured(least_bytes.PROGRAMS[name], (2,))
    assert traced == said == least <= one_by_one


@pytest.mark.parametrize("name", some(["matrix product, then reduce-scatter"], least_bytes.TWO))
def test_as_few_bytes_on_two_axes(name: str) -> None:
    one_by_one, traced, said, least = least_bytes.measured(least_bytes.TWO[name], (2, 2))
    assert traced == said == least <= one_by_one


@pytest.mark.parametrize("sizes", some([(4, 1)], [(2, 1), (1, 2), (4, 1), (2, 2)]))
@pytest.mark.parametrize("name", least_bytes.CHOSEN)
def test_as_few_bytes_where_positions_choose(name: str, sizes: tuple[int, int]) -> None:
    one_by_one, traced, said, least = least_bytes.measured(least_bytes.CHOSEN[name], sizes)
    assert traced == said == least <= one_by_one


@pytest.mark.one_of(3)
@pytest.mark.parametrize("last", ["tanh", "turned", "product", "shares", "summed"])
@pytest.mark.parametrize("first", ["tanh of two", "turned of two", "product of one"])
def test_small_programs_move_as_few_bytes_as_any_layout(first: str, last: str) -> None:
    """All ways to lay out each program are tried, and results that follow move no more."""
    name, _, count = first.partition(" of ")
    with testing.runtime(host_devices=2, host_domains=2):
        mesh = gs.make_mesh((2,), "x")
        places = [gs.NamedSharding(mesh, spec) for spec in (P(), P("x"), P(None, "x"))]
        seconds = ["sum", "product"] if count == "one" else ["sum", "product", "outer"]
        for second, *given in itertools.product(seconds, places, places):
            program = [(name, 0, 0), (f"{second} of two", 2, 1), (last, 3, 0)]
            x, y = (gs.device_put(np.ones((8, 8)), place) for place in given)
            traced = gs.jit(lambda x, y, p=program: interpreted(p, x, y, gnp)[0]).trace(x, y)
            graph = traced._signature.graph
            moved = int(costs(optimized(graph))["bytes moved"])
            assert moved == least_bytes.least(graph, moved)
            follows = optimized(graph, results_follow=True)
            assert int(costs(follows)["bytes moved"]) <= moved
            assert follows.results[0].sharding in (graph.results[0].sharding, *given)


@pytest.mark.parametrize(
    ("function", "continues"),
    [
        (lambda x, y: x + y, True),
        (lambda x, y: gnp.tanh(y.sum()) + (x - x.mean(0)) * y, True),
        (lambda x, y: x.at[2].set(0.0) * y, True),
        (lambda x, y: y + x, False),  # continues y, and lies as it does
        (lambda x, y: x.sum(0) * 2 + y, False),  # so does this
        (lambda x, y: gnp.roll(x, 1, 0) * y, True),
        (lambda x, y: (x + y).astype("float32"), False),
        (lambda x, y: x.T * (y > 0), False),
    ],
)
def test_operations_that_keep_axes_shape_and_type_continue_an_argument(
    function: Any, continues: bool, mesh: Any
) -> None:
    x, y = _on(mesh), _on(mesh, "x")
    graph = gs.jit(function).trace(x, y)._signature.graph
    (result,) = graph.results
    assert result.sharding == y.sharding
    assert continued(graph, graph.needed()) == ({result: graph.inputs[0]} if continues else {})
    assert gs.jit(function)(x, y).sharding == y.sharding  # bytes would move to x's


def test_a_constraint_ends_what_continues_an_argument(mesh: Any) -> None:
    x, to = _on(mesh), _on(mesh, "x").sharding
    graph = gs.jit(lambda x: lax.with_sharding_constraint(x * 2, to)).trace(x)._signature.graph
    assert not continued(graph, graph.needed())


def a_block(x: Any, p: Any) -> Any:
    """A transformer block with its heads and hidden units split, as Megatron splits them."""

    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    q, k, v = (gnp.einsum("btd,dhk->bhtk", norm(x), p[name]) for name in "qkv")
    shares = nn.softmax(gnp.einsum("bhtk,bhsk->bhts", q, k) / 4, axis=-1)
    x = x + gnp.einsum("bthk,hkd->btd", gnp.einsum("bhts,bhsk->bthk", shares, v), p["o"])
    return x + nn.gelu(norm(x) @ p["u"]) @ p["w"]


@pytest.mark.parametrize("layers", [1, 3])
def test_transformer_blocks_merge_twice_and_give_what_lies_as_their_argument(layers: int) -> None:
    """Two sums over the devices of all heads are all that must move in a block."""
    b, t, d, h = 4, 64, 128, 8
    with testing.runtime(host_devices=8, host_domains=8) as own:
        mesh = gs.make_mesh((2, 4), ("data", "heads"))
        rng = np.random.default_rng(0)

        def placed(shape: tuple[int, ...], *spec: Any) -> Any:
            value = rng.standard_normal(shape).astype("f4") / np.float32(np.sqrt(d))
            return gs.device_put(value, gs.NamedSharding(mesh, P(*spec)))

        parameters = [
            {name: placed((d, h, d // h), None, "heads") for name in "qkv"}
            | {"o": placed((h, d // h, d), "heads"), "u": placed((d, 4 * d), None, "heads")}
            | {"w": placed((4 * d, d), "heads")}
            for _ in range(layers)
        ]
        x = placed((b, t, d), "data")

        def function(x: Any) -> Any:
            for each in parameters:
                x = a_block(x, each)
            return x

        blocks = gs.jit(function)
        y = blocks(x)
        before = dict(own.backend.traffic)
        assert blocks(x).sharding == y.sharding == x.sharding
        merged = 2 * (4 - 1) * x.nbytes  # an all-reduce among 4 devices
        assert received(own, before) <= 2 * merged * layers
        np.testing.assert_allclose(np.asarray(y), np.asarray(function(x)), rtol=1e-4, atol=1e-4)


def by_hand(mesh: Any, axis: str) -> Any:
    """Return one step of training a network of two layers, each device having some hidden units."""

    def step(x: Any, y: Any, w1: Any, w2: Any) -> Any:
        hidden = gnp.tanh(x @ w1)
        error = lax.psum(hidden @ w2, axis) - y
        back = (error @ w2.T) * (1 - hidden * hidden)
        return w1 - 0.1 * (x.T @ back), w2 - 0.1 * (hidden.T @ error), (error * error).sum()

    split = P(None, axis), P(axis)
    return gs.jit(
        gs.shard_map(step, mesh=mesh, in_specs=(P(), P(), *split), out_specs=(*split, P()))
    )


def test_a_network_split_by_its_arguments_moves_no_more_than_one_by_hand() -> None:
    rng = np.random.default_rng(0)
    shapes = [(8, 16), (8, 16), (16, 32), (32, 16)]
    values = [rng.standard_normal(shape) for shape in shapes]
    with testing.runtime(host_devices=4, host_domains=4) as own:
        mesh = gs.make_mesh((4,), "m")
        places = [gs.NamedSharding(mesh, s) for s in (P(), P(), P(None, "m"), P("m"))]
        arrays = [gs.device_put(value, at) for value, at in zip(values, places, strict=True)]

        def step(x: Any, y: Any, w1: Any, w2: Any) -> Any:
            hidden = gnp.tanh(x @ w1)
            error = hidden @ w2 - y
            back = (error @ w2.T) * (1 - hidden * hidden)
            return w1 - 0.1 * (x.T @ back), w2 - 0.1 * (hidden.T @ error), (error * error).sum()

        moved, results = [], []
        for way in (gs.jit(step, in_shardings=tuple(places)), by_hand(mesh, "m")):
            way(*arrays)
            before = dict(own.backend.traffic)
            results.append(way(*arrays))
            moved.append(received(own, before))
        assert 0 < moved[0] <= moved[1]
        for one, other, place in zip(*results, (places[2], places[3], None), strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-9, atol=1e-12)
            assert place is None or one.sharding == place


def compiled(f: Callable[..., Any], *arrays: Any) -> Graph:
    """Return the operations of a function after all passes."""
    return gs.jit(f).lower(*arrays).compiler_ir()


@pytest.fixture
def mesh() -> Any:
    with testing.runtime(host_devices=4):
        yield gs.make_mesh((2, 2), ("x", "y"))


def _on(mesh: Any, *entries: Any) -> Any:
    return gs.device_put(np.arange(64.0).reshape(8, 8), gs.NamedSharding(mesh, P(*entries)))


def _names(graph: Graph) -> list[str]:
    return [step.name for step in graph.needed()]


def test_a_sum_of_which_each_needs_a_part_is_scattered(mesh: Any) -> None:
    x, y = _on(mesh, None, "x"), _on(mesh, "x")
    graph = compiled(lambda x, y: gnp.tanh(x @ x.T) + y, x, y)
    plain = gs.jit(lambda x, y: gnp.tanh(x @ x.T) + y).trace(x, y)._signature.graph
    assert sum(step.moved for step in graph.needed()) * 2 <= sum(s.moved for s in plain.needed())
    assert graph.needed()[0].results[0].sharding.spec.axes(0) == ("x",)
    assert _names(graph) == ["matmul", "tanh", "reshard", "add"]


def test_reshards_are_merged_cancelled_and_shortened(mesh: Any) -> None:
    x, columns = _on(mesh, "x"), gs.NamedSharding(mesh, P(None, "x"))
    rows = x.sharding
    constrain = lax.with_sharding_constraint
    back = compiled(lambda x: constrain(constrain(x, columns), rows) + 1, x)
    assert sum(step.moved for step in back.needed()) == 0
    twice = compiled(lambda x: (constrain(x, columns) + 1, constrain(x, columns) * 2), x)
    assert _names(twice).count("reshard") == 1
    through = gs.NamedSharding(mesh, P("y"))
    straight = compiled(lambda x: constrain(constrain(x, through), columns), x)
    assert _names(straight).count("reshard") == 1
    other = _on(mesh, None, "x")
    taken = compiled(lambda x, y, z: (x * 2 @ y, x * 2 + y, x * 2 - y), x, other, other)
    assert sum(step.moved > 0 for step in taken.needed()) <= 2


def test_what_a_constraint_says_is_kept_where_less_would_move_without(mesh: Any) -> None:
    split = gs.NamedSharding(mesh, P("y", U))
    for x in (_on(mesh, "x"), _on(mesh, None, "x")):
        graph = compiled(lambda x: lax.with_sharding_constraint(x, split) + x, x)
        constrained = graph.needed()[0].results[0]
        assert constrained.sharding.spec.axes(0) == ("y",)


def test_what_lies_in_memory_of_the_host_stays_there(mesh: Any) -> None:
    x = _on(mesh, "x")
    host = x.sharding.with_memory_kind("pinned_host")

    def f(x: Any) -> Any:
        return gs.reshard(gs.reshard(x + 1, host), device) * 2

    device = x.sharding
    graph = compiled(f, x)
    assert [s.results[0].sharding.memory_kind for s in graph.needed()].count("pinned_host") == 1
    np.testing.assert_array_equal(gs.jit(f)(x), (np.asarray(x) + 1) * 2)


def test_equal_operations_are_done_once_and_effects_each_time(mesh: Any) -> None:
    x = _on(mesh, "x")
    seen: list[float] = []

    def f(x: Any, key: Any) -> Any:
        gs.debug.callback(lambda v: seen.append(float(v)), x.sum())
        gs.debug.callback(lambda v: seen.append(float(v)), x.sum())
        first, second = gs.random.normal(key, (8, 8)), gs.random.normal(key, (8, 8))
        return gnp.exp(x) + 0.0, gnp.exp(x) + -0.0, first - second, gnp.exp(x) + 1

    a, b, c, _ = gs.jit(f)(x, gs.random.key(0))
    gs.effects_barrier()
    assert len(seen) == 2 and not np.asarray(c).any()
    graph = compiled(f, x, gs.random.key(0))
    assert _names(graph).count("exp") == 1 and _names(graph).count("add") == 3
    a[0] = 7.0  # results that are one value are arrays of their own
    assert b[0, 0] == 1.0


def test_small_data_of_the_host_is_compared_and_large_is_not(mesh: Any) -> None:
    for n, adds in ((128, 1), (129, 2)):  # 1,024 bytes, and 8 more
        x = gs.numpy.ones(n)
        graph = compiled(lambda x, n=n: (x + np.arange(n), x + np.arange(n), x * 2), x)
        assert _names(graph).count("add") == adds
        other = compiled(lambda x, n=n: (x + np.arange(n), x + np.arange(1, n + 1)), x)
        assert _names(other).count("add") == 2


def test_values_that_are_given_up_and_constants_stay_right(mesh: Any) -> None:
    x, own = _on(mesh, "x"), _on(mesh, None, "x")
    f = gs.jit(lambda x: (x + own, (x + own).T, x), donate_argnums=0)
    value = np.asarray(x) + np.asarray(own)
    first, second, third = f(x)
    np.testing.assert_array_equal(first, value)
    np.testing.assert_array_equal(second, value.T)
    np.testing.assert_array_equal(third, value - np.asarray(own))


def test_what_is_made_of_constants_is_made_once(mesh: Any) -> None:
    own = gs.device_put(np.arange(8.0), gs.NamedSharding(mesh, P("x")))

    def f(x: Any) -> Any:
        noise = gs.random.normal(gs.random.key(3), (8,))
        return x * gnp.exp(gnp.arange(8) / 8) + noise, own + 1, gnp.zeros(3)

    x = _on(mesh, "x")
    graph = compiled(f, x)
    assert sorted(_names(graph)) == ["add", "full", "multiply"]
    for way in (gs.jit(f), gs.jit(f).lower(x).compile()):
        for _ in range(2):
            for got, want in zip(way(x), f(x), strict=True):
                np.testing.assert_allclose(np.asarray(got), np.asarray(want))
                assert got.sharding == want.sharding and got.committed == want.committed
                got[0] = 9.0  # an array of its own
    np.testing.assert_array_equal(np.asarray(own), np.arange(8.0))
    for n, rest in ((2048, []), (2049, ["arange"])):  # up to 16 KiB
        numbers = compiled(lambda x, n=n: x + gnp.arange(float(n)), gnp.zeros(n))
        assert sorted(_names(numbers)) == ["add", *rest]


def test_a_guard_sees_what_moves(mesh: Any) -> None:
    x = _on(mesh, "x")
    f = gs.jit(lambda x: gnp.linalg.det(x) + gnp.linalg.det(x.T))
    with gs.gather_guard("disallow"), pytest.raises(gs.errors.TransferGuardError, match="det"):
        f(x)


def test_a_thousand_rows_price_few(mesh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    real = layout_search.priced

    def counted(case: Any) -> Any:
        nonlocal count
        count += 1
        return real(case)

    monkeypatch.setattr(layout_search, "priced", counted)
    x, y = _on(mesh, "x"), _on(mesh, "x", "y")

    def still(x: Any) -> Any:
        for _ in range(500):
            x = gnp.sin(x) * 2
        return x

    def moving(x: Any) -> Any:
        for _ in range(250):
            x = gnp.sin(x + x.T) * x.sum(0)
        return x

    compiled(still, x)
    assert count == 0
    compiled(moving, y)
    assert count <= 200 + 50


def test_tilings_that_were_forgotten_meanwhile() -> None:
    """What is kept of a mapped function refers to tilings that others no longer get."""
    mesh = gs.make_mesh((8,), "x")
    f = gs.shard_map(lambda b: lax.psum(b, "x"), mesh, P("x"), P())
    value = np.arange(8.0)
    f(value)
    sharding._tilings.clear()
    assert gs.jit(f)(value).tolist() == [28]
    assert gs.jit(lambda v: f(v * 2) + 1)(gs.device_put(value)).tolist() == [57]


def test_values_stay_on_the_devices_that_users_chose(mesh: Any) -> None:
    """What comes of arrays on other devices, which follow, is no place for what is committed."""
    x = gs.device_put(np.arange(48.0).reshape(8, 6), gs.NamedSharding(mesh, P("x", "y")))
    counts = gs.jit(lambda x: gnp.histogram(x, bins=4)[0])(x)
    assert counts.tolist() == [12, 12, 12, 12]
    edges = gs.jit(lambda x: gnp.arange(5) * (x.max() - x.min()) + x.min())(x)
    np.testing.assert_array_equal(np.asarray(edges), np.arange(5) * 47.0)


def test_what_moves_counts_for_dispatch_if_users_placed_it_or_it_is_there(mesh: Any) -> None:
    whole, one = gs.NamedSharding(mesh, P()), gs.SingleDeviceSharding(gs.devices()[0])
    for lies, committed, counts in (
        (whole, True, True), (whole, False, True), (one, True, True), (one, False, False),
    ):  # fmt: skip
        x = Sharded(Aval((8,), np.dtype(float)), lies.tiling((8,)), lies, committed)
        assert _has_a_say(x, mesh.assignment) == counts


def test_numbers_of_python_and_numpy_are_told_apart_where_values_are_laid_out_anew() -> None:
    with testing.runtime(host_devices=4):
        sharding = gs.NamedSharding(gs.make_mesh((4,), ("x",)), P("x"))
        x, y = (gs.device_put(np.ones(shape, "f"), sharding) for shape in ((8, 8), (8,)))
        f = gs.jit(lambda x, y: x.sum(0) * 2.0 + y)
        multiplied = f.lower(x, y).compiler_ir().needed()[1]
        assert multiplied.name == "multiply" and multiplied.operands[0].sharding == sharding
        assert f(x, y).dtype == np.float32
        for number in (np.float64(2), 2.0, np.float32(2)):
            made = gs.jit(lambda y, number=number: y * number)(y)
            assert made.dtype == np.multiply(np.ones(8, "f"), number).dtype
