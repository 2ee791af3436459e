"""Pytrees: nested containers, flattened to leaves and a structure, and put together again.

Nodes are `tuple`, `list`, `dict`, named tuples, `None` (a node without leaves), `OrderedDict`,
`defaultdict` and registered classes, each by its exact type; everything else is a leaf.

The modules, each importing the ones above it only:

- `node`: what a container type is made of, and the built-in ones.
- `register`: new node types.
- `treedef`: structures, and the walk that finds one.
- `functions`: flatten, unflatten, map and prefix broadcast.

>>> from gpushard import tree
>>> tree.map(lambda x: 2 * x, {"b": 1, "a": (2, None)})
{'a': (4, None), 'b': 2}
"""

from gpushard.tree.functions import (
    broadcast_prefix,
    flatten,
    flatten_with_path,
    leaves,
    map,
    structure,
    unflatten,
)
from gpushard.tree.node import KeyEntry, KeyPath, keystr
from gpushard.tree.register import register_dataclass, register_node
from gpushard.tree.treedef import IsLeaf, TreeDef

__all__ = [
    "IsLeaf",
    "KeyEntry",
    "KeyPath",
    "TreeDef",
    "broadcast_prefix",
    "flatten",
    "flatten_with_path",
    "keystr",
    "leaves",
    "map",
    "register_dataclass",
    "register_node",
    "structure",
    "unflatten",
]


def __dir__() -> list[str]:
    return list(__all__)
