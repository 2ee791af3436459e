"""Pytrees: nested containers, flattened to leaves and a structure, and put together again.

Nodes are `tuple`, `list`, `dict`, named tuples, `None` (a node without leaves), `OrderedDict`,
`defaultdict` and registered classes, each by its exact type; everything else is a leaf.

The modules, each importing the ones above it only:

- `node`: what a container type is made of, and the built-in ones.
- `register`: new node types.
- `treedef`: structures, and the walk that finds one.
- `functions`: flatten, unflatten, map, reduce, transpose and prefix broadcast.

>>> from gpushard import tree
>>> tree.map(lambda x: 2 * x, {"b": 1, "a": (2, None)})
{'a': (4, None), 'b': 2}
"""

from gpushard.tree.functions import (
    all,
    broadcast,
    broadcast_prefix,
    flatten,
    flatten_with_path,
    leaves,
    leaves_with_path,
    map,
    map_with_path,
    reduce,
    structure,
    transpose,
    unflatten,
)
from gpushard.tree.node import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    SequenceKey,
    keystr,
)
from gpushard.tree.register import (
    register_dataclass,
    register_node,
    register_node_with_keys,
    register_static,
)
from gpushard.tree.treedef import IsLeaf, TreeDef

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "IsLeaf",
    "KeyEntry",
    "KeyPath",
    "SequenceKey",
    "TreeDef",
    "all",
    "broadcast",
    "broadcast_prefix",
    "flatten",
    "flatten_with_path",
    "keystr",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "register_dataclass",
    "register_node",
    "register_node_with_keys",
    "register_static",
    "structure",
    "transpose",
    "unflatten",
]


def __dir__() -> list[str]:
    return list(__all__)
