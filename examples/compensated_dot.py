"""Compute a dot product in 32 bits, split over devices, as exactly as in 64 bits.

A sum of two numbers is rounded. `two_sum` computes the rounding error, which is again a 32-bit
number, and `two_product` does the same for a product. A dot product that adds up these errors too
is nearly exact, even if most of its terms cancel. Each device works on its own terms, and only two
of its numbers move: the sum and its error.

T. Ogita, S. M. Rump, S. Oishi, "Accurate sum and dot product", SIAM J. Sci. Comput. 26(6), 2005.
"""

import math

import numpy as np

import gpushard as gs
from gpushard import P, lax

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((8,), ("i",))


def two_sum(a, b):
    """Return a rounded sum and its rounding error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a, b):
    """Return a rounded product and its rounding error."""
    p = a * b
    (a1, a2), (b1, b2) = halves(a), halves(b)
    return p, a2 * b2 - (((p - a1 * b1) - a2 * b1) - a1 * b2)


def halves(a):
    """Split a number into two with half as many bits; products of these are exact."""
    c = np.float32(2**12 + 1) * a
    high = c - (c - a)
    return high, a - high


def compensated_sum(x, error):
    """Add up numbers and their errors in pairs, then pairs of pairs."""
    while len(x) > 1:
        half = len(x) // 2
        x, lost = two_sum(x[:half], x[half:])
        error = error[:half] + error[half:] + lost
    return x[0], error[0]


@gs.shard_map(mesh=mesh, in_specs=(P("i"), P("i")), out_specs=P())
def compensated_dot(a, b):
    own = gs.numpy.stack(compensated_sum(*two_product(a, b)))
    x, error = lax.all_gather(own, "i", axis=1)
    return sum(compensated_sum(x, error))


@gs.shard_map(mesh=mesh, in_specs=(P("i"), P("i")), out_specs=P())
def plain_dot(a, b):
    return lax.psum(a @ b, "i")


rng = np.random.default_rng(0)
a, b = (rng.normal(size=1 << 16) * 10.0 ** rng.integers(-3, 3, 1 << 16) for _ in "ab")
a, b = (np.concatenate([x, y]).astype(np.float32) for x, y in ((a, a + 1e-3), (b, -b)))
exact = math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))  # of 64 bits: exact
x, y = (gs.device_put(v, gs.NamedSharding(mesh, P("i"))) for v in (a, b))
print(f"exact        {exact:.9g}")
errors = []
for dot in plain_dot, compensated_dot:
    value = dot(x, y)
    assert value.dtype == np.float32
    errors.append(abs(float(value) - exact) / abs(exact))
    print(f"{dot.__name__:12.11} {float(value):.9g}, relative error {errors[-1]:.1e}")
assert errors[1] < 1e-6 < errors[0] / 10
