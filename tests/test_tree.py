"""Pytrees, against a recursive model that is too simple to be wrong."""

import dataclasses
import pickle
import threading
from collections import Counter, OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard import tree, tree_util
from gpushard.errors import ArgumentTypeError, GpushardError, TreeError


class Point(NamedTuple):
    x: Any
    y: Any


class Box:
    """Registered, with aux data."""

    def __init__(self, label: str, *content: Any) -> None:
        self.label, self.content = label, content


tree.register_node(Box, lambda box: (iter(box.content), box.label), lambda a, c: Box(a, *c))


@tree.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: Any
    name: str = dataclasses.field(metadata={"static": True})
    bias: Any = None


def parts(node: Any) -> tuple[Any, list[Any]] | None:
    """Model: what tells a node from others of its type, and its children; None for a leaf."""
    match node:
        case None:
            return None, []
        case Box():
            return node.label, list(node.content)
        case Layer():
            return node.name, [node.weight, node.bias]
        case OrderedDict():
            return list(node), list(node.values())
        case defaultdict():
            return (node.default_factory, sorted(node)), [node[k] for k in sorted(node)]
        case dict():
            return sorted(node), [node[k] for k in sorted(node)]
        case tuple() | list():
            return None, list(node)
    return None


def model_leaves(node: Any) -> list[Any]:
    inner = parts(node)
    return [node] if inner is None else [x for child in inner[1] for x in model_leaves(child)]


def model_structure(node: Any) -> Any:
    inner = parts(node)
    return "*" if inner is None else (type(node), inner[0], [model_structure(c) for c in inner[1]])


def root(node: Any) -> Any:
    """Model: what two nodes have in common unless they clash at once."""
    inner = parts(node)
    return inner and (type(node), inner[0], len(inner[1]))


def same(one: Any, other: Any) -> bool:
    """Model equality, which unlike `==` tells an OrderedDict from a dict."""
    return (model_structure(one), model_leaves(one)) == (
        model_structure(other),
        model_leaves(other),
    )


