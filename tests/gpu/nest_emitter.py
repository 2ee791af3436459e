"""Loop nests in CUDA C, compared with the definition.

`python -m tests.softgpu -- -m tests.gpu.nest_emitter --share 100` takes each hundredth case of
`nest_families`; without `tests.softgpu -- -m` it is for a machine with a GPU. Each nest takes the
library's own way from `launched_nest` on, and makes all its blocks in one launch. Only the compiler
is given many kernels at once.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

import gpushard as gs
from gpushard._ops.programs.calls import CallPlan, KernelCall
from gpushard._ops.programs.launched import Launched, launched_nest
from gpushard._runtime.cuda import backend
from gpushard._runtime.cuda.kernels import fused, nesting, passes, thread_layout, thread_nests
from gpushard._runtime.launch import Outputs
from gpushard._runtime.nests import Nest
from gpushard._runtime.runtime import Runtime
from tests.gpu.device import Split, gpu_runtime
from tests.runtime.nests import nest_definition, nest_families
from tests.runtime.nests.nest_emitters import chosen, is_of_nothing
from tests.runtime.nests.nest_families import Case

BATCH = 80
"""Kernels that the compiler is given at once."""

BLOCKS = 3
"""Devices that have blocks: as many as a launch makes."""


@contextlib.contextmanager
def small_steps(case: Case, *owners: Any) -> Iterator[None]:
    """Lower the thresholds of the emitter, so that small blocks take every path.

    Args:
      case: decides how far.
      owners: other modules that know how many threads a block has.
    """
    number = case.number
    threads = (8, 32)[number % 2]
    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (fused, "THREADS", threads),
            (thread_layout, "THREADS", threads),
            (backend, "THREADS", threads),
            *[(owner, "THREADS", threads) for owner in owners],
            (thread_layout, "_WARP", (2, 4)[number // 2 % 2]),
            (thread_layout, "_SHORT", (6, 1 << 14)[number // 3 % 2]),
            (thread_layout, "_ACROSS", (2, 8)[number // 5 % 2]),
            (thread_layout, "SIDE", (2, 16)[number // 3 % 2]),
            (thread_layout, "MOST_ELEMENTS_KEPT", (2, 8, 32)[number // 5 % 3]),
            (thread_layout, "MOST_ROWS", (4, 2)[number // 2 % 2]),
            (thread_layout, "MOST_LOADED", (32, 512)[number // 3 % 2]),
            (thread_layout, "FEWEST_BLOCKS", (0, 1)[number // 5 % 2]),
            (nesting, "MOST_UNROLLED", (512, 10)[number // 3 % 2]),
            (passes, "MOST_KEPT", (8, 64, 256)[number // 2 % 3]),
            (thread_nests, "_MOST_KEPT", (1, 2, 128)[number % 3]),
            (thread_nests, "_PART", (2, 7, 1 << 10)[number // 3 % 3]),
            (thread_nests, "_MOST_PARTS", (3, 128)[number // 2 % 2]),
            (thread_nests, "_MOST_SLOTS", 1 << 20),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


class Collected(Exception):
    """A kernel's text is known; it is not compiled yet."""


class Batch:
    """Kernels that are compiled together, and then are as if the driver had compiled each."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._keys: dict[tuple[int, str], str] = {}
        self.kept = 0  # nests whose threads keep rows
        self.several = 0  # nests whose threads have several rows that read the same elements

    def collect(self, gpu: int, key: tuple[int, str], name: str, text: str, *options: str) -> int:
        """Take a kernel's text, in place of compiling it."""
        assert (key, name) == ((gpu, text), "fused")
        self._keys.setdefault(key, f"fused_{len(self._keys)}")
        self.kept += "int turn = 0" in text
        self.several += "const Index own = first + (k *" in text
        self._options = options
        raise Collected

    def compile(self) -> None:
        """Compile what was collected."""
        if not self._keys:
            return
        includes: dict[str, None] = {}
        spaces = []
        for (_, text), name in self._keys.items():
            includes |= dict.fromkeys(re.findall(r"^#include .*$", text, re.MULTILINE))
            own = re.sub(r"^#include .*$", "", text, flags=re.MULTILINE)
            own = own.replace("void fused(", f"void {name}(")
            spaces.append(f"namespace in_{name} {{\n{own}\n}}\nusing in_{name}::{name};")
        whole = "\n".join([*includes, *spaces])
        (gpu, _), name = next(iter(self._keys.items()))
        self._driver._compile(gpu, (gpu, whole), name, whole, *self._options)
        module = self._driver._modules[-1]
        for key, name in self._keys.items():
            self._driver._kernels[key] = module.get_function(name).kernel.ptr


