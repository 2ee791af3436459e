"""Kernels made of CuPy's statements give what CuPy's functions give, to the bit."""

from __future__ import annotations

import importlib
import operator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.programs.launched import Launched
from gpushard._ops.programs.local import Compute
from gpushard._ops.steps import Program
from tests.gpu.device import Split, gpu_runtime, needs_gpu

UFUNCS = [u for name, u in vars(np).items() if isinstance(u, np.ufunc) and u.__name__ == name]
FEW = (np.add, np.divide, np.power, np.floor_divide, np.divmod, np.less, np.sin, np.exp)
TYPES = [np.dtype(t) for t in "?bhilBHILefdFD"]


def operand(dtype: np.dtype[Any], seed: int) -> Any:
    """Values of all signs, zeros, and what is special."""
    source = np.random.default_rng(seed)
    values = source.normal(0, 3, (10, 6))
    if dtype.kind in "fc":
        values.flat[:5] = [np.nan, np.inf, -np.inf, -0.0, 1e-5]
    made = values
    if dtype.kind == "c":
        made = np.empty(values.shape, np.complex128)
        made.real, made.imag = values, values[::-1]
    if dtype.kind == "u":
        made = abs(made)
    with np.errstate(all="ignore"):
        return made.astype(dtype)


def is_launched(runtime: Any) -> bool:
    """Test whether a program of a runtime has launches of the library's own."""
    programs = [e.value for e in runtime.plans._entries.values() if isinstance(e.value, Program)]
    works = [step.work for program in programs for step in program.steps]
    return any(isinstance(work, Compute) and isinstance(work.calls, Launched) for work in works)


def test_no_function_is_left_to_cupy_unseen() -> None:
    assert {u.__name__ for u in FEW} <= {u.__name__ for u in UFUNCS}


@needs_gpu
@pytest.mark.parametrize(
    "ufunc", [*FEW, *(u for u in UFUNCS if u not in FEW)], ids=lambda u: u.__name__
)
def test_results_are_cupys(ufunc: np.ufunc) -> None:
    cupy: Any = importlib.import_module("cupy")
    namespace = importlib.import_module("gpushard._runtime.cuda.kernels.namespace")
    function = getattr(namespace, ufunc.__name__, None)
    if not isinstance(function, cupy.ufunc):
        pytest.skip("it is no ufunc of CuPy")
    with gpu_runtime(split=Split(2, False), poisoned=False) as runtime:
        sharding = gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x"))
        types = TYPES if ufunc in FEW else [np.dtype(t) for t in "?ifF"]
        own = 0
        for dtype in types:
            values = [operand(dtype, n) for n in range(ufunc.nin)]
            try:
                ufunc(*(np.empty(0, dtype) for _ in values))
                wanted = function(*map(cupy.asarray, values))
            except TypeError:  # it is not defined, or CuPy does not have it
                continue
            placed = [gs.device_put(value, sharding) for value in values]
            found = getattr(gs.numpy, ufunc.__name__)(*placed)
            wanted = wanted if isinstance(wanted, tuple) else (wanted,)
            found = found if isinstance(found, tuple) else (found,)
            for mine, theirs in zip(found, wanted, strict=True):
                if mine.dtype == theirs.dtype:  # else NumPy's types are others than CuPy's
                    own += 1
                    assert np.asarray(mine).tobytes() == cupy.asnumpy(theirs).tobytes(), dtype
        if own:
            assert is_launched(runtime)


@needs_gpu
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_integers_beyond_a_type_are_compared_with(dtype: str) -> None:
    value = np.arange(8).astype(dtype)
    for partitions in (1, 4):
        with gpu_runtime(split=Split(partitions, False), poisoned=False):
            x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((partitions,), "x"), gs.P("x")))
            for number in (2**70, -(2**70), 3):
                for compare in (operator.eq, operator.lt, operator.gt):
                    found = np.asarray(compare(x, number))
                    assert found.tolist() == [compare(each, number) for each in range(8)]


@needs_gpu
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "any", "all"])
@pytest.mark.parametrize("partitions", [1, 4])
def test_rows_are_reduced_as_numpy_does(name: str, dtype: np.dtype[Any], partitions: int) -> None:
    value = operand(dtype, 3).ravel()[5:].repeat(4)[: 4 * 54].reshape(4, 54)
    if dtype.kind in "fc":  # few products overflow
        with np.errstate(all="ignore"):
            value = (value / 2).astype(dtype)
    with gpu_runtime(split=Split(partitions, False)) as runtime, np.errstate(all="ignore"):
        mesh = gs.make_mesh((partitions,), ("x",))
        x = gs.device_put(value, gs.NamedSharding(mesh, gs.P("x")))
        for kept in (False, True):
            got = getattr(x, name)(axis=-1, keepdims=kept)
            want = getattr(value, name)(axis=-1, keepdims=kept)
            assert got.dtype == want.dtype
            tolerance = 1e-2 if dtype.char == "e" else 1e-4
            np.testing.assert_allclose(got, want, tolerance, tolerance)
        by_cupy = dtype.char == "e" and name in ("sum", "prod")  # in single precision
        assert is_launched(runtime) != by_cupy


@needs_gpu
def test_rows_that_keep_more_than_a_block_of_threads_busy_are_left_to_cupy() -> None:
    value = np.arange(1 << 15, dtype=np.float32)
    with gpu_runtime() as runtime:
        x = gs.device_put(value, runtime.devices[0])
        assert float(x.sum()) == value.sum() and float(x[:8].sum()) == 28
        assert not is_launched(runtime)


@needs_gpu
@pytest.mark.parametrize("dtype", "fdFD")
def test_products_of_matrices_go_to_cublas_directly(dtype: str) -> None:
    source = np.random.default_rng(0)
    with gpu_runtime() as runtime:
        for n, k, m in ((5, 7, 3), (1, 4, 6), (6, 4, 1), (3, 1, 2), (1, 9, 1), (16, 16, 16)):
            a, b = (source.normal(size=s).astype(dtype) for s in ((n, k), (k, m)))
            x, y = (gs.device_put(of, runtime.devices[0]) for of in (a, b))
            np.testing.assert_allclose(x @ y, a @ b, 1e-4, 1e-4)
            np.testing.assert_allclose(y.T @ x.T, b.T @ a.T, 1e-4, 1e-4)
        assert is_launched(runtime)