def nodes(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(children, max_size=3)
    dicts = st.dictionaries(st.sampled_from("cab"), children, max_size=3)
    return st.one_of(
        lists,
        lists.map(tuple),
        dicts,
        dicts.map(OrderedDict),
        st.builds(defaultdict, st.sampled_from([int, list, None]), dicts),
        st.builds(Point, children, children),
        st.builds(lambda label, content: Box(label, *content), st.sampled_from("pq"), lists),
        st.builds(Layer, children, st.sampled_from("pq"), children),
    )


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(leaves | st.none(), nodes, max_leaves=12)


INTS = st.integers(0, 9)
TREES = trees(INTS)


@given(TREES)
def test_leaves_come_in_the_order_of_the_model(value: Any) -> None:
    leaves, treedef = tree.flatten(value)
    assert leaves == tree.leaves(value) == model_leaves(value)
    assert treedef == tree.structure(value)
    assert treedef.num_leaves == len(leaves)


@given(TREES)
def test_unflatten_undoes_flatten(value: Any) -> None:
    leaves, treedef = tree.flatten(value)
    assert same(tree.unflatten(treedef, leaves), value)


@given(TREES)
def test_leaves_of_any_kind_can_be_put_in(value: Any) -> None:
    treedef = tree.structure(value)
    leaves = [[i] for i in range(treedef.num_leaves)]
    rebuilt = tree.unflatten(treedef, iter(leaves))
    assert tree.leaves(rebuilt, is_leaf=lambda x: type(x) is list and x in leaves) == leaves


@given(TREES)
def test_map_changes_each_leaf_and_nothing_else(value: Any) -> None:
    mapped = tree.map(lambda x: 2 * x + 1, value)
    assert model_leaves(mapped) == [2 * x + 1 for x in model_leaves(value)]
    assert model_structure(mapped) == model_structure(value)


@given(TREES, st.data())
def test_map_passes_the_subtrees_of_the_rest(value: Any, data: st.DataObject) -> None:
    size = len(model_leaves(value))
    subtrees = data.draw(st.lists(TREES, min_size=size, max_size=size))
    deeper = tree.unflatten(tree.structure(value), subtrees)
    seen: list[Any] = []
    tree.map(lambda *xs: seen.append(xs), value, deeper, value)
    assert len(seen) == size
    for (leaf, subtree, again), expected, want in zip(
        seen, model_leaves(value), subtrees, strict=True
    ):
        assert leaf is again is expected
        assert same(subtree, want)


@given(TREES, TREES)
def test_structures_are_equal_as_in_the_model(one: Any, other: Any) -> None:
    first, second = tree.structure(one), tree.structure(other)
    equal = model_structure(one) == model_structure(other)
    assert (first == second) is equal
    assert (first != second) is not equal
    assert (repr(first) == repr(second)) is equal


@given(TREES)
def test_equal_structures_have_equal_hashes(value: Any) -> None:
    first, second = tree.structure(value), tree.structure(tree.map(lambda x: x + 1, value))
    assert first == second
    assert hash(first) == hash(second)
    assert {first: 1}[second] == 1


def test_unequal_structures_rarely_share_a_hash() -> None:
    values = [(), [], {}, None, 0, (0,), [0], {"a": 0}, {"b": 0}, Box("p"), Box("q"), Point(0, 0)]
    assert len({hash(tree.structure(value)) for value in values}) == len(values)


def test_a_structure_equals_no_other_object() -> None:
    assert tree.structure(0) != "TreeDef(*)"


@given(TREES)
def test_structures_survive_pickling(value: Any) -> None:
    treedef = tree.structure(value)
    assert pickle.loads(pickle.dumps(treedef)) == treedef


@given(TREES)
def test_children_are_the_structures_of_the_children(value: Any) -> None:
    inner = parts(value)
    expected = [] if inner is None else [tree.structure(child) for child in inner[1]]
    children = tree.structure(value).children()
    assert children == expected
    assert [c.num_leaves for c in children] == [e.num_leaves for e in expected]


@given(TREES.filter(lambda value: "Box" not in repr(tree.structure(value))))
def test_a_key_path_is_python_for_the_leaf(value: Any) -> None:
    unique = tree.map(lambda _: object(), value)
    pairs, treedef = tree.flatten_with_path(unique)
    assert treedef == tree.structure(value)
    assert [leaf for _, leaf in pairs] == model_leaves(unique)
    for path, leaf in pairs:
        assert eval(f"unique{tree.keystr(path)}", {"unique": unique}) is leaf


def test_key_paths_hold_their_keys() -> None:
    [(path, _)], _ = tree.flatten_with_path([{"a": Point(Box("p", 1), None)}])
    assert tree.keystr(path) == "[0]['a'].x[<flat index 0>]"
    assert path == (
        tree.SequenceKey(0),
        tree.DictKey("a"),
        tree.GetAttrKey("x"),
        tree.FlattenedIndexKey(0),
    )
    assert tree.keystr(path, simple=True, separator=".") == "0.a.x.0"


def test_what_a_reduction_of_nothing_and_a_transpose_need() -> None:
    with pytest.raises(TreeError, match="give an initializer"):
        tree.reduce(max, [None])
    with pytest.raises(TreeError, match="give inner_treedef too"):
        tree.transpose(tree.structure([]), None, [])
    with pytest.raises(TreeError, match="inner_treedef"):
        tree.transpose(tree.structure([0, 0]), None, [{"a": 1}, {"b": 2}])
    with pytest.raises(ArgumentTypeError, match=r"^transpose: inner_treedef=\[0\] must be a str"):
        tree.transpose(tree.structure([0, 0]), [0], [[1], [2]])  # type: ignore[arg-type]
    assert tree.transpose(tree.structure([0]), None, [{"a": 1, "b": 2}]) == {"a": [1], "b": [2]}


class Pole:
    """A node that says what its children are called."""

    def __init__(self, top: Any, foot: Any) -> None:
        self.top, self.foot = top, foot

    def tree_flatten(self) -> tuple[tuple[Any, Any], None]:
        return (self.top, self.foot), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: Any) -> "Pole":
        return cls(*children)


