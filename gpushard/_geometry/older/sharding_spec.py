"""`ShardingSpec`: cuts of dims into chunks, and the axes of a grid of devices that hold them.

Devices are in row-major order of the grid: with `Replicated` as the last axis, replicas are on
neighbouring devices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.older.op_sharding import OpSharding
from gpushard._typing import IntArray, Shape
from gpushard.errors import ArgumentTypeError, ImmutableError, ShardingError, UnstackedError


class NoSharding:
    """An entry for a dim that is not cut; equal to None.

    >>> NoSharding() == NoSharding(), NoSharding() == None
    (True, True)
    """

    def __eq__(self, other: object) -> bool:
        return other is None or type(other) is NoSharding

    def __hash__(self) -> int:
        return hash(None)

    def __repr__(self) -> str:
        return "NoSharding()"


class Chunked:
    """An entry for a dim that is cut into equal chunks; shards keep the dim. Immutable.

    Args:
      chunks: the number of chunks, or several numbers. The second number cuts each chunk of the
        first again, and so on; each number has its own axis of the grid. () leaves the dim whole.

    Raises:
      ArgumentTypeError: a number is not an integer.
      ShardingError: a number is not positive.

    >>> Chunked(2), Chunked((2, 3))
    (Chunked((2,)), Chunked((2, 3)))
    """

    chunks: Shape

    def __init__(self, chunks: int | Iterable[int]) -> None:
        several = tuple(chunks) if isinstance(chunks, Iterable) else (chunks,)
        sizes = tuple(_positive(n, "chunks") for n in several)
        object.__setattr__(self, "chunks", sizes)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise ImmutableError(
            f"{self!r} cannot be changed, so {name!r} cannot be set; make another Chunked",
            argument=name,
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise ImmutableError(
            f"{self!r} cannot be changed, so {name!r} cannot be deleted; make another Chunked",
            argument=name,
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Chunked) and type(other) is type(self) and self.chunks == other.chunks
        )

    def __hash__(self) -> int:
        return hash((type(self), self.chunks))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.chunks,)

    def __repr__(self) -> str:
        return f"Chunked({self.chunks})"


@dataclass(frozen=True)
class Unstacked:
    """An entry for a dim that is cut into its elements; shards do not have the dim."""

    size: int
    """The length of the dim."""


@dataclass(frozen=True)
class ShardedAxis:
    """An axis of the device grid along which devices hold the pieces of a cut dim."""

    axis: int
    """The number of the cut, counted over the entries of all `Chunked` and `Unstacked` dims."""


@dataclass(frozen=True)
class Replicated:
    """An axis of the device grid along which devices hold replicas."""

    replicas: int
    """The size of the axis."""


DimSharding: TypeAlias = Chunked | Unstacked | NoSharding | None
MeshAxis: TypeAlias = ShardedAxis | Replicated
ArrayMapping: TypeAlias = Mapping[str, int]
"""The dim that each mesh axis splits; if several split one dim, the first is most significant."""


class ShardingSpec:
    """A description of how axes of an array are cut, and which device gets which piece.

    The devices form a grid, with an axis for each entry of `mesh_mapping`.

    Args:
      sharding: an entry for each axis of the array: `Chunked(chunks)`, `Unstacked(size)`, or None
        for an axis that is not cut.
      mesh_mapping: an entry for each axis of the grid. `ShardedAxis(i)` gives its devices the
        pieces of cut number i, counted over the entries of `sharding`. `Replicated(number)` gives
        this number of devices the same piece.

    Raises:
      ArgumentTypeError: an entry has another type.
      ShardingError: a size is not positive, or not exactly one axis of the grid belongs to a cut.

    >>> spec = ShardingSpec([Chunked(4)], [ShardedAxis(0), Replicated(2)])
    >>> [index[0].start for index in spec_to_indices((4,), spec)]
    [0, 0, 1, 1, 2, 2, 3, 3]
    """

    sharding: tuple[Chunked | Unstacked | None, ...]
    mesh_mapping: tuple[MeshAxis, ...]

    def __init__(self, sharding: Iterable[DimSharding], mesh_mapping: Iterable[MeshAxis]) -> None:
        self.sharding = tuple(_check_dim(*each) for each in enumerate(sharding))
        self.mesh_mapping = tuple(_check_axis(*each) for each in enumerate(mesh_mapping))
        cuts = [entry.axis for entry in self.mesh_mapping if isinstance(entry, ShardedAxis)]
        if sorted(cuts) != list(range(len(self._cuts))):
            raise ShardingError(
                f"mesh_mapping={self.mesh_mapping} names the cuts {cuts}; sharding="
                f"{self.sharding} has {len(self._cuts)}, and each must be on one mesh axis: give "
                f"ShardedAxis(0) to ShardedAxis({len(self._cuts) - 1}) once each"
                if self._cuts
                else f"mesh_mapping={self.mesh_mapping} names the cuts {cuts}; sharding="
                f"{self.sharding} has none: give no ShardedAxis",
                argument="mesh_mapping",
                axes=tuple(cuts),
                cuts=len(self._cuts),
            )
        self._hash = hash((self.sharding, self.mesh_mapping))

    def __eq__(self, other: object) -> bool:
        return type(other) is ShardingSpec and (self.sharding, self.mesh_mapping) == (
            other.sharding,
            other.mesh_mapping,
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardingSpec, (self.sharding, self.mesh_mapping)

    def __repr__(self) -> str:
        return f"ShardingSpec({self.sharding}, {self.mesh_mapping})"

    @property
    def _cuts(self) -> Shape:
        """The number of pieces of each cut."""
        return tuple(n for entry in self.sharding for n in _pieces(entry))

    @property
    def mesh_shape(self) -> Shape:
        """Sizes of the axes of the grid of devices."""
        cuts = self._cuts
        return tuple(
            cuts[entry.axis] if isinstance(entry, ShardedAxis) else entry.replicas
            for entry in self.mesh_mapping
        )

    @property
    def counts(self) -> Shape:
        """The number of pieces of each dim."""
        return tuple(math.prod(_pieces(entry)) for entry in self.sharding)

    @property
    def unstacked(self) -> tuple[int, ...]:
        """The dims of the array that shards do not have."""
        return tuple(d for d, entry in enumerate(self.sharding) if isinstance(entry, Unstacked))

    def blocks(self) -> IntArray:
        """Return the index of each device's piece along every dim: shape (ndim, devices)."""
        shape = self.mesh_shape
        coordinates = np.indices(shape).reshape(len(shape), math.prod(shape))
        where = {
            entry.axis: number
            for number, entry in enumerate(self.mesh_mapping)
            if isinstance(entry, ShardedAxis)
        }
        numbers = np.zeros((len(self.sharding), math.prod(shape)), np.int64)
        cut = 0
        for dim, entry in enumerate(self.sharding):
            for pieces in _pieces(entry):
                numbers[dim] = numbers[dim] * pieces + coordinates[where[cut]]
                cut += 1
        return numbers

    def check_shape(self, shape: Shape) -> None:
        """Check that the spec cuts a shape into equal pieces.

        Raises:
          ShardingError: the shape has another number of dims, or the spec does not cut it equally.
        """
        if len(shape) != len(self.sharding):
            raise ShardingError(
                f"the array of shape {shape} has ndim={len(shape)}, and {self!r} is for "
                f"ndim={len(self.sharding)}; give one entry per axis of the array",
                argument="shape",
                shape=shape,
                ndim=len(self.sharding),
            )
        for dim, (size, entry) in enumerate(zip(shape, self.sharding, strict=True)):
            if isinstance(entry, Unstacked) and entry.size != size:
                raise ShardingError(
                    f"axis {dim} of shape {shape} has {size} elements, and Unstacked({entry.size}) "
                    f"gives one to each of {entry.size} devices; they must agree",
                    argument="shape",
                    shape=shape,
                    dim=dim,
                    size=entry.size,
                )
            if isinstance(entry, Chunked) and size % math.prod(entry.chunks):
                raise ShardingError(
                    f"axis {dim} of shape {shape} has {size} elements, which "
                    f"{math.prod(entry.chunks)} chunks do not divide; pad it, or use a "
                    "NamedSharding: its last shards may be shorter",
                    argument="shape",
                    shape=shape,
                    dim=dim,
                    chunks=entry.chunks,
                )

    def indices(self, shape: Sequence[int]) -> np.ndarray[Any, np.dtype[np.object_]]:
        """Return the index of each device's part of an array, in the shape of the device grid.

        Args:
          shape: shape of the array.

        Returns:
          A NumPy array of indices in the shape of the grid. An index is a tuple with an entry per
          dim: an integer for an unstacked dim, else a slice.

        Raises:
          ShardingError: the spec does not cut this shape into equal pieces.
        """
        sizes = tuple(shape)
        self.check_shape(sizes)
        dims = list(zip(sizes, self.counts, self.sharding, strict=True))
        result = np.empty(self.mesh_shape, object)
        for position, numbers in enumerate(self.blocks().T.tolist()):
            result.flat[position] = tuple(map(_part, numbers, dims))
        return result

    def sharding_proto(self) -> OpSharding:
        """Convert the spec to an `OpSharding`.

        Raises:
          UnstackedError: the spec unstacks a dim, but in XLA shards have all dims.
        """
        if self.unstacked:
            raise UnstackedError(
                f"{self!r} unstacks axis {self.unstacked[0]}, and shards of an OpSharding have all "
                "axes; use Chunked for this axis",
                argument="sharding",
                dims=self.unstacked,
            )
        replicas = [e.replicas for e in self.mesh_mapping if isinstance(e, Replicated)]
        if len(replicas) == len(self.mesh_mapping):
            return OpSharding(OpSharding.Type.REPLICATED)
        pieces: IntArray = np.zeros(math.prod(self.mesh_shape), np.int64)
        for count, numbers in zip(self.counts, self.blocks(), strict=True):
            pieces = pieces * count + numbers
        return OpSharding(
            OpSharding.Type.OTHER,
            self.counts + ((math.prod(replicas),) if replicas else ()),
            tuple(np.argsort(pieces, kind="stable").tolist()),
            replicate_on_last_tile_dim=bool(replicas),
        )

    @classmethod
    def from_sharding_proto(cls, proto: OpSharding, ndim: int) -> ShardingSpec:
        """Convert an `OpSharding` to a spec.

        Args:
          proto: an `OpSharding` with tiles, or a replicated one, which gives a spec of one device.
          ndim: number of dims of arrays.

        Raises:
          ShardingError: the devices are not in the order of a grid, or the type of `proto` has no
            tiles.

        >>> ShardingSpec.from_sharding_proto(OpSharding.from_string("{devices=[4]<=[4]}"), 1)
        ShardingSpec((Chunked((4,)),), (ShardedAxis(axis=0),))
        """
        counts, _ = proto.layout(ndim)
        if proto.type is OpSharding.Type.REPLICATED:
            return cls((None,) * ndim, ())
        if proto.type is OpSharding.Type.MAXIMAL:
            raise ShardingError(
                f"{proto} puts all on one device of several; use GSPMDSharding", argument="proto"
            )
        grid, order = _common_grid(proto, counts)
        chunks: list[list[int]] = [[] for _ in counts]
        axes: dict[int, MeshAxis] = {}
        dim, left = 0, [*counts]
        for axis in order:
            while dim < ndim and left[dim] == 1:
                dim += 1
            if dim == ndim:
                axes[axis] = Replicated(grid[axis])
                continue
            axes[axis] = ShardedAxis(sum(map(len, chunks)))
            chunks[dim].append(grid[axis])
            left[dim] //= grid[axis]
        sharding = [Chunked(tuple(cuts)) if cuts else None for cuts in chunks]
        return cls(sharding, [axes[axis] for axis in range(len(grid))])


