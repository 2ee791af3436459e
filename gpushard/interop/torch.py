"""PyTorch tensors over the memory of arrays, and arrays over the memory of tensors.

Only this module of the package imports PyTorch.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from gpushard._array.array import Array, ConcreteArray
from gpushard._array.key_array import refuse_keys
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.sharding_devices import devices_of
from gpushard._placement.device_put import as_sharding
from gpushard.errors import ArgumentError, ArgumentTypeError, ExportError
from gpushard.interop.imports import import_array

_ml_dtypes: Any = (
    importlib.import_module("ml_dtypes") if importlib.util.find_spec("ml_dtypes") else None
)

_BITS = {
    "bfloat16": torch.int16,
    "float8_e4m3fn": torch.uint8,
    "float8_e4m3fnuz": torch.uint8,
    "float8_e5m2": torch.uint8,
    "float8_e5m2fnuz": torch.uint8,
    "float8_e8m0fnu": torch.uint8,
}
"""Types that NumPy's DLPack does not support, and the types that carry their bits."""


def to_torch(x: Array, *, gather: bool = False) -> torch.Tensor:
    """Convert an array to a tensor, without a copy if one device holds the whole array.

    The tensor shares the array's memory. You must not write it: arrays are values, and PyTorch has
    no read-only tensors. Use `.clone()` to write.

    Args:
      x: an array on one device, or a replicated one.
      gather: whether to first move an array with several shards to its first device.

    Returns:
      The tensor, on the CPU or on the GPU of the device.

    Raises:
      ExportError: the array has several shards and `gather` is False, or PyTorch has no such dtype.
      ExecutionError: the work that computes the value failed.

    >>> import gpushard as gs
    >>> to_torch(gs.device_put(np.ones(2)))
    tensor([1., 1.], dtype=torch.float64)
    """
    _check_array(x)
    buffer = x._live()
    if len(buffer.values) == 1:
        return _tensor(x)
    if x.is_fully_replicated:
        return _tensor(x.addressable_data(0))
    if not gather:
        raise ExportError(
            f"the array of shape {x.shape} has {len(buffer.values)} shards in {x.sharding}, and a "
            "tensor is on one device. Try: to_torch(x, gather=True) to move it to one, or "
            "to_torch_shards(x) for a tensor per shard",
            argument="x",
            shape=x.shape,
            sharding=x.sharding,
            shards=len(buffer.values),
        )
    return _tensor(x.to_device(devices_of(buffer.tiling)[0].device))


def to_torch_shards(x: Array) -> list[torch.Tensor]:
    """Convert each addressable shard to a tensor, in shard order, without copies.

    The tensors share the array's memory. You must not write them; see `to_torch`.

    Args:
      x: the array.

    Raises:
      ExportError: PyTorch has no such dtype.
      ExecutionError: the work that computes the value failed.

    >>> import gpushard as gs
    >>> sharding = gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x"))
    >>> to_torch_shards(gs.device_put(np.arange(3), sharding))
    [tensor([0, 1]), tensor([2])]
    """
    _check_array(x)
    return [_tensor(shard.data) for shard in x.addressable_shards if shard.data is not None]


def from_torch(t: torch.Tensor, device: Any = None) -> Array:
    """Create an array over the memory of a tensor, without a copy if possible.

    Memory is shared as by `gpushard.from_dlpack`, and you must not change it while the array lives.
    Pending conjugation or negation of a tensor is resolved first.

    Args:
      t: a dense tensor that requires no gradient.
      device: a device or a sharding; by default the device of the tensor, uncommitted.

    Returns:
      The array. bfloat16 and float8 become the types of `ml_dtypes`.

    Raises:
      ArgumentError: the tensor requires a gradient, or these devices cannot read it.
      ArgumentTypeError: `t` is not a dense tensor, or NumPy has no such dtype.
      ShardingError: the sharding does not fit the shape.

    >>> from_torch(torch.tensor([1.0, 2.0]))
    Array([1., 2.], dtype=float32)
    """
    _check_tensor(t)
    t = t.resolve_conj().resolve_neg()
    sharding = None if device is None else as_sharding(device, t.ndim)
    name = str(t.dtype).removeprefix("torch.")
    if hasattr(np, name):
        return import_array(t, sharding, None, "from_torch(t)")
    dtype = getattr(_ml_dtypes, name, None)
    if dtype is None or name not in _BITS:
        raise ArgumentTypeError(
            f"t has dtype {t.dtype}, which NumPy knows only through the package ml_dtypes, if at "
            "all. Try: install ml_dtypes, or convert the tensor with .float()",
            argument="t",
            dtype=t.dtype,
        )
    bits = import_array(t.view(_BITS[name]), sharding, None, "from_torch(t)")
    return _reinterpret(bits, np.dtype(dtype))


def _tensor(x: Array) -> torch.Tensor:
    """Convert an array on one device to a tensor."""
    if x.dtype.isbuiltin != 2:
        return from_dlpack(x)
    dtype = getattr(torch, x.dtype.name, None)
    if dtype is None or x.dtype.name not in _BITS:
        raise ExportError(
            f"dtype {x.dtype} is not supported by PyTorch. Try: convert it first",
            argument="x",
            dtype=x.dtype,
        )
    bits = np.dtype(str(_BITS[x.dtype.name]).removeprefix("torch."))
    return from_dlpack(_reinterpret(x, bits)).view(dtype)


def _reinterpret(x: Array, dtype: np.dtype[Any]) -> Array:
    """Reinterpret the elements of an array as another type, in the same memory."""
    source = x._live()
    values = [value.view(dtype) for value in source.values]
    buffer = ShardedBuffer(source.tiling, dtype, values, source.claims, source.settled)
    return ConcreteArray(buffer, x.sharding, committed=x.committed)


def _check_array(x: Any) -> None:
    if not isinstance(x, Array):
        raise ArgumentTypeError(
            f"x is a {type(x).__name__}; to_torch takes gpushard arrays. Try: torch.as_tensor(x)",
            argument="x",
            type=type(x),
        )
    refuse_keys(x, "to_torch(keys)")


def _check_tensor(t: Any) -> None:
    """Check that an array can be created from a tensor."""
    if not isinstance(t, torch.Tensor):
        raise ArgumentTypeError(
            f"t is a {type(t).__name__}; from_torch takes tensors. Try: device_put(t)",
            argument="t",
            type=type(t),
        )
    if t.requires_grad:
        raise ArgumentError(
            f"t of shape {tuple(t.shape)} requires a gradient, which arrays do not track. Try: "
            "t.detach()",
            argument="t",
            shape=tuple(t.shape),
        )
    if t.device.type not in ("cpu", "cuda"):
        raise ArgumentError(
            f"t of shape {tuple(t.shape)} is on {t.device}, which gpushard has no devices for. "
            "Try: t.cpu()",
            argument="t",
            shape=tuple(t.shape),
            device=t.device,
        )
    if t.layout != torch.strided or t.is_quantized:
        raise ArgumentTypeError(
            f"t of shape {tuple(t.shape)} has layout {t.layout} and dtype {t.dtype}. Try: "
            "t.to_dense(), or t.dequantize() of a quantized tensor",
            argument="t",
            layout=t.layout,
            dtype=t.dtype,
        )