class Staff(Pole):
    """The same, registered with keys."""


@tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Unit:
    """Part of the structure."""

    name: str


def test_nodes_under_the_names_of_jax() -> None:
    tree_util.register_pytree_node_class(Pole)
    keys = [tree.GetAttrKey("top"), tree.GetAttrKey("foot")]
    tree_util.register_pytree_with_keys(
        Staff,
        lambda s: (zip(keys, (s.top, s.foot), strict=True), "aux"),
        lambda aux, children: Staff(*children) if aux == "aux" else None,
    )
    value = [Pole(1, 2), Staff(3, (4, Unit("m")))]
    doubled = tree_util.tree_map(lambda x: 2 * x, value)
    assert tree_util.tree_leaves(doubled) == [2, 4, 6, 8]
    assert doubled[1].foot[1] == Unit("m")
    assert tree.structure(doubled) == tree.structure(value) != tree.structure([Pole(1, 2), 3])
    texts = [tree_util.keystr(path) for path, _ in tree_util.tree_leaves_with_path(value)]
    assert texts == ["[0][<flat index 0>]", "[0][<flat index 1>]", "[1].top", "[1].foot[0]"]
    assert "Staff['aux']" in repr(tree.structure(value))
    assert tree.structure(value[1]).node_data() == (Staff, "aux")


@given(TREES)
def test_is_leaf_keeps_nodes_whole(value: Any) -> None:
    def is_list(node: Any) -> bool:
        return type(node) is list

    def model(node: Any) -> list[Any]:
        inner = parts(node)
        if inner is None or is_list(node):
            return [node]
        return [x for child in inner[1] for x in model(child)]

    leaves, treedef = tree.flatten(value, is_leaf=is_list)
    assert [id(leaf) for leaf in leaves if is_list(leaf)] == [
        id(leaf) for leaf in model(value) if is_list(leaf)
    ]
    assert len(leaves) == len(model(value))
    assert same(tree.unflatten(treedef, leaves), value)


def test_is_leaf_makes_none_a_leaf() -> None:
    def is_none(node: Any) -> bool:
        return node is None

    assert tree.leaves([1, None]) == [1]
    assert tree.leaves([1, None], is_leaf=is_none) == [1, None]
    assert tree.leaves(None, is_leaf=is_none) == [None]
    assert tree.structure([1, None], is_leaf=is_none) == tree.structure([0, 0])
    assert tree.map(is_none, [1, None], is_leaf=is_none) == [False, True]
    pairs, _ = tree.flatten_with_path([1, None], is_leaf=is_none)
    assert [tree.keystr(path) for path, _ in pairs] == ["[0]", "[1]"]


