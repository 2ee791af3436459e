"""Kernels at the edges of 32 bits, of grids and of arguments, by shapes alone.

`tests/gpu/test_wide_indices.py` runs kernels that count with 64 bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._runtime.backend import ROOM, Reducing
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.cuda.kernels import elementwise, fused, limits, reduction, thread_layout
from gpushard._runtime.cuda.kernels.batches import MOST_UNITS, THREADS, Allocation
from gpushard._runtime.cuda.kernels.copy_pieces import BASES, BATCH, Box, make_pieces
from gpushard._runtime.cuda.kernels.elementwise import MOST_CALLS, Signature, Statement
from gpushard._runtime.cuda.kernels.fills import FILL_BATCH, Filling, make_fills
from gpushard._runtime.cuda.kernels.thread_nests import ThreadNest, thread_nest
from gpushard._runtime.nests import Load
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.testing.runtime import using
from tests.runtime.cuda.fake_driver import FakeDriver
from tests.runtime.cuda.kernels.test_thread_nests import summed
from tests.runtime.nests.dealt_nests import dealt, op, statements
from tests.share import examples

BYTE, DOUBLE = np.dtype(np.int8), np.dtype(np.float64)
EDGES = [
    (2**31 - 2, False), (2**31 - 1, False), (2**31, True), (2**31 + 1, True),
    (2**32 - 1, True), (2**32, True), (2**33 + 5, True),
]  # fmt: skip
"""Numbers that a kernel comes to, and whether it counts with 64 bits then."""


class Texts(FakeDriver):
    """A driver that has every kernel, and keeps the text of each and the grids."""

    def __init__(self) -> None:
        super().__init__(1)
        self.text = ""
        self.grids: list[tuple[int, int]] = []

    def elementwise(self, gpu: int, function: Any, signature: Signature) -> Any:
        types = signature.operands
        text = "out0 = " + " + ".join(f"in{n}" for n in range(len(types)))
        self.text = elementwise.source(Statement(text, "", types, signature.results), signature)
        return "elementwise"

    def reduction(self, gpu: int, name: str, signature: Signature) -> Any:
        self.text = reduction.source(name, signature) or ""
        return "reduction"

    def fused(
        self, gpu: int, dealt: ThreadNest, signature: Signature, way: thread_layout.Threads
    ) -> Any:
        self.text = fused.source(dealt, signature, statements(dealt), way) or ""
        return "fused"

    def multiplies(self, gpu: int, function: Any, dtype: Any) -> bool:
        return bool(function is np.matmul)

    def launcher(self, kernel: Any, grid: tuple[int, int], parameters: int, stream: Any) -> Any:
        self.grids.append(grid)
        return lambda: None

    @property
    def is_wide(self) -> bool:
        """Whether the last kernel counts with 64 bits."""
        (found,) = re.findall(r"typedef unsigned (int|long long) Index;", self.text)
        return bool(found == "long long")


@pytest.fixture
def driver() -> Iterator[Texts]:
    made, settings = Texts(), Settings(backend="cuda", partitions=1)
    with using(Runtime(settings, CudaBackend(settings, made))):
        yield made


def calls(
    function: Any,
    shapes: Sequence[Sequence[int]],
    operands: Sequence[Any] = (BYTE,),
    results: Sequence[Any] = (BYTE,),
    blocks: Sequence[Any] = (),
) -> Any:
    """Ask the backend for calls of a function in one launch."""
    device = gs.devices()[0]
    runtime: Any = device.runtime
    batches = [(device.stream, shapes)]
    return runtime.backend.calls(function, operands, (), results, batches, blocks, together=False)


# Elementwise functions.


@pytest.mark.parametrize(("count", "wide"), EDGES)
@pytest.mark.parametrize("others", [(), (7,), (2**31 - 1, 1)])
def test_elementwise_kernels_count_elements(
    driver: Texts, count: int, wide: bool, others: tuple[int, ...]
) -> None:
    counts = (*others, count)
    assert calls(np.negative, [(n,) for n in counts]) is not None
    assert driver.is_wide == wide
    assert driver.grids == [(-(-max(counts) // (16 * THREADS)), len(counts))]


@pytest.mark.parametrize("together", [False, True])
def test_results_are_together_if_they_are_to_be(driver: Texts, together: bool) -> None:
    device = gs.devices()[0]
    runtime: Any = device.runtime
    batches = [(device.stream, [(5,), (7,)])]
    (made,) = runtime.backend.calls(
        np.negative, (BYTE,), (), (BYTE,), batches, (), together=together
    )
    assert (made._offsets is not None) == together


@pytest.mark.parametrize("operands", range(1, 10))
@pytest.mark.parametrize("count", [1, 8, 32, MOST_CALLS])
def test_arguments_of_elementwise_kernels_are_within_4_kib(
    driver: Texts, operands: int, count: int
) -> None:
    addresses, counts, number = 8 * (operands + 1) * count, 8 * count, 16
    fits = -(-(addresses + counts) // 16) * 16 + number <= 4096
    found = calls(np.add, [(5,)] * count, (BYTE,) * operands)
    assert (found is not None) == fits
    assert fits == ((operands, count) not in [(n, MOST_CALLS) for n in range(6, 10)])


@pytest.mark.parametrize(("blocks", "fits"), [(2**31 - 1, True), (2**31, False)])
def test_a_grid_of_elements_has_an_end(driver: Texts, blocks: int, fits: bool) -> None:
    single, whole = np.dtype(np.complex128), [(blocks * THREADS,)]  # a thread has one of 16 bytes
    assert (calls(np.negative, whole, (single,), (single,)) is not None) == fits
    assert driver.grids == [(blocks, 1)] * fits


def test_a_grid_is_long_in_one_direction_only() -> None:
    assert limits.grid_of(65_536, 65_535) == (65_536, 65_535)
    assert limits.grid_of(1, 65_536) is None


# Reductions.


@pytest.mark.parametrize(
    ("length", "together"), [(64, 256), (128, 128), (256, 64), (2048, 8), (1 << 14, 1)]
)
def test_a_block_of_threads_has_the_rows_that_its_threads_are_for(
    driver: Texts, length: int, together: int
) -> None:
    def sum() -> None:
        """A function of this name."""

    function, last = Reducing(sum, (-1,), {}), together * (2**31 - 1)
    for rows, grids in ((last, [(2**31 - 1, 1)]), (last + 1, []), (together + 1, [(2, 1)])):
        driver.grids.clear()
        found = calls(function, [(rows,)], blocks=[(rows, length)])
        assert (found is not None) == bool(grids)
        assert driver.grids == grids
        assert "row * length;" in driver.text and "const unsigned long long row =" in driver.text


# Products.


@pytest.mark.parametrize(("n", "wide"), EDGES)
@pytest.mark.parametrize("side", range(3))
def test_a_call_of_cublas_has_sizes_of_32_bits(
    driver: Texts, side: int, n: int, wide: bool
) -> None:
    """`namespace.matmul` cuts larger ones into parts."""
    rows, depth, columns = (n if side == at else 3 for at in range(3))
    blocks = (rows, depth), (depth, columns)
    made = calls(np.matmul, [(rows, columns)], (DOUBLE,) * 2, (DOUBLE,), blocks)
    assert (made is None) == wide


# Functions that become one.


def reading(load: Load, dims: Sequence[int | None], *, adding: bool = False) -> ThreadNest:
    """Return a nest that reads a block and writes that, or what it adds up to along a loop."""
    loops = frozenset(n for n in load.dims if n is not None)
    kept = frozenset(n for n in dims if n is not None)
    copy = op("copy", (0,), (BYTE,), BYTE, kept)
    add = op("sum", (0,), (BYTE,), BYTE, kept, tuple(loops - kept))
    one, count = add if adding else copy, max(loops | kept) + 1
    return dealt([load], [one], [(1, tuple(dims))], count, along=loops - kept)


def numbered(kind: str, last: int) -> tuple[ThreadNest, tuple[int, ...]]:
    """Return a nest and lengths of its loops such that one number alone is this large."""
    whole = (0, 0)
    if kind == "rows":
        return reading(Load(0, BYTE, (None,), (0,), (0,)), (0,)), (last,)
    if kind == "elements of a row":
        return reading(Load(0, BYTE, (1,), (0,), (0,)), (0,), adding=True), (1, last)
    if kind == "the start of a load":
        return reading(Load(0, BYTE, (0,), (last - 3,), (last + 9,)), (0,)), (4,)
    if kind == "the last row of a load":
        return reading(Load(0, BYTE, (0, 1), whole, (0, last - 3)), (0, 1)), (2, 2)
    if kind == "the row of a load":
        return reading(Load(0, BYTE, (None, 0), (1, 0), (2, last - 17)), (0,)), (9,)
    assert kind == "a stride"
    return reading(Load(0, BYTE, (0, None), whole, (0, last - 1)), (0,)), (1,)


KINDS = (
    "rows", "elements of a row", "the start of a load", "the last row of a load",
    "the row of a load", "a stride",
)  # fmt: skip


@pytest.mark.parametrize(("last", "wide"), EDGES)
@pytest.mark.parametrize("kind", KINDS)
def test_fused_kernels_count_to_the_largest_number(
    driver: Texts, kind: str, last: int, wide: bool
) -> None:
    one, lengths = numbered(kind, last)
    way = thread_layout.threads(one, [lengths])
    assert thread_layout.largest_index(one, way, lengths) == last
    for shapes in [lengths], [(1,) * len(lengths), lengths]:
        assert calls(one, shapes) is not None
        assert driver.is_wide == wide


@pytest.mark.parametrize(
    ("rows", "length", "wide"),
    [(2**16, 2**15 - 1, False), (2**16, 2**15, False), (3, 715_827_883, True),
     (2**16, 2**15 + 1, True), (2**16, 2**16, True)],
)  # fmt: skip
def test_fused_kernels_count_to_the_last_element_of_a_result(
    driver: Texts, rows: int, length: int, wide: bool
) -> None:
    """The result is read from two small blocks, and a row of it is added up."""
    loads = (Load(0, BYTE, (0,), (0,), (0,)), Load(1, BYTE, (1,), (0,), (0,)))
    ops = (
        op("add", (0, 1), (BYTE,) * 2, BYTE, {0, 1}),
        op("sum", (2,), (BYTE,), BYTE, {0}, (1,)),
    )
    one = dealt(loads, ops, [(2, (0, 1)), (3, (0,))], 2, along={1})
    assert calls(one, [(rows, length)], (BYTE,) * 2, (BYTE,) * 2) is not None
    assert driver.is_wide == wide


def test_a_narrow_part_of_a_large_block_needs_64_bits(driver: Texts) -> None:
    load = Load(0, BYTE, (0, 1), (0, 5), (0, 32_764))
    one = reading(load, (0, 1))
    assert calls(one, [(131_136, 4)]) is not None and driver.is_wide
    assert "from0[(i0 * (n1 + 32764ull)) + i1]" in driver.text
    assert calls(one, [(65_535, 4)]) is not None and not driver.is_wide
    assert "from0[(i0 * (n1 + 32764)) + i1]" in driver.text and "ull" not in driver.text


def test_literals_are_multiplied_with_64_bits(driver: Texts) -> None:
    """Of `x[:, 5, 7]` with rows of 65,536 by 65,536 elements."""
    one = reading(Load(0, BYTE, (0, None, None), (0, 5, 7), (0, 65_535, 65_535)), (0,))
    assert calls(one, [(4,)]) is not None and driver.is_wide
    assert "batch.at[0 * calls + call] + ((5ull * (1 + 65535ull)) + 7ull);" in driver.text
    assert "from0[i0 * ((1 + 65535ull) * (1 + 65535ull))]" in driver.text


@given(st.data())
@examples(300)
def test_the_largest_number_is_that_of_a_block_of_numbers(data: st.DataObject) -> None:
    loops = data.draw(st.integers(1, 3))
    lengths = tuple(data.draw(st.lists(st.integers(1, 4), min_size=loops, max_size=loops)))
    every = st.sampled_from([None, *range(loops)])
    dims = tuple(data.draw(st.lists(every, max_size=4)))
    more = tuple(data.draw(st.integers(0, 4)) for _ in dims)
    starts = tuple(data.draw(st.integers(0, n)) for n in more)
    read = [1 if n is None else lengths[n] for n in dims]
    extents = [n + beyond for n, beyond in zip(read, more, strict=True)]
    block = np.arange(math.prod(extents), dtype=np.int8 if not dims else np.int64)
    block = block.reshape(extents)
    part = block[tuple(slice(at, at + n) for at, n in zip(starts, read, strict=True))]
    strides = [n // block.itemsize for n in block.strides]
    one = dealt([Load(0, BYTE, dims, starts, more)], [], [(0, (0,))], loops)
    way = thread_layout.Threads((0,), (), False, 1)
    wanted = max(int(part.max()), *strides, lengths[0], 0)
    assert thread_layout.largest_index(one, way, lengths) == wanted


@pytest.mark.parametrize(
    ("rows", "length", "fits"),
    [(16 * THREADS * (2**31 - 1), 1, True), (16 * THREADS * (2**31 - 1) + 1, 1, False),
     (2**31 - 1, 256, True), (2**31, 256, False), (8 * (2**31 - 1), 20, True),
     (8 * (2**31 - 1) + 1, 20, False)],
)  # fmt: skip
def test_a_grid_of_rows_has_an_end(driver: Texts, rows: int, length: int, fits: bool) -> None:
    """A thread has a row or 16, a row a block of threads or the 32 threads of a warp."""
    one = reading(Load(0, BYTE, (0, 1), (0, 0), (0, 0)), (0,), adding=True)
    if length == 1:
        one = reading(Load(0, BYTE, (None,), (0,), (0,)), (0,))
        assert thread_layout.threads(one, [(rows,)]).each == 16
    assert (calls(one, [(rows, length)[: len(one.loops)]]) is not None) == fits
    assert driver.grids == [(2**31 - 1, 1)] * fits


@pytest.mark.parametrize(
    ("rows", "fits"),
    [((1,) * 64, True), ((1, *(2,) * 31), True), ((1, *(2,) * 32), False), ((2, *(1,) * 63), True),
     ((3, *(2,) * 63), True), ((1, *(3,) * 21), False), ((1, *(3,) * 20), True), ((3,), True)],
)  # fmt: skip
def test_counters_of_parts_are_before_what_the_first_call_keeps(
    driver: Texts, rows: tuple[int, ...], fits: bool
) -> None:
    """All calls count in memory of the first one, which has 256 bytes for that in each row."""
    one = thread_nest(summed(3, 9000))
    assert one is not None and one.parts > 1
    made = calls(one, [(n, 9000) for n in rows], (DOUBLE,), (DOUBLE, ROOM))
    blocks_of_threads = max(rows)  # a row has 256 threads
    assert fits == (4 * blocks_of_threads * len(rows) <= 256 * rows[0])
    assert (made is not None) == fits


# Copies and fills of boxes.


def ends(entry: Any, side: str) -> tuple[int, int]:
    """Return where the first and the last byte of an entry lie, as its kernel computes them."""
    extents = entry["extent"].tolist()
    strides = entry["stride" if side == "only" else f"{side}_stride"].tolist()
    units = math.prod(extents)
    assert units <= MOST_UNITS and all(abs(n) < 2**31 for n in strides)
    first = int(entry["target" if side == "only" else side])
    steps = [(n - 1) * stride for n, stride in zip(extents, strides, strict=True)]
    low, high = (sum(pick(0, n) for n in steps) for pick in (min, max))
    return first + low, first + high + int(entry["unit"]) - 1


@pytest.mark.parametrize("count", [edge + more for edge, _ in EDGES for more in (0, 16)])
@pytest.mark.parametrize("step", [1, 3, 2**31 - 1, 2**31, 2**32 + 1])
def test_boxes_are_cut_until_32_bits_count_them(count: int, step: int) -> None:
    """Dense runs of bytes; and few bytes that lie far apart in what is read or filled."""
    few = count if step < 4 else 5
    reach = (few - 1) * step
    memory = Allocation(1 << 20, reach + few + 1)
    there = Allocation(1 << 60, few)
    copied = make_pieces([Box(1 << 60, (1,), there, 1 << 20, (step,), memory, (few,), 1)]).table
    filled = make_fills([Filling(1 << 20, (step,), memory, (few,), b"x")]).table
    sizes = [
        sum(math.prod(x["extent"].tolist()) * int(x["unit"]) for x in table)
        for table in (copied, filled)
    ]
    assert sizes == [few, few]
    for table, side, start, last in (
        (copied, "target", 1 << 60, few - 1),
        (copied, "source", 1 << 20, reach),
        (filled, "only", 1 << 20, reach),
    ):
        found = [ends(entry, side) for entry in table]
        assert min(low for low, _ in found) == start
        assert max(high for _, high in found) == start + last


def test_arguments_of_kernels_of_files_are_within_4_kib() -> None:
    table = 3 * 8 + 8 + BASES.itemsize  # three addresses and a number come before
    assert max(BATCH.itemsize, FILL_BATCH.itemsize, table) <= limits.MOST_ARGUMENT_BYTES == 4096
