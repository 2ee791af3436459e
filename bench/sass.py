"""What the kernels become on a GPU: registers, instructions and loads in flight, from their SASS.

Needs no GPU, but nvcc and nvdisasm, which PyPI has as nvidia-cuda-nvdisasm:

    python3 -m bench.sass

A kernel branches to the code of a form and a unit, which has no loops and ends with the thread:
each is a variant, and which one it is shows in its instructions.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path

KERNELS = Path(__file__).parents[1] / "kernels"
THREADS = 256
"""Of a block."""

REGISTERS = 65536
"""Of a multiprocessor."""

_LINE = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:(@!?U?P\d) )?\s*(\S+)(.*);")
_LABEL = re.compile(r"^(\.L_x_\d+):$")
_TARGET = re.compile(r"\.L_x_\d+")
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "32": 4, "64": 8, "128": 16}


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of SASS."""

    guarded: bool
    """Whether it depends on a predicate."""

    name: str
    """Such as LDG.E.64."""

    targets: tuple[str, ...]
    """Labels where it may branch."""

    label: str
    """What branches to it."""

    operands: str = ""
    """The registers, addresses and numbers behind the name."""

    @property
    def leaves(self) -> bool:
        """Whether nothing runs from it to the next one."""
        return not self.guarded and self.name.split(".")[0] in ("BRA", "BRX", "EXIT", "RET")

    @property
    def nbytes(self) -> int:
        """Bytes that a load or store moves for each thread."""
        sizes = [_BYTES[part] for part in self.name.split(".") if part in _BYTES]
        return sizes[0] if sizes else 4


