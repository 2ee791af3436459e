"""Meshes: devices in a grid with named axes."""

from __future__ import annotations

import contextlib
import contextvars
import enum
import functools
import math
import operator
import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from gpushard._cache import hold_while_forking
from gpushard._typing import Device, IntArray, Shape
from gpushard.errors import ArgumentTypeError, MeshError

_current: contextvars.ContextVar[tuple[Mesh, ...]] = contextvars.ContextVar("mesh", default=())


def _axis_names(axis_names: Any, ndim: int, argument: str = "axis_names") -> tuple[str, ...]:
    try:
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    except TypeError:
        raise ArgumentTypeError.refusing(
            argument, axis_names, "must be a string, or a sequence of strings"
        ) from None
    for name in names:
        if not isinstance(name, str):
            raise ArgumentTypeError(
                f"{argument}={names!r}: every axis name must be a string, got {name!r}",
                argument=argument,
                name=name,
            )
    if len(set(names)) != len(names):
        raise MeshError.refusing(
            argument, names, "repeats a name; give every axis a name of its own", names=names
        )
    if len(names) != ndim:
        raise MeshError(
            f"{argument}={names!r} has {len(names)} names for {ndim} axes; give one name per axis",
            argument=argument,
            names=names,
            ndim=ndim,
        )
    return names


class AxisType(enum.Enum):
    """JAX's types of mesh axes, which gpushard stores and otherwise ignores.

    With every type, programs can read and set shardings, as JAX allows for `Explicit`. Operations
    move operands if their shardings disagree, as JAX does for `Auto`.
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()


def _axis_types(axis_types: Any, names: tuple[str, ...]) -> tuple[AxisType, ...]:
    """Return a type for each axis of a mesh.

    Raises:
      ArgumentTypeError: a type is not an `AxisType`.
      MeshError: there are more or fewer types than axes.
    """
    if axis_types is None:
        return (AxisType.Auto,) * len(names)
    several = isinstance(axis_types, tuple | list)
    kinds = tuple(axis_types) if several else (axis_types,)
    if not all(isinstance(kind, AxisType) for kind in kinds):
        raise ArgumentTypeError.refusing(
            "axis_types", axis_types, "must be of gpushard.sharding.AxisType, one for each axis"
        )
    if len(kinds) != len(names):
        raise MeshError(
            f"axis_types={kinds!r} has {len(kinds)} types for the {len(names)} axes {names}; give "
            "one per axis",
            argument="axis_types",
            names=names,
            axis_types=kinds,
        )
    return kinds


class _Axes:
    """The axes of a mesh, with or without devices: names, sizes and types."""

    axis_names: tuple[str, ...]
    axis_types: tuple[AxisType, ...]

    @property
    def auto_axes(self) -> tuple[str, ...]:
        """Names of the axes of type `AxisType.Auto`."""
        return _axes_of(self, AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[str, ...]:
        """Names of the axes of type `AxisType.Explicit`."""
        return _axes_of(self, AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[str, ...]:
        """Names of the axes of type `AxisType.Manual`."""
        return _axes_of(self, AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether the mesh has axes, and all of them have type `AxisType.Auto`."""
        return self.auto_axes == self.axis_names != ()

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether the mesh has axes, and all of them have type `AxisType.Explicit`."""
        return self.explicit_axes == self.axis_names != ()

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether the mesh has axes, and all of them have type `AxisType.Manual`."""
        return self.manual_axes == self.axis_names != ()


def _axes_of(mesh: _Axes, kind: AxisType) -> tuple[str, ...]:
    """Return the names of the axes of a type."""
    pairs = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return tuple([name for name, each in pairs if each is kind])


