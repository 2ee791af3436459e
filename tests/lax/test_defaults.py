"""Arguments that are left out, all of them and each alone."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import gpushard as gs
from gpushard.lax import GatherDimensionNumbers, ScatterDimensionNumbers
from tests.lax.calls import Call, check, values
from tests.lax.definitions.registry import DEFINITIONS

X, Y = values((4, 3, 5), "f8", 1), values((4, 3, 5), "f8", 2)
SQUARE, KEYS = values((4, 4), "f8", 3), values((4, 3, 5), "i1", 4, 0, 2)
ROWS, TO_ROWS = (
    GatherDimensionNumbers((1, 2), (0,), (0,)),
    ScatterDimensionNumbers((1, 2), (0,), (0,)),
)
AT, KERNEL = np.array([[3], [-1], [9]]), values((2, 3, 3), "f8", 5)
TO_ONE = ScatterDimensionNumbers((), (0,), (0,))
RUNNING = ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]

CALLS = [
    Call("round", X * 2), Call("full", (2, 3), 7), Call("full_like", X, 7),
    *[Call("collapse", X, start) for start in range(-3, 4)], Call("reshape", X, (12, 5)),
    Call("split", X, (1, 3)), Call("unstack", X), Call("stack", [X, Y]),
    Call("slice", X, (1, 0, 2), (4, 3, 5)), Call("slice_in_dim", X, 1, 3),
    Call("slice_in_dim", X, 1, 3, 2), Call("slice_in_dim", X, 1, 3, axis=2),
    Call("index_in_dim", X, 1), Call("index_in_dim", X, 1, 1),
    Call("index_in_dim", X, 1, keepdims=False),
    Call("dynamic_slice_in_dim", X, 1, 2), Call("dynamic_index_in_dim", X, 1),
    Call("dynamic_index_in_dim", X, 1, 2), Call("dynamic_index_in_dim", X, 1, keepdims=False),
    Call("gather", X, AT, ROWS, (1, 3, 5)), Call("gather", X, AT, ROWS, (1, 3, 5), fill_value=7),
    *[Call(f"scatter{name}", X, AT, Y[:3], TO_ROWS)
      for name in ("", "_add", "_sub", "_mul", "_min", "_max")],
    Call("scatter_apply", X, AT, np.negative, TO_ROWS, update_shape=(3, 3, 5)),
    Call("scatter_apply", SQUARE[0], np.array([2]), np.negative, TO_ONE),
    *[Call(name, X) for name in (*RUNNING, "sort")],
    *[Call(name, X, 1) for name in (*RUNNING, "sort")],
    *[Call(name, X, reverse=True) for name in RUNNING],
    Call("sort", (KEYS, X, Y)), Call("sort", (KEYS, X, Y), num_keys=2),
    Call("sort_key_val", KEYS, X), Call("sort_key_val", KEYS, X, 1), Call("top_k", X, 2),
    Call("dot", SQUARE, SQUARE),
    Call("dot_general", SQUARE, SQUARE, (((0,), (1,)), ((), ()))),
    Call("batch_matmul", X, X.swapaxes(1, 2)),
    Call("conv", X, KERNEL, (2,), "SAME"), Call("conv_general_dilated", X, KERNEL, (2,), [(1, 1)]),
    Call("conv_general_dilated", X, KERNEL, (2,), [(1, 1)], rhs_dilation=(2,)),
    Call("conv_with_general_padding", X, KERNEL, (2,), [(1, 1)], None, None),
    Call("conv_transpose", X.swapaxes(1, 2), KERNEL.transpose(2, 1, 0), (2,), "SAME"),
    Call("conv_transpose", X.swapaxes(1, 2), KERNEL.transpose(2, 1, 0), (2,), "SAME", (2,)),
    *[Call(f"segment_{name}", X, np.array([2, 0, 2, 1])) for name in ("sum", "prod", "max", "min")],
    Call("ragged_dot", SQUARE, X[:2, :, :4].swapaxes(1, 2)[:, :, :2], np.array([3, 1])),
    Call("cond", True, np.negative, np.positive, X),
    Call("switch", 1, [np.negative, np.positive], X),
    Call("fori_loop", 1, 4, lambda i, x: x + i, X), Call("map", lambda x: x[0], X),
    Call("scan", lambda c, x: (c + x, c), X[0], Y), Call("associative_scan", lambda a, b: a + b, X),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=repr)
def test_arguments_left_out(call: Call) -> None:
    check(call)


def test_reduce_window_of_defaults() -> None:
    windows = np.lib.stride_tricks.sliding_window_view(X, (2, 1, 3))
    result = gs.lax.reduce_window(X, 0.0, gs.lax.add, (2, 1, 3))
    np.testing.assert_allclose(np.asarray(result), windows.sum((3, 4, 5)), atol=1e-12)


def test_all_defaults_are_tried() -> None:
    """A function that has defaults is called without them somewhere here."""
    with_defaults = {
        name
        for name in DEFINITIONS
        if any(
            each.default is not each.empty
            for each in inspect.signature(getattr(gs.lax, name)).parameters.values()
            if each.name not in ("out_sharding", "sharding", "precision", "unroll")
        )
    }
    assert with_defaults <= {call.name for call in CALLS} | {"reduce_window"}
