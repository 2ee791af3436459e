"""Make arrays with an element of the first dim on each device, as `pmap` takes and returns them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpushard import tree
from gpushard._array.array import Array
from gpushard._functions.argument_checks import integer
from gpushard._geometry.older.pmap_gspmd_sharding import PmapSharding
from gpushard._geometry.older.sharding_spec import Replicated, ShardingSpec, pmap_sharding_spec
from gpushard._placement.device_put import device_put
from gpushard._placement.devices import local_devices
from gpushard._placement.make_array import make_array_from_single_device_arrays
from gpushard._runtime.runtime import Device
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    NoDeviceError,
    ShardingError,
    TreeError,
)


def device_put_sharded(shards: Sequence[Any], devices: Sequence[Device]) -> Any:
    """Put one value on each device, and stack the values along a new first axis.

    Args:
      shards: an array or a pytree for each device; all have the same structure, shapes and dtypes.
      devices: the devices.

    Returns:
      Arrays in the structure of one element of `shards`, with a `PmapSharding`. For such an array
      `x`, `x[i]` is the value on device i, without a copy.

    Raises:
      ArgumentError: the numbers of shards and devices differ, or are 0.
      ShardingError: shapes differ.
      ArgumentTypeError: types of elements differ, or data cannot be placed.
      TreeError: structures differ.

    >>> import gpushard as gs
    >>> x = device_put_sharded([[1, 2], [3, 4]], gs.devices()[:2])
    >>> [leaf.shape for leaf in x]
    [(2,), (2,)]
    """
    if not isinstance(shards, Sequence) or isinstance(shards, str):
        raise ArgumentTypeError(
            f"shards is a {type(shards).__name__}; give a list with a value for each device",
            argument="shards",
            type=type(shards),
        )
    places = _checked_devices(devices)
    if len(shards) != len(places):
        raise ArgumentError(
            f"there are {len(shards)} shards for {len(places)} devices; give one for each",
            argument="shards",
            shards=len(shards),
            devices=len(places),
        )
    flat = [tree.flatten(shard) for shard in shards]
    structure = flat[0][1]
    for position, (_, other) in enumerate(flat):
        if other != structure:
            raise TreeError(
                f"shards[{position}] has another structure than shards[0]: {other.num_leaves} and "
                f"{structure.num_leaves} leaves; all must have one structure, with the same keys",
                argument="shards",
                position=position,
            )
    placed = [
        [device_put(leaf, device) for leaf in leaves]
        for (leaves, _), device in zip(flat, places, strict=True)
    ]
    _check_alike(placed)
    stacked = [_stack_shards(parts, places) for parts in zip(*placed, strict=True)]
    return tree.unflatten(structure, stacked)


def device_put_replicated(x: Any, devices: Sequence[Device]) -> Any:
    """Put a value on every device, and stack the copies along a new first axis.

    Args:
      x: an array, or a pytree.
      devices: the devices.

    Returns:
      Arrays in the structure of `x`, with a `PmapSharding`. Each element of the first axis equals
      the corresponding leaf of `x`.

    Raises:
      ArgumentError: there are no devices.

    >>> import gpushard as gs
    >>> device_put_replicated(3.0, gs.devices()[:4]).shape
    (4,)
    """
    places = _checked_devices(devices)
    return tree.map(lambda leaf: replicate(leaf, len(places), len(places), places), x)


def replicate(
    val: Any,
    axis_size: int,
    nrep: int,
    devices: Sequence[Device] | None = None,
    backend: str | None = None,
    in_axis: int | None = 0,
) -> Array:
    """Copy a value to several devices, as an array with or without a new axis.

    Args:
      val: the value.
      axis_size: length of the new axis.
      nrep: the number of devices, a multiple of `axis_size`. Each element of the new axis is on
        `nrep // axis_size` devices.
      devices: `nrep` devices; by default the first of `local_devices(backend)`.
      backend: the platform of the default devices.
      in_axis: the position of the new axis. With None there is no new axis, and each device has the
        whole value.

    Returns:
      The array, with a `PmapSharding`.

    Raises:
      NoDeviceError: there are fewer than `nrep` devices.
      ArgumentError: `devices` has another length than `nrep`.
      ShardingError: `axis_size` does not divide `nrep`, or `in_axis` is out of bounds.

    >>> replicate(3.0, 2, 4).addressable_shards[3].index
    (1,)
    """
    nrep, axis_size = (
        integer(n, "replicate", name) for n, name in ((nrep, "nrep"), (axis_size, "axis_size"))
    )
    places = local_devices(backend) if devices is None else _checked_devices(devices)
    if nrep > len(places):
        raise NoDeviceError(
            f"replicate: nrep={nrep} needs {nrep} devices, and there are {len(places)}: {places}",
            argument="nrep",
            nrep=nrep,
            devices=len(places),
        )
    if devices is not None and nrep != len(places):
        raise ArgumentError(
            f"replicate: nrep={nrep} differs from the number of devices, {len(places)}; give as "
            "many",
            argument="nrep",
            nrep=nrep,
            devices=len(places),
        )
    places = _checked_devices(places[:nrep])
    read = val if isinstance(val, Array) else device_put(val, places[0])
    spec = pmap_sharding_spec(nrep, axis_size, 1, None, read.aval, in_axis)
    whole = PmapSharding(places, ShardingSpec([None] * read.ndim, [Replicated(nrep)]))
    copies = device_put(read, whole)
    if in_axis is None:
        return copies
    shape = (*read.shape[:in_axis], axis_size, *read.shape[in_axis:])
    parts: list[Any] = [shard.data for shard in copies.addressable_shards]
    return make_array_from_single_device_arrays(shape, PmapSharding(places, spec), parts)


def _checked_devices(devices: Sequence[Device]) -> list[Device]:
    places = list(devices) if isinstance(devices, Iterable) else [devices]
    if not all(isinstance(place, Device) for place in places):
        raise ArgumentTypeError.refusing("devices", devices, "must be a list of gpushard.devices()")
    if not places:
        raise ArgumentError(
            "devices is empty; give one or more of gpushard.devices()", argument="devices"
        )
    return places


def _check_alike(placed: Sequence[Sequence[Array]]) -> None:
    for position, leaves in enumerate(placed):
        for first, leaf in zip(placed[0], leaves, strict=True):
            if leaf.shape != first.shape:
                raise ShardingError(
                    f"shards[{position}] has the shape {leaf.shape}, and shards[0] {first.shape}; "
                    "all must have one",
                    argument="shards",
                    position=position,
                    shape=leaf.shape,
                    expected=first.shape,
                )
            if leaf.dtype != first.dtype:
                raise ArgumentTypeError(
                    f"shards[{position}] holds {leaf.dtype}, and shards[0] {first.dtype}; all must "
                    "have one type",
                    argument="shards",
                    position=position,
                    dtype=leaf.dtype,
                    expected=first.dtype,
                )


def _stack_shards(parts: Sequence[Array], devices: Sequence[Device]) -> Array:
    shape = (len(parts), *parts[0].shape)
    sharding = PmapSharding.default(shape, devices=list(devices))
    return make_array_from_single_device_arrays(shape, sharding, parts)
