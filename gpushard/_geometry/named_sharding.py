"""`NamedSharding`: a mesh and a `PartitionSpec`."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any, Self

import numpy as np

from gpushard._geometry.memory_kind import check_kind, place_on
from gpushard._geometry.mesh import AbstractMesh, Mesh, mesh_around
from gpushard._geometry.partition_spec import UNCONSTRAINED, PartitionSpec, refuse_unreduced
from gpushard._geometry.sharding import GridSharding
from gpushard._geometry.tiling import Assignment
from gpushard._typing import Device, IntArray
from gpushard.errors import ArgumentTypeError, NoMeshError, ShardingError


class NamedSharding(GridSharding):
    """A sharding that splits the axes of an array over the axes of a mesh.

    The mesh axes in `spec[i]` split axis i of the array, into as many blocks as the product of
    their sizes. Number the positions along these mesh axes in row-major order. The device at
    position k holds block k. Devices that differ only along other mesh axes hold replicas.

    Args:
      mesh: the devices.
      spec: the mesh axes that split each axis of the array. Only `lax.with_sharding_constraint`
        accepts a sharding with the entry `UNCONSTRAINED`. In a traced function, `jit` then chooses
        how to split this axis; elsewhere the axis keeps its split.
      memory_kind: the memory of each device that holds the shards: "device" (the default),
        "pinned_host" or "unpinned_host".

    Raises:
      ShardingError: the spec names an axis that the mesh does not have, or one axis twice.

    >>> mesh = Mesh([["a", "b"], ["c", "d"]], ("x", "y"))
    >>> NamedSharding(mesh, PartitionSpec("x")).devices_indices_map((5,))["c"]
    (slice(3, 5, None),)
    """

    def __init__(
        self, mesh: Mesh | AbstractMesh, spec: PartitionSpec, *, memory_kind: str | None = None
    ) -> None:
        if not isinstance(mesh, Mesh | AbstractMesh):
            raise ArgumentTypeError.refusing("mesh", mesh, "must be a Mesh or an AbstractMesh")
        if not isinstance(spec, PartitionSpec):
            raise ArgumentTypeError(
                f"spec={spec!r} must be a PartitionSpec, such as P('{mesh.axis_names[0]}')"
                if mesh.axis_names
                else f"spec={spec!r} must be a PartitionSpec, such as P()",
                argument="spec",
            )
        _check_spec(mesh, spec)
        self.mesh = mesh
        self.spec = spec
        self._memory_kind = check_kind(memory_kind)
        self._hash = hash((mesh, spec, self._memory_kind))
        self._assignments: dict[int, Assignment] = {}

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is NamedSharding
            and self._hash == other._hash
            and self.mesh == other.mesh
            and self.spec == other.spec
            and self._memory_kind == other._memory_kind
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return _named_sharding, (self.mesh, self.spec, self._memory_kind)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name!r}: {size}" for name, size in self.mesh.shape.items())
        entries = ", ".join(map(repr, self.spec))
        kind = "" if self._memory_kind == "device" else f", memory_kind={self._memory_kind!r}"
        return f"NamedSharding(mesh=({sizes}), spec=P({entries}){kind})"

    @functools.cached_property
    def device_set(self) -> set[Device]:
        """The devices of the mesh."""
        return set(self._concrete_mesh().assignment)

    @functools.cached_property
    def num_devices(self) -> int:
        """Number of devices of the mesh, abstract or not."""
        return self.mesh.size

    @functools.cached_property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array: all mesh axes in the spec have size 1."""
        sizes = [self.mesh.shape[axis] for axis in self.spec.all_axes()]
        return not self.leaves_open and all(size == 1 for size in sizes)

    @functools.cached_property
    def is_fully_addressable(self) -> bool:
        """Whether this process can reach every device."""
        return not self._concrete_mesh().is_multi_process

    @property
    def leaves_open(self) -> bool:
        """Whether a dim of the spec is `UNCONSTRAINED`; no array has such a sharding."""
        return any(entry is UNCONSTRAINED for entry in self.spec)

    def with_memory_kind(self, kind: str) -> Self:
        """Return a copy of this sharding with shards in another memory of the devices."""
        return type(self)(self.mesh, self.spec, memory_kind=kind)

    def with_spec(self, spec: PartitionSpec) -> Self:
        """Return a copy of this sharding with another spec."""
        return type(self)(self.mesh, spec, memory_kind=self._memory_kind)

    def assignment(self, ndim: int) -> Assignment:
        """Return the number of each device's block along every dim, for arrays of `ndim` dims."""
        if len(self.spec) > ndim:
            raise ShardingError(
                f"{self.spec!r} has {len(self.spec)} entries for an array with ndim={ndim}; give "
                "at most one entry per axis of the array",
                argument="spec",
                spec=self.spec,
                ndim=ndim,
            )
        assignment = self._assignments.get(ndim)
        if assignment is None:
            if self.leaves_open:
                raise ShardingError(
                    f"{self.spec!r} leaves an axis of the array UNCONSTRAINED; give a mesh axis or "
                    "None. Only lax.with_sharding_constraint takes UNCONSTRAINED",
                    argument="spec",
                    spec=self.spec,
                )
            assignment = self._assignments[ndim] = self._make_assignment(ndim)
        return assignment

    def _make_assignment(self, ndim: int) -> Assignment:
        mesh = self._concrete_mesh()
        coordinates = dict(zip(mesh.axis_names, np.indices(mesh.axis_sizes), strict=True))
        blocks = np.zeros((ndim, mesh.size), np.int64)
        counts = []
        for dim in range(ndim):
            number: IntArray = np.zeros(mesh.axis_sizes, np.int64)
            count = 1
            for axis in self.spec.axes(dim):
                number = number * mesh.shape[axis] + coordinates[axis]
                count *= mesh.shape[axis]
            blocks[dim] = number.ravel()
            counts.append(count)
        places = tuple(place_on(device, self._memory_kind) for device in mesh.assignment)
        return Assignment(places, tuple(counts), blocks)

    def _concrete_mesh(self) -> Mesh:
        if isinstance(self.mesh, AbstractMesh):
            raise ShardingError(
                f"{self!r} has an abstract mesh and so no devices; use a Mesh",
                argument="mesh",
                mesh=self.mesh,
            )
        return self.mesh


