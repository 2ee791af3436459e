"""What generated kernels become for a GPU, and what share of its bandwidth that lets expect.

`python3 -m bench.kernel_table` compiles each kernel for sm_90, reads its SASS and prints a table;
with `--write` it puts that into kernels/README.md, which a test holds.
It needs nvcc, nvdisasm and CuPy's headers, which `python -m tests.nvrtc.toolkits` brings, but no
GPU. Nothing here is measured: the last column is an estimate, for a machine of 132 multiprocessors
at 1.7 GHz with a memory of 4.8 TB/s and a latency of 0.6 us. It is the least of three shares:

- "flight": to read at full bandwidth, loads have to ask for 22 KB on each multiprocessor before
  they wait, or for the part of it that reads are of all bytes moved. A kernel's threads ask for
  their loads up to the first instruction that needs one.
- "issue": a multiprocessor gives 4 instructions of 32 threads in a cycle, and moves 21 bytes in it.
  Counted are those of a thread on the shortest way through the kernel that passes its widest load
  and store. What stands in a loop with these is counted as often as a thread loads so many bytes.
  Loops whose turns the threads of a block share are counted with one turn.
  Where threads keep a row in registers, no loop is left, and the shortest way is that of a thread
  without elements. So the longest one is counted, with all of the widest loads and stores. It
  passes no narrower ones, which are for blocks that are not aligned, and no calls, which divide
  rare numbers.
- "lines": the first cache serves one line of 128 bytes in a cycle. Where the threads of a warp read
  along another dim than they write, they touch several: how many was found by hand, from how rows
  are dealt out to threads.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from bench.sass import KERNELS, Instruction, disassembled, parse, tool
from gpushard import testing
from gpushard._runtime.cuda.kernels import elementwise, fused, reduction, thread_layout
from gpushard._runtime.cuda.kernels.elementwise import Signature, Statement
from gpushard._runtime.cuda.kernels.thread_nests import ThreadNest, function_of, thread_nest
from gpushard._runtime.nests import Load, Nest, Op, Result
from gpushard._transforms.fusion import layout
from gpushard._transforms.fusion.layout import nest_of

BYTES_IN_FLIGHT = 4.8e12 * 0.6e-6 / 132
"""On a multiprocessor, for full bandwidth."""

BYTES_PER_CYCLE = 4.8e12 / 132 / 1.7e9
"""Of a multiprocessor, at full bandwidth."""

CALLS = 8
"""Devices that a launch works for at most."""

PAGE = KERNELS / "README.md"
BEGIN, END = "<!-- table of generated kernels: begin -->", "<!-- end -->"
"""Marks around the table in a page."""

HEAD = "| kernel | loads | stores | in flight | instructions | barriers | estimate |"

_REGISTER = re.compile(r"\bR(\d+)\b")
_STATEMENTS = {
    "add": "out0 = in0 + in1", "subtract": "out0 = in0 - in1", "multiply": "out0 = in0 * in1",
    "true_divide": "out0 = in0 / in1", "divide": "out0 = in0 / in1", "negative": "out0 = -in0",
    "exp": "out0 = exp(in0)", "sqrt": "out0 = sqrt(in0)", "astype": "out0 = in0",
    "less": "out0 = in0 < in1", "logical_and": "out0 = in0 && in1",
}  # fmt: skip
"""What CuPy's functions do with an element."""


class NoWayError(Exception):
    """No instruction that is looked for comes after another one."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel with sizes."""

    name: str
    text: str
    function: str
    read: float
    """Bytes that a thread reads from memory, in its share of the whole."""
    written: float
    """Bytes that it writes."""
    elements: float
    """Of the largest array, for a thread."""
    loaded: float
    """Bytes that it loads, from memory or from caches."""
    lines: float = 0
    """Lines of the first cache that a warp's loads touch for an element each."""
    unrolled: bool = False
    """Whether no loop goes over the elements of a thread."""
    shares: bool = False
    """Whether the threads of a block share what they make in all loops but the longest one."""


