"""The examples of Flax's page on transforms, as written there but for imports and devices."""

from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import lax, nnx

P = gs.P


class MLP(nnx.Module):
    def __init__(self, din: int, dhidden: int, dout: int, *, rngs: nnx.Rngs) -> None:
        self.linear1 = nnx.Linear(din, dhidden, use_bias=False, rngs=rngs)
        self.linear2 = nnx.Linear(dhidden, dout, use_bias=False, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.linear2(gs.nn.relu(self.linear1(x)))


def path_ends_with(*path_suffix: str) -> Any:  # custom filter
    return lambda path, value: path[-len(path_suffix) :] == path_suffix


BY_FILTERS = nnx.StateSharding(
    {
        path_ends_with("linear1", "kernel"): P(None, "model"),
        path_ends_with("linear2", "kernel"): P("model", None),
    }
)
BY_STATE = nnx.StateSharding(
    nnx.State({"linear1": {"kernel": P(None, "model")}, "linear2": {"kernel": P("model", None)}})
)


def test_data_parallel() -> None:
    mesh = gs.Mesh(gs.local_devices(), ("data",))
    m = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    x = gnp.ones((32, 2))
    expected = np.asarray(m(x))

    @nnx.shard_map(mesh=mesh, in_specs=(P(None), P("data")), out_specs=P("data"))
    def f(m: Any, x: Any) -> Any:
        assert x.shape == (4, 2)
        return m(x)

    y = f(m, x)
    assert np.allclose(y, expected) and y.sharding.spec == P("data")
    assert m.kernel.value.sharding.is_fully_replicated
    gs.debug.visualize_array_sharding(y)


@pytest.mark.parametrize("model_spec", [BY_FILTERS, BY_STATE], ids=["filters", "state"])
def test_tensor_parallel(model_spec: nnx.StateSharding, capsys: Any) -> None:
    mesh = gs.Mesh(gs.local_devices(), ("model",))
    m = MLP(2, 64, 3, rngs=nnx.Rngs(0))
    x = gnp.ones((32, 2))
    expected = np.asarray(m(x))

    @nnx.shard_map(mesh=mesh, in_specs=(model_spec, P(None)), out_specs=P(None))
    def f(m: Any, x: Any) -> Any:
        assert m.linear1.kernel.shape == (2, 8) and m.linear2.kernel.shape == (8, 3)
        y = m(x)
        return lax.psum(y, "model")

    for call in (f, nnx.jit(lambda m, x: f(m, x))):
        assert np.allclose(call(m, x), expected, rtol=1e-5)
        assert m.linear1.kernel.value.sharding == gs.NamedSharding(mesh, P(None, "model"))
        assert m.linear2.kernel.value.sharding.shard_shape((64, 3)) == (8, 3)
        assert m.linear2.kernel.value.sharding.spec == P("model", None)
    gs.debug.visualize_array_sharding(m.linear1.kernel.value)
    gs.debug.visualize_array_sharding(m.linear2.kernel.value)
    drawn = capsys.readouterr().out
    assert all(str(n) in drawn for n in range(8))


@pytest.mark.parametrize("model_spec", [BY_FILTERS, BY_STATE], ids=["filters", "state"])
def test_the_same_by_jit(model_spec: nnx.StateSharding) -> None:
    mesh = gs.Mesh(gs.local_devices(), ("model",))
    m = MLP(2, 64, 3, rngs=nnx.Rngs(0))
    x = gnp.ones((32, 2))
    expected = np.asarray(m(x))
    with mesh:
        y = nnx.jit(lambda m, x: m(x), in_shardings=(model_spec, P()))(m, x)
    assert np.allclose(y, expected, rtol=1e-5)
    assert m.linear1.kernel.value.sharding == gs.NamedSharding(mesh, P(None, "model"))
    assert m.linear2.kernel.value.sharding.spec == P("model", None)


def test_specs_of_names_beside_weights() -> None:
    mesh = gs.Mesh(gs.local_devices(), ("model",))
    init = nnx.with_partitioning(nnx.initializers.lecun_normal(), (None, "model"))
    m = nnx.Linear(2, 64, kernel_init=init, rngs=nnx.Rngs(0))
    x = gnp.ones((32, 2))
    expected = np.asarray(m(x))
    spec = nnx.StateSharding(nnx.get_partition_spec(nnx.state(m)))
    f = nnx.jit(lambda m, x: m(x), in_shardings=(spec, None))
    with mesh:
        assert np.allclose(f(m, x), expected)
    assert m.kernel.value.sharding.spec == P(None, "model")
    assert m.bias.value.sharding.is_fully_replicated
