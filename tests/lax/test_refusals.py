"""Refused calls name the function for people and the argument for programs."""

from __future__ import annotations

import numpy as np
import pytest

import gpushard as gs
from tests.lax.calls import Call, eagerly, values

X, CUBE, KERNEL = values((5, 3), "f8"), values((2, 3, 5), "f8"), values((4, 3, 2), "f8")
CONV, WINDOW = ("conv_general_dilated", CUBE, KERNEL), ("reduce_window", X, 0.0, np.add)

BATCHED = X, np.zeros((5, 1), int)
PLACES = [(0,), (0, 2), "ab"]
REFUSED = {
    "window_strides": [Call(*CONV, (0,), "VALID"), Call(*WINDOW, (1, 1), (0, 1))],
    "padding": [
        Call(*CONV, (1,), []), Call(*CONV, (1,), "SAME", (2,)), Call(*WINDOW, (1, 1), padding=[]),
        Call("conv_transpose", CUBE, KERNEL, (1,), "HALF", dimension_numbers=("NCH", "OIH", "NCH")),
    ],
    "lhs_dilation": [Call(*CONV, (1,), "VALID", (0,))],
    "rhs_dilation": [
        Call(*CONV, (1,), "VALID", None, (0,)),
        Call("conv_transpose", CUBE, KERNEL, (1,), "SAME", (0,), ("NCH", "OIH", "NCH")),
    ],
    "strides": [
        Call("conv_transpose", CUBE, KERNEL, (0,), "SAME", None, ("NCH", "OIH", "NCH")),
        Call("slice", X, (0, 0), (5, 3), (1,)),
    ],
    "window_dimensions": [Call(*WINDOW, (0, 1)), Call(*WINDOW, (1,))],
    "base_dilation": [Call(*WINDOW, (1, 1), base_dilation=(0, 1))],
    "window_dilation": [Call(*WINDOW, (1, 1), window_dilation=(0, 1))],
    "computation": [
        Call("reduce_window", X, 0.0, np.hypot, (1, 1)), Call("reduce", X, 0.0, [max], (0,)),
        Call("reduce", X, 0.0, lambda a, b: (a, b), (0,)),
        Call("reduce", (X, X), (0.0, 0.0), lambda a, b: a[0], (0,)),
    ],
    "dimension_numbers": [
        Call(*CONV, (1,), "VALID", dimension_numbers=("NCH", "OIH", "NC")),
        Call("dot_general", X, X, 3), Call("dot_general", X, X, (((0,), (1,)), ((), ()))),
        Call("dot_general", X, X[:, [0] * 5], (((0, 0), (0, 1)), ((), ()))),
        Call("gather", X, np.zeros((3, 1), int), ((), (0,), (0,), (), ()), (1, 1)),
    ],
    "collapsed_slice_dims": [
        Call("gather", *BATCHED, ((), (0, 1), (1,), (0,), (0,)), (1, 1)),
        Call("gather", X, np.zeros((3, 2), int), ((), (1, 0), (0, 1)), (1, 1)),
    ],
    "operand_batching_dims": [Call("gather", *BATCHED, ((), (0,), (0,), (1,), (0,)), (1, 1))],
    "start_indices_batching_dims": [
        Call("gather", *BATCHED, ((), (1,), (1,), (0,), (1,)), (1, 1))
    ],
    "offset_dims": [Call("gather", X, np.zeros((3, 1), int), ((2,), (0,), (0,)), (1, 3))],
    "start_index_map": [Call("gather", *BATCHED, ((), (1,), (0,), (0,), (0,)), (1, 1))],
    "feature_group_count": [
        Call(*CONV, (1,), "VALID", feature_group_count=2),
        Call("conv_general_dilated", CUBE, KERNEL[:, :1], (1,), "VALID", feature_group_count=3),
    ],
    "start_indices": [
        Call("slice", X, (0,), (5, 3)), Call("slice", X, ("a", 0), (5, 3)),
        Call("dynamic_slice", X, (0,), (1, 1)), Call("dynamic_slice", X, (0.5, 0), (1, 1)),
        Call("dynamic_slice", X, np.zeros(3, int), (1, 1)),
    ],
    "limit_indices": [Call("slice", X, (0, 0), (5,)), Call("slice", X, (0, 0), (6, 3))],
    "slice_sizes": [
        Call("dynamic_slice", X, (0, 0), (6, 1)), Call("dynamic_slice", X, (0, 0), ("a", 1)),
        Call("gather", X, np.zeros((3, 1), int), ((1,), (0,), (0,), (), ()), (1,)),
        Call("gather", X, np.zeros((3, 1), int), ((1,), (0,), (0,)), (2, 3)),
    ],
    "index": [Call("index_in_dim", X, 5), Call("index_in_dim", X, 1.5)],
    "axis": [Call("index_in_dim", X, 0, 2), Call("slice_in_dim", X, 0, 1, 1, 2)],
    "axes": [Call("reduce_sum", X, (2,)), Call("index_take", X, ([0],), (2,))],
    "idxs": [Call("index_take", X, ([0],), (0, 1))],
    "dimension": [Call("sort", X, 2), Call("broadcasted_iota", int, (2,), 1)],
    "dimensions": [Call("reduce", X, 0.0, np.add, (2,)), Call("reduce", X, 0.0, np.add, 0)],
    "init_values": [Call("reduce", (X, X), (0.0,), max, (0,)), Call("reduce", X, X[0], max, (0,))],
    "num_keys": [Call("sort", X, num_keys=0), Call("sort", X, num_keys="a")],
    "k": [Call("top_k", X, 4)],
    "permutation": [Call("transpose", X, (0,)), Call("transpose", X, ("a", 0))],
    "reps": [Call("tile", X, (1,)), Call("tile", X, ("a", 1))],
    "sizes": [Call("split", X, (1,)), Call("split", X, ("a",)), Call("broadcast", X, ("a",))],
    "padding_config": [
        Call("pad", X, 0.0, [(1, 1, 0)]), Call("pad", X, 0.0, [(1, 1), (1, 1)]),
        Call("pad", X, 0.0, [(-9, 1, 0), (0, 0, 0)]), Call("pad", X, 0.0, [(0, 0, -1)] * 2),
        Call("pad", X, 0.0, [("a", 0, 0)] * 2),
    ],
    "padding_value": [Call("pad", X, X[0], [(0, 0, 0)] * 2)],
    "broadcast_dimensions": [Call("broadcast_in_dim", X, (5, 3), dims) for dims in PLACES],
    "rank": [Call("broadcast_to_rank", X, 1), Call("broadcast_to_rank", X, "a")],
    "stop_dimension": [Call("collapse", X, 1, 0)],
    "min": [Call("clamp", X[0], X, X)], "max": [Call("clamp", X, X, X[0])],
    "rounding_method": [Call("round", X, 3)], "y": [Call("integer_pow", X, 0.5)],
    "exponent_bits": [Call("reduce_precision", X, 0, 1)], "which": [Call("select_n", X[0] > 0, X)],
    "cases": [Call("select_n", X[0] > 0)],
    "operands": [
        Call("concatenate", [], 0), Call("reduce", (X, X[0]), (0.0, 0.0), np.maximum, (0,)),
    ],
    "fft_lengths": [
        Call("fft", X, "RFFT", (4,)), Call("fft", X, "RFFT", ("a",)),
        Call("fft", np.array(1j), "IRFFT", (4,)),
    ],
    "fft_type": [Call("fft", X, "DCT", (3,))],
    "mode": [Call("gather", X, np.zeros((3, 1), int), ((1,), (0,), (0,), (), ()), (1, 3), mode=7)],
    "dtype": [Call("iota", bool, 3)],
}  # fmt: skip


@pytest.mark.parametrize("argument", [*REFUSED])
def test_errors_name_the_argument(argument: str) -> None:
    for call in REFUSED[argument]:
        with pytest.raises(gs.errors.GpushardError) as caught:
            eagerly(call)
        assert caught.value.argument == argument, caught.value
        assert "lax." in str(caught.value) or call.name in str(caught.value)
