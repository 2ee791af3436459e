"""Count the bytes that move between memories while a block of code runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from gpushard._placement.devices import local_devices

__all__ = ["Traffic", "count_traffic"]


class Traffic:
    """The bytes that each memory domain received in a `with count_traffic()` block."""

    def __init__(self) -> None:
        self.received: dict[int, int] = {}
        """Bytes that each memory domain received from others, by its number, as in a `Plan`."""

    @property
    def bytes_received(self) -> int:
        """Bytes that all domains received."""
        return sum(self.received.values())

    def __repr__(self) -> str:
        return f"Traffic(bytes_received={self.bytes_received:,}, received={self.received})"


@contextlib.contextmanager
def count_traffic() -> Iterator[Traffic]:
    """Count the bytes that move between memory domains while a `with` block runs.

    Devices of one memory domain share memory, so nothing moves between them. If you set
    `host_domains` to the number of devices, the host backend counts as many bytes as separate GPUs
    would. Copies from the host are not counted. A copy from GPU to GPU through host memory counts
    once. The block waits for the devices at its start and end. Bytes that other threads move
    meanwhile count, too.

    Yields:
      The counts, complete once the block has ended.

    >>> import gpushard as gs
    >>> with gs.testing.runtime(host_devices=2, host_domains=2):
    ...     x = gs.device_put([1.0, 2.0, 3.0], gs.devices()[0])
    ...     with count_traffic() as traffic:
    ...         y = gs.device_put(x, gs.devices()[1])
    >>> traffic
    Traffic(bytes_received=24, received={0: 0, 1: 24})
    """
    traffic = Traffic()
    before = _received_bytes()
    yield traffic
    traffic.received = {
        domain: nbytes - before[domain] for domain, nbytes in _received_bytes().items()
    }


def _received_bytes() -> dict[int, int]:
    """Return the bytes that each memory domain has received from others so far."""
    devices = local_devices()
    for device in devices:
        device.synchronize()
    received = {device.memory_domain: 0 for device in devices}
    for (source, domain), nbytes in devices[0].runtime.backend.traffic.items():
        if source >= 0 and source != domain and domain in received:
            received[domain] += nbytes
    return received
