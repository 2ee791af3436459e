"""Results have a spec as its user wrote it, where they are laid out as an operand is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing

SPECS = [
    gs.P("x", None),
    gs.P(None, None),
    gs.P("x", "y"),
    gs.P("x", "one"),
    gs.P("one", "y"),
    gs.P(("one", "x"), None),
    gs.P("one"),
]
SHAPES = [(8, 6), (5, 3), (1, 6), (0, 6), (5, 1)]
CALLS: dict[str, Callable[[Any], Any]] = {
    "x + 1": lambda x: x + 1,
    "1 - x": lambda x: 1 - x,
    "x + x": lambda x: x + x,
    "-x": lambda x: -x,
    "x > 0": lambda x: x > 0,
    "astype": lambda x: x.astype(np.int32),
    "copy": lambda x: x.copy(),
    "where": lambda x: gnp.where(x > 0, x, 0),
    "clip": lambda x: gnp.clip(x, -1, 1),
    "at": lambda x: x.at[1:2].set(3),
    "cumsum": lambda x: gnp.cumsum(x, axis=1),
    "sort": lambda x: gnp.sort(x, axis=0),
    "numpy": lambda x: np.exp(x),
}


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_results_like_the_operand_have_its_sharding(spec: gs.P) -> None:
    with testing.runtime(host_devices=8):
        mesh = gs.make_mesh((4, 2, 1), ("x", "y", "one"))
        for shape in SHAPES:
            x = gs.device_put(np.ones(shape), gs.NamedSharding(mesh, spec))
            for name, call in CALLS.items():
                assert call(x).sharding == x.sharding, (name, shape)


@pytest.mark.parametrize("name", ["slice", "roll", "flip", "keepdims", "reshape"])
def test_moved_dims_keep_the_spec_too(name: str) -> None:
    calls = {
        "slice": lambda x: x[1:7],
        "roll": lambda x: gnp.roll(x, 1, axis=0),
        "flip": lambda x: x[::-1],
        "keepdims": lambda x: x.sum(axis=1, keepdims=True),
        "reshape": lambda x: x.reshape(8, 6),
    }
    with testing.runtime(host_devices=8):
        mesh = gs.make_mesh((4, 2, 1), ("x", "y", "one"))
        for spec in (gs.P("x", None), gs.P(("x", "one"), None), gs.P("x", "one")):
            x = gs.device_put(np.ones((8, 6)), gs.NamedSharding(mesh, spec))
            assert calls[name](x).sharding == x.sharding


def test_operands_that_differ_in_axes_of_one_device_move_nothing() -> None:
    with testing.runtime(host_devices=8, host_domains=8) as rt:
        mesh = gs.make_mesh((4, 2, 1), ("x", "y", "one"))
        x = gs.device_put(np.ones((8, 6)), gs.NamedSharding(mesh, gs.P(("x", "one"), "y")))
        y = gs.device_put(np.ones((8, 6)), gs.NamedSharding(mesh, gs.P("x", "y")))
        before = dict(rt.backend.traffic)
        assert (x + y).sharding == x.sharding
        assert (y + x).sharding == y.sharding
        assert rt.backend.traffic == before
