"""A backend that runs work as late, and in as odd an order, as the rules allow.

One seed decides everything: when items run, which thread continues, when garbage is collected.
Equal seeds give equal runs.
"""

from __future__ import annotations

from gpushard.testing.sim.backend import SimBackend, SimRuntime
from gpushard.testing.sim.schedule import Schedule, StuckError
from gpushard.testing.sim.threads import DeadlockError, Threads

__all__ = ["DeadlockError", "Schedule", "SimBackend", "SimRuntime", "StuckError", "Threads"]
