"""Layer 6: `Array` and its shards."""

from __future__ import annotations

from gpushard.array.array import Array
from gpushard.array.aval import ShapeDtypeStruct
from gpushard.array.eager import Eager
from gpushard.array.guards import transfer_guard
from gpushard.array.shard import Shard
from gpushard.ops.bind import set_eager

set_eager(Eager())

__all__ = ["Array", "ShapeDtypeStruct", "Shard", "transfer_guard"]