@dataclasses.dataclass(frozen=True)
class Variant:
    """What one form and unit becomes."""

    form: str
    """rows of so many dims, tiles, words, or fills of so many dims."""

    unit: int
    """Bytes."""

    word: int
    """Bytes that a thread loads or stores at once."""

    moves: int
    """Loads of a thread, or stores where nothing is loaded."""

    at_once: int
    """How many of them it gives before something waits for the first."""

    entry: int
    """Instructions from the start of the kernel, for the only entry of a batch."""

    before: int
    """Instructions from there to the first load or store."""

    length: int
    """All instructions from there on."""

    @property
    def each(self) -> float:
        """Instructions for each load, with its store and where these lie."""
        return self.length / self.moves


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A function of the kernels."""

    name: str
    registers: int
    spills: int
    """Bytes that registers had no room for."""

    variants: tuple[Variant, ...]

    @property
    def threads(self) -> int:
        """How many a multiprocessor holds, by their registers."""
        return min(2048, REGISTERS // self.registers // THREADS * THREADS)


def tool(name: str) -> str | None:
    """Return where a program of CUDA is: on the path, or brought by a wheel."""
    found = shutil.which(name)
    wheels = Path(sysconfig.get_path("purelib"), "nvidia").glob(f"*/bin/{name}")
    return found or next(map(str, wheels), None)


def read(source: str, architecture: str = "sm_90") -> list[Kernel]:
    """Compile a source of the kernels and read what comes out.

    Args:
      source: such as "box_copy".
      architecture: of the GPU.

    Returns:
      Its functions that take entries as arguments: in these only the data are in global memory.
    """
    usage, text = disassembled(KERNELS / f"{source}.cu", f"-arch={architecture}")
    found = []
    for part in usage.split("Compiling entry function '")[1:]:
        name = part.split("'")[0]
        if name.endswith("_inline"):
            registers = int(re.findall(r"Used (\d+) registers", part)[0])
            spills = int(re.findall(r"(\d+) bytes spill stores", part)[0])
            found.append(Kernel(name, registers, spills, tuple(variants(parse(text, name)))))
    return found


def disassembled(source: Path, *options: str) -> tuple[str, str]:
    """Compile a source, and return what the compiler says of resources, and the SASS."""
    nvcc, nvdisasm = tool("nvcc"), tool("nvdisasm")
    assert nvcc and nvdisasm, "nvcc and nvdisasm must be on the path, or installed as wheels"
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "out.cubin")
        options = ("-std=c++17", "-cubin", "--resource-usage", *options)
        command = [nvcc, *options, "-o", cubin, source]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        command = [nvdisasm, "-c", cubin]
        return usage, subprocess.run(command, capture_output=True, text=True, check=True).stdout


def parse(text: str, name: str) -> list[Instruction]:
    """Return the instructions of a function."""
    body = text.split(f".section\t.text.{name},")[1].split(".section\t")[0]
    found, label, names = [], "", {}
    for line in body.splitlines():
        if match := _LABEL.match(line):
            names[match[1]] = label = label or match[1]
        elif match := _LINE.match(line):
            targets = tuple(_TARGET.findall(line))
            found.append(Instruction(match[1] is not None, match[2], targets, label, match[3]))
            label = ""
    return [
        dataclasses.replace(one, targets=tuple(names.get(t, t) for t in one.targets))
        for one in found
    ]


def variants(code: Sequence[Instruction]) -> list[Variant]:
    """Return what stands between the ends of threads and moves data."""
    entry = _distances(code)
    starts = [n for n in range(len(code)) if not n or code[n - 1].leaves]
    found = []
    for start, stop in zip(starts, [*starts[1:], len(code)], strict=True):
        part = code[start:stop]
        if any(one.name.startswith(("LDG", "STG")) for one in part):
            found.append(_variant(part, entry[start]))
    return sorted(found, key=lambda variant: (variant.form, variant.unit))


def _distances(code: Sequence[Instruction]) -> dict[int, int]:
    """Return the fewest instructions from the first one to each."""
    places = {one.label: n for n, one in enumerate(code) if one.label}
    found, queue = {0: 0}, deque([0])
    while queue:
        n = queue.popleft()
        after = [places[target] for target in code[n].targets]
        for other in after if code[n].leaves else [*after, n + 1]:
            if other < len(code) and other not in found:
                found[other] = found[n] + 1
                queue.append(other)
    return found


def _variant(part: Sequence[Instruction], entry: int) -> Variant:
    kinds = [one.name.split(".")[0] for one in part]
    moved = "LDG" if "LDG" in kinds else "STG"
    at = [n for n, kind in enumerate(kinds) if kind == moved]
    waits = [n for n, kind in enumerate(kinds) if kind in ("STS", "STG") and kind != moved]
    divisions = sum(one.name.startswith("IMAD.HI") for one in part) / len(at)
    word = part[at[0]].nbytes
    unit = word
    if "BAR" in kinds:
        form = "words" if word == 4 and "PRMT" in kinds else "tiles"
        unit = word // 2 if form == "words" and len(at) == 8 else unit
        unit = word // 4 if form == "words" and len(at) == 16 else unit
    else:
        form = f"{'rows' if moved == 'LDG' else 'fill'} {_DIMS[round(divisions)]}"
    at_once = sum(n < min(waits, default=len(part)) for n in at)
    return Variant(form, unit, word, len(at), at_once, entry, at[0], len(part))


_DIMS = {0: 1, 1: 2, 3: 4}
"""Dims, by the divisions that find a unit."""


def main() -> int:
    """Print a table."""
    if not (tool("nvcc") and tool("nvdisasm")):
        print("needs nvcc and nvdisasm: pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm")
        return 1
    print("| kernel | form | unit | at once | bytes in flight | to the first | for each |")
    print("|---|---|---|---|---|---|---|")
    for kernel in [*read("box_copy"), *read("fill")]:
        for one in kernel.variants:
            flight = f"{kernel.threads * one.at_once * one.word >> 10} KiB"
            flight = "" if one.form.startswith("fill") else flight
            first = f"{one.entry} + {one.before}"
            cells = (one.form, one.unit, f"{one.at_once} of {one.moves}", flight, first)
            print(f"| `{kernel.name}` | {' | '.join(map(str, cells))} | {one.each:.1f} |")
        print(f"{kernel.name}: {kernel.registers} registers, {kernel.spills} bytes spilled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