@dataclasses.dataclass(frozen=True)
class Program:
    """A nest with blocks."""

    case: Case
    nest: Nest
    lengths: list[list[int]]  # of each block
    blocks: list[list[Any]]  # of each block its operands


def program_of(case: Case) -> Program | None:
    """Return the nest of a case and its blocks; None if there is none."""
    nest = nest_families.nest_of(case)
    if nest is None:
        return None
    nest = with_positions(nest) if case.number // 7 % 2 else nest
    lengths = nest_families.lengths_of(case, nest)
    for loop in nest.split:  # one block has all of them
        lengths[-1][loop] = nest.sizes[loop] - (len(lengths) == 1)
    lengths += [lengths[0]] * (BLOCKS - len(lengths))
    blocks = [
        nest_families.operands_of(dataclasses.replace(case, number=case.number + n), nest, own)
        for n, own in enumerate(lengths)
    ]
    return Program(case, nest, lengths, blocks)


def with_positions(nest: Nest) -> Nest:
    """Return a nest with `argmin` for `min` of exact values, and `argmax` for `max`, at its ends.

    Kernels on the host have none along long loops.
    """
    first = len(nest.loads)
    needed = {at for op in nest.ops for at, _ in op.operands}
    ops = [
        dataclasses.replace(op, name=f"arg{op.name}", dtype=np.dtype(np.int64))
        if op.name in ("min", "max")
        and place not in needed
        and not any(isinstance(at, int) and at >= first for at, _ in op.operands)
        else op
        for place, op in enumerate(nest.ops, first)
    ]
    return dataclasses.replace(nest, ops=tuple(ops))


def for_gpus(nest: Nest, namespace: Any) -> Nest:
    """Return a nest with the functions of a backend, and numbers of the types that they take."""
    ops = []
    for op in nest.ops:
        kernel = None if op.kernel is None else getattr(namespace, op.name)
        operands = tuple(
            (at, t.type(value) if at is None else None)
            for (at, value), t in zip(op.operands, op.types, strict=True)
        )
        ops.append(dataclasses.replace(op, kernel=kernel, operands=operands))
    return dataclasses.replace(nest, ops=tuple(ops))


def refusal(runtime: Runtime, nest: Nest) -> str | None:
    """Say which operation the backend has in no kernel; None if there is none."""
    for op in nest.ops:
        if not runtime.backend.fuses(op, nest.types_of(op), 0):
            return f"{op.name} of {op.types[0]} as {op.dtype}"
    return None


@dataclasses.dataclass(frozen=True)
class Launch:
    """Calls of a kernel."""

    calls: Launched
    numbers: list[tuple[int, Any]]  # that they take: (position, value)
    scratch: int  # bytes that they hold while they run


def launches(runtime: Runtime, program: Program, nest: Nest) -> Launch | None:
    """Return the launch of all blocks of a program, by the library's own way."""
    devices = tuple(gs.devices()[:BLOCKS])

    def tiling(shapes: Sequence[Any]) -> Any:
        return SimpleNamespace(shard_shapes=shapes, places=devices, devices=devices)

    calls = [
        KernelCall(home, tuple(nest.shape(result, lengths) for result in nest.results), ())
        for home, lengths in enumerate(program.lengths)
        if any(0 not in nest.shape(result, lengths) for result in nest.results)
    ]
    of_device = [-1] * BLOCKS
    for number, call in enumerate(calls):
        of_device[call.home] = number
    operands = [
        tiling([blocks[n].shape for blocks in program.blocks]) for n in range(nest.operands)
    ]
    results = [tiling([()] * BLOCKS) for _ in nest.results]
    kernel = runtime.backend.compile(nest, [of.shard_shapes for of in operands])
    if kernel is None:
        return None
    work = CallPlan(runtime, "nest", kernel.function, calls, of_device, results, nest.result_types)
    launched = launched_nest(work, nest, kernel, operands)
    numbers = list(enumerate(kernel.numbers, len(operands)))
    if launched is None:
        return None
    return Launch(launched, numbers, sum(launched.writes[len(nest.result_types) :]))


def placed(program: Program) -> list[list[gs.Array]]:
    """Return the operands of a program: of each its blocks."""
    devices = gs.devices()[:BLOCKS]
    return [
        [gs.device_put(block, device) for block, device in zip(blocks, devices, strict=True)]
        for blocks in zip(*program.blocks, strict=True)
    ]


