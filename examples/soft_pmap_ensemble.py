"""Simulate forty weathers on eight devices: an axis with more elements than there are devices.

Lorenz' equations run from forty starts that are nearly equal. The function sees one of them, and
reads the others through collectives of the axis, as with `pmap`. `pmap` would need forty devices,
and its error says so. `soft_pmap` gives each of eight devices a chunk of five, and computes a chunk
at once.

E. N. Lorenz, "Deterministic nonperiodic flow", J. Atmos. Sci. 20, 1963.
"""

import numpy as np

import gpushard as gs
from gpushard import lax

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
MEMBERS, STEPS, DT = 40, 200, 0.02
starts = np.array([1.0, 1.0, 20.0]) + 1e-3 * np.random.default_rng(0).normal(size=(MEMBERS, 3))


def moved(xp, x, y, z):
    """Return a state one step of Euler's later."""
    return xp.stack(
        [x + DT * 10 * (y - x), y + DT * (x * (28 - z) - y), z + DT * (x * y - 8 / 3 * z)]
    )


def member(state):  # (3,)
    state = moved(gs.numpy, *state)
    from_mean = state - lax.pmean(state, "member")
    return state, lax.pmax(abs(from_mean).max(), "member")


try:
    gs.pmap(member, "member")(starts)
except gs.errors.NoDeviceError as error:
    print(f"pmap: {error}\n")

step = gs.soft_pmap(member, "member", out_axes=(0, None))
states, expected = starts, starts.T
for n in range(STEPS):
    states, spread = step(states)
    expected = moved(np, *expected)
    if n % 25 == 24:
        print(f"time {(n + 1) * DT:.1f}: no member is further than {spread:.4f} from the mean")
        assert np.isclose(float(spread), abs(expected.T - expected.mean(1)).max(), rtol=1e-4)
assert np.allclose(states, expected.T, rtol=1e-4)
gs.debug.visualize_array_sharding(states, scale=0.3)