class AbstractMesh(_Axes):
    """Names and sizes of the axes of a mesh, without devices.

    Args:
      axis_sizes: size of each axis, at least 1.
      axis_names: name of each axis.
      axis_types: as for `Mesh`.

    Raises:
      MeshError: sizes and names do not match, a name is repeated, or a size is not positive.

    >>> AbstractMesh((4, 2), ("x", "y")).shape["y"]
    2
    """

    def __init__(
        self,
        axis_sizes: Sequence[int],
        axis_names: str | Sequence[str],
        axis_types: Sequence[AxisType] | None = None,
    ) -> None:
        self.axis_sizes = _sizes(axis_sizes, "axis_sizes")
        self.axis_names = _axis_names(axis_names, len(self.axis_sizes))
        self.axis_types = _axis_types(axis_types, self.axis_names)

    def update(
        self,
        axis_sizes: Sequence[int] | None = None,
        axis_names: str | Sequence[str] | None = None,
        axis_types: Sequence[AxisType] | None = None,
    ) -> AbstractMesh:
        """Return a copy of the mesh with other sizes, names or types.

        Args:
          axis_sizes: size of each axis; None keeps the sizes.
          axis_names: name of each axis; None keeps the names.
          axis_types: type of each axis; None keeps the types.

        Raises:
          MeshError: sizes, names and types do not match.

        >>> AbstractMesh((4, 2), ("x", "y")).update(axis_sizes=(2, 2))
        AbstractMesh('x': 2, 'y': 2)
        """
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def update_axis_types(self, name_to_type: Mapping[str, AxisType]) -> AbstractMesh:
        """Return a copy of the mesh with other types of some axes.

        Args:
          name_to_type: a mapping from the names of these axes to their new types.
        """
        each = zip(self.axis_names, self.axis_types, strict=True)
        return self.update(axis_types=[name_to_type.get(name, kind) for name, kind in each])

    @functools.cached_property
    def shape(self) -> MappingProxyType[str, int]:
        """Size of each axis by name, in order."""
        return MappingProxyType(dict(zip(self.axis_names, self.axis_sizes, strict=True)))

    @property
    def shape_tuple(self) -> tuple[tuple[str, int], ...]:
        """(name, size) of each axis, in order."""
        return tuple(self.shape.items())

    @property
    def size(self) -> int:
        """Number of positions in the grid."""
        return math.prod(self.axis_sizes)

    @property
    def empty(self) -> bool:
        """Whether the mesh has no axes."""
        return not self.axis_names

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """This mesh."""
        return self

    def __eq__(self, other: object) -> bool:
        return type(other) is AbstractMesh and self.shape_tuple == other.shape_tuple

    def __hash__(self) -> int:
        return hash(self.shape_tuple)

    def __reduce__(self) -> tuple[Any, ...]:
        return AbstractMesh, (self.axis_sizes, self.axis_names, self.axis_types)

    def __repr__(self) -> str:
        return f"AbstractMesh({_named_sizes(self.shape)})"


