"""Compilations by NVRTC, in parallel; what is known is not compiled again."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import itertools
import json
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from tests.nvrtc.compiler import Compiled, Source, nvrtc
from tests.nvrtc.share import covering, features
from tests.nvrtc.toolkits import WHEELS, folder_of
from tests.softgpu.build import cache

ARCHITECTURES = (75, 80, 90, 100, 120)
TARGETS = [*itertools.product(WHEELS, ARCHITECTURES)]

WARNINGS = {
    "68-D": "CuPy's power of unsigned numbers compares with -1, where exponents are negative",
    "177-D": "a header declares numbers that not every kernel uses",
    "186-D": "a template for signed and unsigned numbers compares with 0",
    "514-D": "CuPy's power of unsigned numbers asks whether they are below 0",
    "20044-D": "CuPy's triangles name a constant of its class CIndexer",
}
"""Numbers of warnings, and why they are right to be there."""

_WARNING = re.compile(r"warning #([\w-]+)")


def results() -> Path:
    """Return the folder of what was compiled before."""
    return cache() / "nvrtc-results"


@dataclasses.dataclass(frozen=True)
class Job:
    """A source for a version and an architecture."""

    path: Path
    version: str
    architecture: int

    @property
    def _result(self) -> Path:
        """Where what becomes of it is kept."""
        text = self.path.read_text(encoding="utf-8")
        parts = [text, folder_of(self.version).name, str(self.architecture)]
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
        return results() / digest

    def known(self) -> Compiled | None:
        """Return what became of it before, if it is known."""
        try:
            return Compiled(**json.loads(self._result.read_text(encoding="utf-8")))
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def run(self) -> Compiled:
        """Compile it, or read what became of it before."""
        known = self.known()
        if known is not None:
            return known
        found = nvrtc(self.version).compile(Source.read(self.path), self.architecture)
        path = self._result
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(dataclasses.asdict(found)), encoding="utf-8")
        new.replace(path)
        return found


def problem(found: Compiled) -> str | None:
    """Return what is wrong with a source: its first error, or a warning that nobody knows."""
    if not found.done:
        errors = [line for line in found.messages.splitlines() if "error" in line]
        return (errors or found.messages.splitlines() or ["no message"])[0]
    unknown = set(_WARNING.findall(found.messages)) - WARNINGS.keys()
    lines = [line for line in found.messages.splitlines() if any(n in line for n in unknown)]
    return lines[0] if lines else None


def share(paths: list[Path]) -> list[Path]:
    """Return few sources that have each template with each type."""
    found = {str(path): features(Source.read(path).text) for path in paths}
    return [Path(name) for name in covering(found)]


def jobs(paths: list[Path], every: bool) -> list[Job]:
    """Return every source for every target, or each for one of them, always the same."""
    if every:
        return [Job(path, *target) for path in paths for target in TARGETS]
    return [Job(path, *TARGETS[zlib.crc32(path.name.encode()) % len(TARGETS)]) for path in paths]


def run(todo: list[Job], processes: int) -> Iterator[tuple[Job, Compiled]]:
    """Yield what becomes of jobs; those that are known take no process."""
    unknown = []
    for job in todo:
        known = job.known()
        if known is None:
            unknown.append(job)
        else:
            yield job, known
    if unknown:
        with concurrent.futures.ProcessPoolExecutor(processes) as pool:
            yield from zip(unknown, pool.map(Job.run, unknown, chunksize=4), strict=True)
