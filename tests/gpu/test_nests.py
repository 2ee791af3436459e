"""Loop nests in CUDA C: what kernels give is what the definition says."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard._runtime.cuda.kernels import fused, thread_layout, thread_nests
from gpushard._runtime.cuda.kernels.reduction import MOST_ELEMENTS
from gpushard._runtime.kernel_checks import BrokenKernelError
from tests.gpu import nest_emitter
from tests.gpu.device import Split, gpu_runtime, needs_gpu
from tests.runtime.nests import nest_families
from tests.runtime.nests.dealt_nests import op
from tests.runtime.nests.nest_emitters import chosen
from tests.share import some


@needs_gpu
def test_a_share_of_all_small_nests() -> None:
    """`python -m tests.gpu.nest_emitter` takes all of them."""
    report = nest_emitter.compare(chosen(some(301, 40), offset=5))
    assert not report.problems, report.problems[0]
    assert report.counts["compared"] > 450 and report.counts["in parts"] > 100, report.counts
    assert report.counts["kept"] > 0, report.counts
    assert set(report.refused) == {"loops that threads go along are reduced apart"}


def scores(x: Any) -> Any:
    near = gnp.exp(-((x[:, None] - x[:8]) ** 2).sum(2))
    return near / near.sum(1, keepdims=True)


@needs_gpu
def test_a_broken_kernel_is_not_used() -> None:
    broken = mock.patch.object(fused, "check", side_effect=BrokenKernelError("v3 is done twice"))
    with gpu_runtime(split=Split(4, False)), broken:
        x = gs.device_put(np.arange(3000.0).reshape(100, 30) / 1000)
        with pytest.warns(RuntimeWarning, match="CUDA C is wrong .* v3 is done twice"):
            got = gs.jit(scores)(x)
        np.testing.assert_allclose(got, scores(x))


@needs_gpu
@pytest.mark.parametrize("most", [0, thread_layout.MOST_LOCAL])
def test_a_thread_has_arrays_of_bounded_size(most: int) -> None:
    with gpu_runtime(split=Split(4, False)), mock.patch.object(thread_layout, "MOST_LOCAL", most):
        x = gs.device_put(np.arange(3000.0).reshape(100, 30) / 1000)
        function = gs.jit(scores)
        assert ("fused" in function.lower(x).compile().as_text()) == (most > 0)
        np.testing.assert_allclose(function(x), scores(x))


@pytest.mark.parametrize("most", [100, 1 << 11, 1 << 14])
def test_parts_of_rows_meet_in_bounded_memory(most: int) -> None:
    several = 0
    with (
        mock.patch.object(thread_nests, "_MOST_SLOTS", most),
        mock.patch.object(thread_nests, "_PART", 2),
    ):
        for case in chosen(997):
            nest = nest_families.nest_of(case)
            if nest is None:
                continue
            along, within = thread_nests._deal_out(nest)
            parts, kept = thread_nests._parts(nest, along, within)
            assert 1 <= parts <= thread_nests._MOST_PARTS
            rows = math.prod(n for x, n in enumerate(nest.sizes) if x not in along | within)
            several += parts > 1
            assert parts == 1 or parts * rows * (kept + thread_nests.COUNTERS) <= most
    assert several > 10


REDUCED = [
    ("sum", "F", "F"), ("any", "F", "?"), ("prod", "D", "D"), ("max", "i", "i"), ("mean", "i", "d"),
    ("argmin", "f", "l"), ("product", "d", "d"), ("sum", "e", "e"),
]  # fmt: skip
NOT_REDUCED = [
    ("min", "F", "F"), ("max", "D", "D"), ("argmax", "F", "l"), ("sum", "F", "d"),
    ("max", "f", "d"), ("product", "f", "d"), ("product", "i", "i"), ("mean", "i", "i"),
    ("cumsum", "d", "d"), ("sum", "M8[s]", "M8[s]"),
]  # fmt: skip
"""Reductions: the types of what they take and of what they give."""


@pytest.mark.parametrize(("name", "operand", "result"), [*REDUCED, *NOT_REDUCED])
def test_kernels_reduce_types_that_they_know(name: str, operand: str, result: str) -> None:
    types = (np.dtype(operand),) * (1 + (name == "product"))
    reducing = op(name, range(len(types)), types, np.dtype(result), reduced=(0,))
    assert fused.reduces(reducing, MOST_ELEMENTS) == ((name, operand, result) in REDUCED)
    assert not fused.reduces(reducing, MOST_ELEMENTS + 1)
