"""The ways in which the public conformance suite is run."""

from __future__ import annotations

RUNS: dict[str, tuple[tuple[int, ...], tuple[str, ...]] | None] = {
    "one device": None,
    "8 devices": ((4, 2), ("x", "y")),
    "an axis of 3": ((3, 2), ("x", "y")),
}
"""The mesh that everything is created on, by sizes and names of its axes; None for none."""
