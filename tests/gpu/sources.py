"""Keeps sources of kernels for the real compilers: of rows with each type, and of fused programs.

    python -m tests.softgpu -- -m tests.gpu.sources FOLDER [--programs 500] [--rows 1]
    python -m tests.nvrtc FOLDER --each --processes 2

What CuPy is asked for while rows run is kept, as by `pytest --softgpu-keep`. Programs are small
loop nests of `nest_families`; their kernels are written, and not compiled here.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import gpushard as gs
from gpushard._ops.row import Row
from gpushard.errors import GpushardError
from gpushard.testing.runtime import using
from tests.gpu.counts import calls_of
from tests.gpu.device import SPLITS, Split, gpu_runtime, make_driver, make_gpu_runtime
from tests.gpu.nest_emitter import Collected, for_gpus, launches, program_of, refusal
from tests.gpu.test_dtypes import case_of
from tests.nvrtc.compiler import Source
from tests.ops.cases import FORMS, MADE
from tests.runtime.nests.nest_emitters import chosen
from tests.runtime.nests.nest_families import Case
from tests.softgpu import sources

TYPES = "?bBhHiIqQefdFD"


def run_rows(rows: Sequence[Row]) -> int:
    """Run rows with operands of each type, and return how many calls were not refused."""
    done = 0
    with using(make_gpu_runtime(make_driver("cupy"), SPLITS[0])):
        mesh = gs.make_mesh((1, 1), ("a", "b"))
        for row in rows:
            # Functions of random numbers refuse complex operands before rows see them.
            turns = row in FORMS and not row.name.startswith("random.")
            for char in TYPES if turns else ():
                found = case_of(row, char)
                with contextlib.suppress(GpushardError, NotImplementedError, TypeError, ValueError):
                    if found is not None:
                        gs.block_until_ready(found[0].run(mesh))
                        done += 1
            for call in calls_of(row):
                with contextlib.suppress(GpushardError, NotImplementedError, RuntimeError):
                    gs.block_until_ready(call())
                    done += 1
    return done


def keep_programs(folder: Path, cases: Iterable[Case], count: int) -> int:
    """Write so many different kernels of fused programs into a folder, and return how many."""
    kept: set[str] = set()

    def collect(gpu: int, key: Any, name: str, text: str, *options: str) -> int:
        digest = hashlib.sha256(text.encode()).hexdigest()[:24]
        kept.add(digest)
        own = ("-std=c++17", *options, *sources.ADDED)
        Source(text, own).write(folder / f"{digest}.json")
        raise Collected

    with gpu_runtime(split=Split(4, False)) as runtime:
        backend: Any = runtime.backend
        with mock.patch.object(backend._driver, "_compile", collect):
            for case in cases:
                if len(kept) >= count:
                    break
                program = program_of(case)
                nest = program and for_gpus(program.nest, backend.namespace)
                if nest is not None and refusal(runtime, nest) is None:
                    with contextlib.suppress(Collected):
                        launches(runtime, program, nest)
    return len(kept)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--programs", type=int, default=500, help="how many fused programs")
    parser.add_argument("--rows", type=int, default=1, help="take one row of so many, 0 for none")
    options = parser.parse_args()
    start = time.monotonic()
    importlib.import_module("gpushard._runtime.cuda.driver.cupy_driver")
    options.folder.mkdir(parents=True, exist_ok=True)
    programs = keep_programs(options.folder, chosen(101), options.programs)
    sources.keep(options.folder)
    rows = [*MADE, *FORMS][:: options.rows] if options.rows else []
    calls = run_rows(rows)
    files = len([*options.folder.glob("*.json")])
    print(
        f"{programs} programs, {calls} calls of {len(rows)} rows, {files} sources in "
        f"{options.folder}, {time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
