"""What is shared in a graph stays shared, whatever container has it, and through each function."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import itertools
import random
from collections import OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, nnx
from gpushard.errors import ArgumentError, ArgumentTypeError, TraceContextError
from tests.nnx.graphs import Plain
from tests.share import seeds

MESH = gs.make_mesh((2,), "x")


class Slotted(nnx.Module):
    __slots__ = ("a", "b", "c")


class Pair(NamedTuple):
    a: Any
    b: Any


@gs.tree_util.register_dataclass
@dataclasses.dataclass
class Fields:
    a: Any
    b: Any


@gs.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any


@gs.tree_util.register_dataclass
@dataclasses.dataclass(slots=True)
class SlotFields:
    a: Any
    b: Any


class WithNote(SlotFields):
    """Has something that is no part."""

    __slots__ = ("note",)


gs.tree_util.register_dataclass(WithNote, ["a", "b"], [])


class Registered:
    """A node that a program registers."""

    def __init__(self, a: Any, b: Any) -> None:
        self.parts = [a, b]


class Named(dict[str, Any]):
    """A registered subclass of dict."""


gs.tree.register_node(
    Registered, lambda x: (tuple(x.parts), None), lambda aux, parts: Registered(*parts)
)
gs.tree.register_node(
    Named, lambda x: (tuple(x.values()), tuple(x)),
    lambda keys, parts: Named(zip(keys, parts, strict=True)),
)  # fmt: skip

OBJECTS = (nnx.Module, nnx.Variable, list, dict, nnx.State, Fields, Frozen, SlotFields, Registered)
MAKERS: dict[str, Any] = {
    "Module": lambda a, b: with_attributes(Plain(), a, b),
    "Slotted": lambda a, b: with_attributes(Slotted(), a, b),
    "list": lambda a, b: [a, b],
    "tuple": lambda a, b: (a, b),
    "named tuple": Pair,
    "dict": lambda a, b: {"b": b, "a": a},
    "dict of several types": lambda a, b: {"b": b, 1: a},
    "OrderedDict": lambda a, b: OrderedDict(b=b, a=a),
    "defaultdict": lambda a, b: defaultdict(list, b=b, a=a),
    "State": lambda a, b: nnx.State({"b": b, 1: a}),
    "dataclass": Fields,
    "frozen dataclass": Frozen,
    "dataclass with slots": SlotFields,
    "registered": Registered,
    "registered dict": lambda a, b: Named(b=b, a=a),
}


def with_attributes(m: Any, a: Any, b: Any) -> Any:
    m.a, m.b = a, b
    return m


def children(x: Any) -> list[tuple[Any, Any]]:
    """Return keys and parts of a node; the model knows Python's own types alone."""
    if isinstance(x, nnx.Variable | gs.Array | np.ndarray):
        return []
    if isinstance(x, nnx.Module):
        names = [name for name in "abc" if hasattr(x, name)]
        return [(name, getattr(x, name)) for name in names]
    if isinstance(x, dict | nnx.State):
        return list(x.items())
    if isinstance(x, list | tuple):
        return list(enumerate(x))
    if isinstance(x, Registered):
        return list(enumerate(x.parts))
    if dataclasses.is_dataclass(x):
        return [("a", x.a), ("b", x.b)]
    return []


def form(root: Any) -> Any:
    """Return what two graphs have in common that are alike: types, keys, values, and identities.

    Each object that is no tuple has a number when it is met first, and is that number afterwards.
    """
    numbers: dict[int, int] = {}
    keep = []

    def walk(x: Any) -> Any:
        keep.append(x)
        if isinstance(x, OBJECTS):
            if id(x) in numbers:
                return "same", numbers[id(x)]
            numbers[id(x)] = len(numbers)
        kind = type(x).__name__
        if isinstance(x, nnx.Variable):
            return kind, np.asarray(x.value).tolist()
        if isinstance(x, gs.Array | np.ndarray):
            return "array", np.asarray(x).tolist()
        parts = children(x)
        if not isinstance(x, (*OBJECTS, tuple)):
            return kind, repr(x)
        if isinstance(x, nnx.State | defaultdict) or type(x) is dict:
            parts = sorted(parts, key=repr_of_key)  # their order is not that of attributes
        return kind, [(key, walk(part)) for key, part in parts]

    return walk(root)


