"""`python -m tests.stress COMMAND`: what takes too long for the suite. One line says what was done.

threads     random programs on four real threads: --steps, --seed
interrupts  real signals at random moments: --count, --seed; or --everywhere, which interrupts
            each operation at each place where a signal can strike, and with --twice the way out
            too; or --handlers, which lets other code use the library at each of those places
schedules   worker threads switched between any two instructions: --count, --seed
"""

from __future__ import annotations

import argparse
import faulthandler
import time

from tests.stress.interrupts import SETTINGS as INTERRUPTED
from tests.stress.interrupts import interrupt_everywhere, interrupt_for_real, visit_everywhere
from tests.stress.schedules import run_schedule
from tests.stress.threads import SETTINGS, run_threads


def _threads(options: argparse.Namespace) -> str:
    share = -(-options.steps // len(SETTINGS))
    done = sum(run_threads(settings, share, options.seed) for settings in SETTINGS)
    return f"{done:,} steps on 4 threads, {len(SETTINGS)} settings"


def _interrupts(options: argparse.Namespace) -> str:
    if options.everywhere:
        return f"{interrupt_everywhere(options.twice):,} places interrupted"
    if options.handlers:
        return f"{visit_everywhere():,} visits"
    done = interrupt_for_real(options.count, options.seed)
    return (
        f"{done.interrupts:,} interrupts in {done.steps:,} steps of {done.programs:,} programs, "
        f"{len(INTERRUPTED)} settings"
    )


def _schedules(options: argparse.Namespace) -> str:
    seeds = range(options.seed, options.seed + options.count)
    return f"{options.count:,} schedules, {sum(map(run_schedule, seeds)):,} interrupts"


def main() -> None:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="tests.stress")
    commands = parser.add_subparsers(required=True)
    threads = commands.add_parser("threads")
    threads.add_argument("--steps", type=int, default=300_000)
    threads.set_defaults(run=_threads)
    interrupts = commands.add_parser("interrupts")
    interrupts.add_argument("--count", type=int, default=5000)
    interrupts.add_argument("--everywhere", action="store_true")
    interrupts.add_argument("--twice", action="store_true")
    interrupts.add_argument("--handlers", action="store_true")
    interrupts.set_defaults(run=_interrupts)
    schedules = commands.add_parser("schedules")
    schedules.add_argument("--count", type=int, default=5000)
    schedules.set_defaults(run=_schedules)
    for command in (threads, interrupts, schedules):
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--patience", type=int, default=1200, help="seconds until it is stuck")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(options.patience, exit=True)
    start = time.monotonic()
    done = options.run(options)
    print(f"{done}, {time.monotonic() - start:.0f} s: no wrong value, nothing stuck, nothing left")


if __name__ == "__main__":
    main()
