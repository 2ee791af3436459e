"""Shardings over a list of devices, without a mesh: `PmapSharding` and `GSPMDSharding`."""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from gpushard._geometry.memory_kind import check_kind, place_on
from gpushard._geometry.mesh import device_grid, every_device, line_of
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.older.op_sharding import OpSharding
from gpushard._geometry.older.sharding_spec import Replicated, ShardedAxis, ShardingSpec, Unstacked
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.sharding import GridSharding, Sharding
from gpushard._geometry.tiling import Assignment, Tiling
from gpushard._typing import Device, Shape, shown_as
from gpushard.errors import ArgumentError, ArgumentTypeError, ShardingError


class ListedSharding(GridSharding):
    """Base of shardings that assign blocks to a list of devices, without a mesh."""

    def __init__(self, devices: Any, what: Any, needed: int | None, kind: str | None) -> None:
        self._listed = self._devices = tuple(device_grid(devices).flat)
        self._memory_kind = check_kind(kind)
        self._what = what
        if len(set(self._listed)) != len(self._listed):
            repeated = next(d for d in self._listed if self._listed.count(d) > 1)
            raise ShardingError(
                f"devices hold {repeated!r} more than once; give each device once",
                argument="devices",
                device=repeated,
            )
        if needed is not None and len(self._listed) != needed:
            raise ShardingError(
                f"{what} is for {needed} devices, got {len(self._listed)}; give that many",
                argument="devices",
                needed=needed,
                devices=len(self._listed),
            )
        self._assignments: dict[int, Assignment] = {}

    @property
    @abc.abstractmethod
    def _key(self) -> Any:
        """A key that is equal for shardings with the same layout."""

    @abc.abstractmethod
    def _layout(self, ndim: int) -> tuple[Shape, Any]:
        """Return the number of blocks of each dim, and each device's blocks; None for replicas."""

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self._listed, self._what, self._memory_kind)

    def __repr__(self) -> str:
        kind = "" if self._memory_kind == "device" else f", memory_kind={self._memory_kind!r}"
        return f"{type(self).__name__}(devices={list(self._listed)}, {self._what}{kind})"

    @property
    def devices(self) -> np.ndarray[Any, np.dtype[np.object_]]:
        """The devices, in order."""
        return device_grid(self._listed)

    @property
    def device_set(self) -> set[Device]:
        """The devices with blocks."""
        return set(self._devices)

    @property
    def num_devices(self) -> int:
        """The number of devices with blocks."""
        return len(self._devices)

    @property
    def beside(self) -> Sharding:
        """A replicated sharding on a mesh of these devices, for arrays of any rank."""
        return NamedSharding(line_of(self._devices), PartitionSpec(), memory_kind=self._memory_kind)

    def with_memory_kind(self, kind: str) -> Self:
        """Return this sharding in another memory of the devices."""
        rebuilt: Self = _rebuilt(type(self), self._listed, self._what, kind)
        return rebuilt

    def assignment(self, ndim: int) -> Assignment:
        """Return the block numbers of every device for arrays of `ndim` dims."""
        known = self._assignments.get(ndim)
        if known is None:
            counts, blocks = self._layout(ndim)
            if blocks is None:
                blocks = np.zeros((ndim, len(self._devices)), np.int64)
            places = tuple(place_on(device, self._memory_kind) for device in self._devices)
            known = self._assignments[ndim] = Assignment(places, counts, blocks)
        return known


def _rebuilt(cls: Any, devices: Sequence[Device], what: Any, kind: str) -> Any:
    return cls(devices, what, memory_kind=kind)


