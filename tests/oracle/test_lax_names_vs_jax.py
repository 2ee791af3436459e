"""Functions of `gpushard.lax` that tables of other files do not have, against `jax.lax`.

Every function that docs/coming-from-jax.md calls the same is compared here, or where `ELSEWHERE`
says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from tests.oracle.test_lax_factors_vs_jax import CASES as FACTORS
from tests.oracle.test_lax_vs_jax import CASES
from tests.test_coming_from_jax import sections

ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(
        (
            "all_to_all", "axis_index", "axis_size", "pbroadcast", "pmax", "pmean", "pmin",
            "ppermute", "psum", "psum_scatter",
        ),
        "test_transforms_vs_jax.py",
    ),
    "empty": "elements of any value",
    "optimization_barrier": "returns its operands",
    "pshuffle": "made of ppermute",
    "pswapaxes": "made of all_to_all",
    "with_sharding_constraint": "test_jit_vs_jax.py",
}  # fmt: skip
"""Functions that are not compared here, and why, or where they are."""


@pytest.fixture(autouse=True)
def wide_types(jax: ModuleType) -> Iterator[None]:
    """Run with 64-bit types in JAX."""
    with jax.enable_x64(True):
        yield


X = np.random.default_rng(0).standard_normal((4, 6))
N = np.arange(12, dtype=np.int32).reshape(3, 4)
FORM = ("NCHW", "OIHW", "NHWC")


def _apply(lax: Any, mode: Any, x: Any, at: Any) -> Any:
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    return lax.scatter_apply(x, at, lambda v: v * 3 + 1, numbers, update_shape=(5,), mode=mode)


NAMES: dict[str, Callable[[Any, Any], Any]] = {
    "associative_scan": lambda lax, x: lax.associative_scan(lambda a, b: a * b + b, x, axis=1),
    "associative_scan reverse": lambda lax, x: lax.associative_scan(lax.max, x, reverse=True),
    "bitcast_convert_type": lambda lax, x: lax.bitcast_convert_type(x, np.int32),
    "bitcast_convert_type wide": lambda lax, x: lax.bitcast_convert_type(
        lax.bitcast_convert_type(x, np.uint8), np.float64
    ),
    "broadcast_shapes": lambda lax, x: lax.broadcast_shapes((4, 1), (6,), x.shape),
    "broadcasted_iota": lambda lax, x: lax.broadcasted_iota(np.int16, (3, 4), 1),
    "cond": lambda lax, x: lax.cond(x[0, 0] > 0, lambda x: x + 1, lambda x: x * 2, x),
    "conv_dimension_numbers": lambda lax, x: tuple(
        lax.conv_dimension_numbers((1, 2, 3, 4), (5, 2, 1, 1), FORM)
    ),
    "conv_with_general_padding": lambda lax, x: lax.conv_with_general_padding(
        x[None, None], x[None, None, :2, :3], (1, 2), ((1, 0), (2, 1)), (1, 2), (2, 1)
    ),
    "convert_element_type": lambda lax, x: lax.convert_element_type(x * 9, np.int8),
    "fori_loop": lambda lax, x: lax.fori_loop(2, 7, lambda n, x: x * 0.5 + n, x),
    "full": lambda lax, x: lax.full((2, 3), 7, np.float32),
    "full_like": lambda lax, x: lax.full_like(x, 2.5, np.int64, (3,)),
    "iota": lambda lax, x: lax.iota(np.uint8, 5),
    "map": lambda lax, x: lax.map(lambda row: row.sum() * row, x),
    "map in batches": lambda lax, x: lax.map(lambda row: row * 2, x, batch_size=3),
    "padtype_to_pads": lambda lax, x: lax.padtype_to_pads((7, 8), (3, 2), (2, 3), "SAME"),
    "scatter_apply": lambda lax, x: _apply(lax, None, x[:, 0], np.array([[1], [3], [1], [9], [1]])),
    "scatter_apply clip": lambda lax, x: _apply(
        lax, "clip", x[:, 0], np.array([[1], [-3], [1], [9], [1]])
    ),
    "switch": lambda lax, x: lax.switch(
        (x[0, 1] > 0).astype(int) + 1, [lambda x: x, lambda x: -x, lambda x: x * x], x
    ),
    "while_loop": lambda lax, x: lax.while_loop(lambda x: x.sum() < 99, lambda x: abs(x) * 2, x),
}


@pytest.mark.parametrize("name", NAMES)
def test_values(name: str, jax: ModuleType) -> None:
    want = NAMES[name](jax.lax, jax.numpy.asarray(X))
    sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P(None, "x"))
    x = gs.device_put(X, sharding)
    traced = gs.jit(lambda x: gs.tree.map(gs.numpy.asarray, NAMES[name](gs.lax, x)))
    for got in (NAMES[name](gs.lax, x), traced(x)):
        mine, theirs = gs.tree.leaves(got), gs.tree.leaves(want)
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            found, expected = np.asarray(one), np.asarray(other)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_what_is_the_same_is_compared() -> None:
    same = {
        name
        for name, how, _ in sections()["lax"]
        if how == "same"
        and callable(getattr(gs.lax, name))
        and not isinstance(getattr(gs.lax, name), type)
        and name[0].islower()
    }
    compared = {name.partition(" ")[0] for name in (*CASES, *FACTORS, *NAMES)}
    assert same <= compared | ELSEWHERE.keys(), same - compared - ELSEWHERE.keys()
    assert ELSEWHERE.keys() <= same
