"""The value of an array on the host: copied from the devices once, and kept with the data."""

from __future__ import annotations

from typing import Any

from gpushard._array.guards import DEVICE_TO_HOST, check_transfer
from gpushard._movement.to_host import HostRead, StagedRead, read_host, start_read
from gpushard._typing import HostArray
from gpushard.profiler import span


def value_on_host(x: Any, why: str, explicit: bool | None) -> HostArray:
    """Read the value on the host, once; the data of the array keep it. See `concrete`."""
    data = x._held()
    host = data.host  # read once: another thread may change it
    if host is None:
        if explicit is not None:
            check_transfer(DEVICE_TO_HOST, why, explicit=explicit)
        with span("Array._value"):
            host = data.host = read_host(data.buffer)
    elif isinstance(host, HostRead | StagedRead):
        with span("Array._value"):
            host = data.host = host.wait()
    return host


def value_at_hand(x: Any, why: str) -> HostArray | None:
    """Read a small value from memory that the host can read; None for others. See `at_hand`."""
    runtime = x._held().runtime
    if x.nbytes > runtime.settings.inline_bytes or not runtime.backend.host_readable:
        return None
    value: HostArray = x._concrete(why, None)  # keys have none
    return value


def copy_to_host_async(self: Any) -> None:
    """Start to copy the value to the host for a later read; never waits."""
    data = self._held()
    if data.host is None:
        check_transfer(DEVICE_TO_HOST, "copy_to_host_async()", explicit=True)
        with span("copy_to_host_async"):
            data.host = start_read(data.buffer)
