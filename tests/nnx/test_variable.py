"""Variables: boxes that do what their values do, and their metadata; States and filters."""

import copy
import functools
import operator
import pickle
import types
import typing
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import lax, nnx
from gpushard.errors import ArgumentError, ArgumentTypeError, TracedValueError, TreeError
from tests.nnx.graphs import Plain

P = gs.P
VALUE = np.arange(1.0, 7).reshape(2, 3) / 10

FUNCTIONS: dict[str, Any] = {
    "asarray": gnp.asarray,
    "add": lambda v: gnp.add(v, 1),
    "sum": gnp.sum,
    "mean": lambda v: gnp.mean(v, axis=0),
    "dot": lambda v: gnp.dot(v, v.T),
    "einsum": lambda v: gnp.einsum("ij,kj->ik", v, v),
    "concatenate": lambda v: gnp.concatenate([v, v]),
    "where": lambda v: gnp.where(v > 0.3, v, 0),
    "reshape": lambda v: gnp.reshape(v, (2, 3)),
    "take": lambda v: gnp.take(v, gnp.asarray([0, 1])),
    "zeros_like": gnp.zeros_like,
    "sort": gnp.sort,
    "norm": gnp.linalg.norm,
    "softmax": gs.nn.softmax,
    "tanh": lax.tanh,
    "dot_general": lambda v: lax.dot_general(v, v, (((1,), (1,)), ((), ()))),
    "array @ v": lambda v: gnp.ones((4, 2)) @ v,
    "ndarray @ v": lambda v: np.ones((4, 2)) @ v,
    "numpy.add": lambda v: np.add(v, 1.0),
    "numpy.dot": lambda v: np.dot(np.ones((4, 2)), v),
    "numpy.concatenate": lambda v: np.concatenate([v, v]),
    "divmod": lambda v: divmod(v, 0.2)[1],
    "divmod by it": lambda v: divmod(1.25, v)[0] + 100 * divmod(1.25, v)[1],
    "pow": lambda v: 2**v + v**2,
    "at": lambda v: v.at[0].set(v[1]),
    "method": lambda v: v.sum(axis=1),
    "matmul of both": lambda v: v @ v.T,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_a_variable_of_data_on_the_host(name: str) -> None:
    f = FUNCTIONS[name]
    if name == "at":
        with pytest.raises(
            AttributeError, match="'Param' has no attribute 'at', nor has its value"
        ):
            f(nnx.Param(VALUE))
        return
    got, wanted = f(nnx.Param(VALUE)), f(gnp.asarray(VALUE))
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-12)


INTEGERS: dict[str, Any] = {
    "take": lambda at: gnp.take(gnp.arange(5), at),
    "index": lambda at: gnp.arange(5)[at],
    "take_along_axis": lambda at: gnp.take_along_axis(gnp.arange(5), at, 0),
    "repeat": lambda at: gnp.repeat(gnp.arange(3), at),
    "bincount": gnp.bincount,
    "compress": lambda at: gnp.compress(at > 0, gnp.arange(3), size=2),
    "roll": lambda at: gnp.roll(gnp.arange(5), at[1]),
    "segment_sum": lambda at: lax.segment_sum(gnp.ones(3), at),
    "unravel_index": lambda at: gnp.unravel_index(at, (2, 2))[1],
    "add": lambda at: lax.add(at, at),
    "switch": lambda at: lax.switch(at[0], [lambda: 10, lambda: 20, lambda: 30]),
    "cond": lambda at: lax.cond(at[1] > 0, lambda: 1, lambda: 2),
}

CHOICES: dict[str, Any] = {
    "switch": (int, lambda x: lax.switch(x, [gnp.minimum, gnp.maximum], 3, 5)),
    "cond": (bool, lambda x: lax.cond(x, gnp.maximum, gnp.minimum, 3, 5)),
}
"""They choose the greater number by 1, the lesser one by 0."""


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("number", [0, 1])
def test_variables_choose(name: str, number: int) -> None:
    kind, choose = CHOICES[name]
    for own in (kind(number), np.array(number, kind), gnp.asarray(number, kind)):
        for f in (choose, nnx.jit(choose)):
            assert f(nnx.Cache(own)) == [3, 5][number]


