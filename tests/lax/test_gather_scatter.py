"""`gather` and the functions `scatter...` beside their definitions, over dimension numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.lax import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from tests.lax.calls import Call, check, check_mapped, check_traced, values
from tests.lax.definitions.registry import DTYPES
from tests.share import some

LENGTHS = (4, 3, 5)
MODES = ["clip", "fill", None, *GatherScatterMode]
SCATTERS = ["add", "sub", "mul", "min", "max"]


def _subsets(dims: Any) -> Iterator[tuple[int, ...]]:
    for count in range(len(dims) + 1):
        yield from itertools.combinations(dims, count)


def all_numbers(ndim: int, groups: int) -> Iterator[tuple[Any, ...]]:
    """Give all dimension numbers of operands and indices of so many dims."""
    for collapsed in _subsets(range(ndim)):
        rest = [at for at in range(ndim) if at not in collapsed]
        for batched in _subsets(rest):
            windowed = len(rest) - len(batched)
            starts = [at for at in range(ndim) if at not in batched]
            for of in itertools.permutations(range(groups), len(batched)):
                for count in range(len(starts) + 1):
                    for start_map in itertools.permutations(starts, count):
                        for offset in itertools.combinations(range(groups + windowed), windowed):
                            yield offset, collapsed, start_map, batched, of


NUMBERS = [
    (ndim, groups, numbers)
    for ndim in (1, 2, 3)
    for groups in (0, 1, 2)
    for numbers in all_numbers(ndim, groups)
]
FEW = [each for number, each in enumerate(NUMBERS) if each[0] < 3 or number % 7 == 0]


def operands(
    ndim: int, groups: int, numbers: Any, random: np.random.Generator, beyond: int = 3
) -> tuple[Any, Any, list[int], tuple[int, ...]]:
    """Return an operand, indices, sizes of windows, and the shape of all, at random."""
    offset, collapsed, start_map, batched, of = numbers
    shape = LENGTHS[:ndim]
    batch = [int(random.integers(1, 4)) for _ in range(groups)]
    for at, to in zip(batched, of, strict=True):
        batch[to] = shape[at]
    sizes = [
        1 if at in (*collapsed, *batched) else int(random.integers(random.random() > 0.1, n + 1))
        for at, n in enumerate(shape)
    ]
    indices = np.empty((*batch, len(start_map)), "i8")
    for number, at in enumerate(start_map):
        indices[..., number] = random.integers(-beyond, shape[at] - sizes[at] + 1 + beyond, batch)
    kept = iter([n for at, n in enumerate(sizes) if at not in (*collapsed, *batched)])
    outer = iter(batch)
    whole = tuple(next(kept) if at in offset else next(outer) for at in range(groups + len(offset)))
    return values(shape, "f8", int(random.integers(99))), indices, sizes, whole


@pytest.mark.parametrize("part", range(8))
def test_dimension_numbers(part: int) -> None:
    for seed, (ndim, groups, numbers) in enumerate(some(FEW[::3], NUMBERS)):
        if seed % 8 != part:
            continue
        random = np.random.default_rng(seed)
        mode = MODES[seed // 8 % len(MODES)]
        inside = getattr(mode, "name", "") == "PROMISE_IN_BOUNDS"
        x, indices, sizes, whole = operands(ndim, groups, numbers, random, 0 if inside else 3)
        check(Call("gather", x, indices, GatherDimensionNumbers(*numbers), sizes, mode=mode))
        to = ScatterDimensionNumbers(*numbers)
        updates = values(whole, "f8", seed)
        name = SCATTERS[seed // 8 % len(SCATTERS)]
        check(Call(f"scatter_{name}", x, indices, updates, to, mode=mode))
        if np.prod(indices.shape[:-1]) <= 1:  # else updates may meet, and any may win
            check(Call("scatter", x, indices, updates, to, mode=mode))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("name", ["gather", *(f"scatter_{each}" for each in SCATTERS), "scatter"])
def test_modes(name: str, mode: Any) -> None:
    """Windows wholly within, at the edges, and beyond on each side."""
    x = values((5, 4), "f8", 1)
    inside = getattr(mode, "name", "") == "PROMISE_IN_BOUNDS"
    for size in (1, 2, 5):
        starts = range(0 if inside else -7, 6 - size if inside else 8)
        for start in some({-1, 5 - size, 6 - size, 7} & {*starts}, starts):
            for dtype in ("i8", "u1") if start >= 0 else ("i1",):
                at = np.array([[start, 1]], dtype)
                if name == "gather":
                    numbers = GatherDimensionNumbers((1, 2), (), (0, 1))
                    check(Call("gather", x, at, numbers, (size, 3), mode=mode))
                else:
                    to = ScatterDimensionNumbers((1, 2), (), (0, 1))
                    check(Call(name, x, at, values((1, size, 3), "f8", 2), to, mode=mode))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_type(dtype: Any) -> None:
    x, at = values((6, 3), dtype, 1), np.array([[4], [-1], [2], [6], [2]])
    rows = GatherDimensionNumbers((1,), (0,), (0,))
    for mode in ("clip", "fill"):
        check(Call("gather", x, at, rows, (1, 3), mode=mode))
    fill = {"b": False, "f": 2.5, "c": 1 + 2j}.get(dtype.kind, 7)
    check(Call("gather", x, at, rows, (1, 3), mode="fill", fill_value=fill))
    updates = values((5, 3), dtype, 2)
    to = ScatterDimensionNumbers((1,), (0,), (0,))
    check(Call("scatter", x, at[:3], updates[:3], to))
    for name in SCATTERS:
        if dtype.kind in "iuf" or (dtype.kind == "c" and name in ("add", "sub", "mul")):
            check(Call(f"scatter_{name}", x, at, updates, to))


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_types_of_indices(dtype: str) -> None:
    info = np.iinfo(dtype)
    x, at = values((6, 3), "f8", 1), np.array([[info.min], [info.max], [2], [5]], dtype)
    rows, to = GatherDimensionNumbers((1,), (0,), (0,)), ScatterDimensionNumbers((1,), (0,), (0,))
    for mode in ("clip", "fill"):
        check(Call("gather", x, at, rows, (1, 3), mode=mode))
        check(Call("scatter_add", x, at, values((4, 3), "f8", 2), to, mode=mode))


def test_several_updates_of_an_element() -> None:
    x, at = values((4, 3), "i4", 1), np.array([[1], [1], [3], [1], [9], [-1]])
    to = ScatterDimensionNumbers((1,), (0,), (0,))
    for name in SCATTERS:
        for mode in ("clip", "drop"):
            check(Call(f"scatter_{name}", x, at, values((6, 3), "i4", 2), to, mode=mode))
    overlapping = np.array([[0, 0], [1, 1], [0, 1]])
    for name in SCATTERS:
        windows = ScatterDimensionNumbers((1, 2), (), (1, 0))
        check(Call(f"scatter_{name}", x, overlapping, values((3, 3, 2), "i4", 3), windows))


def twice(x: Any) -> Any:
    return x * 2 + 1


def test_scatter_apply() -> None:
    x = values((5, 4), "f8", 1)
    for seed, (ndim, groups, numbers) in enumerate(FEW[::11]):
        random = np.random.default_rng(seed)
        x, indices, _, whole = operands(ndim, groups, numbers, random)
        if np.prod(indices.shape[:-1]) > 1:
            continue
        to = ScatterDimensionNumbers(*numbers)
        for mode in ("clip", "drop", None):
            check(Call("scatter_apply", x, indices, twice, to, update_shape=whole, mode=mode))
    rows, at = ScatterDimensionNumbers((1,), (0,), (0,)), np.array([[1], [9], [4], [-2]])
    x = values((5, 4), "f8", 1)
    check(Call("scatter_apply", x, at, twice, rows, update_shape=(4, 4)))
    check(Call("scatter_apply", x, at, twice, rows, update_shape=(4, 3)))


ROWS, TO_ROWS = GatherDimensionNumbers((1,), (0,), (0,)), ScatterDimensionNumbers((1,), (0,), (0,))
X, AT = values((6, 3), "f8", 1), np.array([[4], [-1], [2], [6]])
UPDATES = values((4, 3), "f8", 2)
EVERYWHERE = [
    *[Call("gather", X, AT, ROWS, (1, 3), mode=mode) for mode in ("clip", "fill", None)],
    *[Call("gather", X, AT, ROWS, (1, 2), mode=mode) for mode in ("clip", "fill", None)],
    *[Call(f"scatter_{name}", X, AT, UPDATES, TO_ROWS) for name in SCATTERS],
    *[Call(f"scatter_{name}", X, AT, UPDATES, TO_ROWS, mode="clip") for name in SCATTERS],
    Call("scatter", X, AT, UPDATES, TO_ROWS),
    Call(
        "gather", values((3, 5, 4), "f8", 1), values((2, 3, 1), "i4", 2),
        GatherDimensionNumbers((2,), (1,), (1,), (0,), (1,)), (1, 1, 2), mode="fill",
    ),
    Call(
        "scatter_add", values((3, 5, 4), "f8", 1), values((2, 3, 1), "i4", 2), values((2, 3, 2)
        , "f8", 3), ScatterDimensionNumbers((2,), (1,), (1,), (0,), (1,)),
    ),
]  # fmt: skip


@pytest.mark.one_of(3)
@pytest.mark.parametrize("call", EVERYWHERE, ids=repr)
def test_traced_and_mapped(call: Call) -> None:
    check(call)
    check_traced(call)
    check_mapped(call)
    check_mapped(call, traced=True)


def test_what_does_not_fit() -> None:
    for indices in (AT[:, 0], np.zeros((4, 2), int)):
        check(Call("gather", X, indices, ROWS, (1, 3)))
    for bad in (AT.astype("f8"), AT > 0):
        check(Call("gather", X, bad, ROWS, (1, 3)))
        check(Call("scatter_add", X, bad, UPDATES, TO_ROWS))
    for sizes in ((7, 3), (1, 4), (-1, 3), (1,)):
        check(Call("gather", X, AT, ROWS, sizes))
    for mode in ("soft", 7, "FILL"):
        with pytest.raises(gs.errors.ArgumentError):
            gs.lax.gather(X, AT, ROWS, (1, 3), mode=mode)
    for updates in (UPDATES[:3], UPDATES[:, :2].T, UPDATES.astype("f4")):
        check(Call("scatter_add", X, AT, updates, TO_ROWS))
    beyond = GatherDimensionNumbers((1,), (0,), (2,))
    with pytest.raises(gs.errors.ArgumentError, match=r"each once$"):  # in any order
        gs.lax.gather(X, AT, beyond, (1, 3))


@pytest.mark.parametrize("indices", [np.zeros((2, 1)), np.int32(1)])
def test_positions_that_are_no_integers_are_named(indices: Any) -> None:
    x = gs.numpy.arange(6.0)
    with pytest.raises(gs.errors.ArgumentTypeError, match="start_indices of") as gathered:
        gs.lax.gather(x, indices, GatherDimensionNumbers((), (0,), (0,)), (1,))
    assert gathered.value.argument == "start_indices"
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    with pytest.raises(gs.errors.ArgumentTypeError, match="scatter_indices of") as scattered:
        gs.lax.scatter_add(x, indices, np.ones(2), numbers)
    assert scattered.value.argument == "scatter_indices"
