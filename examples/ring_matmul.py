"""Multiply matrices by passing the left operand around a ring.

`x` is split by rows, `w` by columns, and each device computes all rows of its own columns. It could
gather `x` first and hold all of it. In a ring it holds one block: it multiplies the block, passes
it to its neighbour, and takes the next one. Both ways receive the same bytes.
"""

import numpy as np

import gpushard as gs
from gpushard import P, lax

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((8,), ("i",))
rng = np.random.default_rng(0)
x = gs.device_put(rng.normal(size=(1024, 256)), gs.NamedSharding(mesh, P("i")))
w = gs.device_put(rng.normal(size=(256, 32)), gs.NamedSharding(mesh, P(None, "i")))
block = x.nbytes // 8


@gs.shard_map(mesh=mesh, in_specs=(P("i"), P(None, "i")), out_specs=P(None, "i"))
def ring(x, w):  # (128, 256) @ (256, 4), eight times
    n, me = lax.axis_size("i"), lax.axis_index("i")
    to_the_left = [(i, (i - 1) % n) for i in range(n)]
    y = gs.numpy.zeros((n, len(x), w.shape[1]))
    for step in range(n):
        y[(me + step) % n] = x @ w  # these rows of x began as the block of device me + step
        if step < n - 1:
            x = lax.ppermute(x, "i", to_the_left)
    return y.reshape(-1, w.shape[1])


@gs.shard_map(mesh=mesh, in_specs=(P("i"), P(None, "i")), out_specs=P(None, "i"))
def gather(x, w):  # (1024, 256) @ (256, 4)
    return lax.all_gather(x, "i", tiled=True) @ w


for product in ring, gather:
    with gs.debug.count_traffic() as traffic:
        y = product(x, w)
    assert np.allclose(y, np.asarray(x) @ np.asarray(w))
    assert set(traffic.received.values()) == {7 * block}
    peak = gs.devices()[0].memory_stats()["peak_bytes_in_use"]
    print(f"{product.__name__}: a device receives {traffic.received[0]:,} bytes", end=", ")
    print(f"and has held up to {peak / block:.1f} blocks of x")

print("The product, split by columns as w is:")
gs.debug.visualize_array_sharding(y, scale=0.3)
