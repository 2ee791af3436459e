"""Pytrees against `jax.tree` on random trees."""

import dataclasses
from collections import OrderedDict, defaultdict
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import tree, tree_util


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Bag:
    label: str
    content: tuple[Any, ...]


@dataclasses.dataclass
class Cell:
    value: Any
    unit: str = dataclasses.field(metadata={"static": True})


BAG = (Bag, lambda bag: (bag.content, bag.label), Bag)
tree.register_node(*BAG)
tree.register_dataclass(Cell)


@pytest.fixture(scope="session")
def theirs(jax: ModuleType) -> ModuleType:
    """Return jax.tree_util, with the classes of this file registered."""
    jax.tree_util.register_pytree_node(*BAG)
    jax.tree_util.register_dataclass(Cell)
    util: ModuleType = jax.tree_util
    return util


def nodes(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(children, max_size=3)
    # Keys that sort, since jaxlib 0.10.2 loses a level of the thread's recursion limit for each
    # level above a dictionary that it refuses.
    keys = [st.sampled_from(["b", "a", "c"]), st.sampled_from([2, -1, True, 0.5])]
    dicts: st.SearchStrategy[dict[Any, Any]] = st.one_of(
        [st.dictionaries(key, children, max_size=3) for key in keys]
    )
    return st.one_of(
        lists,
        lists.map(tuple),
        dicts,
        dicts.map(OrderedDict),
        st.builds(defaultdict, st.sampled_from([int, list]), dicts),
        st.builds(Pair, children, children),
        st.builds(Bag, st.sampled_from("pq"), lists.map(tuple)),
        st.builds(Cell, children, st.sampled_from("pq")),
    )


TREES = st.recursive(st.integers(0, 9) | st.none(), nodes, max_leaves=10)


def outcome(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the result, or ValueError for that kind of error."""
    try:
        return function(*args, **kwargs)
    except ValueError:
        return ValueError


@given(value=TREES)
def test_flatten_and_unflatten(theirs: ModuleType, value: Any) -> None:
    leaves, treedef = tree.flatten(value)
    their_leaves, their_treedef = theirs.tree_flatten(value)
    assert leaves == their_leaves
    assert treedef.num_leaves == their_treedef.num_leaves
    assert len(treedef.children()) == len(their_treedef.children())
    fresh = list(range(100, 100 + len(leaves)))
    # The text tells types apart that compare equal, and shows the order of keys.
    assert repr(tree.unflatten(treedef, fresh)) == repr(theirs.tree_unflatten(their_treedef, fresh))


@given(value=TREES)
def test_paths(theirs: ModuleType, value: Any) -> None:
    pairs, _ = tree.flatten_with_path(value)
    their_pairs, _ = theirs.tree_flatten_with_path(value)
    assert [(tree.keystr(path), leaf) for path, leaf in pairs] == [
        (theirs.keystr(path), leaf) for path, leaf in their_pairs
    ]


@given(value=TREES)
def test_functions_of_leaves(theirs: ModuleType, value: Any) -> None:
    def both(ours: Any, name: str, *args: Any, **kwargs: Any) -> None:
        found = outcome(ours, *args, **kwargs)
        assert found == outcome(getattr(theirs, name), *args, **kwargs)

    both(tree.all, "tree_all", value)
    both(tree.reduce, "tree_reduce", lambda a, b: a * 3 + b, value, 1)
    both(tree_util.all_leaves, "all_leaves", value if isinstance(value, list) else [value])
    assert outcome(tree.map_with_path, lambda p, x: (tree.keystr(p), x), value) == outcome(
        theirs.tree_map_with_path, lambda p, x: (theirs.keystr(p), x), value
    )
    for simple, separator in ((True, "/"), (True, ""), (False, "|")):
        texts = [
            [m.keystr(path, simple=simple, separator=separator) for path, _ in pairs]
            for m, pairs in (
                (tree, tree.leaves_with_path(value)),
                (theirs, theirs.tree_leaves_with_path(value)),
            )
        ]
        assert texts[0] == texts[1]


@given(outer=TREES, inner=TREES)
def test_transpose(theirs: ModuleType, outer: Any, inner: Any) -> None:
    numbers = iter(range(10_000))
    both = tree.map(lambda _: tree.map(lambda _: next(numbers), inner), outer)
    if not tree.leaves(outer):
        return
    ours = tree.transpose(tree.structure(outer), tree.structure(inner), both)
    wanted = theirs.tree_transpose(theirs.tree_structure(outer), theirs.tree_structure(inner), both)
    assert repr(ours) == repr(wanted)
    assert repr(tree.transpose(tree.structure(outer), None, both)) == repr(wanted)


@given(one=TREES, other=TREES)
def test_equality_of_structures(theirs: ModuleType, one: Any, other: Any) -> None:
    equal = theirs.tree_structure(one) == theirs.tree_structure(other)
    assert (tree.structure(one) == tree.structure(other)) is equal


@given(value=TREES)
def test_is_leaf(theirs: ModuleType, value: Any) -> None:
    for is_leaf in (lambda x: x is None, lambda x: isinstance(x, dict), lambda x: x == []):
        assert tree.leaves(value, is_leaf) == theirs.tree_leaves(value, is_leaf)


@pytest.mark.parametrize("keys", [(1, "a"), (None, 0), (1j, 2j), (None,), (1j,)])
def test_keys_that_may_not_sort(theirs: ModuleType, keys: tuple[Any, ...]) -> None:
    value = dict.fromkeys(keys, 0)
    assert outcome(tree.leaves, value) == outcome(theirs.tree_leaves, value)


def prefixes(value: Any, draw: Any) -> Any:
    """Return a value with random nodes replaced by leaves, and now and then by something else."""
    choice = draw(st.integers(0, 7))
    if choice == 0:
        return draw(TREES)
    if choice < 3:
        return 100 + draw(st.integers(0, 9))
    one_level = tree.structure(value, is_leaf=lambda x: x is not value)
    children, _ = tree.flatten(value, is_leaf=lambda x: x is not value)
    if children == [value]:
        return value
    return tree.unflatten(one_level, [prefixes(child, draw) for child in children])


@given(full=TREES, data=st.data())
def test_map_and_broadcast_on_prefixes(theirs: ModuleType, full: Any, data: st.DataObject) -> None:
    prefix = prefixes(full, data.draw)
    expected = outcome(theirs.tree_broadcast, prefix, full)
    ours = outcome(tree.broadcast_prefix, prefix, full)
    assert ours == (expected if expected is ValueError else theirs.tree_leaves(expected))
    assert repr(outcome(tree.broadcast, prefix, full)) == repr(expected)
    mine, wanted = [], []
    ended = outcome(tree.map, lambda *xs: mine.append(xs), prefix, full)
    ended_theirs = outcome(theirs.tree_map, lambda *xs: wanted.append(xs), prefix, full)
    assert (ended is ValueError) == (ended_theirs is ValueError)
    if ended is not ValueError:
        assert mine == wanted


@pytest.mark.parametrize(
    ("base", "args"),
    [
        (dict, ()),
        (list, ()),
        (tuple, ()),
        (OrderedDict, ()),
        (defaultdict, ()),
        (Pair, (1, 2)),
        (Bag, ("p", ())),
        (Cell, (1, "p")),
    ],
)
def test_subclasses(theirs: ModuleType, base: Any, args: tuple[Any, ...]) -> None:
    value = type("Sub", (base,), {})(*args)
    is_leaf = theirs.tree_structure(value) == theirs.tree_structure(0)
    assert (tree.structure(value) == tree.structure(0)) is is_leaf


@given(value=TREES, inner=TREES)
def test_structures_are_counted_composed_and_walked(
    theirs: ModuleType, value: Any, inner: Any
) -> None:
    ours, wanted = tree.structure(value), theirs.tree_structure(value)
    assert (ours.num_nodes, ours.num_leaves) == (wanted.num_nodes, wanted.num_leaves)
    both = ours.compose(tree.structure(inner))
    numbers = list(range(both.num_leaves))
    theirs_both = wanted.compose(theirs.tree_structure(inner))
    assert repr(both.unflatten(numbers)) == repr(theirs_both.unflatten(numbers))
    calls: list[list[Any]] = [[], []]

    def walked(treedef: Any, log: list[Any]) -> Any:
        def f_node(children: tuple[Any, ...], data: Any) -> Any:
            plain = tuple(data) if isinstance(data, list) else data  # keys of dictionaries
            plain = None if isinstance(data, type) and issubclass(data, tuple) else plain
            log.append((children, plain))
            return children, plain

        def f_leaf(leaf: Any) -> Any:
            log.append(leaf)
            return leaf

        return treedef.walk(f_node, f_leaf, range(treedef.num_leaves))

    assert walked(ours, calls[0]) == walked(wanted, calls[1])
    assert calls[0] == calls[1]


@given(value=TREES)
def test_one_level(theirs: ModuleType, value: Any) -> None:
    assert tree_util.is_tree_node(type(value)) is theirs.is_tree_node(type(value))
    found = outcome(tree_util.flatten_one_level, value)
    wanted = outcome(theirs.flatten_one_level, value)
    if wanted is ValueError:
        assert found is ValueError
        return
    assert list(found[0]) == list(wanted[0])
    if type(value) is Pair:  # JAX 0.10.2 has the class as data, and the first name for all fields
        return
    assert found[1] == wanted[1]
    pairs, data = tree_util.flatten_one_level_with_keys(value)
    their_pairs, _ = theirs.flatten_one_level_with_keys(value)
    assert data == found[1]
    assert [(str(key), x) for key, x in pairs] == [(str(key), x) for key, x in their_pairs]


@given(value=TREES, depth=st.integers(0, 3))
def test_is_leaf_with_a_path(theirs: ModuleType, value: Any, depth: int) -> None:
    options: dict[str, Any] = {
        "is_leaf": lambda path, x: len(path) >= depth or x == [],
        "is_leaf_takes_path": True,
    }

    def both(name: str, *args: Any) -> list[Any]:
        results = []
        for module, function in ((tree, getattr(tree, name)), (theirs, f"tree_{name}")):
            call = getattr(theirs, function) if isinstance(function, str) else function
            results.append((module, call(*args, **options)))
        return results

    def text(module: Any, pairs: Any) -> Any:
        return [(module.keystr(path), x) for path, x in pairs]

    (_, (mine, structure)), (_, (wanted, _)) = both("flatten_with_path", value)
    assert text(tree, mine) == text(theirs, wanted)
    assert structure.unflatten([x for _, x in mine]) == value
    one, other = both("leaves_with_path", value)
    assert text(*one) == text(*other)
    (_, ours), (_, their_map) = both(
        "map_with_path", lambda path, *xs: (len(path), xs), value, value
    )
    assert repr(ours) == repr(their_map)


@given(value=TREES)
def test_associative_reduction(theirs: ModuleType, value: Any) -> None:
    def pair(a: Any, b: Any) -> Any:
        return (a, b)

    wanted = theirs.tree_reduce_associative(pair, value, identity="none")
    assert tree.reduce_associative(pair, value, identity="none") == wanted
    for name in ("reduce", "reduce_associative"):
        if not tree.leaves(value):
            for call in (getattr(tree, name), getattr(theirs, f"tree_{name}")):
                with pytest.raises(TypeError):
                    call(pair, value)


def use_partial(module: Any, jit: Any) -> None:
    def f(x: Any, y: Any, z: Any = 0) -> Any:
        return x - 10 * y + 100 * z

    inner = module.Partial(f, 1)
    outer = module.Partial(inner, z=3)
    assert (inner(2), outer(2), inner.func) == (f(1, 2), f(1, 2, 3), f)
    assert [module.tree_leaves(x) for x in (inner, outer)] == [[1], [3]]
    doubled = module.tree_map(lambda x: 2 * x, outer)
    assert (type(doubled), doubled(2)) == (module.Partial, f(1, 2, 6))
    assert module.tree_structure(outer) == module.tree_structure(module.Partial(inner, z=4))
    assert module.tree_structure(inner) != module.tree_structure(module.Partial(max, 1))
    assert int(jit(lambda g, x: g(x))(outer, 2)) == f(1, 2, 3)
    assert int(jit(lambda x: module.Partial(f, x))(5)(7)) == f(5, 7)


def test_partial_functions(jax: ModuleType, theirs: ModuleType) -> None:
    use_partial(tree_util, gs.jit)
    use_partial(theirs, jax.jit)


def registrations(module: Any, static: Any) -> list[Any]:
    """Return what trees of classes are made of that are registered in each way."""

    class Special:
        def __init__(self, x: Any) -> None:
            self.x = x

        def tree_flatten_with_keys(self) -> Any:
            return ((module.GetAttrKey("x"), self.x),), "aux"

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            assert aux == "aux"
            return cls(*children)

    class Other(Special):
        pass

    marked = static(default="b", metadata={"doc": "text"})
    fields = [("a", int), ("b", str, marked), ("c", int, dataclasses.field(default=7))]
    dropping: Any = dataclasses.make_dataclass("Dropping", fields)
    assert dict(marked.metadata) == {"static": True, "doc": "text"}
    module.register_dataclass(dropping, ["a"], ["b"], drop_fields=["c"])
    assert module.register_pytree_with_keys_class(Special) is Special
    module.register_pytree_node(
        Other,
        lambda x: ((x.x,), None),
        lambda aux, children: Other(*children),
        flatten_with_keys_func=lambda x: (((module.DictKey("k"), x.x),), None),
    )
    with pytest.raises(ValueError, match="c"):
        module.register_dataclass(dataclasses.make_dataclass("Bad", "ac"), ["a"], [])
    values = [Special([1, 2]), Other(3), dropping(4, "x", 9)]
    pairs, structure = module.tree_flatten_with_path(values)
    back = module.tree_unflatten(structure, "pqrs")
    return [
        [(module.keystr(path), x) for path, x in pairs],
        [back[0].x, back[1].x, dataclasses.astuple(back[2])],
        [module.flatten_one_level(x)[1] for x in values],
    ]


def test_registered_classes(jax: ModuleType, theirs: ModuleType) -> None:
    assert registrations(tree_util, tree.static) == registrations(theirs, jax.tree.static)
