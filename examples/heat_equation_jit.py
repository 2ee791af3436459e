"""Solve the heat equation without naming devices: one traced program does all steps.

The step adds shifted parts of the plate, as in NumPy. The plate is split over the mesh. `jit` finds
out which rows and columns of its neighbours a block needs, and moves them in each step. `scan`
stores the mean temperature every ten steps, and `fori_loop` does the steps between.
"""

import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, lax

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((4, 2), ("x", "y"))
plate = gs.NamedSharding(mesh, P("x", "y"))
STEPS, RATE = 50, 0.2


def step(t, m):
    """Compute the next temperatures, with `m` as NumPy; the edge stays at zero degrees."""
    p = m.pad(t, 1)
    return t + RATE * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * t)


@gs.jit(donate_argnums=0, out_shardings=(plate, None))
def heat(t):
    def ten(t, _):
        t = lax.fori_loop(0, 10, lambda i, t: step(t, gnp), t)
        return t, t.mean()

    return lax.scan(ten, t, length=STEPS // 10)


start = np.zeros((64, 64))
start[20:40, 25:50] = 100.0
given = gs.device_put(start, plate)
t, means = heat(given)
assert given.is_deleted() and t.sharding == plate

expected, kept = start, []
for number in range(STEPS):
    expected = step(expected, np)
    if number % 10 == 9:
        kept.append(expected.mean())
assert np.allclose(t, expected) and np.allclose(means, kept)

again = gs.device_put(start, plate)
with gs.debug.count_traffic() as traffic:
    heat(again)
each = traffic.bytes_received / STEPS
print(f"{STEPS} steps, {each:,.0f} bytes moved in each, of a plate of {start.nbytes:,}")
print("mean temperature:", " ".join(f"{float(mean):.3f}" for mean in means))
