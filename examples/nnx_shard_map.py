"""Pass modules to `shard_map`, with one spec for a whole model, or one for each weight.

Data parallel: each device has all weights and a part of the batch. Tensor parallel: the weights of
an MLP are split, once by filters of their paths, once by a `State` of specs. After the call your
model is laid out as the specs say.
"""

import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, nnx

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
x = gnp.ones((32, 2))

# Data parallel.

mesh = gs.Mesh(gs.local_devices(), ("data",))
m = nnx.Linear(2, 3, rngs=nnx.Rngs(0))


@nnx.shard_map(mesh=mesh, in_specs=(P(None), P("data")), out_specs=P("data"))
def f(m, x):
    return m(x)


y = f(m, x)
print("y, a part of the batch on each device:")
gs.debug.visualize_array_sharding(y, scale=0.3)
assert np.allclose(y, np.ones((32, 2)) @ np.asarray(m.kernel)) and y.sharding.spec == P("data")

# Tensor parallel: filters select the weights.

mesh = gs.Mesh(gs.local_devices(), ("model",))


class MLP(nnx.Module):
    def __init__(self, din, dhidden, dout, *, rngs: nnx.Rngs):
        self.linear1 = nnx.Linear(din, dhidden, use_bias=False, rngs=rngs)
        self.linear2 = nnx.Linear(dhidden, dout, use_bias=False, rngs=rngs)

    def __call__(self, x):
        return self.linear2(nnx.relu(self.linear1(x)))


def path_ends_with(*path_suffix):  # a filter
    return lambda path, value: path[-len(path_suffix) :] == path_suffix


by_filters = nnx.StateSharding(
    {
        path_ends_with("linear1", "kernel"): P(None, "model"),
        path_ends_with("linear2", "kernel"): P("model", None),
    }
)

# Or a State with the spec of each weight at its path.

by_state = nnx.StateSharding(
    nnx.State(
        {
            "linear1": {"kernel": P(None, "model")},
            "linear2": {"kernel": P("model", None)},
        }
    )
)

for model_spec in by_filters, by_state:
    m = MLP(2, 64, 3, rngs=nnx.Rngs(0))
    expected = m(x)

    @nnx.shard_map(mesh=mesh, in_specs=(model_spec, P(None)), out_specs=P(None))
    def f(m, x):
        y = m(x)  # 8 of the 64 hidden features
        return gs.lax.psum(y, "model")

    y = f(m, x)
    assert np.allclose(y, expected)
    assert m.linear1.kernel.value.sharding.spec == P(None, "model")
    assert m.linear2.kernel.value.sharding.spec == P("model", None)

print("the kernel of linear1, then of linear2:")
gs.debug.visualize_array_sharding(m.linear1.kernel.value, scale=0.3)
gs.debug.visualize_array_sharding(m.linear2.kernel.value, scale=0.3)
