"""Layers against their definitions in NumPy, with whole and split weights; what they refuse."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import P, nnx
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    GpushardError,
    ShardingError,
)
from gpushard.nn import initializers

KEY = gs.random.key(0)


def rngs(**streams: Any) -> nnx.Rngs:
    return nnx.Rngs(0, **streams)


def numbers(shape: tuple[int, ...], dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def close(found: Any, wanted: Any, size: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=size, atol=size)


def split_over(layer: nnx.Module, **specs: gs.P) -> None:
    """Lay weights of a layer out over a mesh."""
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    for name, spec in specs.items():
        variable = getattr(layer, name)
        variable.value = gs.device_put(variable.value, gs.NamedSharding(mesh, spec))


def on_mesh(value: Any, *spec: Any) -> gs.Array:
    return gs.device_put(value, gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), P(*spec)))


# Linear


@pytest.mark.parametrize("batch", [(), (5,), (2, 0, 3), (2, 4, 3)])
@pytest.mark.parametrize("use_bias", [True, False])
def test_linear_is_a_product_and_a_bias(batch: tuple[int, ...], use_bias: bool) -> None:
    layer = nnx.Linear(
        7, 4, use_bias=use_bias, param_dtype=float, bias_init=initializers.normal(1), rngs=rngs()
    )
    x = numbers((*batch, 7))
    wanted = x @ np.asarray(layer.kernel) + (np.asarray(layer.bias) if use_bias else 0)
    close(layer(x), wanted)
    close(layer(gs.device_put(x)), wanted)
    assert (layer.bias is not None) == use_bias
    for kernel, bias in itertools.product(
        (P("x"), P(None, "y"), P("y", "x"), P()), (P("x"), P("y"), P())
    ):
        split_over(layer, kernel=kernel, **({"bias": bias} if use_bias else {}))
        close(layer(on_mesh(x, *("x",)[: x.ndim - 1])), wanted)


def test_weights_are_drawn_from_their_stream_in_order() -> None:
    def key(count: int) -> Any:
        return gs.random.fold_in(KEY, count)

    streams = rngs()
    first = nnx.Linear(3, 4, bias_init=initializers.normal(), rngs=streams)
    second = nnx.Linear(3, 4, use_bias=False, rngs=streams)
    kernel = initializers.lecun_normal()
    for found, init, count, shape in (
        (first.kernel, kernel, 0, (3, 4)),
        (first.bias, initializers.normal(), 1, (4,)),
        (second.kernel, kernel, 2, (3, 4)),
    ):
        assert isinstance(found, nnx.Param) and found.dtype == np.float32
        np.testing.assert_array_equal(found, np.asarray(init(key(count), shape, np.float32)))
    own = nnx.Linear(3, 4, rngs=nnx.Rngs(1, params=0))
    np.testing.assert_array_equal(own.kernel, np.asarray(first.kernel))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_types_are_promoted_or_set(dtype: Any) -> None:
    x = numbers((2, 3), dtype)
    made = {
        "Linear": lambda **how: nnx.Linear(3, 3, rngs=rngs(), **how),
        "Conv": lambda **how: nnx.Conv(3, 3, 1, rngs=rngs(), **how),
    }
    if dtype != np.complex64:
        made["LayerNorm"] = lambda **how: nnx.LayerNorm(3, rngs=rngs(), **how)
    for name, make in made.items():
        for weights in (np.float32, np.float16):
            layer = make(param_dtype=weights)
            assert layer(x).dtype == np.promote_types(dtype, weights), name
        assert make(dtype=dtype)(numbers((2, 3))).dtype == dtype, name
    plain = nnx.Linear(3, 3, use_bias=False, dtype=dtype, rngs=rngs())
    assert plain(numbers((2, 3))).dtype == dtype
    embed = nnx.Embed(4, 3, dtype=dtype, rngs=rngs())
    assert embed([1]).dtype == embed.attend(numbers((3,))).dtype == dtype


# LayerNorm


def normalized(x: np.ndarray, axes: Any, epsilon: float, where: Any = True) -> np.ndarray:
    mean = x.mean(axes, keepdims=True, where=where)
    variance = ((x - mean) ** 2).mean(axes, keepdims=True, where=where)
    return (x - mean) / np.sqrt(variance + epsilon)


@pytest.mark.parametrize("axes", [-1, 1, (0, 2), (-1, 0), 2])
@pytest.mark.parametrize("fast", [True, False])
def test_layer_norm_takes_means(axes: Any, fast: bool) -> None:
    x, mask = 3 * numbers((4, 5, 6)) + 1, numbers((4, 5, 6), seed=1) > -1
    layer = nnx.LayerNorm(
        5, epsilon=0.25, reduction_axes=axes, feature_axes=1, use_fast_variance=fast,
        param_dtype=float, scale_init=initializers.normal(1), bias_init=initializers.normal(1),
        rngs=rngs(),
    )  # fmt: skip
    scale, bias = (np.asarray(w)[:, None] for w in (layer.scale, layer.bias))
    close(layer(x), normalized(x, axes, 0.25) * scale + bias, 1e-11)
    close(layer(on_mesh(x, "x", "y")), normalized(x, axes, 0.25) * scale + bias, 1e-11)
    close(layer(x, mask=mask), normalized(x, axes, 0.25, mask) * scale + bias, 1e-11)
    layer.feature_axes = (-2,)
    close(layer(x), normalized(x, axes, 0.25) * scale + bias, 1e-11)


def test_layer_norm_of_features_in_several_dims() -> None:
    x = numbers((4, 5, 6))
    layer = nnx.LayerNorm(
        24, feature_axes=(-1, 0), reduction_axes=(0, 1), param_dtype=float,
        scale_init=initializers.normal(1), bias_init=initializers.normal(1), rngs=rngs(),
    )  # fmt: skip
    scale, bias = (np.asarray(w).reshape(4, 1, 6) for w in (layer.scale, layer.bias))
    close(layer(x), normalized(x, (0, 1), 1e-6) * scale + bias, 1e-11)


def test_layer_norm_without_weights_and_in_narrow_types() -> None:
    x = (100 + numbers((8, 64))).astype(np.float16)
    layer = nnx.LayerNorm(64, use_bias=False, use_scale=False, rngs=rngs())
    assert layer.scale is None and layer.bias is None
    plain = nnx.LayerNorm(64, epsilon=0, rngs=rngs())(numbers((3, 64)))
    close(plain, normalized(numbers((3, 64)), -1, 0), 1e-6)
    found = layer(x)
    assert found.dtype == np.float16
    close(found, normalized(x.astype(float), -1, 1e-6), 2e-2)


@pytest.mark.parametrize("fast", [True, False])
def test_layer_norm_of_complex_numbers(fast: bool) -> None:
    x = numbers((4, 6)) + 1j * numbers((4, 6), seed=1)
    layer = nnx.LayerNorm(6, use_fast_variance=fast, param_dtype=float, rngs=rngs())
    centred = x - x.mean(-1, keepdims=True)
    variance = (abs(centred) ** 2).mean(-1, keepdims=True)
    close(layer(x), centred / np.sqrt(variance + 1e-6), 1e-11)


def test_layer_norm_of_features_that_are_split() -> None:
    x = numbers((3, 8), np.float32)
    layer = nnx.LayerNorm(8, use_bias=False, use_scale=False, axis_name="x", rngs=rngs())
    mesh = gs.make_mesh((4,), ("x",))
    by_part = gs.shard_map(
        lambda x: layer(x), mesh=mesh, in_specs=P(None, "x"), out_specs=P(None, "x")
    )
    close(by_part(x), normalized(x.astype(float), -1, 1e-6), 1e-5)


# Embed


@pytest.mark.parametrize("spec", [P(), P("x"), P(None, "y"), P("y", "x")])
def test_embed_takes_rows(spec: gs.P) -> None:
    table = nnx.Embed(9, 4, rngs=rngs())
    rows = np.asarray(table.embedding)
    split_over(table, embedding=spec)
    picked = np.array([[0, 8, 3], [3, -1, 2]])
    for x in (picked, picked.tolist(), on_mesh(picked, "y"), picked.astype(np.int8)):
        np.testing.assert_array_equal(np.asarray(table(x)), rows[picked])
    assert np.isnan(np.asarray(table([9, 100]))).all()
    query = numbers((2, 3, 4), np.float32)
    close(table.attend(query), query @ rows.T, 1e-5)
    assert table.attend(query.astype(float)).dtype == np.float32


# Conv


def convolved(x: Any, kernel: Any, strides: Any, pads: Any, by: Any, groups: int) -> np.ndarray:
    """Return a convolution of (batch, *dims, features) by sums over the places of its kernel."""
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    window = kernel.shape[:-2]
    sizes = [
        (n - 1 - (k - 1) * d) // s + 1
        for n, k, d, s in zip(x.shape[1:-1], window, by, strides, strict=True)
    ]
    total = np.zeros((len(x), *sizes, kernel.shape[-1]))
    into, out_of = kernel.shape[-2], kernel.shape[-1] // groups
    for place in np.ndindex(*window):
        at = [
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, by, sizes, strides, strict=True)
        ]
        part = x[(slice(None), *at)]
        for g in range(groups):
            old, new = slice(g * into, (g + 1) * into), slice(g * out_of, (g + 1) * out_of)
            total[..., new] += part[..., old] @ kernel[place][:, new]
    return total


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], dict[str, Any], Any]] = {
    "same": ((3, 2), {}, [(1, 1), (0, 1)]),
    "valid": ((3, 2), {"padding": "VALID"}, [(0, 0), (0, 0)]),
    "lower": ((3, 2), {"padding": "same_lower"}, [(1, 1), (1, 0)]),
    "strides": ((3, 2), {"strides": (2, 1), "padding": "valid"}, [(0, 0), (0, 0)]),
    "dilated": ((3, 2), {"kernel_dilation": 2}, [(2, 2), (1, 1)]),
    "numbers": ((3, 2), {"padding": 2}, [(2, 2), (2, 2)]),
    "pairs": ((3, 2), {"padding": [(0, 2), 1]}, [(0, 2), (1, 1)]),
    "groups": ((3, 2), {"feature_group_count": 2}, [(1, 1), (0, 1)]),
    "causal": ((3,), {"padding": "CAUSAL", "kernel_dilation": 2}, [(4, 0)]),
    "one-dim": ((4,), {"padding": "VALID", "strides": 2}, [(0, 0)]),
    "three-dims": ((2, 1, 2), {"padding": "VALID"}, [(0, 0)] * 3),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_conv_sums_over_its_kernel(case: str, batch: tuple[int, ...]) -> None:
    size, how, pads = CONVOLUTIONS[case]
    ndim = len(size)
    layer = nnx.Conv(
        4, 6, size, param_dtype=float, bias_init=initializers.normal(1), rngs=rngs(), **how
    )
    x = numbers((*batch, *(7, 6, 5)[:ndim], 4))
    by = np.broadcast_to(how.get("kernel_dilation", 1), ndim)
    strides = np.broadcast_to(how.get("strides", 1), ndim)
    groups = how.get("feature_group_count", 1)
    flat = x.reshape(-1, *x.shape[len(batch) :])
    wanted = convolved(flat, np.asarray(layer.kernel), strides, pads, by, groups)
    wanted = wanted.reshape(*batch, *wanted.shape[1:]) + np.asarray(layer.bias)
    close(layer(x), wanted)
    if groups == 1:
        split_over(layer, kernel=P(*[None] * ndim, "x", "y"), bias=P("y"))
        close(layer(on_mesh(x)), wanted)


@pytest.mark.parametrize(("name", "mode"), [("CIRCULAR", "wrap"), ("REFLECT", "reflect")])
def test_conv_continues_its_inputs(name: str, mode: Any) -> None:
    layer = nnx.Conv(2, 3, (3, 4), padding=name, param_dtype=float, rngs=rngs())
    x = numbers((2, 5, 6, 2))
    wider = np.pad(x, [(0, 0), (1, 1), (1, 2), (0, 0)], mode=mode)
    wanted = convolved(wider, np.asarray(layer.kernel), (1, 1), [(0, 0)] * 2, (1, 1), 1)
    close(layer(x), wanted)


def test_conv_of_inputs_that_are_far_apart() -> None:
    layer = nnx.Conv(2, 3, 3, input_dilation=2, padding=((0, 0),), param_dtype=float, rngs=rngs())
    x = numbers((2, 5, 2))
    apart = np.zeros((2, 9, 2))
    apart[:, ::2] = x
    close(layer(x), convolved(apart, np.asarray(layer.kernel), (1,), [(0, 0)], (1,), 1))


def test_conv_of_none_takes_every_element() -> None:
    none = {"strides": None, "input_dilation": None, "kernel_dilation": None}
    layer = nnx.Conv(2, 3, (3, 2), **none, rngs=rngs())
    assert layer.strides == layer.input_dilation == layer.kernel_dilation == (1, 1)


# Dropout


def test_dropout_keeps_the_mean() -> None:
    layer = nnx.Dropout(0.25, rngs=rngs())
    x = on_mesh(np.ones((200, 500)), "x", "y")
    y = layer(x)
    assert y.sharding == x.sharding
    values, counts = np.unique(np.asarray(y), return_counts=True)
    np.testing.assert_array_equal(values, [0, 1 / 0.75])
    assert counts[0] / y.size == pytest.approx(0.25, abs=0.01)
    assert not np.array_equal(np.asarray(layer(x)), np.asarray(y))  # a key for each call


def test_dropout_of_everything_nothing_or_whole_dims() -> None:
    x = numbers((6, 5, 4))
    np.testing.assert_array_equal(np.asarray(nnx.Dropout(0, rngs=rngs())(x)), x)
    np.testing.assert_array_equal(np.asarray(nnx.Dropout(1.0)(x)), 0 * x)  # draws nothing
    y = np.asarray(nnx.Dropout(0.5, broadcast_dims=(0, -1), rngs=rngs())(x)) / x
    assert set(np.unique(y.round(6))) == {0.0, 2.0}
    assert (y == y[:1, :, :1]).all()


def test_who_says_whether_dropout_is_deterministic_and_what_it_draws_from() -> None:
    x = numbers((50,))
    streams = rngs(noise=5)
    for says, call, stays in (
        (True, None, True), (False, True, True), (True, False, False), (None, True, True),
        (None, False, False),
    ):  # fmt: skip
        layer = nnx.Dropout(0.5, deterministic=says, rngs=streams)
        assert np.array_equal(np.asarray(layer(x, deterministic=call)), x) == stays
    bare, key = nnx.Dropout(0.5, rng_collection="noise"), gs.random.fold_in(gs.random.key(5), 0)
    masks = [bare(x, rngs=each) for each in (streams, nnx.Rngs(noise=5).noise, key)]
    own = nnx.Dropout(0.5, rngs=nnx.Rngs(9))
    masks.append(own(x, rngs=key))
    for mask in masks[1:]:
        np.testing.assert_array_equal(np.asarray(mask), np.asarray(masks[0]))
    assert int(own.rngs.count.value) == 0  # nothing was drawn from its own


def test_two_layers_of_one_stream_drop_different_elements() -> None:
    x, streams = np.ones(100), rngs()
    first, second = (nnx.Dropout(0.5, rngs=streams) for _ in range(2))
    assert not np.array_equal(np.asarray(first(x)), np.asarray(second(x)))


# Sequential


def test_sequential_hands_results_on() -> None:
    def pair(x: Any) -> Any:
        return x, 2 * x

    def named(a: Any, b: Any) -> Any:
        return {"a": a + b, "b": b}

    layer = nnx.Linear(3, 2, rngs=rngs())
    x = numbers((4, 3))
    model = nnx.Sequential(layer, pair, named, lambda *, a, b: a - b)
    close(model(x), np.asarray(layer(x)))
    assert model.layers[0] is layer
    assert nnx.Sequential()(x) is x and nnx.Sequential()(1, 2) == (1, 2)
    assert nnx.Sequential()(a=1) == {"a": 1} and nnx.Sequential()() is None


def test_sequential_gives_streams_to_those_that_take_them() -> None:
    layer, dropout = nnx.Linear(3, 2, rngs=rngs()), nnx.Dropout(0.5, rng_collection="noise")
    x = numbers((4, 3))
    model = nnx.Sequential(layer, nnx.Sequential(nnx.relu, dropout), lambda x, rngs: (x, rngs))
    streams = nnx.Rngs(noise=0)
    y, given = model(x, rngs=streams)
    wanted = dropout(nnx.relu(layer(x)), rngs=nnx.Rngs(noise=0))
    np.testing.assert_array_equal(np.asarray(y), np.asarray(wanted))
    assert given is streams and int(streams.noise.count.value) == 1
    assert nnx.Sequential()(x, rngs=streams) is x
    assert nnx.Sequential(sorted)([2, 1], rngs=streams) == [1, 2]

    def own(rngs: Any, /) -> Any:
        return rngs

    assert nnx.Sequential(own)(3, rngs=streams) == 3


def test_functions_without_a_signature_take_no_streams() -> None:
    first = nnx.Sequential(max, lambda x: x * 2)
    assert float(first(gs.numpy.asarray([1.0, 5, 2]), rngs=nnx.Rngs(0))) == 10
    assert nnx.Sequential(dict, lambda a, b: a - b)([("b", 1), ("a", 3)], rngs=nnx.Rngs(0)) == 2
    with gs.make_mesh((2,), "x"):
        assert nnx.with_partitioning(max, ("x",))([1.0, 2.0]).value == 2


def test_functions_and_initializers_are_those_of_nn() -> None:
    assert nnx.initializers is gs.nn.initializers
    assert {*dir(gs.nn)} <= {*dir(nnx)}
    for name in ("relu", "gelu", "softmax", "silu", "tanh", "one_hot", "log_softmax"):
        assert getattr(nnx, name) is getattr(gs.nn, name)


# Names of mesh axes

MESH_SHAPE = (4, 2), ("data", "model")


@pytest.mark.parametrize("names", [(None, "model"), ("model",), (("data", "model"), None), ()])
def test_names_say_how_weights_are_to_lie(names: Any) -> None:
    mesh = gs.make_mesh(*MESH_SHAPE)
    for lay_out in (None, mesh):
        init = nnx.with_partitioning(initializers.lecun_normal(), names, lay_out, role="kernel")
        layer = nnx.Linear(8, 16, kernel_init=init, rngs=rngs())
        plain = nnx.Linear(8, 16, rngs=rngs())
        np.testing.assert_array_equal(layer.kernel, np.asarray(plain.kernel))
        assert layer.kernel.sharding_names == names and layer.kernel.role == "kernel"
        if lay_out is not None:
            assert layer.kernel.value.sharding.spec == P(*names)
        state = nnx.state(layer)
        specs = nnx.get_partition_spec(state)
        assert specs["kernel"].value == P(*names) and specs["bias"].value == P()
        shardings = nnx.get_named_sharding(state, mesh)
        assert shardings["kernel"].value == gs.NamedSharding(mesh, P(*names))
        assert type(specs["kernel"]) is nnx.Param


def test_initializers_of_users_are_laid_out_afterwards() -> None:
    def init(key: Any, shape: Any, dtype: Any) -> Any:
        return gs.numpy.ones(shape, dtype)

    mesh = gs.make_mesh(*MESH_SHAPE)
    value = nnx.Param(nnx.with_partitioning(init, ("data", "model"), mesh)(KEY, (8, 4), "f"))
    assert value.value.sharding.spec == P("data", "model") and value.dtype == np.float32


def test_initializers_that_can_are_told_where_values_will_live() -> None:
    told: list[Any] = []

    def init(key: Any, shape: Any, dtype: Any = float, out_sharding: Any = None) -> Any:
        told.append(out_sharding)
        return gs.numpy.ones(shape, dtype)

    mesh = gs.make_mesh(*MESH_SHAPE)
    with_names = nnx.with_partitioning(init, ("data",))
    with_names(KEY, (8, 4))
    with mesh:
        with_names(KEY, shape=(8, 4))
    nnx.with_partitioning(init, ("data",), mesh)(KEY, (8, 4))
    assert told == [None, *[gs.NamedSharding(mesh, P("data"))] * 2]


def test_names_of_names_are_the_outer_ones() -> None:
    mesh = gs.make_mesh(*MESH_SHAPE)
    inner = nnx.with_partitioning(initializers.normal(), ("data",), mesh, role="kernel", depth=1)
    for lay_out, spec in ((None, P("data")), (mesh, P(None, "model"))):
        init = nnx.with_partitioning(inner, (None, "model"), lay_out, depth=2)
        layer = nnx.Linear(8, 16, kernel_init=init, rngs=rngs())
        said = {"sharding_names": (None, "model"), "role": "kernel", "depth": 2}
        assert layer.kernel.get_metadata() == said
        assert layer.kernel.value.sharding.spec == spec


def test_weights_may_be_arrays() -> None:
    table, conv = nnx.Embed(5, 3, rngs=rngs()), nnx.Conv(3, 2, 1, rngs=rngs())
    linear, norm = nnx.Linear(3, 2, rngs=rngs()), nnx.LayerNorm(3, rngs=rngs())
    x = numbers((4, 3))
    for layer, call in (
        (table, lambda: table.attend(x) + table([1, 2, 3, 4])[:, :1]), (conv, lambda: conv(x)),
        (linear, lambda: linear(x)), (norm, lambda: norm(x)),
    ):  # fmt: skip
        wanted = np.asarray(call())
        for name, weight in nnx.state(layer).items():
            setattr(layer, name, weight.value)
        np.testing.assert_array_equal(np.asarray(call()), wanted)


def test_specs_of_trees_with_arrays() -> None:
    tree = {"a": gs.numpy.ones((2, 3)), "b": [nnx.Cache(gs.numpy.ones(3), sharding=("x",)), 7]}
    specs = nnx.get_partition_spec(tree)
    assert specs["a"] == P() and specs["b"][0].value == P("x") and specs["b"][1] is None
    assert type(specs["b"][0]) is nnx.Cache


# What they refuse


def linear(*args: Any, **how: Any) -> nnx.Linear:
    return nnx.Linear(*(args or (3, 4)), **{"rngs": rngs(), **how})


def conv(*args: Any, **how: Any) -> nnx.Conv:
    return nnx.Conv(*(args or (4, 6, (3, 3))), **{"rngs": rngs(), **how})


def partitioned(*names: Any, shape: Any = (2, 4), mesh: bool = False) -> Any:
    lay_out = gs.make_mesh(*MESH_SHAPE) if mesh else None
    return nnx.with_partitioning(initializers.normal(), names, lay_out)(KEY, shape)


WRONG: dict[str, tuple[Any, type[GpushardError], str]] = {
    "features": (lambda: linear()(np.ones((5, 2))), ArgumentError, r"Linear.*\(5, 2\).* 3 fe"),
    "no-features": (lambda: linear()(1.0), ArgumentError, r"inputs of shape \(\) must have 3"),
    "in": (lambda: linear(0, 4), ArgumentError, "in_features=0 must be 1 at least"),
    "in-negative": (lambda: linear(-3, 4), ArgumentError, "in_features=-3"),
    "out": (lambda: linear(3, 2.5), ArgumentTypeError, "out_features=2.5"),
    "rngs": (lambda: linear(rngs=0), ArgumentTypeError, r"rngs=0 must be an nnx.Rngs.*Rngs\(0\)"),
    "a-key": (lambda: linear(rngs=KEY), ArgumentTypeError, "rngs=KeyArray"),
    "init": (lambda: linear(kernel_init=3), ArgumentTypeError, "kernel_init=3 must be a function"),
    "dtype": (lambda: linear(dtype=int), ArgumentTypeError, "dtype=.*int.*float32"),
    "param_dtype": (lambda: linear(param_dtype="?"), ArgumentTypeError, "param_dtype='.'"),
    "precision": (lambda: linear(precision="best"), ArgumentError, "precision='best'"),
    "input": (lambda: linear()("x"), ArgumentTypeError, "holds a str"),
    "norm": (lambda: nnx.LayerNorm(3, rngs=rngs())(np.ones(4)), ArgumentError, "must have 3 feat"),
    "epsilon": (lambda: nnx.LayerNorm(3, epsilon=-1, rngs=rngs()), ArgumentError, "epsilon=-1"),
    "epsilon-type": (
        lambda: nnx.LayerNorm(3, epsilon="1", rngs=rngs()), ArgumentTypeError, "epsilon='1'",
    ),
    "spec-of-many": (
        lambda: nnx.with_partitioning(lambda key, shape: np.ones(shape), ("x", "y"))(KEY, (3,)),
        ShardingError, r"with_partitioning: sharding=\('x', 'y'\) has 2 names",
    ),
    "spec-of-many-on-a-mesh": (
        lambda: nnx.with_partitioning(
            initializers.normal(), ("x", "y"), gs.make_mesh((2, 2), ("x", "y"))
        )(KEY, (3,)),
        ShardingError, r"with_partitioning: sharding=\('x', 'y'\) has 2 names",
    ),
    "axes": (
        lambda: nnx.LayerNorm(3, reduction_axes=2, rngs=rngs())(np.ones((4, 3))),
        AxisError, "reduction_axes=2",
    ),
    "feature-axes": (
        lambda: nnx.LayerNorm(3, feature_axes=5, rngs=rngs())(np.ones((4, 3))),
        AxisError, "feature_axes=5",
    ),
    "embed": (
        lambda: nnx.Embed(4, 2, rngs=rngs())([0.5]), ArgumentTypeError, "float64, .* of rows",
    ),
    "embed-size": (lambda: nnx.Embed(0, 2, rngs=rngs()), ArgumentError, "num_embeddings=0"),
    "attend": (
        lambda: nnx.Embed(4, 2, rngs=rngs()).attend(np.ones(3)), ArgumentError, r"\(3,\) must",
    ),
    "conv": (lambda: conv()(np.ones((2, 5, 5, 3))), ArgumentError, r"\(2, 5, 5, 3\) must have 4"),
    "conv-precision": (lambda: conv(precision="best"), ArgumentError, "precision='best'"),
    "conv-dims": (lambda: conv()(np.ones((5, 4))), ArgumentError, r"\(5, 4\) must have 3 axes"),
    "groups": (
        lambda: conv(feature_group_count=3), ArgumentError, "count=3 must divide in_features=4",
    ),
    "groups-out": (
        lambda: conv(feature_group_count=4), ArgumentError, "count=4 must divide .*out_features=6",
    ),
    "no-groups": (lambda: conv(feature_group_count=0), ArgumentError, "feature_group_count=0"),
    "padding": (lambda: conv(padding="EDGE"), ArgumentError, "padding='EDGE' is unknown.*CAUSAL"),
    "causal": (lambda: conv(padding="CAUSAL"), ArgumentError, "one axis, and this one has 2"),
    "pads": (lambda: conv(padding=(1, 2, 3)), ArgumentError, "2 numbers or pairs"),
    "pair": (lambda: conv(padding=(1, (1, 2, 3))), ArgumentError, "pairs of two"),
    "pad-type": (lambda: conv(padding=0.5), ArgumentTypeError, "padding=0.5"),
    "strides": (lambda: conv(4, 6, (3, 3), (1, 2, 3)), ArgumentError, r"\(1, 2, 3\) .* 2 num"),
    "stride": (lambda: conv(4, 6, (3, 3), 0), ArgumentError, "strides=0 must be 1 at least"),
    "kernel_size": (lambda: conv(4, 6, (3, 0)), ArgumentError, "kernel_size=0 must be 1"),
    "dilation": (lambda: conv(kernel_dilation="x"), ArgumentTypeError, "kernel_dilation='x'"),
    "rate": (lambda: nnx.Dropout(1.5), ArgumentError, "rate=1.5 must be from 0 to 1"),
    "rate-negative": (lambda: nnx.Dropout(-0.5), ArgumentError, "rate=-0.5 must be from 0 to 1"),
    "rate-bool": (lambda: nnx.Dropout(True), ArgumentTypeError, "rate=True must be a number"),
    "rate-nan": (lambda: nnx.Dropout(np.nan), ArgumentError, "rate=nan must be from 0 to 1"),
    "rate-type": (lambda: nnx.Dropout("0.5"), ArgumentTypeError, "rate='0.5' must be a number"),
    "dropout-rngs": (lambda: nnx.Dropout(0.5, rngs=3), ArgumentTypeError, "rngs=3 must be"),
    "dropout-call": (lambda: nnx.Dropout(0.5)(np.ones(3)), ArgumentError, "nothing to draw from"),
    "dropout-key": (
        lambda: nnx.Dropout(0.5)(np.ones(3), rngs=gs.random.split(KEY, 2)),
        ArgumentError, r"key.*\(2,\)",
    ),
    "dropout-dims": (
        lambda: nnx.Dropout(0.5, broadcast_dims=(4,), rngs=rngs())(np.ones(3)),
        AxisError, "broadcast_dims=4",
    ),
    "dropout-dims-type": (
        lambda: nnx.Dropout(0.5, broadcast_dims=0.5), ArgumentTypeError, "broadcast_dims=0.5",
    ),
    "undecided": (
        lambda: nnx.Dropout(0.5, deterministic=None, rngs=rngs())(np.ones(3)),
        ArgumentError, "deterministic=True or False",
    ),
    "sequential": (lambda: nnx.Sequential(linear(), 3), ArgumentTypeError, r"fns\[1\]=3 must be"),
    "names": (lambda: partitioned("x", None, "y"), ShardingError, r"\('x', None, 'y'\) has 3"),
    "a-name": (
        lambda: nnx.with_partitioning(initializers.normal(), "x"), ArgumentTypeError,
        "sharding='x'",
    ),
    "unknown-axis": (lambda: partitioned("z", mesh=True), ShardingError, "'z'"),
    "twice": (lambda: partitioned("data", "data", mesh=True), ShardingError, "'data'"),
    "initializer": (lambda: nnx.with_partitioning(3, ("x",)), ArgumentTypeError, "initializer=3"),
    "variable-names": (
        lambda: nnx.get_partition_spec({"w": nnx.Param(gs.numpy.ones(2), sharding=("x", "y"))}),
        ShardingError, r"sharding=\('x', 'y'\) has 2.*\(2,\) has 1 ax",
    ),
    "specs-of-module": (
        lambda: nnx.get_partition_spec([linear()]), ArgumentTypeError, r"give nnx.state\(module\)",
    ),
    "mesh": (
        lambda: nnx.get_named_sharding({}, ("x",)), ArgumentTypeError, r"mesh=\('x',\) must",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls_say_what_is_wrong(case: str) -> None:
    call, error, text = WRONG[case]
    with pytest.raises(error, match=text) as caught:
        call()
    assert type(caught.value) is error


@pytest.mark.parametrize(
    "make",
    [
        lambda r: nnx.Linear(3, 4, kernel_init=3, rngs=r),
        lambda r: nnx.Linear(3, 4, bias_init=3, rngs=r),
        lambda r: nnx.Linear(3, 4, param_dtype=int, rngs=r),
        lambda r: nnx.Linear(3, 4, bias_init=initializers.lecun_normal(), rngs=r),
        lambda r: nnx.Conv(3, 4, 3, bias_init=3, rngs=r),
        lambda r: nnx.Conv(3, 4, 3, feature_group_count=2, rngs=r),
        lambda r: nnx.Embed(3, 4, embedding_init=3, rngs=r),
        lambda r: nnx.LayerNorm(3, bias_init=lambda *_: 1 / 0, rngs=r),
        lambda r: nnx.Linear(3, 4, kernel_init=partition_of_three, rngs=r),
        lambda r: nnx.Dropout(2, rngs=r),
        lambda r: nnx.Dropout(0.5, broadcast_dims="x", rngs=r),
    ],
)
def test_a_layer_that_cannot_be_made_has_drawn_nothing(make: Any) -> None:
    streams = rngs(dropout=1)
    with pytest.raises((GpushardError, ZeroDivisionError)):
        make(streams)
    assert [int(stream.count.value) for _, stream in streams.items()] == [0, 0]


partition_of_three = nnx.with_partitioning(initializers.normal(), ("x", None, "y"))


MESHES = gs.make_mesh((2, 4), ("data", "model"))
PLACED = gs.NamedSharding(MESHES, P(None, "model"))
MAKERS: dict[str, Any] = {
    "sharding": lambda: nnx.Param(gs.numpy.ones((4, 8)), sharding=(None, "model")),
    "sharding_names": lambda: nnx.Variable(np.ones((4, 8)), sharding_names=P(None, "model")),
    "with_partitioning": lambda: nnx.Linear(
        4, 8, kernel_init=nnx.with_partitioning(initializers.ones, (None, "model")),
        rngs=nnx.Rngs(0),
    ).kernel,
    "of no argument": lambda: nnx.Param(
        nnx.with_partitioning(lambda: gs.numpy.ones((4, 8)), sharding=(None, "model"))()
    ),
    "in jit": lambda: nnx.jit(
        lambda x: nnx.Param(x * 1, sharding=(None, "model"))
    )(gs.numpy.ones((4, 8))),
}  # fmt: skip


@pytest.mark.parametrize("how", MAKERS)
def test_names_lay_out_new_values_within_a_mesh(how: str) -> None:
    for around in (gs.set_mesh(MESHES), MESHES):
        with around:
            v = MAKERS[how]()
        assert v.value.sharding.is_equivalent_to(PLACED, 2) and v.value.tolist() == [[1] * 8] * 4
        assert tuple(v.sharding_names) == (None, "model")
    assert not isinstance(getattr(MAKERS[how]().value, "sharding", None), gs.NamedSharding)


def test_names_lay_nothing_out_otherwise() -> None:
    """A mesh that is given counts; blocks and values without data stay as they are."""
    other = gs.make_mesh((4,), "model")
    init = nnx.with_partitioning(initializers.ones, (None, "model"), other)
    with gs.set_mesh(MESHES):
        again = nnx.with_partitioning(init, ("data", None))  # other names, where it lies already
        for made in (init, again):
            assert nnx.Param(made(KEY, (4, 8))).value.sharding == gs.NamedSharding(
                other, P(None, "model")
            )
        assert nnx.Param(3.0, sharding=("model",)).value == 3.0
        shape = nnx.eval_shape(lambda: nnx.Param(gs.numpy.ones((4, 8)), sharding=("data",)))
        assert shape.value.shape == (4, 8)
        block = gs.shard_map(
            lambda x: nnx.Param(x, sharding=(None, "model")).value * 2,
            mesh=MESHES, in_specs=P(None, "model"), out_specs=P(None, "model"),
        )(gs.numpy.ones((4, 8)))  # fmt: skip
        assert block.tolist() == [[2] * 8] * 4
        v = nnx.clone(nnx.Param(gs.numpy.ones((4, 8)), sharding=(None, "model")))
        v.value = gs.numpy.zeros((4, 8))
        assert not isinstance(v.value.sharding, gs.NamedSharding)


def test_an_initializer_of_any_arguments_takes_names() -> None:
    init = nnx.with_partitioning(lambda *sizes, fill: gs.numpy.full(sizes, fill), ("a", "b"))
    v = nnx.Param(init(2, 3, fill=7))
    assert v.value.tolist() == [[7] * 3] * 2 and v.sharding_names == ("a", "b")
    with pytest.raises(ShardingError, match="2 names"):
        init(2, fill=7)


def test_a_part_of_a_key_is_enough_where_that_is_said() -> None:
    m = nnx.Sequential(nnx.Linear(2, 2, rngs=nnx.Rngs(0)))
    for key, exact, number in (
        ("kern", True, 0),
        ("kern", False, 1),
        ("0", False, 2),
        (0, True, 2),
    ):
        state = nnx.state(m, nnx.PathContains(key, exact=exact))
        assert len(nnx.to_flat_state(state)) == number, (key, exact)