def computed(arrays: Sequence[Sequence[gs.Array]], launched: Launch) -> list[list[Any]]:
    """Return what a launch makes: of each result the blocks of the calls."""
    operands = []
    for blocks in arrays:
        buffers = [block._live() for block in blocks]
        operands.append(
            Outputs([b.values[0] for b in buffers], [b.claims[0] for b in buffers], False)
        )
    outputs = launched.calls.run_parts(operands, launched.numbers)
    launched.calls.runtime.backend.namespace.cuda.runtime.deviceSynchronize()
    return [[value.get() for value in part.values] for part in outputs]


def problem(program: Program, launched: Launch, results: Sequence[Any]) -> str | None:
    """Say what a kernel gives that the definition does not; None if there is nothing."""
    parts = sum(x.nbytes for blocks in results[len(program.nest.results) :] for x in blocks)
    if launched.scratch != parts:
        return f"{launched.scratch} bytes of scratch memory for {parts}"
    for number, call in enumerate(launched.calls.calls):
        lengths = program.lengths[call.home]
        if 0 in lengths and not is_of_nothing(program.nest, lengths):
            continue  # regions are not like that
        try:
            with np.errstate(all="ignore"):
                wanted = nest_definition.compute(program.nest, program.blocks[call.home], lengths)
        except IndexError:  # no element is the least of none
            continue
        for n, want in enumerate(wanted):
            got = results[n][number]
            rough = 1e-4 if want.dtype == np.float32 else 1e-9
            same = got.shape == want.shape and got.dtype == want.dtype
            if not same or not np.allclose(got, want, rough, rough, equal_nan=True):
                where = f"lengths {program.lengths}, block {call.home}, result {n}"
                return f"{where}: {got.tolist()} != {want.tolist()}"
    return None


class Report:
    """What came out."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.problems: list[tuple[Case, str]] = []


def compare(cases: Sequence[Case]) -> Report:
    """Compare the emitter with the definition."""
    report = Report()
    with gpu_runtime(split=Split(4, False)) as runtime, warnings.catch_warnings():
        warnings.filterwarnings("error", "a kernel in CUDA C is wrong")
        for start in range(0, len(cases), BATCH):
            _compare(runtime, cases[start : start + BATCH], report)
    return report


def _compare(runtime: Runtime, cases: Sequence[Case], report: Report) -> None:
    of_gpus: Any = runtime.backend
    driver = of_gpus._driver
    cupy_driver = importlib.import_module("gpushard._runtime.cuda.driver.cupy_driver")
    batch, known = Batch(driver), []
    for case in cases:
        program = program_of(case)
        if program is None:
            report.counts["no nest"] += 1
            continue
        nest = for_gpus(program.nest, runtime.backend.namespace)
        reason = refusal(runtime, nest)
        if reason is not None:
            report.refused[reason] += 1
            continue
        with small_steps(case, cupy_driver), mock.patch.object(driver, "_compile", batch.collect):
            try:
                if launches(runtime, program, nest) is None:
                    report.refused[_loops_refused(nest)] += 1
            except Collected:
                known.append((program, nest))
    batch.compile()
    report.counts["kept"] += batch.kept
    report.counts["several rows"] += batch.several
    for program, nest in known:
        arrays = placed(program)  # copies have kernels, too
        with small_steps(program.case, cupy_driver):
            launched = launches(runtime, program, nest)
            if launched is None:  # no rows in the first call of a GPU, whose memory others count in
                report.refused["nowhere to count parts"] += 1
                continue
            results = computed(arrays, launched)
        difference = problem(program, launched, results)
        report.counts["compared"] += 1
        report.counts["in parts"] += bool(launched.scratch)
        if difference is not None:
            report.problems.append((program.case, difference))
    driver._kernels.clear()
    driver._modules.clear()


def _loops_refused(nest: Nest) -> str:
    none = thread_nests.thread_nest(nest) is None
    return "loops that threads go along are reduced apart" if none else "too many arrays"


def main() -> None:
    """Compare what the arguments ask for, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=int, default=1, help="take one case of so many")
    parser.add_argument("--offset", type=int, default=0, help="the first one")
    options = parser.parse_args()
    start = time.perf_counter()
    report = compare(chosen(options.share, options.offset))
    for case, difference in report.problems[:20]:
        print(case, nest_families.nest_of(case), difference, "", sep="\n")
    print(f"{dict(report.counts)}, refused {dict(report.refused)}, "
          f"{len(report.problems)} problems, {time.perf_counter() - start:.0f} s")  # fmt: skip
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