def test_numbers_of_python_in_variables_give_way() -> None:
    x = gnp.ones(2, "f4")
    for made in (gnp.multiply(x, nnx.Param(2.0)), lax.mul(x, nnx.Param(2.0)), x * nnx.Param(2.0)):
        assert made.dtype == np.float32 and made.tolist() == [2, 2]
    assert gnp.multiply(x, nnx.Param(np.float64(2))).dtype == np.float64


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_a_variable_for_its_value(name: str) -> None:
    f = FUNCTIONS[name]
    value = gs.device_put(VALUE, gs.NamedSharding(gs.make_mesh((2,), "x"), P("x")))
    expected, traced = f(value), gs.jit(f)(value)
    with gs.transfer_guard_device_to_host("disallow"):
        got = f(nnx.Param(value))
        others = nnx.jit(f)(nnx.Param(value)), gs.jit(lambda x: f(nnx.Param(x)))(value)
    assert isinstance(got, gs.Array) and got.sharding == expected.sharding
    assert np.array_equal(got, expected)
    for other in others:
        assert isinstance(other, gs.Array) and other.sharding == traced.sharding
        assert np.array_equal(other, traced)


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_operators_act_on_the_value(op: Any) -> None:
    v, w = nnx.Param(gnp.asarray(VALUE)), nnx.Variable(gnp.asarray(VALUE[::-1]))
    for got, expected in (
        (op(v, w), op(VALUE, VALUE[::-1])),
        (op(v, 2), op(VALUE, 2)),
        (op(2, v), op(2, VALUE)),
        (op(VALUE, v), op(VALUE, VALUE)),
        (op(v.value, w), op(VALUE, VALUE[::-1])),
    ):
        assert isinstance(got, gs.Array) and np.allclose(got, expected)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"])
def test_operators_in_place_replace_the_value(op: str) -> None:
    v = same = nnx.Param(gnp.asarray(VALUE))
    before = v.value
    v = getattr(operator, f"i{op}")(v, 2)
    assert v is same and np.allclose(v.value, getattr(operator, op)(VALUE, 2))
    assert np.array_equal(before, VALUE)


def test_unary_operators_and_conversions() -> None:
    v, one = nnx.Param(gnp.asarray(VALUE)), nnx.Variable(gnp.asarray(3))
    assert np.allclose(-v, -VALUE) and np.allclose(abs(-v), VALUE) and np.allclose(+v, VALUE)
    assert (bool(one), int(one), float(one), complex(one)) == (True, 3, 3.0, 3 + 0j)
    assert [10, 20, 30, 40][one] == 40 and len(v) == 2 and len(list(v)) == 2
    assert ~nnx.Variable(gnp.asarray(5)) == -6 and (one & 1) == 1 and (1 << one) == 8
    assert round(nnx.Variable(2.5)) == 2 and f"{nnx.Variable(2.5):.2f}" == "2.50"
    assert v.__array_namespace__() is gnp
    assert np.asarray(v, np.float32).dtype == np.float32 and v.shape == (2, 3) and v.ndim == 2


VALUES: list[Any] = [
    np.arange(3.0), np.zeros(1), np.zeros(0), np.float32(2), np.asarray(0), np.eye(2), 2, 0.0, "a",
    [1, 2], [], None, (3,),
]  # fmt: skip


@pytest.mark.parametrize("first", VALUES, ids=repr)
def test_comparisons_are_of_values(first: Any) -> None:
    held = gnp.asarray(first) if isinstance(first, np.ndarray | np.generic) else first
    for second in (np.arange(3.0), 2, "a", [1, 2]):
        if isinstance(held, gs.Array) and isinstance(second, str):
            continue
        for operate in (operator.eq, operator.ne):
            try:
                expected = operate(first, second)
            except ValueError:
                continue  # shapes that do not broadcast
            for other in (second, nnx.Cache(second)):
                got = operate(nnx.Param(held), other)
                assert np.array_equal(got, expected), (first, second)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_truth_and_membership(value: Any) -> None:
    v = nnx.Param(gnp.asarray(value) if isinstance(value, np.ndarray) else value)
    if isinstance(value, np.ndarray) and value.ndim:
        assert bool(v) is (len(value) > 0)
    else:
        assert bool(v) is bool(value)
    if isinstance(value, np.ndarray | list | tuple) and np.ndim(value):
        for item in (0, 1, 2.0, 3, 7):
            assert (item in v) == (nnx.Param(item) in v) == (item in value)
        assert (v in [v]) and (nnx.Variable(2) in [1, 2])


