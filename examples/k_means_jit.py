"""Run K-means until nothing changes, as one traced program that never stores distances.

The points are split over all devices. `jit` fuses the work on each point into one kernel, and
`while_loop` continues while a centre moves. k_means.py does the same with `shard_map`.
"""

import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, lax, nn

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((8,), ("i",))
K, DIMS, MOST = 5, 3, 100
rng = np.random.default_rng(0)
truth = 10 * rng.normal(size=(K, DIMS))
data = np.concatenate([centre + rng.normal(size=(1600, DIMS)) for centre in truth])
rng.shuffle(data)
points = gs.device_put(data, gs.NamedSharding(mesh, P("i")))


def update(points, centres):
    """Compute the mean of the points nearest to each centre, and the loss."""
    squares = ((points[:, None] - centres) ** 2).sum(-1)
    member = nn.one_hot(squares.argmin(1), K)  # 1 at the nearest centre
    return (member.T @ points) / member.sum(0)[:, None], squares.min(1).sum()


@gs.jit(out_shardings=gs.NamedSharding(mesh, P()))
def k_means(points, centres):
    def step(state):
        centres, _, _, steps = state
        new, loss = update(points, centres)
        return new, abs(new - centres).max(), loss, steps + 1

    def moves(state):
        return (state[1] > 0) & (state[3] < MOST)

    return lax.while_loop(moves, step, (centres, gnp.inf, 0.0, 0))


centres, _, loss, steps = k_means(points, data[:K])
assert int(steps) < MOST

expected = data[:K]
for _ in range(int(steps)):
    squares = ((data[:, None] - expected) ** 2).sum(-1)
    nearest = squares.argmin(1)
    expected = np.array([data[nearest == k].mean(0) for k in range(K)])
assert np.allclose(centres, expected) and np.allclose(loss, squares.min(1).sum())

with gs.debug.count_traffic() as traffic:
    k_means(points, data[:K])
each = traffic.bytes_received / int(steps)
assert each < data.nbytes / 4  # sums move, points do not
print(f"{int(steps)} steps, loss {float(loss):,.1f}, {each:,.0f} bytes moved in each")
print(f"{data.nbytes:,} bytes of points")
