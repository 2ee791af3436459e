"""Multiply matrices with the summed dim split: each device has one term of the sum.

`psum` adds up the terms, and every device has the whole product. If each device needs only some
rows, `psum_scatter` gives it these, and half as many bytes move. Outside of `shard_map` you need
not choose: `matmul` takes the way that moves the fewest bytes for the sharding that you ask for.
"""

import numpy as np

import gpushard as gs
from gpushard import P, lax

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((8,), ("i",))
rng = np.random.default_rng(0)
x = gs.device_put(rng.normal(size=(128, 4096)), gs.NamedSharding(mesh, P(None, "i")))
w = gs.device_put(rng.normal(size=(4096, 32)), gs.NamedSharding(mesh, P("i")))


@gs.shard_map(mesh=mesh, in_specs=(P(None, "i"), P("i")), out_specs=P())
def everywhere(x, w):  # (128, 512) @ (512, 32)
    return lax.psum(x @ w, "i")


@gs.shard_map(mesh=mesh, in_specs=(P(None, "i"), P("i")), out_specs=P("i"))
def scattered(x, w):
    return lax.psum_scatter(x @ w, "i", scatter_dimension=0, tiled=True)


def outside(x, w):
    return gs.numpy.matmul(x, w, out_sharding=gs.NamedSharding(mesh, P("i")))


term = 128 * 32 * 8  # bytes of x @ w on one device
for product, terms in (everywhere, 2 * 7 / 8), (scattered, 7 / 8), (outside, 7 / 8):
    with gs.debug.count_traffic() as traffic:
        y = product(x, w)
    assert np.allclose(y, np.asarray(x) @ np.asarray(w))
    assert set(traffic.received.values()) == {terms * term}
    print(f"\n{product.__name__}: a device receives {traffic.received[0]:,} bytes, {terms} terms")
    gs.debug.visualize_array_sharding(y, scale=0.3)
