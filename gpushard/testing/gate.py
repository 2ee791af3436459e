"""Arrays whose value is held back until a test lets it go."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from gpushard.array.array import Array
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.runtime.memory import Claim, Memory
from gpushard.runtime.runtime import Runtime
from gpushard.typing import LocalArray


class Gate:
    """Holds work back until it is opened."""

    def __init__(self) -> None:
        self._opened = threading.Event()

    def open(self) -> None:
        """Let the work run."""
        self._opened.set()

    def wait(self) -> None:
        """Wait for the gate, as held work does."""
        self._opened.wait()


def gated(x: Array, *, error: BaseException | None = None) -> tuple[Array, Gate]:
    """Return a copy of an array whose value is there only once a gate is opened.

    The gate occupies one worker of the backend until then.

    Args:
      x: the array.
      error: what the work raises instead, once the gate is open.

    Returns:
      The copy, and its gate.

    >>> import gpushard as gs
    >>> y, gate = gated(gs.device_put(1.0))
    >>> y.is_ready()
    False
    >>> gate.open()
    >>> float(y)
    1.0
    """
    source, gate = x._live(), Gate()
    runtime, devices = source.runtime, devices_of(source.tiling)

    def submit() -> list[Claim]:
        turnstile = runtime.claim(devices[0], 1, None)
        stream = runtime.new_stream("gate", devices[0].memory_domain)
        runtime.submit(stream, "gate", gate.wait, [], [turnstile.memory])
        claims = []
        for device, value, claim in zip(devices, source.values, source.claims, strict=True):
            copy = runtime.claim(device, value.nbytes, device.stream)
            target = runtime.backend.view(copy.memory.raw, value.shape, source.dtype)
            run = _work(runtime, target, value, device.memory_domain, error)
            reads: list[Memory] = [turnstile.memory, claim.memory]
            runtime.submit(device.stream, "gated work", run, reads, [copy.memory])
            claims.append(copy)
        return claims

    claims = runtime.commit(submit, [device.stream for device in devices])
    values = [
        runtime.backend.view(claim.memory.raw, value.shape, source.dtype)
        for claim, value in zip(claims, source.values, strict=True)
    ]
    buffer = ShardedBuffer(source.tiling, np.dtype(source.dtype), values, claims)
    return Array(buffer, x.sharding, committed=x.committed, weak_type=x.weak_type), gate


def _work(
    runtime: Runtime,
    target: LocalArray,
    value: LocalArray,
    domain: int,
    error: BaseException | None,
) -> Callable[[], None]:
    def run() -> None:
        if error is not None:
            raise error
        runtime.backend.copy_boxes([(target, value, domain)], domain)

    return run
