"""Create arrays from any library with DLPack."""

from __future__ import annotations

import copy as python_copy
import functools
from typing import Any

from gpushard._array.array import Array, ConcreteArray
from gpushard._array.guards import HOST_TO_DEVICE, check_transfer
from gpushard._functions.element_types import check_dtype
from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.from_host import alias_host, can_alias, from_host
from gpushard._movement.planning.aliasing import ALIGNMENT
from gpushard._movement.sharding_devices import devices_of, place_tiling
from gpushard._placement.default_placement import get_default_device
from gpushard._runtime.host import dlpack
from gpushard._runtime.launch import Outputs, launch, room_on
from gpushard._runtime.runtime import Device
from gpushard._typing import HostArray, LocalArray, Shape
from gpushard.errors import ArgumentError, ArgumentTypeError, ProtocolError
from gpushard.interop.exports import place_name


def from_dlpack(
    x: Any, /, *, device: Device | Sharding | None = None, copy: bool | None = None
) -> Array:
    """Create an array that shares the memory of another library's array, if possible.

    Memory is shared if the device can use it in place: host memory on CPU devices, the GPU's own
    memory on a GPU. It must also be dense, row-major and aligned to 16 bytes. Other data is copied.
    You must not change shared memory while the result is in use. The result keeps the memory of the
    other array alive. gpushard never writes to it, and never reuses it.

    Args:
      x: an array with `__dlpack__` and `__dlpack_device__`, such as NumPy's, JAX's or PyTorch's;
        or an array of gpushard, sharded or not.
      device: one of `gpushard.devices()`; for an array of gpushard also a sharding. By default a
        device that can share the memory; the result is then uncommitted.
      copy: True always copies; False raises if a copy is needed; None copies only if needed.

    Returns:
      The array.

    Raises:
      ProtocolError: `x` has no DLPack methods.
      ArgumentError: a copy is needed, and `copy` is False. Or no device of gpushard can read the
        data.
      ArgumentTypeError: `x` is a DLPack capsule or has an unsupported dtype, or `device` is not a
        device.
      OutOfMemoryError: there is too little free memory for a copy.

    >>> import numpy as np
    >>> from_dlpack(np.arange(3))
    Array([0, 1, 2], dtype=int64)
    """
    if isinstance(x, Array):  # DLPack cannot describe several shards
        return _from_own_array(x, device, copy)
    if device is not None and not isinstance(device, Device):
        raise ArgumentTypeError(
            f"device={device!r} must be one of gpushard.devices(); for a sharding place the result "
            "with device_put",
            argument="device",
            value=device,
        )
    return import_array(
        x, None if device is None else SingleDeviceSharding(device), copy, "from_dlpack(x)"
    )


def _from_own_array(x: Array, device: Device | Sharding | None, copy: bool | None) -> Array:
    """Return an array of gpushard, moved if `device` differs from `x.device`."""
    moves = device is not None and device != x.device
    if moves and copy is False:
        raise ArgumentError(
            f"from_dlpack(x): the array is on {x.device!r}, and on {device!r} it "
            "would be a copy. Try: leave out copy=False",
            argument="copy",
            value=copy,
        )
    if moves and device is not None:
        return x.to_device(device)
    result: Array = x.copy() if copy else python_copy.copy(x)
    return result


def import_array(x: Any, sharding: Sharding | None, copy: bool | None, what: str) -> Array:
    """Create an array over a producer's memory."""
    if not (copy is None or isinstance(copy, bool)):
        raise ArgumentTypeError.refusing("copy", copy, "must be True, False or None")
    place = _place_of(x)
    home = sharding or SingleDeviceSharding(_device_for(place))
    if place[0] in dlpack.HOST_KINDS:
        check_transfer(HOST_TO_DEVICE, what, explicit=True)
        buffer = _from_host_memory(dlpack.read(x), home, copy)
    else:
        buffer = _from_device_memory(x, place, home, copy)
    return ConcreteArray(buffer, home, committed=sharding is not None)


def _place_of(x: Any) -> tuple[int, int]:
    """Return the DLPack device of a producer's memory."""
    if type(x).__name__ == "PyCapsule":
        raise ArgumentTypeError(
            "x is a DLPack capsule. Try: pass the array that made it, which also knows its device",
            argument="x",
            type=type(x),
        )
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise ProtocolError(
            f"x is a {type(x).__name__} without __dlpack__ and __dlpack_device__. Try: use "
            "device_put for numbers, lists and other data",
            argument="x",
            type=type(x),
        )
    kind, index = x.__dlpack_device__()
    return int(kind), int(index)


