"""Kernels that move units of several elements: every length, and blocks that lie anywhere.

A unit that is not aligned is a fault on a GPU, and none where the processor does not mind. So here
kernels stop at one.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.cuda.kernels import elementwise, fused, reduction, thread_layout, units
from gpushard._runtime.cuda.kernels.batches import THREADS
from gpushard._runtime.cuda.kernels.calls import Calls
from gpushard._runtime.cuda.kernels.division import pack_divisor
from gpushard._runtime.cuda.kernels.elementwise import Signature, Statement
from gpushard._runtime.cuda.kernels.thread_nests import ThreadNest
from gpushard._runtime.nests import Load, Op
from tests.gpu.device import Split, gpu_runtime, needs_gpu
from tests.runtime.nests.dealt_nests import dealt, op, statements

pytestmark = needs_gpu

CHECKED = "if (!begins_at(at)) __trap();\n    "


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A driver whose kernels stop at units that are not aligned."""
    text = units.SOURCE
    for line in "const Whole whole =", "Whole whole;\n":
        assert f"{{\n    {line}" in text
        text = text.replace(f"{{\n    {line}", f"{{\n    {CHECKED}{line}")
    assert text.count(CHECKED) == 2
    monkeypatch.setattr(units, "SOURCE", text)
    with gpu_runtime(split=Split(1, False)):
        runtime: Any = gs.devices()[0].runtime
        yield runtime.backend._driver


