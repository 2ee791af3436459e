"""Devices that do their work late, in an order that a seed says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from gpushard import testing
from gpushard.testing.sim import SimRuntime


@contextlib.contextmanager
def late_devices(seed: int, **settings: Any) -> Iterator[SimRuntime]:
    """Use them within a `with` block; no allocation fails, and in the end all is checked."""
    with testing.simulated(seed, **settings) as runtime:
        runtime.sim.failing = 0
        yield runtime
        runtime.backend.check()
