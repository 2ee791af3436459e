"""Tools for tests.

- `runtime`, `simulated`: runtimes of their own for a `with` block, on a real backend or on one that
  does its work as late and in as odd an order as the rules allow.
- `gated`, `deferred`: arrays whose value is held back, or computed on the devices' streams.
- `programs`: random programs that NumPy checks.
"""

from __future__ import annotations

from gpushard.testing import programs
from gpushard.testing.deferred import deferred
from gpushard.testing.gate import Gate, gated
from gpushard.testing.runtime import runtime, simulated

__all__ = ["Gate", "deferred", "gated", "programs", "runtime", "simulated"]
