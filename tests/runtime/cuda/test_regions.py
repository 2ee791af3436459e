"""Which operations a kernel of a GPU has, as its backend says what it can reduce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._transforms.fusion import layout
from tests.runtime.cuda.test_launched import cuda

LONGEST = 1000
"""Elements that a kernel can reduce for what follows in it, here."""


def centered(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * 2


def summed_both_ways(x: Any) -> Any:
    y = x * 2
    return y.sum(0), y.sum(1)


KERNELS: dict[str, tuple[Callable[[Any], Any], tuple[int, int], list[list[str]]]] = {
    "rows that fit": (centered, (40, 500), [["mean", "subtract", "multiply"]]),
    "longer rows": (centered, (40, 2000), [["subtract", "multiply"]]),
    "means of longer rows": (lambda x: (x * 2).mean(-1), (40, 2000), [["multiply", "mean"]]),
    "sums along other dims": (summed_both_ways, (500, 600), [["multiply", "sum"]]),
}
"""Functions, and the operations of each kernel."""


@pytest.mark.parametrize("name", KERNELS)
def test_operations_of_kernels(name: str) -> None:
    function, shape, wanted = KERNELS[name]
    found: list[list[str]] = []

    def note(work: Any, nest: Any, kernel: Any, tilings: Any) -> None:
        found.append([op.name for op in nest.ops])

    value = np.arange(shape[0] * shape[1], dtype=float).reshape(shape) % 17
    with (
        cuda(partitions=1),
        mock.patch.object(CudaBackend, "fuses", lambda self, op, types, length: length <= LONGEST),
        mock.patch.object(layout, "launched_nest", note),  # it gives no kernel
    ):
        results = gs.jit(function)(gs.device_put(value))
        for got, want in zip(
            gs.tree_util.tree_leaves(results),
            gs.tree_util.tree_leaves(function(value)),
            strict=True,
        ):
            np.testing.assert_allclose(np.asarray(got), want)
    assert found == wanted
