"""Runs the workers of a stage, watches them, and begins them anew where one is lost.

A worker records each item as it begins and ends (`records`). If it dies, hangs, or asks for a new
process, the item that it was at is recorded as lost, and another process goes on with the others.
Workers die with the process that watches them.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench import records
from bench.records import AGAIN, CRASHED, FAILED, TOO_LONG, Part, Reader, Records

POLL = 0.05
"""Seconds between two looks."""

DRAIN = 1.0
"""Seconds after which the log has what workers print."""

START_SECONDS = 120.0
"""Most that a worker may take before an item begins, or between two of them."""

KILL_SECONDS = 5.0
"""Most that is waited for a process to end: one that is stuck in the driver may not."""

LOG_BYTES = 12 << 20
"""Most that the log may have; what workers print after that is dropped."""

_WELL = (0, 1, 5, AGAIN)
"""Exit codes that are no news: 1 if items failed, as recorded, 5 if pytest had no tests."""

_SHOWN = 3000
"""Characters of a lost worker's output that are recorded."""

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclasses.dataclass(frozen=True)
class Stage:
    """Items that are run together."""

    name: str
    command: Sequence[str]
    """Starts a worker; gets `--part` and its words in addition."""
    workers: int = 1
    seconds: float = 120.0
    """Most that the stage takes before another one has its turn."""
    item_seconds: float = 60.0
    """Most that an item may take."""


class Log:
    """What workers print, in one file.

    Args:
      path: the file.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def add(self, worker: str, text: bytes) -> None:
        """Append what a worker has printed."""
        with self._path.open("ab") as file:
            if text and file.tell() < LOG_BYTES:
                file.write(b"===== " + worker.encode() + b"\n" + text.rstrip(b"\n") + b"\n")


class _Worker:
    """A process that does a part of a stage, and those that come after it."""

    def __init__(
        self,
        stage: Stage,
        part: Part,
        log: Log,
        scratch: pathlib.Path,
        root: pathlib.Path,
        environment: Mapping[str, str],
    ) -> None:
        self.name = part.records.worker
        self._stage = stage
        self._part = part
        self._log = log
        self._printed = scratch / f"{self.name.replace(' ', '-')}.log"
        self._root = root
        self._environment = environment
        self._start()

    def _start(self) -> None:
        self.item = ""
        """The item that it is at; empty between items."""
        self._since = time.monotonic()
        self._ended = 0
        self._read = 0
        parent = os.getpid()
        with self._printed.open("wb") as output:
            self._process = subprocess.Popen(
                [*self._stage.command, "--part", *self._part.words()],
                cwd=self._root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=lambda: _end_with(parent),
            )

    def see(self, record: Mapping[str, Any]) -> None:
        """Take note of what it has recorded."""
        if record["event"] == "begun":
            self.item, self._since = record["item"], time.monotonic()
        elif record["event"] == "ended" and record["item"] == self.item:
            self.item, self._since = "", time.monotonic()
            self._ended += 1

    def look(self, read_on: Callable[[], None]) -> bool:
        """Return whether the worker, or one that takes its place, has more to do.

        Args:
          read_on: lets all workers see what was recorded by now.
        """
        code = self._process.poll()
        if code is None:
            limit = self._stage.item_seconds if self.item else START_SECONDS
            if time.monotonic() - self._since < limit:
                return True
            self.kill()
        read_on()  # what it recorded before it ended
        if code is None:
            self._tell(TOO_LONG, f"killed after {limit:.0f} s")
        elif self.item:
            self._tell(CRASHED, _code(code))
        elif code not in _WELL:
            self._tell(FAILED, _code(code))
        elif code != AGAIN:
            self.drain()
            return False
        read_on()
        # A process that ended no item would do the same again.
        return self._ended > 0 and self._again()

    def _again(self) -> bool:
        self.drain()
        self._start()
        return True

    def _tell(self, outcome: str, why: str) -> None:
        """Record how the item ended, or the process where there is none."""
        printed = self._printed.read_bytes()[-_SHOWN:].decode("utf-8", "replace")
        seconds = time.monotonic() - self._since
        item = self.item or f"process {self.name}"
        self._part.records.ended(item, outcome, seconds, f"{printed}\n{why}".lstrip())

    def drain(self) -> None:
        """Move what it has printed to the log."""
        with self._printed.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        self._read += len(text)
        if text:
            self._log.add(self.name, text)

    def kill(self) -> None:
        """End the process and those that it started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_SECONDS)


def _code(code: int) -> str:
    if code < 0:
        return f"the process was ended by {signal.Signals(-code).name}"
    return f"the process ended with exit code {code}"


def _end_with(parent: int) -> None:
    """Let this process be killed when its parent ends, where the system can do that."""
    if _LIBC is not None:
        _LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)


def run_stage(
    stage: Stage,
    path: pathlib.Path,
    log: Log,
    scratch: pathlib.Path,
    *,
    root: pathlib.Path,
    environment: Mapping[str, str],
    deadline: float,
    see: Callable[[Mapping[str, Any]], None] = lambda record: None,
    tick: Callable[[], None] = lambda: None,
) -> bool:
    """Run a stage until all of its items have ended; return False if time was up before.

    Args:
      stage: what to run.
      path: the file of records.
      log: gets what workers print.
      scratch: a folder for temporary files.
      root: the folder that workers start in.
      environment: the workers' environment.
      deadline: when to stop, by `time.monotonic`.
      see: is given each record of the stage.
      tick: is called now and then.
    """
    reader = Reader(path, path.stat().st_size if path.exists() else 0)
    own = Records(path, stage.name)
    own.write("stage", seconds=round(deadline - time.monotonic()))
    names = [f"{stage.name} {number}" for number in range(stage.workers)]
    workers: dict[str, _Worker] = {}

    def read_on() -> None:
        for record in reader.read():
            see(record)
            if record.get("worker") in workers:
                workers[record["worker"]].see(record)

    try:
        for number, name in enumerate(names):
            part = Part(Records(path, stage.name, name), number, stage.workers)
            try:
                workers[name] = _Worker(stage, part, log, scratch, root, environment)
            except OSError as error:  # such as a program that is not installed
                part.records.ended(f"process {name}", FAILED, 0.0, str(error))
        going, drained = list(workers.values()), 0.0
        while going and time.monotonic() < deadline:
            time.sleep(POLL)
            read_on()
            going = [worker for worker in going if worker.look(read_on)]
            if time.monotonic() > drained + DRAIN:
                drained = time.monotonic()
                for worker in going:
                    worker.drain()
            tick()
    finally:
        for worker in workers.values():
            worker.kill()
            worker.drain()
    own.write(records.STOPPED if going else records.FINISHED)
    read_on()
    return not going