def test_a_variable_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(nnx.Param(1.0))
    a = nnx.Param(1.0)
    assert a is a and a is not a.copy() and a == a.copy()


def test_types_in_annotations() -> None:
    for kind in (nnx.Variable, nnx.Param, nnx.RngKey):
        v = kind[gs.Array](gnp.ones(2), unit="s")
        assert type(v) is kind and v.get_metadata() == {"unit": "s"}
    assert typing.get_args(nnx.State[nnx.Param]) == (nnx.Param,)
    assert typing.get_args(nnx.GraphDef[nnx.Linear]) == (nnx.Linear,)


def test_slots_are_attributes_as_others() -> None:
    class Velocity(nnx.Variable[Any]):
        __slots__ = ("unit",)

    class Slotted(nnx.Module):
        __slots__ = ("__hidden", "plain", "weight")

        def __init__(self) -> None:
            self.plain, self.weight, self.__hidden = 3, Velocity(gnp.ones(2)), [nnx.Param(1.0)]
            self.weight.unit = "m/s"

        def hidden(self) -> Any:
            return self.__hidden

    m = Slotted()
    graphdef, state = nnx.split(m)
    copies = [
        nnx.clone(m), nnx.merge(graphdef, state), copy.copy(m), copy.deepcopy(m),
        nnx.jit(lambda m: m)(nnx.clone(m)),
    ]  # fmt: skip
    for other in copies:
        assert other.plain == 3 and other.weight.unit == "m/s" and other.hidden()[0].value == 1.0
    assert len(nnx.to_flat_state(state)) == 2
    nnx.jit(lambda m: setattr(m, "plain", 4))(m)
    assert m.plain == 4 and nnx.graphdef(m) != graphdef


def test_metadata() -> None:
    v = nnx.Param(gnp.ones(2), sharding=("x",), unit="s")
    assert v.sharding_names == ("x",) and v.get_metadata() == {
        "unit": "s",
        "sharding_names": ("x",),
    }
    assert v.sharding == v.value.sharding and v.type is nnx.Param
    v.note = "n"
    del v.unit
    assert v.note == "n" and not hasattr(v, "unit") and v.raw_value is v.value
    new = v.replace(gnp.zeros(3), note="other")
    assert type(new) is nnx.Param and new.note == "other" and v.note == "n"
    new.copy_from(v)
    assert new.note == "n" and new.value.tolist() == [1, 1]
    taken = v.replace(nnx.Param(3.0, unit="m"), note="last")
    assert taken.get_metadata() == {"unit": "m", "note": "last"} and taken.value == 3
    assert v.get_metadata() == {"sharding_names": ("x",), "note": "n"}
    v[0] = 5
    assert new.value.tolist() == [1, 1] and v.value.tolist() == [5, 1]
    for other in (copy.copy(v), copy.deepcopy(v), pickle.loads(pickle.dumps(v)), v.copy()):
        assert other is not v and type(other) is nnx.Param
        assert other.get_metadata() == v.get_metadata() and other.value.tolist() == [5, 1]
        other[0] = 6
        assert v.value.tolist() == [5, 1]
    host = nnx.Variable(np.ones(2))
    before = host.value
    host[0] = 2
    assert before.tolist() == [1, 1] and host.value.tolist() == [2, 1]


def test_the_text_of_a_variable_shows_no_data_of_arrays() -> None:
    assert repr(nnx.Param(gnp.ones((2, 3)), unit="s")) == "Param(float64[2, 3], unit='s')"
    assert repr(nnx.Cache(np.zeros((), int))) == "Cache(int64[])"
    held = types.SimpleNamespace(shape=(2,))  # which has no type of elements, so is no array
    assert repr(nnx.Variable(held)) == "Variable(namespace(shape=(2,)))"


