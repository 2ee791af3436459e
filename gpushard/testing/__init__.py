"""Tools for tests: runtimes of their own, arrays whose value is held back, simulated times."""

from __future__ import annotations

from gpushard.testing.bound import Needs, lower_bound
from gpushard.testing.gate import Gate, gated
from gpushard.testing.makespan import Timeline, Work, simulate
from gpushard.testing.runtime import runtime
from gpushard.testing.topology import Topology, nvlink, pcie, two_hosts
from gpushard.testing.trace import record_work

__all__ = [
    "Gate",
    "Needs",
    "Timeline",
    "Topology",
    "Work",
    "gated",
    "lower_bound",
    "nvlink",
    "pcie",
    "record_work",
    "runtime",
    "simulate",
    "two_hosts",
]
