"""Many dispatches over many shapes: caches and memory must stay bounded.

`python -m tests.stress.dispatches --count 1000000 --shapes 10000`
"""

from __future__ import annotations

import argparse
import gc
import pathlib
import random
import resource
import time

import numpy as np

import gpushard as gs
from gpushard import testing
from gpushard._geometry import sharding as shardings


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def run(count: int, shapes: int, seed: int = 0) -> dict[str, int]:
    """Dispatch operations on arrays of random shapes.

    Args:
      count: how many.
      shapes: how many different ones.
      seed: decides which, when.

    Returns:
      Bytes of memory and caches once a tenth has run, and in the end.
    """
    rng = random.Random(seed)
    every = [(1 + n % 100, 1 + n // 100) for n in range(shapes)]
    facts: dict[str, int] = {}
    with testing.runtime(host_devices=8) as runtime:
        place = gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P("x", "y"))
        done = 0
        while done < count:
            shape = rng.choice(every)
            x = gs.device_put(np.ones(shape, np.float32), place)
            for _ in range(5):
                y = x + x
                z = (y * 2).T
                assert z.shape == shape[::-1]
                done += 3
            total = float(z.sum())
            done += 1
            assert total == 4 * shape[0] * shape[1]
            if "early" not in facts and done >= count // 10:
                facts["early"] = resident()
        facts["plans"] = runtime.plans.nbytes
        facts["limit"] = runtime.plans.limit
        facts["tilings"] = shardings._tilings.nbytes
        facts["late"] = resident()
        del x, y, z
        gc.collect()
        facts["claimed"] = runtime.claimed_bytes()
    return facts


def main() -> None:
    """Run as many as asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--shapes", type=int, default=10_000)
    options = parser.parse_args()
    start = time.monotonic()
    facts = run(options.count, options.shapes)
    seconds = time.monotonic() - start
    shown = ", ".join(f"{name} {nbytes:,}" for name, nbytes in facts.items())
    print(
        f"{options.count:,} dispatches, {options.shapes:,} shapes: {shown} bytes, {seconds:,.0f} s"
    )


if __name__ == "__main__":
    main()
