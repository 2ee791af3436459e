"""Loop nests through every emitter, compared with the definition.

Emitters are `numpy` (tiles), `c`, and `launched`: what a GPU's kernel is to do, done by NumPy.
`python -m tests.runtime.nests.nest_emitters` goes through all cases of `nest_families`, which
takes about half an hour on one core. `--share 10` takes each tenth, `--processes 2` uses two cores.
With `--sanitize` kernels in C are compiled for AddressSanitizer and UndefinedBehaviorSanitizer;
every block is memory of its own in any case.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import ctypes
import dataclasses
import functools
import os
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np

from gpushard._runtime.cuda.kernels import thread_nests
from gpushard._runtime.cuda.kernels.thread_nests import thread_nest
from gpushard._runtime.host.nests import c_kernels, c_schedule, numpy_tiles
from gpushard._runtime.host.nests.c_kernels import c_kernel
from gpushard._runtime.host.nests.choose_kernel import host_kernel
from gpushard._runtime.host.nests.numpy_tiles import tile_kernel
from gpushard._runtime.nests import Nest
from tests.runtime.nests import fused_loops, nest_definition, nest_families
from tests.runtime.nests.c_batches import compiled_together
from tests.runtime.nests.nest_families import Case

EMITTERS = ("numpy", "c", "launched")

RARE = (638, 1211, 20_688, 20_848, 22_440, 87_508)
"""Cases that few shares have: products of factors that keep a loop which both have, and of factors
with a short loop in front of a long one, or behind it, and of zeros and what is no number."""

BATCH = 400
"""Kernels that the compiler is given at once."""


@contextlib.contextmanager
def small_steps(case: Case, nest: Nest) -> Iterator[None]:
    """Lower the thresholds of emitters, so that small blocks have several strips and tiles."""
    strip = 32 if any(op.name == "product" for op in nest.ops) else 4
    tile = (3, 7, 50, 1 << 18)[case.number % 4]
    with (
        mock.patch.object(c_schedule, "_LANES", strip),
        mock.patch.object(c_schedule, "_STRIP", strip),
        mock.patch.object(c_schedule, "_ROW", (2, 16)[case.number // 2 % 2]),
        mock.patch.object(c_schedule, "MOST_STACK", (64 << 10, 200)[case.number % 5 == 0]),
        mock.patch.object(numpy_tiles, "_TILE", tile),
        mock.patch.object(numpy_tiles, "LARGE", (1 << 14, 1)[case.number // 16 % 2]),
        mock.patch.object(numpy_tiles, "_ROW", (2, 16)[case.number // 4 % 2]),
        mock.patch.object(numpy_tiles, "_SMALL", (1, 4096)[case.number // 8 % 2]),
        mock.patch.object(thread_nests, "_MOST_KEPT", (1, 2, 128)[case.number % 3]),
        mock.patch.object(thread_nests, "_PART", (2, 7, 1 << 10)[case.number // 3 % 3]),
        mock.patch.object(thread_nests, "_MOST_PARTS", (3, 128)[case.number // 2 % 2]),
        mock.patch.object(thread_nests, "_MOST_SLOTS", 1 << 20),
    ):
        yield


def _call(kernel: Callable[..., Any], blocks: Sequence[Any], nest: Nest, lengths: Any) -> list[Any]:
    """Call a kernel for results that are set to what no kernel writes."""
    outs = []
    for result in nest.results:
        outs.append(fresh(nest.shape(result, lengths), nest.dtype(result.place)))
    kernel(*blocks, out=tuple(outs) if len(outs) > 1 else outs[0])
    return outs


def fresh(shape: Sequence[int], dtype: Any) -> Any:
    """Return an array in memory of its own, no byte longer than it is, that nobody has set."""
    dtype = np.dtype(dtype)
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    block = _Block(nbytes)
    if not nbytes:
        return np.empty(shape, dtype)
    return np.ndarray(tuple(shape), dtype, buffer=block.memory)


class _Block:
    """Memory from malloc."""

    def __init__(self, nbytes: int) -> None:
        self.address = _malloc(nbytes)
        ctypes.memset(self.address, 0x5A, nbytes)
        kind = ctypes.c_uint8 * nbytes
        self.memory = kind.from_address(self.address)
        self.memory._owner = self

    def __del__(self) -> None:
        _free(self.address)


_libc = ctypes.CDLL(None)
_malloc, _free = _libc.malloc, _libc.free
_malloc.restype, _malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_free.restype, _free.argtypes = None, [ctypes.c_void_p]


class _ExactScratch:
    """What kernels keep between operations, in memory that is no longer than asked for."""

    def array(self, slot: int, shape: Sequence[int], dtype: Any) -> Any:
        self._last = fresh(shape, dtype)  # a kernel has its address alone
        return self._last


def problem(case: Case, nest: Nest, emitter: str, kernel: Any) -> str | None:
    """Say what a kernel gives that the definition does not; None if there is nothing.

    Kernels of the host also allocate results, which are dense and no memory of operands.
    """
    for lengths, operands, wanted in _blocks(case):
        blocks = []
        for block in operands:
            own = fresh(block.shape, block.dtype)
            own[...] = block
            blocks.append(own)
        with np.errstate(all="ignore"), small_steps(case, nest):
            if wanted is not None or is_of_nothing(nest, lengths):
                results = _call(kernel, blocks, nest, lengths)
        for n, want in enumerate(wanted or ()):
            got = results[n]
            rough = 1e-4 if got.dtype == np.float32 else 1e-9
            if not np.allclose(got, want, rough, rough, equal_nan=True):
                pair = f"{got.tolist()} != {want.tolist()}"
                return f"{emitter}, lengths {lengths}, result {n}: {pair}"
        if wanted is not None and emitter != "launched":
            with np.errstate(all="ignore"), small_steps(case, nest):
                found = kernel(*blocks)
            for n, given in enumerate(found if isinstance(found, tuple) else (found,)):
                if _memory(given) != _memory(results[n]) or not given.flags.c_contiguous:
                    return f"{emitter}, lengths {lengths}, result {n}: another one without `out`"
                if any(np.shares_memory(given, block) for block in blocks):
                    return f"{emitter}, lengths {lengths}, result {n}: memory of an operand"
    return None


def _memory(x: Any) -> tuple[Any, Any, bytes]:
    return x.shape, x.dtype, x.tobytes()


@functools.lru_cache(maxsize=BATCH)
def _blocks(case: Case) -> list[tuple[Sequence[int], list[Any], list[Any] | None]]:
    """Return (lengths of loops, operands, results by the definition) of each block of a case.

    Of a block of nothing there are no results: nobody reads them.
    """
    nest = nest_families.nest_of(case)
    assert nest is not None
    blocks = []
    for lengths in nest_families.lengths_of(case, nest):
        operands = nest_families.operands_of(case, nest, lengths)
        with np.errstate(all="ignore"):
            wanted = None if 0 in lengths else nest_definition.compute(nest, operands, lengths)
        blocks.append((lengths, operands, wanted))
    return blocks


def is_of_nothing(nest: Nest, lengths: Sequence[int]) -> bool:
    """Whether all results are of no elements: blocks of regions are, if any loop has none."""
    ops = [nest.ops[result.place - len(nest.loads)] for result in nest.results]
    return all(any(lengths[x] == 0 for x in (*op.loops, *op.reduced)) for op in ops)


class Report:
    """What came out."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.problems: list[tuple[Case, str]] = []

    def add(self, case: Case, emitter: str, found: str | None) -> None:
        """Count a comparison."""
        self.counts[emitter] += 1
        if found is not None:
            self.problems.append((case, found))