class Memory:
    """A block of memory that is full of a number, with arrays at places of the test's choice."""

    def __init__(self, nbytes: int) -> None:
        self.cupy: Any = importlib.import_module("cupy")
        self.wanted = np.full(nbytes, 0x5A, np.uint8)
        self.raw = self.cupy.full(nbytes, 0x5A, np.uint8)
        assert self.raw.data.ptr % 256 == 0
        self.end = 0

    def array(self, value: Any, shift: int, *, given: bool) -> int:
        """Return the address of an array so many elements behind a multiple of 64 bytes.

        Args:
          value: what it is given, or what is wanted of it.
          shift: how many.
          given: whether it is written now.
        """
        start = -(-self.end // 64) * 64 + shift * value.itemsize
        self.end = start + value.nbytes
        data = np.frombuffer(value.tobytes(), np.uint8)
        self.wanted[start : self.end] = data
        if given:
            self.raw[start : self.end] = self.cupy.asarray(data)
        return int(self.raw.data.ptr) + start

    def check(self) -> None:
        """Check that all of it is what is wanted, and that nothing else was written."""
        found = self.cupy.asnumpy(self.raw)
        wrong = np.flatnonzero(found != self.wanted)
        assert not len(wrong), (len(wrong), wrong[:8])


def launch(
    driver: Any,
    name: str,
    text: str,
    signature: Signature,
    counts: Sequence[int],
    grid: tuple[int, int],
    places: Sequence[int],
    numbers: Sequence[Any] = (),
) -> None:
    """Compile a kernel and launch it on some addresses."""
    stream = driver.stream(0)
    kernel = driver._kernels.get((0, text)) or driver._compile(0, (0, text), name, text)
    nothing: Any = None
    calls = Calls(
        driver, nothing, stream, kernel, signature, (), counts, grid, together=False
    )  # fmt: skip
    runtime = importlib.import_module("cupy").cuda.runtime
    runtime.deviceSynchronize()  # blocks were written on another stream
    calls.launch_on(stream, places, numbers)
    runtime.deviceSynchronize()


def values(dtype: Any, count: int) -> Any:
    return (np.random.default_rng(count).integers(0, 7, count)).astype(dtype)


TYPES = [
    ("??", "?"), ("bb", "b"), ("HH", "H"), ("ee", "e"), ("ff", "f"), ("dd", "d"), ("FF", "F"),
    ("DD", "D"), ("bf", "f"), ("ff", "?"), ("bd", "b"), ("DD", "?"), ("eb", "d"), ("B", "e"),
]  # fmt: skip
"""Types of operands and results."""


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("operands", "result"), TYPES)
def test_elementwise_kernels_of_every_length_and_place(
    driver: Any, operands: str, result: str, wide: bool
) -> None:
    types, made = tuple(map(np.dtype, operands)), np.dtype(result)
    text = "out0 = out0_type(in0 + in1)" if len(types) > 1 else "out0 = out0_type(in0)"
    if result == "?":
        text = "out0 = in0 == in1"
    signature = Signature(types, (), (made,), 60, wide)
    each = signature.each
    assert each == 16 // max(x.itemsize for x in (*types, made))
    lengths = [0, 1, each - 1, each, each + 1, 3 * each + 1, THREADS - 1]
    lengths += [THREADS * each + more for more in (-each, -1, 0, 1, each)]
    lengths += [2 * THREADS * each + more for more in (-1, 0, 1)]
    arrays = len(types) + 1
    shifts = [(0,) * arrays]
    shifts += [tuple(int(n == at) for n in range(arrays)) for at in range(arrays)]
    shifts += [(each // 2,) * arrays, (each,) * arrays, (1,) * arrays]
    cases = [*itertools.product(lengths, shifts)]
    for first in range(0, len(cases), signature.calls):
        some = cases[first : first + signature.calls]
        memory, places = Memory(len(some) * arrays * (2 * THREADS * each + 99) * 16 + 4096), []
        for length, shift in some:
            given = [values(dtype, length) for dtype in types]
            with np.errstate(all="ignore"):
                want = given[0] if len(types) == 1 else sum(given[1:], given[0])
                want = given[0] == given[1] if result == "?" else want.astype(made)
            every = [*given, want]
            places.append(
                [
                    memory.array(value, at, given=n < len(types))
                    for n, (value, at) in enumerate(zip(every, shift, strict=True))
                ]
            )
        counts = [length for length, _ in some]
        grid = max(1, -(-max(counts) // (THREADS * each))), len(some)
        source = elementwise.source(Statement(text, "", types, (made,)), signature)
        argument = [place for array in zip(*places, strict=True) for place in array]
        spare = counts + [0] * (signature.calls - len(counts))
        launch(driver, "elementwise", source, signature, spare, grid, argument)
        memory.check()


def test_numbers_have_no_part_in_how_blocks_lie(driver: Any) -> None:
    byte, single = np.dtype(np.int8), np.dtype(np.float32)
    signature = Signature((byte, single), (1,), (byte,), 1, False)
    assert signature.each == 16
    text = "out0 = out0_type(in0 + in1)"
    source = elementwise.source(Statement(text, "", (byte, single), (byte,)), signature)
    for shift in 0, 3:
        memory, value = Memory(1 << 14), values(byte, 5000)
        places = [
            memory.array(value, shift, given=True), memory.array(value + 3, shift, given=False),
        ]  # fmt: skip
        launch(driver, "elementwise", source, signature, [5000], (2, 1), places, [single.type(3)])
        memory.check()


def copied(dims: Sequence[Any], operands: Sequence[np.dtype[Any]]) -> ThreadNest:
    """Return a sum of blocks that are read along some loops, as (dims, starts, more) each."""
    loops = 1 + max(n for own, _, _ in dims for n in own if n is not None)
    every = tuple(range(loops))
    loads = [Load(n, t, *own) for n, (own, t) in enumerate(zip(dims, operands, strict=True))]
    result = np.result_type(*operands)
    ops, last = list[Op](), 0
    for n in range(1, len(loads)):
        of = (operands[0] if n == 1 else result), operands[n]
        ops.append(op("add", (last, n), of, result, every))
        last = len(loads) + len(ops) - 1
    return dealt(loads, ops, [(last, every)], loops)


DENSE = ((0,), (0,), (0,))
LOADS: dict[str, tuple[list[Any], list[tuple[int, ...]]]] = {
    "one dim": (
        [DENSE, DENSE], [(0,), (1,), (15,), (16,), (257,), (4095,), (4096,), (4097,), (8200,)],
    ),
    "a part of one dim": ([DENSE, ((0,), (16,), (21,))], [(1,), (16,), (4097,)]),
    "two dims": (
        [((0, 1), (0, 0), (0, 0)), ((1,), (0,), (0,))],
        [(3, 16), (300, 16), (5, 48), (1, 4096), (129, 32), (0, 16)],
    ),
    "parts of two dims": (
        [((0, 1), (1, 16), (2, 16)), ((0, None), (0, 2), (0, 3))], [(3, 16), (300, 16), (5, 4112)],
    ),
    "parts of rows that begin anywhere": (
        [((0, 1), (0, 16), (2, 21)), ((0, 1), (0, 0), (0, 0))], [(3, 16), (300, 16), (5, 4112)],
    ),
    "rows of other lengths": (
        [((0, 1), (0, 0), (0, 0)), ((1,), (0,), (0,))], [(3, 7), (300, 17), (5, 4099), (700, 1)],
    ),
    "three dims": (
        [((0, 1, 2), (0, 0, 0), (0, 0, 0)), ((0, None, 2), (0, 0, 0), (0, 0, 0)),
         ((1, None), (0, 0), (0, 0))],
        [(3, 5, 16), (17, 9, 48), (2, 1, 16)],
    ),
    "transposed": (
        [((1, 0), (0, 0), (0, 0)), ((0, 1), (0, 0), (0, 0))],
        [(3, 16), (16, 16), (300, 16), (16, 300), (17, 33), (64, 64), (0, 20)],
    ),
    "transposed with others": (
        [((2, 0, 1), (0, 0, 0), (0, 0, 0)), ((0, 1, 2), (0, 0, 0), (0, 0, 0))],
        [(3, 16, 16), (17, 40, 35), (2, 64, 16), (1, 15, 40)],
    ),
}  # fmt: skip
"""How operands are read, and the lengths of loops."""


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("types", ["bb", "ee", "ff", "fb", "dd", "DD", "?d"])
@pytest.mark.parametrize("name", LOADS)
def test_fused_kernels_of_every_length_and_place(
    driver: Any, name: str, types: str, wide: bool
) -> None:
    reads, shapes = LOADS[name]
    operands = [np.dtype(types[n % len(types)]) for n in range(len(reads))]
    one = copied(reads, operands)
    (result,) = one.nest.result_types
    signature = one.signature(1, wide=wide)
    sums = statements(one, "out0 = out0_type(in0 + in1)")
    seen = set()
    for shape in shapes:
        way = thread_layout.threads(one, [shape])
        seen.add(way.each)
        if name == "rows of other lengths":  # the kernel decides, too
            way = dataclasses.replace(way, each=units.elements_of([*operands, result]))
        dense = len(shape) - 2  # the last dim of what is read across others
        long = min(shape[dense if name == "transposed with others" else 0], shape[-1]) >= 16
        assert (way.patched is not None) == (name[:5] == "trans" and long)
        source = fused.source(one, signature, sums, way)
        assert source is not None
        grid = max(1, way.blocks_of(shape)), 1
        blocks, want = [], None
        for (dims, starts, more), dtype in zip(reads, operands, strict=True):
            read = [1 if n is None else shape[n] for n in dims]
            extents = [n + beyond for n, beyond in zip(read, more, strict=True)]
            block = values(dtype, int(np.prod(extents))).reshape(extents)
            part = block[tuple(slice(at, at + n) for at, n in zip(starts, read, strict=True))]
            order = [n for n in dims if n is not None]
            part = part.reshape([shape[n] for n in order]).transpose(np.argsort(order))
            part = part.reshape([shape[n] if n in order else 1 for n in range(len(shape))])
            blocks.append(block)
            want = part if want is None else (want + part).astype(result)
        assert want is not None
        want = np.ascontiguousarray(np.broadcast_to(want, shape)).astype(result)
        for shift in [(0,) * 4, (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (16,) * 4]:
            memory = Memory(sum(x.nbytes + 400 for x in (*blocks, want)))
            places = [memory.array(x, at, given=True) for x, at in zip(blocks, shift, strict=False)]
            places.append(memory.array(want, shift[len(blocks)], given=False))
            counts = list(shape) if wide else list(map(pack_divisor, shape))
            launch(driver, "fused", source, signature, counts, grid, places)
            memory.check()
    units_known = name[:5] != "trans" and name != "rows of other lengths" and types != "DD"
    assert (max(seen) > 1) == units_known, seen


LENGTHS = (32, 33, 48, 63, 64, 100, 127, 128, 129, 1000, 1024, 2044, 2045, 2048, 8192, 1 << 14)
NAMED: dict[str, Any] = {
    "sum": np.sum, "prod": np.prod, "any": np.any, "all": np.all, "amin": np.min, "amax": np.max,
}  # fmt: skip


@pytest.mark.parametrize("letter", ["?", "b", "H", "i", "q", "e", "f", "d", "F", "D"])
@pytest.mark.parametrize("name", NAMED)
def test_reductions_of_every_length_and_place(driver: Any, name: str, letter: str) -> None:
    given = np.dtype(letter)
    result = NAMED[name](np.ones(1, given)).dtype
    signature = Signature((given,), (), (result,), 2, False, reduction.LENGTHS)
    source = reduction.source(name, signature)
    if source is None:
        assert name in ("amin", "amax") and given.kind == "c"
        return
    for length in LENGTHS:
        power = reduction.power_of(length, given)
        together = THREADS >> power
        bits = set[bytes]()
        for rows, shift in [(1, 0), (together, 1), (together + 3, 0), (together + 3, 1), (3, 5)]:
            rng, every = np.random.default_rng(length), []
            for n in rows, 2:  # two calls
                part = rng.integers(-3 * (letter not in "?H"), 4, (n, length))
                part = part + (0.3 if given.kind in "fc" and name == "sum" else 0)
                if name == "prod":
                    part = part % 2 * 2 - 1 if letter not in "?H" else part % 2
                if name in ("any", "all"):
                    part = np.where(rng.integers(0, 2 * length, part.shape), name == "all", part)
                every.append(part.astype(given))
            if given.kind == "f" and name[:2] == "am":
                every[0][-1, -1] = every[1][0, 0] = np.nan
            exact = not (given.kind in "fc" and name == "sum")
            with np.errstate(all="ignore"):
                want = [NAMED[name](x, axis=1).astype(result) for x in every]
            memory = Memory(
                sum(x.nbytes + y.nbytes + 999 for x, y in zip(every, want, strict=True))
            )
            places = [memory.array(x, shift, given=True) for x in every]
            places += [memory.array(x, shift, given=False) for x in want]
            grid = max(1, -(-max(rows, 2) // together)), 2
            launch(
                driver, "reduction", source, signature,
                [length, length, rows, 2, power, power], grid, places,
            )  # fmt: skip
            found = memory.cupy.asnumpy(memory.raw)
            for place, wanted in zip(places[2:], want, strict=True):
                start = place - int(memory.raw.data.ptr)
                end = start + wanted.nbytes
                rough = 0.0 if exact else (2e-2 if letter == "e" else 1e-4)
                got = found[start:end].view(result)
                np.testing.assert_allclose(got, wanted, rtol=rough, atol=rough * length)
                if given.kind in "fc":  # NaNs and zeros have several patterns
                    memory.wanted[start:end] = found[start:end]
            bits.add(found[places[2] - int(memory.raw.data.ptr) :][: result.itemsize].tobytes())
            memory.check()
        assert exact or len(bits) == 1, "the same row, with others or elsewhere"
