"""A file of records: one line of JSON for each thing that begins or ends, written as it happens.

Several processes append to one file. Each line goes to the system in one call, so a process that is
killed loses nothing that it had recorded, and a reader sees what was running then. The lines:

========== ===================================================================================
event      what it says
========== ===================================================================================
`run`      a command began: its arguments and its limit
`stage`    a stage began, with its limit
`stopped`  a stage ran into its limit
`finished` all items of a stage have ended
`planned`  how many items a stage has, where a worker knows
`begun`    a worker began an item
`ended`    an item ended: `outcome`, `seconds`, what it said (`text`) and found (`facts`)
========== ===================================================================================

An item is a test, a program or a case of a benchmark.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

AGAIN = 75
"""The exit code of a worker that needs a new process for the rest of its items (`EX_TEMPFAIL`)."""

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
CRASHED, TOO_LONG = "crashed", "took too long"
OUTCOMES = (PASSED, FAILED, SKIPPED, CRASHED, TOO_LONG)
BAD = (FAILED, CRASHED, TOO_LONG)

STOPPED, FINISHED = "stopped", "finished"
"""The events at the end of a stage."""

MOST_TEXT = 6000
"""Characters of what an item says that are kept, from its end."""


class Records:
    """Appends records to a file.

    Args:
      path: the file.
      stage: the stage that records are about.
      worker: the name of the process that they are about.
    """

    def __init__(self, path: pathlib.Path, stage: str = "", worker: str = "") -> None:
        self.path = path
        self.stage = stage
        self.worker = worker

    def write(self, event: str, **fields: Any) -> None:
        """Append a line; when this returns, the system has it."""
        own = {"stage": self.stage, "worker": self.worker}
        named = {key: value for key, value in own.items() if value}
        line = json.dumps({"event": event, "time": round(time.time(), 3), **named, **fields})
        _append(self.path, line)

    def begun(self, item: str) -> None:
        """Record that an item begins."""
        self.write("begun", item=item)

    def ended(
        self, item: str, outcome: str, seconds: float, text: str = "", facts: Any = None
    ) -> None:
        """Record how an item ended."""
        more = {
            key: value for key, value in (("text", text[-MOST_TEXT:]), ("facts", facts)) if value
        }
        self.write("ended", item=item, outcome=outcome, seconds=round(seconds, 3), **more)


def _append(path: pathlib.Path, line: str) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(file).st_size
        # Only a process that was killed within the call leaves a line without its end.
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        os.write(file, f"{chr(10) * torn}{line}\n".encode())
    finally:
        os.close(file)


class Reader:
    """Reads the lines that were appended since it last looked."""

    def __init__(self, path: pathlib.Path, offset: int = 0) -> None:
        self._path = path
        self._offset = offset

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the new records; a line without an end waits for it."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
        except FileNotFoundError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):  # a torn line of a process that was killed
                yield json.loads(line)


def read(path: pathlib.Path) -> list[dict[str, Any]]:
    """Return all records of a file; none if it does not exist."""
    return list(Reader(path).read())


def ended_items(records: Iterable[dict[str, Any]], stage: str) -> set[str]:
    """Return the items of a stage that have ended."""
    return {r["item"] for r in records if r["event"] == "ended" and r.get("stage") == stage}


@dataclasses.dataclass(frozen=True)
class Part:
    """The items that one worker of a stage has to do, and where it records them."""

    records: Records
    number: int = 0
    """Which worker this is."""
    of: int = 1
    """How many workers share the stage."""

    def choose(self, items: Iterable[T], name: Any = str) -> list[T]:
        """Return this worker's items that have not ended yet, and record how many there are in all.

        Which worker has an item depends on the name of the item alone, so that a later run can use
        another number of workers.
        """
        found = list(items)
        self.records.write("planned", count=len(found))
        done = ended_items(read(self.records.path), self.records.stage)
        own = [item for item in found if zlib.crc32(name(item).encode()) % self.of == self.number]
        return [item for item in own if name(item) not in done]

    def words(self) -> list[str]:
        """Return the arguments that `part_of` reads."""
        where = self.records
        return [str(where.path), where.stage, where.worker, f"{self.number}/{self.of}"]


def part_of(words: Iterable[str]) -> Part:
    """Return the part that a command line gives: the file, the stage, the worker and its share.

    >>> part_of(["records.jsonl", "smoke", "smoke 1", "1/4"]).of
    4
    """
    path, stage, worker, share = words
    number, _, of = share.partition("/")
    return Part(Records(pathlib.Path(path), stage, worker), int(number), int(of))


def add_part(parser: argparse.ArgumentParser) -> None:
    """Add the option for a part, which `bench.on_gpu` gives to its workers."""
    parser.add_argument(
        "--part",
        nargs=4,
        metavar=("RECORDS", "STAGE", "WORKER", "N/OF"),
        help="record each item in this file, and leave out what has ended; for bench.on_gpu",
    )


def gpu_is_lost() -> bool:
    """Whether this process has met an error of CUDA that stays, so that all later calls fail."""
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return False
    try:
        cupy.cuda.runtime.deviceSynchronize()
    except Exception:  # whatever it is, a new process is the way out
        return True
    return False


def replace(path: pathlib.Path, text: str) -> None:
    """Write a text file so that a reader finds the old text or the new one, and nothing between."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)
