"""`shard_args` and `shard_aval`: pieces of arguments, one for each device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard._array.array import Array
from gpushard._array.shape_dtype import ShapeDtypeStruct
from gpushard._placement.device_put import as_host_array, device_put
from gpushard._runtime.runtime import Device
from gpushard.errors import ArgumentError, ArgumentTypeError


def shard_args(
    devices: Sequence[Device], indices: Sequence[Sequence[Any]], args: Sequence[Any]
) -> list[list[Array]]:
    """Put a piece of each argument on each device.

    Args:
      devices: the devices.
      indices: for each argument a list with an index into the argument for each device.
      args: the arguments: arrays, or other values that `device_put` takes.

    Returns:
      For each device a list with a piece of each argument. If a piece is on its device already, it
      is not copied.

    Raises:
      ArgumentError: there is not one list of indices for each argument, or not one index for each
        device.
      ArgumentTypeError: `device_put` does not take an argument.

    >>> import gpushard as gs
    >>> shard_args(gs.devices()[:2], [[0, 1]], [gs.numpy.arange(2)])[1]
    [Array(1, dtype=int64)]
    """
    lengths = [len(each) for each in indices]
    if lengths != [len(devices)] * len(args):
        raise ArgumentError(
            f"indices have the lengths {lengths}; {len(args)} arguments need {len(args)} of length "
            f"{len(devices)}, one entry for each device",
            argument="indices",
            lengths=lengths,
            args=len(args),
            devices=len(devices),
        )
    columns = [
        _pieces(devices, each, x, f"args[{n}]")
        for n, (each, x) in enumerate(zip(indices, args, strict=True))
    ]
    return [[column[r] for column in columns] for r in range(len(devices))]


def shard_aval(size: int, axis: int, aval: ShapeDtypeStruct) -> ShapeDtypeStruct:
    """Compute the shape and dtype of one element of an array along an axis.

    Args:
      size: the expected size of the axis.
      axis: the axis, counted from 0.
      aval: the shape and dtype of the array, a `ShapeDtypeStruct`.

    Raises:
      ArgumentTypeError: `aval` is not a `ShapeDtypeStruct`.
      ArgumentError: the axis does not exist, or has another size.

    >>> shard_aval(4, 0, ShapeDtypeStruct((4, 3), "float32")).shape
    (3,)
    """
    if not isinstance(aval, ShapeDtypeStruct):
        raise ArgumentTypeError.refusing(
            "aval", aval, "must be a ShapeDtypeStruct(shape, dtype); nothing else has shards"
        )
    shape = aval.shape
    if not 0 <= axis < len(shape):
        raise ArgumentError.refusing(
            "axis", axis, f"is no axis of a value of shape {shape}; count from 0", shape=shape
        )
    if shape[axis] != size:
        raise ArgumentError(
            f"size={size} does not match axis {axis} of shape {shape}, of length {shape[axis]}",
            argument="size",
            size=size,
            axis=axis,
            shape=shape,
        )
    return ShapeDtypeStruct(
        (*shape[:axis], *shape[axis + 1 :]), aval.dtype, weak_type=aval.weak_type
    )


def _pieces(devices: Sequence[Device], indices: Sequence[Any], x: Any, name: str) -> list[Array]:
    if not isinstance(x, Array):
        data, _ = as_host_array(x, name)
        return [device_put(data[i], device) for i, device in zip(indices, devices, strict=True)]
    held: dict[Any, list[Array]] = {}
    for shard in x.addressable_shards:
        assert shard.data is not None
        held.setdefault(_normal(shard.index, x), []).append(shard.data)
    pieces = []
    for index, device in zip(indices, devices, strict=True):
        candidates = held.setdefault(_normal(index, x), [])
        if not candidates:
            candidates.append(x[index])  # other devices with this index copy the piece
        nearest = next(
            (piece for piece in candidates if piece.devices() == {device}), candidates[0]
        )
        pieces.append(device_put(nearest, device))
    return pieces


def _normal(index: Any, x: Array) -> Any:
    """Convert an index to a key that is equal for equal indices."""
    entries = index if isinstance(index, tuple) else (index,)
    if len(entries) > x.ndim or any(entry is None or entry is ... for entry in entries):
        return repr(index)
    padded = (*entries, *(slice(None),) * (x.ndim - len(entries)))
    return tuple(
        part.indices(n) if isinstance(part, slice) else int(part)
        for part, n in zip(padded, x.shape, strict=True)
    )
