"""Assigning to an array whose devices nobody chose: it goes to where indices and values lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard._array import eager
from gpushard.errors import ArgumentError, ShardingError
from gpushard.testing import runtime

V = np.arange(1.0, 9.0)
K = np.array([0, 3, 1, 3, 0, 7, 5, 3])
MASK = V > 3


@pytest.fixture(autouse=True, scope="module", params=[1, 4])
def domains(request: pytest.FixtureRequest) -> Iterator[None]:
    with runtime(host_domains=request.param, enable_checks=True):
        yield


def named(*entries: Any) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P(*entries))


PLACES: dict[str, Callable[[], Any]] = {
    "split": lambda: named("x"),
    "split twice": lambda: named(("y", "x")),
    "replicated": lambda: named(),
    "another device": lambda: gs.devices()[5],
}

TARGETS: dict[str, Callable[[Any], Any]] = {
    "made": lambda v: gnp.zeros((8, 8)),
    "computed": lambda v: gnp.zeros((8, 8)) * 2 + 0,
    "computed with a number of chosen devices": lambda v: gnp.zeros((8, 8)) * v.sum(),
    "placed": lambda v: gs.device_put(np.zeros((8, 8))),
}


def assigned(index: Callable[..., Any], value: Callable[..., Any]) -> Callable[..., Any]:
    """Return what assigns a value to a part; both are made of vector, positions and mask."""

    def call(x: Any, v: Any, k: Any, mask: Any) -> Any:
        x[index(v, k, mask)] = value(v, k, mask)
        return x

    return call


FORMS: dict[str, Callable[..., Any]] = {
    "all": assigned(lambda v, k, m: ..., lambda v, k, m: v),
    "a row": assigned(lambda v, k, m: 2, lambda v, k, m: v),
    "a column": assigned(lambda v, k, m: (slice(None), 2), lambda v, k, m: v),
    "a part": assigned(lambda v, k, m: (slice(1, 3), slice(6, 1, -2)), lambda v, k, m: v[:3]),
    "a new dim": assigned(lambda v, k, m: (None, 3), lambda v, k, m: v[None]),
    "positions": assigned(lambda v, k, m: k, lambda v, k, m: v[:, None]),
    "positions with a number": assigned(lambda v, k, m: k, lambda v, k, m: 5),
    "positions of the host": assigned(lambda v, k, m: [1, 2], lambda v, k, m: v),
    "positions beside a slice": assigned(
        lambda v, k, m: (slice(1, 3), k), lambda v, k, m: v[:2, None]
    ),
    "pairs of positions": assigned(lambda v, k, m: (k, k), lambda v, k, m: v),
    "a mask": assigned(lambda v, k, m: m, lambda v, k, m: v[m][:, None]),
    "a mask of the host": assigned(lambda v, k, m: np.asarray(m), lambda v, k, m: v),
    "a mask with a number": assigned(lambda v, k, m: m, lambda v, k, m: 5),
    "a mask with one for all": assigned(lambda v, k, m: m, lambda v, k, m: v),
    "a mask in a row": assigned(lambda v, k, m: (1, m), lambda v, k, m: v[m]),
    "a mask of the whole": assigned(lambda v, k, m: m[:, None] & m, lambda v, k, m: v[m].repeat(5)),
}


def expected(form: Callable[..., Any]) -> np.ndarray:
    found: np.ndarray = form(np.zeros((8, 8)), V, K, MASK)
    return found


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("target", TARGETS)
def test_targets_follow_in_every_form(place: str, target: str) -> None:
    v, k, mask = (gs.device_put(data, PLACES[place]()) for data in (V, K, MASK))
    for name, form in FORMS.items():
        x = TARGETS[target](v)
        before, twin = x[...], gs.device_put(x)
        assert not x.committed, name
        made = form(x, v, k, mask)
        assert made is x and x.committed and x.sharding.device_set == v.sharding.device_set, name
        assert np.array_equal(x, expected(form)), name
        assert np.array_equal(x + v, expected(form) + V), name
        for other in (before, twin):
            assert not other.committed and not np.asarray(other).any(), name


UPDATES: dict[str, Callable[..., Any]] = {
    "set": lambda x, v, k, m: x.at[k].set(v[:, None]),
    "set a part": lambda x, v, k, m: x.at[2:5].set(v),
    "add": lambda x, v, k, m: x.at[k].add(v[:, None]),
    "add to a part": lambda x, v, k, m: x.at[:, 2].add(v),
    "add under a mask": lambda x, v, k, m: x.at[m].add(v),
    "multiply": lambda x, v, k, m: x.at[k].multiply(v),
    "greater": lambda x, v, k, m: x.at[k, k].max(v),
    "without bounds": lambda x, v, k, m: x.at[k * 2].add(v, mode="drop"),
    "applied": lambda x, v, k, m: x.at[k].apply(lambda part: part + 1),
    "put": lambda x, v, k, m: gnp.put(x, k, v),
    "placed": lambda x, v, k, m: gnp.place(x, m[:, None] & m, v),
    "under a mask": lambda x, v, k, m: gnp.putmask(x, m[:, None] & m, v),
    "along an axis": lambda x, v, k, m: gnp.put_along_axis(x, k[:, None], v[:, None], 1),
    "the diagonal": lambda x, v, k, m: gnp.fill_diagonal(x, v),
}


@pytest.mark.parametrize("name", UPDATES)
def test_updates_follow(name: str) -> None:
    x = gs.device_put(np.zeros((8, 8)), gs.devices()[5])
    chosen = UPDATES[name](x, *(gs.device_put(d, gs.devices()[5]) for d in (V, K, MASK)))
    want = np.asarray(x if chosen is None else chosen)
    for place in PLACES.values():
        v, k, mask = (gs.device_put(data, place()) for data in (V, K, MASK))
        x = gnp.zeros((8, 8))
        updated = UPDATES[name](x, v, k, mask)
        made = x if updated is None else updated
        assert np.array_equal(made, want)
        assert made.committed and made.sharding.device_set == v.sharding.device_set
        assert updated is None or not x.committed


def test_sums_of_groups() -> None:
    v, k = gs.device_put(V, named("x")), gs.device_put(K, named("x"))
    sums = gnp.zeros(8).at[k].add(v)
    assert np.array_equal(sums, np.bincount(K, V, 8))
    assert sums.sharding.device_set == v.sharding.device_set


def test_dims_that_a_value_fills_are_split_like_its_own() -> None:
    v = gs.device_put(np.arange(48.0).reshape(8, 6), named("x", "y"))
    for index, spec in (
        (..., gs.P("x", "y")),
        (slice(None), gs.P("x", "y")),
        ((slice(None, None, -1), slice(None)), gs.P("x", "y")),
    ):
        x = gnp.zeros((8, 6))
        x[index] = v
        assert x.sharding == named(*spec)
    x = gnp.zeros((8, 3, 6))
    x[:, 1] = v
    assert x.sharding == named("x", None, "y")
    x = gnp.zeros((3, 8, 6))
    x[...] = v
    assert x.sharding == named(None, "x", "y")
    x = gnp.zeros((8, 6))
    x[gs.device_put(V > 3, named("x"))] = v[0]
    assert x.sharding.spec.axes(0) == ("x",)


def test_what_has_no_dims_has_no_say() -> None:
    total = gs.device_put(V, named("x")).sum()
    x = gnp.zeros(8)
    x[3] = total
    x[2:4] = total
    assert not x.committed and x.devices() == {gs.devices()[0]}
    assert not (gnp.zeros(8) + total).committed
    assert (total + 1).committed


def test_targets_that_were_placed_stay() -> None:
    x = gs.device_put(np.zeros(8), gs.devices()[3])
    v, k = gs.device_put(V, named("x")), gs.device_put(K, named("x"))
    x[...] = v
    assert x.devices() == {gs.devices()[3]} and np.array_equal(x, V)
    with pytest.raises(ShardingError, match="committed arrays on different devices"):
        x[k] = v
    assert np.array_equal(x, V)


def test_a_refused_assignment_leaves_the_target_where_it_is() -> None:
    x, v = gnp.zeros(8), gs.device_put(V, named("x"))
    for index in (slice(3), gs.device_put(K[:3], named())):
        with pytest.raises(ArgumentError, match="broadcast"):
            x[index] = v
        assert not x.committed and x.devices() == {gs.devices()[0]} and not np.asarray(x).any()


def test_an_operand_that_follows_another_thread_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    x, v = gnp.zeros(8), gs.device_put(V, named("x"))
    look = eager.case_and_key

    def assign_and_look(*args: Any) -> Any:
        monkeypatch.setattr(eager, "case_and_key", look)
        x[...] = v
        return look(*args)

    monkeypatch.setattr(eager, "case_and_key", assign_and_look)
    made = gnp.hypot(x, 1)
    assert np.array_equal(made, np.hypot(V, 1)) and made.sharding == v.sharding
    again = gnp.hypot(gnp.zeros(8), 1)
    assert np.array_equal(again, np.ones(8)) and not again.committed


class Halves(gs.Sharding):
    """A user's own sharding: a half of the first dim on each of two devices."""

    @property
    def device_set(self) -> set[gs.Device]:
        return set(gs.devices()[2:4])

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Any, Any]:
        half, rest = global_shape[0] // 2, (slice(None),) * (len(global_shape) - 1)
        parts = slice(0, half), slice(half, None)
        return {d: (part, *rest) for d, part in zip(gs.devices()[2:4], parts, strict=True)}


def test_a_target_follows_a_value_in_a_sharding_of_the_users() -> None:
    x, v = gnp.zeros((3, 8)), gs.device_put(V, Halves())
    x[1] = v
    assert x.committed and x.devices() == v.devices()
    assert np.array_equal(x, np.outer([0, 1, 0], V))
