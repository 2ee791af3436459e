"""Make arrays from callbacks, and from arrays on single devices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from gpushard._array.array import Array, ConcreteArray
from gpushard._array.guards import HOST_TO_DEVICE, check_transfer
from gpushard._array.key_array import KeyArray, elements_of
from gpushard._array.multiprocess_array import array_of
from gpushard._functions.argument_checks import listed
from gpushard._functions.element_types import as_dtype, check_dtype
from gpushard._functions.shapes import as_shape
from gpushard._functions.values import is_traced
from gpushard._geometry.memory_kind import device_of
from gpushard._geometry.memory_layout import Format
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.distinct_blocks import blocks_of
from gpushard._movement.from_host import from_host
from gpushard._movement.sharding_devices import devices_of, place_tiling
from gpushard._placement.device_put import as_host_array, as_sharding
from gpushard._runtime.runtime import Device
from gpushard._typing import HostArray, Index, Shape
from gpushard.errors import (
    ArgumentTypeError,
    ShardingError,
    TracedArgumentError,
)

_BATCH_NBYTES = 64 << 20


def make_array_from_callback(
    shape: Any,
    sharding: Sharding | Format,
    data_callback: Callable[[Index], Any],
    *,
    dtype: Any = None,
) -> Array:
    """Make an array from a function that returns the data of each shard.

    Args:
      shape: shape of the array.
      sharding: the sharding of the array.
      data_callback: a function that takes the index of a shard in the global array and returns the
        data there. An index is a tuple with a slice per axis, or an integer for an unstacked axis.
        The function is called once for each distinct index of this process, so once for a
        replicated array. It is not called for shards without elements.
      dtype: the dtype; by default that of the first data.

    Returns:
      The array.

    Raises:
      ShardingError: the sharding does not fit the shape, or data has another shape than its shard.
      ArgumentTypeError: data is not numeric, or has another dtype than the first.

    >>> import gpushard as gs
    >>> sharding = gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x"))
    >>> make_array_from_callback((4,), sharding, lambda index: np.arange(4)[index] * 2)
    Array([0, 2, 4, 6], dtype=int64, sharding=NamedSharding(mesh=('x': 2), spec=P('x')))
    """
    sizes = as_shape(shape)
    sharding = as_sharding(sharding, len(sizes), "sharding")
    tiling = place_tiling(sharding, sizes)
    wanted = None if dtype is None else as_dtype(dtype)
    if not callable(data_callback):
        raise ArgumentTypeError.refusing(
            "data_callback", data_callback, "must be a function from slices to their data"
        )
    check_transfer(HOST_TO_DEVICE, "make_array_from_callback(...)", explicit=True)
    blocks = blocks_of(tiling.local)
    sample = blocks.distinct[0] if blocks.distinct else 0
    # The first box; `read` pops it, so it lives no longer than the others.
    data = data_callback(sharding.shard_index(blocks.indices[sample]))
    kind = KeyArray if isinstance(data, KeyArray) else ConcreteArray
    first = [_checked_data(data, kind, sharding.stacked(blocks.shapes[sample]), None)]
    del data
    first_dtype = first[0].dtype
    expected = check_dtype(first_dtype, "data_callback") if wanted is None else wanted
    if not np.can_cast(first_dtype, expected, "same_kind"):
        raise ArgumentTypeError(
            f"data_callback returned {first_dtype}, which dtype={expected} cannot hold; convert "
            "the data, or choose another dtype",
            argument="data_callback",
            dtype=first_dtype,
            expected=expected,
        )

    def read(index: Index, box_shape: Shape) -> HostArray:
        if first:
            return first.pop().reshape(box_shape)
        data = data_callback(sharding.shard_index(index))
        return _checked_data(data, kind, sharding.stacked(box_shape), first_dtype).reshape(
            box_shape
        )

    runtime = devices_of(tiling)[0].runtime
    buffer = from_host(runtime, tiling.local, expected, read, batch_nbytes=_BATCH_NBYTES)
    return array_of(kind, buffer, sharding)


def make_array_from_single_device_arrays(
    shape: Any, sharding: Sharding, arrays: Sequence[Array], *, dtype: Any = None
) -> Array:
    """Make an array from its shards, without a copy.

    Args:
      shape: shape of the array.
      sharding: the sharding of the array.
      arrays: the shards: one array on each addressable device of the sharding, in any order.
      dtype: the dtype; needed only if `arrays` is empty.

    Returns:
      The array; it shares memory with `arrays`.

    Raises:
      ArgumentTypeError: an entry is not an `Array`, or dtypes differ.
      TracedArgumentError: an entry is a traced value.
      ShardingError: devices or shard shapes do not match the sharding.

    >>> import gpushard as gs
    >>> sharding = gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x"))
    >>> parts = [gs.device_put(np.full(2, d.id), d) for d in gs.devices()[:2]]
    >>> make_array_from_single_device_arrays((4,), sharding, parts)
    Array([0, 0, 1, 1], dtype=int64, sharding=NamedSharding(mesh=('x': 2), spec=P('x')))
    """
    arrays = listed(arrays, "make_array_from_single_device_arrays", "arrays", "a list of arrays")
    _refuse_traced(arrays, "arrays", "make_array_from_single_device_arrays")
    shape = as_shape(shape)
    sharding = as_sharding(sharding, len(shape), "sharding")
    tiling = place_tiling(sharding, shape).local
    parts = _by_device(tiling, arrays)
    expected = as_dtype(dtype) if dtype is not None else parts[0].dtype
    _check_parts(parts, sharding, tiling, expected)
    buffers = [part._live() for part in parts]
    kind: Any = type(parts[0]) if parts else ConcreteArray
    stored = buffers[0].dtype if parts else expected
    values = [b.values[0] for b in buffers]
    if sharding.unstacked:
        shapes = [tiling.shard_shapes[position] for position in tiling.addressable]
        values = [value.reshape(shape) for value, shape in zip(values, shapes, strict=True)]
    buffer = ShardedBuffer(tiling, stored, values, [b.claims[0] for b in buffers])
    return array_of(kind, buffer, sharding)


def _check_parts(
    parts: Sequence[Array], sharding: Sharding, tiling: Tiling, expected: np.dtype[Any]
) -> None:
    """Check that arrays can be the shards of a tiling, in the order of its devices."""
    devices = map(device_of, tiling.devices)
    shapes = map(sharding.stacked, tiling.shard_shapes)
    for device, part, shard_shape in zip(devices, parts, shapes, strict=True):
        if part.sharding.memory_kind != sharding.memory_kind:
            raise ShardingError(
                f"arrays hold memory_kind={part.sharding.memory_kind!r} on {device!r}; the "
                f"sharding has {sharding.memory_kind!r}. Move them with device_put, or use "
                "sharding.with_memory_kind",
                argument="arrays",
                device=device,
                kind=part.sharding.memory_kind,
                expected=sharding.memory_kind,
            )
        if part.dtype != expected:
            raise ArgumentTypeError(
                f"arrays hold {part.dtype} on {device!r} and {expected} elsewhere; all must have "
                "one dtype",
                argument="arrays",
                device=device,
                dtype=part.dtype,
                expected=expected,
            )
        if part.shape != shard_shape:
            raise ShardingError(
                f"arrays hold the shape {part.shape} on {device!r}; {sharding} of shape "
                f"{tiling.shape} needs {shard_shape} there",
                argument="arrays",
                device=device,
                shape=part.shape,
                expected=shard_shape,
            )


def _refuse_traced(values: Sequence[Any], argument: str, function: str) -> None:
    """Check that no value is traced.

    Raises:
      TracedArgumentError: a value is traced.
    """
    traced = [x for x in values if is_traced(x)]
    if not traced:
        return
    kinds = [
        f"traced {x.dtype}{list(x.shape)}" if is_traced(x) else type(x).__name__ for x in values
    ]
    why = traced[0]._without_data(function)
    raise TracedArgumentError(
        f"{argument} has the types {', '.join(dict.fromkeys(kinds))}: {why}",
        argument=argument,
        types=kinds,
        arg=why.arg,
        line=why.line,
    )


def _by_device(tiling: Tiling, arrays: Sequence[Array]) -> list[Array]:
    """Sort single-device arrays in the tiling's order of devices."""
    placed: dict[Hashable, Array] = {}
    for position, array in enumerate(arrays):
        placed[device_of_array(array, "arrays", position)] = array
    wanted = [device_of(tiling.devices[position]) for position in tiling.addressable]
    missing = [device for device in wanted if device not in placed]
    surplus = [device for device in placed if device not in set(wanted)]
    if missing or surplus or len(arrays) != len(wanted):
        raise ShardingError(
            f"arrays lie on {len(placed)} devices, {len(arrays)} in number; the sharding has "
            f"{len(wanted)}. Without an array: {missing}; not in the sharding: {surplus}. Give "
            "one array per device",
            argument="arrays",
            missing=missing,
            surplus=surplus,
        )
    return [placed[device] for device in wanted]


