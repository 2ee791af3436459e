"""Share the memory of arrays with NumPy, PyTorch, CuPy, JAX and other libraries.

- `exports`: DLPack and the CUDA array interface of arrays.
- `imports`: arrays from any library with DLPack.
- `map_shards`: functions of other libraries on the shards of arrays.
- `torch`: tensors. It imports PyTorch, so no other module imports it.
"""

from __future__ import annotations

from gpushard._array.library_protocols import provide
from gpushard.interop import exports
from gpushard.interop.imports import from_dlpack
from gpushard.interop.map_shards import map_shards

provide("__dlpack__", exports.capsule)
provide("__dlpack_device__", exports.dlpack_device)
provide("__cuda_array_interface__", exports.cuda_array_interface)
provide("from_dlpack", from_dlpack)

__all__ = ["from_dlpack", "map_shards"]
