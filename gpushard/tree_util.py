"""Flatten, map and rebuild pytrees, under the names of `jax.tree_util`.

>>> from gpushard.tree_util import tree_map
>>> tree_map(lambda x: 2 * x, {"a": 1})
{'a': 2}
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import Any, TypeVar

from gpushard import tree
from gpushard.errors import TreeError
from gpushard.tree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    IsLeaf,
    KeyEntry,
    KeyPath,
    SequenceKey,
    keystr,
    register_dataclass,
    register_static,
)

PyTreeDef = tree.TreeDef
tree_all = tree.all
tree_broadcast = tree.broadcast
tree_flatten = tree.flatten
tree_flatten_with_path = tree.flatten_with_path
tree_leaves = tree.leaves
tree_leaves_with_path = tree.leaves_with_path
tree_map = tree.map
tree_map_with_path = tree.map_with_path
tree_reduce = tree.reduce
tree_reduce_associative = tree.reduce_associative
tree_structure = tree.structure
tree_transpose = tree.transpose
tree_unflatten = tree.unflatten
is_tree_node = tree.is_node
register_pytree_node = tree.register_node
register_pytree_with_keys = tree.register_node_with_keys

_C = TypeVar("_C", bound=Any)

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial", "PyTreeDef",
    "SequenceKey", "all_leaves", "flatten_one_level", "flatten_one_level_with_keys",
    "is_tree_node", "keystr", "register_dataclass", "register_pytree_node",
    "register_pytree_node_class", "register_pytree_with_keys", "register_pytree_with_keys_class",
    "register_static", "tree_all", "tree_broadcast", "tree_flatten", "tree_flatten_with_path",
    "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_with_path", "tree_reduce",
    "tree_reduce_associative", "tree_structure", "tree_transpose", "tree_unflatten",
    "treedef_children", "treedef_is_leaf", "treedef_tuple",
]  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)


def register_pytree_node_class(cls: type[_C]) -> type[_C]:
    """Register a class with flatten methods as a node type; usable as a decorator.

    Args:
      cls: a class with two methods. `tree_flatten(self)` returns (children, aux). The class method
        `tree_unflatten(cls, aux, children)` returns an instance.

    Returns:
      The class itself.

    Raises:
      TreeError: the class is already registered.
    """
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: type[_C]) -> type[_C]:
    """Register a class as a node type with keys for its children; usable as a decorator.

    Args:
      cls: a class with two methods. `tree_flatten_with_keys(self)` returns (pairs of a key and a
        child, aux). The class method `tree_unflatten(cls, aux, children)` returns an instance.

    Returns:
      The class itself.

    Raises:
      TreeError: the class is already registered.
    """
    with_keys = operator.methodcaller("tree_flatten_with_keys")
    register_pytree_with_keys(cls, with_keys, cls.tree_unflatten)
    return cls


class Partial(functools.partial[Any]):
    """A function with some bound arguments, which is a pytree of these arguments.

    Arguments of traced functions are pytrees of arrays, so you can pass a `Partial` to them.

    Args:
      func: the function, which is part of the structure.
      *args: the first arguments of the function.
      **keywords: keyword arguments of the function.

    >>> add_one = Partial(lambda x, y: x + y, 1)
    >>> add_one(2), tree_leaves(add_one)
    (3, [1])
    """

    def __new__(cls, func: Any, /, *args: Any, **keywords: Any) -> Any:
        """Bind arguments; those of a `functools.partial` stay part of the structure."""
        whole = func.__call__ if isinstance(func, functools.partial) else func
        return super().__new__(cls, whole, *args, **keywords)


register_pytree_node(
    Partial,
    lambda partial: ((partial.args, partial.keywords), partial.func),
    lambda func, bound: Partial(func, *bound[0], **bound[1]),
)


def flatten_one_level(tree: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the children and the auxiliary data of a node.

    Args:
      tree: a node.

    Raises:
      TreeError: the tree is a leaf.

    >>> flatten_one_level({"b": [1, 2], "a": 3})
    ((3, [1, 2]), ('a', 'b'))
    """
    pairs, data = flatten_one_level_with_keys(tree)
    return tuple([child for _, child in pairs]), data


def flatten_one_level_with_keys(tree: Any) -> tuple[tuple[tuple[KeyEntry, Any], ...], Any]:
    """Return the children of a node, each with its key, and the auxiliary data of the node.

    Args:
      tree: a node.

    Raises:
      TreeError: the tree is a leaf.

    >>> flatten_one_level_with_keys([5])
    (((SequenceKey(idx=0), 5),), None)
    """
    if not is_tree_node(type(tree)):
        raise TreeError(
            f"flatten_one_level: tree is a {type(tree).__name__}, which is a leaf; give a "
            "container, or a class that is registered as a node",
            argument="tree",
            type=type(tree),
        )
    pairs, treedef = tree_flatten_with_path(tree, is_leaf=lambda x: x is not tree)
    data = treedef.node_data()
    return tuple([(path[0], child) for path, child in pairs]), data and data[1]


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Test whether all elements of an iterable are leaves.

    Args:
      iterable: the elements.
      is_leaf: as for `gpushard.tree.flatten`.

    >>> all_leaves([1, "a"]), all_leaves([1, [2]])
    (True, False)
    """
    return all(treedef_is_leaf(tree.structure(element, is_leaf)) for element in iterable)


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of the children of the root; a leaf has none.

    Args:
      treedef: a structure.
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Test whether a structure is that of a single leaf.

    Args:
      treedef: a structure.
    """
    return treedef == tree.structure(0)


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple of trees.

    Args:
      treedefs: the structures of these trees.

    >>> treedef_tuple([tree.structure(0), tree.structure([0])])
    TreeDef((*, [*]))
    """
    trees = tuple(treedef.unflatten([0] * treedef.num_leaves) for treedef in treedefs)
    return tree.structure(trees)