def device_of_array(x: Any, argument: str, position: int | None = None) -> Device:
    """Return the device of a single-device array; errors name its argument and position."""
    name = argument if position is None else f"{argument}[{position}]"
    each = "it" if position is None else "each"
    if not isinstance(x, Array):
        raise ArgumentTypeError(
            f"{name} is a {type(x).__name__}; {each} must be an Array on one device, "
            "place it with device_put(x, device)",
            argument=argument,
            position=position,
            type=type(x),
        )
    devices = list(x.devices())
    if len(devices) != 1:
        raise ShardingError(
            f"{name} lies on {len(devices)} devices; {each} must lie on one",
            argument=argument,
            position=position,
            devices=len(devices),
        )
    return devices[0]


def host_data_for(data: Any, kind: type[ConcreteArray], argument: str) -> HostArray:
    """Convert data for one class of arrays to host data; keys become elements of 64 bits."""
    if kind is KeyArray and isinstance(data, KeyArray):
        return np.asarray(elements_of(data))
    if kind is KeyArray:
        raise ArgumentTypeError(
            f"{argument} holds a {type(data).__name__} after a KeyArray; make all of it keys",
            argument=argument,
            type=type(data),
        )
    return as_host_array(data, argument)[0]


def _checked_data(
    data: Any, kind: type[ConcreteArray], shape: Shape, dtype: np.dtype[Any] | None
) -> HostArray:
    _refuse_traced([data], "data_callback", "make_array_from_callback")
    array = host_data_for(data, kind, "data_callback")
    if array.shape != shape:
        raise ShardingError(
            f"data_callback returned the shape {array.shape} for a box of shape {shape}; return "
            "exactly the data of its slices",
            argument="data_callback",
            shape=array.shape,
            expected=shape,
        )
    if dtype is not None and array.dtype != dtype:
        raise ArgumentTypeError(
            f"data_callback returned {array.dtype} after {dtype}; return one dtype for all boxes",
            argument="data_callback",
            dtype=array.dtype,
            expected=dtype,
        )
    return array