def test_what_a_variable_has_not() -> None:
    v = nnx.Param(gnp.ones(2), unit="s")
    with pytest.raises(ArgumentTypeError, match="replace: a BatchStat cannot replace a Param"):
        v.replace(nnx.BatchStat(1.0))
    with pytest.raises(AttributeError, match="'Param' object has no metadata 'note'"):
        del v.note
    assert v.get_metadata() == {"unit": "s"}
    empty = nnx.Param.__new__(nnx.Param)
    for name in ("_value", "_metadata"):
        with pytest.raises(AttributeError, match=f"^{name}$"):
            getattr(empty, name)


def test_kinds() -> None:
    class Mine(nnx.Param):
        """A kind of a user's."""

        @property
        def twice(self) -> Any:
            return self.value * 2

    v = Mine(gnp.ones(2))
    assert isinstance(v, nnx.Param) and v.twice.tolist() == [2, 2]
    assert issubclass(nnx.RngKey, nnx.RngState) and issubclass(nnx.RngCount, nnx.RngState)
    assert type(gs.tree.map(lambda x: x + 1, v)) is Mine
    assert [str(path[0]) for path, _ in gs.tree.leaves_with_path(v)] == [".value"]
    with pytest.raises(TypeError, match="takes no keyword arguments"):
        types.new_class("Other", (nnx.Param,), {"unit": "s"})
    m = Plain()
    m.v = v
    assert type(nnx.clone(m).v) is Mine and list(nnx.state(m, Mine)) == ["v"]


@pytest.mark.parametrize("kind", [nnx.Variable, nnx.Param, nnx.BatchStat, nnx.RngKey])
def test_every_kind_is_a_pytree(kind: Any) -> None:
    v = kind(VALUE, unit="m")
    (leaf,) = gs.tree.leaves(v)
    assert leaf is v.value
    made = gs.jit(lambda v: gs.tree.map(lambda x: 2 * x, v))(v)
    assert type(made) is kind and made.unit == "m"
    assert np.array_equal(made.value, 2 * VALUE)


def test_variables_and_states_are_pytrees() -> None:
    state = nnx.State({"a": {1: nnx.Param(gnp.ones(2)), 0: gnp.zeros(2)}})
    doubled = gs.jit(lambda s: gs.tree.map(lambda x: 2 * x, s))(state)
    assert type(doubled) is nnx.State and type(doubled.a[1]) is nnx.Param
    assert doubled.a[1].value.tolist() == [2, 2]
    names = [gs.tree.keystr(path) for path, _ in gs.tree.leaves_with_path(state)]
    assert names == ["['a'][0]", "['a'][1].value"]
    doubled.a[1].unit = "s"
    with pytest.raises(TreeError, match=r"Param\(\*\) .* but .* Param\(\*, unit='s'\)"):
        gs.tree.map(lambda x, y: x + y, state, doubled)
    with pytest.raises(TreeError):
        gs.tree.map(lambda x, y: x, state, nnx.State({"b": 1}))


