"""`vmap` of every operation is a loop over calls of it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard.ops import derived
from gpushard.ops.bind import bind
from gpushard.ops.row import Row
from gpushard.ops.table.linalg import SVD
from gpushard.ops.table.rows import ROWS, how_mapped
from tests.ops.cases import AXES, FORMS, Case, cases, moves, tolerance_of, unless_refused

SIZE = 3


def _other(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return data as right as those, and others where that is sure."""
    if array.dtype.kind in "fc":
        return array * 2
    if array.dtype.itemsize == 8 and array.dtype.kind == "u":  # keys
        return array + np.uint64(3)
    return array


def few(row: Row) -> Iterator[Case]:
    """Yield a call of every form, with one dim that is split unevenly."""
    seen = set()
    for case in cases(row):
        if case.form not in seen and len(case.split) == 1:
            seen.add(case.form)
            yield case


@unless_refused()
def check(
    case: Case, mapped: tuple[bool, ...], number: int, mesh: gs.Mesh, transform: Any = gs.vmap
) -> None:
    """Compare a call that is mapped with the calls that it stands for."""
    loops = [case.arrays]
    while len(loops) < SIZE:
        last = zip(loops[-1], case.arrays, mapped, strict=True)
        loops.append(tuple(_other(x) if own else first for x, first, own in last))
    placed, axes = [], []
    for n, (own, spec) in enumerate(zip(mapped, case.specs, strict=True)):
        array = case.arrays[n]
        axis = (number + n) % (array.ndim + 1) if own else None
        entries = [*spec, *[None] * (array.ndim - len(spec))]
        if axis is not None:
            array = np.stack([of[n] for of in loops], axis)
            entries.insert(axis, "b" if number % 2 and "b" not in case.split else None)
        axes.append(axis)
        placed.append(gs.device_put(array, gs.NamedSharding(mesh, gs.P(*entries))))

    def body(*xs: Any) -> Any:
        return bind(case.row, (*xs, *case.form.scalars), case.params)

    found = transform(body, tuple(axes))(*placed)
    values = found if isinstance(found, tuple) else (found,)
    calls = [dataclasses.replace(case, arrays=own).expected() for own in loops]
    for value, each in zip(values, zip(*calls, strict=True), strict=True):
        got, want = np.asarray(value), np.stack(each)
        if case.row is SVD and gs.default_backend() == "gpu":  # which choose other signs
            got, want = abs(got), abs(want)
        assert got.shape == want.shape and got.dtype == want.dtype
        if want.dtype.kind in "fc" and not moves(case.row):
            tolerance = tolerance_of(want.dtype, 1e-11)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(got, want)


EACH = {
    "NumPy looks up in one vector": {
        "counting.HISTOGRAM", "random_order.WEIGHTED", "searching.ISIN", "searching.SEARCHSORTED",
        "signals.INTERP",
    },
    "NumPy's are functions of two vectors": {"signals.CONVOLVE", "signals.CORRELATE"},
    "a kernel of its own for each": {"windows.CONVOLUTION"},
    "an order is drawn from one key": {"random_order.SHUFFLE"},
    "elements of other counts go elsewhere": {"movement.REPEAT_EACH"},
    "a number of its own for each": {"windows.REDUCE_WINDOW"},
    "how many are equal differs between elements, and so where they go": {"sets.UNIQUE"},
    "how many there are differs between elements, and so where they go": {"positions.NONZERO"},
    "positions are for one array": {"random_order.TAKE"},
    "quantiles are the same for all rows": {
        "order_statistics.NANQUANTILE", "order_statistics.QUANTILE",
        "order_statistics.WEIGHTED_NANQUANTILE", "order_statistics.WEIGHTED_QUANTILE",
    },
}  # fmt: skip
"""Rows whose kernels are called for each element of a mapped dim, of some operands at least."""


def test_which_rows_are_done_one_by_one() -> None:
    found: dict[str, set[str]] = {}
    for name, row in ROWS.items():
        how, _, why = how_mapped(row).rpartition("one by one: ")
        if how or why not in ("at once", "moved at once", "never"):
            found.setdefault(why, set()).add(name)
    assert found == EACH


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch, row: Row) -> None:
    """Refuse calls for each element of a row that says there are none."""

    def refuse(*given: Any, **out: Any) -> Any:
        raise AssertionError(f"{row!r} is called for each element")

    if not row.each:
        monkeypatch.setattr(derived._InFront, "_call", refuse)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("row", FORMS, ids=lambda row: row.name)
def test_vmap_of_a_row_is_a_loop(row: Row) -> None:
    with testing.runtime(host_devices=6):
        mesh = gs.make_mesh(tuple(AXES.values()), tuple(AXES))
        for number, case in enumerate(few(row)):
            count = len(case.arrays)
            which = itertools.product([True, False], repeat=count)
            for mapped in itertools.islice((w for w in which if any(w)), 7):
                check(case, mapped, number, mesh)