def prune(data: st.DataObject, full: Any, fresh: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """Replace subtrees by fresh leaves; also return what each leaf of `full` should get."""
    inner = parts(full)
    if inner is None or data.draw(st.integers(0, 3)) == 0:
        leaf = fresh()
        return leaf, [leaf] * len(model_leaves(full))
    pruned = [prune(data, child, fresh) for child in inner[1]]
    one_level = tree.structure(full, is_leaf=lambda node: node is not full)
    prefix = tree.unflatten(one_level, [p for p, _ in pruned])
    return prefix, [leaf for _, wanted in pruned for leaf in wanted]


@given(TREES, st.data())
def test_broadcast_prefix_repeats_each_leaf(full: Any, data: st.DataObject) -> None:
    prefix, expected = prune(data, full, object)
    assert tree.broadcast_prefix(prefix, full) == expected


@given(TREES, st.data())
def test_flatten_up_to_cuts_where_the_prefix_ends(full: Any, data: st.DataObject) -> None:
    prefix, _ = prune(data, full, object)
    treedef = tree.structure(prefix)
    subtrees = treedef.flatten_up_to(full)
    assert same(tree.unflatten(treedef, subtrees), full)


def test_broadcast_prefix_asks_is_leaf_about_the_prefix_only() -> None:
    def is_pair(node: Any) -> bool:
        return type(node) is tuple and len(node) == 2

    full = [(0, 0), 0]
    assert tree.broadcast_prefix([("x", "y"), "z"], full, is_pair) == [("x", "y"), ("x", "y"), "z"]


class Hole:
    """Marks a place in a tree."""


HOLE = Hole()
WITH_HOLE = trees(INTS | st.just(HOLE)).filter(lambda value: HOLE in model_leaves(value))
CLASHES = st.tuples(TREES.filter(root), TREES).filter(lambda pair: root(pair[0]) != root(pair[1]))


@given(WITH_HOLE, CLASHES)
def test_a_clash_is_found_where_it_is(value: Any, clash: tuple[Any, Any]) -> None:
    pairs, _ = tree.flatten_with_path(value)
    path = next(tree.keystr(path) for path, leaf in pairs if leaf is HOLE)
    ours, theirs = (tree.map(lambda x, c=c: c if x is HOLE else x, value) for c in clash)
    with pytest.raises(TreeError) as caught:
        tree.broadcast_prefix(ours, theirs, names=("specs", "arrays"))
    error = caught.value
    assert (error.argument, error.path) == ("specs", path)
    assert (error.prefix, error.full) == (tree.structure(clash[0]), tree.structure(clash[1]))
    assert f"specs{path} is " in str(error)
    assert f"arrays{path} is " in str(error)


@pytest.mark.parametrize(
    ("prefix", "full", "texts"),
    [
        ([1, {"a": 1}], [1, {"b": 1}], ["only p has: ['a']", "only f has: ['b']", "p[1] is {'a'"]),
        ({"a": 1, "b": 1}, {"a": 1}, ["only p has: ['b']", "only f has: none"]),
        ({"a": 1}, {"a": 1, "b": 1}, ["only p has: none", "only f has: ['b']"]),
        ([1, 2], (1, 2, 3), ["[*, *] (list of size 2)", "(*, *, *) (tuple of size 3)"]),
        ([1, None], [1, 2], ["p[1] is None (a node without leaves) but f[1] is a leaf (int)"]),
        (Layer(1, "p"), Layer(1, "q"), ["name='p'", "name='q'"]),
        (Box("p", 1), Box("q", 1), ["Box['p'](*)", "Box['q'](*)"]),
        (
            defaultdict(int, a=1),
            defaultdict(bool, a=1),
            ["defaultdict(<class 'int'>, {'a': *})", "defaultdict(<class 'bool'>, {'a': *})"],
        ),
    ],
)
def test_a_clash_is_described(prefix: Any, full: Any, texts: list[str]) -> None:
    with pytest.raises(TreeError) as caught:
        tree.broadcast_prefix(prefix, full, names=("p", "f"))
    for text in [*texts, "one leaf in place of all of it"]:
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("prefix", "full"),
    [
        ({"a": 1}, defaultdict(int, a=1)),
        ({"a": 1}, OrderedDict(a=1)),
        ({"a": 1}, Counter(a=1)),
        ((1, 2), Point(1, 2)),
        (Point(1, 2), type("Sub", (Point,), {})(1, 2)),
    ],
)
def test_types_must_match_exactly(prefix: Any, full: Any) -> None:
    with pytest.raises(TreeError, match="prefix_tree is not a prefix of full_tree"):
        tree.broadcast_prefix(prefix, full)


def test_a_clash_of_large_trees_has_a_short_message() -> None:
    large = {f"key{i}": i for i in range(1000)}
    with pytest.raises(TreeError) as caught:
        tree.broadcast_prefix(large, large | {"extra": 0})
    assert "only full_tree has: ['extra']" in str(caught.value)
    assert len(str(caught.value)) < 1000
    shown = repr(tree.structure(large))[len("TreeDef(") :]
    assert f"prefix_tree is {shown[:200]}... (dict of size 1000)" in str(caught.value)
    whole = [1] * 64 + [[], []]  # as text 200 characters long
    with pytest.raises(TreeError, match=r"\[\], \[\]\] \(list of size 66\)"):
        tree.broadcast_prefix(whole, whole[1:])