def repr_of_key(item: tuple[Any, Any]) -> str:
    return repr(item[0])


def random_graph(source: random.Random, *, arrays: bool = True) -> Any:
    """Return a Module whose parts are containers of every kind, which share what they have."""
    known: list[Any] = [nnx.Param(gnp.asarray(np.arange(4.0) + n)) for n in range(3)]
    if arrays:
        known.append(gnp.arange(4.0))
    for _ in range(source.randrange(3, 12)):
        kind = source.choice(list(MAKERS))
        known.append(MAKERS[kind](source.choice(known), source.choice([*known, None, 3])))
    root = Plain()
    root.a, root.b, root.c = known[-1], known[source.randrange(len(known))], known[:]
    for m in (x for x in known if isinstance(x, nnx.Module)):
        if source.random() < 0.5:
            m.c = source.choice([root, root.c, m])  # circles
    return root


def objects_in_order(root: Any) -> list[Any]:
    """Return objects by first path, each once."""
    seen: dict[int, Any] = {}

    def walk(x: Any) -> None:
        if isinstance(x, OBJECTS):
            if id(x) in seen:
                return
            seen[id(x)] = x
        for _, part in children(x):
            walk(part)

    walk(root)
    return list(seen.values())


def assign(root: Any) -> None:
    """Change each Variable, and put one object into each container that takes it."""
    objects = objects_in_order(root)
    boxes = [x for x in objects if isinstance(x, nnx.Variable)]
    new = nnx.Cache(boxes[0].value * 0)
    for n, x in enumerate(objects):
        if isinstance(x, nnx.Variable):
            x.value = x.value * 2 + n
        elif isinstance(x, list):
            x.append(new)
        elif isinstance(x, dict | nnx.State):
            x["new"] = new
        elif isinstance(x, nnx.Module):
            x.b = new
        elif isinstance(x, Fields | SlotFields):
            x.a = new
        elif isinstance(x, Registered):
            x.parts[0] = new


def mapped(f: Any, root: Any, **options: Any) -> Any:
    return nnx.shard_map(
        f, mesh=MESH, in_specs=(P("x"),), out_specs=P("x"), check_rep=False, **options
    )(root)