def _named_sharding(mesh: Mesh, spec: PartitionSpec, kind: str) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=kind)


def _check_spec(mesh: Mesh | AbstractMesh, spec: PartitionSpec) -> None:
    refuse_unreduced(spec)
    unknown = sorted(spec.reduced.difference(mesh.axis_names))
    if unknown:
        raise ShardingError(
            f"{spec!r} has the mesh axis {unknown[0]!r} in reduced, the mesh has "
            f"{dict(mesh.shape)}; use one of its axes",
            argument="spec",
            spec=spec,
            axis=unknown[0],
        )
    for axis, times in Counter(spec.all_axes()).items():
        if axis not in mesh.axis_names:
            raise ShardingError(
                f"{spec!r} names the mesh axis {axis!r}, the mesh has {dict(mesh.shape)}; use "
                "one of its axes",
                argument="spec",
                spec=spec,
                axis=axis,
                mesh_shape=dict(mesh.shape),
            )
        if times > 1:
            raise ShardingError(
                f"{spec!r} names the mesh axis {axis!r} {times} times; a mesh axis can split "
                "only one axis of an array",
                argument="spec",
                spec=spec,
                axis=axis,
            )


def over_mesh(spec: PartitionSpec, argument: str) -> NamedSharding:
    """Return the sharding of a bare spec over the current mesh.

    Raises:
      NoMeshError: there is no current mesh.
    """
    mesh = mesh_around()
    if mesh is None:
        raise NoMeshError(
            f"{argument}={spec!r} needs a mesh; place within `with mesh:` or use "
            "NamedSharding(mesh, spec)",
            argument=argument,
            spec=spec,
        )
    return NamedSharding(mesh, spec)
