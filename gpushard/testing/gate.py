"""Arrays whose value is held back until a test lets it go."""

from __future__ import annotations

import threading

from gpushard.array.array import Array
from gpushard.errors import ConfigurationError
from gpushard.movement.buffer import devices_of
from gpushard.runtime.memory import Claim
from gpushard.testing.deferred import deferred


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

    Raises:
      ConfigurationError: the array is on GPUs, whose streams wait for nothing that the host does.

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
            "gated() holds a worker back, and the array is on GPUs, to whose streams the caller "
            "gives work; use runtime(backend='host')",
            argument="backend",
            value="cuda",
        )

    def submit() -> Claim:
        turnstile = runtime.claim(device, 1, None)
        stream = runtime.new_stream("gate", device.memory_domain)
        runtime.submit(stream, "gate", gate.wait, [], [turnstile.memory])
        return turnstile

    turnstile = runtime.commit(submit)
    return deferred(x, lambda shard: shard, error=error, after=[turnstile.memory]), gate
