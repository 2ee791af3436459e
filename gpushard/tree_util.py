"""The functions of `gpushard.tree` under the names that `jax.tree_util` gives them.

>>> from gpushard.tree_util import tree_map
>>> tree_map(lambda x: 2 * x, {"a": 1})
{'a': 2}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from gpushard import tree
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
tree_structure = tree.structure
tree_transpose = tree.transpose
tree_unflatten = tree.unflatten
register_pytree_node = tree.register_node
register_pytree_with_keys = tree.register_node_with_keys

_C = TypeVar("_C", bound=Any)

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "PyTreeDef", "SequenceKey",
    "all_leaves", "keystr", "register_dataclass", "register_pytree_node",
    "register_pytree_node_class", "register_pytree_with_keys", "register_static", "tree_all",
    "tree_broadcast", "tree_flatten", "tree_flatten_with_path", "tree_leaves",
    "tree_leaves_with_path", "tree_map", "tree_map_with_path", "tree_reduce", "tree_structure",
    "tree_transpose", "tree_unflatten", "treedef_children", "treedef_is_leaf", "treedef_tuple",
]  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)


def register_pytree_node_class(cls: type[_C]) -> type[_C]:
    """Make the instances of a class nodes by its own methods; usable as a decorator.

    Args:
      cls: a class with methods `tree_flatten(self)`, which returns children and aux, and
        `tree_unflatten(cls, aux, children)`, a class method.

    Returns:
      The class itself.

    Raises:
      TreeError: the class is a node already.
    """
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Return whether all elements of an iterable are leaves.

    Args:
      iterable: the elements.
      is_leaf: see `gpushard.tree.flatten`.

    >>> all_leaves([1, "a"]), all_leaves([1, [2]])
    (True, False)
    """
    return all(treedef_is_leaf(tree.structure(one, is_leaf)) for one in iterable)


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of the root's children; none for a leaf.

    Args:
      treedef: a structure.
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Return whether a structure is that of a leaf.

    Args:
      treedef: a structure.
    """
    return treedef == tree.structure(0)


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple of trees.

    Args:
      treedefs: their structures.

    >>> treedef_tuple([tree.structure(0), tree.structure([0])])
    TreeDef((*, [*]))
    """
    trees = tuple(one.unflatten([0] * one.num_leaves) for one in treedefs)
    return tree.structure(trees)
