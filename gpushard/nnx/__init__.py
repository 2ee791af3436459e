"""Modules as graphs: objects that hold arrays, and transforms that take them as arguments.

>>> import gpushard as gs
>>> from gpushard import nnx
>>> class Counter(nnx.Module):
...     def __init__(self):
...         self.count = nnx.Variable(gs.numpy.zeros((), int))
>>> list(nnx.state(Counter()))
['count']
"""

from gpushard.nnx.filters import (
    All,
    Any,
    Everything,
    Filter,
    Not,
    Nothing,
    OfType,
    PathContains,
    PathIn,
    WithTag,
    to_predicate,
)
from gpushard.nnx.graph import (
    clone,
    find_duplicates,
    graphdef,
    iter_graph,
    merge,
    pop,
    split,
    state,
    update,
    variables,
)
from gpushard.nnx.graphdef import GraphDef
from gpushard.nnx.module import Module
from gpushard.nnx.state import (
    State,
    filter_state,
    from_flat_state,
    map_state,
    merge_state,
    replace_by_pure_dict,
    split_state,
    to_flat_state,
    to_pure_dict,
)
from gpushard.nnx.variable import (
    BatchStat,
    Cache,
    Intermediate,
    Param,
    Perturbation,
    RngCount,
    RngKey,
    RngState,
    Variable,
)

# fmt: off
__all__ = [
    "All", "Any", "BatchStat", "Cache", "Everything", "Filter", "GraphDef", "Intermediate",
    "Module", "Not", "Nothing", "OfType", "Param", "PathContains", "PathIn", "Perturbation",
    "RngCount", "RngKey", "RngState", "State", "Variable", "WithTag", "clone", "filter_state",
    "find_duplicates", "from_flat_state", "graphdef", "iter_graph", "map_state", "merge",
    "merge_state", "pop", "replace_by_pure_dict", "split", "split_state", "state", "to_flat_state",
    "to_predicate", "to_pure_dict", "update", "variables",
]
# fmt: on


def __dir__() -> list[str]:
    return sorted(__all__)
