"""`vmap` of every operation is a loop over calls of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops import derived
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.table.rows import ROWS, how_mapped
from tests.late import late_devices
from tests.ops.cases import AXES, FORMS, Case, cases, unless_refused

SIZE = 3


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
    loops = case.loops(mapped, SIZE)
    placed, axes = [], []
    for n, (own, spec) in enumerate(zip(mapped, case.specs, strict=True)):
        array = case.arrays[n]
        axis = (number + n) % (array.ndim + 1) if own else None
        entries = [*spec, *[None] * (array.ndim - len(spec))]
        if axis is not None:
            array = np.stack([of.arrays[n] for of in loops], axis)
            entries.insert(axis, "b" if number % 2 and "b" not in case.split else None)
        axes.append(axis)
        placed.append(gs.device_put(array, gs.NamedSharding(mesh, gs.P(*entries))))

    def body(*xs: Any) -> Any:
        return bind(case.row, (*xs, *case.form.scalars), case.params)

    found = transform(body, tuple(axes))(*placed)
    values = found if isinstance(found, tuple) else (found,)
    wanted = zip(*(of.expected() for of in loops), strict=True)
    for value, each in zip(values, wanted, strict=True):
        case.compare(np.asarray(value), np.stack(each), 1e-11)


EACH = {
    "NumPy looks up in one vector": {
        "histograms.HISTOGRAM", "random_order.WEIGHTED", "searching.ISIN", "searching.SEARCHSORTED",
        "signals.INTERP",
    },
    "NumPy's are functions of two vectors": {"signals.CONVOLVE", "signals.CORRELATE"},
    "a kernel of its own for each": {"windows.CONVOLUTION"},
    "an order is drawn from one key": {"random_order.SHUFFLE"},
    "elements of other counts go elsewhere": {"manipulation.REPEAT_EACH"},
    "a number of its own for each": {"windows.REDUCE_WINDOW"},
    "how many are equal differs between elements, and so where they go": {"sets.UNIQUE"},
    "how many there are differs between elements, and so where they go": {"nonzero.NONZERO"},
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


@pytest.mark.parametrize("row", [row for row in FORMS if row.each], ids=lambda row: row.name)
def test_calls_for_each_element_write_where_work_is_done_late(row: Row) -> None:
    with late_devices(0, host_devices=6):
        mesh = gs.make_mesh(tuple(AXES.values()), tuple(AXES))
        for number, case in enumerate(few(row)):
            check(case, (True,) * len(case.arrays), number, mesh)


@pytest.mark.one_of(2)
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