COPIES: dict[str, Any] = {
    "clone": nnx.clone,
    "merge": lambda root: nnx.merge(*nnx.split(root)),
    "merge of parts": lambda root: nnx.merge(*nnx.split(root, nnx.Param, ...)),
    "from_tree": lambda root: nnx.from_tree(nnx.to_tree(root)),
    "jit": lambda root: nnx.jit(lambda m: nnx.clone(m))(root),
    "eval_shape": lambda root: nnx.merge(
        nnx.graphdef(nnx.eval_shape(lambda m: m, root)), nnx.state(root)
    ),
    "vmap of states": lambda root: nnx.merge(
        nnx.graphdef(root), gs.vmap(lambda state: state)(nnx.state(root))
    ),
    "shard_map": lambda root: mapped(lambda m: nnx.clone(m), root),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("seed", seeds(24))
def test_copies_share_what_the_graph_shares(how: str, seed: int) -> None:
    root = random_graph(random.Random(seed))
    before = form(root)
    copy = COPIES[how](root)
    assert form(copy) == before == form(root)
    own = {id(x) for x in objects_in_order(root)}
    assert not any(id(x) in own for x in objects_in_order(copy))


FILTERED = nnx.StateSharding({nnx.Param: gs.NamedSharding(MESH, P("x")), ...: None})
CALLS: dict[str, Any] = {
    "jit": lambda f, root: nnx.jit(f)(root),
    "jit twice": lambda f, root: (nnx.jit(f)(nnx.clone(root)), nnx.jit(f)(root)),
    "jit in jit": lambda f, root: nnx.jit(lambda m: nnx.jit(f)(m))(root),
    "shard_map": mapped,
    "shard_map in jit": lambda f, root: nnx.jit(lambda m: mapped(f, m))(root),
    "compiled": lambda f, root: nnx.jit(f).lower(root).compile()(root),
    "jit with shardings": lambda f, root: nnx.jit(f, in_shardings=(FILTERED,))(root),
    "jit that donates": lambda f, root: nnx.jit(f, donate_argnums=0)(root),
    "shard_map with filters": lambda f, root: nnx.shard_map(
        f, mesh=MESH, in_specs=(nnx.StateSharding({nnx.Param: P("x"), ...: P("x")}),),
        out_specs=P(), check_rep=False,
    )(root),
    "by name": lambda f, root: nnx.jit(lambda *, m: f(m))(m=root),
    "as two arguments": lambda f, root: nnx.jit(lambda part, m: f(m))(
        with_attributes(Plain(), root.b, root.c), root
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", CALLS)
@pytest.mark.parametrize("seed", seeds(24))
def test_calls_change_the_graph_as_the_plain_call_does(how: str, seed: int) -> None:
    """Also what is shared, and each object that can be changed stays the same one."""
    root = random_graph(random.Random(seed))
    expected = nnx.clone(root)
    pairs = list(zip(objects_in_order(root), objects_in_order(expected), strict=True))
    assign(expected)
    before = form(root)
    try:
        CALLS[how](assign, root)
    except ArgumentError as error:  # several Variables may have one array
        assert how == "jit that donates" and "donates one array" in str(error)
        assert form(root) == before
        return
    assert form(root) == form(expected)
    found, wanted = ({id(x) for x in objects_in_order(each)} for each in (root, expected))
    for x, other in pairs:
        if not isinstance(x, Frozen):
            assert (id(x) in found) == (id(other) in wanted)


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if "tuple" not in kind])
@pytest.mark.parametrize("how", CALLS)
def test_a_change_by_one_name_shows_by_the_other(kind: str, how: str) -> None:
    m = Plain()
    m.a = m.b = MAKERS[kind](nnx.Param(gnp.ones(4)), nnx.Param(gnp.zeros(4)))
    m.c = [m.a]
    before = m.a
    CALLS[how](lambda m: assign(m.a), m)
    assert m.a is m.b is m.c[0]
    assert kind == "frozen dataclass" or m.a is before
    expected = Plain()
    expected.a = MAKERS[kind](nnx.Param(gnp.ones(4)), nnx.Param(gnp.zeros(4)))
    assign(expected.a)
    assert form(m.a) == form(expected.a)


ARGUMENTS = [*itertools.product((0, 1), repeat=3)]


@pytest.mark.parametrize("order", ARGUMENTS, ids=str)
@pytest.mark.parametrize("last", ["Module", "dict"])
def test_one_object_as_several_arguments_changes_once(order: Any, last: str) -> None:
    """Also in later calls, which know the graph."""
    kinds = [nnx.Linear(2, 2, rngs=nnx.Rngs(n)) for n in range(2)]
    given: list[Any] = [kinds[n] for n in order]
    if last == "dict":
        given[-1] = {"part": given[-1], "own": nnx.Param(gnp.zeros(2))}

    @nnx.jit
    def add(*modules: Any) -> list[int]:
        parts = [m["part"] if isinstance(m, dict) else m for m in modules]
        for m in parts:
            m.bias.value = m.bias.value + 1
        return [parts.index(m) for m in parts]

    for turn in range(1, 4):
        assert add(*given) == [order.index(n) for n in order]
        for n, module in enumerate(kinds):
            np.testing.assert_array_equal(module.bias.value, [turn * order.count(n)] * 2)


def test_what_a_new_object_lacks_is_gone() -> None:
    """A node that is made anew has what its parts give it, in slots as elsewhere."""
    kept = WithNote(nnx.Param(gnp.zeros(4)), nnx.Param(gnp.zeros(4)))
    kept.note = "of before"
    m = Plain()
    m.part = kept
    nnx.jit(lambda m: setattr(m.part, "a", nnx.Param(gnp.ones(4))))(m)
    assert m.part is kept and m.part.a.value.tolist() == [1] * 4
    assert not hasattr(m.part, "note")


@pytest.mark.parametrize("kind", ["dataclass", "registered", "frozen dataclass"])
def test_a_circle_through_what_is_made_of_its_parts_is_refused(kind: str) -> None:
    m = Plain()
    m.a = MAKERS[kind](m, 1)
    m.b = m.a
    root = m.a
    for function in (nnx.clone, nnx.split, nnx.state):
        with pytest.raises(ArgumentError, match="break the circle"):
            function(root)
    with pytest.raises(ArgumentError, match="break the circle"):
        nnx.clone([root])
    assert form(nnx.clone(m)) == form(m)  # from m the circle goes through a Module


@pytest.mark.parametrize("value", [
    type("Own", (dict,), {})(a=nnx.Param(1.0)), type("Own", (list,), {})([nnx.Param(1.0)]),
    deque([nnx.Linear(1, 1, rngs=nnx.Rngs(0))]), collections.UserDict(a=np.ones(2)),
    dataclasses.make_dataclass("Own", ["a"])(gnp.ones(2)),
    type("Own", (tuple,), {})([nnx.Param(1.0)]),
], ids=lambda x: type(x).__mro__[-2].__name__)  # fmt: skip
def test_a_container_that_is_none_here_is_refused(value: Any) -> None:
    m = Plain()
    m.part = Plain()
    m.part.items = value
    for function in (nnx.clone, nnx.split, nnx.state, nnx.graphdef, nnx.jit(lambda m: None)):
        with pytest.raises(ArgumentTypeError, match=r"at \.part\.items has a .*register"):
            function(m)


def change(x: Any, new: Any) -> None:
    """Put something into a container."""
    if isinstance(x, tuple):
        change(x[0], new)
    elif isinstance(x, list | deque):
        x.append(new)
    elif isinstance(x, set):
        x.add("new")
    else:
        x["new"] = new


INSIDE: dict[str, Any] = {
    "list": lambda: [1], "dict": lambda: {"a": 1, "b": 2}, "set": lambda: {1},
    "deque": lambda: deque([1]), "OrderedDict": lambda: OrderedDict(b=1, a=2),
    "defaultdict": lambda: defaultdict(int, a=1), "State": lambda: nnx.State({"a": 1}),
    "list in tuple": lambda: ([1],), "dict in tuple in list": lambda: ({"a": 1},),
}  # fmt: skip
FUNCTIONS: dict[str, Any] = {
    "gs.jit": lambda f: gs.jit(f)(1.0),
    "nnx.jit": lambda f: nnx.jit(f)(1.0),
    "vmap": lambda f: gs.vmap(f)(gnp.ones(2)),
    "shard_map": lambda f: gs.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(
        gnp.ones(2)
    ),
    "nnx.shard_map": lambda f: nnx.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(
        gnp.ones(2)
    ),
    "cond": lambda f: gs.lax.cond(True, f, lambda x: x, 1.0),
    "cond in jit": lambda f: gs.jit(lambda x: gs.lax.cond(x > 2, f, lambda x: x, x))(1.0),
    "fori_loop": lambda f: gs.lax.fori_loop(0, 3, lambda n, x: f(x), 1.0),
    "scan": lambda f: gs.lax.scan(lambda c, x: (f(c), x), 1.0, gnp.ones(3)),
    "eval_shape": lambda f: gs.eval_shape(f, 1.0),
}


@pytest.mark.parametrize("where", FUNCTIONS)
@pytest.mark.parametrize("kind", INSIDE)
def test_containers_of_captured_modules_cannot_be_changed(kind: str, where: str) -> None:
    m = Plain()
    m.part = Plain()
    m.part.items, m.part.box = INSIDE[kind](), nnx.Variable({"a": [1]})
    before = repr(m.part.items), repr(m.part.box.value)

    def f(x: Any) -> Any:
        change(m.part.items, x)
        return x

    def of_value(x: Any) -> Any:
        m.part.box.value["a"].append(x)
        return x

    def by_dict(x: Any) -> Any:
        vars(m.part)["other"] = x
        return x

    def fails(x: Any) -> Any:
        change(m.part.items, x)
        raise KeyError("own")

    for function in (f, of_value, by_dict):
        with pytest.raises(TraceContextError, match=r"m\.part"):
            FUNCTIONS[where](function)
    with pytest.raises(KeyError, match="own"):
        FUNCTIONS[where](fails)
    assert (repr(m.part.items), repr(m.part.box.value)) == before and not hasattr(m.part, "other")
    change(m.part.items, 5)  # outside it may
    assert repr(m.part.items) != before[0]


def test_an_item_of_a_captured_list_cannot_be_replaced() -> None:
    m = Plain()
    m.items = [1, 2]

    def f(x: Any) -> Any:
        m.items[0] = x
        return x

    with pytest.raises(TraceContextError, match="m"):
        gs.jit(f)(1.0)
    assert m.items == [1, 2]


@pytest.mark.parametrize("kind", INSIDE)
def test_containers_can_be_read_and_those_of_arguments_changed(kind: str) -> None:
    m = Plain()
    m.items = INSIDE[kind]()
    expected = INSIDE[kind]()
    change(expected, 5)
    assert nnx.jit(lambda x: x + len(m.items))(1.0) == 1 + len(m.items)
    m.box = nnx.Param(gnp.ones(2))

    def inner() -> int:
        local = Plain()
        local.items = INSIDE[kind]()
        change(local.items, 5)
        return len(local.items)

    assert gs.jit(lambda x: x + inner())(1.0) == 1 + len(expected)
    if kind in ("set", "deque"):
        return  # which have no hash, and so cannot be static
    nnx.jit(lambda m: change(m.items, 5))(m)
    assert repr(m.items) == repr(expected)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


KEYS: list[list[Any]] = [
    [1, "a", "b", 10, 9], [1, 1.5, "x"], [None, "a", 3], [(1, "a"), (1, 2), "z"],
    [Color.RED, Color.BLUE, "q"], [np.int64(3), 3.5, "k"], [True, "a", 5], [b"x", "x"],
    [frozenset([1]), 2], ["10", 10, "9", 9],
]  # fmt: skip


@pytest.mark.parametrize("keys", KEYS, ids=repr)
def test_keys_of_several_types(keys: list[Any]) -> None:
    """The order in which they are put in says nothing, and each function finds each leaf."""
    state = nnx.State({key: {"w": nnx.Param(gnp.full(4, n))} for n, key in enumerate(keys)})
    other = nnx.State({key: state[key] for key in reversed(keys)})
    flat = nnx.to_flat_state(state)
    assert [path for path, _ in flat] == [path for path, _ in nnx.to_flat_state(other)]
    assert gs.tree.structure(state) == gs.tree.structure(other)
    assert {path[0] for path, _ in flat} == set(keys) and len(flat) == len(keys)
    m = Plain()
    m.plain = {key: nnx.Param(gnp.full(4, n)) for n, key in enumerate(keys)}
    m.state = nnx.State({key: nnx.Param(gnp.full(4, n)) for n, key in enumerate(keys)})

    def change(m: Any) -> None:
        for key in keys:
            m.plain[key].value = m.plain[key].value + 10
            m.state[key][...] += 10

    rows = gs.NamedSharding(MESH, P("x"))
    places = nnx.StateSharding(nnx.map_state(lambda path, x: rows, nnx.state(m)))
    nnx.jit(change)(m)
    nnx.jit(change, in_shardings=(places,))(m)
    nnx.shard_map(change, mesh=MESH, in_specs=(P("x"),), out_specs=P())(m)
    graphdef, taken = nnx.split(m)
    for root in (m, nnx.merge(graphdef, taken), nnx.merge(graphdef, *nnx.split_state(
        taken, lambda path, x: path[0] == "plain", ...
    ))):  # fmt: skip
        for n, key in enumerate(keys):
            assert root.plain[key].value.tolist() == root.state[key].value.tolist() == [n + 30] * 4
    nnx.replace_by_pure_dict(taken, nnx.to_pure_dict(state_of_zeros(taken)))
    nnx.update(m, taken)
    assert not any(np.asarray(x.value).any() for x in [*m.plain.values(), *m.state.values()])


def state_of_zeros(state: nnx.State) -> nnx.State:
    return nnx.map_state(lambda path, x: x.replace(x.value * 0), state)


ROWS, WHOLE = gs.NamedSharding(MESH, P("x")), gs.NamedSharding(MESH, P())
EVERY = nnx.StateSharding({...: ROWS})
PREFIXES: dict[str, tuple[Any, bool]] = {
    "one for all": (ROWS, True),
    "a mapping and one": ((EVERY, ROWS), True),
    "each": ((ROWS, ROWS), True),
    "a list": ([ROWS, ROWS], True),
    "of parts": ((ROWS, nnx.StateSharding({(nnx.Param, gs.Array): ROWS})), True),
    "two": ((ROWS, WHOLE), False),
    "one and none": ((ROWS, None), False),
    "none and a mapping": ((None, EVERY), False),
    "two mappings": ((EVERY, nnx.StateSharding({...: WHOLE})), False),
}


def beside_array(w: Any) -> Any:
    m = Plain()
    m.array, m.w = gnp.ones(4), w
    return m


@pytest.mark.parametrize("kind", PREFIXES)
@pytest.mark.parametrize(
    "how", ["Param twice", "Module twice", "Param of it", "in a list", "beside arrays"]
)
def test_one_object_as_two_arguments_has_one_layout(kind: str, how: str) -> None:
    prefix, agree = PREFIXES[kind]
    m = Plain()
    m.w = nnx.Param(gnp.ones(4))
    first, second = {
        "Param twice": (m.w, m.w), "Module twice": (m, m), "Param of it": (m.w, m),
        "in a list": ([m.w], m), "beside arrays": (beside_array(m.w), beside_array(m.w)),
    }[how]  # fmt: skip

    def f(a: Any, b: Any) -> Any:
        boxes = [nnx.state([x]) for x in (a, b)]
        x, y = (gs.tree.leaves(box)[0] for box in boxes)
        return x + y

    if agree:
        assert nnx.jit(f, in_shardings=prefix)(first, second).tolist() == [2] * 4
        assert m.w.value.sharding == ROWS
    else:
        with pytest.raises(ArgumentError, match=r"^in_shardings: .*say the same of both"):
            nnx.jit(f, in_shardings=prefix)(first, second)
        assert m.w.value.sharding != ROWS


@pytest.mark.parametrize("fresh", [True, False])
def test_arguments_that_were_split_before_share_with_others(fresh: bool) -> None:
    first, other, last = (Plain() for _ in range(3))
    first.w = last.w = nnx.Param(gnp.ones(4))
    other.w = nnx.Param(gnp.ones(4))
    if not fresh:
        first.array = gnp.ones(4)
    nnx.split(other), nnx.split(last)

    @nnx.jit
    def step(*args: Any) -> Any:
        first, other, last = args
        nnx.split(first)
        first.w += 1
        return first.w is last.w, first.w is other.w

    assert step(first, other, last) == (True, False)
    assert first.w is last.w and first.w.value.tolist() == [2] * 4
    assert nnx.clone(last).w.value.tolist() == [2] * 4
    assert other.w.value.tolist() == [1] * 4


def test_what_refers_to_an_argument_that_changed_is_followed() -> None:
    first, other = Plain(), Plain()
    first.x, first.y = nnx.Param(gnp.ones(4)), nnx.Param(gnp.zeros(4))
    other.w, old = first.y, first.x

    @nnx.jit
    def step(first: Any, other: Any) -> None:
        first.x, first.y = first.y, first.x
        other.w = first.y

    step(first, other)
    assert other.w is first.y is old


def test_a_module_has_the_layout_of_each_call() -> None:
    m = Plain()
    m.w, m.part = nnx.Param(gnp.ones(4)), Plain()
    m.part.a = m.w
    for sharding in (ROWS, WHOLE, ROWS):
        m.w.value = gnp.ones(4)
        own = nnx.StateSharding({...: sharding})
        made = nnx.jit(lambda m: m.w.value + 1, in_shardings=(own,))(m)
        assert m.w.value.sharding == made.sharding == sharding
    m.w.value = gnp.ones(4)
    two = nnx.StateSharding({nnx.PathContains("a"): WHOLE, ...: ROWS})
    with pytest.raises(ArgumentError, match=r"^in_shardings: a Param is .*say the same of both"):
        nnx.jit(lambda m: None, in_shardings=(two,))(m)


class Caller(nnx.Module):
    """A Module with methods of others as attributes."""

    def __init__(self) -> None:
        self.act = self.triple = None
        self.part = nnx.Linear(4, 4, use_bias=False, rngs=nnx.Rngs(0))
        self.act, self.own, self.rest = self.part.__call__, self.twice, [self.part.__call__]

    def twice(self, x: Any) -> Any:
        return 2 * self.act(x)


@pytest.mark.parametrize("how", COPIES)
def test_methods_of_modules_are_those_of_the_copies(how: str) -> None:
    m = Caller()
    if how == "shard_map":
        m.part.kernel.value = gnp.ones((4, 4))
    copy = COPIES[how](m)
    assert copy.act.__self__ is copy.rest[0].__self__ is copy.part is not m.part
    assert copy.own.__self__ is copy and copy.own.__func__ is Caller.twice
    assert [path for path, _ in nnx.to_flat_state(nnx.state(m))] == [("part", "kernel")]


def test_methods_in_traced_functions_see_new_values() -> None:
    m, x = Caller(), gnp.ones((1, 4))
    call = nnx.jit(lambda m, x: (m.own(x), m.act(x), m.rest[0](x), m.part(x)))
    for value in (1, 0, 3):
        m.part.kernel.value = gnp.full((4, 4), float(value))
        assert [y[0, 0].item() for y in call(m, x)] == [8.0 * value, *[4.0 * value] * 3]
    nnx.jit(lambda m: setattr(m.act.__self__, "name", "new"))(m)
    assert m.part.name == "new"
    only = Plain()
    only.layer = nnx.Linear(4, 4, rngs=nnx.Rngs(0)).__call__
    assert len(nnx.to_flat_state(nnx.state(only))) == 2  # found through the method alone


@pytest.mark.parametrize("bind", [
    lambda m: functools.partial(Caller.twice, m.part), lambda m: functools.partial(m.part.__call__),
    lambda m: functools.partial(max, key=m.part), lambda m: frozenset([m.part]),
])  # fmt: skip
def test_modules_that_static_values_hide_are_refused(bind: Any) -> None:
    m = Caller()
    m.hidden = bind(m)
    for function in (nnx.clone, nnx.split, nnx.jit(lambda m: None)):
        with pytest.raises(ArgumentTypeError, match=r"at \.hidden has a"):
            function(m)
