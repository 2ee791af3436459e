"""Layer 9: `gpushard.multihost`, what the processes of a program exchange; JAX's `multihost_utils`.

A program is one process in this version, whose functions give what they would give as one of many.
`utils` has the functions, and `group` what processes do together.
"""

from gpushard.multihost.utils import (
    assert_equal,
    broadcast_one_to_all,
    global_array_to_host_local_array,
    host_local_array_to_global_array,
    process_allgather,
    sync_global_devices,
)

__all__ = [
    "assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array",
    "host_local_array_to_global_array", "process_allgather", "sync_global_devices",
]  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)
