"""Flatten pytrees, which are nested containers, to leaves and a structure, and rebuild them.

Nodes are `tuple`, `list`, `dict`, named tuples, `None` (a node without leaves), `OrderedDict`,
`defaultdict` and registered classes. Subclasses of these are not nodes. All other values are
leaves.

The modules; each imports only modules above it:

- `node`: node types, and the built-in ones.
- `register`: new node types.
- `treedef`: structures, and the walk that computes one.
- `functions`: flatten, unflatten, map, reduce, transpose and prefix broadcast.

>>> from gpushard import tree
>>> tree.map(lambda x: 2 * x, {"b": 1, "a": (2, None)})
{'a': (4, None), 'b': 2}
"""

from gpushard.tree import functions, node, register, treedef
from gpushard.tree.functions import *
from gpushard.tree.node import *
from gpushard.tree.register import *
from gpushard.tree.treedef import *

__all__: list[str] = []
__all__ += functions.__all__
__all__ += node.__all__
__all__ += register.__all__
__all__ += treedef.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
