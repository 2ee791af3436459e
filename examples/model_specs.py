"""Lay out a model, which is a pytree, by a pytree of specs.

`shard_map` takes specs that are a prefix of its arguments. With one `P()` for a whole model, every
device has the whole model and a part of the batch, and nothing moves. With a model of specs, each
layer is split in its own way, and the partial results of the second layer are summed.
"""

import dataclasses

import numpy as np

import gpushard as gs
from gpushard import P, lax, nn, tree


@tree.register_dataclass
@dataclasses.dataclass
class Linear:
    kernel: object

    def __call__(self, x):
        return x @ self.kernel


@tree.register_dataclass
@dataclasses.dataclass
class MLP:
    hidden: Linear
    out: Linear

    def __call__(self, x):
        return self.out(nn.relu(self.hidden(x)))


gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
rng = np.random.default_rng(0)
host = MLP(Linear(rng.normal(size=(4, 64))), Linear(rng.normal(size=(64, 3))))
batch = rng.normal(size=(32, 4))
expected = np.maximum(batch @ host.hidden.kernel, 0) @ host.out.kernel


def placed(value, mesh, specs):
    """Put a pytree on a mesh; the specs are a prefix of it."""
    return gs.device_put(value, tree.map(lambda spec: gs.NamedSharding(mesh, spec), specs))


data = gs.make_mesh((8,), ("data",))


@gs.shard_map(mesh=data, in_specs=(P(), P("data")), out_specs=P("data"))
def data_parallel(model, x):  # 4 rows of the batch
    return model(x)


model = gs.make_mesh((8,), ("model",))
specs = MLP(hidden=Linear(P(None, "model")), out=Linear(P("model")))


@gs.shard_map(mesh=model, in_specs=(specs, P()), out_specs=P())
def tensor_parallel(model, x):  # 8 of the 64 hidden features
    return lax.psum(model(x), "model")


for forward, mesh, layout in (data_parallel, data, P()), (tensor_parallel, model, specs):
    mlp = placed(host, mesh, layout)
    x = gs.device_put(batch, gs.NamedSharding(mesh, P("data" if mesh is data else None)))
    with gs.debug.count_traffic() as traffic:
        y = forward(mlp, x)
    assert np.allclose(y, expected)
    print(f"{forward.__name__}: {traffic.bytes_received:,} bytes moved; the kernel of `hidden`:")
    gs.debug.visualize_array_sharding(mlp.hidden.kernel, scale=0.3)
assert traffic.bytes_received == 2 * 7 * y.nbytes
