"""Layers and streams of keys as arguments of `nnx.jit` and `nnx.shard_map`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import P, nnx, random


class Noisy(nnx.Module):
    """A module that shares a stream with a part of it."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.rngs, self.parts = rngs, [nnx.Dropout(0.5, rngs=rngs), {"again": rngs.dropout}]

    def __call__(self, x: Any) -> Any:
        return self.parts[0](x) + random.normal(self.rngs.dropout(), x.shape, x.dtype)


def test_jit_carries_streams_on() -> None:
    x = gs.numpy.ones(16)
    plain, traced = (Noisy(nnx.Rngs(0, dropout=1)) for _ in range(2))
    step = nnx.jit(lambda model, x: model(x))
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(step(traced, x)), np.asarray(plain(x)))
    assert int(traced.rngs.dropout.count.value) == int(plain.rngs.dropout.count.value) == 4
    assert traced.rngs.dropout is traced.parts[1]["again"]


def test_modules_are_made_in_a_traced_function() -> None:
    rngs, again = nnx.Rngs(0), nnx.Rngs(0)
    model = nnx.jit(lambda rngs: nnx.Linear(3, 4, rngs=rngs))(rngs)
    np.testing.assert_allclose(
        np.asarray(model.kernel), np.asarray(nnx.Linear(3, 4, rngs=again).kernel), rtol=1e-6
    )
    assert int(rngs.default.count.value) == int(again.default.count.value) == 2


def test_shard_map_carries_streams_on() -> None:
    mesh = gs.make_mesh((4,), ("data",))
    rngs = nnx.Rngs(0)

    @nnx.shard_map(mesh=mesh, in_specs=(P(), P("data")), out_specs=P("data"))
    def noisy(rngs: nnx.Rngs, x: Any) -> Any:
        return x + random.normal(rngs.noise(), x.shape)

    for count in range(3):
        y = np.asarray(noisy(rngs, gs.numpy.zeros(8)))
        part = np.asarray(random.normal(random.fold_in(random.key(0), count), (2,)))
        np.testing.assert_array_equal(y, np.tile(part, 4))  # the same key on each device
    assert int(rngs.default.count.value) == 3


def test_each_device_has_a_key_of_its_own_where_they_are_split() -> None:
    mesh = gs.make_mesh((4,), ("data",))
    rngs, x = nnx.Rngs(0), gs.numpy.zeros(8)
    spec = nnx.StateSharding({nnx.RngState: P("data")})

    @nnx.split_rngs(splits=4)
    @nnx.shard_map(mesh=mesh, in_specs=(spec, P("data")), out_specs=P("data"))
    def noisy(rngs: nnx.Rngs, x: Any) -> Any:
        return x + random.normal(rngs.default.key.value[0], x.shape)

    y = np.asarray(noisy(rngs, x))
    keys = random.split(random.fold_in(random.key(0), 0), 4)
    np.testing.assert_array_equal(y, np.concatenate([random.normal(k, (2,)) for k in keys]))
    assert rngs.default.key.shape == ()


def test_streams_of_outside_are_not_drawn_from_in_a_traced_function() -> None:
    rngs = nnx.Rngs(0)
    with pytest.raises(gs.errors.TraceContextError, match="RngCount"):
        nnx.jit(lambda x: x + random.normal(rngs()))(1.0)
    assert int(rngs.default.count.value) == 0


# Layers


def on(mesh: gs.Mesh, *spec: Any) -> gs.NamedSharding:
    return gs.NamedSharding(mesh, P(*spec))