def compare(cases: Sequence[Case], emitters: Sequence[str], *, sanitize: bool = False) -> Report:
    """Compare emitters with the definition."""
    report = Report()
    for start in range(0, len(cases), BATCH):
        chosen = [(case, nest_families.nest_of(case)) for case in cases[start : start + BATCH]]
        pairs = [(case, nest) for case, nest in chosen if nest is not None]
        report.counts["no nest"] += len(chosen) - len(pairs)
        if "numpy" in emitters:
            for case, nest in pairs:
                _compare_tiles(case, nest, report)
        if "launched" in emitters:
            for case, nest in pairs:
                _compare_launched(case, nest, report)
        if "c" in emitters:
            _compare_c(pairs, report, sanitize)
    return report


def _compare_tiles(case: Case, nest: Nest, report: Report) -> None:
    with small_steps(case, nest):
        kernel = tile_kernel(nest)
    report.add(case, "tiles", problem(case, nest, "tiles", kernel))
    blocks = [
        [x.shape for x in nest_families.operands_of(case, nest, lengths)]
        for lengths in nest_families.lengths_of(case, nest)
    ]
    chosen = host_kernel("", nest, list(zip(*blocks, strict=True)))
    report.add(case, "straight", problem(case, nest, "straight", chosen.function))


def _compare_launched(case: Case, nest: Nest, report: Report) -> None:
    typed = dataclasses.replace(nest, ops=tuple([
        dataclasses.replace(op, operands=tuple([
            (at, t.type(value) if at is None else None)
            for (at, value), t in zip(op.operands, op.types, strict=True)
        ]))
        for op in nest.ops
    ]))  # fmt: skip
    with small_steps(case, nest):
        dealt = thread_nest(typed)
    if dealt is None:
        report.counts["not launched"] += 1
        return

    def kernel(*blocks: Any, out: Any) -> None:
        lengths = nest.lengths([x.shape for x in blocks])
        results = fused_loops.compute(dealt, lengths, blocks, typed.numbers)
        outs = out if isinstance(out, tuple) else (out,)
        for to, result in zip(outs, results, strict=True):
            to[...] = result

    report.add(case, "launched", problem(case, nest, "launched", kernel))


