"""Functions on trees: to leaves, back, and leaf by leaf."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gpushard.tree.node import NODES, KeyPath
from gpushard.tree.treedef import LEAF, IsLeaf, TreeDef, walk


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], TreeDef]:
    """Return the leaves of a tree and its structure.

    Args:
      tree: any value.
      is_leaf: called on each node; one for which it returns True is kept whole, as a leaf.

    Returns:
      The leaves, depth first and dictionaries by sorted key, and the structure.

    Raises:
      TreeError: the keys of a dictionary cannot be sorted, or a container holds itself.

    >>> from gpushard import tree
    >>> tree.flatten({"b": 1, "a": (2, None)})
    ([2, 1], TreeDef({'a': (*, None), 'b': *}))
    """
    # Arrays alone are what dispatch sees most.
    cls = type(tree)
    if cls not in NODES and not issubclass(cls, tuple):
        return [tree], LEAF
    return walk(tree, is_leaf)


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Return the leaves of a tree.

    Args:
      tree: any value.
      is_leaf: see `flatten`.

    Raises:
      TreeError: as `flatten`.

    >>> from gpushard import tree
    >>> tree.leaves({"b": 1, "a": (2, None)})
    [2, 1]
    """
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> TreeDef:
    """Return the structure of a tree.

    Args:
      tree: any value.
      is_leaf: see `flatten`.

    Raises:
      TreeError: as `flatten`.

    >>> from gpushard import tree
    >>> tree.structure([1, (2, 3)]).num_leaves
    3
    """
    return flatten(tree, is_leaf)[1]


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Return the tree that has a structure and leaves.

    Args:
      treedef: a structure.
      leaves: as many values as it has leaves; they may be trees themselves.

    Raises:
      TreeError: there are too few or too many leaves, or a class is not registered.

    >>> from gpushard import tree
    >>> tree.unflatten(tree.structure([1, (2, 3)]), "xyz")
    ['x', ('y', 'z')]
    """
    return treedef.unflatten(leaves)


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Apply a function to each leaf of a tree and what other trees have in its place.

    Args:
      f: called with a leaf of `tree` and the subtree in its place of each of `rest`.
      tree: the tree whose structure the result has.
      *rest: trees that `tree` is a prefix of.
      is_leaf: see `flatten`; asked about the nodes of `tree` only.

    Returns:
      `tree` with each leaf replaced by what `f` returned.

    Raises:
      TreeError: `tree` is not a prefix of one of `rest`.

    >>> from gpushard import tree
    >>> tree.map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    found, treedef = flatten(tree, is_leaf)
    others = [treedef.flatten_up_to(r, names=("tree", f"rest[{i}]")) for i, r in enumerate(rest)]
    return treedef.unflatten([f(*values) for values in zip(found, *others, strict=True)])


def flatten_with_path(
    tree: Any, is_leaf: IsLeaf | None = None
) -> tuple[list[tuple[KeyPath, Any]], TreeDef]:
    """Return the leaves of a tree, each with its key path, and the structure.

    Args:
      tree: any value.
      is_leaf: see `flatten`.

    Returns:
      Pairs of a key path, which `keystr` turns into text, and a leaf; and the structure.

    Raises:
      TreeError: as `flatten`.

    >>> from gpushard import tree
    >>> pairs, _ = tree.flatten_with_path([1, {"a": 2}])
    >>> [(tree.keystr(path), leaf) for path, leaf in pairs]
    [('[0]', 1), ("[1]['a']", 2)]
    """
    found, treedef = flatten(tree, is_leaf)
    return list(zip(treedef.leaf_paths(), found, strict=True)), treedef


def broadcast_prefix(
    prefix_tree: Any,
    full_tree: Any,
    is_leaf: IsLeaf | None = None,
    *,
    names: tuple[str, str] = ("prefix_tree", "full_tree"),
) -> list[Any]:
    """Return the leaf of a prefix tree that stands for each leaf of a full tree.

    Args:
      prefix_tree: the full tree with some subtrees replaced by one leaf each.
      full_tree: any tree.
      is_leaf: see `flatten`; asked about the nodes of `prefix_tree` only.
      names: what an error calls the two trees.

    Returns:
      As many values as `full_tree` has leaves.

    Raises:
      TreeError: `prefix_tree` is not a prefix. Message and attributes tell the `path` where they
        differ and the structures there, `prefix` and `full`.

    >>> from gpushard import tree
    >>> tree.broadcast_prefix(["x", "y"], [1, {"a": 2, "b": 3}])
    ['x', 'y', 'y']
    """
    found, treedef = flatten(prefix_tree, is_leaf)
    result = []
    for leaf, subtree in zip(found, treedef.flatten_up_to(full_tree, names=names), strict=True):
        result += [leaf] * structure(subtree).num_leaves
    return result
