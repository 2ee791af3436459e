"""Kernels made of CuPy's statements give what CuPy's functions give, to the bit."""

from __future__ import annotations

import importlib
import operator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.ops.launched import Launched
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


def test_no_function_is_left_to_cupy_unseen() -> None:
    assert {u.__name__ for u in FEW} <= {u.__name__ for u in UFUNCS}


@needs_gpu
@pytest.mark.parametrize(
    "ufunc", [*FEW, *(u for u in UFUNCS if u not in FEW)], ids=lambda u: u.__name__
)
def test_results_are_cupys(ufunc: np.ufunc) -> None:
    cupy: Any = importlib.import_module("cupy")
    namespace = importlib.import_module("gpushard.runtime.cuda.kernels.namespace")
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
        programs = [entry.value for entry in runtime.plans._entries.values()]
        if own:
            assert any(isinstance(getattr(p, "_work", None), Launched) for p in programs)


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
