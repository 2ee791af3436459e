"""Registers of each kind of kernel, and what spills: CUDA 13 for `sm_90`.

    python -m tests.nvrtc.registers [FOLDER] [--write]

compares what NVRTC says with `registers.txt`, or writes it there. Texts of kernels that CuPy takes
no part in are made here. CuPy writes the loops of the others: their sources come from FOLDER, as
with `python -m tests.nvrtc`, one of each template.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from gpushard._runtime.cuda.kernels import fused, reduction
from gpushard._runtime.cuda.kernels.elementwise import Signature, Statement, source
from gpushard._runtime.cuda.kernels.sources import kernel_source
from gpushard._runtime.nests import Nest
from tests.gpu import rows
from tests.nvrtc.compiler import Compiled, Source
from tests.nvrtc.jobs import Job, run
from tests.nvrtc.share import templates
from tests.runtime.cuda.kernels.test_thread_nests import THREADS, summed
from tests.runtime.nests.dealt_nests import dealt_out, statements
from tests.softgpu.sources import ADDED

TABLE = Path(__file__).with_name("registers.txt")
VERSION, ARCHITECTURE = "13.0", 90
OPTIONS = ("-std=c++17", *ADDED)
OF_CUPY = "gpushard_"
"""How the names of our kernels begin that CuPy writes the loops of."""

_CALLS = 8
_HEAD = f"{'kernel':60}  registers  spilled  shared"


@dataclasses.dataclass(frozen=True)
class Use:
    """What a thread uses, and a block."""

    registers: int
    spilled: int
    """Bytes that are stored and loaded."""

    shared: int
    """Bytes of shared memory."""

    @classmethod
    def of(cls, found: Compiled) -> Use:
        assert found.done, found.messages
        return cls(found.registers, found.spilled, found.shared)


def texts() -> Iterator[tuple[str, str]]:
    """Yield names and sources of kernels that CuPy takes no part in."""
    for letter in "?bBhHiIqQefdFD":
        one = np.dtype(letter)
        add = Statement("out0 = out0_type(in0 + in1)", "", (one, one), (one,))
        yield f"elementwise: x + y, {one}", source(add, _signature(one, 2))
    for letter in "efdFD":
        one = np.dtype(letter)
        sine = Statement("out0 = sin(in0)", "", (one,), (one,))
        if letter != "e":
            yield f"elementwise: sin(x), {one}", source(sine, _signature(one, 1))
    for name in reduction.OPERATIONS:
        for letter in "iqefdFD":
            one = np.dtype(letter)
            result = np.dtype(bool) if name in ("any", "all") else one
            text = reduction.source(name, Signature((one,), (), (result,), _CALLS, False))
            if text is not None:
                yield f"reduction: {name}, {one}", text
    nests = {name: nest for name, (nest, _, _) in THREADS.items()}
    for name, nest in {**nests, "parts of long rows": summed(3, 100_000)}.items():
        yield f"fused: {name}", _fused(nest)
    for letter in "befdFD":
        kernel = rows.softmax(letter) if letter == "b" else rows.layer_norm(letter)
        for length in 1024, 8192:
            name = f"rows of {length} that threads keep, {np.dtype(letter)}"
            if kernel.way((64, length)).kept:
                yield f"fused: {name}", kernel.text((64, length))
    for letter in "iefd":
        for centres, features in (64, 4), (32, 16), (32, 32), (16, 64):
            name = f"nearest of {centres} centres, {features} features, {np.dtype(letter)}"
            short = rows.nearest(letter, centres, features)
            yield f"fused: {name}", short.text((1 << 17, centres, features))
    for name in ("box_copy", "fill"):
        yield f"file: {name}", kernel_source(name)


def _signature(dtype: np.dtype, operands: int) -> Signature:
    return Signature((dtype,) * operands, (), (dtype,), _CALLS, False)


def _fused(nest: Nest) -> str:
    """Return the kernel of a nest of sums and products."""
    one, way = dealt_out(nest)
    products = statements(one, "out0 = in0 * in1")
    text = fused.source(one, one.signature(_CALLS), products, way)
    assert text is not None
    return text


def own(processes: int, folder: Path) -> dict[str, Use]:
    """Return what kernels use that CuPy writes the loops of, one of each template."""
    first: dict[str, tuple[str, Path]] = {}
    for path in sorted(folder.glob("*.json")):
        text = Source.read(path).text
        for name in templates(text):
            if name.startswith(OF_CUPY):
                first[name] = min(first.get(name, (text, path)), (text, path))
    names = {path: name for name, (_, path) in first.items()}
    todo = [Job(path, VERSION, ARCHITECTURE) for path in names]
    return {f"CuPy's loops: {names[job.path]}": Use.of(x) for job, x in run(todo, processes)}


def of_texts(sources: Mapping[str, str], processes: int) -> dict[str, Use]:
    """Return what kernels use."""
    with tempfile.TemporaryDirectory() as folder:
        names = {Path(folder, f"{n}.json"): name for n, name in enumerate(sources)}
        for path, name in names.items():
            Source(sources[name], OPTIONS).write(path)
        todo = [Job(path, VERSION, ARCHITECTURE) for path in names]
        return {names[job.path]: Use.of(found) for job, found in run(todo, processes)}


def read_table() -> dict[str, Use]:
    """Return what the table says."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.rsplit(maxsplit=3) for line in lines]
    return {name: Use(*map(int, numbers)) for name, *numbers in rows}


def write_table(rows: Mapping[str, Use]) -> None:
    """Write the table."""
    lines = [
        f"{name:60} {use.registers:10} {use.spilled:8} {use.shared:7}"
        for name, use in sorted(rows.items())
    ]
    TABLE.write_text("\n".join([_HEAD, *lines, ""]), encoding="utf-8")


def differences(found: Mapping[str, Use], table: Mapping[str, Use]) -> Iterable[str]:
    """Yield what is not as the table says; it may have more rows."""
    for name, use in sorted(found.items()):
        if table.get(name) != use:
            yield f"{name}: {use}, the table says {table.get(name, 'nothing')}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write the table anew")
    options = parser.parse_args()
    found = of_texts(dict(texts()), options.processes)
    if options.folder:
        found |= own(options.processes, options.folder)
    if options.write:
        write_table({**read_table(), **found} if options.folder is None else found)
    wrong = [*differences(found, read_table())]
    print("\n".join([*wrong, f"{len(found)} kernels, {len(wrong)} not as the table says"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
