"""A row with named dims in front of its operands is a loop over these dims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops.bind import bind
from gpushard._ops.derived import derived
from gpushard._ops.row import Row
from gpushard._ops.table import elementwise, manipulation, reductions, scatter
from gpushard.errors import NamedDimsError
from tests.ops.cases import AXES, FORMS, MADE, Case, cases, moves, unless_refused

SIZES = {"split": 2, "whole": 3, "both": 4}
"""Elements of the named dim: on a mesh axis, one each; on none; and two on each device of one."""


def _few(row: Row) -> Iterator[Case]:
    """Yield calls of every form that split along one axis, evenly and with an empty shard."""
    seen: dict[tuple[Any, str], int] = {}
    for case in cases(row):
        key = case.form, case.split
        seen[key] = seen.get(key, 0) + 1
        if len(case.split) == 1 and seen[key] in (1, 3):
            yield case


def _which(case: Case) -> Iterator[tuple[bool, ...]]:
    """Yield which operands have the named dim: all of them, the first, the last."""
    count = len(case.arrays)
    yield (True,) * count
    if count > 1 and not moves(case.row):
        yield (True, *(False,) * (count - 1))
        yield (*(False,) * (count - 1), True)


@unless_refused()
def check(case: Case, named: tuple[bool, ...], how: str, mesh: gs.Mesh) -> None:
    """Compare a call with a named dim with the calls that it stands for."""
    loops = case.loops(named, SIZES[how])
    axis = None if how == "whole" else "b"
    place = () if axis is None else (axis,)
    placed = []
    for n, (own, spec) in enumerate(zip(named, case.specs, strict=True)):
        array = np.stack([of.arrays[n] for of in loops]) if own else case.arrays[n]
        entries = (axis, *spec) if own else tuple(spec)
        placed.append(gs.device_put(array, gs.NamedSharding(mesh, gs.P(*entries))))
    dims = tuple((0,) if own else () for own in named) + ((),) * len(case.form.scalars)
    row = derived(case.row, dims, (place,))
    assert derived(case.row, dims, (place,)) is row
    if case.row is scatter.UPDATE and len(case.arrays) > 1 and case.arrays[1].size == 1:
        with pytest.raises(NamedDimsError, match="broadcast them to the part"):
            bind(row, (*placed, *case.form.scalars), case.params)
        return
    results = bind(row, (*placed, *case.form.scalars), case.params)
    wanted = zip(*(of.expected() for of in loops), strict=True)
    values = results if isinstance(results, tuple) else (results,)
    for value, each in zip(values, wanted, strict=True):
        case.compare(np.asarray(value), np.stack(each), 1e-11)
        assert value.sharding.spec.axes(0) == place
        assert all(axis not in value.sharding.spec.axes(dim) for dim in range(1, value.ndim))


@pytest.mark.one_of(16)
@pytest.mark.parametrize("how", SIZES)
@pytest.mark.parametrize("row", FORMS, ids=lambda row: row.name)
def test_a_derived_row_is_a_loop_over_the_named_dim(row: Row, how: str) -> None:
    for domains in (1, 6):
        with testing.runtime(host_devices=6, host_domains=domains):
            mesh = gs.make_mesh(tuple(AXES.values()), tuple(AXES))
            for case in _few(row):
                for named in _which(case):
                    check(case, named, how, mesh)


@pytest.mark.parametrize("row", MADE, ids=lambda row: row.name)
def test_what_is_made_of_numbers_has_no_derived_row(row: Row) -> None:
    with pytest.raises(NamedDimsError, match=row.name):
        derived(row, ((0,),), ((),))


def test_what_moves_elements_of_several_arrays_needs_named_dims_in_all_of_them() -> None:
    with testing.runtime(host_devices=2):
        x = gs.device_put(np.ones((2, 3)))
        with pytest.raises(NamedDimsError, match="2 arrays are moved, 1 of which"):
            bind(derived(manipulation.CONCATENATE, ((0,), ()), ((),)), (x, x[0]), (-1,))


def test_two_named_dims_live_on_two_axes_whatever_operands_have() -> None:
    """As P('x', 'y') meets P('x') and P('y', 'x'): names never change places."""
    with testing.runtime(host_devices=6):
        mesh = gs.make_mesh((3, 2), ("x", "y"))
        value = np.arange(3 * 2 * 6.0).reshape(3, 2, 6)
        places = (("x",), ("y",))
        specs = [("x", "y"), ("x",), ("y",), (), (None, "x"), (None, None, "y")]
        other = np.arange(3 * 6.0).reshape(3, 6)
        add = elementwise.ufunc_row(np.add)
        for one in specs:
            x = gs.device_put(value, gs.NamedSharding(mesh, gs.P(*one)))
            for two in (gs.P("x"), gs.P("y"), gs.P(None, "y"), gs.P(None, ("x", "y"))):
                y = gs.device_put(other, gs.NamedSharding(mesh, two))
                made = bind(derived(add, ((0, 1), (0,)), places), (x, y))
                assert made.sharding.spec == gs.P("x", "y")
                np.testing.assert_array_equal(np.asarray(made), value + other[:, None])
            made = bind(derived(reductions.SUM, ((0, 1),), places), (x,), ((-1,), False, None))
            assert made.sharding.spec == gs.P("x", "y")
            moved = bind(derived(manipulation.ROLL, ((0, 1),), places), (x,), ((1,), (-1,)))
            assert moved.sharding.spec == gs.P("x", "y")
            np.testing.assert_array_equal(np.asarray(moved), np.roll(value, 1, -1))


def test_a_mesh_without_the_axes_of_named_dims_is_refused() -> None:
    with testing.runtime(host_devices=2):
        x = gs.device_put(np.ones((2, 3)), gs.NamedSharding(gs.make_mesh((2,), ("x",)), gs.P("x")))
        for row, params in (
            (reductions.SUM, ((-1,), False, None)),
            (manipulation.ROLL, ((1,), (-1,))),
        ):
            with pytest.raises(gs.errors.ShardingError, match="split over the mesh axes"):
                bind(derived(row, ((0,),), (("z",),)), (x,), params)