def test_map_names_the_tree_that_differs() -> None:
    with pytest.raises(TreeError, match=r"tree is not a prefix of rest\[1\]: tree\[0\] is"):
        tree.map(lambda *xs: xs, [[1]], [[2]], [3])


@pytest.mark.parametrize("given_leaves", [[], [1], [1, 2, 3]])
def test_unflatten_counts_the_leaves(given_leaves: list[int]) -> None:
    with pytest.raises(TreeError, match=r"\[\*, \(\*,\)\]") as caught:
        tree.unflatten(tree.structure([0, (0,)]), given_leaves)
    assert (caught.value.expected, caught.value.given) == (2, len(given_leaves))


@pytest.mark.parametrize("value", [{1: 0, "a": 0}, defaultdict(int, {1: 0, "a": 0})])
def test_keys_that_do_not_sort_are_refused(value: Any) -> None:
    with pytest.raises(TreeError, match="of type int, str") as caught:
        tree.flatten([value])
    assert set(caught.value.keys) == {1, "a"}
    assert isinstance(caught.value, (GpushardError, ValueError))


def test_an_ordered_dict_keeps_keys_that_do_not_sort() -> None:
    assert tree.leaves(OrderedDict({1: "x", "a": "y"})) == ["x", "y"]


@pytest.mark.parametrize(
    "leaf", [Counter(a=1), type("L", (list,), {})(), type("T", (tuple,), {})((1,)), "ab", {1, 2}]
)
def test_subclasses_and_other_containers_are_leaves(leaf: Any) -> None:
    assert tree.leaves(leaf) == [leaf]
    assert tree.leaves([leaf]) == [leaf]
    assert tree.structure(leaf) == tree.structure(0)


def test_every_named_tuple_is_a_node() -> None:
    other = namedtuple("other", ["a"])
    sub = type("Sub", (Point,), {})
    assert tree.flatten(other(1)) == ([1], tree.structure(other(0)))
    assert type(tree.map(lambda x: x, sub(1, 2))) is sub
    assert tree.structure(sub(1, 2)) != tree.structure(Point(1, 2))
    assert tree.structure(Point(1, 2)) != tree.structure((1, 2))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "*"),
        (None, "None"),
        ((), "()"),
        ((0,), "(*,)"),
        ([0, [0]], "[*, [*]]"),
        ({"b": 0, "a": (0, None)}, "{'a': (*, None), 'b': *}"),
        (OrderedDict(b=0, a=0), "OrderedDict({'b': *, 'a': *})"),
        (Point(0, [0]), "Point(x=*, y=[*])"),
        (Layer(0, "out"), "Layer(weight=*, bias=None, name='out')"),
        (Box("p", 0, 0), "Box['p'](*, *)"),
    ],
)
def test_structures_are_readable(value: Any, text: str) -> None:
    assert repr(tree.structure(value)) == f"TreeDef({text})"


def test_a_list_that_changes_while_it_is_walked() -> None:
    value = [(1,), (2,)]

    def growing(node: Any) -> bool:
        if len(value) < 10:
            value.append((3,))
        return False

    leaves, treedef = tree.flatten(value, is_leaf=growing)
    assert treedef.num_leaves == len(leaves)
    assert tree.leaves(tree.unflatten(treedef, leaves)) == leaves


def nested(depth: int) -> Any:
    value: Any = 7
    for _ in range(depth):
        value = [value]
    return value


def test_deep_trees_need_no_recursion() -> None:
    value = nested(5_000)
    leaves, treedef = tree.flatten(value)
    assert leaves == [7]
    assert treedef == tree.structure(nested(5_000))
    assert treedef != tree.structure(nested(4_999))
    assert hash(treedef) == hash(tree.structure(nested(5_000)))
    assert len(repr(treedef)) == len("TreeDef(*)") + 2 * 5_000
    assert tree.leaves(tree.map(lambda x: x + 1, value)) == [8]
    assert tree.broadcast_prefix(value, value) == [7]


