"""Split the weights of a transformer layer: tensor parallel, then sequence parallel.

Each device has some columns of the first matrix, and the matching rows of the second. So values
between the two matrices need no other device, and the layer ends in one sum. Tensor parallel: the
sum is a `psum`, and every device has all tokens. Sequence parallel: `psum_scatter` gives each
device the sums of its own tokens, and `all_gather` fetches the others before the next layer. Both
move the same bytes. But with sequence parallelism, work on each token, here its norm, is done once
instead of on each of eight devices.
"""

import numpy as np

import gpushard as gs
from gpushard import P, lax, nn

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((8,), ("model",))
rng = np.random.default_rng(0)
tokens = rng.normal(size=(64, 32))
first, second = rng.normal(size=(32, 128)), rng.normal(size=(128, 32))
up = gs.device_put(first, gs.NamedSharding(mesh, P(None, "model")))
down = gs.device_put(second, gs.NamedSharding(mesh, P("model")))
weights = (P(None, "model"), P("model"))


@gs.shard_map(mesh=mesh, in_specs=(P(), *weights), out_specs=P())
def tensor_parallel(x, up, down):  # x: all 64 tokens
    hidden = nn.relu(nn.standardize(x) @ up)  # (64, 16): all tokens, some of the features
    return x + lax.psum(hidden @ down, "model")


@gs.shard_map(mesh=mesh, in_specs=(P("model"), *weights), out_specs=P("model"))
def sequence_parallel(x, up, down):  # x: 8 tokens
    normed = lax.all_gather(nn.standardize(x), "model", tiled=True)
    hidden = nn.relu(normed @ up)
    return x + lax.psum_scatter(hidden @ down, "model", tiled=True)


centered = tokens - tokens.mean(-1, keepdims=True)
normed = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
expected = tokens + np.maximum(normed @ first, 0) @ second

for layer, spec in (tensor_parallel, P()), (sequence_parallel, P("model")):
    x = gs.device_put(tokens, gs.NamedSharding(mesh, spec))
    with gs.debug.count_traffic() as traffic:
        y = layer(x, up, down)
    assert np.allclose(y, expected) and y.sharding == x.sharding
    assert set(traffic.received.values()) == {2 * 7 / 8 * tokens.nbytes}
    held = y.addressable_data(0).nbytes
    print(f"{layer.__name__}: a device receives {traffic.received[0]:,} bytes, has {held:,} of y")

print("\nThe first matrix, and the second:")
gs.debug.visualize_array_sharding(up, scale=0.3)
gs.debug.visualize_array_sharding(down, scale=0.3)
