"""A worker of `bench.on_gpu` that needs no GPU.

What an item does stands behind its colon: `crash`, `hang`, `lose` the GPU; else it ends well.
Whatever was recorded goes into a journal as well, which is no part of the records.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from bench.records import AGAIN, FAILED, PASSED, add_part, part_of


def _note(journal: Path, line: str) -> None:
    with journal.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("journal", type=Path)
    parser.add_argument("items", nargs="+")
    add_part(parser)
    options = parser.parse_args()
    part = part_of(options.part)
    for item in part.choose(options.items):
        part.records.begun(item)
        print(f"at {item}", flush=True)
        match item.partition(":")[2]:
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hang":
                _note(options.journal, str(os.getpid()))
                signal.pause()
            case "lose":
                part.records.ended(item, FAILED, 0.0, "the GPU is lost")
                sys.exit(AGAIN)
        part.records.ended(item, PASSED, 0.0)
        _note(options.journal, item)
    if "refuse" in options.items:
        sys.exit(9)


if __name__ == "__main__":
    main()
