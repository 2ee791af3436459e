"""Layer 7: functions of arrays that become other functions.

- `traced`: values that have no elements, and what they say when somebody asks for some.
- `frames`: the calls of mapped functions that code runs in, and the named dims of these.
- `mapped`: values with named dims in front, and the interpreter that does operations on them.
- `placed_dims`: how dims of arrays become named dims, and back, without a copy.
- `collectives`: what moves elements along named dims.
- `callbacks`: functions on the host, called with what mapped functions see.
- `graph`: operations that were recorded, and the values between them.
- `trace`: what records, and the values that functions see meanwhile.
- `views`, `regions`, `region_steps`, `nests`, `tiles`, `expressions`, `c_schedule`,
  `c_source`, `c_kernels`, `compiled`: several operations as one kernel.
- `executable`: a graph as prepared calls.
- `costs`, `memory`: what it takes, known beforehand.
- `signature`: arguments of functions that are transformed.
- `stages`: what is known of a call before it is done.
- `shard_map`, `vmap`, `pmap`, `soft_pmap`: what users call; each says where named dims live.
- `stages`, `jit`: likewise, for functions that are traced.
- `branches`, `loops`, `scans`, `prefix_scan`: control flow that depends on values.
- `bodies`: the functions in it.
"""

from __future__ import annotations

import importlib
from typing import Any

from gpushard.functions.loops import set_loops


def _loops() -> Any:
    """Import the loops when a program needs the first one."""
    return importlib.import_module("gpushard.transforms.loops")


set_loops(_loops)
