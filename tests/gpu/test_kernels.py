"""The kernels on a GPU do what NumPy does, on the random cases of `tests/kernels`.

All memory is allocated to the byte, so that compute-sanitizer sees every miss:

    compute-sanitizer --tool memcheck python3 -m pytest tests/gpu/test_kernels.py
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gpushard._runtime.cuda.driver.driver import Table
from gpushard._runtime.cuda.kernels.batches import THREADS
from gpushard._runtime.cuda.kernels.copy_pieces import (
    BASES,
    ENDS,
    INLINE_PIECES,
    MOST_OPERANDS,
    Pieces,
)
from gpushard._runtime.cuda.kernels.fills import INLINE_FILLS
from gpushard._runtime.cuda.kernels.sources import kernel_source
from tests.gpu.device import needs_gpu
from tests.kernels import boxes, test_fill

pytestmark = needs_gpu

_OFFSET = (1 << 40) - 1
"""The part of a case's address that is not the number of its allocation."""


class Gpu:
    """Exact allocations on GPU 0, and launches on a stream that is not ordered with others."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def put(self, *arrays: np.ndarray) -> list[Any]:
        """Copies of arrays, each with an allocation of its own."""
        made = []
        for array in arrays:
            data = np.frombuffer(array.tobytes(), np.uint8)
            memory = self.cupy.cuda.MemoryPointer(self.cupy.cuda.Memory(max(1, data.nbytes)), 0)
            made.append(self.cupy.ndarray((data.nbytes,), np.uint8, memory))
            if data.nbytes:
                made[-1].set(data)
        self.cupy.cuda.runtime.deviceSynchronize()
        return made

    def get(self, array: Any) -> np.ndarray:
        """The bytes of an array, after all that was launched."""
        self.cupy.cuda.runtime.deviceSynchronize()
        return array.get() if array.nbytes else np.zeros(0, np.uint8)

    def module(self, name: str) -> Any:
        """A source, compiled."""
        return self.cupy.RawModule(code=kernel_source(name), options=("-std=c++17",))

    def launch(self, function: Any, blocks: int, *arguments: Any) -> None:
        """Launch with arrays as addresses, and structs by value."""
        values = [a if isinstance(a, (np.ndarray, np.generic)) else _pointer(a) for a in arguments]
        function((blocks,), (THREADS,), tuple(values), stream=self.stream)


def _pointer(array: Any) -> np.uint64:
    return np.uint64(array.data.ptr)


def relocated(addresses: np.ndarray, memory: list[Any]) -> np.ndarray:
    """Addresses as cases have them, in memory of the GPU."""
    starts = np.array([array.data.ptr for array in memory], np.uint64)
    shift, mask = np.uint64(40), np.uint64(_OFFSET)
    numbers = (addresses >> shift).astype(np.int64) - 1
    return starts[numbers] + (addresses & mask)


@pytest.fixture(scope="module")
def gpu() -> Iterator[Gpu]:
    cupy = pytest.importorskip("cupy")
    cupy.cuda.runtime.setDevice(0)
    yield Gpu(cupy)
    cupy.cuda.runtime.deviceSynchronize()


def test_boxes_are_copied_by_value_and_by_table(gpu: Gpu) -> None:
    from gpushard._runtime.cuda.driver.cupy_driver import CupyDriver

    driver = CupyDriver()
    driver.prepare(0)
    stream = driver.stream(0)
    wrong, met = [], set()
    for seed in range(120):
        case = boxes.random_case(seed)
        pieces, count = case.pieces, len(case.pieces.table)
        met |= boxes.forms(pieces)
        source, by_value, by_table = gpu.put(case.source, case.before, case.before)
        if count <= INLINE_PIECES:
            table = pieces.table.copy()
            table["source"] += np.uint64(source.data.ptr)
            table["target"] += np.uint64(by_value.data.ptr)
            driver.launch_pieces(Pieces(table, pieces.first), stream)
        ends = np.empty(count, ENDS)
        ends["target"], ends["source"] = MOST_OPERANDS - 1, 0
        parts = gpu.put(pieces.table, pieces.first, ends)
        bases = np.zeros((), BASES)
        bases["at"][[0, MOST_OPERANDS - 1]] = source.data.ptr, by_table.data.ptr
        places = Table(*(part.data.ptr for part in parts))
        driver.launch_table(places, pieces, bases, stream)
        if not np.array_equal(gpu.get(by_table), case.expected):
            wrong.append((seed, "table"))
        if count <= INLINE_PIECES and not np.array_equal(gpu.get(by_value), case.expected):
            wrong.append((seed, "value"))
    assert met == boxes.FORMS
    assert wrong == []


def test_boxes_are_filled(gpu: Gpu) -> None:
    module = gpu.module("fill")
    inline, table = (module.get_function(f"fill_boxes_{name}") for name in ("inline", "table"))
    wrong = []
    for seed in range(60):
        case = test_fill.random_case(seed)
        fills, count = case.fills, len(case.fills.table)
        for name in ("inline", "table"):
            if name == "inline" and count > INLINE_FILLS:
                continue
            (memory,) = gpu.put(case.before)
            located = fills.table.copy()
            located["target"] = relocated(located["target"], [memory])
            if name == "inline":
                gpu.launch(inline.kernel, fills.blocks, type(fills)(located, fills.first).inline())
            else:
                entries, first = gpu.put(located, fills.first)
                gpu.launch(table.kernel, fills.blocks, entries, first, np.uint32(count))
            if not np.array_equal(gpu.get(memory), case.expected):
                wrong.append((seed, name))
    assert wrong == []


def test_structs_are_as_large_as_the_kernels_think(gpu: Gpu) -> None:
    code = kernel_source("box_copy") + (
        'extern "C" __global__ void sizes(unsigned* out) {'
        "out[0] = sizeof(Piece); out[1] = sizeof(Batch); out[2] = sizeof(Ends);"
        "out[3] = sizeof(Bases); }"
    )
    function = gpu.cupy.RawModule(code=code, options=("-std=c++17",)).get_function("sizes")
    (out,) = gpu.put(np.zeros(4, np.uint32))
    gpu.launch(function.kernel, 1, out)
    from gpushard._runtime.cuda.kernels.copy_pieces import BATCH, PIECE

    expected = [dtype.itemsize for dtype in (PIECE, BATCH, ENDS, BASES)]
    assert list(struct.unpack("4I", gpu.get(out).tobytes())) == expected
