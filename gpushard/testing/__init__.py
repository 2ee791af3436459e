"""Test programs with separate runtimes, delayed values and simulated machines.

- `runtime`, `simulated`: separate runtimes for a `with` block, on a real backend, or on a simulated
  backend. The simulated backend runs work as late, and in as strange an order, as the rules allow.
- `gated`, `deferred`: arrays with values that wait for a gate, or are computed on the devices'
  streams.
- `programs`: random programs, with results that are compared with NumPy.
- `record_work`, `simulate`, `lower_bound`, `Topology`: simulated times of moves on models of
  machines.
"""

from __future__ import annotations

from gpushard.testing import programs
from gpushard.testing.deferred import Gate, deferred, gated
from gpushard.testing.lower_bound import Needs, lower_bound
from gpushard.testing.record_work import record_work
from gpushard.testing.runtime import runtime, simulated
from gpushard.testing.simulated_time import Timeline, Work, simulate
from gpushard.testing.topology import Topology, nvlink, pcie, two_hosts

__all__ = [
    "Gate", "Needs", "Timeline", "Topology", "Work", "deferred", "gated", "lower_bound", "nvlink",
    "pcie", "programs", "record_work", "runtime", "simulate", "simulated", "two_hosts",
]  # fmt: skip
