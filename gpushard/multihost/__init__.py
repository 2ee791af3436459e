"""Exchange data between processes, under the names of JAX's `multihost_utils`.

In this version, a program is one process. The functions return the same kinds of results as with
several processes. `utils` has the functions, and `group` the exchange between processes.
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
