"""Train a network with named dims: how it is split is independent of what it computes.

The loss is written for one number of one layer and one example. `xmap` maps it over the batch,
inputs, hidden units and classes. A table then says which of these the mesh splits: nothing, the
batch (data parallel), hidden units (tensor parallel), or both. The program and its results do not
change; only the bytes that move do.
"""

import numpy as np

import gpushard as gs
from gpushard import legacy
from gpushard import numpy as gnp

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((4, 2), ("data", "model"))
rng = np.random.default_rng(0)
BATCH, INPUTS, HIDDEN, CLASSES, RATE, STEPS = 64, 16, 32, 4, 0.5, 10
points = rng.normal(size=(BATCH, INPUTS))
labels = np.eye(CLASSES)[(points @ rng.normal(size=(INPUTS, CLASSES))).argmax(1)]
start = rng.normal(size=(INPUTS, HIDDEN)) / 4, rng.normal(size=(HIDDEN, CLASSES)) / 4


def step(x, label, w1, w2):  # a number each: their dims have names
    hidden = gnp.tanh(gnp.einsum("{batch,in},{in,hidden}->{batch,hidden}", x, w1))
    logits = gnp.einsum("{batch,hidden},{hidden,class}->{batch,class}", hidden, w2)
    exp = gnp.exp(logits - gnp.max(logits, "class"))
    chance = exp / exp.sum("class")
    loss = -gnp.mean((label * gnp.log(chance)).sum("class"), "batch")
    error = (chance - label) / BATCH
    back = gnp.einsum("{batch,class},{hidden,class}->{batch,hidden}", error, w2) * (1 - hidden**2)
    d1 = gnp.einsum("{batch,in},{batch,hidden}->{in,hidden}", x, back)
    d2 = gnp.einsum("{batch,hidden},{batch,class}->{hidden,class}", hidden, error)
    return loss, w1 - RATE * d1, w2 - RATE * d2


def expected():
    w1, w2 = start
    for _ in range(STEPS):
        hidden = np.tanh(points @ w1)
        exp = np.exp(hidden @ w2)
        chance = exp / exp.sum(1, keepdims=True)
        loss = -(labels * np.log(chance)).sum(1).mean()
        error = (chance - labels) / BATCH
        d1 = points.T @ (error @ w2.T * (1 - hidden**2))
        w1, w2 = w1 - RATE * d1, w2 - RATE * hidden.T @ error
    return loss, w1, w2


NAMES = ["batch", "in"], ["batch", "class"], ["in", "hidden"], ["hidden", "class"]
PLACES = {
    "replicas": {},
    "data parallel": {"batch": ("data", "model")},
    "tensor parallel": {"hidden": ("data", "model")},
    "both": {"batch": "data", "hidden": "model"},
}

wanted = expected()
for title, places in PLACES.items():
    train = gs.jit(legacy.xmap(step, NAMES, ([], *NAMES[2:]), axis_resources=places))
    specs = [gs.P(*[places.get(name) for name in names]) for names in NAMES]
    x, label, w1, w2 = (
        gs.device_put(value, gs.NamedSharding(mesh, spec))
        for value, spec in zip((points, labels, *start), specs, strict=True)
    )
    with mesh, gs.debug.count_traffic() as traffic:
        for _ in range(STEPS):
            loss, w1, w2 = train(x, label, w1, w2)
    for made, value in zip((loss, w1, w2), wanted, strict=True):
        assert np.allclose(made, value)
    moved = sum(traffic.received.values()) // STEPS
    held = w1.addressable_data(0).nbytes
    print(f"{title:>15}: loss {float(loss):.4f}, a device has {held:5,} bytes of w1, ", end="")
    print(f"{moved:8,} bytes move in a step")
