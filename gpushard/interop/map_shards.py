"""Call functions of other libraries on the shards of arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._array.array import Array, ConcreteArray
from gpushard._array.key_array import refuse_keys
from gpushard._array.shape_dtype import ShapeDtypeStruct
from gpushard._frozen import dataclass
from gpushard._functions.element_types import as_dtype
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.sharding_devices import devices_of, place_tiling
from gpushard._placement.device_put import as_sharding
from gpushard._runtime.failures import failure
from gpushard._runtime.host.keep_alive import writable
from gpushard._runtime.launch import allocate, room_on
from gpushard._runtime.runtime import Device, Runtime
from gpushard._typing import LocalArray
from gpushard.errors import ArgumentError, ArgumentTypeError, ExecutionError, ShardingError
from gpushard.interop.imports import nothing


def map_shards(f: Callable[..., Any], *arrays: Array, out: Any, sharding: Any = None) -> Any:
    """Call a function of another library on the local data of every device.

    `map_shards` allocates the outputs, and calls `f(*inputs, *outputs)` once per device, in this
    thread and in device order. The arguments are the shards on the device: NumPy arrays on the CPU,
    CuPy arrays on GPUs. `f` writes its results into the outputs. On GPUs, the current stream of
    CuPy is that of the device, so `f` need not wait.

    `f` must not change inputs; NumPy arrays are read-only. Outputs are dense, and have arbitrary
    values at first. `f` must not write to them after it has returned. If devices have replicas of
    an output, `f` must write equal values on each.

    Args:
      f: a function of the local inputs, followed by the local outputs in the order of
        `tree.leaves(out)`. It returns None.
      *arrays: the inputs, all on the same devices in the same order.
      out: the global shape and dtype of each output, and optionally its sharding: a
        `ShapeDtypeStruct`, or a pytree of them.
      sharding: the sharding of outputs for which `out` has none: a sharding, or a `PartitionSpec`
        in a `with mesh:` block. By default that of the first input.

    Returns:
      The outputs, in the structure of `out`.

    Raises:
      ShardingError: inputs or outputs are on different devices, or a sharding does not fit a shape.
      ArgumentTypeError: `f` is not a function or returned a value, an input is not an `Array`, or
        `out` has leaves that are not `ShapeDtypeStruct`s.
      ExecutionError: `f` raised an error, which is `__cause__`, or the work that computes an input
        failed.
      OutOfMemoryError: a device has too little free memory. `f` was not called.

    >>> import numpy as np
    >>> import gpushard as gs
    >>> x = gs.device_put(np.arange(4), gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x")))
    >>> def reverse(a, out):
    ...     out[:] = a[::-1]
    >>> map_shards(reverse, x, out=gs.ShapeDtypeStruct((4,), x.dtype))
    Array([1, 0, 3, 2], dtype=int64, sharding=NamedSharding(mesh=('x': 2), spec=P('x')))
    """
    _check_call(f, arrays)
    inputs = [_shards(array._live(), array.sharding) for array in arrays]
    leaves, structure = tree.flatten(out)
    declared = [_declare(leaf, sharding, arrays) for leaf in leaves]
    devices = _common_devices(inputs, declared)
    outputs = _run(f, devices, inputs, declared)
    follows = sharding is None and not any(array.committed for array in arrays)
    results = [
        ConcreteArray(buffer, output.sharding, committed=output.chosen or not follows)
        for buffer, output in zip(outputs, declared, strict=True)
    ]
    return tree.unflatten(structure, results)


@dataclass(frozen=True, eq=False)
class _Declared:
    """The declaration of an output."""

    dtype: np.dtype[Any]  # type of the elements
    sharding: Sharding  # its sharding
    tiling: Tiling  # the tiling of its shape
    chosen: bool  # whether the declaration has the sharding


def _check_call(f: Any, arrays: Sequence[Any]) -> None:
    if not callable(f):
        raise ArgumentTypeError.refusing(
            "f", f, "must be a function of local arrays that writes its outputs in place"
        )
    for position, array in enumerate(arrays):
        if not isinstance(array, Array):
            raise ArgumentTypeError(
                f"arrays[{position}] is a {type(array).__name__}; map_shards takes gpushard "
                "arrays, use device_put first",
                argument="arrays",
                position=position,
                type=type(array),
            )
        refuse_keys(array, "map_shards(f, keys)")


def _declare(leaf: Any, sharding: Any, arrays: Sequence[Array]) -> _Declared:
    """Read the declaration of one output from `out`."""
    if not isinstance(leaf, ShapeDtypeStruct):
        raise ArgumentTypeError(
            f"out holds {leaf!r}; it must hold ShapeDtypeStruct(shape, dtype) with the global "
            "shape of every output",
            argument="out",
            type=type(leaf),
        )
    if leaf.sharding is None and sharding is None and not arrays:
        raise ArgumentError(
            f"the output of shape {leaf.shape} has no sharding. Try: pass sharding= or an input",
            argument="sharding",
            shape=leaf.shape,
        )
    place: Any = leaf.sharding
    if place is None:
        place = arrays[0].sharding if sharding is None else sharding
    chosen = as_sharding(place, leaf.ndim, "sharding")
    tiling = place_tiling(chosen, leaf.shape)
    return _Declared(as_dtype(leaf.dtype, "out"), chosen, tiling, leaf.sharding is not None)


def _common_devices(
    inputs: Sequence[ShardedBuffer], declared: Sequence[_Declared]
) -> tuple[Device, ...]:
    """Return the common devices of all arrays."""
    tilings = [*(buffer.tiling for buffer in inputs), *(output.tiling for output in declared)]
    if not tilings:
        raise ArgumentError(
            "there are no inputs and no outputs, so no devices. Try: pass arrays or out=",
            argument="out",
        )
    names = [f"arrays[{n}]" for n in range(len(inputs))]
    names += [f"output {n}" for n in range(len(declared))]
    first = devices_of(tilings[0])
    for name, tiling in zip(names, tilings, strict=True):
        devices = devices_of(tiling)
        if devices != first:
            raise ShardingError(
                f"{name} is on {list(devices)} and {names[0]} on {list(first)}; map_shards needs "
                "the same devices in the same order. Try: reshard first",
                argument="arrays" if name.startswith("arrays") else "sharding",
                devices=devices,
                expected=first,
            )
    for place in first:
        if not isinstance(place, Device):
            raise ShardingError(
                f"{names[0]} is in memory_kind={place.kind!r}; map_shards works on the memory of "
                'devices. Try: device_put(x, x.sharding.with_memory_kind("device"))',
                argument="arrays",
                kind=place.kind,
            )
    return tuple(place.device for place in first)


def _run(
    f: Callable[..., Any],
    devices: tuple[Device, ...],
    inputs: Sequence[ShardedBuffer],
    declared: Sequence[_Declared],
) -> list[ShardedBuffer]:
    """Call `f` between two markers on every device's stream; they declare the memory that it uses.

    The marker before the call waits for inputs and memory. Readers of the outputs wait for the
    marker after the call, which is always submitted: `f` may have launched work before it raised.
    """
    runtime, streams = devices[0].runtime, [device.stream for device in devices]

    def begin() -> tuple[list[ShardedBuffer], list[int]]:
        outputs = [_allocate(runtime, devices, output) for output in declared]
        return outputs, _mark(runtime, devices, inputs, outputs)

    outputs, ticks = runtime.commit(begin, streams)
    targets = [_shards(buffer, how.sharding) for buffer, how in zip(outputs, declared, strict=True)]
    try:
        for position, (device, tick) in enumerate(zip(devices, ticks, strict=True)):
            with runtime.backend.on_stream(device.stream, tick):
                _call(f, device, position, inputs, targets)
    finally:
        runtime.commit(lambda: _mark(runtime, devices, inputs, outputs), streams)
    return outputs


def _allocate(runtime: Runtime, devices: tuple[Device, ...], declared: _Declared) -> ShardedBuffer:
    """Make memory of its own for every device; inside `commit`."""
    tiling, dtype = declared.tiling, declared.dtype
    rooms = [
        room_on(device, shape, dtype, device.stream)
        for device, shape in zip(devices, tiling.shard_shapes, strict=True)
    ]
    outputs = allocate(runtime, rooms)
    return ShardedBuffer(tiling, dtype, outputs.values, outputs.claims)


def _mark(
    runtime: Runtime,
    devices: tuple[Device, ...],
    inputs: Sequence[ShardedBuffer],
    outputs: Sequence[ShardedBuffer],
) -> list[int]:
    """Submit an item to every device's stream that uses the memory of `f`; inside `commit`."""
    ticks = []
    for position, device in enumerate(devices):
        reads = dict.fromkeys(buffer.claims[position].memory for buffer in inputs)
        writes = [buffer.claims[position].memory for buffer in outputs]
        ticks.append(runtime.submit(device.stream, "map_shards", nothing, list(reads), writes))
    return ticks


def _call(
    f: Callable[..., Any],
    device: Device,
    position: int,
    inputs: Sequence[ShardedBuffer],
    outputs: Sequence[ShardedBuffer],
) -> None:
    """Call `f` on the local data of one device."""
    for buffer in (*inputs, *outputs):
        error = buffer.claims[position].memory.error
        if error is not None:
            raise failure(error)
    targets = [writable(view) for view in _lend(device, position, outputs)]
    try:
        result = f(*_lend(device, position, inputs), *targets)
    except Exception as error:
        raise ExecutionError(
            f"f failed on {device!r}, device {position} of map_shards: {type(error).__name__}: "
            f"{error}; the inputs are unchanged",
            operation="map_shards",
            device=device,
        ) from error
    finally:
        for target in targets:
            if isinstance(target, np.ndarray):
                target.flags.writeable = False
    if result is not None:
        raise ArgumentTypeError(
            f"f returned a {type(result).__name__} on {device!r}; it must write into its outputs "
            f"in place, here {len(outputs)}, and return None",
            argument="f",
            type=type(result),
            device=device,
        )


def _shards(buffer: ShardedBuffer, sharding: Sharding) -> ShardedBuffer:
    """Return data with shards in the dims that users see."""
    if not sharding.unstacked:
        return buffer
    values = [value.reshape(sharding.stacked(value.shape)) for value in buffer.values]
    return dataclasses.replace(buffer, values=values)


def _lend(device: Device, position: int, buffers: Sequence[ShardedBuffer]) -> list[LocalArray]:
    """Lend local data to `f`; it stays valid if `f` keeps it."""
    lend = device.runtime.backend.lend
    return [lend(buffer.values[position], buffer.claims[position]) for buffer in buffers]
