"""Describe meshes and shardings, under the names of `jax.sharding`.

>>> from gpushard.sharding import Mesh, NamedSharding, PartitionSpec
>>> import gpushard as gs
>>> NamedSharding(Mesh(gs.devices()[:2], "x"), PartitionSpec("x")).spec
PartitionSpec('x')
"""

from __future__ import annotations

from gpushard._geometry.mesh import AbstractMesh, AxisType, Mesh, set_mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.older.pmap_gspmd_sharding import GSPMDSharding, PmapSharding
from gpushard._geometry.partition_spec import P, PartitionSpec
from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard._placement.default_placement import get_mesh, use_mesh
from gpushard._placement.reshard import reshard

__all__ = [
    "AbstractMesh", "AxisType", "GSPMDSharding", "Mesh", "NamedSharding", "P", "PartitionSpec",
    "PmapSharding", "Sharding", "SingleDeviceSharding", "get_mesh", "reshard", "set_mesh",
    "use_mesh",
]  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)