class Mesh(contextlib.ContextDecorator, _Axes):
    """A grid of devices with named axes.

    Meshes are immutable. In a `with mesh:` block, or in a function with the decorator `@mesh`, a
    `PartitionSpec` without a mesh refers to this mesh.

    Args:
      devices: the devices, as a NumPy array or a nested sequence with one dim per axis.
      axis_names: name of each axis.
      axis_types: an `AxisType` for each axis; by default `AxisType.Auto`. A mesh with one axis also
        takes a single `AxisType`. Meshes that differ only in their types are equal.

    Raises:
      MeshError: a device or a name is repeated, or there are more or fewer names than axes.

    >>> mesh = Mesh([["a", "b"], ["c", "d"]], ("x", "y"))
    >>> mesh["y"].devices.tolist()
    ['a', 'b']
    """

    devices: np.ndarray[Any, np.dtype[np.object_]]
    axis_names: tuple[str, ...]
    assignment: tuple[Device, ...]
    """The devices in row-major order."""

    def __new__(
        cls,
        devices: Any,
        axis_names: str | Sequence[str],
        axis_types: Sequence[AxisType] | None = None,
    ) -> Mesh:
        """Return the unique mesh of these devices and names."""
        grid = device_grid(devices)
        names = _axis_names(axis_names, grid.ndim)
        types = _axis_types(axis_types, names)
        assignment = tuple(grid.flat)
        if len(set(assignment)) != len(assignment):
            repeated = next(d for d in assignment if assignment.count(d) > 1)
            raise MeshError(
                f"devices of shape {grid.shape} hold {repeated!r} more than once; a mesh holds "
                "each device once",
                argument="devices",
                device=repeated,
            )
        key = (assignment, grid.shape, names)
        with _meshes_lock:
            mesh = _meshes.get((key, types))
            if mesh is None:
                mesh = super().__new__(cls)
                grid.flags.writeable = False
                mesh.devices, mesh.axis_names, mesh.assignment = grid, names, assignment
                mesh.axis_types, mesh._key, mesh._hash = types, key, hash(key)
                _meshes[key, types] = mesh
        return mesh

    _key: tuple[Any, ...]  # without the types
    _hash: int

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other or type(other) is not Mesh:
            return self is other
        return self._hash == other._hash and self._key == other._key

    def __reduce__(self) -> tuple[Any, ...]:
        return Mesh, (np.array(self.devices), self.axis_names, self.axis_types)

    def update(
        self,
        devices: Any = None,
        axis_names: str | Sequence[str] | None = None,
        axis_types: Sequence[AxisType] | None = None,
    ) -> Mesh:
        """Return a copy of the mesh with other devices, names or types.

        Args:
          devices: as for `Mesh`; None keeps the devices.
          axis_names: name of each axis; None keeps the names.
          axis_types: type of each axis; None keeps the types.

        Raises:
          MeshError: devices, names and types do not match.

        >>> Mesh([["a", "b"]], ("x", "y")).update(axis_names=("p", "q"))
        Mesh('p': 1, 'q': 2)
        """
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __repr__(self) -> str:
        return f"Mesh({_named_sizes(self.shape)})"

    @functools.cached_property
    def shape(self) -> MappingProxyType[str, int]:
        """Size of each axis by name, in order."""
        return MappingProxyType(dict(zip(self.axis_names, self.devices.shape, strict=True)))

    @property
    def axis_sizes(self) -> Shape:
        """Size of each axis."""
        return tuple(self.devices.shape)

    @property
    def shape_tuple(self) -> tuple[tuple[str, int], ...]:
        """(name, size) of each axis, in order."""
        return tuple(self.shape.items())

    @property
    def size(self) -> int:
        """Number of devices."""
        return self.devices.size

    @property
    def empty(self) -> bool:
        """Whether the mesh has no axes."""
        return self.devices.ndim == 0

    @functools.cached_property
    def abstract_mesh(self) -> AbstractMesh:
        """The axes of this mesh without devices, as an `AbstractMesh`."""
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    @functools.cached_property
    def device_ids(self) -> IntArray:
        """The devices' ids, in the shape of the mesh."""
        ids = [getattr(device, "id", position) for position, device in enumerate(self.assignment)]
        return np.array(ids, np.int64).reshape(self.devices.shape)

    @functools.cached_property
    def local_devices(self) -> list[Device]:
        """The devices with memory that this process can reach, in row-major order."""
        return [device for device in self.assignment if is_addressable(device)]

    @property
    def is_multi_process(self) -> bool:
        """Whether any device belongs to another process."""
        return len(self.local_devices) != self.size

    @functools.cached_property
    def local_mesh(self) -> Mesh:
        """The part of the mesh with the devices of this process.

        Raises:
          MeshError: the devices of this process do not form a block of the mesh.
        """
        if not self.is_multi_process:
            return self
        local = np.array([is_addressable(d) for d in self.assignment], bool)
        local = local.reshape(self.devices.shape)
        if not local.any():
            raise MeshError("the mesh holds no device of this process", argument="mesh")
        hull = tuple(slice(int(where.min()), int(where.max()) + 1) for where in np.nonzero(local))
        if not local[hull].all():
            raise MeshError(
                f"the {int(local.sum())} devices of this process do not form a subcube of the mesh "
                f"{dict(self.shape)}; order the devices so that each process holds a block",
                argument="mesh",
                shape=dict(self.shape),
            )
        return Mesh(self.devices[hull], self.axis_names, self.axis_types)

    def __getitem__(self, axes: str | Sequence[str]) -> Mesh:
        """Return the mesh over `axes`, at coordinate 0 of all other axes.

        Args:
          axes: one name or several, in the order of the axes of the result.

        Raises:
          MeshError: a name is unknown or repeated.
        """
        names = (axes,) if isinstance(axes, str) else tuple(axes)
        unknown = [name for name in names if name not in self.axis_names]
        if unknown or len(set(names)) != len(names):
            raise MeshError.refusing(
                "axes", names, f"must be distinct axes of the mesh {dict(self.shape)}"
            )
        at_zero = self.devices[tuple(slice(None) if n in names else 0 for n in self.axis_names)]
        rest = [name for name in self.axis_names if name in names]
        types = [self.axis_types[self.axis_names.index(name)] for name in names]
        return Mesh(np.transpose(at_zero, [rest.index(name) for name in names]), names, types)

    def __enter__(self) -> Mesh:
        """Make this mesh the current one, for bare `PartitionSpec`s."""
        _current.set((*_current.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _current.set(_current.get()[:-1])


# Most comparisons compare a mesh with itself, so equal meshes are one object.
_meshes: weakref.WeakValueDictionary[Any, Mesh] = weakref.WeakValueDictionary()
_meshes_lock = threading.RLock()
hold_while_forking(_meshes_lock)


class set_mesh:
    """Set the current mesh: a `PartitionSpec` without a mesh refers to it.

    In `with set_mesh(mesh):` the mesh is current until the end of the block. A plain call sets it
    until the next `set_mesh`.

    Args:
      mesh: the mesh.

    Raises:
      ArgumentTypeError: `mesh` is not a mesh of devices.

    >>> mesh = Mesh(["a", "b"], "x")
    >>> with set_mesh(mesh):
    ...     current_mesh()
    Mesh('x': 2)
    >>> current_mesh()
    """

    def __init__(self, mesh: Mesh) -> None:
        if not isinstance(mesh, Mesh):
            raise ArgumentTypeError.refusing(
                "mesh", mesh, "must be a Mesh of devices, such as make_mesh gives"
            )
        self._mesh = mesh
        self._before = _current.get()
        _current.set((*self._before, mesh))

    def __enter__(self) -> Mesh:
        return self._mesh

    def __exit__(self, *_: object) -> None:
        _current.set(self._before)


def line_of(devices: Sequence[Device]) -> Mesh:
    """Return the mesh with one axis for the devices of a sharding without a mesh, in their order.

    >>> line_of(["b", "a"])
    Mesh('devices': 2)
    """
    return Mesh(list(devices), ("devices",))


def current_mesh() -> Mesh | None:
    """Return the mesh of the innermost `with mesh:`, or None."""
    stack = _current.get()
    return stack[-1] if stack else None


def is_addressable(device: Device) -> bool:
    """Test whether this process can reach the memory of `device`; by default True."""
    return bool(getattr(device, "is_addressable", True))


class _Providers:
    """Functions of a higher layer that list devices and return the default mesh."""

    devices: Callable[[], Sequence[Device]]
    mesh: Callable[[], Mesh | None]


_providers = _Providers()


def provide_devices(every: Callable[[], Sequence[Device]]) -> None:
    """Set the function that lists all devices, for shardings without a list of devices."""
    _providers.devices = every


def provide_mesh(default: Callable[[], Mesh | None]) -> None:
    """Set the function that returns the mesh of new data, for specs without a current mesh."""
    _providers.mesh = default


def mesh_around() -> Mesh | None:
    """Return the mesh that bare `PartitionSpec`s refer to, or None."""
    return current_mesh() or _providers.mesh()


def every_device() -> Sequence[Device]:
    """List all devices."""
    return _providers.devices()


def check_devices(devices: Any) -> Sequence[Device]:
    """Check that an argument is a sequence of devices, and return it."""
    try:
        len(devices)
    except TypeError:
        raise ArgumentTypeError.refusing(
            "devices", devices, "must be a sequence of devices"
        ) from None
    known: Sequence[Device] = devices
    return known


def create_device_mesh(
    mesh_shape: Sequence[int], devices: Sequence[Device] | None = None
) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Arrange devices in a grid, in row-major order.

    Args:
      mesh_shape: size of each axis.
      devices: as many devices as the grid has positions; by default all devices.

    Returns:
      A NumPy array of devices with the shape `mesh_shape`.

    Raises:
      MeshError: the product of the sizes is not the number of devices.

    >>> create_device_mesh((2, 2), "abcd").tolist()
    [['a', 'b'], ['c', 'd']]
    """
    sizes = _sizes(mesh_shape, "mesh_shape")
    devices = every_device() if devices is None else check_devices(devices)
    if math.prod(sizes) != len(devices):
        raise MeshError(
            f"mesh_shape={sizes} needs {math.prod(sizes)} devices, got {len(devices)}; change the "
            "sizes or pass that many devices",
            argument="mesh_shape",
            sizes=sizes,
            devices=len(devices),
        )
    grid = device_grid(devices)
    if grid.size != len(devices):
        raise MeshError(
            f"devices has lists of devices within, of shape {grid.shape}; give one sequence of "
            f"{len(devices)} devices",
            argument="devices",
        )
    return grid.reshape(sizes)


def _sizes(sizes: Any, argument: str) -> Shape:
    try:
        result = tuple(map(operator.index, [sizes] if np.ndim(sizes) == 0 else sizes))
    except (TypeError, ValueError):
        raise ArgumentTypeError.refusing(argument, sizes, "must be integers") from None
    if any(size < 1 for size in result):
        raise MeshError.refusing(
            argument, result, "must be positive; leave out axes that you do not need", sizes=result
        )
    return result


def device_grid(devices: Any) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Return a fresh object array of devices."""
    grid = np.array(list(devices) if isinstance(devices, str) else devices, dtype=object)
    if grid.size == 0:
        raise MeshError("devices is empty; a mesh needs at least one device", argument="devices")
    for device in grid.flat:
        if not isinstance(device, Hashable):
            raise ArgumentTypeError(
                f"devices holds {device!r} as a device; give an array, or nested lists of one "
                "length at every level with hashable devices inside",
                argument="devices",
                device=device,
            )
    return grid


def _named_sizes(shape: MappingProxyType[str, int]) -> str:
    return ", ".join(f"{name!r}: {size}" for name, size in shape.items())
