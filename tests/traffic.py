"""What tests count of the bytes that move."""

from __future__ import annotations

from gpushard._runtime.runtime import Runtime


def received(runtime: Runtime, before: dict[tuple[int, int], int] | None = None) -> int:
    """Return the bytes that memories of devices got from elsewhere since there was `before`.

    What cannot go there directly is on the host on its way, and counts once.
    """
    for stream in runtime.streams:
        stream.synchronize(stream.issued)
    domains = {device.memory_domain for device in runtime.devices}
    return sum(
        nbytes - (before or {}).get(link, 0)
        for link, nbytes in runtime.backend.traffic.items()
        if link[0] != link[1] and link[0] >= 0 and link[1] in domains
    )
