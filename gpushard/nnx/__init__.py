"""Build models from Modules, objects with arrays as attributes, under the names of Flax's `nnx`.

>>> import gpushard as gs
>>> from gpushard import nnx
>>> class Counter(nnx.Module):
...     def __init__(self):
...         self.count = nnx.Variable(gs.numpy.zeros((), int))
>>> list(nnx.state(Counter()))
['count']
"""

from gpushard import nn
from gpushard.nn import *
from gpushard.nn import initializers as initializers
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
    merge,
    pop,
    split,
    state,
    update,
    variables,
)
from gpushard.nnx.graphdef import GraphDef
from gpushard.nnx.jit import JitWrapped, Missing, eval_shape, jit
from gpushard.nnx.layers import Conv, Dropout, Embed, LayerNorm, Linear, Sequential
from gpushard.nnx.module import Module
from gpushard.nnx.module_arguments import NodeStates, clear_non_graph_nodes
from gpushard.nnx.partition import get_named_sharding, get_partition_spec, with_partitioning
from gpushard.nnx.rngs import Rngs, RngStream, fork_rngs, restore_rngs, split_rngs
from gpushard.nnx.shard_map import shard_map
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
from gpushard.nnx.state_sharding import PrefixMapping, StateSharding
from gpushard.nnx.to_tree import from_tree, to_tree
from gpushard.nnx.update_context import update_context
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
from gpushard.nnx.walk import iter_graph

# fmt: off
__all__ = [
    "All", "Any", "BatchStat", "Cache", "Conv", "Dropout", "Embed", "Everything", "Filter",
    "GraphDef", "Intermediate", "JitWrapped", "LayerNorm", "Linear", "Missing", "Module",
    "NodeStates", "Not", "Nothing", "OfType", "Param", "PathContains", "PathIn", "Perturbation",
    "PrefixMapping", "RngCount", "RngKey", "RngState", "RngStream", "Rngs", "Sequential", "State",
    "StateSharding", "Variable", "WithTag", "clear_non_graph_nodes", "clone", "eval_shape",
    "filter_state", "find_duplicates", "fork_rngs", "from_flat_state", "from_tree",
    "get_named_sharding", "get_partition_spec", "graphdef", "iter_graph", "jit", "map_state",
    "merge", "merge_state", "pop", "replace_by_pure_dict", "restore_rngs", "shard_map", "split",
    "split_rngs", "split_state", "state", "to_flat_state", "to_predicate", "to_pure_dict",
    "to_tree", "update", "update_context", "variables", "with_partitioning",
]
# fmt: on
__all__ += nn.__all__


def __dir__() -> list[str]:
    return sorted([*__all__, "initializers"])
