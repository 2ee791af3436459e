"""`gpushard.nn` against `jax.nn`: the same signatures and values."""

import inspect
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpushard import nn
from tests.nn import oracle
from tests.numpy.compare import put
from tests.numpy.matrices import numbers

MISSING = {"get_scaled_dot_general_config", "initializers", "scaled_dot_general", "scaled_matmul"}
"""What JAX has there that we have not."""


def functions(jax: ModuleType) -> list[str]:
    return [name for name in dir(jax.nn) if not name.startswith("_")]


def test_names_and_signatures(jax: ModuleType) -> None:
    assert set(functions(jax)) - MISSING <= set(nn.__all__)
    for name in nn.__all__:
        if name == "tanh":  # NumPy's
            continue
        theirs = inspect.signature(getattr(jax.nn, name)).parameters.values()
        ours = inspect.signature(getattr(nn, name)).parameters.values()
        assert [(p.name, p.kind, p.default) for p in ours if p.name != "out_sharding"] == [
            (p.name, p.kind, p.default) for p in theirs
        ], name


@pytest.mark.parametrize("dtype", ["d", "f"])
def test_values(jax: ModuleType, dtype: str) -> None:
    data = numbers((8, 6), dtype)
    with jax.enable_x64(True):
        for name in sorted({*nn.__all__} - {"one_hot", "dot_product_attention"}):
            given = np.abs(data) + np.array(0.1, dtype) if name == "log1mexp" else 3 * data
            wanted = np.asarray(getattr(jax.nn, name)(given))
            found = getattr(nn, name)(put(given, "x", "y"))
            assert found.dtype == wanted.dtype, name
            size = 1e-13 if dtype == "d" else 3e-5
            np.testing.assert_allclose(np.asarray(found), wanted, size, size, err_msg=name)


def test_masks_and_classes(jax: ModuleType) -> None:
    data, where = numbers((8, 6)), numbers((8, 6), "d", "w") > 0
    where[3] = False
    classes = numbers((8, 6), "i") - 1
    with jax.enable_x64(True):
        for name in ("softmax", "log_softmax", "logsumexp", "logmeanexp"):
            wanted = getattr(jax.nn, name)(data, axis=1, where=where)
            found = getattr(nn, name)(put(data, "x", "y"), axis=1, where=where)
            np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), 1e-13, err_msg=name)
        for axis in (0, 1, -1):
            wanted = jax.nn.one_hot(classes, 3, axis=axis)
            found = nn.one_hot(put(classes, "x", "y"), 3, axis=axis)
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


@pytest.mark.parametrize("call", oracle.CALLS)
def test_attention(jax: ModuleType, call: str) -> None:
    how: dict[str, Any] = oracle.CALLS[call]
    given = [x.astype(np.float32) for x in (oracle.Q, oracle.K, oracle.V)]
    wanted = jax.nn.dot_product_attention(*given, **how, return_residual=True)
    found = nn.dot_product_attention(*[put(x, "y") for x in given], **how, return_residual=True)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), 1e-4, 1e-5)
