"""Layer 7: functions of arrays that become other functions.

Seven packages and a module, in layers. Each imports from those below it, never from one beside or
above it; a contract in `pyproject.toml` holds them to that.

| layer | package | what it knows |
|---|---|---|
| 6 | `pmap` | `pmap` and `soft_pmap`: they need `jit`'s stages and named dims |
| 5 | `jit` | the arguments of a call, its stages, and which compiled function serves it |
| 4 | `control_flow` | functions that run others: `cond`, `while_loop`, `scan`, ... |
| 3 | `tracing` | how a function is recorded, and how what was recorded runs |
| 2 | `fusion` | several operations of a graph as one kernel |
| 2 | `mapping` | named dims: `vmap`, `shard_map`, collectives |
| 1 | `graph` | recorded operations, where their values lie, and what that costs |
| 0 | `values` | what functions see in place of arrays |
"""

from __future__ import annotations

import importlib
from typing import Any

from gpushard._functions.provided_loops import set_loops


def _loops() -> Any:
    """Import the loops when a program needs the first one."""
    return importlib.import_module("gpushard._transforms.control_flow.loops")


set_loops(_loops)
