"""Tools for tests: runtimes of their own, and arrays whose value is held back."""

from __future__ import annotations

from gpushard.testing.gate import Gate, gated
from gpushard.testing.runtime import runtime

__all__ = ["Gate", "gated", "runtime"]
