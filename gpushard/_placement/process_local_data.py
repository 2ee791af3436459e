"""Make arrays from the data of a process, and find the part of an array that it holds."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._array.array import Array, ConcreteArray
from gpushard._array.guards import HOST_TO_DEVICE, check_transfer
from gpushard._array.key_array import KeyArray
from gpushard._array.multiprocess_array import array_of
from gpushard._functions.argument_checks import integer
from gpushard._functions.element_types import check_dtype
from gpushard._functions.shapes import as_shape
from gpushard._geometry.distinct_columns import distinct_columns
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.from_host import from_host
from gpushard._movement.sharding_devices import devices_of, place_tiling
from gpushard._placement.device_put import as_sharding
from gpushard._placement.make_array import host_data_for
from gpushard._typing import Index, IntArray, Shape
from gpushard.errors import ArgumentTypeError, ArrayIndexError, ShardingError


def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = None
) -> Any:
    """Make an array, or a pytree of arrays, from the data of this process.

    Args:
      sharding: the sharding of the array: a sharding, a device, or a `PartitionSpec` over the
        current mesh. For several arrays, a pytree that is a prefix of `local_data`.
      local_data: the data of this process, or a pytree of such data. Along each axis it has either
        the whole length, or only the parts for this process's devices, joined in order.
      global_shape: the shape of the array, a tuple, or a prefix pytree of shapes. By default the
        length of each axis is computed from the local data: its length, divided by the fraction of
        the blocks that this process has.

    Returns:
      The array, or arrays in the structure of `local_data`.

    Raises:
      ShardingError: an axis of the data has neither the global length nor that of this process's
        part.
      TreeError: `sharding` or `global_shape` is not a prefix of `local_data`.

    >>> import gpushard as gs
    >>> sharding = gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x"))
    >>> make_array_from_process_local_data(sharding, np.arange(4))
    Array([0, 1, 2, 3], dtype=int64, sharding=NamedSharding(mesh=('x': 2), spec=P('x')))
    """
    leaves, structure = tree.flatten(local_data)
    names = "sharding", "local_data"
    shardings = tree.broadcast_prefix(sharding, local_data, names=names)
    shapes = tree.broadcast_prefix(
        global_shape, local_data, _is_shape, names=("global_shape", "local_data")
    )
    each = zip(shardings, leaves, shapes, strict=True)
    return tree.unflatten(structure, [_from_local_data(*arguments) for arguments in each])


def _is_shape(x: Any) -> bool:
    """Test for a shape, or for None in place of one."""
    if isinstance(x, list | tuple):
        return all(isinstance(n, int | np.integer) for n in x)
    return x is None


def _from_local_data(sharding: Any, local_data: Any, global_shape: Any) -> Array:
    kind = KeyArray if isinstance(local_data, KeyArray) else ConcreteArray
    data = host_data_for(local_data, kind, "local_data")
    sharding = as_sharding(sharding, data.ndim, "sharding")
    if global_shape is None:
        shape = global_shape_of(sharding, data.shape)
    else:
        shape = as_shape(global_shape, "global_shape")
    tiling = place_tiling(sharding, shape)
    to_local = local_slices(tiling, data.shape)
    check_transfer(HOST_TO_DEVICE, "make_array_from_process_local_data(...)", explicit=True)
    buffer = from_host(
        devices_of(tiling)[0].runtime,
        tiling.local,
        check_dtype(data.dtype, "local_data"),
        lambda index, _: data[to_local(index)],
    )
    return array_of(kind, buffer, sharding)


def num_addressable_indices(sharding: Sharding, dim: int, global_shape: Any) -> int:
    """Count the different parts of one axis that the devices of this process hold.

    Args:
      sharding: the sharding of the array.
      dim: the number of the axis.
      global_shape: shape of the array.

    Raises:
      ArrayIndexError: the array has no such axis.
    """
    if not isinstance(sharding, Sharding):
        raise ArgumentTypeError.refusing(
            "sharding", sharding, "must be a Sharding", "num_addressable_indices"
        )
    dim = integer(dim, "num_addressable_indices", "dim")
    tiling = sharding.tiling(as_shape(global_shape, "global_shape"))
    if not 0 <= dim < tiling.ndim:
        raise ArrayIndexError(
            f"dim={dim} is out of bounds for global_shape={tiling.shape}; use 0 to "
            f"{tiling.ndim - 1}",
            argument="dim",
            dim=dim,
            ndim=tiling.ndim,
        )
    return int(sum(stop - start for start, stop in _local_intervals(tiling, dim)))


def local_slices(tiling: Tiling, local_shape: Shape) -> Callable[[Index], Index]:
    """Return a function that converts global slices to slices of densely packed local data."""
    if len(local_shape) != tiling.ndim:
        raise ShardingError(
            f"local_data has ndim={len(local_shape)}, and global_shape={tiling.shape} has "
            f"{tiling.ndim} axes; give local_data as many axes",
            argument="local_data",
            local_shape=local_shape,
            global_shape=tiling.shape,
        )
    packed: list[tuple[list[int], list[int]]] = []
    for dim, (local, size) in enumerate(zip(local_shape, tiling.shape, strict=True)):
        intervals = _local_intervals(tiling, dim)
        starts = [start for start, _ in intervals]
        lengths = [stop - start for start, stop in intervals]
        if local == size:
            packed.append(([0], [0]))
        elif local == sum(lengths):
            packed.append((starts, np.cumsum([0, *lengths])[:-1].tolist()))
        else:
            raise ShardingError(
                f"local_data has {local} elements along axis {dim}; give all {size} of "
                f"global_shape={tiling.shape} or the {sum(lengths)} that this process addresses",
                argument="local_data",
                dim=dim,
                local_shape=local_shape,
                global_shape=tiling.shape,
            )

    def to_local(index: Index) -> Index:
        result = []
        for part, (starts, offsets), size in zip(index, packed, tiling.shape, strict=True):
            start, stop, _ = part.indices(size)
            at = 0
            if start < stop:
                interval = bisect.bisect_right(starts, start) - 1
                at = offsets[interval] + start - starts[interval]
            result.append(slice(at, at + stop - start))
        return tuple(result)

    return to_local


def _local_intervals(tiling: Tiling, dim: int) -> list[tuple[int, int]]:
    """Return the intervals of a dim that this process holds, ascending, with each element once."""
    local = list(tiling.addressable)
    bounds: IntArray = np.stack([tiling.starts[dim, local], tiling.stops[dim, local]])
    result: list[tuple[int, int]] = []
    for start, stop in bounds[:, distinct_columns(bounds)[0]].T.tolist():
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(stop, result[-1][1]))
        elif start < stop:
            result.append((start, stop))
    return result


def global_shape_of(sharding: Sharding, local_shape: Shape) -> Shape:
    """Divide local sizes by the share of each dim's blocks in this process."""
    counts = sharding.tiling(local_shape).assignment
    local = list(sharding.tiling(local_shape).addressable)
    if len(local) == len(counts.devices):
        return local_shape
    return tuple(
        size * count // len(np.unique(blocks[local]))
        for size, count, blocks in zip(local_shape, counts.counts, counts.blocks, strict=True)
    )