def data(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


LAYERS: dict[str, tuple[Any, np.ndarray]] = {
    "Linear": (lambda rngs: nnx.Linear(6, 4, rngs=rngs), data(8, 6)),
    "Conv": (lambda rngs: nnx.Conv(6, 4, (3, 2), rngs=rngs), data(8, 5, 4, 6)),
    "Embed": (lambda rngs: nnx.Embed(10, 4, rngs=rngs), np.arange(8) % 10),
    "LayerNorm": (lambda rngs: nnx.LayerNorm(6, rngs=rngs), data(8, 6)),
    "Dropout": (lambda rngs: nnx.Dropout(0.5, rngs=rngs), data(8, 6)),
    "Sequential": (
        lambda rngs: nnx.Sequential(
            nnx.Linear(6, 4, rngs=rngs), nnx.gelu, nnx.Dropout(0.25, rngs=rngs)
        ),
        data(8, 6),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_traced_layer_gives_what_the_layer_gives(name: str) -> None:
    make, x = LAYERS[name]
    plain, traced, other = (make(nnx.Rngs(3)) for _ in range(3))
    seen = []

    @nnx.jit
    def f(layer: Any, x: Any) -> Any:
        seen.append(layer)
        return layer(x)

    for _ in range(2):
        wanted = np.asarray(plain(x))
        np.testing.assert_allclose(np.asarray(f(traced, x)), wanted, rtol=1e-5, atol=1e-6)
    f(other, x)
    assert len(seen) == 1  # another layer of the same structure is not traced again
    for (path, mine), (_, wanted) in zip(
        nnx.to_flat_state(nnx.state(traced)), nnx.to_flat_state(nnx.state(plain)), strict=True
    ):
        assert bool((mine.value == wanted.value).all()), path


@pytest.mark.parametrize("name", ["Linear", "Conv", "Embed", "LayerNorm"])
def test_a_batch_is_split_and_weights_are_not(name: str) -> None:
    make, x = LAYERS[name]
    mesh = gs.make_mesh((4,), ("data",))
    layer = make(nnx.Rngs(3))
    wanted = np.asarray(layer(x))
    f = nnx.shard_map(
        lambda layer, x: layer(x), mesh=mesh, in_specs=(P(), P("data")), out_specs=P("data")
    )
    y = f(layer, x)
    np.testing.assert_allclose(np.asarray(y), wanted, rtol=1e-5, atol=1e-6)
    assert y.sharding.spec == P("data")


class Block(nnx.Module):
    """Two products, whose inner features may be split, as may be those that are normalized."""

    def __init__(self, axis: str | None, rngs: nnx.Rngs) -> None:
        names = (None, "model"), ("model", None), ("model",)
        columns, rows, each = (
            nnx.with_partitioning(init, name)
            for init, name in zip(
                (*[nnx.initializers.lecun_normal()] * 2, nnx.initializers.normal(1.0)),
                names,
                strict=True,
            )
        )
        self.inner = nnx.Linear(6, 16, kernel_init=columns, bias_init=each, rngs=rngs)
        self.norm = nnx.LayerNorm(16, scale_init=each, bias_init=each, axis_name=axis, rngs=rngs)
        self.outer = nnx.Linear(16, 3, kernel_init=rows, use_bias=False, rngs=rngs)
        self.table = nnx.Embed(5, 16, embedding_init=columns, rngs=rngs)

    def __call__(self, x: Any, picked: Any) -> Any:
        return self.outer(self.norm(nnx.relu(self.inner(x)) + self.table(picked)))


@pytest.mark.parametrize("transform", ["jit", "shard_map"])
def test_features_are_split_as_their_names_say(transform: str) -> None:
    x, picked = data(8, 6), np.arange(8) % 5
    wanted = np.asarray(Block(None, nnx.Rngs(0))(x, picked))
    mesh = gs.make_mesh((4,), ("model",))
    block = Block("model" if transform == "shard_map" else None, nnx.Rngs(0))
    if transform == "jit":
        shardings = nnx.get_named_sharding(nnx.state(block), mesh)
        f = nnx.jit(
            lambda m, x, i: m(x, i), in_shardings=(nnx.StateSharding(shardings), on(mesh), on(mesh))
        )
    else:
        specs = nnx.StateSharding(nnx.get_partition_spec(nnx.state(block)))
        f = nnx.shard_map(
            lambda m, x, i: gs.lax.psum(m(x, i), "model"),
            mesh=mesh, in_specs=(specs, P(), P()), out_specs=P(),
        )  # fmt: skip
    np.testing.assert_allclose(np.asarray(f(block, x, picked)), wanted, rtol=1e-4, atol=1e-5)
    for path, weight in nnx.to_flat_state(nnx.state(block)):
        assert weight.value.sharding.spec == P(*weight.sharding_names), path


def test_wrong_inputs_are_refused_where_weights_are_split() -> None:
    mesh = gs.make_mesh((4,), ("model",))
    specs = nnx.StateSharding({nnx.Param: P("model")})
    layer = nnx.Linear(8, 4, use_bias=False, rngs=nnx.Rngs(0))

    @nnx.shard_map(mesh=mesh, in_specs=(specs, P()), out_specs=P())
    def f(layer: Any, x: Any) -> Any:
        return gs.lax.psum(layer(x), "model")

    before = layer.kernel.value
    with pytest.raises(gs.errors.ArgumentError, match=r"\(3, 8\) must have 2 features"):
        f(layer, np.ones((3, 8)))
    assert layer.kernel.value is before
    assert f(layer, np.ones((3, 2))).shape == (3, 4)


def test_shapes_of_a_model_that_no_memory_would_hold() -> None:
    model = nnx.eval_shape(lambda: nnx.Linear(10**7, 10**7, rngs=nnx.Rngs(0)))
    assert model.kernel.shape == (10**7, 10**7) and model.bias.dtype == np.float32
    assert isinstance(model.kernel.value, gs.ShapeDtypeStruct)