def _common_grid(proto: OpSharding, counts: Shape) -> tuple[Shape, tuple[int, ...]]:
    """Find a grid of devices and the order of its axes in which devices take tiles."""
    iota = proto.iota()
    if iota is None:
        raise ShardingError(
            f"{proto} lists devices in an order of no grid; use GSPMDSharding",
            argument="proto",
        )
    shape, permutation = iota
    sizes = [shape[axis] for axis in permutation]
    tiles = (*counts, proto.num_devices // math.prod(counts))
    # Axes are cut where tiles are: both count the same devices, the last axis the fastest.
    edges = sorted({*np.cumprod(sizes[::-1]).tolist(), *np.cumprod(tiles[::-1]).tolist(), 1})
    if any(high % low for low, high in itertools.pairwise(edges)):
        raise ShardingError(
            f"{proto} has tiles of {tiles}, which do not follow the axes of the grid {shape}; use "
            "GSPMDSharding",
            argument="proto",
        )
    parts: dict[int, list[int]] = {axis: [] for axis in permutation}
    ends = np.cumprod(sizes[::-1])[::-1].tolist()
    for axis, size, end in zip(permutation, sizes, ends, strict=True):
        cuts = [edge for edge in edges if end // size <= edge <= end][::-1]
        parts[axis] = [high // low for high, low in itertools.pairwise(cuts)]
    first = np.cumsum([0, *(len(parts[axis]) for axis in range(len(shape)))]).tolist()
    grid = tuple(size for axis in range(len(shape)) for size in parts[axis])
    order = [first[axis] + i for axis in permutation for i in range(len(parts[axis]))]
    return grid, tuple(order)


def spec_to_indices(shape: Sequence[int], spec: ShardingSpec) -> tuple[tuple[Any, ...], ...]:
    """Return the index of each device's part of an array, in the order of devices.

    Args:
      shape: shape of the array.
      spec: the spec.

    Raises:
      ShardingError: the shape does not fit.

    >>> spec_to_indices((2, 3), ShardingSpec([Unstacked(2), None], [ShardedAxis(0)]))
    ((0, slice(None, None, None)), (1, slice(None, None, None)))
    """
    return tuple(spec.indices(shape).ravel().tolist())


def partitioned_sharding_spec(
    num_partitions: int, partitions: Sequence[int] | None, aval: Any
) -> ShardingSpec:
    """Return the spec of a value that is cut into a number of chunks along each dim.

    Args:
      num_partitions: the number of devices, and of all chunks.
      partitions: number of chunks of each dim; None gives each device the whole value.
      aval: an object with the attribute `shape`: the shape of the value.

    Raises:
      ShardingError: `partitions` has another number of entries than the value has dims, or their
        product is not `num_partitions`.

    >>> from gpushard import ShapeDtypeStruct
    >>> partitioned_sharding_spec(6, (2, 3), ShapeDtypeStruct((4, 9), float)).mesh_shape
    (2, 3)
    """
    ndim = len(aval.shape)
    num_partitions = _positive(num_partitions, "num_partitions")
    if partitions is None:
        return ShardingSpec([None] * ndim, _replicas(num_partitions))
    partitions = tuple(_positive(n, "partitions") for n in partitions)
    if len(partitions) != ndim or math.prod(partitions) != num_partitions:
        raise ShardingError(
            f"partitions={partitions} must have {ndim} entries, one for each axis, and "
            f"multiply to num_partitions={num_partitions}",
            argument="partitions",
            partitions=partitions,
            ndim=ndim,
            num_partitions=num_partitions,
        )
    return ShardingSpec(map(Chunked, partitions), map(ShardedAxis, range(ndim)))


def pmap_sharding_spec(
    nrep: int,
    axis_size: int,
    npart: int,
    parts: Sequence[int] | None,
    sharded_aval: Any,
    map_axis: int | None,
) -> ShardingSpec:
    """Return the spec of an argument or a result of `pmap`.

    Args:
      nrep: the product of the axis sizes of this `pmap` and of the `pmap`s inside it.
      axis_size: the size of the axis that this `pmap` maps.
      npart: the number of devices that share each of the `nrep` values.
      parts: the number of chunks of each dim of the value; None if it is not cut.
      sharded_aval: an object with the attribute `shape`: the shape of the value inside the `pmap`.
      map_axis: the dim that the `pmap` maps; None if it does not map this value.

    Raises:
      ShardingError: `axis_size` does not divide `nrep`, or the product of `parts` is not `npart`.

    >>> from gpushard import ShapeDtypeStruct
    >>> pmap_sharding_spec(8, 4, 1, None, ShapeDtypeStruct((3,), float), 0)
    ShardingSpec((Unstacked(size=4), None), (ShardedAxis(axis=0), Replicated(replicas=2)))
    """
    inner = partitioned_sharding_spec(npart, parts, sharded_aval)
    nrep, axis_size = _positive(nrep, "nrep"), _positive(axis_size, "axis_size")
    if nrep % axis_size:
        raise ShardingError.refusing(
            "nrep", nrep, f"must be a multiple of axis_size={axis_size}", axis_size=axis_size
        )
    replicas = _replicas(nrep // axis_size)
    if map_axis is None:
        return ShardingSpec(inner.sharding, (Replicated(axis_size), *replicas, *inner.mesh_mapping))
    if not 0 <= map_axis <= len(inner.sharding):
        raise ShardingError(
            f"map_axis={map_axis} is no axis of a value with ndim={len(inner.sharding) + 1}; use 0 "
            f"to {len(inner.sharding)}",
            argument="map_axis",
            map_axis=map_axis,
            ndim=len(inner.sharding) + 1,
        )
    before = sum(len(_pieces(entry)) for entry in inner.sharding[:map_axis])
    moved = [
        ShardedAxis(entry.axis + (entry.axis >= before))
        if isinstance(entry, ShardedAxis)
        else entry
        for entry in inner.mesh_mapping
    ]
    sharding = (*inner.sharding[:map_axis], Unstacked(axis_size), *inner.sharding[map_axis:])
    return ShardingSpec(sharding, (ShardedAxis(before), *replicas, *moved))


def mesh_sharding_specs(
    axis_sizes: Mapping[str, int], axis_names: Sequence[str]
) -> Callable[[Any, ArrayMapping], ShardingSpec]:
    """Make a function that returns the spec of a value over a mesh.

    Args:
      axis_sizes: size of each mesh axis, in the order of the mesh.
      axis_names: the names of the mesh axes, in the same order.

    Returns:
      A function of two arguments. The first is an object with the `shape` of the value. The second
      is a mapping from mesh axes to the dims that they split.

    >>> from gpushard import ShapeDtypeStruct
    >>> spec_of = mesh_sharding_specs({"x": 2, "y": 3}, ("x", "y"))
    >>> spec_of(ShapeDtypeStruct((6, 6), float), {"y": 1, "x": 1})
    ShardingSpec((None, Chunked((3, 2))), (ShardedAxis(axis=1), ShardedAxis(axis=0)))
    """

    def spec_of(aval: Any, mapping: ArrayMapping) -> ShardingSpec:
        tile_aval_nd(axis_sizes, mapping, aval)  # raises if axes do not fit
        chunks: list[Chunked | None] = [None] * len(aval.shape)
        axes: dict[str, MeshAxis] = {name: Replicated(axis_sizes[name]) for name in axis_names}
        for number, (name, dim) in enumerate(sorted(mapping.items(), key=lambda item: item[1])):
            chunks[dim] = Chunked((*_pieces(chunks[dim]), axis_sizes[name]))
            axes[name] = ShardedAxis(number)
        return ShardingSpec(chunks, axes.values())

    return spec_of


def tile_aval_nd(axis_sizes: Mapping[str, int], in_axes: ArrayMapping, aval: Any) -> Any:
    """Return the shape and type of one device's tile of a value.

    Args:
      axis_sizes: size of each mesh axis.
      in_axes: a mapping from mesh axes to the dims that they split.
      aval: a `ShapeDtypeStruct` of the value.

    Raises:
      ShardingError: an axis or a dim does not exist, or the axes do not divide a dim equally.

    >>> from gpushard import ShapeDtypeStruct
    >>> tile_aval_nd({"x": 2}, {"x": 1}, ShapeDtypeStruct((3, 4), "float32")).shape
    (3, 2)
    """
    shape = list(aval.shape)
    for name, dim in _check_mapping(axis_sizes, in_axes, len(shape), "in_axes"):
        if shape[dim] % axis_sizes[name]:
            raise ShardingError(
                f"in_axes={dict(in_axes)} splits axis {dim} of shape {tuple(aval.shape)} over "
                f"mesh axis {name!r} of size {axis_sizes[name]}, which does not divide "
                f"{shape[dim]}; pad it",
                argument="in_axes",
                axis=name,
                dim=dim,
                shape=tuple(aval.shape),
            )
        shape[dim] //= axis_sizes[name]
    return _with_shape(aval, shape)


def untile_aval_nd(axis_sizes: Mapping[str, int], out_axes: ArrayMapping, aval: Any) -> Any:
    """Return the shape and type of a value from those of one device's tile.

    Args:
      axis_sizes: size of each mesh axis.
      out_axes: a mapping from mesh axes to the dims that they split.
      aval: a `ShapeDtypeStruct` of the tile.

    Raises:
      ShardingError: an axis or a dim does not exist.

    >>> from gpushard import ShapeDtypeStruct
    >>> untile_aval_nd({"x": 2}, {"x": 1}, ShapeDtypeStruct((3, 2), "float32")).shape
    (3, 4)
    """
    shape = list(aval.shape)
    for name, dim in _check_mapping(axis_sizes, out_axes, len(shape), "out_axes"):
        shape[dim] *= axis_sizes[name]
    return _with_shape(aval, shape)


def _with_shape(aval: Any, shape: Sequence[int]) -> Any:
    """Return an aval with another shape and without a sharding."""
    placed = {"sharding": None} if hasattr(aval, "sharding") else {}
    return aval.update(shape=tuple(shape), **placed)


def _check_mapping(
    axis_sizes: Mapping[str, int], mapping: ArrayMapping, ndim: int, argument: str
) -> Iterable[tuple[str, int]]:
    for name, dim in mapping.items():
        if name not in axis_sizes:
            raise ShardingError(
                f"{argument}={dict(mapping)} names the mesh axis {name!r}; there are "
                f"{dict(axis_sizes)}",
                argument=argument,
                axis=name,
            )
        if not 0 <= dim < ndim:
            raise ShardingError(
                f"{argument}={dict(mapping)} puts mesh axis {name!r} on axis {dim} of a value with "
                f"ndim={ndim}; count from 0",
                argument=argument,
                axis=name,
                dim=dim,
                ndim=ndim,
            )
    return mapping.items()


def _replicas(number: int) -> tuple[MeshAxis, ...]:
    return () if number == 1 else (Replicated(number),)


def _pieces(entry: DimSharding) -> Shape:
    """Return the number of pieces of each cut of a dim."""
    if isinstance(entry, Chunked):
        return entry.chunks
    return (entry.size,) if isinstance(entry, Unstacked) else ()


def _part(number: int, dim: tuple[int, int, Chunked | Unstacked | None]) -> int | slice:
    """Return one piece of a dim as an index."""
    size, count, entry = dim
    if entry is None:
        return slice(None)
    if isinstance(entry, Unstacked):
        return number
    return slice(number * (size // count), (number + 1) * (size // count))


def _positive(number: Any, argument: str) -> int:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise ArgumentTypeError.refusing(argument, number, "must be an integer")
    value = int(number.__index__())
    if value < 1:
        raise ShardingError.refusing(argument, value, "must be positive")
    return value


def _check_dim(dim: int, entry: Any) -> Chunked | Unstacked | None:
    if entry is None or isinstance(entry, NoSharding):
        return None
    if isinstance(entry, Unstacked):
        return Unstacked(_positive(entry.size, f"sharding[{dim}].size"))
    if isinstance(entry, Chunked):
        return entry
    raise ArgumentTypeError(
        f"sharding[{dim}]={entry!r} must be Chunked(n), Unstacked(n) or None",
        argument="sharding",
        value=entry,
    )


def _check_axis(axis: int, entry: Any) -> MeshAxis:
    if isinstance(entry, Replicated):
        return Replicated(_positive(entry.replicas, f"mesh_mapping[{axis}].replicas"))
    if isinstance(entry, ShardedAxis):
        return entry
    raise ArgumentTypeError(
        f"mesh_mapping[{axis}]={entry!r} must be ShardedAxis(i) or Replicated(n)",
        argument="mesh_mapping",
        value=entry,
    )
