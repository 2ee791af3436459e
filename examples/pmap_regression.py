"""Fit a linear regression with `pmap`: a batch and a copy of the weights on each device.

Each device computes the gradient of its own batch. `pmean` is the only step that moves data: as
many bytes as the weights have. All devices then do the same with the same mean, so their copies
stay equal to the bit. `pmap` returns results in the layout of its arguments, so the next call
copies nothing.
"""

import numpy as np

import gpushard as gs
from gpushard import lax

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
devices = gs.devices()
rng = np.random.default_rng(0)
truth = rng.normal(size=16)
x = rng.normal(size=(8, 100, 16))
y = x @ truth + 0.1 * rng.normal(size=(8, 100))
STEPS, RATE = 30, 0.5


def train(weights, x, y, rate):  # (16,), (100, 16), (100,), and a number
    gradient = (x @ weights - y) @ x / len(x)
    return weights - rate * lax.pmean(gradient, "batch")


step = gs.pmap(train, "batch", in_axes=(0, 0, 0, None), donate_argnums=0)
weights = gs.device_put_replicated(np.zeros(16), devices)  # (8, 16)
batches = [gs.device_put_sharded(list(part), devices) for part in (x, y)]
print(f"weights {weights.shape}, on each device {weights.addressable_data(0).shape}")

with gs.debug.count_traffic() as traffic:
    for _ in range(STEPS):
        weights = step(weights, *batches, RATE)
assert all(np.array_equal(weights[0], weights[i]) for i in range(1, 8))

expected = np.zeros(16)
for _ in range(STEPS):
    expected -= RATE * np.mean([(a @ expected - b) @ a / 100 for a, b in zip(x, y, strict=True)], 0)
assert np.allclose(weights[0], expected)
assert traffic.bytes_received == STEPS * 2 * 7 * 16 * 8  # pmean: 2 * 7/8 of what each device has

solved = np.linalg.lstsq(x.reshape(-1, 16), y.ravel(), rcond=None)[0]
assert np.allclose(weights[0], solved, atol=1e-5)
print(f"{STEPS} steps moved {traffic.bytes_received:,} bytes; the data are {x.nbytes + y.nbytes:,}")
print(f"the weights differ from least squares by at most {abs(weights[0] - solved).max():.1e}")