def cycles() -> list[Any]:
    own: list[Any] = [1]
    own.append(own)
    doubled: list[Any] = []
    doubled += [doubled, doubled]
    first: dict[str, Any] = {}
    first["a"] = (Point(first, 1), [2])
    long: list[Any] = []
    long.append([nested(60), nested(0)])
    inner = long[0][0]
    while type(inner[0]) is list:
        inner = inner[0]
    inner[0] = long
    return [own, doubled, first, long, [0, [own]]]


@pytest.mark.parametrize("value", cycles())
def test_a_container_that_holds_itself_is_refused(value: Any) -> None:
    with pytest.raises(TreeError, match="contains itself"):
        tree.flatten(value)
    with pytest.raises(TreeError, match="contains itself"):
        tree.broadcast_prefix([0], [value])


def test_is_leaf_can_stop_above_a_cycle() -> None:
    own: list[Any] = []
    own.append(own)
    assert tree.leaves((own, 1), is_leaf=lambda node: type(node) is list) == [own, 1]


def test_a_shared_subtree_is_no_cycle() -> None:
    shared = nested(30)
    assert tree.leaves([shared, shared, [shared]]) == [7, 7, 7]


def test_an_endless_tree_is_refused() -> None:
    class Endless:
        pass

    tree.register_node(Endless, lambda _: ((Endless(),), None), lambda *_: Endless())
    with pytest.raises(TreeError, match="more than 10000 levels") as caught:
        tree.flatten(Endless())
    assert caught.value.depth == 10_000


@pytest.mark.parametrize("cls", [list, tuple, dict, type(None), OrderedDict, Box, Layer])
def test_a_class_is_registered_once(cls: type) -> None:
    before = tree.flatten([1, (2,), {"a": 3}, Box("p", 4), Layer(5, "p")])
    with pytest.raises(TreeError, match=f"{cls.__qualname__} is already registered") as caught:
        tree.register_node(cls, lambda _: ((), None), lambda *_: None)
    assert caught.value.cls is cls
    assert tree.flatten([1, (2,), {"a": 3}, Box("p", 4), Layer(5, "p")]) == before


def test_of_many_threads_one_registers_a_class() -> None:
    for _ in range(20):
        cls = type("Fresh", (), {})
        barrier = threading.Barrier(8)

        def register(_: int, cls: type = cls, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            try:
                tree.register_node(cls, lambda _: ((), None), lambda *_: None)
            except TreeError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(register, range(8))) == 1


def test_a_flatten_function_must_return_a_pair() -> None:
    class Wrong:
        pass

    tree.register_node(Wrong, lambda _: [1, 2], lambda *_: Wrong())  # type: ignore[arg-type,return-value]
    with pytest.raises(TreeError, match=r"Wrong returned a list; return the tuple \(children, aux"):
        tree.flatten(Wrong())


def test_children_of_a_registered_class_arrive_as_a_tuple() -> None:
    class Wrapped:
        def __init__(self, content: Any) -> None:
            self.content = content

    tree.register_node(Wrapped, lambda w: (w.content, None), lambda _, children: Wrapped(children))
    assert tree.map(lambda x: x + 1, Wrapped([1, 2])).content == (2, 3)


def test_a_structure_of_an_unregistered_class_says_so() -> None:
    class Unknown:
        pass

    treedef = tree.TreeDef(((Unknown, None, 0),), 0)
    for use in (repr, lambda t: t.unflatten([]), lambda t: t.flatten_up_to(Unknown())):
        with pytest.raises(TreeError, match="call register_node or register_dataclass") as caught:
            use(treedef)
        assert caught.value.cls is Unknown


def test_a_class_with_both_lists_need_not_be_a_dataclass() -> None:
    class Plain:
        def __init__(self, data: Any, meta: Any) -> None:
            self.data, self.meta = data, meta

    assert tree.register_dataclass(Plain, ["data"], ["meta"]) is Plain
    rebuilt = tree.map(lambda x: x + 1, Plain((1, 2), "m"))
    assert (rebuilt.data, rebuilt.meta) == ((2, 3), "m")


