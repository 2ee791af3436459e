"""What moved between memories while a block of code ran."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from gpushard.placement.defaults import local_devices

__all__ = ["Traffic", "count_traffic"]


class Traffic:
    """Bytes that the memory of each device received, as `count_traffic` found them."""

    def __init__(self) -> None:
        self.received: dict[int, int] = {}
        """Bytes that each memory domain received from others: by the domain, as in a `Plan`."""

    @property
    def bytes_received(self) -> int:
        """Those of all domains."""
        return sum(self.received.values())

    def __repr__(self) -> str:
        return f"Traffic(bytes_received={self.bytes_received:,}, received={self.received})"


@contextlib.contextmanager
def count_traffic() -> Iterator[Traffic]:
    """Count the bytes that move between memory domains while a `with` block runs.

    Devices of one domain share memory and receive nothing from one another: on the host, set
    `host_domains` to as many as there are devices to see what as many GPUs would move. What comes
    from the host is not counted, and what goes through it counts once. It waits for the devices
    before and after the block; what other threads move meanwhile is counted, too.

    Yields:
      What was counted; there once the block has ended.

    >>> import gpushard as gs
    >>> with gs.testing.runtime(host_devices=2, host_domains=2):
    ...     x = gs.device_put([1.0, 2.0, 3.0], gs.devices()[0])
    ...     with count_traffic() as traffic:
    ...         y = gs.device_put(x, gs.devices()[1])
    >>> traffic
    Traffic(bytes_received=24, received={0: 0, 1: 24})
    """
    traffic = Traffic()
    before = _received()
    yield traffic
    traffic.received = {domain: nbytes - before[domain] for domain, nbytes in _received().items()}


def _received() -> dict[int, int]:
    """Return what the memory of each device has received from others so far."""
    devices = local_devices()
    for device in devices:
        device.synchronize()
    received = {device.memory_domain: 0 for device in devices}
    for (source, domain), nbytes in devices[0].runtime.backend.traffic.items():
        if source >= 0 and source != domain and domain in received:
            received[domain] += nbytes
    return received