def test_copies_of_states_are_their_own() -> None:
    state = nnx.State({"a": 1, "b": {"c": 2}})
    for other in (copy.copy(state), copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert nnx.to_pure_dict(other) == nnx.to_pure_dict(state)
        other["new"] = 3
        del other["a"]
    assert list(state) == ["a", "b"]
    state.setdefault("part", {})["c"] = 4
    assert state.part.c == 4 and state.setdefault("part", 5) is state.part


def test_any_mapping_is_a_part_of_a_state() -> None:
    state = nnx.State({"a": OrderedDict(b=MappingProxyType({"c": 1}))})
    assert type(state.a.b) is nnx.State and nnx.to_flat_state(state) == [(("a", "b", "c"), 1)]
    assert nnx.to_pure_dict(state) == {"a": {"b": {"c": 1}}}


def test_arrays_and_libraries_take_variables() -> None:
    x, v = gnp.ones(3), nnx.Param(gnp.asarray(2.0))
    x[0] = v
    assert x.tolist() == [2, 1, 1]
    x[...] = nnx.Param(gnp.zeros(3))
    assert x.tolist() == [0, 0, 0]
    with pytest.raises(TracedValueError, match=r"argument v\.value"):
        nnx.jit(lambda v: x.__setitem__(1, v))(v)
    assert np.from_dlpack(nnx.Param(gnp.arange(3))).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(v, np.int8, copy=False)


def assigned(v: Any, state: Any) -> Any:
    """Assign to what a function got, and return it."""
    v.value, v.tag = v * 2, "new"
    state.a += v
    return state.a.replace(state.a + 1), v


MESH = gs.make_mesh((2,), "x")
TRANSFORMS: dict[str, Any] = {
    "jit": gs.jit,
    "static": lambda f: functools.partial(gs.jit(lambda _, *args: f(*args), static_argnums=0), 1),
    "vmap": gs.vmap,
    "pmap": gs.pmap,
    "shard_map": lambda f: gs.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x")),
    "in_shardings": lambda f: gs.jit(f, in_shardings=gs.NamedSharding(MESH, P("x"))),
    "nested": lambda f: gs.jit(gs.vmap(gs.jit(f))),
    "cond": lambda f: lambda *args: gs.lax.cond(True, f, f, *args),
    "map": lambda f: lambda *args: gs.lax.map(lambda x: f(*x), args),
    "scan": lambda f: lambda *args: gs.lax.scan(lambda c, x: (c, f(*x)), 0, args)[1],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_functions_may_assign_to_variables_that_they_get(name: str) -> None:
    v, state = nnx.Param(gnp.ones(2)), nnx.State({"a": nnx.Cache(gnp.ones(2))})
    new, other = TRANSFORMS[name](assigned)(v, state)
    assert type(new) is nnx.Cache and new.value.tolist() == [4, 4]
    assert other.value.tolist() == [2, 2] and other.tag == "new"
    assert v.value.tolist() == state.a.value.tolist() == [1, 1] and not hasattr(v, "tag")
    shapes = gs.eval_shape(assigned, v, state)
    assert shapes[0].value.shape == (2,)


def test_states() -> None:
    state = nnx.State({"b": nnx.Param(2), "a": {10: 1, 9: nnx.Cache(3)}})
    assert state.a[9] is state["a"][9] and len(state) == 2 and "a" in state
    flat = nnx.to_flat_state(state)
    assert [path for path, _ in flat] == [("a", 9), ("a", 10), ("b",)]
    assert nnx.to_flat_state(nnx.from_flat_state(flat)) == flat == state.flat_state()
    assert nnx.to_pure_dict(state) == {"b": 2, "a": {10: 1, 9: 3}}
    nnx.replace_by_pure_dict(state, {"a": {"9": 7}})
    assert state.a[9].value == 7 and type(state.a[9]) is nnx.Cache and state.b.value == 2
    params, rest = nnx.split_state(state, nnx.Param, ...)
    assert list(params) == ["b"] and list(rest) == ["a"] and list(state.filter(nnx.Param)) == ["b"]
    assert nnx.to_pure_dict(nnx.merge_state(params, rest)) == nnx.to_pure_dict(state)
    assert nnx.to_pure_dict(rest | params) == nnx.to_pure_dict(state)
    assert nnx.map_state(lambda path, x: len(path), state).a[10] == 2
    state.c = {"d": 1}
    del state["b"], state.a
    assert type(state.c) is nnx.State and list(state) == ["c"]
    assert nnx.to_pure_dict(pickle.loads(pickle.dumps(state))) == {"c": {"d": 1}}
    assert nnx.to_pure_dict(copy.deepcopy(state)) == {"c": {"d": 1}}
    with pytest.raises(TypeError, match="hash"):
        hash(state)
    with pytest.raises(AttributeError, match="none"):
        state.none  # noqa: B018
    with pytest.raises(AttributeError, match="State has no 'none'"):
        del state.none
    both = nnx.State({"b": nnx.Param(2), "a": {9: nnx.Cache(3)}})
    caches, others = both.split(nnx.Cache, ...)
    assert nnx.to_pure_dict(caches) == {"a": {9: 3}} and nnx.to_pure_dict(others) == {"b": 2}
    with pytest.raises(ArgumentError, match="leads through"):
        nnx.from_flat_state([((), 1)])


def test_filters() -> None:
    param, stat = nnx.Param(1.0, tag="t"), nnx.BatchStat(2.0)
    rows = [
        (nnx.Param, (True, False)), (nnx.Variable, (True, True)), ("t", (True, False)),
        (..., (True, True)), (True, (True, True)), (None, (False, False)), (False, (False, False)),
        (lambda path, x: path == ("b",), (False, True)), ([nnx.BatchStat, "t"], (True, True)),
        ((), (False, False)), (nnx.All(nnx.Variable, "t"), (True, False)),
        (nnx.Any("t", "u"), (True, False)), (nnx.Not(nnx.Param), (False, True)),
        (nnx.OfType(nnx.BatchStat), (False, True)), (nnx.WithTag("t"), (True, False)),
        (nnx.PathContains("b"), (False, True)), (nnx.PathIn(("a",), ("c",)), (True, False)),
        (nnx.Everything(), (True, True)), (nnx.Nothing(), (False, False)),
    ]  # fmt: skip
    for filter, expected in rows:
        taken = nnx.to_predicate(filter)
        assert (bool(taken(("a",), param)), bool(taken(("b",), stat))) == expected, filter
    assert nnx.All(nnx.Param, "t") == nnx.All(nnx.OfType(nnx.Param), nnx.WithTag("t"))
    assert hash(nnx.PathIn(("a",), ("b",))) == hash(nnx.PathIn(("b",), ("a",)))
    assert nnx.PathIn(("a",)) != nnx.PathIn(("b",)) and nnx.PathIn(("a",)) != {("a",)}
    assert nnx.Any("t") != nnx.All("t") and nnx.Not("t") == nnx.Not("t") != nnx.Not("u")
    assert nnx.Everything() == nnx.to_predicate(...) and nnx.Nothing() == nnx.to_predicate(None)
    for text in ("All(OfType", "Not(", "PathIn(('a',)"):
        assert text in repr([nnx.All(nnx.Param), nnx.Not("t"), nnx.PathIn(("a",))])


def test_state_shardings() -> None:
    spec = {nnx.Param: P("x"), ...: None}
    a, b = nnx.StateSharding(spec), nnx.StateSharding(spec.items())
    assert a == b and hash(a) == hash(b) and a != nnx.StateSharding({...: None})
    assert a != nnx.StateSharding({nnx.Cache: P("x"), ...: None}) and a != spec
    assert a != nnx.StateSharding({nnx.Param: P(), ...: None})
    assert a.filters == (nnx.Param, ...) and a.shardings == (P("x"), None)
    assert isinstance(a, nnx.PrefixMapping) and gs.tree.leaves([a]) == [a]
    assert repr(a).startswith("StateSharding({<class") and "PartitionSpec('x')" in repr(a)
    state = nnx.State({"a": {"w": P("x"), "v": P()}, "b": nnx.Param(P("x"))})
    of_state = nnx.StateSharding(state)
    assert of_state.shardings == (P(), P("x"))
    assert of_state.map_prefix(("b",), nnx.Param(1.0)) == P("x")
    assert of_state.filters[1] == nnx.PathIn(("a", "w"), ("b",))
    with pytest.raises(ValueError, match=r"takes \.a\.z, a Param\(float64\[2, 3\]\)"):
        of_state.map_prefix(("a", "z"), nnx.Param(gnp.asarray(VALUE)))


def test_mappings_of_users_stand_for_modules() -> None:
    mesh = gs.make_mesh((2,), "x")

    class BySize(nnx.PrefixMapping):
        """Splits what is large."""

        def map_prefix(self, path: Any, variable: Any) -> Any:
            return gs.NamedSharding(mesh, P("x") if variable.shape[0] > 2 else P())

    m = Plain()
    m.a, m.b = nnx.Param(gnp.ones(8)), nnx.Param(gnp.ones(2))
    assert nnx.jit(lambda m: m.a.value.sum(), in_shardings=(BySize(),))(m) == 8
    assert m.a.value.sharding.spec == P("x") and m.b.value.sharding.spec == P()