@dataclasses.dataclass(frozen=True)
class Row:
    """What became of a kernel."""

    name: str
    load: str
    """How many loads stand in its way, and the bytes of each."""
    store: str
    flight: float
    """Bytes that loads ask for at once on a multiprocessor."""
    instructions: float
    """For each element."""
    barriers: int
    shares: dict[str, float]
    """Of the machine's bandwidth, by what limits it."""

    @property
    def share(self) -> float:
        """The estimate."""
        return min(1.0, *self.shares.values())

    @property
    def bound(self) -> str:
        """What limits it."""
        return min(self.shares, key=lambda name: self.shares[name]) if self.share < 1 else ""


# The SASS of a kernel.


def _branches(code: Sequence[Instruction]) -> list[list[int]]:
    """Return what may run after each instruction."""
    places = {one.label: n for n, one in enumerate(code) if one.label}
    after = []
    for n, one in enumerate(code):
        jumps = one.name.split(".")[0] in ("BRA", "BRX", "JMP")
        to = [places[x] for x in one.targets if x in places] if jumps else []
        after.append(to if one.leaves else [*to, *[n + 1] * (n + 1 < len(code))])
    return after


def _way(after: Sequence[Sequence[int]], start: int, ends: set[int]) -> list[int]:
    """Return the shortest way to one of some instructions, without the first one."""
    before: dict[int, int | None] = {start: None}
    queue = deque([start])
    while queue:
        n = queue.popleft()
        for other in after[n]:
            if other in ends:
                way, at = [other], n
                while at != start:
                    way.append(at)
                    at = before[at]  # type: ignore[assignment]
                return way[::-1]
            if other not in before:
                before[other] = n
                queue.append(other)
    raise NoWayError


def _longest(after: Sequence[Sequence[int]], marked: set[int], closed: set[int]) -> list[int]:
    """Return the longest way to the end of those that pass most marked instructions, in no circle.

    Args:
      after: what may run after each instruction.
      marked: instructions to pass.
      closed: instructions that it may not pass.
    """
    nothing = -1, 0
    best: dict[int, tuple[tuple[int, int], int | None]] = {}  # what is ahead, and the next one
    stack, begun = [0], set[int]()
    while stack:
        n = stack[-1]
        left = [x for x in after[n] if x not in closed and x not in begun]
        if n not in begun and left:
            begun.add(n)
            stack += left
            continue
        begun.add(n)
        stack.pop()
        if n in best:
            continue
        ahead, to = nothing, None
        for x in after[n]:
            if x in best and best[x][0] > ahead:
                ahead, to = best[x][0], x
        if not after[n]:
            ahead = 0, 0
        if ahead != nothing:
            best[n] = (ahead[0] + (n in marked), ahead[1] + 1), to
    if 0 not in best:
        raise NoWayError
    way, at = [0], best[0][1]
    while at is not None:
        way.append(at)
        at = best[at][1]
    return way


def _loops(after: Sequence[Sequence[int]]) -> list[set[int]]:
    """Return the instructions of each loop that stands in no other."""
    count = len(after)
    back: list[list[int]] = [[] for _ in range(count)]
    for n, others in enumerate(after):
        for other in others:
            back[other].append(n)

    def reached(start: int, steps: Sequence[Sequence[int]]) -> set[int]:
        found, rest = set[int](), [start]
        while rest:
            for other in steps[rest.pop()]:
                if other not in found:
                    found.add(other)
                    rest.append(other)
        return found

    loops: list[set[int]] = []
    for n in range(count):
        if not any(n in loop for loop in loops):
            loop = reached(n, after) & reached(n, back)
            if n in loop and len(loop) > 1:
                loops.append(loop)
    return loops


def _cycle(
    after: Sequence[Sequence[int]], loop: set[int], loads: set[int], others: set[int]
) -> set[int]:
    """Return a turn of a loop: the shortest one, without loads of another width if there is one."""
    for closed in others, set[int]():
        steps = [[x for x in to if x in loop and x not in closed] for to in after]
        for start in sorted(loop & loads):
            try:
                return set(_way(steps, start, {start}))
            except NoWayError:
                continue
    raise NoWayError


def _registers(one: Instruction, operand: int | None = None) -> set[str]:
    """Return the registers of an instruction, with those that follow in a wide one."""
    text = one.operands if operand is None else one.operands.split(",")[operand]
    return {f"R{n}" for n in _REGISTER.findall(text)}


