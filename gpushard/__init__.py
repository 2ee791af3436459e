"""Arrays that span devices, move between layouts at memory speed, and behave like NumPy.

A mesh is a grid of devices with named axes. A sharding says which mesh axes split which dims of an
array. Operations run on the devices of their operands, and results stay there:

>>> import numpy as np
>>> import gpushard as gs
>>> mesh = gs.make_mesh((2,), ("x",))
>>> x = gs.device_put(np.arange(6.0).reshape(2, 3), gs.NamedSharding(mesh, gs.P("x")))
>>> y = gs.numpy.square(x)
>>> y.sharding.spec
PartitionSpec('x')
>>> y.sum(axis=0).tolist()
[9.0, 17.0, 29.0]
>>> [shard.data.shape for shard in y.addressable_shards]
[(1, 3), (1, 3)]

=========================================  =====================================================
what                                       where
=========================================  =====================================================
meshes and shardings                       `make_mesh`, `Mesh`, `NamedSharding`, `P`, `sharding`
placing arrays                             `device_put`, `reshard`, `make_array_from_callback`
functions under the names of NumPy, SciPy  `numpy`, `special`
random numbers from keys                   `random`
functions under the names of JAX           `lax`, `nn`, `tree`, `tree_util`
transforms of functions                    `jit`, `vmap`, `pmap`, `shard_map`
Flax's modules                             `nnx`
other libraries                            `from_dlpack`, `map_shards`, `interop`
older types of JAX                         `legacy`
programs of several processes              `multihost`
pictures, traces, settings                 `debug`, `profiler`, `show_config`, `configure`
types that NumPy lacks, tools for tests    `dtypes`, `testing`
=========================================  =====================================================
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING, Any

from gpushard import config, dtypes, errors, tree
from gpushard._array import Array, ShapeDtypeStruct, Shard, transfer_guard
from gpushard._array.guards import (
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)
from gpushard._array.library_protocols import promise as _promise
from gpushard._geometry.memory_layout import Format, Layout
from gpushard._geometry.mesh import AbstractMesh, Mesh, create_device_mesh, set_mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P, PartitionSpec
from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard._movement.plan import Plan
from gpushard._ops.gather_guard import gather_guard
from gpushard._placement.default_placement import default_device, get_mesh, make_mesh, use_mesh
from gpushard._placement.device_get import device_get
from gpushard._placement.device_put import block_until_ready, device_put, register_placeable
from gpushard._placement.devices import (
    default_backend,
    device_count,
    devices,
    local_device_count,
    local_devices,
    process_count,
    process_index,
)
from gpushard._placement.live_arrays import live_arrays
from gpushard._placement.make_array import (
    make_array_from_callback,
    make_array_from_single_device_arrays,
)
from gpushard._placement.process_local_data import (
    make_array_from_process_local_data,
    num_addressable_indices,
)
from gpushard._placement.reshard import reshard
from gpushard._runtime.current_runtime import configure
from gpushard._runtime.runtime import Device
from gpushard._version import __version__ as __version__
from gpushard.config import Settings

# fmt: off
__all__ = [
    "AbstractMesh", "Array", "Device", "Format", "Layout", "Mesh", "NamedSharding", "P",
    "PartitionSpec", "Plan", "Settings", "ShapeDtypeStruct", "Shard", "Sharding",
    "SingleDeviceSharding", "block_until_ready", "clear_caches", "config", "configure",
    "create_device_mesh", "default_backend", "default_device", "device_count", "device_get",
    "device_put", "device_put_replicated", "device_put_sharded", "devices", "disable_jit",
    "effects_barrier", "empty_cache", "errors", "eval_shape", "from_dlpack", "gather_guard",
    "get_mesh", "io_callback", "jit", "live_arrays", "load", "local_device_count", "local_devices",
    "log_compiles", "make_array_from_callback", "make_array_from_process_local_data",
    "make_array_from_single_device_arrays", "make_jaxpr", "make_mesh", "map_shards", "named_scope",
    "num_addressable_indices", "pjit", "pmap", "prefetch", "process_count", "process_index",
    "pure_callback", "register_placeable", "replicate", "reshard", "save", "set_mesh", "shard_map",
    "show_config", "smap", "soft_pmap", "transfer_guard", "transfer_guard_device_to_device",
    "transfer_guard_device_to_host", "transfer_guard_host_to_device", "tree", "typeof", "use_mesh",
    "vmap",
]
# fmt: on

_MODULES = (
    "debug",
    "dtypes",
    "interop",
    "lax",
    "legacy",
    "multihost",
    "nn",
    "nnx",
    "numpy",
    "profiler",
    "random",
    "sharding",
    "special",
    "testing",
    "tree_util",
)
"""Modules outside of `__all__`: some would hide other names there."""

_FROM = {
    "device_put_replicated": "gpushard._placement.device_put_sharded",
    "device_put_sharded": "gpushard._placement.device_put_sharded",
    "effects_barrier": "gpushard._transforms.tracing.callbacks",
    "empty_cache": "gpushard._placement.devices",
    "from_dlpack": "gpushard.interop",
    "io_callback": "gpushard._transforms.tracing.callbacks",
    "load": "gpushard._placement.npy",
    "map_shards": "gpushard.interop",
    "prefetch": "gpushard._placement.prefetch",
    "pure_callback": "gpushard._transforms.tracing.callbacks",
    "replicate": "gpushard._placement.device_put_sharded",
    "save": "gpushard._placement.npy",
    "show_config": "gpushard._cli.info",
    "pmap": "gpushard._transforms.pmap",
    "shard_map": "gpushard._transforms.mapping.shard_map",
    "smap": "gpushard._transforms.mapping.shard_map",
    "soft_pmap": "gpushard._transforms.pmap",
    "vmap": "gpushard._transforms.mapping.vmap",
    "clear_caches": "gpushard._transforms.jit.jit",
    "disable_jit": "gpushard._transforms.jit.jit",
    "eval_shape": "gpushard._transforms.jit.abstract",
    "jit": "gpushard._transforms.jit.jit",
    "log_compiles": "gpushard._transforms.jit.jit",
    "make_jaxpr": "gpushard._transforms.jit.abstract",
    "named_scope": "gpushard._transforms.values.named_scope",
    "pjit": "gpushard.legacy.pjit",
    "typeof": "gpushard._transforms.jit.abstract",
}
"""Modules of names that few programs use; they are imported at first use."""

if TYPE_CHECKING:
    from gpushard import debug as debug
    from gpushard import interop as interop
    from gpushard import lax as lax
    from gpushard import legacy as legacy
    from gpushard import multihost as multihost
    from gpushard import nn as nn
    from gpushard import nnx as nnx
    from gpushard import numpy as numpy
    from gpushard import random as random
    from gpushard import sharding as sharding
    from gpushard import special as special
    from gpushard import testing as testing
    from gpushard import tree_util as tree_util
    from gpushard._cli.info import show_config as show_config
    from gpushard._placement.device_put_sharded import (
        device_put_replicated,
        device_put_sharded,
        replicate,
    )
    from gpushard._placement.devices import empty_cache
    from gpushard._placement.npy import load, save
    from gpushard._placement.prefetch import prefetch
    from gpushard._transforms.jit.abstract import eval_shape as eval_shape
    from gpushard._transforms.jit.abstract import make_jaxpr as make_jaxpr
    from gpushard._transforms.jit.abstract import typeof as typeof
    from gpushard._transforms.jit.jit import clear_caches as clear_caches
    from gpushard._transforms.jit.jit import disable_jit as disable_jit
    from gpushard._transforms.jit.jit import jit as jit
    from gpushard._transforms.jit.jit import log_compiles as log_compiles
    from gpushard._transforms.mapping.shard_map import shard_map as shard_map
    from gpushard._transforms.mapping.shard_map import smap as smap
    from gpushard._transforms.mapping.vmap import vmap as vmap
    from gpushard._transforms.pmap import pmap as pmap
    from gpushard._transforms.pmap import soft_pmap as soft_pmap
    from gpushard._transforms.tracing.callbacks import effects_barrier as effects_barrier
    from gpushard._transforms.tracing.callbacks import io_callback as io_callback
    from gpushard._transforms.tracing.callbacks import pure_callback as pure_callback
    from gpushard._transforms.values.named_scope import named_scope as named_scope
    from gpushard.interop import from_dlpack as from_dlpack
    from gpushard.interop.map_shards import map_shards as map_shards
    from gpushard.legacy.pjit import pjit as pjit
else:  # a type checker would take it for a module that has every name

    def __getattr__(name: str) -> Any:
        """Import a module or a name at its first use, so that importing gpushard stays fast."""
        if name == "multihost_utils":  # as JAX calls it
            name = "multihost"
        if name == "stages":
            return _importlib.import_module("gpushard._transforms.jit.stages")
        if name in _MODULES:
            return _importlib.import_module(f"{__name__}.{name}")
        if name in _FROM:
            value = globals()[name] = getattr(_importlib.import_module(_FROM[name]), name)
            return value
        if name in dtypes.NAMES and dtypes.is_installed():
            return dtypes.named(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_promise("gpushard.debug.html_picture", "_repr_html_")
_promise("gpushard.numpy", "__array_namespace__", "__array_ufunc__", "__array_function__")
_promise(
    "gpushard.interop", "__dlpack__", "__dlpack_device__", "__cuda_array_interface__", "from_dlpack"
)


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, "stages"})