def _device_for(place: tuple[int, int]) -> Device:
    """Return the default device of data: one that shares the memory, if there is one."""
    default = get_default_device()
    backend = default.runtime.backend
    candidates = (default, *default.runtime.devices)
    return next((d for d in candidates if backend.dlpack_device(d.memory_domain) == place), default)


def _from_host_memory(data: HostArray, sharding: Sharding, copy: bool | None) -> ShardedBuffer:
    dtype = check_dtype(data.dtype, "x")
    tiling = place_tiling(sharding, data.shape)
    device = devices_of(tiling)[0]
    runtime = device.runtime
    target = runtime.backend.dlpack_device(device.memory_domain)
    shared = target[0] == dlpack.CPU and device.domain.kind != "pinned_host"
    if copy is False and not (shared and can_alias(tiling, dtype, data)):
        raise _needs_copy(data.shape, dtype, (dlpack.CPU, 0), target)
    if shared and not copy:
        return alias_host(runtime, tiling, dtype, data)
    return from_host(runtime, tiling, dtype, lambda index, shape: data[index])


def _from_device_memory(
    x: Any, place: tuple[int, int], sharding: Sharding, copy: bool | None
) -> ShardedBuffer:
    """Borrow memory of a device's hardware."""
    device = next(iter(sharding.device_set))
    assert isinstance(device, Device)
    backend, domain = device.runtime.backend, device.memory_domain
    target = backend.dlpack_device(domain)
    if place != target or sharding.num_devices > 1:
        raise ArgumentError(
            f"x is on {place_name(place)}, and {device!r} on {place_name(target)}, which cannot "
            "read it. Try: copy x to the CPU first, or import it on its own device",
            argument="x",
            place=place,
            device=device,
        )
    local = backend.borrow(x, domain, device.stream)
    tiling = place_tiling(sharding, tuple(local.shape))
    usable = _usable(local, device)
    if copy is False and not usable:
        raise _needs_copy(tiling.shape, local.dtype, place, target)
    return (
        _copy_borrowed(device, tiling, local)
        if copy or not usable
        else _borrow(device, tiling, local)
    )


def _usable(local: LocalArray, device: Device) -> bool:
    aligned = device.runtime.backend.address(local) % ALIGNMENT == 0
    return bool(local.flags.c_contiguous and (aligned or not local.nbytes))


def _borrow(device: Device, tiling: Tiling, local: LocalArray) -> ShardedBuffer:
    """Use borrowed memory without a copy, once the device's stream has waited for the producer."""
    runtime, stream = device.runtime, device.stream
    claim = runtime.count(room_on(device, (0,)))
    written = [claim.memory]
    runtime.commit(lambda: runtime.submit(stream, "from_dlpack", nothing, [], written), [stream])
    return ShardedBuffer(tiling, local.dtype, [local], [claim])


def _copy_borrowed(device: Device, tiling: Tiling, local: LocalArray) -> ShardedBuffer:
    """Copy borrowed memory, in the device's stream."""
    runtime, stream, domain = device.runtime, device.stream, device.memory_domain

    def submit(outputs: Outputs) -> None:
        copies = [(outputs.values[0], local, domain)]
        run = functools.partial(runtime.backend.copy_boxes, copies, domain)
        runtime.submit(stream, "from_dlpack", run, [], [outputs.claims[0].memory])

    room = room_on(device, tiling.shape, local.dtype, stream)
    outputs = launch(runtime, [room], submit, [stream])
    return ShardedBuffer(tiling, local.dtype, outputs.values, outputs.claims)


def nothing() -> None:
    """Do nothing: the work of items in place of another library's work."""


def _needs_copy(
    shape: Shape, dtype: Any, place: tuple[int, int], target: tuple[int, int]
) -> ArgumentError:
    return ArgumentError(
        f"copy=False, but x of shape {shape} and dtype {dtype} on {place_name(place)} can be had "
        f"on {place_name(target)} only as a copy: shared memory has to be of its own kind, dense, "
        f"row-major and aligned to {ALIGNMENT} bytes. Try: copy=None",
        argument="copy",
        shape=shape,
        dtype=dtype,
    )
