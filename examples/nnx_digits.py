"""Train a module on handwritten digits in place, with kernels split over one axis of the mesh.

`nnx.jit` takes the module as an argument. A step assigns to the weights of the module. After the
call your module has the new values, laid out as its `StateSharding` says. The other axis of the
mesh splits the batch. Each gradient is written by hand, next to its forward computation.
"""

import sys

import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, nnx

try:
    from sklearn.datasets import load_digits
except ImportError:
    sys.exit(print("scikit-learn, which has the digits, is not installed: nothing to learn"))

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((4, 2), ("batch", "model"))
HIDDEN, BATCH, PASSES, RATE, FRICTION = 64, 352, 8, 0.8, 0.8

digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.target))
pixels, labels = digits.data[order] / 16, digits.target[order]
TRAIN = 4 * BATCH  # of 1,797; the others are held out


class Velocity(nnx.Variable):
    """How fast a weight moves; filters can tell it from the weight."""


class MLP(nnx.Module):
    def __init__(self, *, rngs):
        self.hidden = nnx.Linear(64, HIDDEN, rngs=rngs)
        self.out = nnx.Linear(HIDDEN, 10, rngs=rngs)
        for layer in self.hidden, self.out:
            layer.speed = {
                name: Velocity(gnp.zeros_like(getattr(layer, name).value))
                for name in ("kernel", "bias")
            }

    def __call__(self, x):
        return nnx.softmax(self.out(nnx.relu(self.hidden(x))))

    def learn(self, x, y):
        """Take one step down the cross entropy of a batch, and return it."""
        h = nnx.relu(self.hidden(x))
        p = nnx.softmax(self.out(h))
        at_out = (p - y) / len(x)  # the gradient before the softmax
        at_hidden = (at_out @ self.out.kernel.value.T) * (h > 0)
        for layer, inputs, gradient in (self.out, h, at_out), (self.hidden, x, at_hidden):
            for name, g in ("kernel", inputs.T @ gradient), ("bias", gradient.sum(0)):
                speed = layer.speed[name]
                speed.value = FRICTION * speed.value - RATE * g
                getattr(layer, name).value += speed.value
        return -(y * gnp.log(p + 1e-12)).sum() / len(x)


def on(*spec):
    return gs.NamedSharding(mesh, P(*spec))


def of(layer, name):
    """Match a layer's weight and its velocity: both have both names in their paths."""
    return nnx.All(nnx.PathContains(layer), nnx.PathContains(name))


lay_out = nnx.StateSharding(
    {
        of("hidden", "kernel"): on(None, "model"),
        of("hidden", "bias"): on("model"),
        of("out", "kernel"): on("model"),
        ...: on(),
    }
)

traced = []


@nnx.jit(in_shardings=(lay_out, on("batch"), on("batch")))
def step(model, x, y):
    traced.append(1)
    return model.learn(x, y)


model = MLP(rngs=nnx.Rngs(0))
weights = nnx.state(model, nnx.Param)
print(f"{sum(w.size for w in gs.tree.leaves(weights)):,} weights")
targets = np.eye(10, dtype=np.float32)[labels]
x = pixels.astype(np.float32)
for number in range(PASSES):
    for at in range(0, TRAIN, BATCH):
        loss = step(model, x[at : at + BATCH], targets[at : at + BATCH])
    if number % 2 == 1:
        print(f"pass {number + 1:2}: loss {float(loss):.3f}")
assert traced == [1]  # traced once for all steps

for layer, spec in (model.hidden, P(None, "model")), (model.out, P("model")):
    assert layer.kernel.value.sharding.spec == layer.speed["kernel"].value.sharding.spec == spec
print("the kernels of the hidden layer and of the one behind it:")
gs.debug.visualize_array_sharding(model.hidden.kernel.value, scale=0.5)
gs.debug.visualize_array_sharding(model.out.kernel.value, scale=0.5)

predict = nnx.jit(lambda model, x: model(x).argmax(-1))
right = np.mean(np.asarray(predict(model, x[TRAIN:])) == labels[TRAIN:])
print(f"{right:.1%} of {len(labels) - TRAIN} digits that it has not seen")
assert right > 0.95
