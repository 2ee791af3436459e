"""Pytrees against `jax.tree` on random trees."""

import dataclasses
from collections import OrderedDict, defaultdict
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.fixture(scope="module")
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
