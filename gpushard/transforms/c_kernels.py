"""Kernels of regions in C: one loop nest that reads and writes each array once.

The loops go over the dims of the domain, those next to each other that all arrays have, or lack, as
one. Where a region reduces its last dims, the innermost loop is over these, once for each operation
that needs a result of such a reduction; a row of the domain stays in cache between these loops.
Sums are in blocks of a fixed length, whose sums are added in double precision; so they do not
depend on how arrays are split.

A compiler is looked for where the settings say. What it makes is kept in a folder, under a name
that says source, flags, compiler and processor.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import hashlib
import logging
import math
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpushard.config import cache_home
from gpushard.ops.aval import Dtype
from gpushard.ops.row import Kernel
from gpushard.transforms.expressions import PRELUDE, TYPES, expression, literal
from gpushard.transforms.tiles import Part, scratch
from gpushard.typing import Shape

_FLAGS = (
    "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", "-fwrapv",
    "-ffp-contract=off", "-fPIC", "-shared", "-w",
)  # fmt: skip

_BLOCK = 512
"""Elements that are summed in the type of the result."""

_log = logging.getLogger("gpushard.jit")


@dataclasses.dataclass
class _Value:
    """A value of a region, as the loops have it."""

    dtype: Dtype
    text: str  # what it is called
    full: bool  # whether it differs along the innermost loop
    level: int = 0  # the innermost loop that makes it, or before which it is known


def c_source(
    parts: Sequence[Part],
    operands: Sequence[tuple[Shape, Dtype]],
    results: Sequence[int],
    shape: Shape,
    reduced: int,
) -> tuple[str, int, list[int]] | None:
    """Return a region's function in C; None where something has no expression.

    Args:
      parts: its operations, in order; places of results follow those of operands.
      operands: shapes and types of what it takes from outside.
      results: places of what it gives.
      shape: of its domain.
      reduced: how many of the last dims it reduces.

    Returns:
      The source, how many rows of 8-byte elements it keeps, and the number of dims of each loop.
    """
    made = {part.place: part for part in parts}
    kept = len(shape) - reduced
    patterns = []
    for own, _ in operands:
        lead = len(shape) - len(own)
        patterns.append([dim >= lead and own[dim - lead] != 1 for dim in range(len(shape))])
    for place in results:
        patterns.append([not (made[place].reduced and dim >= kept) for dim in range(len(shape))])
    types = [t for _, t in operands] + [made[place].dtype for place in results]
    if any(t not in TYPES for t in types):
        return None
    groups: list[tuple[bool, ...]] = []
    counts: list[int] = []
    for dim, n in enumerate(shape):
        has = tuple(pattern[dim] for pattern in patterns)
        if (n == 1 and groups and (dim < kept) == (dim - 1 < kept)) or (
            groups and groups[-1] == has and dim != kept
        ):
            counts[-1] += 1
        else:
            groups.append(has)
            counts.append(1)
    if not groups or (reduced and sum(counts[:-1]) != kept):
        return None
    return _written(parts, len(operands), results, groups, counts, types, bool(reduced))


def _written(
    parts: Sequence[Part],
    operands: int,
    results: Sequence[int],
    groups: Sequence[tuple[bool, ...]],
    counts: list[int],
    types: Sequence[Dtype],
    reduced: bool,
) -> tuple[str, int, list[int]] | None:
    """Write the function; `groups` say for each loop which operands and results have its dims."""
    last = len(groups) - 1
    values: dict[int, _Value] = {
        n: _Value(types[n], f"a{n}[j]" if groups[last][n] else f"s{n}", groups[last][n])
        for n in range(operands)
    }
    numbers = {place: operands + n for n, place in enumerate(results)}
    loops: dict[int, list[str]] = {}
    between: dict[int, list[str]] = {}
    sums: dict[int, list[tuple[str, Dtype, int, Part]]] = {}
    rows: dict[int, int] = {}
    uses = _levels(parts, values)
    for part in parts:
        here = values[part.place] = uses[part.place]
        given: list[str] = []
        types_of = list(part.types)
        for at, number in part.operands:
            t = types_of[len(given)]
            if at is None:
                written = literal(number, t)
                if written is None:
                    return None
                given.append(written)
                continue
            x = values[at]
            level = here.level - part.reduces
            if at >= operands and x.full and x.level < level:
                given.append(f"r{numbers[at]}[j]" if at in numbers else f"w{rows[at]}[j]")
            else:
                given.append(x.text)
        if part.reduces:
            x = values[part.operands[0][0]]  # type: ignore[index]
            if part.name not in _REDUCTIONS or here.dtype not in TYPES or x.dtype.kind == "b":
                return None
            if part.name in ("max", "min") and x.dtype != here.dtype:
                return None
            sums.setdefault(here.level - 1, []).append((given[0], x.dtype, part.place, part))
            continue
        known = [number for _, number in part.operands]
        text = expression(part.name, given, part.types, part.dtype, known)
        if text is None:
            return None
        line = f"const {TYPES[part.dtype]} {here.text} = {text};"
        if not here.full:
            between.setdefault(here.level, []).append(line)
            continue
        lines = loops.setdefault(here.level, [])
        lines.append(line)
        later = any(
            at == part.place and uses[other.place].level - other.reduces > here.level
            for other in parts
            for at, _ in other.operands
        )
        if part.place not in numbers and later:
            rows[part.place] = len(rows)
            lines.append(f"w{rows[part.place]}[j] = {here.text};")
        if part.place in numbers:
            lines.append(f"r{numbers[part.place]}[j] = {here.text};")
    body = []
    for level in range(1 + max(value.level for value in values.values())):
        body += between.get(level, [])
        body += _loop(loops.get(level, []), sums.get(level, []), last)
    for place, n in numbers.items():
        if not groups[last][n]:
            body.append(f"*r{n} = {values[place].text};")
        elif not values[place].full:
            body.append(f"for (int64_t j = 0; j < n{last}; j++) r{n}[j] = {values[place].text};")
    head = _head(groups, types, operands, {slot: values[at].dtype for at, slot in rows.items()})
    opened = [f"for (int64_t i{n} = 0; i{n} < n{n}; i{n}++) {{" for n in range(last)]
    sizes = [f"const int64_t n{n} = n[{n}];" for n in range(len(groups))]
    lines = [
        "void region(char **p, const int64_t *n, char *rows) {",
        *sizes, *opened, *head, *body, *["}"] * last, "}",
    ]  # fmt: skip
    return PRELUDE + "\n".join(lines) + "\n", len(rows), counts


def _head(
    groups: Sequence[tuple[bool, ...]],
    types: Sequence[Dtype],
    operands: int,
    rows: dict[int, Dtype],
) -> list[str]:
    """Return where arrays are, outside of the innermost loops; `rows` are those between loops."""
    last, head = len(groups) - 1, []
    for n, own in enumerate(types):
        name, fixed = ("a", "const ") if n < operands else ("r", "")
        t, at = TYPES[own], _start(groups, n)
        head.append(f"{fixed}{t} *restrict {name}{n} = ({fixed}{t} *)p[{n}] + {at};")
        if n < operands and not groups[last][n]:
            head.append(f"const {t} s{n} = *a{n};")
    for slot, own in rows.items():
        t = TYPES[own]
        head.append(f"{t} *restrict w{slot} = ({t} *)(rows + {slot} * n{last} * 8);")
    return head


_REDUCTIONS = ("sum", "mean", "max", "min")


def _levels(parts: Sequence[Part], values: dict[int, _Value]) -> dict[int, _Value]:
    """Return each value: which innermost loop makes it, and whether it differs along that."""
    found = dict(values)
    for part in parts:
        known = [found[at] for at, _ in part.operands if at is not None]
        level = max((x.level for x in known), default=0)
        full = any(x.full for x in known) and not part.reduces
        if part.reduces:
            level += 1
        found[part.place] = _Value(part.dtype, f"v{part.place}", full, level)
    return found


def _start(groups: Sequence[tuple[bool, ...]], number: int) -> str:
    """Return where in an array the innermost loop starts."""
    last = len(groups) - 1
    terms = []
    for n in range(last):
        if groups[n][number]:
            inner = [f"n{m}" for m in range(n + 1, last + 1) if groups[m][number]]
            terms.append(" * ".join([f"i{n}", *inner]))
    return " + ".join(terms) or "0"


def _loop(lines: list[str], sums: Sequence[tuple[str, Dtype, int, Part]], last: int) -> list[str]:
    """Return an innermost loop, and what it reduces."""
    if not lines and not sums:
        return []
    if not sums:
        return ["#pragma omp simd", f"for (int64_t j = 0; j < n{last}; j++) {{", *lines, "}"]
    before, block, inside, after, ends, clauses = [], [], [], [], [], []
    for text, own, place, part in sums:
        made, t = TYPES[part.dtype], TYPES[own]
        if part.name in ("sum", "mean"):
            wide = "double" if part.dtype.kind == "f" else "int64_t"
            before.append(f"{wide} t{place} = 0;")
            block.append(f"{made} b{place} = 0;")
            inside.append(f"b{place} += ({made})({text});")
            after.append(f"t{place} += b{place};")
            clauses.append(f"reduction(+:b{place})")
            value = f"t{place} / n{last}" if part.name == "mean" else f"t{place}"
            ends.append(f"const {made} v{place} = ({made})({value});")
            continue
        sign = ">" if part.name == "max" else "<"
        if own.kind == "f":
            least = f"{'-' * (sign == '>')}__builtin_inf()"
        else:
            least = str(literal(getattr(np.iinfo(own), "min" if sign == ">" else "max"), own))
        before += [f"{t} m{place} = {least};", f"int q{place} = 0;"]
        inside += [
            f"const {t} x{place} = {text};",
            f"m{place} = x{place} {sign} m{place} ? x{place} : m{place};",
            f"q{place} |= x{place} != x{place};",
        ]
        clauses += [f"reduction({part.name}:m{place})", f"reduction(|:q{place})"]
        nan = '__builtin_nan("")' if own.kind == "f" else "0"
        ends.append(f"const {made} v{place} = q{place} ? ({made}){nan} : m{place};")
    return [
        *before,
        f"for (int64_t j0 = 0; j0 < n{last}; j0 += {_BLOCK}) {{",
        f"const int64_t j1 = j0 + {_BLOCK} < n{last} ? j0 + {_BLOCK} : n{last};",
        *block,
        f"#pragma omp simd {' '.join(clauses)}",
        "for (int64_t j = j0; j < j1; j++) {",
        *lines,
        *inside,
        "}",
        *after,
        "}",
        *ends,
    ]


def c_kernel(
    compiler: str,
    parts: Sequence[Part],
    operands: Sequence[tuple[Shape, Dtype]],
    results: Sequence[int],
    shape: Shape,
    reduced: int,
) -> Kernel | None:
    """Return the kernel of a region in C; None where there is none.

    Args:
      compiler: its name; empty for none.
      parts: as for `c_source`, and so are the others.
      operands: likewise.
      results: likewise.
      shape: likewise.
      reduced: likewise.
    """
    path = shutil.which(compiler) if compiler else None
    written = c_source(parts, operands, results, shape, reduced) if path else None
    if path is None or written is None:
        return None
    source, rows, counts = written
    function = _compiled(path, source)
    if function is None:
        return None
    made = {part.place: part for part in parts}
    dtypes = [made[place].dtype for place in results]
    small = [made[place].reduced for place in results]
    pointers, sizes = ctypes.c_void_p * (len(operands) + len(results)), ctypes.c_int64 * len(counts)

    def kernel(*blocks: Any, out: Any = None) -> Any:
        own = np.broadcast_shapes(*[block.shape for block in blocks])
        if out is None:
            one = (*own[: len(own) - reduced], *(1,) * reduced)
            outs = [np.empty(one if s else own, t) for s, t in zip(small, dtypes, strict=True)]
        else:
            outs = list(out) if isinstance(out, tuple) else [out]
        if 0 not in own:
            at, lengths = 0, []
            for count in counts:
                lengths.append(math.prod(own[at : at + count]))
                at += count
            arrays = [np.ascontiguousarray(x) for x in (*blocks, *outs)]
            kept = scratch.array(0, (rows * lengths[-1] * 8,), _BYTE).ctypes.data if rows else None
            addresses = [x.__array_interface__["data"][0] for x in arrays]
            function(pointers(*addresses), sizes(*lengths), kept)
        if out is not None:
            return out
        return tuple(outs) if len(outs) > 1 else outs[0]

    return kernel


_BYTE = np.dtype(np.uint8)


@functools.lru_cache(maxsize=4096)
def _compiled(compiler: str, source: str) -> Any:
    """Return the function of a source, compiled unless that was done before; None if it fails."""
    key = "\0".join([source, *_FLAGS, _version(compiler), _processor()])
    name = f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.so"
    try:
        path = Path(cache_home() or Path.home() / ".cache", "gpushard", "kernels", name)
        if not _whole(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryDirectory(dir=path.parent) as place:
                text, made = Path(place, "region.c"), Path(place, "region.so")
                text.write_text(source)
                subprocess.run(
                    [compiler, *_FLAGS, "-o", str(made), str(text)],
                    check=True, capture_output=True, timeout=60,
                )  # fmt: skip
                with made.open("r+b") as file:
                    file.write(hashlib.sha256(file.read()).digest())
                os.replace(made, path)  # at once: another process may be doing the same
        function = ctypes.CDLL(str(path)).region
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # RuntimeError: no home
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").splitlines()
        reason = next((line for line in said if "error" in line), said[0] if said else str(error))
        _log.warning("%s cannot make kernels, NumPy's functions are used: %s", compiler, reason)
        return None
    function.restype, function.argtypes = None, [ctypes.c_void_p] * 3
    return function


def _whole(path: Path) -> bool:
    """Whether a file is there and ends with its checksum: a part of one, mapped, is a crash."""
    data = path.read_bytes() if path.exists() else b""
    return data[-32:] == hashlib.sha256(data[:-32]).digest()


@functools.lru_cache(maxsize=8)
def _version(compiler: str) -> str:
    try:
        said = subprocess.run([compiler, "--version"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.decode(errors="replace").partition("\n")[0]


@functools.lru_cache(maxsize=1)
def _processor() -> str:
    """Return what tells processors apart that run different instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return "".join(sorted({x for x in lines if x.startswith(("flags", "model name", "Features"))}))
