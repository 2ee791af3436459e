"""Functions on trees: flatten, unflatten, and work leaf by leaf."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable
from typing import Any, Final

from gpushard.errors import ArgumentTypeError, NoLeavesError, TreeError
from gpushard.tree.node import NODES, KeyPath
from gpushard.tree.treedef import LEAF, IsLeaf, TreeDef, walk, walk_paths

__all__ = [
    "all", "broadcast", "broadcast_prefix", "flatten", "flatten_with_path", "leaves",
    "leaves_with_path", "map", "map_with_path", "reduce", "reduce_associative", "structure",
    "transpose", "unflatten",
]  # fmt: skip

_NOTHING: Final = object()  # marks a missing argument


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], TreeDef]:
    """Split a tree into its leaves and its structure.

    Args:
      tree: any value.
      is_leaf: a function that is called with each node; if it returns True, the node counts as a
        leaf.

    Returns:
      A pair of the leaves and the structure. Leaves are listed depth first; keys of dictionaries
      are sorted.

    Raises:
      TreeError: the keys of a dictionary cannot be sorted, or a container contains itself.

    >>> from gpushard import tree
    >>> tree.flatten({"b": 1, "a": (2, None)})
    ([2, 1], TreeDef({'a': (*, None), 'b': *}))
    """
    # Dispatch sees single arrays most often.
    cls = type(tree)
    if cls not in NODES and not issubclass(cls, tuple):
        return [tree], LEAF
    return walk(tree, is_leaf)


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Return the leaves of a tree.

    Args:
      tree: any value.
      is_leaf: as for `flatten`.

    Raises:
      TreeError: as for `flatten`.

    >>> from gpushard import tree
    >>> tree.leaves({"b": 1, "a": (2, None)})
    [2, 1]
    """
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> TreeDef:
    """Return the structure of a tree.

    Args:
      tree: any value.
      is_leaf: as for `flatten`.

    Raises:
      TreeError: as for `flatten`.

    >>> from gpushard import tree
    >>> tree.structure([1, (2, 3)]).num_leaves
    3
    """
    return flatten(tree, is_leaf)[1]


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Build a tree from a structure and leaves.

    Args:
      treedef: a structure.
      leaves: a value for each leaf; values may be trees themselves.

    Raises:
      TreeError: there are too few or too many leaves, or a class is not registered.

    >>> from gpushard import tree
    >>> tree.unflatten(tree.structure([1, (2, 3)]), "xyz")
    ['x', ('y', 'z')]
    """
    return _structure(treedef, "unflatten", "treedef").unflatten(leaves)


def _structure(treedef: Any, name: str, argument: str) -> TreeDef:
    """Check that an argument is a structure, and return it."""
    if not isinstance(treedef, TreeDef):
        raise ArgumentTypeError.refusing(
            argument, treedef, "must be a structure, such as tree.structure gives", name
        )
    return treedef


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Apply a function to each leaf of a tree, and to the subtrees at its place in other trees.

    Args:
      f: a function of a leaf of `tree` and of the subtree at the same place in each of `rest`.
      tree: the tree that determines the structure of the result.
      *rest: other trees; `tree` is a prefix of each.
      is_leaf: as for `flatten`; called only with the nodes of `tree`.

    Returns:
      `tree` with each leaf replaced by the result of `f`.

    Raises:
      TreeError: `tree` is not a prefix of one of `rest`.

    >>> from gpushard import tree
    >>> tree.map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    _check_callable(f, "map", "f")
    values, treedef = flatten(tree, is_leaf)
    return _map_leaves(f, values, treedef, rest)


def _check_callable(f: Any, name: str, argument: str) -> None:
    if not callable(f):
        raise ArgumentTypeError.refusing(argument, f, "must be a function", name)


def _map_leaves(
    f: Callable[..., Any], values: list[Any], treedef: TreeDef, rest: tuple[Any, ...]
) -> Any:
    """Apply a function to each leaf, and to the subtrees in its place in other trees."""
    others = [treedef.flatten_up_to(r, names=("tree", f"rest[{i}]")) for i, r in enumerate(rest)]
    return treedef.unflatten([f(*each) for each in zip(values, *others, strict=True)])


def flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], TreeDef]:
    """Split a tree into its leaves, each with its key path, and its structure.

    Args:
      tree: any value.
      is_leaf: as for `flatten`.
      is_leaf_takes_path: whether `is_leaf` takes two arguments: the key path of a node, and the
        node.

    Returns:
      A list of pairs of a key path and a leaf, and the structure. `keystr` converts a key path to
      text.

    Raises:
      TreeError: as `flatten`.

    >>> from gpushard import tree
    >>> pairs, _ = tree.flatten_with_path([1, {"a": 2}])
    >>> [(tree.keystr(path), leaf) for path, leaf in pairs]
    [('[0]', 1), ("[1]['a']", 2)]
    """
    if is_leaf_takes_path and is_leaf is not None:
        return walk_paths(tree, is_leaf)
    values, treedef = flatten(tree, is_leaf)
    return list(zip(treedef.leaf_paths(), values, strict=True)), treedef


def broadcast_prefix(
    prefix_tree: Any,
    full_tree: Any,
    is_leaf: IsLeaf | None = None,
    *,
    names: tuple[str, str] = ("prefix_tree", "full_tree"),
) -> list[Any]:
    """List for each leaf of a full tree the leaf of a prefix tree to which it belongs.

    Args:
      prefix_tree: a tree like the full tree, but with single leaves in place of some subtrees.
      full_tree: any tree.
      is_leaf: as for `flatten`; called only with the nodes of `prefix_tree`.
      names: the names of the two trees in the messages of errors.

    Returns:
      A list with a leaf of `prefix_tree` for each leaf of `full_tree`.

    Raises:
      TreeError: `prefix_tree` is not a prefix of `full_tree`. The error has the attributes `path`,
        where the trees differ, and `prefix` and `full`, the structures at this path.

    >>> from gpushard import tree
    >>> tree.broadcast_prefix(["x", "y"], [1, {"a": 2, "b": 3}])
    ['x', 'y', 'y']
    """
    prefix_leaves, treedef = flatten(prefix_tree, is_leaf)
    result = []
    for leaf, subtree in zip(
        prefix_leaves, treedef.flatten_up_to(full_tree, names=names), strict=True
    ):
        result += [leaf] * structure(subtree).num_leaves
    return result


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Replace each leaf of a full tree by the leaf of a prefix tree to which it belongs.

    Args:
      prefix_tree: a tree like the full tree, but with single leaves in place of some subtrees.
      full_tree: any tree.
      is_leaf: see `flatten`.

    Raises:
      TreeError: `prefix_tree` is not a prefix.

    >>> from gpushard import tree
    >>> tree.broadcast(["x", "y"], [1, {"a": 2, "b": 3}])
    ['x', {'a': 'y', 'b': 'y'}]
    """
    values = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return structure(full_tree, is_leaf).unflatten(values)


def leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """Return the leaves of a tree, each with its key path.

    Args:
      tree: any value.
      is_leaf: as for `flatten`.
      is_leaf_takes_path: as for `flatten_with_path`.

    Raises:
      TreeError: as `flatten`.
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Apply a function to each leaf and its key path, and to subtrees of other trees at this path.

    Args:
      f: a function of a key path, the leaf of `tree` there, and the subtree there in each of
        `rest`.
      tree: the tree that determines the structure of the result.
      *rest: other trees; `tree` is a prefix of each.
      is_leaf: as for `flatten`; called only with the nodes of `tree`.
      is_leaf_takes_path: as for `flatten_with_path`.

    Raises:
      TreeError: `tree` is not a prefix of one of `rest`.

    >>> from gpushard import tree
    >>> tree.map_with_path(lambda path, x: f"{tree.keystr(path)}={x}", {"a": [1, 2]})
    {'a': ["['a'][0]=1", "['a'][1]=2"]}
    """
    _check_callable(f, "map_with_path", "f")
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    pending = iter([path for path, _ in pairs])
    return _map_leaves(
        lambda *values: f(next(pending), *values), [x for _, x in pairs], treedef, rest
    )


def reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _NOTHING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Combine the leaves of a tree, from the first to the last.

    Args:
      function: a function that takes the result so far and the next leaf, and returns the next
        result.
      tree: any value.
      initializer: the result before the first leaf; by default the first leaf itself is the first
        result.
      is_leaf: as for `flatten`.

    Raises:
      NoLeavesError: there are no leaves and no `initializer`.

    >>> from gpushard import tree
    >>> tree.reduce(lambda total, x: total + x, {"a": 1, "b": [2, 3]})
    6
    """
    values = leaves(tree, is_leaf)
    if initializer is not _NOTHING:
        return functools.reduce(function, values, initializer)
    if not values:
        raise NoLeavesError("reduce: the tree has no leaves; give an initializer", tree=tree)
    return functools.reduce(function, values)


def reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _NOTHING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Combine the leaves of a tree in pairs, then these results in pairs, and so on.

    Args:
      operation: an associative function of two values.
      tree: any value.
      identity: the result for a tree without leaves.
      is_leaf: see `flatten`.

    Raises:
      NoLeavesError: there are no leaves and no `identity`.

    >>> from gpushard import tree
    >>> tree.reduce_associative(lambda a, b: f"({a}{b})", ["a", ("b", "c"), "d"])
    '((ab)(cd))'
    """
    values = leaves(tree, is_leaf)
    if values:
        return _combine(operation, values)
    if identity is _NOTHING:
        raise NoLeavesError(
            "reduce_associative: the tree has no leaves; give an identity", tree=tree
        )
    return identity


