"""Names of mesh axes that stand beside a value: its spec, and the value where the spec says."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array.array import Array
from gpushard.errors import ArgumentTypeError, ShardingError
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import PartitionSpec
from gpushard.placement.defaults import get_mesh
from gpushard.transforms.tracing.constraints import with_sharding_constraint
from gpushard.transforms.values.frames import innermost
from gpushard.typing import Shape


def spec_of(names: Any) -> PartitionSpec:
    """Return the spec of names.

    Raises:
      ArgumentTypeError: they are no tuple.
    """
    if isinstance(names, str) or not isinstance(names, tuple | list | PartitionSpec):
        raise ArgumentTypeError.refusing(
            "sharding", names, 'must be a tuple with an entry for each dim, such as (None, "model")'
        )
    return PartitionSpec(*names)


def check_rank(spec: PartitionSpec, shape: Shape | None, name: str) -> None:
    """Check that a value has a dim for each name.

    Raises:
      ShardingError: it has fewer.
    """
    if shape is not None and len(spec) > len(shape):
        raise ShardingError(
            f"{name}: sharding={tuple(spec)} has {len(spec)} names, and a value of shape {shape} "
            f"has {len(shape)} dims; give at most one for each",
            argument="sharding",
            names=tuple(spec),
            shape=shape,
        )


def mesh_here() -> Mesh | None:
    """Return the mesh that names refer to in this code; None in a function that sees blocks."""
    return get_mesh() if innermost() is None else None


def laid_out(value: Any, names: Any, kind: str) -> Any:
    """Return a new value where its names say, if there is a mesh around.

    Args:
      value: the value; anything but an array stays as it is.
      names: its names.
      kind: what it is the value of, for errors.

    Raises:
      ShardingError: there are more names than dims, or the mesh has no such axis.
    """
    mesh = mesh_here()
    if mesh is None or not names or not isinstance(value, Array | np.ndarray):
        return value
    spec = spec_of(names)
    check_rank(spec, value.shape, kind)
    return with_sharding_constraint(value, NamedSharding(mesh, spec))
