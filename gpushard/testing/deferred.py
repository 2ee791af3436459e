"""Arrays that streams of devices compute, and arrays held back until a test opens a gate."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence

import numpy as np

from gpushard._array.array import Array, array_like
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.sharding_devices import devices_of
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._runtime.claims import Claim
from gpushard._runtime.launch import Outputs, allocate_now, launch, room_on
from gpushard._runtime.memory import Memory
from gpushard._runtime.pool import Room
from gpushard._typing import LocalArray
from gpushard.errors import ConfigurationError


def deferred(
    x: Array,
    function: Callable[[LocalArray], LocalArray],
    *,
    error: BaseException | None = None,
    after: Sequence[Memory] = (),
) -> Array:
    """Compute each shard of a new array from a shard of an array, on the devices' streams.

    The calling thread computes shards that lie in host memory, after it has waited for the values
    of `x`. So no stream of a GPU waits for work of the host.

    Args:
      x: the array.
      function: a function that takes a shard and returns a shard with the same shape and dtype.
      error: an error that is raised instead of calling the function, where the shard is computed.
      after: memory; the function is called only after all earlier writes to it have ended.

    >>> import gpushard as gs
    >>> import numpy as np
    >>> deferred(gs.device_put(np.arange(3)), lambda shard: shard + 1)
    Array([1, 2, 3], dtype=int64)
    """
    source = x._live()
    runtime = source.runtime
    if devices_of(source.tiling)[0].domain.kind != "device" and error is None:
        return _computed_by_host(x, function, after)
    devices = [place.device for place in devices_of(source.tiling)]

    def submit(outputs: Outputs) -> None:
        pairs = zip(source.values, source.claims, outputs.values, outputs.claims, strict=True)
        for device, (value, read, target, written) in zip(devices, pairs, strict=True):
            run = functools.partial(_work, target, value, function, error)
            reads = [read.memory, *after]
            runtime.submit(device.stream, "deferred work", run, reads, [written.memory])

    rooms, streams = _rooms(source), [device.stream for device in devices]
    outputs = launch(runtime, rooms, submit, streams)
    buffer = ShardedBuffer(source.tiling, source.dtype, outputs.values, outputs.claims)
    return array_like(x, buffer)


def _computed_by_host(
    x: Array, function: Callable[[LocalArray], LocalArray], after: Sequence[Memory]
) -> Array:
    source = x._live()
    runtime, places = source.runtime, devices_of(source.tiling)
    for memory in (*after, *source.memories):
        if memory.written is not None:
            memory.written[0].synchronize(memory.written[1])
    outputs, failed = allocate_now(runtime, _rooms(source)), False
    pairs = zip(source.values, source.claims, outputs.values, outputs.claims, strict=True)
    for place, (value, read, target, written) in zip(places, pairs, strict=True):
        if read.memory.error is None:
            copy = target, np.asarray(function(value)), HOST_DOMAIN
            runtime.backend.copy_boxes([copy], place.memory_domain)
        else:
            written.memory.error, failed = read.memory.error, True
    buffer = ShardedBuffer(
        source.tiling, source.dtype, outputs.values, outputs.claims, settled=not failed
    )
    return array_like(x, buffer)


def _rooms(source: ShardedBuffer) -> list[Room]:
    """Return a room for the memory of every shard."""
    return [
        room_on(place, value.shape, source.dtype, place.device.stream)
        for place, value in zip(devices_of(source.tiling), source.values, strict=True)
    ]


def _work(
    target: LocalArray,
    value: LocalArray,
    function: Callable[[LocalArray], LocalArray],
    error: BaseException | None,
) -> None:
    if error is not None:
        raise error
    target[...] = function(value)


class Gate:
    """A gate that holds work back until you open it."""

    def __init__(self) -> None:
        self._opened = threading.Event()

    def open(self) -> None:
        """Open the gate, so that the work runs."""
        self._opened.set()

    def wait(self) -> None:
        """Wait until the gate is open, as the work behind the gate does."""
        self._opened.wait()


def gated(x: Array, *, error: BaseException | None = None) -> tuple[Array, Gate]:
    """Copy an array; the value of the copy is ready only once you open a gate.

    Until then, the copy occupies one worker of the backend.

    Args:
      x: the array.
      error: an error that the work raises instead of copying, once the gate is open.

    Returns:
      The copy, and its gate.

    Raises:
      ConfigurationError: the array is on GPUs, where streams do not wait for the host.

    >>> import gpushard as gs
    >>> y, gate = gated(gs.device_put(1.0))
    >>> y.is_ready()
    False
    >>> gate.open()
    >>> float(y)
    1.0
    """
    gate = Gate()
    runtime, device = x._live().runtime, devices_of(x._live().tiling)[0]
    if runtime.backend.name == "cuda":
        raise ConfigurationError(
            "gated() holds a worker back, but streams of GPUs have no workers and the array is on "
            "GPUs; use runtime(backend='host')",
            argument="backend",
            value="cuda",
        )

    def submit() -> Claim:
        turnstile = runtime.claim(room_on(device, (1,)))
        stream = runtime.new_stream("gate", device.memory_domain)
        runtime.submit(stream, "gate", gate.wait, [], [turnstile.memory])
        return turnstile

    turnstile = runtime.commit(submit)
    return deferred(x, lambda shard: shard, error=error, after=[turnstile.memory]), gate
