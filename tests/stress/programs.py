"""Many random programs: `python -m tests.stress.programs --count 1000000`."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import gc
import multiprocessing
import os
import signal
import sys
import time

from gpushard.testing import programs

BATCH = 250
"""Programs that a process runs before it reports."""

BATCHES = 20
"""Batches before a new process takes its place: what is spared the collector stays for ever."""


@dataclasses.dataclass
class Batch:
    """What some programs did, and the first that failed."""

    totals: collections.Counter[str]
    failed: str | None = None


def run_batch(seeds: range) -> Batch:
    """Run programs; what earlier ones left in caches is spared the collector."""
    totals: collections.Counter[str] = collections.Counter()
    for seed in seeds:
        gc.freeze()
        try:
            outcome = programs.run(seed)
        except BaseException as error:
            return Batch(totals, f"seed {seed}: {type(error).__name__}: {error}")
        totals += collections.Counter(
            programs=1, steps=outcome.steps, items=outcome.items, failures=outcome.failures
        )
    return Batch(totals)


def run_many(first: int, count: int, jobs: int) -> Batch:
    """Run programs in several processes, up to the first that fails."""
    total = Batch(collections.Counter())
    end = first + count
    batches = [range(seed, min(seed + BATCH, end)) for seed in range(first, end, BATCH)]
    context = multiprocessing.get_context("spawn")
    ignoring = {"initializer": signal.signal, "initargs": (signal.SIGINT, signal.SIG_IGN)}
    with context.Pool(jobs, maxtasksperchild=BATCHES, **ignoring) as pool:
        try:
            for batch in pool.imap_unordered(run_batch, batches):
                total.totals += batch.totals
                if total.totals["programs"] % 50_000 == 0:
                    print(f"{total.totals['programs']:,} programs", file=sys.stderr, flush=True)
                if batch.failed is not None:
                    total.failed = batch.failed
                    break
        except KeyboardInterrupt:
            total.failed = "interrupted"
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    start = time.perf_counter()
    total = run_many(options.first, options.count, options.jobs)
    counts = ", ".join(f"{number:,} {name}" for name, number in total.totals.items())
    print(f"{counts}, {time.perf_counter() - start:,.0f} s, {options.jobs} processes")
    if total.failed is not None:
        raise SystemExit(f"FAILED: {total.failed}")


if __name__ == "__main__":
    main()
