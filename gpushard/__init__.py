"""gpushard: arrays that span devices, move between layouts at memory speed and behave like NumPy.

The map of the house; imports point downwards only.

====== ================================= ===================================================
layer  package                           what it knows
====== ================================= ===================================================
9      `cli`, `testing`                  the command line; tools for tests
8      `interop`                         other array libraries: DLPack, CUDA arrays, PyTorch
7      `numpy`, `random`, `special`      functions, as NumPy, JAX and SciPy name them
5      `array`, `placement`              `Array`, `Shard`, `device_put`, `make_array_from_*`
4      `ops`                             operations: rows, how they are split, their execution
3      `movement`                        copies between shards: plans and their execution
2      `runtime`                         devices, streams, memory, events; the host backend
1      `geometry`                        meshes, specs and shardings, as integers and names
0      `errors`, `config`, `tree`, ...   errors, settings, pytrees, types, a bounded cache
====== ================================= ===================================================
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gpushard import dtypes, errors, tree
from gpushard.array import Array, ShapeDtypeStruct, Shard, transfer_guard
from gpushard.array.guards import (
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)
from gpushard.array.protocols import promise
from gpushard.config import Settings
from gpushard.geometry.format import Format, Layout
from gpushard.geometry.mesh import AbstractMesh, Mesh, create_device_mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P, PartitionSpec
from gpushard.geometry.sharding import Sharding, SingleDeviceSharding
from gpushard.interop import from_dlpack, map_shards
from gpushard.movement.plan import Plan
from gpushard.ops.gather_guard import gather_guard
from gpushard.placement.defaults import (
    default_backend,
    default_device,
    device_count,
    devices,
    local_device_count,
    local_devices,
    make_mesh,
    process_count,
    process_index,
    use_mesh,
)
from gpushard.placement.device_put import (
    block_until_ready,
    device_get,
    device_put,
    register_placeable,
    reshard,
)
from gpushard.placement.make_array import (
    live_arrays,
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
    num_addressable_indices,
)
from gpushard.placement.npy import load, save
from gpushard.placement.prefetch import empty_cache, prefetch
from gpushard.runtime.current import configure
from gpushard.runtime.device import Device

__all__ = [
    "AbstractMesh",
    "Array",
    "Device",
    "Format",
    "Layout",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Plan",
    "Settings",
    "ShapeDtypeStruct",
    "Shard",
    "Sharding",
    "SingleDeviceSharding",
    "block_until_ready",
    "configure",
    "create_device_mesh",
    "default_backend",
    "default_device",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "empty_cache",
    "errors",
    "from_dlpack",
    "gather_guard",
    "live_arrays",
    "load",
    "local_device_count",
    "local_devices",
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
    "make_mesh",
    "map_shards",
    "num_addressable_indices",
    "prefetch",
    "process_count",
    "process_index",
    "register_placeable",
    "reshard",
    "save",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
    "tree",
    "use_mesh",
]

if TYPE_CHECKING:
    from gpushard import numpy as numpy
    from gpushard import random as random
    from gpushard import special as special

_ON_DEMAND = (
    "numpy",
    "random",
    "special",
)  # not in __all__, where they would hide others of these names

promise("gpushard.numpy", "__array_namespace__", "__array_ufunc__", "__array_function__")


def __getattr__(name: str) -> Any:
    """Import a subpackage, or `ml_dtypes`, when first used, so that importing gpushard is fast."""
    if name in _ON_DEMAND:
        return importlib.import_module(f"{__name__}.{name}")
    if name in dtypes.NAMES and dtypes.is_installed():
        return dtypes.named(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_DEMAND})
