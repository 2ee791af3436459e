"""Kernels that count with 64 bits give what others give; and blocks that need it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard._runtime.cuda.kernels import limits, products
from tests.gpu import nest_emitter
from tests.gpu.device import Split, gpu_runtime, needs_gpu
from tests.runtime.nests.nest_emitters import chosen
from tests.share import some

WIDE, NARROW = (f"typedef unsigned {kind} Index;" for kind in ("long long", "int"))
pytestmark = needs_gpu


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The kernels that are compiled, all of which count with 64 bits."""
    found: list[str] = []
    driver: Any = importlib.import_module("gpushard._runtime.cuda.driver.cupy_driver").CupyDriver
    compiled = driver._compile

    def noted(self: Any, gpu: int, key: Any, name: str, text: str, *options: str) -> int:
        if name != "reduction":  # which has 64 bits for rows, always
            found.append(text)
        return int(compiled(self, gpu, key, name, text, *options))

    monkeypatch.setattr(limits, "NARROW_END", 1)
    monkeypatch.setattr(driver, "_compile", noted)
    yield found
    assert found and all(WIDE in text and NARROW not in text for text in found)


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


@pytest.mark.parametrize("dtype", "bqfdF")
@pytest.mark.parametrize(
    "subscripts", ["ij,jk->ik", "ij,j->i", "j,jk->k", "j,j->", "aij,ajk->aik", "aij,jk->aik"]
)
def test_products_in_parts_give_what_numpy_does(
    subscripts: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"a": 3, "i": 13, "j": 17, "k": 11}
    left, right = subscripts.split("->")[0].split(",")
    source = np.random.default_rng(7)
    x, y = (source.integers(-4, 5, [sizes[n] for n in own]).astype(dtype) for own in (left, right))
    with gpu_runtime(split=Split(1, False)):
        on_gpu = gs.device_put(x), gs.device_put(y)
        monkeypatch.setattr(limits, "NARROW_END", 10)
        monkeypatch.setattr(products, "_EASY", 1)
        monkeypatch.setattr(products, "_ROWS", 8)
        np.testing.assert_array_equal(gnp.matmul(*on_gpu), np.matmul(x, y))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("most", [3, 40, 200, 1000])
def test_sums_up_to_each_element_in_parts_are_those_of_numpy(
    name: str, axis: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy: Any = importlib.import_module("cupy")
    cases: list[Any] = []

    def noted(x: Any, own: Any, dtype: Any = None, out: Any = None) -> Any:
        if own is not None:
            cases.append(x.size)
        return function(x, own, dtype, out)

    function = getattr(cupy, name)
    x = (np.arange(5 * 7 * 6) % 4 * 9000).reshape(5, 7, 6).astype(np.int16)
    with gpu_runtime(split=Split(1, False)):
        on_gpu = gs.device_put(x)
        monkeypatch.setattr(limits, "NARROW_END", most)
        monkeypatch.setattr(cupy, name, noted)
        got = getattr(gnp, name)(on_gpu, axis)
        assert got.dtype == getattr(np, name)(x, axis).dtype
        np.testing.assert_array_equal(got, getattr(np, name)(x, axis))
    assert all(2 * size < most for size in cases)
    assert bool(cases) == (most > 12)  # others are rows by themselves


@pytest.mark.skipif(not some(False, True), reason="takes seconds: --all")
def test_integer_matrices_have_more_rows_than_a_grid_of_cupys() -> None:
    """In one call CuPy's kernel would have 65,536 blocks of threads in a further direction."""
    x = np.arange(65_535 * 128 + 1, dtype=np.int8)[:, None]
    with gpu_runtime(split=Split(1, False), poisoned=False):
        y = gnp.matmul(gs.device_put(x), gs.device_put(np.array([[3]], np.int8)))
        np.testing.assert_array_equal(y, x * np.int8(3))


def unallocated(shape: Any, strides: Any, dtype: Any) -> Any:
    """Return an array of CuPy's that has no memory: only its shape is looked at."""
    module = importlib.import_module("gpushard._runtime.cuda.driver.cupy_driver")
    return module.CupyDriver().array(0, 1 << 20, 1 << 40, shape, np.dtype(dtype), None, strides)


@pytest.mark.parametrize(
    ("shape", "strides", "dtype", "wide"),
    [((2**31,), None, "b", False), ((2**31 + 1,), None, "b", True), ((2**32,), None, "b", True),
     ((2**28 + 1,), None, "d", True), ((2**28,), None, "d", False),
     ((131_136, 4), (32_768, 1), "b", True), ((131_136, 4), (32_768, 0), "b", True),
     ((65_536, 4), (32_768, 1), "b", False), ((65_537, 4), (32_768, 1), "b", True)],
)  # fmt: skip
def test_cupy_counts_bytes_from_the_first_to_the_last_element(
    shape: Any, strides: Any, dtype: str, wide: bool
) -> None:
    """Our own kernels on CuPy's arrays rely on that; views keep what their arrays have."""
    made = unallocated(shape, strides, dtype)
    assert made._index_32_bits != wide
    stride_tricks = importlib.import_module("cupy.lib.stride_tricks")
    assert stride_tricks.as_strided(made[:2], shape, made.strides)._index_32_bits != wide
    assert (made[1:]._index_32_bits, made.T._index_32_bits) == (not wide, not wide)


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
