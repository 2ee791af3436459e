"""A user's program, which type checkers read and a test runs."""

from __future__ import annotations

import dataclasses
from typing import assert_type

import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import nnx, random


@gs.tree.register_dataclass
@dataclasses.dataclass
class Model:
    weights: gs.Array
    bias: gs.Array


def predict(model: Model, x: gs.Array) -> gs.Array:
    """Operators, methods and functions give arrays."""
    hidden = gnp.tanh(x @ model.weights + model.bias)
    assert_type(hidden, gs.Array)
    assert_type(2 * hidden.sum(axis=1) - hidden.mean(axis=1), gs.Array)
    assert_type(hidden[0], gs.Array)
    assert_type(hidden.T.reshape(-1).astype(np.float32), gs.Array)
    assert_type(hidden > 0, gs.Array)
    assert_type(hidden == 0, gs.Array)
    assert_type(divmod(hidden, 2.0)[0], gs.Array)
    assert_type(hidden.at[0].set(1.0), gs.Array)
    hidden += 1
    assert_type(hidden, gs.Array)
    for row in hidden:
        assert_type(row, gs.Array)
    return hidden.max(axis=1)


def main() -> gs.Array:
    mesh = gs.make_mesh((2,), "x")
    rows = gs.NamedSharding(mesh, gs.P("x"))
    x = gs.device_put(np.arange(12.0).reshape(4, 3), rows)
    assert_type(x, gs.Array)
    assert_type(gs.device_put(1.5), gs.Array)
    assert_type(gs.reshard(x, gs.P()), gs.Array)
    assert_type(gs.block_until_ready(x), gs.Array)
    assert_type(x.addressable_data(0), gs.Array)
    assert_type(gs.make_array_from_callback((4,), rows, lambda index: np.ones(2)), gs.Array)

    key = random.key(0)
    assert_type(random.normal(key, (3, 3)), gs.Array)
    assert_type(random.uniform(key), gs.Array)
    assert_type(random.permutation(key, 4), gs.Array)

    assert_type(gnp.zeros((2, 2)), gs.Array)
    assert_type(gnp.sum(x, axis=0), gs.Array)
    assert_type(gnp.where(x > 1, x, 0), gs.Array)
    assert_type(gnp.nonzero(x)[0], gs.Array)
    assert_type(gnp.concatenate([x, x]), gs.Array)
    assert_type(gnp.linspace(0, 1, 5), gs.Array)
    assert_type(gnp.unique(x), gs.Array)
    assert_type(gnp.einsum("ij,kj->ik", x, x), gs.Array)
    assert_type(gnp.split(x, 2), list[gs.Array])
    assert_type(gnp.linalg.norm(x), gs.Array)
    assert_type(gnp.linalg.qr(x).Q, gs.Array)
    assert_type(gnp.linalg.svd(x)[1], gs.Array)
    assert_type(gnp.fft.fft(x), gs.Array)
    assert_type(gs.special.erf(x), gs.Array)

    model = Model(gnp.ones((3, 3)), gnp.zeros(3))
    assert_type(gs.device_put(model), Model)
    model = gs.tree.map(double, model)
    return predict(model, x)


def double(x: gs.Array) -> gs.Array:
    return x * 2


class Scale(nnx.Module):
    def __init__(self) -> None:
        self.factor: nnx.Param[gs.Array] = nnx.Param(gnp.ones(3))
        self.calls: nnx.Variable[int] = nnx.Variable(0)


def scaled(scale: Scale, graphdef: nnx.GraphDef[Scale], state: nnx.State[nnx.Param]) -> gs.Array:
    """Variables say what they hold."""
    assert_type(scale.factor.value, gs.Array)
    assert_type(scale.calls.value, int)
    return scale.factor.value * scale.calls.value


def mistakes(x: gs.Array) -> None:
    """What a type checker must see, or else these comments are errors."""
    gnp.concatenat([x])  # type: ignore[attr-defined]  # pyright: ignore
    gs.devise_put(x)  # type: ignore[attr-defined]  # pyright: ignore
    gnp.sum(x, axes=0)  # type: ignore[call-arg]  # pyright: ignore
    x.summ()  # type: ignore[attr-defined]  # pyright: ignore
