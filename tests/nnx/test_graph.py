"""Graphs: split and merged, updated and popped, against a model; and what is refused."""

import copy
import dataclasses
import itertools
import pickle
import random
import types
import weakref
from collections import Counter, OrderedDict, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

import gpushard as gs
from gpushard import nnx
from gpushard.errors import ArgumentError, ArgumentTypeError, TraceContextError
from gpushard.nnx.walk import all_paths
from tests.nnx.graphs import Other, Plain, array, difference, graph, objects_of, parts
from tests.share import seeds


@pytest.mark.parametrize("block", range(10))
def test_merge_of_split_is_isomorphic(block: int) -> None:
    for seed in seeds(30):
        x = graph(random.Random(1000 * block + seed))
        graphdef, *states = nnx.split(x, nnx.Param, nnx.PathContains("a"), ...)
        random.Random(seed).shuffle(states)
        new = nnx.merge(graphdef, *states)
        assert difference(x, new) == ""
        assert not {id(x) for x in objects_of(x)} & {id(x) for x in objects_of(new)}
        again = nnx.graphdef(new)
        assert again == graphdef and hash(again) == hash(graphdef)
        assert pickle.loads(pickle.dumps(graphdef)) is graphdef
        assert difference(x, nnx.clone(x)) == "" and difference(x, copy.deepcopy(x)) == ""
        one = nnx.clone((x, {"again": [x]}))
        assert one[1]["again"][0] is one[0]


def test_a_later_assignment_shows_in_no_split() -> None:
    m = Plain()
    m.a, m.b = nnx.Param(gs.numpy.zeros(3)), gs.numpy.zeros(3)
    graphdef, state = nnx.split(m)
    new = nnx.merge(graphdef, state)
    m.a.value[0] = 1
    m.b[0] = 1
    state.a.value = state.a.value + 5
    state.b[1] = 2
    assert m.a.value.tolist() == m.b.tolist() == [1, 0, 0]
    assert new.a.value.tolist() == new.b.tolist() == [0, 0, 0]


def test_host_arrays_and_containers_are_values_too() -> None:
    m = Plain()
    m.host, m.both = nnx.Param(np.zeros(2)), nnx.Variable({"a": np.zeros(2), "b": [1]})
    others = [nnx.state(m), nnx.merge(*nnx.split(m)), nnx.clone(m)]
    for x in (m, *others):
        for other in (m, *others):
            other.host.value[0], other.both.value["b"] = 0, [1]
        x.host[...] += 1
        x.both.value["a"][0], x.both.value["b"] = 1, []
        for other in (m, *others):
            assert other.host.value.tolist() == ([1, 1] if other is x else [0, 0])
            assert len(other.both.value["b"]) == (other is not x)
        x.host[...] = x.both.value["a"][0] = 0


def test_what_was_removed_is_not_kept() -> None:
    m = Plain()
    m.a, m.b = parameter(), nnx.Cache(1.0)
    nnx.split(m)
    gone = weakref.ref(m.a), weakref.ref(m.b)
    del m.a
    assert gone[0]() is None
    nnx.split(m)
    nnx.pop(m, nnx.Cache)
    assert gone[1]() is None


def leaves(x: Any) -> dict[tuple[Any, ...], Any]:
    """Return the leaves of a graph by the first path, as a model: without the library."""
    found: dict[tuple[Any, ...], Any] = {}
    seen: set[int] = set()

    def walk(path: tuple[Any, ...], x: Any) -> None:
        if isinstance(x, nnx.Module | nnx.Variable | list | dict):
            if id(x) in seen:
                return
            seen.add(id(x))
        if isinstance(x, nnx.Variable | gs.Array):
            found[path] = x
        for key, part in sorted(parts(x) or []):
            walk((*path, key), part)

    walk((), x)
    return found


@pytest.mark.parametrize("block", range(6))
def test_leaves_are_at_the_first_path(block: int) -> None:
    for seed in seeds(30):
        x = graph(random.Random(1000 * block + seed))
        expected = leaves(x)
        flat = dict(nnx.to_flat_state(nnx.state(x)))
        assert flat.keys() == expected.keys()
        assert nnx.graphdef(x).leaf_paths() == list(expected)
        for path, leaf in flat.items():
            assert type(leaf) is type(expected[path])
        own = dict(nnx.to_flat_state(nnx.variables(x)))
        boxes = {p: x for p, x in expected.items() if isinstance(x, nnx.Variable)}
        assert own.keys() == boxes.keys() and all(own[p] is boxes[p] for p in own)


