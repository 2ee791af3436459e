"""Apply names of mesh axes to values: convert them to specs, and lay out values by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array.array import Array
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._placement.default_placement import get_mesh
from gpushard._transforms.tracing.constraints import with_sharding_constraint
from gpushard._transforms.values.frames import innermost
from gpushard._typing import Shape
from gpushard.errors import ArgumentTypeError, ShardingError


def spec_of(names: Any) -> PartitionSpec:
    """Convert names of mesh axes to a spec.

    Raises:
      ArgumentTypeError: the names are no tuple or list.
    """
    if isinstance(names, str) or not isinstance(names, tuple | list | PartitionSpec):
        raise ArgumentTypeError.refusing(
            "sharding",
            names,
            'must be a tuple with an entry for each axis, such as (None, "model")',
        )
    return PartitionSpec(*names)


def check_rank(spec: PartitionSpec, shape: Shape | None, name: str) -> None:
    """Check that a value has an axis for each name.

    Raises:
      ShardingError: it has fewer axes than names.
    """
    if shape is not None and len(spec) > len(shape):
        raise ShardingError(
            f"{name}: sharding={tuple(spec)} has {len(spec)} names, and a value of shape {shape} "
            f"has {len(shape)} axes; give at most one name for each",
            argument="sharding",
            names=tuple(spec),
            shape=shape,
        )


def mesh_here() -> Mesh | None:
    """Return the mesh that names refer to here; None inside a function that is mapped."""
    return get_mesh() if innermost() is None else None


def apply_names(value: Any, names: Any, kind: str) -> Any:
    """Lay out a value by names of mesh axes, if there is a mesh: in `with mesh:` or `set_mesh`.

    Args:
      value: the value; anything but an array is returned unchanged.
      names: for each axis of the value a mesh axis, a tuple of them, or None.
      kind: the type of its Variable, for errors.

    Raises:
      ShardingError: there are more names than axes of the value, or the mesh has no such axis.
    """
    mesh = mesh_here()
    if mesh is None or not names or not isinstance(value, Array | np.ndarray):
        return value
    spec = spec_of(names)
    check_rank(spec, value.shape, kind)
    return with_sharding_constraint(value, NamedSharding(mesh, spec))
