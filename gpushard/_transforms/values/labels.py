"""How dims that mesh axes split become named dims, and dims again.

A dim of n blocks on n devices is a named dim of n elements and a dim of one block. For example, `x`
has shape (8, 6) and lies in `P("x")` over 4 devices. With a name for the axis its shape is
(4, 2, 6): each device has the same 12 elements in the same memory. The method `_relabel` of arrays
makes this view without a copy.
"""

from __future__ import annotations

import math
from typing import Any

from gpushard._frozen import dataclass
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P, PartitionSpec
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._ops.rule import Splits
from gpushard._typing import Shape


@dataclass(frozen=True, eq=False)
class Labels:
    """Three shardings of one array, with their shapes; each device has the same elements in all."""

    whole: NamedSharding  # over the mesh, with some dims split
    whole_tiling: Tiling
    named: NamedSharding  # with named dims in front for these splits
    named_tiling: Tiling
    shown: Sharding  # as users see the whole array
    shown_tiling: Tiling


def labels(
    mesh: Mesh,
    axes: tuple[str, ...],
    spec: PartitionSpec,
    shape: Shape,
    lead: Splits,
    others: Splits,
    chunk: Shape | None = None,
) -> Labels:
    """Compute how the mesh axes that split dims become named dims. Pure.

    Args:
      mesh: the mesh.
      axes: the axes that get a name if they split a dim, in the order of the names.
      spec: the axes that split each dim after those of `lead`.
      shape: the shape of the whole array; the axes divide its dims.
      lead: for each dim in front that has a name already, the axes of its place.
      others: for each other dim, axes that split it further and get no name.
      chunk: None if the function sees the rest of a split dim, as in `shard_map`. Otherwise names
        take all of a split dim: () for a name of the axis alone, (n,) for a second name of n
        elements on each device.
    """
    named: list[Any] = [axis for axis in axes if axis in spec.all_axes()]
    body = shape[len(lead) :]
    rest = [
        (n // math.prod(mesh.shape[axis] for axis in spec.axes(dim)), others[dim])
        for dim, n in enumerate(body)
        if chunk is None or not spec.axes(dim)
    ]
    whole = [(*spec.axes(dim), *others[dim]) for dim in range(len(body))]
    while whole and not whole[-1] and len(whole) > len(spec):
        whole.pop()
    sharding = NamedSharding(mesh, spec if not (lead or any(others)) else P(*lead, *whole))
    sizes = [mesh.shape[axis] for axis in named]
    for n in chunk or ():
        named.append(())
        sizes.append(n)
    inner = NamedSharding(mesh, P(*lead, *named, *[axes for _, axes in rest]))
    parts = (*shape[: len(lead)], *sizes, *[n for n, _ in rest])
    tiling = sharding.tiling(shape)
    return Labels(sharding, tiling, inner, inner.tiling(parts), sharding, tiling)
