"""Layer 6: `Array` and its shards."""

from __future__ import annotations

from gpushard._array.array import Array
from gpushard._array.eager import EAGER
from gpushard._array.guards import transfer_guard
from gpushard._array.shape_dtype import ShapeDtypeStruct
from gpushard._array.shard import Shard
from gpushard._ops.bind import set_eager

set_eager(EAGER)

__all__ = ["Array", "ShapeDtypeStruct", "Shard", "transfer_guard"]
