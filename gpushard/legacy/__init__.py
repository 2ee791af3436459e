"""Run older programs: array types, shardings and functions that JAX had before `jax.Array`.

New programs need none of these names; `docs/legacy.md` lists their replacements.

>>> import gpushard as gs
>>> x = gs.device_put_sharded([1.0, 2.0], gs.devices()[:2])
>>> isinstance(x, ShardedDeviceArray), isinstance(x[0], DeviceArray), isinstance(x, gs.Array)
(True, True, True)
"""

from __future__ import annotations

from gpushard._geometry.memory_layout import Format as Layout
from gpushard._geometry.memory_layout import Layout as DeviceLocalLayout
from gpushard._geometry.older.op_sharding import OpSharding
from gpushard._geometry.older.pmap_gspmd_sharding import GSPMDSharding, PmapSharding
from gpushard._geometry.older.sharding_spec import (
    ArrayMapping,
    Chunked,
    NoSharding,
    Replicated,
    ShardedAxis,
    ShardingSpec,
    Unstacked,
    mesh_sharding_specs,
    partitioned_sharding_spec,
    pmap_sharding_spec,
    spec_to_indices,
    tile_aval_nd,
    untile_aval_nd,
)
from gpushard._placement.device_put_sharded import (
    device_put_replicated,
    device_put_sharded,
    replicate,
)
from gpushard.legacy.device_array import (
    DeviceArray,
    ShardedDeviceArray,
    make_device_array,
    make_sharded_device_array,
)
from gpushard.legacy.global_device_array import GlobalDeviceArray, mesh
from gpushard.legacy.host_callback import barrier_wait, call, id_print, id_tap
from gpushard.legacy.parts import (
    Parts,
    get_global_aval,
    get_local_aval,
    get_num_partitions,
    reconcile_num_partitions,
)
from gpushard.legacy.pjit import FROM_GDA
from gpushard.legacy.serial_loop import SerialLoop, serial_loop
from gpushard.legacy.shard_args import shard_args, shard_aval
from gpushard.legacy.sharded_jit import sharded_jit, with_sharding_constraint
from gpushard.legacy.vtile import vtile
from gpushard.legacy.xmap import xmap

__all__ = [
    "FROM_GDA", "ArrayMapping", "Chunked", "DeviceArray", "DeviceLocalLayout", "GSPMDSharding",
    "GlobalDeviceArray", "Layout", "NoSharding", "OpSharding", "Parts", "PmapSharding",
    "Replicated", "SerialLoop", "ShardedAxis",
    "ShardedDeviceArray", "ShardingSpec", "Unstacked", "barrier_wait", "call",
    "device_put_replicated", "device_put_sharded", "get_global_aval", "get_local_aval",
    "get_num_partitions", "id_print", "id_tap", "make_device_array", "make_sharded_device_array",
    "mesh", "mesh_sharding_specs", "partitioned_sharding_spec", "pmap_sharding_spec",
    "reconcile_num_partitions", "replicate", "serial_loop", "shard_args", "shard_aval",
    "sharded_jit", "spec_to_indices", "tile_aval_nd", "untile_aval_nd", "vtile",
    "with_sharding_constraint", "xmap",
]  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)
