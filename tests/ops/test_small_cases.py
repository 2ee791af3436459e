"""Rows at their smallest: no dims in the result, no factor that could be split."""

import numpy as np

import gpushard as gs
from gpushard.ops import choose, rule
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
    given = choose.Given(None, ((), ()), 8)
    assert choose.assignments(whole, mesh, [given]) == [((),)]  # type: ignore[arg-type]
