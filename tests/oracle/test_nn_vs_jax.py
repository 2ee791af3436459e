"""`gpushard.nn` against `jax.nn`: the same signatures and values."""

import inspect
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import nn
from tests.nn import oracle
from tests.numpy.compare import put
from tests.numpy.matrices import numbers

MISSING = {"get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"}
"""What JAX has there that we have not."""


def functions(jax: ModuleType) -> list[str]:
    return [name for name in dir(jax.nn) if not name.startswith("_")]


def test_names_and_signatures(jax: ModuleType) -> None:
    assert set(functions(jax)) - MISSING <= set(dir(nn))
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


def test_initializers(jax: ModuleType) -> None:
    """Names, arguments, and numbers for the same key; those that are drawn differ by roundings."""
    theirs, ours = jax.nn.initializers, nn.initializers
    assert {name for name in dir(theirs) if name[0] != "_"} == set(ours.__all__)
    how: dict[str, Any] = {"constant": (3.0,), "variance_scaling": (2.0, "fan_geo_avg", "normal")}
    for name in set(ours.__all__) - {"Initializer"}:
        parameters = [
            [(p.name, p.default) for p in inspect.signature(getattr(of, name)).parameters.values()]
            for of in (ours, theirs)
        ]
        assert parameters[0] == parameters[1], name
        made = [getattr(of, name) for of in (ours, theirs)]
        if name not in ("zeros", "ones"):
            made = [make(*how.get(name, ())) for make in made]
        found = np.asarray(made[0](gs.random.key(7), (3, 40, 50), np.float32))
        wanted = np.asarray(made[1](jax.random.key(7), (3, 40, 50), np.float32))
        assert found.dtype == wanted.dtype == np.float32
        size = (32 if "orthogonal" in name else 8) * np.spacing(np.abs(wanted).max())
        np.testing.assert_allclose(found, wanted, rtol=0, atol=size, err_msg=name)
        if name.endswith(("_normal", "_uniform")) and not name.startswith("truncated"):
            found = np.asarray(made[0](gs.random.key(7), (3, 40, 50), np.complex64))
            wanted = np.asarray(made[1](jax.random.key(7), (3, 40, 50), np.complex64))
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5, err_msg=name)
