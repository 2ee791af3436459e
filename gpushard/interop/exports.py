"""Export the memory of a shard by DLPack and the CUDA array interface.

https://data-apis.org/array-api/latest/design_topics/data_interchange.html,
https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html (version 3).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gpushard._array.array import Array
from gpushard._functions.host_reads import concrete
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.sharding_devices import devices_of
from gpushard._runtime.host import dlpack
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeletedArrayError,
    ExportError,
    ProtocolError,
)

_DTYPES = frozenset(map(np.dtype, "?bhilqBHILQefdFD"))

_LEGACY_STREAM = 1
"""DLPack's number of CUDA's legacy default stream, the default."""


def dlpack_device(x: Array) -> tuple[int, int]:
    """Return the DLPack device of an array: `Array.__dlpack_device__`."""
    buffer = _only_shard(x, "DLPack")
    return _device_of(buffer)


def capsule(
    x: Array,
    *,
    stream: Any = None,
    max_version: Any = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """Export an array as a DLPack capsule: `Array.__dlpack__`."""
    wanted = None if dl_device is None else _pair(dl_device, "dl_device", "(1, 0) for the CPU")
    version = (0, 0) if max_version is None else _pair(max_version, "max_version", "(1, 0)")
    if not (copy is None or isinstance(copy, bool)):
        raise ArgumentTypeError.refusing("copy", copy, "must be True, False or None")
    _check_dtype(x)
    versioned = version >= (1, 0)
    if wanted == (dlpack.CPU, 0) and copy is not False and x.sharding.num_devices > 1:
        gathered = concrete(x, "x.__dlpack__(dl_device=(1, 0))", explicit=True)
        return dlpack.export(gathered, versioned=versioned, copy=bool(copy))
    buffer = _only_shard(x, "DLPack")
    device = _device_of(buffer)
    wanted = device if wanted is None else wanted
    if wanted == device and device[0] != dlpack.CPU:
        return _device_capsule(x, _consumer(stream), max_version, copy=bool(copy))
    if device[0] == dlpack.CPU and stream is not None:
        raise ArgumentError.refusing(
            "stream", stream, "must be None: the array is on the CPU, which has no streams"
        )
    if wanted != (dlpack.CPU, 0) or (wanted != device and copy is False):
        raise ExportError(
            f"dl_device={place_name(wanted)} with copy={copy} is impossible: the array is on "
            f"{place_name(device)}. Try: leave out dl_device, ask for the CPU with copy=None, or "
            "move the array first with x.to_device(device)",
            argument="dl_device",
            dl_device=wanted,
            device=device,
        )
    if wanted == device:
        _follow(buffer, None)
        view = buffer.runtime.backend.host_view(buffer.values[0], buffer.claims[0])
    else:
        view = concrete(x, "x.__dlpack__(dl_device=(1, 0))", explicit=True)
    return dlpack.export(view, versioned=versioned, copy=bool(copy))


def _device_capsule(x: Array, consumer: int, max_version: Any, *, copy: bool) -> Any:
    """Export memory on a GPU as a capsule of the backend's library.

    The consumer's stream waits only for the content. A copy is an array of gpushard that only the
    consumer holds: CuPy makes no copies, and the memory counts and is freed like any other. Without
    a consumer's stream, the host waits until the copy is written.
    """
    _check_content(x._live())
    lent = x.copy() if copy else x
    buffer = lent._live()
    local = buffer.runtime.backend.lend(buffer.values[0], buffer.claims[0], consumer=consumer)
    _follow(buffer, None if copy and consumer == -1 else consumer)
    return local.__dlpack__(stream=-1, max_version=max_version)


def cuda_array_interface(x: Array) -> dict[str, Any]:
    """Return the CUDA array interface of an array: `Array.__cuda_array_interface__`.

    The buffer holds an array of the backend's library, since consumers hold `x`. The data is not
    marked as read-only although arrays are values, since PyTorch refuses that ("the read only flag
    is not supported"). JAX does the same.
    """
    platform = devices_of(x.sharding.tiling(x.shape))[0].platform
    if platform != "gpu":
        raise ProtocolError(
            f"the array is on the {platform}, which has no __cuda_array_interface__. "
            "Try: use DLPack",
            platform=platform,
        )
    try:
        buffer = _only_shard(x, "__cuda_array_interface__")
    except (ExportError, DeletedArrayError) as error:  # makes hasattr() False
        raise ProtocolError(str(error), **error.facts) from None
    backend, value = buffer.runtime.backend, buffer.values[0]
    if buffer.lent is None:
        ShardedBuffer.ever_lent = True
        buffer.lent = backend.lend(value, buffer.claims[0], consumer=-1)
    with _after(buffer):  # the interface names the stream on which it is read
        interface = dict(buffer.lent.__cuda_array_interface__)
    _check_content(buffer)
    return {**interface, "data": (backend.address(value), False)}


def _only_shard(x: Array, what: str) -> ShardedBuffer:
    """Return the data of an array on one device."""
    buffer = x._live()
    shards = len(buffer.values)
    if shards != 1:
        raise ExportError(
            f"{what} describes one block of memory, and the array of shape {x.shape} has {shards} "
            f"shards in {x.sharding}. Try: export each x.addressable_data(i), move it to one "
            "device first with x.to_device(device), or ask for the CPU: "
            'numpy.from_dlpack(x, device="cpu", copy=True)',
            argument="self",
            shape=x.shape,
            sharding=x.sharding,
            shards=shards,
        )
    return buffer


def _device_of(buffer: ShardedBuffer) -> tuple[int, int]:
    device = devices_of(buffer.tiling)[0]
    return buffer.runtime.backend.dlpack_device(device.memory_domain)


def _follow(buffer: ShardedBuffer, consumer: int | None) -> None:
    """Make a consumer's stream, or the host, wait for the content; -1 does not wait."""
    memory = buffer.claims[0].memory
    domain = devices_of(buffer.tiling)[0].memory_domain
    written = memory.written
    if written is not None and consumer != -1:
        buffer.runtime.backend.follow(consumer, [written], domain)
    _check_content(buffer)


def _after(buffer: ShardedBuffer) -> AbstractContextManager[None]:
    """Return a context in which work of this thread runs once the content is ready."""
    written = buffer.claims[0].memory.written
    return nullcontext() if written is None else buffer.runtime.backend.on_stream(*written)


def _check_content(buffer: ShardedBuffer) -> None:
    """Raise if the content is known to have failed."""
    if buffer.claims[0].memory.error is not None:
        buffer.wait()


def _consumer(stream: Any) -> int:
    """Check DLPack's number of a consumer's stream on a GPU, and return it."""
    if stream is None:
        return _LEGACY_STREAM
    if isinstance(stream, bool) or not isinstance(stream, int) or stream < -1 or stream == 0:
        raise ArgumentError.refusing(
            "stream", stream, "must be None, -1, 1, 2 or the address of a CUDA stream"
        )
    return stream


def _pair(value: Any, argument: str, example: str) -> tuple[int, int]:
    try:
        first, second = value
        return int(first), int(second)
    except (TypeError, ValueError):
        raise ArgumentTypeError.refusing(
            argument, value, f"must be a pair of integers, such as {example}"
        ) from None


def _check_dtype(x: Array) -> None:
    if x.dtype not in _DTYPES:
        raise ExportError(
            f"dtype {x.dtype} cannot be exported through DLPack. Try: convert it first, to float32 "
            "for example, or use gpushard.interop.torch.to_torch",
            argument="self",
            dtype=x.dtype,
        )


_NAMES = {
    1: "CPU",
    2: "CUDA",
    3: "pinned host memory",
    7: "Vulkan",
    8: "Metal",
    10: "ROCm",
    13: "managed CUDA memory",
    14: "oneAPI",
}


def place_name(device: tuple[int, int]) -> str:
    """Write a DLPack device with its name, for messages.

    >>> place_name((2, 1))
    '(2, 1) (CUDA)'
    """
    kind, index = device
    return f"({kind}, {index}) ({_NAMES.get(kind, 'unknown')})"
