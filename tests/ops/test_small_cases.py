"""Rows at their smallest: no dims in the result, no factor that could be split."""

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops import choose_split, rule
from gpushard.errors import ArgumentError
from gpushard.testing import runtime


def test_products_without_dims() -> None:
    with runtime():
        there = gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P("x"))
        x = gs.device_put(np.arange(5.0), there)
        assert float(x.dot(x)) == 30.0
        one = gs.device_put(np.arange(5.0), gs.devices()[0])
        assert float(one.dot(one)) == 30.0


def test_assignments_where_nothing_can_be_split() -> None:
    mesh = gs.AbstractMesh((4, 2), ("x", "y"))
    whole = rule.parse("ii->i", [(4, 4)], "i")
    given = choose_split.Given(None, ((), ()), 8)
    assert choose_split.assignments(whole, mesh, [given]) == [((),)]  # type: ignore[arg-type]


def test_a_sum_of_nothing_over_split_rows_is_zero() -> None:
    # Every block of the split dim is empty because of the other one: none may be left out.
    with runtime(host_domains=4):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        rows = gs.NamedSharding(mesh, gs.P("x"))
        for _ in range(20):  # what memory holds by chance may be right
            x = gs.device_put(np.ones((8, 8)), rows) * 7
            del x
            empty = gs.device_put(np.ones((8, 0)), rows)
            assert float(empty.sum()) == 0.0
            assert float(empty.prod()) == 1.0
            assert not bool(empty.any()) and bool(empty.all())
            columns = gs.device_put(np.ones((3, 8)), gs.NamedSharding(mesh, gs.P(None, "x")))
            assert np.asarray(gs.numpy.einsum("ij,jk->i", columns, empty)).tolist() == [0.0] * 3


def test_extremes_of_nothing_are_errors_even_where_there_are_no_results() -> None:
    with runtime():
        x = gs.device_put(np.ones((0, 3, 0)))
        for method in (x.min, x.max, x.argmin, x.argmax):
            with pytest.raises(ArgumentError, match="no elements along the axes"):
                method(axis=0)
        assert x.min(axis=1).shape == (0, 0)