@pytest.mark.parametrize("block", range(6))
def test_update_sets_leaves_and_nothing_else(block: int) -> None:
    for seed in seeds(30):
        source = random.Random(1000 * block + seed)
        x = graph(source)
        objects = objects_of(x)
        new = nnx.clone(x)
        changed = {}
        for path, leaf in leaves(x).items():
            if source.random() < 0.5 and not _in_tuple(x, path, leaf):
                changed[path] = array(source)
                if isinstance(leaf, nnx.Variable):
                    leaf.value = changed[path]
                else:
                    _put(x, path, changed[path])
        given = nnx.from_flat_state(changed)
        known = objects_of(new)
        nnx.update(new, given if source.random() < 0.5 else nnx.to_pure_dict(given))
        assert difference(x, new, list(zip(objects, known, strict=True))) == ""


def _at(x: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        x = getattr(x, key) if isinstance(x, nnx.Module) else x[key]
    return x


def _in_tuple(x: Any, path: tuple[Any, ...], leaf: Any) -> bool:
    return not isinstance(leaf, nnx.Variable) and type(_at(x, path[:-1])) is tuple


def _put(x: Any, path: tuple[Any, ...], value: Any) -> None:
    node = _at(x, path[:-1])
    if isinstance(node, nnx.Module):
        setattr(node, path[-1], value)
    else:
        node[path[-1]] = value


@pytest.mark.parametrize("block", range(6))
def test_pop_removes_what_filters_take_wherever_it_is(block: int) -> None:
    for seed in seeds(30):
        x = graph(random.Random(1000 * block + seed))
        before = leaves(x)
        gone = {p: v for p, v in before.items() if isinstance(v, nnx.Param)}
        ids = set(map(id, gone.values()))
        kept = [v for v in before.values() if id(v) not in ids and isinstance(v, nnx.Variable)]
        fixed = any(
            type(node) is tuple and any(id(v) in ids for v in node) for _, node in nnx.iter_graph(x)
        )
        if fixed:
            other = nnx.clone(x)
            with pytest.raises(ArgumentError, match="tuple"):
                nnx.pop(x, nnx.Param)
            assert difference(x, other) == ""
            continue
        flat = dict(nnx.to_flat_state(nnx.pop(x, nnx.Param)))
        assert flat.keys() == gone.keys() and all(flat[p] is gone[p] for p in flat)
        assert list(nnx.state(x, nnx.Param)) == []
        after = [v for v in leaves(x).values() if isinstance(v, nnx.Variable)]
        assert {id(v) for v in after} == {id(v) for v in kept}


def test_iter_graph_yields_each_object_once_and_nodes_last() -> None:
    for seed in seeds(60):
        x = graph(random.Random(seed))
        found = list(nnx.iter_graph(x))
        shared = [id(v) for _, v in found if isinstance(v, nnx.Module | nnx.Variable | list | dict)]
        assert len(shared) == len(set(shared)) == len(objects_of(x))
        assert found[-1] == ((), x) and all(_at(x, path) is v for path, v in found)
        twice = {p for paths in nnx.find_duplicates(x) for p in paths}
        assert all(any(_at(x, p) is _at(x, q) for q in twice if q != p) for p in twice)


def test_what_a_duplicate_holds_is_none_itself() -> None:
    m = Plain()
    m.a = m.b = m.c = Other()
    m.a.w, m.n = parameter(), 3
    assert nnx.find_duplicates(m) == [[("a",), ("b",), ("c",)]]
    m.v = m.a.w
    assert nnx.find_duplicates(m) == [[("a",), ("b",), ("c",)], [("a", "w"), ("v",)]]


def test_iter_modules_yields_modules_with_parts_first() -> None:
    m = Plain()
    m.a, m.b = Other(), [Other(), {"c": Plain()}]
    m.a.back = m
    found = dict(m.iter_modules())
    assert found == {(): m, ("a",): m.a, ("b", 0): m.b[0], ("b", 1, "c"): m.b[1]["c"]}
    assert list(found)[-1] == ()


def test_graphdefs_differ_where_structure_does() -> None:
    def made(**changes: Any) -> nnx.Module:
        m = Plain()
        m.n, m.v, m.w = 1, nnx.Param(np.ones(2)), nnx.Param(np.ones(2))
        for name, value in changes.items():
            setattr(m, name, value)
        return m

    shared = nnx.Param(np.zeros(2))
    others = [
        made(n=True), made(n=1.0), made(n=2), made(n=None), made(k=1), made(v=shared, w=shared),
        made(v=nnx.BatchStat(np.ones(2))), made(v=nnx.Param(np.ones(2), tag="a")),
        made(v=np.ones(2)), made(n=0.0), made(n=-0.0), made(n=(1,)), made(n=[1]), made(n=[True]),
    ]  # fmt: skip
    defs = [nnx.graphdef(x) for x in [made(), *others]]
    assert len(set(defs)) == len(defs)
    assert nnx.graphdef(made(v=nnx.Param(np.zeros(7)))) == defs[0]
    del others[0].n
    assert nnx.graphdef(others[0]) not in defs


def test_a_graph_may_be_deep() -> None:
    m = top = Plain()
    for _ in range(5000):
        m.next = Plain()
        m = m.next
    m.leaf = nnx.Param(np.ones(1))
    new = nnx.merge(*nnx.split(top))
    assert nnx.graphdef(new) == nnx.graphdef(nnx.clone(top)) == nnx.graphdef(top)
    assert len(list(nnx.iter_graph(new))) == 5002


def test_objects_of_many_paths_are_entered_so_often() -> None:
    steps = [Plain() for _ in range(8)]
    for step, after in itertools.pairwise(steps):
        step.a = step.b = after
    met = Counter(id(x) for _, x, _ in all_paths(steps[0], visits=3))
    assert [met[id(step)] for step in steps] == [1, 2, 4, 6, 6, 6, 6, 6]


def test_dictionaries_keep_their_order() -> None:
    m = Plain()
    m.d = {"b": nnx.Param(1.0), "a": 2, 5: 3}
    new = nnx.merge(*nnx.split(m))
    assert list(new.d) == ["b", "a", 5]


class Pair(NamedTuple):
    """Two of a kind."""

    x: Any
    y: Any


@gs.tree.register_dataclass
@dataclasses.dataclass
class Both:
    """Two of a kind, in a class that is registered."""

    x: Any
    y: Any


def parameter(size: int = 2) -> nnx.Param:
    return nnx.Param(gs.numpy.ones(size))


CONTAINERS: dict[str, Any] = {
    "named tuple": lambda: Pair(parameter(), [parameter()]),
    "dataclass": lambda: Both(parameter(), {"a": parameter()}),
    "ordered dict": lambda: OrderedDict(b=parameter(), a=parameter()),
    "default dict": lambda: defaultdict(list, a=parameter()),
    "State": lambda: nnx.State({"a": parameter(), "b": {"c": parameter()}}),
    "numbers": lambda: {1: parameter(), "a": parameter(), (0, 1): parameter()},
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_state_of_any_container_updates_it(name: str) -> None:
    m = Plain()
    m.part = CONTAINERS[name]()
    before = {path: x for path, x in nnx.iter_graph(m) if isinstance(x, nnx.Variable)}
    nnx.update(m, gs.tree.map(lambda x: 3 * x, nnx.state(m)))
    after = {path: x for path, x in nnx.iter_graph(m) if isinstance(x, nnx.Variable)}
    assert before.keys() == after.keys()
    assert all(after[path] is x and x.value.tolist() == [3, 3] for path, x in before.items())
    if name in ("named tuple", "dataclass"):
        with pytest.raises(ArgumentError, match="2 elements"):
            nnx.update(m, {"part": {"z": 1}})
        with pytest.raises(ArgumentError, match="fixed length"):
            nnx.pop(m, lambda path, _: path == ("part", "x"))
    else:
        nnx.update(m, {"part": {"new": nnx.Cache(1.0)}})
        assert type(m.part["new"]) is nnx.Cache
        popped = nnx.pop(m, nnx.Cache)
        assert list(popped.part) == ["new"] and "new" not in m.part
    assert nnx.graphdef(nnx.merge(*nnx.split(m))) == nnx.graphdef(m)


def test_update_puts_variables_where_there_was_nothing() -> None:
    layer = nnx.Linear(2, 3, use_bias=False, rngs=nnx.Rngs(0))
    bias = nnx.Param(gs.numpy.ones(3))
    nnx.update(layer, {"bias": bias})
    assert type(layer.bias) is nnx.Param and layer.bias is not bias
    assert layer.bias.value.tolist() == [1, 1, 1]


def test_modules_are_found_in_any_container() -> None:
    m = Plain()
    m.pair, m.both, m.state = Pair(Other(), 1), Both([Other()], None), nnx.State({"a": Other()})
    paths = [path for path, _ in m.iter_modules()]
    assert paths == [("both", "x", 0), ("pair", "x"), ("state", "a"), ()]


def test_attributes_are_set_where_modules_have_them() -> None:
    m = nnx.Sequential(nnx.Dropout(0.5), nnx.Sequential(nnx.Dropout(0.1, rngs=nnx.Rngs(0))))
    first, second = m.layers[0], m.layers[1].layers[0]
    m.eval()
    assert first.deterministic is second.deterministic is True
    m.train(rate=0.0)
    assert first.deterministic is second.deterministic is False
    assert first.rate == second.rate == 0 and not hasattr(m, "deterministic")
    m.set_attributes(lambda path, _: len(path) == 2, rate=0.25)
    m.set_attributes(nnx.Linear, nnx.Dropout, rng_collection="noise")
    assert (first.rate, second.rate, first.rng_collection) == (0.25, 0, "noise")
    m.set_attributes(raise_if_not_found=False, unknown=1)
    with pytest.raises(ArgumentError, match="no Module here has other, unknown") as caught:
        m.set_attributes(rate=0.75, unknown=1, other=2)
    assert caught.value.argument == "other"
    assert first.rate == 0.25 and "unknown" not in vars(second.rngs)
    streams = nnx.Rngs(0)  # which has a stream for every name
    streams.eval()
    assert list(vars(streams)) == ["default"]


def test_attributes_are_set_on_all_modules_or_on_none() -> None:
    outer, seen = nnx.Dropout(0.5), []

    def f(x: Any) -> Any:
        own = nnx.Sequential(nnx.Dropout(0.25), outer)
        with pytest.raises(TraceContextError, match="an assignment to 'rate' of"):
            own.set_attributes(rate=0.75)
        seen.append(own.layers[0].rate)
        return x

    nnx.jit(f)(1.0)
    assert seen == [0.25] and outer.rate == 0.5


def module() -> nnx.Module:
    m = Plain()
    m.part, m.items, m.pair = Other(), [nnx.Param(gs.numpy.ones(2))], (gs.numpy.ones(2), 1)
    m.part.kernel, m.part.mean = nnx.Param(gs.numpy.ones(2)), nnx.BatchStat(gs.numpy.zeros(2))
    return m


BAD = {
    "a leaf without filter": (lambda m: nnx.split(m, nnx.Param), ArgumentError, "part/mean"),
    "... first": (lambda m: nnx.split(m, ..., nnx.Param), ArgumentError, "before other"),
    "... twice": (lambda m: nnx.split(m, ..., nnx.Param, ...), ArgumentError, "before other"),
    "True first": (lambda m: nnx.state(m, True, nnx.Param), ArgumentError, "before other"),
    "no filter": (lambda m: nnx.split(m, 3.5), ArgumentTypeError, "3.5"),
    "split of a number": (lambda m: nnx.split(5), ArgumentTypeError, "must be a Module"),
    "update of a Variable with parts": (
        lambda m: nnx.update(m.part.kernel, {"a": 1}), ArgumentError, "has a Param there",
    ),
    "state of a function": (lambda m: nnx.state(len), ArgumentTypeError, "must be a Module"),
    "merge of no GraphDef": (lambda m: nnx.merge(m, nnx.state(m)), ArgumentTypeError, "graphdef"),
    "merge of no State": (lambda m: nnx.merge(nnx.graphdef(m), 3), ArgumentTypeError, "state"),
    "missing leaves": (
        lambda m: nnx.merge(nnx.graphdef(m), nnx.state(m, nnx.Param)), ArgumentError, "part/mean",
    ),
    "surplus leaves": (
        lambda m: nnx.merge(nnx.graphdef(m), nnx.state(m), nnx.State({"other": 1})),
        ArgumentError, "have other",
    ),
    "a leaf for a node": (lambda m: nnx.update(m, {"part": 1}), ArgumentError, "Other there"),
    "a node for an array": (
        lambda m: nnx.update(m, {"pair": {0: {"x": 1}}}),
        ArgumentError, r"pair\[0\]: .* Array there",
    ),
    "a node for a Variable": (
        lambda m: nnx.update(m, {"items": {0: {"x": 1}}}), ArgumentError, r"items\[0\]",
    ),
    "beyond a list": (lambda m: nnx.update(m, {"items": {4: 1}}), ArgumentError, "1 elements"),
    "beyond a tuple": (lambda m: nnx.update(m, {"pair": {2: 1}}), ArgumentError, "2 elements"),
    "an element of a tuple": (lambda m: nnx.update(m, {"pair": {0: 1}}), ArgumentError, "tuple"),
    "half an update": (
        lambda m: nnx.update(m, {"part": {"kernel": np.zeros(2)}, "items": 3}),
        ArgumentError, "list there",
    ),
    "update of a number": (lambda m: nnx.update(3, {}), ArgumentTypeError, "node"),
    "update by a list": (lambda m: nnx.update(m, [1]), ArgumentTypeError, "state"),
    "pop without filters": (lambda m: nnx.pop(m), ArgumentError, "no filter"),
    "pop of a number": (lambda m: nnx.pop(5, nnx.Param), ArgumentTypeError, "must be a Module"),
    "pop of a tuple's": (lambda m: nnx.pop(m, gs.Array), ArgumentError, "tuple"),
    "a numpy function into a Variable": (
        lambda m: np.add(1, 1, out=m.part.kernel), ArgumentTypeError, "add: out=Param.*its value",
    ),
    "an attribute of the class": (
        lambda m: setattr(m.part.kernel, "copy", 3), AttributeError, "class Param, which hides",
    ),
    "a Variable in a Variable": (
        lambda m: nnx.Param(m.part.kernel), ArgumentTypeError, "cannot be a Param",
    ),
    "copy_from of another kind": (
        lambda m: m.part.kernel.copy_from(m.part.mean), ArgumentTypeError, "BatchStat",
    ),
    "an assigned Variable": (
        lambda m: setattr(m.part.kernel, "value", m.part.mean), ArgumentTypeError, "copy_from",
    ),
    "an unknown attribute": (lambda m: m.part.kernel.nothing, AttributeError, "nothing"),
    "a class with an argument that it does not have": (
        lambda m: types.new_class("M", (nnx.Module,), {"frozen": True}), TypeError,
        "takes no keyword arguments",
    ),
    "device_put of a Module": (lambda m: gs.device_put(m), TypeError, "nnx.state"),
    "a flat path through a leaf": (
        lambda m: nnx.from_flat_state([(("a",), 1), (("a", "b"), 2)]), ArgumentError, "leads",
    ),
    "a longer path through a leaf": (
        lambda m: nnx.from_flat_state([(("a",), 1), (("a", "b", "c"), 2)]), ArgumentError, "leads",
    ),
    "a pure dict for an empty State": (
        lambda m: nnx.replace_by_pure_dict(nnx.State({}), {"a": 1}), ArgumentError, "there: none",
    ),
    "a pure dict with another key": (
        lambda m: nnx.replace_by_pure_dict(nnx.state(m), {"part": {"none": 1}}),
        ArgumentError, "none",
    ),
    "a State without filter": (
        lambda m: nnx.split_state(nnx.state(m), nnx.Param), ArgumentError, "pair/0",
    ),
    "the hash of a static list in a set": (
        lambda m: hash(nnx.graphdef(with_set(m))), ArgumentTypeError, r"\.part\.bad is a set",
    ),
}  # fmt: skip


def with_set(m: Any) -> Any:
    m = nnx.clone(m)
    m.part.bad = {1}
    return m


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_and_changes_nothing(name: str) -> None:
    call, error, said = BAD[name]
    m = module()
    before, objects = nnx.clone(m), objects_of(m)
    with pytest.raises(error, match=said):
        call(m)
    assert difference(m, before, list(zip(objects, objects_of(before), strict=True))) == ""
    nnx.update(m, nnx.state(m, nnx.Param))


ROOTS: dict[str, Any] = {
    "Param": lambda: nnx.Param(gs.numpy.arange(4.0), unit="s"),
    "Variable of a pytree": lambda: nnx.Variable({"a": gs.numpy.ones(2), "b": gs.numpy.zeros(3)}),
    "array": lambda: gs.numpy.arange(4.0),
    "host array": lambda: np.arange(4.0),
    "list": lambda: [nnx.Param(gs.numpy.ones(2)), 3],
    "empty list": lambda: [],
    "Module": Plain,
}


@pytest.mark.parametrize("kind", ROOTS)
def test_anything_with_leaves_can_be_the_root(kind: str) -> None:
    root = ROOTS[kind]()
    graphdef, state = nnx.split(root)
    new = nnx.merge(graphdef, state)
    assert difference(new, root) == "" and (new is not root or isinstance(root, np.ndarray))
    again = nnx.merge(*pickle.loads(pickle.dumps((graphdef, state))))
    assert difference(again, root) == ""
    assert difference(nnx.state(root), state) == "" and nnx.graphdef(root) == graphdef
    if isinstance(root, nnx.Variable):
        assert type(state) is type(root) and state is not root
        graphdef, none, all_of_it = nnx.split(root, nnx.BatchStat, ...)
        assert list(none) == [] and difference(all_of_it, root) == ""
        assert difference(nnx.merge(graphdef, none, all_of_it), root) == ""
        assert nnx.variables(root) is root
        for new_value in (gs.numpy.zeros(2), type(root)(gs.numpy.zeros(2))):
            nnx.update(root, new_value)
            assert root.value.tolist() == [0, 0]
    both = nnx.NodeStates(graphdef, nnx.split(root, ...)[1:])
    assert len(both.states) == 1
    assert repr(graphdef) in str(gs.tree.structure(both))
    assert difference(nnx.from_tree(nnx.to_tree(root)), root) == ""


def test_graphdefs_without_a_hash_are_told_apart() -> None:
    lists = [nnx.GraphDef((["a"],)), nnx.GraphDef((["b"],)), nnx.GraphDef((["a"],), (0,))]
    for n, graphdef in enumerate(lists):
        assert [graphdef == other for other in lists] == [n == m for m in range(len(lists))]
    assert lists[0] == nnx.GraphDef((["a"],)) and lists[0] != ["a"]


def test_update_adds_to_lists_and_makes_new_parts() -> None:
    m, array, param = module(), np.ones(2), nnx.Param(gs.numpy.ones(2))
    nnx.update(m, {"new": {"a": param, "b": {"c": array}}, "items": {1: nnx.Cache(3.0)}})
    assert type(m.new) is dict and list(m.new) == ["a", "b"] and list(m.new["b"]) == ["c"]
    assert type(m.new["a"]) is nnx.Param and m.new["a"] is not param
    array[0] = param[0] = 7
    assert m.new["a"].value.tolist() == [1, 1] and m.new["b"]["c"].tolist() == [1, 1]
    assert [type(x) for x in m.items] == [nnx.Param, nnx.Cache] and m.items[1].value == 3


def test_update_takes_metadata_and_adds_to_dictionaries_of_numbers() -> None:
    m = Plain()
    m.own, m.numbers = nnx.Param(gs.numpy.ones(2), tag="old"), {}
    own = m.own
    nnx.update(m, {"own": nnx.Param(gs.numpy.zeros(2), unit="s"), "numbers": {0: 3}})
    assert m.own is own and own.value.tolist() == [0, 0] and own.get_metadata() == {"unit": "s"}
    assert m.numbers == {0: 3}
    nnx.update(m, {"own": gs.numpy.ones(2)})
    assert own.get_metadata() == {"unit": "s"}


@pytest.mark.parametrize("count", [10, 11, 13])
def test_errors_name_ten_leaves_at_most(count: int) -> None:
    m = Plain()
    m.items = [nnx.Param(1.0) for _ in range(count)]
    shown = ", ".join(f"items/{n}" for n in range(10))
    shown += f" and {count - 10} more" if count > 10 else ""
    with pytest.raises(ArgumentError, match=f"split: no filter takes {shown}; add"):
        nnx.split(m, nnx.Cache)
    with pytest.raises(ArgumentError, match=f"merge: the states lack {shown}, unlike"):
        nnx.merge(nnx.graphdef(m), {})


def test_numbers_of_objects_and_leaves() -> None:
    m = module()  # itself, its part and list, and three Variables; arrays in a tuple are no objects
    assert nnx.graphdef(m).num_objects == 6 and nnx.graphdef(m).num_leaves == 4
    m.again, m.more = m.part, {"a": m.items}
    assert nnx.graphdef(m).num_objects == 7 and nnx.graphdef(m).num_leaves == 4
    m.both = Both(1, 2)
    assert nnx.graphdef(m).num_objects == 8
    two = parameter(), {"a": parameter()}
    assert repr(nnx.graphdef(two)) == "GraphDef(tuple: 2 nodes, 2 leaves)"
    assert repr(nnx.graphdef(two[:1])) == "GraphDef(tuple: 1 node, 1 leaf)"


class Keyed:
    """A pytree of a user's whose keys are any objects."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


class Grown(list[Any]):
    """A pytree of a user's that can change."""


class Table(dict[str, Any]):
    """Another one."""


class Bag:
    """A pytree of attributes."""

    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)


@gs.tree.register_dataclass
@dataclasses.dataclass
class Marked:
    """A pytree with something static."""

    part: Any
    mark: str = dataclasses.field(metadata={"static": True})


@gs.tree.register_dataclass
@dataclasses.dataclass(frozen=True)
class Fixed:
    """A pytree that cannot change."""

    part: Any


gs.tree_util.register_pytree_with_keys(
    Keyed,
    lambda x: ([(("part", n), part) for n, part in enumerate(x.parts)], None),
    lambda _, parts: Keyed(*parts),
)
gs.tree_util.register_pytree_node(Grown, lambda x: (list(x), None), lambda _, parts: Grown(parts))
for cls, parts_of in ((Table, dict), (Bag, vars)):
    gs.tree_util.register_pytree_node(
        cls,
        lambda x, parts_of=parts_of: (list(parts_of(x).values()), tuple(parts_of(x))),
        lambda names, parts, cls=cls: cls(**dict(zip(names, parts, strict=True))),
    )


def test_keys_of_any_kind_are_steps_of_paths() -> None:
    m = Plain()
    m.own = Keyed(nnx.Param(1.0), nnx.Cache(2.0))
    flat = nnx.to_flat_state(nnx.state(m))
    assert [path for path, _ in flat] == [("own", ("part", 0)), ("own", ("part", 1))]
    assert [x.value for _, x in flat] == [1, 2]


def test_lists_of_users_are_changed_where_they_are() -> None:
    m = Plain()
    m.grown = Grown([nnx.Param(gs.numpy.ones(2))])
    grown, first = m.grown, m.grown[0]

    @nnx.jit
    def step(m: Any) -> None:
        m.grown[0].value += 1
        m.grown.append(nnx.Cache(m.grown[0] * 2))

    step(m)
    assert m.grown is grown and grown[0] is first and type(grown) is Grown
    assert [type(x) for x in grown] == [nnx.Param, nnx.Cache]
    assert [x.value.tolist() for x in grown] == [[2, 2], [4, 4]]


def test_what_is_taken_from_users_containers_is_gone() -> None:
    m = Plain()
    m.table, m.bag = Table(a=parameter(), b=parameter()), Bag(a=parameter(), b=parameter())
    m.marked, m.items = Marked(parameter(), "old"), [parameter(), parameter()]
    before = [m.table, m.bag, m.marked, m.items]

    @nnx.jit
    def step(m: Any) -> None:
        del m.table["a"], m.bag.a
        m.table["c"], m.bag.c = m.table["b"], m.bag.b
        m.marked.mark = "new"
        m.items[1] = nnx.Cache(m.items[0] * 2)

    step(m)
    after = [m.table, m.bag, m.marked, m.items]
    assert all(x is y for x, y in zip(before, after, strict=True))
    assert list(m.table) == list(vars(m.bag)) == ["b", "c"] and m.marked.mark == "new"
    assert m.table["b"] is m.table["c"] and type(m.items[1]) is nnx.Cache


def test_others_take_the_place_of_what_cannot_change() -> None:
    m = Plain()
    m.fixed = Fixed(parameter())
    fixed, part = m.fixed, m.fixed.part
    nnx.jit(lambda m: object.__setattr__(m.fixed, "part", nnx.Cache(m.fixed.part * 2)))(m)
    assert fixed.part is part and m.fixed is not fixed
    assert type(m.fixed) is Fixed and m.fixed.part.value.tolist() == [2, 2]


def test_what_changes_between_two_splits_is_seen() -> None:
    m = Plain()
    m.items, m.a, m.b = [parameter()], parameter(), parameter()
    first = nnx.graphdef(m)
    m.items.append(parameter())
    assert nnx.graphdef(m).num_leaves == 4
    m.items.pop()
    assert nnx.graphdef(m) == first
    m.a.tag = "t"
    assert nnx.graphdef(m) != first and nnx.merge(*nnx.split(m)).a.tag == "t"
    for part, change in (
        (defaultdict(list), lambda x: setattr(x, "default_factory", dict)),
        (Both(1, 2), lambda x: setattr(x, "x", 3)),
        (Table(a=1), lambda x: x.update(b=2)),
    ):
        m = Plain()
        m.part = part
        first = nnx.graphdef(m)
        change(m.part)
        assert nnx.graphdef(m) == nnx.graphdef(nnx.clone(m)) != first


def test_the_order_of_attributes_says_nothing() -> None:
    m, other = Plain(), Plain()
    m.a, m.b = 1, 2
    other.b, other.a = 2, 1
    assert nnx.graphdef(m) == nnx.graphdef(other)


TEXT = """\
Plain(
  a=Param(float64[2]),
  arrays=(
    float64[2, 3],
    [1, 'x']
  ),
  again=Plain(...),
  cycle=[
    [...],
    Other()
  ],
  none=[],
  options={
    'k': {},
    3: Cache(1.5)
  }
)"""


def test_the_text_of_a_module_shows_each_container_once() -> None:
    m = Plain()
    m.a, m.arrays = nnx.Param(np.ones(2)), (gs.numpy.ones((2, 3)), [1, "x"])
    m.again, m.cycle, m.none = m, [], []
    m.cycle += [m.cycle, Other()]
    m.options = {"k": {}, 3: nnx.Cache(1.5)}
    assert repr(m) == TEXT
    assert repr(Plain()) == "Plain()"


def test_a_prefix_says_something_of_each_graph() -> None:
    m = Plain()
    m.a = nnx.Param(1.0)
    pure = nnx.to_tree((m, {"b": m, "c": nnx.Param(2.0)}))

    def merge(context: Any, path: Any, said: Any, own: Any) -> Any:
        return said, gs.tree.keystr(path), own.graphdef.num_leaves

    made = nnx.from_tree(pure, prefix=("x", {"b": None, "c": "y"}), merge_fn=merge)
    assert made[0] == ("x", "[0]", 1) and made[1]["b"] == (None, "[1]['b']", 0)
    assert made[1]["c"] == ("y", "[1]['c']", 1)
    assert nnx.from_tree(pure, prefix="z", merge_fn=merge)[1]["b"][0] == "z"
    assert repr(pure[0]) == f"NodeStates({pure[0].graphdef!r}, {pure[0].states!r})"
    assert "Plain: 1 node, 1 leaf" in repr(pure[0]) and "Param(1.0)" in repr(pure[0])


def test_one_graph_with_two_prefixes_may_be_wanted() -> None:
    m = module()
    with pytest.raises(ArgumentError, match="say the same of both"):
        nnx.to_tree((m, m), prefix=("x", "y"))
    pure = nnx.to_tree((m, m), prefix=("x", "y"), check_aliasing=False)
    assert [x.metadata for x in pure] == ["x", "y"]
    again = nnx.from_tree(pure, is_inner=True)
    assert again[0] is again[1] and difference(again[0], m) == ""
    only = nnx.StateSharding({nnx.Param: None})
    with pytest.raises(ArgumentError, match="flatten: no filter takes pair/0, part/mean;"):
        nnx.to_tree(m, prefix=only, check_aliasing=False)


def test_tags_are_those_of_contexts_around() -> None:
    m = module()
    with nnx.update_context("outer"):
        with nnx.update_context("inner"):
            pure = nnx.to_tree(m, ctxtag="outer")
            nnx.to_tree(m, ctxtag="inner")
        with pytest.raises(ArgumentError, match="ctxtag='inner'"):
            nnx.to_tree(m, ctxtag="inner")
        made = nnx.from_tree(pure, ctxtag="outer", is_inner=True)
        made.part.kernel.value = gs.numpy.zeros(2)
        back = nnx.from_tree(nnx.to_tree(made, ctxtag="outer"), ctxtag="outer", is_inner=False)
        assert back is m and m.part.kernel.value.tolist() == [0, 0]
    with pytest.raises(ArgumentError, match="ctxtag='outer'"):
        nnx.from_tree(pure, ctxtag="outer")
