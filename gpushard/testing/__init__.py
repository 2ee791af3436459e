"""Tools for tests.

- `runtime`, `simulated`: runtimes of their own for a `with` block, on a real backend or on one that
  does its work as late and in as odd an order as the rules allow.
- `gated`, `deferred`: arrays whose value is held back, or computed on the devices' streams.
- `programs`: random programs that NumPy checks.
- `record_work`, `simulate`, `lower_bound`, `Topology`: how long movements would take on models of
  machines.
"""

from __future__ import annotations

from gpushard.testing import programs
from gpushard.testing.bound import Needs, lower_bound
from gpushard.testing.deferred import Gate, deferred, gated
from gpushard.testing.makespan import Timeline, Work, simulate
from gpushard.testing.runtime import runtime, simulated
from gpushard.testing.topology import Topology, nvlink, pcie, two_hosts
from gpushard.testing.trace import record_work

__all__ = [
    "Gate", "Needs", "Timeline", "Topology", "Work", "deferred", "gated", "lower_bound", "nvlink",
    "pcie", "programs", "record_work", "runtime", "simulate", "simulated", "two_hosts",
]  # fmt: skip