def _at_once(code: Sequence[Instruction]) -> int:
    """Return the most bytes that loads of a thread ask for before something waits for one."""
    most = asked = 0
    waited = set[str]()
    for one in code:
        if one.name.startswith("LDG"):
            asked += one.nbytes
            first = int(_REGISTER.findall(one.operands)[0])
            waited |= {f"R{first + n}" for n in range(max(1, one.nbytes // 4))}
        elif waited & _registers(one) or one.name.startswith("BAR"):
            asked, waited = 0, set()
        most = max(most, asked)
    return most


def _widest(code: Sequence[Instruction], kind: str) -> tuple[set[int], int]:
    """Return the widest loads or stores, and their bytes."""
    every = {n: one.nbytes for n, one in enumerate(code) if one.name.startswith(kind)}
    most = max(every.values())
    return {n for n, nbytes in every.items() if nbytes == most}, most


def compiled(case: Case) -> tuple[int, list[Instruction]]:
    """Return how many registers a kernel uses, and its SASS."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cu")
        path.write_text(case.text, encoding="utf-8")
        contract = ["--fmad=false"] if case.function == "fused" else []
        usage, text = disassembled(path, "-arch=sm_90", "-ftz=true", *contract, *_headers())
    part = usage.split(f"Compiling entry function '{case.function}'")[1]
    registers = int(re.findall(r"Used (\d+) registers", part)[0])
    return registers, parse(text, case.function)


def judged(case: Case) -> Row:
    """Compile a kernel and read what comes out."""
    registers, code = compiled(case)
    threads = min(2048, 65536 // (-(-registers // 8) * 8) // 256 * 256)
    after = _branches(code)
    loads, load = _widest(code, "LDG")
    stores, store = _widest(code, "STG")
    ends = {n for n, one in enumerate(code) if one.name == "EXIT"}
    way = [0]
    for stops in loads, stores, ends:
        way += _way(after, way[-1], stops)
    if case.unrolled:
        moves = {n for n, one in enumerate(code) if one.name[:3] in ("LDG", "STG", "CAL")}
        way = _longest(after, loads | stores, moves - loads - stores)
    # Other loads in loops are for what is left over of units, or lies otherwise.
    others = {n for n, one in enumerate(code) if one.name.startswith("LDG")} - loads
    cycles = [_cycle(after, loop, loads, others) for loop in _loops(after) if loop & loads]
    cycles.sort(key=len, reverse=True)
    # What threads of a block share is made once, in shorter loops, and takes few of them.
    once = set[int]().union(*cycles[1:]) if case.shares else set[int]()
    looped = set[int]().union(*cycles) - once
    on_way = [n for n in way if n not in looped]
    instructions = float(len(once.union(on_way)))
    nbytes, loaded = (
        sum(code[n].nbytes for n in part if code[n].name.startswith("LDG"))
        for part in (looped, once.symmetric_difference(once.union(on_way)))
    )
    if looped:
        instructions += max(0.0, case.loaded - loaded) * len(looped) / nbytes
    stretch = sorted(looped.union(way))
    at_once = min(_at_once([code[n] for n in stretch]), case.read)
    moved = case.read + case.written
    shares = {
        "flight": threads * at_once / (BYTES_IN_FLIGHT * case.read / moved),
        "issue": 128 * moved / instructions / BYTES_PER_CYCLE,
    }
    if case.lines:
        shares["lines"] = 32 * moved / (case.lines * case.elements) / BYTES_PER_CYCLE
    count = [sum(code[n].name.startswith(kind) for n in stretch) for kind in ("LDG", "STG", "BAR")]
    return Row(
        case.name, f"{count[0]} x {load}", f"{count[1]} x {store}", threads * at_once,
        instructions / case.elements, count[2], shares,
    )  # fmt: skip


def _headers() -> list[str]:
    """Return the options that say where CuPy's headers are."""
    from tests.nvrtc.toolkits import folder_of

    own = folder_of("13.0") / "cupy" / "_core" / "include"
    cccl = own / "cupy" / "_cccl"
    folders = cccl / "cub", cccl / "thrust", cccl / "libcudacxx", own
    return [f"-I{path}" for path in folders]


def missing() -> str | None:
    """Say what is needed and not there."""
    from tests.nvrtc.toolkits import is_made

    if not (tool("nvcc") and tool("nvdisasm")):
        return "nvcc and nvdisasm: pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm"
    return None if is_made("13.0") else "CuPy's headers: python -m tests.nvrtc.toolkits"


# The kernels.


def _elementwise(name: str, function: str, operands: str, result: str) -> Case:
    types, made = tuple(np.dtype(x) for x in operands), (np.dtype(result),)
    statement = Statement(_STATEMENTS[function], "", types, made)
    signature = Signature(types, (), made, CALLS, False)
    each = signature.each
    read = sum(x.itemsize for x in types)
    return Case(
        f"elementwise {name}", elementwise.source(statement, signature), "elementwise",
        each * read, each * made[0].itemsize, each, each * read,
    )  # fmt: skip


def _reduction(letter: str, length: int) -> Case:
    given = np.dtype(letter)
    lanes = 1 << reduction.power_of(length, given)
    result = np.dtype(np.int64) if given.kind in "bi" else given
    text = reduction.source("sum", Signature((given,), (), (result,), CALLS, False))
    assert text is not None
    each = length / lanes
    return Case(
        f"sum of {given} rows of {length}", text, "reduction",
        each * given.itemsize, result.itemsize / lanes, each, each * given.itemsize,
    )  # fmt: skip


def _nest(function: Callable[..., Any], values: Sequence[Any]) -> Nest:
    """Return the nest that a function becomes."""
    nests: list[Nest] = []
    kept = layout.nest_of

    def noting(laid: Any) -> Any:
        nests.append(nest_of(laid))
        return nests[-1]

    layout.nest_of = noting  # type: ignore[assignment]
    try:
        with testing.runtime(backend="host", host_devices=1, compiler="cc"):
            gs.jit(function).lower(*map(gs.device_put, values)).compile()
    finally:
        layout.nest_of = kept
    (nest,) = nests
    return nest


def _fused(
    name: str,
    function: Callable[..., Any],
    values: Sequence[Any],
    *,
    lines: float = 0,
) -> Case:
    nest = _nest(function, values)
    one = thread_nest(nest)
    assert one is not None
    lengths = one.lengths(nest.sizes)
    way = thread_layout.threads(one, [lengths])
    text = fused.source(one, one.signature(CALLS), _statements(one), way)
    assert text is not None
    threads = way.rows_of(lengths) * way.width / (way.each * max(1, way.at_once))
    sizes = [nest.shape(result, list(nest.sizes)) for result in nest.results]
    written = sum(
        math.prod(shape) * t.itemsize for shape, t in zip(sizes, nest.result_types, strict=True)
    )
    read = sum(value.nbytes for value in values)
    elements = max(value.size for value in values)
    loaded = elements * sum(load.dtype.itemsize for load in nest.loads)
    if way.at_once:  # all rows, and in each thread all that these share
        loaded = sum(
            value.nbytes if {*way.rows}.intersection(load.dims) else threads * value.nbytes
            for load, value in zip(one.nest.loads, values, strict=True)
        )
    return Case(
        f"fused {name}", text, "fused", read / threads, written / threads,
        elements / threads, loaded / threads, lines, way.kept > 0, way.at_once > 0,
    )  # fmt: skip


def _statements(dealt: ThreadNest) -> list[Statement | None]:
    """Return what CuPy has for each operation."""
    nest, made = dealt.nest, list[Statement | None]()
    for op in nest.ops:
        name = getattr(function_of(op), "__name__", str(function_of(op)))
        types = nest.types_of(op)
        made.append(op.kernel and Statement(_STATEMENTS[name], "", types, (op.dtype,)))
    return made


def _broadcast(letter: str) -> Case:
    """Return `(x + y) * z` of blocks of shapes (1024, 32, 64), (1024, 1, 64) and (32, 1)."""
    one, lengths, none = np.dtype(letter), (1024, 32, 64), (0, 0, 0)
    loads = (
        Load(0, one, (0, 1, 2), none, none), Load(1, one, (0, None, 2), none, none),
        Load(2, one, (1, None), none[:2], none[:2]),
    )  # fmt: skip
    every = frozenset(range(3))
    ops = (
        Op("add", ((0, None), (1, None)), one, every, (one, one), np.add),
        Op("multiply", ((3, None), (2, None)), one, every, (one, one), np.multiply),
    )
    results = (Result(4, (0, 1, 2)),)
    nest = Nest(lengths, 3, loads, ops, results, frozenset(), frozenset())
    function = ThreadNest(nest, nest, ((0,), (1,), (2,)))
    way = thread_layout.threads(function, [lengths])
    text = fused.source(function, function.signature(CALLS), _statements(function), way)
    assert text is not None
    each, nbytes = way.each, one.itemsize
    return Case(
        f"fused of three dims of {one}", text, "fused",
        each * nbytes, each * nbytes, each, 3 * each * nbytes,
    )  # fmt: skip


def _softmax(x: Any) -> Any:
    e = gnp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    apart = x - x.mean(axis=-1, keepdims=True)
    variance = (apart * apart).mean(axis=-1, keepdims=True)
    return apart / gnp.sqrt(variance + 1e-5) * scale + shift


def _stencil(x: Any) -> Any:
    return x[1:-1, 1:-1] * 4 - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:]


def _nearest(points: Any, centres: Any) -> Any:
    apart = (points * points).sum(1)[:, None] - 2 * points @ centres.T
    return gnp.argmin(apart + (centres * centres).sum(1), axis=1)


def _ones(letter: str, *shape: int) -> Any:
    return np.ones(shape, letter)


def cases() -> Iterator[Case]:
    """Yield the kernels of the table."""
    yield _elementwise("bool", "logical_and", "??", "?")
    for letter in "befdD":
        yield _elementwise(str(np.dtype(letter)), "add", letter * 2, letter)
    yield _elementwise("float32 < float32", "less", "ff", "?")
    yield _elementwise("int8 + float32", "add", "bf", "f")
    yield _elementwise("int8 as float64", "astype", "b", "d")
    lengths = ("f", 32), ("f", 128), ("f", 1024), ("f", 8192), ("e", 128), ("b", 128), ("d", 128)
    for letter, length in lengths:
        yield _reduction(letter, length)
    for letter in "bef":
        one = np.dtype(letter).type(3)
        yield _fused(
            f"chain of {np.dtype(letter)}", lambda x, one=one: (x + one) * x - one,
            [_ones(letter, 1 << 20)],
        )  # fmt: skip
    yield _broadcast("f")
    yield _broadcast("e")
    for length in 8192, 1024, 128:
        yield _fused(f"softmax of rows of {length}", _softmax, [_ones("f", 1 << 12, length)])
    norm = [_ones("f", 1 << 12, 1024), _ones("f", 1024), _ones("f", 1024)]
    yield _fused("layer norm of rows of 1024", _layer_norm, norm)
    yield _fused("transpose", lambda x: x.T * 2 + 1, [_ones("f", 4096, 4096)], lines=12)
    yield _fused("stencil", _stencil, [_ones("f", 4096, 4096)], lines=6)
    for features, centres in (16, 32), (32, 32), (64, 16):
        points = _ones("f", 1 << 17, features), _ones("f", centres, features)
        each = min(4, 128 // features)  # points of a thread
        yield _fused(
            f"argmin of k-means, {features} features, {centres} centres", _nearest, points,
            lines=4 + centres / 4 / each,
        )  # fmt: skip


def line(row: Row) -> str:
    """Return a row of the table."""
    cells = (
        row.name, row.load, row.store, f"{row.flight / 1024:.1f} KiB", f"{row.instructions:.1f}",
        str(row.barriers), f"{100 * row.share:.0f} % {row.bound}".strip(),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def estimates() -> dict[str, int]:
    """Return the shares that kernels/README.md says, in hundredths, by the kernel's name."""
    text = PAGE.read_text(encoding="utf-8")
    rows = text.split(BEGIN)[1].split(END)[0].strip().splitlines()[2:]
    cells = [row.strip("| ").split(" | ") for row in rows]
    return {row[0]: int(row[-1].split()[0]) for row in cells}


def main() -> int:
    """Print the table."""
    needed = missing()
    if needed:
        print(f"needs {needed}")
        return 1
    lines = [HEAD, "|---|---|---|---|---|---|---|"]
    print(*lines, sep="\n")
    for case in cases():
        lines.append(line(judged(case)))
        print(lines[-1], flush=True)
    if sys.argv[1:] == ["--write"]:
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        text = "\n".join([before + BEGIN, "", *lines, "", END]) + after
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