def test_dataclass_lists_replace_the_marks() -> None:
    @dataclasses.dataclass
    class Marked:
        a: Any
        b: Any = dataclasses.field(metadata={"static": True})

    tree.register_dataclass(Marked, data_fields=["b"], meta_fields=["a"])
    assert tree.flatten(Marked("m", 1)) == ([1], tree.structure(Marked("m", 2)))


@dataclasses.dataclass
class Three:
    a: Any
    b: Any
    c: Any = dataclasses.field(init=False, default=0)


@pytest.mark.parametrize(
    ("lists", "facts"),
    [
        ((["a"], []), {"missing": ["b"]}),
        ((["a", "b", "z"], []), {"unexpected": ["z"]}),
        ((["a", "b"], ["b"]), {"repeated": ["b"]}),
        ((None, None), {"unexpected": ["c"]}),
    ],
)
def test_dataclass_fields_are_checked(lists: Any, facts: dict[str, list[str]]) -> None:
    with pytest.raises(TreeError, match="Three") as caught:
        tree.register_dataclass(Three, *lists)
    none: dict[str, list[str]] = {"missing": [], "unexpected": [], "repeated": []}
    found = {name: getattr(caught.value, name) for name in none}
    assert found == none | facts
    assert tree.structure(Three(1, 2)) == tree.structure(0)


@pytest.mark.parametrize("lists", [(["a"], None), (None, ["a"])])
def test_dataclass_lists_come_together(lists: Any) -> None:
    with pytest.raises(TreeError, match="give both or, for a dataclass, neither"):
        tree.register_dataclass(Three, *lists)


@pytest.mark.parametrize("argument", ["data_fields", "meta_fields", "drop_fields"])
def test_names_of_fields_are_sequences(argument: str) -> None:
    lists = {"data_fields": ["a"], "meta_fields": ["b"]} | {argument: 3}
    with pytest.raises(ArgumentTypeError, match=f"{argument}=3 must be a sequence of names"):
        tree.register_dataclass(Three, **lists)


@pytest.mark.parametrize(
    "register", ["register_node", "register_node_with_keys", "register_dataclass"]
)
def test_what_is_registered_is_a_class(register: str) -> None:
    how = () if register == "register_dataclass" else (lambda x: ((), None), lambda aux, _: 3)
    with pytest.raises(ArgumentTypeError, match=f"{register}: nodetype=3 must be a class"):
        getattr(tree, register)(3, *how)
    with pytest.raises(ArgumentTypeError, match="map_with_path: f=3 must be a function"):
        tree.map_with_path(3, [1])  # type: ignore[arg-type]


def test_a_class_that_is_no_dataclass_needs_the_lists() -> None:
    with pytest.raises(TreeError, match="give both or, for a dataclass, neither"):
        tree.register_dataclass(Hole)


def test_children_by_the_name_of_jax() -> None:
    structure = tree_util.tree_structure([1, (2, 3)])
    assert tree_util.treedef_children(structure) == structure.children()
    assert len(structure.children()) == 2
    assert tree_util.treedef_children(tree_util.tree_structure(1)) == []


def test_the_package_lists_the_names_of_its_modules() -> None:
    modules = (tree.functions, tree.node, tree.register, tree.treedef)
    assert dir(tree) == sorted(name for module in modules for name in module.__all__)
    assert {"flatten", "keystr", "register_node", "TreeDef"} <= {*dir(tree)}


def test_keys_of_other_kinds_are_shown_as_they_are() -> None:
    assert tree_util.keystr((3, "x"), simple=True, separator="/") == "3/x"


def test_cycles_are_said_to_be_through_the_innermost_container() -> None:
    cycle: dict[str, Any] = {}
    cycle["again"] = cycle
    with pytest.raises(TreeError, match="through a dict"):
        tree.flatten([([cycle],)])
    ring: list[Any] = []
    ring.append({"a": ring})  # the container that is reached when cycles are looked for
    with pytest.raises(TreeError, match="through a list"):
        tree.flatten(ring)


