"""What operations move, against the least over all assignments of mesh axes, counted by element."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops import choose_split
from gpushard._ops.aval import Aval
from gpushard._ops.bind import bind
from gpushard._ops.derived import derived
from gpushard._ops.rule import elementwise, parse
from gpushard._ops.table import reductions
from gpushard._ops.table.contractions import DOT
from gpushard._ops.table.elementwise import ufunc_row
from tests.ops.test_bind import Counted
from tests.traffic import received

AXES = ("p", "q", "r")
SIZES = (2, 2, 2)
COORDINATES = list(itertools.product(*map(range, SIZES)))

Shape = tuple[int, ...]
Spec = tuple[tuple[str, ...], ...]


def block(n: int, axes: tuple[str, ...], at: tuple[int, ...]) -> range:
    """The elements of a dim that the device at some coordinates has."""
    number = 0
    count = math.prod(SIZES[AXES.index(axis)] for axis in axes)
    for axis in axes:
        number = number * SIZES[AXES.index(axis)] + at[AXES.index(axis)]
    length = -(-n // count)
    return range(min(number * length, n), min((number + 1) * length, n))


def held(shape: Shape, spec: Spec, at: tuple[int, ...]) -> set[tuple[int, ...]]:
    return set(itertools.product(*(block(n, a, at) for n, a in zip(shape, spec, strict=True))))


def every_assignment(factors: int) -> Iterator[tuple[tuple[str, ...], ...]]:
    """All ways to give axes, in order, to factors or to none."""
    for where in itertools.product(range(factors + 1), repeat=len(AXES)):
        groups = [[a for a, f in zip(AXES, where, strict=True) if f == n] for n in range(factors)]
        yield from itertools.product(*(tuple(itertools.permutations(g)) for g in groups))


def least(rule: Any, shapes: list[Shape], specs: list[Spec], itemsize: int) -> int:
    """The fewest bytes that all devices receive together."""
    best = None
    usable = [f for f, n in enumerate(rule.sizes) if n > 1]
    for chosen in every_assignment(len(usable)):
        splits = {f: axes for f, axes in zip(usable, chosen, strict=True)}
        if any(splits[f] != axes for f, axes in rule.pinned):
            continue
        total = 0
        for dims, shape, spec in zip(rule.operands, shapes, specs, strict=True):
            wanted = tuple(splits.get(f, ()) if f is not None else () for f in dims)
            for at in COORDINATES:
                total += len(held(shape, wanted, at) - held(shape, spec, at))
        kept = [f for f in rule.results[0] if f is not None]
        parts = math.prod(2 for f in rule.reduced for _ in splits.get(f, ()))
        if parts > 1:
            blocks = math.prod(2 for f in kept for _ in splits.get(f, ()))
            elements = math.prod(rule.sizes[f] for f in kept)
            total += (parts - 1 + len(COORDINATES) // blocks - 1) * elements
        best = total if best is None else min(best, total)
    assert best is not None
    return best * itemsize


def spec_of(rng: random.Random, ndim: int) -> Spec:
    """A random spec."""
    dims: list[list[str]] = [[] for _ in range(ndim)]
    for axis in rng.sample(AXES, 3):
        at = rng.randrange(ndim + 1)
        if at < ndim:
            dims[at].append(axis)
    return tuple(map(tuple, dims))


OPERATIONS: dict[str, tuple[Any, list[Shape], Any]] = {
    "matmul": (lambda x, y: x @ y, [(8, 4), (4, 16)], lambda s: parse("ij,jk->ik", s)),
    "tall matmul": (lambda x, y: x @ y, [(4, 32), (32, 4)], lambda s: parse("ij,jk->ik", s)),
    "add": (lambda x, y: x + y, [(8, 8), (8, 8)], lambda s: elementwise(s, (8, 8))),
    "broadcast": (lambda x, y: x + y, [(4, 8), (8,)], lambda s: elementwise(s, (4, 8))),
    "outer add": (lambda x, y: x + y, [(8, 1), (1, 4)], lambda s: elementwise(s, (8, 4))),
    "sum of all": (lambda x: x.sum(), [(8, 8)], lambda s: parse("ij->", s)),
    "sum of rows": (lambda x: x.sum(1), [(8, 8)], lambda s: parse("ij->i", s)),
}


def _derived(
    row: Any, dims: Any, places: Any, shapes: list[Shape], params: Any
) -> tuple[Any, list[Shape], Any]:
    """An operation with named dims that live on mesh axes."""
    made = derived(row, dims, places)
    avals = [Aval(shape, np.dtype(np.int64)) for shape in shapes]
    return lambda *xs: bind(made, xs, params), shapes, lambda s: made.rule_for(avals, params)


_P, _PQ = (("p",),), (("p",), ("q",))
PINNED: dict[str, tuple[Any, list[Shape], Any]] = {
    "add": _derived(ufunc_row(np.add), ((0, 1), (0,)), _PQ, [(2, 2, 8), (2, 8)], ()),
    "add to all": _derived(ufunc_row(np.add), ((0,), ()), _P, [(2, 4, 8), (4, 8)], ()),
    "matmul": _derived(DOT, ((0,), (0,)), _P, [(2, 8, 4), (2, 4, 8)], ("ij,jk->ik",)),
    "matmul by one": _derived(DOT, ((0,), ()), _P, [(2, 8, 4), (4, 8)], ("ij,jk->ik",)),
    "sum": _derived(reductions.SUM, ((0, 1),), _PQ, [(2, 2, 8)], ((-1,), False, None)),
}


@pytest.mark.parametrize("name", PINNED)
def test_dims_that_are_pinned_stay_on_their_axes_for_the_fewest_bytes(name: str) -> None:
    function, shapes, rule_of = PINNED[name]
    rng, rule = random.Random(name), rule_of(shapes)
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        mesh = gs.make_mesh(SIZES, AXES)
        for _ in range(12):
            specs = [spec_of(rng, len(shape)) for shape in shapes]
            placed = [
                gs.device_put(np.ones(shape, np.int64), gs.NamedSharding(mesh, gs.P(*spec)))
                for shape, spec in zip(shapes, specs, strict=True)
            ]
            before = dict(runtime.backend.traffic)
            result = function(*placed).block_until_ready()
            assert received(runtime, before) == least(rule, shapes, specs, 8), specs
            spec = result.sharding.spec
            for factor, axes in rule.pinned:
                assert spec.axes(factor) == axes
            assert all(
                not rule.taken.intersection(spec.axes(dim))
                for dim in range(len(rule.pinned), result.ndim)
            )


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_bytes_moved_are_the_least(name: str) -> None:
    function, shapes, rule_of = OPERATIONS[name]
    rng = random.Random(name)
    rule = rule_of(shapes)
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        mesh = gs.make_mesh(SIZES, AXES)
        for _ in range(12):
            specs = [spec_of(rng, len(shape)) for shape in shapes]
            values = [np.arange(math.prod(s), dtype=np.int64).reshape(s) % 7 for s in shapes]
            placed = [
                gs.device_put(value, gs.NamedSharding(mesh, gs.P(*spec)))
                for value, spec in zip(values, specs, strict=True)
            ]
            before = dict(runtime.backend.traffic)
            result = function(*placed).block_until_ready()
            assert received(runtime, before) == least(rule, shapes, specs, 8), specs
            np.testing.assert_array_equal(np.asarray(result), function(*values))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", [n for n in OPERATIONS if n != "sum of all"])
@pytest.mark.parametrize("domains", [1, 2, 8])
def test_results_go_where_they_are_wanted(name: str, domains: int) -> None:
    function, shapes, _ = OPERATIONS[name]
    rng = random.Random(name)
    with testing.runtime(host_devices=8, host_domains=domains):
        mesh = gs.make_mesh(SIZES, AXES)
        for _ in range(20):
            specs = [spec_of(rng, len(shape)) for shape in shapes]
            values = [np.arange(math.prod(s), dtype=np.int64).reshape(s) % 7 for s in shapes]
            placed = [
                gs.device_put(value, gs.NamedSharding(mesh, gs.P(*spec)))
                for value, spec in zip(values, specs, strict=True)
            ]
            want = function(*values)
            out = gs.NamedSharding(mesh, gs.P(*spec_of(rng, want.ndim)))
            result = _in(out, function, placed)
            assert result.sharding == out
            np.testing.assert_array_equal(np.asarray(result), want)
            for shard in result.addressable_shards:
                np.testing.assert_array_equal(np.asarray(shard.data), want[shard.index])


def _in(out: Any, function: Any, placed: Any) -> Any:
    """Do an operation, and say how its result is to be laid out."""

    class Asks:
        level = 1

        def bind(self, row: Any, args: Any, params: Any, out_sharding: Any) -> Any:
            return bind(row, [getattr(a, "value", a) for a in args], params, out)

    asks = Asks()
    return function(*(Asking(asks, x) for x in placed))


class Asking(Counted):
    """An array whose operations give a certain sharding."""


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_sum_that_is_wanted_split_is_scattered_as_it_is_merged(count: int) -> None:
    with testing.runtime(host_devices=count, host_domains=count) as runtime:
        mesh = gs.make_mesh((count,), ("x",))
        value = np.arange(count * 48, dtype=np.int64).reshape(count, 48)
        x = gs.device_put(value, gs.NamedSharding(mesh, gs.P("x")))
        out = gs.NamedSharding(mesh, gs.P("x"))
        before = dict(runtime.backend.traffic)
        made = bind(reductions.SUM, (x,), ((-2,), False, None), out).block_until_ready()
        assert received(runtime, before) == (count - 1) * 48 * 8 and made.sharding == out
        np.testing.assert_array_equal(np.asarray(made), value.sum(0))


def test_results_lie_the_same_whatever_the_domains_are() -> None:
    rng = random.Random(0)
    found: dict[int, list[str]] = {}
    cases = []
    for name in OPERATIONS:
        shapes = OPERATIONS[name][1]
        cases += [(name, [spec_of(rng, len(shape)) for shape in shapes]) for _ in range(10)]
    for domains in (1, 2, 8):
        with testing.runtime(host_devices=8, host_domains=domains):
            mesh = gs.make_mesh(SIZES, AXES)
            for name, specs in cases:
                function, shapes, _ = OPERATIONS[name]
                placed = [
                    gs.device_put(np.ones(shape, np.float32), gs.NamedSharding(mesh, gs.P(*spec)))
                    for shape, spec in zip(shapes, specs, strict=True)
                ]
                found.setdefault(domains, []).append(str(function(*placed).sharding.spec))
    assert found[1] == found[2] == found[8]


def test_operands_that_agree_stay_where_they_are() -> None:
    with testing.runtime(host_devices=8):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        x, y = (gs.device_put(np.ones((8, 6)), gs.NamedSharding(mesh, gs.P("x"))) for _ in "xy")
        assert (x + y).sharding == x.sharding
        assert bind(ufunc_row(np.sin), (x,)).sharding is x.sharding
        assert (x * 2 + 1).sharding is x.sharding


def test_axes_of_one_device_split_nothing() -> None:
    rule = parse("ij,jk->ik", [(8, 4), (4, 16)])
    given = [choose_split.Given(None, None, 8)] * 2
    found = choose_split.assignments(rule, gs.make_mesh((4, 1), ("x", "one")), given)
    assert len(found) == 4 and {axis for splits in found for own in splits for axis in own} == {"x"}


def test_where_there_are_too_many_assignments_axes_stay_where_operands_have_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = parse("ij,jk->ik", [(8, 4), (4, 16)])
    with testing.runtime(host_devices=16):
        mesh = gs.make_mesh((2, 2, 2, 2), (*AXES, "s"))
    given = [
        choose_split.Given(None, (("p",), ("q", "r")), 8),
        choose_split.Given(None, ((), ("q",)), 8),
        choose_split.Given(None, None, 8),
    ]
    operands = [*rule.operands, ()]
    rule = dataclasses.replace(rule, operands=tuple(operands))
    axes = {"every": (*AXES, "s"), "used": AXES}
    wanted = {
        name: {
            splits
            for where in itertools.product(range(4), repeat=len(names))
            for splits in itertools.product(
                *(
                    itertools.permutations([a for a, f in zip(names, where, strict=True) if f == n])
                    for n in range(3)
                )
            )
        }
        for name, names in axes.items()
    }
    as_they_are = [
        (p, tuple(a for a, at in (("q", q), ("r", r)) if at == 0), ("q",) * (q == 1))
        for p, q, r in itertools.product((("p",), ()), (0, 1, 2), (0, 1))
    ]
    for most, found in ((len(wanted["every"]), "every"), (len(wanted["used"]), "used")):
        monkeypatch.setattr(choose_split, "MOST", most)
        made = choose_split.assignments(rule, mesh, given)
        assert len(made) == most and set(made) == wanted[found]
    for most in (len(wanted["used"]) - 1, 5):
        monkeypatch.setattr(choose_split, "MOST", most)
        assert choose_split.assignments(rule, mesh, given) == as_they_are[:most]


def test_what_must_be_whole_and_axes_of_one_device_get_none_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = parse("ij->ij", [(8, 4)], "j")
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((2, 2, 1), ("p", "q", "one"))
    monkeypatch.setattr(choose_split, "MOST", 2)
    given = [choose_split.Given(None, (("p", "one"), ("q",)), 8)]
    assert choose_split.assignments(rule, mesh, given) == [(("p",), ()), ((), ())]


@pytest.mark.parametrize("wanted", [None, (("p",),), (("q",),)])
def test_a_choice_knows_whether_its_bytes_bring_the_result_where_it_is_wanted(wanted: Any) -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((2, 2), ("p", "q"))
        target = None if wanted is None else choose_split.Target(wanted, 8)
        on = {
            name: choose_split.Given(gs.NamedSharding(mesh, gs.P(name)).tiling((8,)), ((name,),), 8)
            for name in ("p", "q")
        }
        for names in ("pp", "pq"):  # operands that agree, and such as do not
            operands = [on[name] for name in names]
            rule = elementwise([(8,)] * 2, (8,))
            assert choose_split.choose(rule, [(mesh, operands)], target=target).aimed == bool(
                wanted
            )
