"""Every operation gives under `jit` what it gives when it is called, and under `vmap` in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.table import contractions
from tests.late import late_devices
from tests.ops.cases import AXES, FORMS, Case, cases, unless_refused
from tests.share import some
from tests.transforms.mapping.test_vmap_rows import check as check_loop
from tests.transforms.mapping.test_vmap_rows import few


@unless_refused()
def check(case: Case, mesh: gs.Mesh) -> None:
    """Compare an operation that is traced with the same one that runs at once."""
    placed = [
        gs.device_put(array, gs.NamedSharding(mesh, gs.P(*spec)))
        for array, spec in zip(case.arrays, case.specs, strict=True)
    ]

    def body(*xs: Any) -> Any:
        return bind(case.row, (*xs, *case.form.scalars), case.params)

    want = body(*placed)
    found = gs.jit(body)(*placed)
    many = isinstance(want, tuple)
    for one, other in zip(found if many else (found,), want if many else (want,), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert one.sharding.is_equivalent_to(other.sharding, other.ndim)
        assert (one.committed, one.weak_type) == (other.committed, other.weak_type)
        if case.row.name in PRODUCTS:  # sums over dims that may lie elsewhere under jit
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


PRODUCTS = {row.name for row in vars(contractions).values() if isinstance(row, Row)}

ROWS = list(FORMS)

TRANSFORMS: list[Callable[[Any, Any], Any]] = [
    lambda f, axes: gs.jit(gs.vmap(f, axes)),
    lambda f, axes: gs.vmap(gs.jit(f), axes),
    lambda f, axes: gs.jit(gs.vmap(gs.jit(f), axes)),
]
"""What a row is called through; all give what `vmap` alone does."""


def some_of(row: Row, found: Iterator[Case]) -> list[Case]:
    """Return one of the calls of a row, another one for each row, or all of them."""
    every = list(found)
    number = ROWS.index(row)
    return some([every[number % len(every)]], every)


def unlike(row: Row) -> Iterator[Case]:
    """Yield calls of every form, with one dim split and with two."""
    seen = set()
    for case in cases(row):
        if (key := (case.form, len(case.split))) not in seen:
            seen.add(key)
            yield case


def check_mapped(row: Row, mesh: gs.Mesh) -> None:
    """Compare a row that is mapped and traced with loops."""
    number = ROWS.index(row)
    for case in some_of(row, few(row)):
        count = len(case.arrays)
        which = [w for w in itertools.product([True, False], repeat=count) if any(w)][:3]
        for n, mapped in enumerate(some([which[number % len(which)]], which) if which else []):
            for transform in some([TRANSFORMS[number % 3]], TRANSFORMS):
                check_loop(case, mapped, number + n, mesh, transform)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_the_same_under_jit(row: Row) -> None:
    with testing.runtime(host_devices=6):
        mesh = gs.make_mesh(tuple(AXES.values()), tuple(AXES))
        for case in some_of(row, unlike(row)):
            check(case, mesh)
        check_mapped(row, mesh)


@pytest.mark.one_of(7)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_the_same_where_work_is_done_late(row: Row) -> None:
    seed = ROWS.index(row)
    domains = (1, 2, 6)[seed % 3]
    with late_devices(seed, host_devices=6, host_domains=domains):
        mesh = gs.make_mesh(tuple(AXES.values()), tuple(AXES))
        for case in some_of(row, unlike(row)):
            check(case, mesh)
        check_mapped(row, mesh)
