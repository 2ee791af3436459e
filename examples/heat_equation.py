"""Solve the heat equation on a plate cut into eight blocks, which exchange their edges.

The next temperature of a point depends on its four neighbours. A block needs the row or column of
each neighbouring block that touches it, its halo: four `ppermute`s fetch them. No device sends to
the outer edge of the plate, where `ppermute` returns zeros. So that edge stays at zero degrees.
"""

import numpy as np

import gpushard as gs
from gpushard import P, lax

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((4, 2), ("x", "y"))
plate = gs.NamedSharding(mesh, P("x", "y"))
STEPS, RATE = 50, 0.2


def from_neighbour(edge, axis, step):
    """Fetch the edge of the block `step` further along an axis of the mesh."""
    n = lax.axis_size(axis)
    return lax.ppermute(edge, axis, [(i, i - step) for i in range(n) if 0 <= i - step < n])


@gs.shard_map(mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))
def step(t):  # (16, 32): one block
    above, below = from_neighbour(t[-1:], "x", -1), from_neighbour(t[:1], "x", 1)
    left, right = from_neighbour(t[:, -1:], "y", -1), from_neighbour(t[:, :1], "y", 1)
    tall = gs.numpy.concatenate([above, t, below], axis=0)
    wide = gs.numpy.concatenate([left, t, right], axis=1)
    return t + RATE * (tall[:-2] + tall[2:] + wide[:, :-2] + wide[:, 2:] - 4 * t)


def numpy_step(t):
    p = np.pad(t, 1)
    return t + RATE * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * t)


start = np.zeros((64, 64))
start[20:40, 25:50] = 100.0
t, expected = gs.device_put(start, plate), start
with gs.debug.count_traffic() as traffic:
    for _ in range(STEPS):
        t = step(t)
for _ in range(STEPS):
    expected = numpy_step(expected)
assert np.allclose(t, expected)

halo = 16 * 8, 32 * 8  # bytes of a column and of a row
inner = STEPS * (2 * halo[1] + halo[0])  # of a block with two neighbours along x, and one along y
assert max(traffic.received.values()) == inner
print(f"{STEPS} steps: a block of {16 * 32 * 8:,} bytes received no more than {inner:,} bytes")
for row in np.asarray(t)[2::6, 1::3]:
    print("".join(" .:-=+*#%@"[min(9, int(degrees / 8))] for degrees in row))
