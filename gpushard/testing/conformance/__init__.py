"""What every backend must do, as classes of tests to derive from."""

from __future__ import annotations

from gpushard.testing.conformance.arrays import ArrayConformance
from gpushard.testing.conformance.backend import BackendConformance

__all__ = ["ArrayConformance", "BackendConformance"]
