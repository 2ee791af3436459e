"""Train a network on handwritten digits, with gradients written by hand, as one traced step.

One axis of the mesh splits the batch, the other the hidden layer. `jit` traces a whole pass over
the data once: a `scan` over batches that carries the weights. Each device has a part of a matrix
and of its gradient. Sums over the batch move, the data stays where it is.
"""

import sys

import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, lax, nn

try:
    from sklearn.datasets import load_digits
except ImportError:
    sys.exit(print("scikit-learn, which has the digits, is not installed: nothing to learn"))

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((4, 2), ("batch", "hidden"))
HIDDEN, BATCH, PASSES, RATE = 32, 128, 18, 0.5

digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.target))
pixels, labels = digits.data[order] / 16, digits.target[order]
TRAIN = 11 * BATCH  # of 1,797; the others are held out


def put(value, *spec):
    """Put an array on the mesh."""
    return gs.device_put(value, gs.NamedSharding(mesh, P(*spec)))


x = put(pixels[:TRAIN].reshape(-1, BATCH, 64), None, "batch")
y = put(np.eye(10)[labels[:TRAIN]].reshape(-1, BATCH, 10), None, "batch")
w1 = gs.random.normal(gs.random.key(1), (64, HIDDEN)) / 8
w2 = gs.random.normal(gs.random.key(2), (HIDDEN, 10)) / 8
weights = {
    "w1": put(w1, None, "hidden"), "b1": put(np.zeros(HIDDEN), "hidden"),
    "w2": put(w2, "hidden"), "b2": put(np.zeros(10)),
}  # fmt: skip


def forward(w, x):
    """Compute the hidden layer, and the probability of each digit."""
    h = gnp.tanh(x @ w["w1"] + w["b1"])
    return h, nn.softmax(h @ w["w2"] + w["b2"])


def step(w, batch):
    """Return the weights after one batch, and its loss."""
    x, y = batch
    h, p = forward(w, x)
    at_out = (p - y) / BATCH  # gradient of the cross entropy before the softmax
    at_hidden = (at_out @ w["w2"].T) * (1 - h * h)
    gradient = {
        "w1": x.T @ at_hidden, "b1": at_hidden.sum(0), "w2": h.T @ at_out, "b2": at_out.sum(0),
    }  # fmt: skip
    new = gs.tree.map(lambda w, g: w - RATE * g, w, gradient)
    return new, -(y * gnp.log(p + 1e-12)).sum() / BATCH


traced = []
places = gs.tree.map(lambda w: w.sharding, weights)


@gs.jit(out_shardings=(places, None))  # weights stay as they are split
def one_pass(w, x, y):
    traced.append(1)
    w, losses = lax.scan(step, w, (x, y))
    return w, losses.mean()


for number in range(PASSES):
    weights, loss = one_pass(weights, x, y)
    if number % 6 == 5:
        print(f"pass {number + 1:2}: loss {float(loss):.3f}")
assert traced == [1]  # traced once for all batches of all passes
assert gs.tree.map(lambda w: w.sharding, weights) == places

predicted = gs.jit(lambda w, x: forward(w, x)[1].argmax(-1))(weights, put(pixels[TRAIN:]))
right = np.mean(np.asarray(predicted) == labels[TRAIN:])
print(f"{right:.1%} of {len(labels) - TRAIN} digits that it has not seen")
assert right > 0.95
