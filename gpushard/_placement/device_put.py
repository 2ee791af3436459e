"""Place data on devices, and read the places that callers give."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from gpushard import tree
from gpushard._array.array import Array, ConcreteArray
from gpushard._array.guards import HOST_TO_DEVICE, check_transfer
from gpushard._array.multiprocess_array import array_of
from gpushard._functions.element_types import check_dtype
from gpushard._functions.values import is_traced
from gpushard._geometry.memory_layout import Format
from gpushard._geometry.named_sharding import over_mesh
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard._movement.from_host import alias_host, from_host
from gpushard._movement.sharding_devices import devices_of, place_tiling
from gpushard._placement.default_placement import default_sharding
from gpushard._placement.donation import donated_arrays, give_up
from gpushard._runtime.runtime import Device, MemorySpace
from gpushard._typing import HostArray
from gpushard.errors import ArgumentTypeError

_T = TypeVar("_T")


class _DataclassInstance(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


_D = TypeVar("_D", bound=_DataclassInstance)

_Container: TypeAlias = dict[Any, Any] | list[Any] | tuple[Any, ...] | None

HostData: TypeAlias = tuple[HostArray, bool]
"""Data on the host, and whether its dtype came from a Python scalar."""

_WEAK = (int, float, complex)

_converters: dict[type, Callable[[Any], HostArray]] = {}


def register_placeable(kind: type, convert: Callable[[Any], HostArray]) -> None:
    """Let `device_put` accept another type of data.

    Args:
      kind: the type, including its subclasses.
      convert: a function that takes an object of this type and returns its data as a NumPy array,
        without a copy if possible.

    Raises:
      ArgumentTypeError: `kind` is not a type, or `convert` is not a function.
    """
    if not isinstance(kind, type):
        raise ArgumentTypeError.refusing("kind", kind, "must be a type", "register_placeable")
    if not callable(convert):
        raise ArgumentTypeError.refusing(
            "convert", convert, "must be a function", "register_placeable"
        )
    _converters[kind] = convert


@overload
def device_put(
    x: _Container, device: Any = None, *, donate: Any = False, may_alias: Any = False
) -> Any: ...


@overload
def device_put(x: _D, device: Any = None, *, donate: Any = False, may_alias: Any = False) -> _D: ...


@overload
def device_put(
    x: Any, device: Any = None, *, donate: Any = False, may_alias: Any = False
) -> Array: ...


def device_put(x: Any, device: Any = None, *, donate: Any = False, may_alias: Any = False) -> Any:
    """Copy data to devices, or move arrays to other devices or shardings.

    Args:
      x: an array or a scalar, or a pytree of these. Arrays may be of NumPy, of gpushard, or of any
        type with `__array__`, or with `__dlpack__` on the CPU.
      device: the place: a device, one of its memories, a `Sharding`, a `Format`, or a
        `PartitionSpec` in a `with mesh:` block. A pytree of places must be a prefix of `x`, such as
        a list of devices for a list of arrays. None leaves arrays where they are. It puts other
        data where `use_mesh` or `default_device` says, else on the first device, uncommitted.
      donate: whether gpushard arrays in `x` are deleted once all of them are placed. If one cannot
        be placed, none is deleted. A bool, or a prefix pytree of bools.
      may_alias: whether the result may share memory with a NumPy array in `x`. If True, you must
        not change that array afterwards. By default you may overwrite it as soon as the call
        returns. A bool, or a prefix pytree of bools.

    Returns:
      `Array`s in the structure of `x`.

    Raises:
      ShardingError: a sharding does not fit a shape.
      ArgumentTypeError: data is not numeric, or a place has another type.
      ArgumentError: a donated array is in `x` twice.
      DeletedArrayError: an array in `x` was deleted.
      OutOfMemoryError: a device has too little free memory.
      TreeError: `device`, `donate` or `may_alias` is not a prefix of `x`.

    >>> import gpushard as gs
    >>> mesh = gs.make_mesh((2,), "x")
    >>> gs.device_put(np.arange(3), gs.NamedSharding(mesh, gs.P("x"))).addressable_data(1)
    Array([2], dtype=int64)
    """
    flags = type(donate) is bool and type(may_alias) is bool
    if isinstance(x, (np.ndarray, Array)) and flags and not isinstance(device, list | tuple | dict):
        moved = _put_leaf(_read_leaf(x), device, may_alias)
        if donate:
            give_up(donated_arrays([x], "device_put", "donate"))
        return moved
    leaves, structure = tree.flatten(x)
    places = places_of_leaves(device, x, "device")
    donations, aliases = (
        places_of_leaves(donate, x, "donate"),
        places_of_leaves(may_alias, x, "may_alias"),
    )
    given_up = [x for x, gives in zip(leaves, donations, strict=True) if gives]
    given_up = donated_arrays(given_up, "device_put", "donate")
    read = [_read_leaf(leaf) for leaf in leaves]
    for data, place in zip(read, places, strict=True):  # check all before placing any
        if place is not None:
            shape = data[0].shape if isinstance(data, tuple) else data.shape
            place_tiling(as_sharding(place, len(shape)), shape)
    put = [_put_leaf(*arguments) for arguments in zip(read, places, aliases, strict=True)]
    give_up(given_up)
    return tree.unflatten(structure, put)


def implicitly_put(x: Any, what: str, device: Any = None) -> Any:
    """Place an argument of a function; transfer guards watch data on the host.

    Numbers always pass, as they do as operands.
    """
    if not isinstance(x, Array) and np.ndim(x):
        check_transfer(HOST_TO_DEVICE, f"an argument of {what} on the host", explicit=False)
    return device_put(x, device)


def block_until_ready(x: _T) -> _T:
    """Wait until all arrays of a pytree are computed, and return the pytree.

    Args:
      x: a pytree; leaves that are not `Array`s are ignored.

    Raises:
      ExecutionError: the work that computes a value failed.
    """
    for leaf in tree.leaves(x):
        if isinstance(leaf, Array):
            leaf.block_until_ready()
    return x


def as_sharding(place: Any, ndim: int, argument: str = "device", *, auto: bool = False) -> Sharding:
    """Convert a place to a sharding; if `auto`, layouts may be AUTO."""
    if isinstance(place, Format):
        place = place.row_major_sharding(ndim, auto=auto)
    if isinstance(place, Sharding):
        return place
    if isinstance(place, Device):
        return SingleDeviceSharding(place)
    if isinstance(place, MemorySpace):
        return SingleDeviceSharding(place.device, memory_kind=place.kind)
    if isinstance(place, PartitionSpec):
        return over_mesh(place, argument)
    raise ArgumentTypeError(
        f"{argument}={place!r} must be one of gpushard.devices(), a Sharding, a Format "
        "with a sharding, or a PartitionSpec",
        argument=argument,
        value=place,
    )


def as_host_array(x: Any, argument: str = "x") -> HostData:
    """Convert host data to a NumPy array, and say whether its dtype is weak."""
    weak = type(x) in _WEAK
    if isinstance(x, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"{argument} is a masked array, and its mask would be lost; place x.filled(value)",
            argument=argument,
            type=type(x),
        )
    converter = next((c for kind, c in _converters.items() if isinstance(x, kind)), None)
    if converter is not None:
        array = converter(x)
    elif isinstance(x, np.ndarray | np.generic | bool) or weak or hasattr(x, "__array__"):
        array = np.asarray(x)
    elif hasattr(x, "__dlpack__"):
        array = np.from_dlpack(x)
    else:
        raise ArgumentTypeError(
            f"{argument} holds a {type(x).__name__}; place numbers, arrays, or pytrees of them",
            argument=argument,
            type=type(x),
        )
    check_dtype(array.dtype, argument)
    return array, weak


def places_of_leaves(prefix: Any, x: Any, argument: str) -> list[Any]:
    """List the entry of a prefix tree for each leaf of `x`."""
    return tree.broadcast_prefix(prefix, x, lambda node: node is None, names=(argument, "x"))


def _read_leaf(x: Any) -> Array | HostData:
    """Return an array unchanged unless it was deleted, and any other leaf as host data."""
    if not isinstance(x, np.ndarray) and isinstance(x, Array):
        if not is_traced(x):
            x._read()
        return x
    return as_host_array(x)


def _put_leaf(x: Array | HostData, place: Any, may_alias: bool) -> Array:
    if not isinstance(x, tuple):
        if place is None:
            return copy.copy(x)
        return x._moved(as_sharding(place, x.ndim), "device_put(x)")
    data, weak = x
    committed = place is not None
    sharding = as_sharding(place, data.ndim) if committed else default_sharding(data.shape)
    tiling = place_tiling(sharding, data.shape).local
    check_transfer(HOST_TO_DEVICE, "device_put(x)", explicit=True)
    runtime, dtype = devices_of(tiling)[0].runtime, check_dtype(data.dtype, "x")
    if may_alias and runtime.backend.host_readable:
        buffer = alias_host(runtime, tiling, dtype, data)
    else:
        buffer = from_host(runtime, tiling, dtype, lambda index, shape: data[index])
    return array_of(ConcreteArray, buffer, sharding, committed=committed, weak_type=weak)
