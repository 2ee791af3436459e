"""Run K-means without moving points: only sums move.

Each device finds the nearest centre of each of its points, and adds up the points of each centre.
One `psum` of the sums and the counts, a pytree, gives every device the new centres. The bytes that
move depend on the number of centres, not on the number of points.
"""

import numpy as np

import gpushard as gs
from gpushard import P, lax, nn

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((8,), ("i",))
K, DIMS, STEPS = 5, 3, 10
rng = np.random.default_rng(0)
truth = 10 * rng.normal(size=(K, DIMS))
data = np.concatenate([centre + rng.normal(size=(1600, DIMS)) for centre in truth])
rng.shuffle(data)
points = gs.device_put(data, gs.NamedSharding(mesh, P("i")))


@gs.shard_map(mesh=mesh, in_specs=(P("i"), P()), out_specs=(P(), P()))
def update(points, centres):  # 1,000 points
    squares = ((points[:, None] - centres) ** 2).sum(-1)
    member = nn.one_hot(squares.argmin(1), K)  # (1000, K): 1 at the nearest centre
    own = {"sums": member.T @ points, "counts": member.sum(0), "loss": squares.min(1).sum()}
    total = lax.psum(own, "i")
    return total["sums"] / total["counts"][:, None], total["loss"]


def numpy_update(points, centres):
    squares = ((points[:, None] - centres) ** 2).sum(-1)
    nearest = squares.argmin(1)
    means = [points[nearest == k].mean(0) for k in range(K)]
    return np.array(means), squares.min(1).sum()


centres = expected = data[:K]
for step in range(STEPS):
    with gs.debug.count_traffic() as traffic:
        centres, loss = update(points, centres)
    expected, expected_loss = numpy_update(data, expected)
    assert np.allclose(centres, expected) and np.allclose(loss, expected_loss)
    print(f"step {step}: loss {float(loss):12,.1f}, {traffic.bytes_received:,} bytes moved")

sums = 8 * (K * DIMS + K + 1)  # bytes of the sums, the counts and the loss of one device
assert traffic.bytes_received == 2 * 7 * sums  # psum: each device receives 2 * 7/8 of what it has
print(f"{data.nbytes:,} bytes of points; each device has {sums} bytes of sums")
