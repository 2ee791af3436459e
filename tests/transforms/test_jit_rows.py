"""Every operation gives under `jit` what it gives when it is called, and under `vmap` in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard.ops.bind import bind
from gpushard.ops.row import Row
from tests.ops.cases import AXES, FORMS, Case, cases, unless_refused
from tests.share import some


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
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("row", some(list(FORMS)[::3], list(FORMS)), ids=lambda row: row.name)
def test_a_row_is_the_same_under_jit(row: Row) -> None:
    with testing.runtime(host_devices=6):
        mesh = gs.make_mesh(tuple(AXES.values()), tuple(AXES))
        seen = set()
        for case in cases(row):
            if (key := (case.form, len(case.split))) not in seen:
                seen.add(key)
                check(case, mesh)