TREE = {"a": [1, (2, None)], "b": Box("l", 3, [4]), "c": Point(5, {}), "d": Layer(6, "n", [7])}


def test_is_leaf_may_look_at_paths() -> None:
    seen = []

    def at(path: Any, x: Any) -> bool:
        seen.append((tree.keystr(path), x))
        return tree.keystr(path) in ("['a'][1]", "['c'].y", "['d'].weight")

    pairs, treedef = tree.flatten_with_path(TREE, at, is_leaf_takes_path=True)
    wanted, whole = tree.flatten_with_path(TREE, lambda x: x is TREE["a"][1] or x == {})
    assert pairs == wanted and treedef == whole
    assert treedef.num_leaves == len(pairs) == 8
    assert tree.unflatten(treedef, [x for _, x in pairs])["a"] == TREE["a"]
    assert ("", TREE) in seen and ("['d'].bias", [7]) in seen
    every, same = tree.flatten_with_path(TREE, lambda path, x: False, is_leaf_takes_path=True)
    assert (every, same) == tree.flatten_with_path(TREE)
    nothing = tree.flatten_with_path(TREE, lambda path, x: path == (), is_leaf_takes_path=True)
    assert nothing[0] == [((), TREE)]


def test_is_leaf_of_paths_finds_no_end_of_a_cycle() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    with pytest.raises(TreeError, match=r"contains itself \(through a list\)"):
        tree.flatten_with_path(circle, lambda path, x: False, is_leaf_takes_path=True)
    pairs, _ = tree.flatten_with_path(
        circle, lambda path, x: len(path) > 2, is_leaf_takes_path=True
    )
    assert [tree.keystr(path) for path, _ in pairs] == ["[0]", "[1][0]", "[1][1][0]", "[1][1][1]"]


@pytest.mark.parametrize("value", [1, None, [], {}, (1, [None, []]), [{}, ((), 2)], TREE])
def test_nodes_are_counted_and_walked(value: Any) -> None:
    values, treedef = tree.flatten(value)

    def nodes(x: Any) -> int:
        found = parts(x)
        return 1 + (0 if found is None else sum(map(nodes, found[1])))

    assert treedef.num_nodes == nodes(value)
    count = treedef.walk(lambda children, aux: 1 + sum(children), lambda leaf: 1, values)
    assert count == nodes(value)


def test_reductions_begin_with_what_is_given() -> None:
    def joined(a: Any, b: Any) -> str:
        return f"({a}{b})"

    assert tree.reduce(joined, [1, (2, 3)], "x") == "(((x1)2)3)"
    assert tree.reduce(joined, [None], "x") == "x" and tree.reduce(joined, [1], None) == "(None1)"
    assert tree.reduce_associative(joined, [None], identity="x") == "x"
    assert tree.reduce_associative(joined, [1, 2], identity="x") == "(12)"


def test_keys_may_come_with_children() -> None:
    class Keyed:
        """Registered by a function that gives keys."""

        def __init__(self, *content: Any) -> None:
            self.content = content

    @tree_util.register_pytree_with_keys_class
    class Marked(Keyed):
        """Registered by its methods."""

        def tree_flatten_with_keys(self) -> Any:
            return [(tree.GetAttrKey(f"n{n}"), x) for n, x in enumerate(self.content)], "aux"

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            assert aux == "aux"
            return cls(*children)

    def with_keys(x: Any) -> Any:
        return [(tree.DictKey(n), part) for n, part in enumerate(x.content)], None

    tree.register_node(Keyed, lambda x: 1 / 0, lambda _, parts: Keyed(*parts), with_keys)
    for cls, keys in ((Keyed, ["[0]", "[1]['a']"]), (Marked, [".n0", ".n1['a']"])):
        value = cls(1, {"a": 2})
        pairs, treedef = tree.flatten_with_path(value)
        assert [tree.keystr(path) for path, _ in pairs] == keys
        made = tree.unflatten(treedef, [3, 4])
        assert type(made) is cls and made.content == (3, {"a": 4})
