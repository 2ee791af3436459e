"""Random programs on four real threads that share arrays, under several settings."""

from __future__ import annotations

import gc
from typing import Any

from gpushard.testing import runtime
from gpushard.testing.programs import check_nothing_left, run_on

STREAMS = {"small_bytes": 0, "inline_bytes": 0}

SETTINGS: tuple[dict[str, Any], ...] = (
    {"host_domains": 1},
    {"host_domains": 1, **STREAMS},
    {"host_domains": 2, **STREAMS},
    {"host_domains": 8},
    {"host_domains": 8, "host_workers": 4, **STREAMS},
    {"host_domains": 2, "queue_limit": 2, **STREAMS},
    {"host_domains": 4, "memory_limit": 4000, "small_bytes": 0, "inline_bytes": 300},
)
THREADS = 4
ROUND = 250
"""Steps of a thread between two looks at what is left."""


def run_threads(settings: dict[str, Any], steps: int, seed: int) -> int:
    """Run programs of about `steps` steps in all.

    Returns:
      How many steps there were.

    Raises:
      AssertionError: a value is wrong, or something is left.
    """
    done = 0
    with runtime(host_devices=8, **settings) as rt:
        while done < steps:
            each = min(ROUND, -(-(steps - done) // THREADS))
            gc.freeze()  # what earlier rounds left in caches is spared the collector
            run_on(rt, seed, steps=each, threads=THREADS)
            check_nothing_left(rt)
            done += each * THREADS
            seed += 1
    return done