class PmapSharding(ListedSharding):
    """A sharding that gives each device one element along a dim, as for results of `pmap`.

    The spec unstacks this dim: shards do not have it. In all other shardings, shards have all dims
    of the array.

    Args:
      devices: the devices, in row-major order of the grid that the spec describes.
      sharding_spec: a `ShardingSpec`: how dims are cut, and which device gets which piece.
      memory_kind: the memory of each device that holds the shards: "device" (the default),
        "pinned_host" or "unpinned_host".

    Raises:
      ArgumentTypeError: `sharding_spec` is not a `ShardingSpec`.
      ShardingError: a device is repeated, or the spec needs another number of devices.

    >>> sharding = PmapSharding.default((2, 3), devices=["a", "b"])
    >>> sharding.shard_shape((2, 3)), sharding.devices_indices_map((2, 3))["b"]
    ((3,), (1, slice(None, None, None)))
    """

    def __init__(
        self, devices: Any, sharding_spec: ShardingSpec, *, memory_kind: str | None = None
    ) -> None:
        if not isinstance(sharding_spec, ShardingSpec):
            raise ArgumentTypeError.refusing(
                "sharding_spec", sharding_spec, "must be a ShardingSpec"
            )
        needed = len(sharding_spec.blocks().T)
        super().__init__(devices, sharding_spec, needed, memory_kind)

    @classmethod
    def default(
        cls, shape: Sequence[int], sharded_dim: int | None = 0, devices: Any = None
    ) -> PmapSharding:
        """Make the sharding that gives each device one element along a dim.

        Args:
          shape: shape of the array.
          sharded_dim: the dim; None gives each of `devices` the whole array.
          devices: a device for each element along the dim; by default the first devices of
            `gpushard.devices()`.

        Raises:
          ArgumentError: the array has no such dim, or both `sharded_dim` and `devices` are None.
          ShardingError: there are more or fewer devices than elements.

        >>> PmapSharding.default((3, 2), 1, ["a", "b"]).sharding_spec
        ShardingSpec((None, Unstacked(size=2)), (ShardedAxis(axis=0),))
        """
        if not isinstance(shape, tuple | list):
            raise ArgumentTypeError.refusing("shape", shape, "must be a tuple of integers")
        ndim = len(shape)
        if sharded_dim is None:
            if devices is None:
                raise ArgumentError(
                    "sharded_dim and devices are both None; give the axis with one element for "
                    "each device, or the devices that get replicas",
                    argument="sharded_dim",
                )
            replicas = Replicated(device_grid(devices).size)
            return cls(devices, ShardingSpec([None] * ndim, [replicas]))
        if sharded_dim not in range(-ndim, ndim):
            raise ArgumentError.refusing(
                "sharded_dim",
                sharded_dim,
                f"is not an axis of an array of shape {tuple(shape)}",
                shape=tuple(shape),
            )
        entries: list[Unstacked | None] = [None] * ndim
        entries[sharded_dim] = Unstacked(shape[sharded_dim])
        spec = ShardingSpec(entries, [ShardedAxis(0)])
        return cls(every_device()[: shape[sharded_dim]] if devices is None else devices, spec)

    @property
    def sharding_spec(self) -> ShardingSpec:
        """The `ShardingSpec`: how dims are cut, and which devices hold the pieces."""
        spec: ShardingSpec = self._what
        return spec

    @property
    def unstacked(self) -> tuple[int, ...]:
        """The dims of the array that shards do not have."""
        return self.sharding_spec.unstacked

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array, with all its dims."""
        return not self.unstacked and all(n == 1 for n in self.sharding_spec.counts)

    @functools.cached_property
    def _key(self) -> Any:
        spec = self.sharding_spec
        blocks = spec.blocks().tobytes()
        return self._devices, self._memory_kind, spec.counts, spec.unstacked, blocks

    def _make_tiling(self, global_shape: Shape) -> Tiling:
        self.sharding_spec.check_shape(global_shape)
        return super()._make_tiling(global_shape)

    def _layout(self, ndim: int) -> tuple[Shape, Any]:
        spec = self.sharding_spec
        if ndim != len(spec.sharding):
            raise ShardingError(
                f"{spec!r} is for arrays with ndim={len(spec.sharding)}, and this array has "
                f"ndim={ndim}; give one entry per axis of the array",
                argument="sharding_spec",
                ndim=ndim,
            )
        return spec.counts, spec.blocks()


class GSPMDSharding(ListedSharding):
    """A sharding over a list of devices, described by XLA's `OpSharding`.

    Two instances are equal if each device has the same block in both, even if their descriptions
    differ.

    Args:
      devices: the devices; `op_sharding` names them by their positions in this list.
      op_sharding: an `OpSharding`, or its text such as "{devices=[2,1]<=[2]}".
      memory_kind: the memory of each device that holds the shards: "device" (the default),
        "pinned_host" or "unpinned_host".

    Raises:
      ArgumentTypeError: `op_sharding` is neither an `OpSharding` nor a string.
      ParseError: the text is not an `OpSharding`.
      ShardingError: the `OpSharding` describes no tiles, or has another number of devices.

    >>> GSPMDSharding(["a", "b"], "{devices=[2,1]<=[2]}").shard_shape((4, 3))
    (2, 3)
    """

    def __init__(
        self, devices: Any, op_sharding: OpSharding | str, *, memory_kind: str | None = None
    ) -> None:
        if isinstance(op_sharding, str):
            op_sharding = OpSharding.from_string(op_sharding)
        if not isinstance(op_sharding, OpSharding):
            raise ArgumentTypeError.refusing(
                "op_sharding", op_sharding, "must be an OpSharding, or its text"
            )
        tiled = op_sharding.type is OpSharding.Type.OTHER
        super().__init__(
            devices, op_sharding, op_sharding.num_devices if tiled else None, memory_kind
        )
        op_sharding.layout(op_sharding.rank)  # refuses kinds that lay out no array
        if op_sharding.type is OpSharding.Type.MAXIMAL:
            (position,) = op_sharding.tile_assignment_devices
            if position >= len(self._listed):
                raise ShardingError(
                    f"{op_sharding} names device {position}, and there are {len(self._listed)}; "
                    "give more, or another number",
                    argument="op_sharding",
                    position=position,
                    devices=len(self._listed),
                )
            self._devices = self._listed[position : position + 1]

    @classmethod
    def get_replicated(cls, devices: Any, *, memory_kind: str | None = None) -> GSPMDSharding:
        """Make a sharding that keeps the whole array on each device.

        Args:
          devices: the devices.
          memory_kind: the memory of each device that holds the shards: "device" (the default),
            "pinned_host" or "unpinned_host".

        >>> GSPMDSharding.get_replicated(["a", "b"]).is_fully_replicated
        True
        """
        return cls(devices, OpSharding(), memory_kind=memory_kind)

    @property
    def op_sharding(self) -> OpSharding:
        """The `OpSharding` of the constructor."""
        op: OpSharding = self._what
        return op

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return self.op_sharding.layout(self.op_sharding.rank)[1] is None

    @functools.cached_property
    def _key(self) -> Any:
        counts, blocks = self.op_sharding.layout(self.op_sharding.rank)
        tiles = None if blocks is None else (counts, blocks.tobytes())
        return self._devices, self._memory_kind, tiles

    def _layout(self, ndim: int) -> tuple[Shape, Any]:
        return self.op_sharding.layout(ndim)


shown_as("Sharding", ListedSharding)
