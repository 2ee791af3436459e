"""Kernels that count with 64 bits give what others give; and blocks that need it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard.runtime.cuda.kernels import limits
from tests.gpu import nest_emitter
from tests.gpu.device import Split, gpu_runtime, needs_gpu
from tests.share import some
from tests.transforms.nest_emitters import chosen

WIDE = "typedef unsigned long long Index;"
pytestmark = needs_gpu


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The kernels that are compiled, all of which count with 64 bits."""
    found: list[str] = []
    driver: Any = importlib.import_module("gpushard.runtime.cuda.driver.cupy_driver").CupyDriver
    compiled = driver._compiled

    def noted(self: Any, gpu: int, key: Any, name: str, text: str, *options: str) -> int:
        if name != "reduction":  # which has 64 bits for rows, always
            found.append(text)
        return int(compiled(self, gpu, key, name, text, *options))

    monkeypatch.setattr(limits, "NARROW_END", 1)
    monkeypatch.setattr(driver, "_compiled", noted)
    yield found
    assert found and all(WIDE in text for text in found)


def test_wide_kernels_of_nests_give_what_the_definition_says(texts: list[str]) -> None:
    report = nest_emitter.compare(chosen(some(2003, 100), offset=11))
    assert not report.problems, report.problems[0]
    assert report.counts["compared"] > 60 and report.counts["in parts"] > 10, report.counts


@pytest.mark.parametrize("split", [Split(1, False), Split(4, False)], ids=str)
def test_wide_kernels_of_single_operations_give_what_numpy_does(
    texts: list[str], split: Split
) -> None:
    value = np.arange(-300.0, 300.0).reshape(12, 50)
    with gpu_runtime(split=split):
        sharding = gs.NamedSharding(gs.make_mesh((split.partitions,), "x"), gs.P("x"))
        x = gs.device_put(value, sharding)
        np.testing.assert_array_equal(x * x - 3, value * value - 3)
        np.testing.assert_array_equal(gnp.where(x > 0, x, -x), abs(value))
        np.testing.assert_array_equal(x.sum(0), value.sum(0))
        np.testing.assert_array_equal(x.max(1), value.max(1))


def narrow(x: Any) -> Any:
    return x[:, 5:9] * 2 + x[:, 6:10]


def test_wide_kernels_of_parts_of_blocks(texts: list[str]) -> None:
    value = np.arange(37 * 33 * 5, dtype=np.int32).reshape(37, 33, 5)
    with gpu_runtime(split=Split(1, False)):
        x = gs.device_put(value)
        np.testing.assert_array_equal(gs.jit(narrow)(x), narrow(value))
        np.testing.assert_array_equal(
            gs.jit(lambda x: x[:, 5, 3] * 2 + x[:, 7, 1])(x), value[:, 5, 3] * 2 + value[:, 7, 1]
        )


def expected(rows: int, columns: slice) -> Any:
    """Return what `large` has there."""
    row = np.arange(rows)[:, None] % 251
    return (row + np.arange(columns.start, columns.stop) * 3).astype(np.int8)


@pytest.mark.skipif(not some(False, True), reason="takes seconds, and 4 GiB: --all")
def test_narrow_parts_of_a_block_of_more_than_2_to_the_32_elements() -> None:
    """Fused kernels, CuPy's, our own on CuPy's arrays, copies and fills reach the last rows."""
    rows, width = 131_136, 32_768
    assert (rows - 1) * width > 2**32
    with gpu_runtime(split=Split(1, False), poisoned=False):
        x = gnp.zeros((rows, width), np.int8)
        whole = expected(rows, slice(4, 12))
        x[:, 4:12] = gs.device_put(whole)
        np.testing.assert_array_equal(x[:, 4:12], whole)
        got = gs.jit(narrow)(x)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got, whole[:, 1:5] * np.int8(2) + whole[:, 2:6])
        np.testing.assert_array_equal(x[:, gnp.asarray([11, 4])], whole[:, [7, 0]])
        np.testing.assert_array_equal(x[:, 4:12].sum(1), whole.sum(1))
        np.testing.assert_array_equal(x[rows - 5 :, 4:12], whole[-5:])
