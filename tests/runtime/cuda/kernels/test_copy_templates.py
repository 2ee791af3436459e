"""Templates describe what NumPy's own indexing selects, wherever the operands lie."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._runtime.copy_engine import by_engine
from gpushard._runtime.copy_phase import Copy, Phase
from gpushard._runtime.cuda.kernels.copy_templates import make_template
from gpushard._runtime.host.keep_alive import address
from gpushard._runtime.strided_view import View, dense_strides
from tests.runtime.cuda.fake_driver import FakeDriver
from tests.share import seeds


def random_index(source: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    entries: list[Any] = []
    for size in shape:
        if size and source.random() < 0.2:
            entries.append(source.randrange(size))
            continue
        step = source.choice((1, 1, 2, -1, -3))
        ends = [source.choice((None, source.randint(0, size))) for _ in range(2)]
        entries.append(slice(*ends, step))
    return (*entries[: source.randint(0, len(entries))], ...)


@given(st.integers(0, 10**9))
def test_views_are_numpys(seed: int) -> None:
    source = random.Random(seed)
    shape = tuple(source.randint(0, 5) for _ in range(source.randint(0, 4)))
    array = np.zeros(shape, source.choice(("u1", "i4", "c16")))
    index = random_index(source, shape)
    part = array[index]
    if part.size:
        view = view_of(part, array)
        assert address(view.of(array)) == address(part) and view.of(array).strides == part.strides
        assert view.is_dense(array.itemsize) == part.flags.c_contiguous
        found = view.index_in(array.shape, array.itemsize)
        assert found is not None
        again = array[found]
        assert (address(again), again.shape) == (address(part), part.shape)
        assert all(
            a == b or n == 1
            for a, b, n in zip(again.strides, part.strides, part.shape, strict=True)
        )


def view_of(part: np.ndarray, operand: np.ndarray) -> View:
    """The part that NumPy's indexing gave of an operand."""
    return View(address(part) - address(operand), part.shape, part.strides)


@given(st.lists(st.integers(0, 5), max_size=4), st.sampled_from(["u1", "f8", "c16"]))
def test_dense_strides_are_numpys(shape: list[int], dtype: str) -> None:
    array = np.zeros(shape, dtype)
    if array.size:
        assert dense_strides(array.shape, array.itemsize) == array.strides


def random_phase(source: random.Random) -> tuple[Phase, list[np.ndarray], np.dtype]:
    """Copies of single rows between operands: what is written does not overlap."""
    ndim, dtype = source.randint(1, 3), np.dtype(source.choice(("u1", "i2", "i4", "f8", "c16")))
    order = source.choice((None, tuple(source.sample(range(ndim), ndim))))
    operands = []
    moves: list[Copy] = []
    for target in range(0, 2 * source.randint(1, 40), 2):
        sizes = tuple(source.randint(1, 6) for _ in range(ndim))
        cut = tuple(slice(source.randrange(n), n) for n in sizes)
        wanted = np.zeros(sizes)[cut].shape
        stored = list(wanted)
        if order is not None:
            for position, dim in enumerate(order):
                stored[dim] = wanted[position]
        room = tuple(n + source.randint(0, 2) for n in stored)
        within = tuple(slice(r - n, r) for n, r in zip(stored, room, strict=True))
        operands += [np.zeros(sizes, dtype), source_data(source, room, dtype)]
        read = operands[-1][within]
        read = read if order is None else read.transpose(order)
        to, of = view_of(operands[-2][cut], operands[-2]), view_of(read, operands[-1])
        moves.append((target, to, target + 1, of, source.randint(0, 2)))
    shapes = [operand.shape for operand in operands]
    return Phase(tuple(moves), dtype.itemsize, shapes), operands, dtype


def source_data(source: random.Random, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    data = np.random.default_rng(source.randrange(1000)).integers(0, 100, shape)
    return data.astype(dtype)


@pytest.mark.parametrize("seed", seeds(40))
@pytest.mark.parametrize("engines", [False, True])
def test_pieces_and_spans_copy_what_indexing_copies(seed: int, engines: bool) -> None:
    phase, layout, dtype = random_phase(random.Random(seed))
    template = make_template(
        phase,
        layout,
        lambda n, domain, dense: engines and by_engine(n, dense=dense, crosses=domain > 0, least=1),
    )
    driver = FakeDriver()
    stream = driver.stream(0)
    for shift in range(2):  # the same template, operands elsewhere
        operands = []
        for array in layout:
            place = driver.array(0, driver.malloc(0, array.nbytes), 0, array.shape, dtype, None)
            place[...] = array + (shift if array.any() else 0)
            operands.append(place)
        expected = [np.asarray(array).copy() for array in operands]
        for to, of, _ in phase.copies(expected):
            np.copyto(to, of)
        bases = np.array([address(operands[n]) for n in template.operands], np.uint64)
        if len(template.pieces.table):
            for start in range(len(template.pieces.table)):
                located = template.add_addresses(bases)
                one = type(located)(located.table[start : start + 1], np.array([0, 1], np.uint32))
                driver.launch_pieces(one, stream)
        for span in template.spans:
            driver.copy(
                address(operands[span.target]) + span.target_offset,
                address(operands[span.source]) + span.source_offset,
                span.nbytes,
                stream,
            )
        driver.synchronize_gpu(0)
        for n, value in enumerate(expected):
            assert np.array_equal(np.asarray(operands[n]), value)
    assert bool(template.spans) <= engines
    moved = {d: 0 for d in phase.links}
    for to, _, domain in phase.copies(layout):
        moved[domain] += to.nbytes
    assert moved == phase.links


def test_a_box_that_leaves_its_operand_is_refused() -> None:
    operands = [np.zeros(4), np.zeros((3, 4))]
    whole, shapes = View(0, (4,), (8,)), [(4,), (3, 4)]
    inside, outside = (
        Phase(((0, whole, 1, View(32 * row, (4,), (8,)), 0),), 8, shapes) for row in (2, 3)
    )
    make_template(inside, operands, lambda *_: False)
    with pytest.raises(AssertionError, match="outside"):
        make_template(outside, operands, lambda *_: False)


@pytest.mark.parametrize(
    ("nbytes", "dense", "crosses", "least", "engine"),
    [
        (1 << 20, True, True, 1 << 20, True),
        ((1 << 20) - 1, True, True, 1 << 20, False),
        (1 << 30, True, False, 1 << 20, False),
        (1 << 30, False, True, 1 << 20, False),
        (1 << 30, True, True, 0, False),
    ],
)
def test_the_crossover(nbytes: int, dense: bool, crosses: bool, least: int, engine: bool) -> None:
    assert by_engine(nbytes, dense=dense, crosses=crosses, least=least) is engine