def _combine(operation: Callable[[Any, Any], Any], values: list[Any]) -> Any:
    """Combine the values of each half, and then the two results."""
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    first, last = values[:middle], values[middle:]
    return operation(_combine(operation, first), _combine(operation, last))


def all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Test whether all leaves of a tree are true.

    Args:
      tree: any value.
      is_leaf: see `flatten`.

    >>> from gpushard import tree
    >>> tree.all([True, {"a": 1}]), tree.all([True, {"a": 0}])
    (True, False)
    """
    return builtins.all(leaves(tree, is_leaf))


def transpose(
    outer_treedef: TreeDef, inner_treedef: TreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turn a tree of trees inside out.

    Args:
      outer_treedef: the structure of the outer tree.
      inner_treedef: the structure of each inner tree; None means that of the first inner tree.
      pytree_to_transpose: the tree, in which each leaf of the outer structure is an inner tree.

    Returns:
      A tree of the inner structure that contains trees of the outer structure.

    Raises:
      TreeError: the tree has another structure.

    >>> from gpushard import tree
    >>> tree.transpose(tree.structure([0, 0]), None, [{"a": 1}, {"a": 2}])
    {'a': [1, 2]}
    """
    inner = _structure(outer_treedef, "transpose", "outer_treedef").flatten_up_to(
        pytree_to_transpose, names=("outer_treedef", "pytree_to_transpose")
    )
    if inner_treedef is None:
        if not inner:
            raise TreeError(
                "transpose: outer_treedef has no leaves; give inner_treedef too",
                treedef=outer_treedef,
            )
        inner_treedef = structure(inner[0])
    _structure(inner_treedef, "transpose", "inner_treedef")
    names = "inner_treedef", "an inner tree of pytree_to_transpose"
    rows = [inner_treedef.flatten_up_to(subtree, names=names) for subtree in inner]
    columns = zip(*rows, strict=True) if rows else [()] * inner_treedef.num_leaves
    return inner_treedef.unflatten([outer_treedef.unflatten(column) for column in columns])