def _compare_c(pairs: Sequence[tuple[Case, Nest]], report: Report, sanitize: bool) -> None:
    kernels = []
    with compiled_together(sanitize=sanitize), warnings.catch_warnings():
        warnings.simplefilter("error")
        for case, nest in pairs:
            try:
                with small_steps(case, nest):
                    kernel = c_kernel("cc", nest)
            except RuntimeWarning as warning:
                report.add(case, "c", str(warning))
            else:
                kernels.append((case, nest, kernel))
        for case, nest, kernel in kernels:
            if kernel is None:
                report.counts["not in c"] += 1
                continue
            with mock.patch.object(c_kernels, "scratch", _ExactScratch()):
                report.add(case, "c", problem(case, nest, "c", kernel))


def _compare_share(share: int, offset: int, emitters: Sequence[str], sanitize: bool) -> Report:
    return compare(chosen(share, offset), emitters, sanitize=sanitize)


def chosen(share: int, offset: int = 0) -> list[Case]:
    """Return a share of all cases, as even as can be."""
    return list(nest_families.every_case()[offset::share])


def main() -> None:
    """Compare what the arguments ask for, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=int, default=1, help="take one case of so many")
    parser.add_argument("--offset", type=int, default=0, help="the first one")
    parser.add_argument("--emitters", nargs="+", default=EMITTERS)
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    if options.sanitize and "libasan" not in os.environ.get("LD_PRELOAD", ""):
        library = subprocess.run(
            ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
        more = {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"}
        os.execve(sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:]],
                  os.environ | more)  # fmt: skip
    start = time.perf_counter()
    ways = [
        (options.share * options.processes, options.offset + options.share * n, options.emitters,
         options.sanitize) for n in range(options.processes)
    ]  # fmt: skip
    with concurrent.futures.ProcessPoolExecutor(options.processes) as pool:
        reports = list(pool.map(_compare_share, *zip(*ways, strict=True)))
    report = Report()
    for part in reports:
        report.counts += part.counts
        report.problems += part.problems
    for case, found in report.problems[:20]:
        print(case, nest_families.nest_of(case), found, "", sep="\n")
    print(f"{dict(report.counts)}, {len(report.problems)} problems, "
          f"{time.perf_counter() - start:.0f} s")  # fmt: skip
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
