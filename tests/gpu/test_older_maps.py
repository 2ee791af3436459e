"""`xmap`, `sharded_jit` and `pjit` on GPUs and parts of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import legacy
from gpushard.legacy import Parts, SerialLoop
from gpushard.testing.runtime import using
from tests.gpu.device import Split, make_driver, make_gpu_runtime, needs_gpu

pytestmark = needs_gpu
gnp: Any = gs.numpy
X = np.arange(32.0).reshape(8, 4)


@pytest.fixture(params=[Split(4, False), Split(4, True)], ids=str)
def mesh(request: pytest.FixtureRequest) -> Iterator[gs.Mesh]:
    with using(make_gpu_runtime(make_driver("cupy"), request.param)):
        yield gs.make_mesh((2, 2), ("x", "y"), devices=gs.devices()[:4])


@pytest.mark.parametrize(
    "places", [{}, {"i": "x"}, {"i": ("x", "y")}, {"i": "y", "j": "x"}, {"i": ("x", SerialLoop(2))}]
)
def test_named_dims(mesh: gs.Mesh, places: Any) -> None:
    f = legacy.xmap(
        lambda x, y: (gnp.einsum("{i,j},{j}->{i}", x, y), x.sum("j") - y.max("j"), gnp.tanh(x)),
        (["i", "j"], ["j"]),
        (["i"], ["i"], ["j", "i"]),
        axis_resources=places,
    )
    y = X[0] + 1
    with mesh:
        for call in (f, gs.jit(f)):
            product, sums, tanh = call(X, y)
            np.testing.assert_allclose(np.asarray(product), X @ y)
            np.testing.assert_allclose(np.asarray(sums), X.sum(1) - y.max())
            np.testing.assert_allclose(np.asarray(tanh), np.tanh(X).T)


def test_parts(mesh: gs.Mesh) -> None:
    cut = legacy.sharded_jit(lambda x: x @ x.T + 1, Parts(2, 2), Parts(1, 4))
    for _ in range(2):
        made = cut(X)
        np.testing.assert_allclose(np.asarray(made), X @ X.T + 1)
        assert made.addressable_data(0).shape == (8, 2)
    each = gs.pmap(legacy.sharded_jit(lambda x: x * 2, Parts(2), Parts(2)))
    blocks = each(X[:2])
    np.testing.assert_array_equal(np.asarray(blocks), X[:2] * 2)
    assert blocks.addressable_data(0).shape == (2,)


def test_specs_of_a_mesh(mesh: gs.Mesh) -> None:
    f = gs.pjit(lambda x: x @ x.T, in_axis_resources=legacy.FROM_GDA, out_axis_resources=gs.P("y"))
    x = legacy.GlobalDeviceArray.from_callback((8, 4), mesh, ("x",), lambda index: X[index])
    with mesh:
        np.testing.assert_allclose(np.asarray(f(x)), X @ X.T)
