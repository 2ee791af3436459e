"""`gpushard.nnx` against `flax.nnx`: keys, first values, layers, paths and how weights lie."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import nnx
from gpushard.nn import initializers as init

pytestmark = pytest.mark.filterwarnings("ignore:.*value:DeprecationWarning")


def mesh_of(base: Any, names: tuple[str, ...], *sizes: int) -> Any:
    """Return a mesh whose shardings operations choose, as JAX's were before types of axes."""
    return base.sharding.Mesh(np.array(base.devices()).reshape(sizes), names)


def entries(x: Any) -> list[Any]:
    """Return which axes split the dims, up to the last that is split."""
    found = list(x.sharding.spec)
    while found and found[-1] is None:
        found.pop()
    return found


def numbers(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def close(ours: Any, theirs: Any, ulps: float, name: str = "") -> None:
    """Compare to so many roundings of the largest element."""
    found, wanted = np.asarray(ours), np.asarray(theirs)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype, name
    size = ulps * np.spacing(np.abs(wanted).max()) if wanted.size else 0
    np.testing.assert_allclose(found, wanted, rtol=0, atol=size, err_msg=name)


def alike(name: str, flax: ModuleType, *args: Any, **how: Any) -> tuple[Any, Any]:
    """Return our layer and Flax's, of one seed, ours with Flax's weights."""
    ours = getattr(nnx, name)(*args, **how, rngs=nnx.Rngs(3))
    theirs = getattr(flax, name)(*args, **how, rngs=flax.Rngs(3))
    for weight in ("kernel", "bias", "scale", "embedding"):
        box = getattr(theirs, weight, None)
        if box is not None:
            box.value = box.value + 0.25 * numbers(box.value.shape, seed=5)
            getattr(ours, weight).value = gs.device_put(np.asarray(box.value))
    return ours, theirs


def test_streams_give_the_same_keys(jax: ModuleType, flax: ModuleType) -> None:
    ours, theirs = nnx.Rngs(7, params=1), flax.Rngs(7, params=1)
    for name in ("params", "default", "params", "noise", "noise"):
        found, wanted = (getattr(rngs, name)() for rngs in (ours, theirs))
        np.testing.assert_array_equal(gs.random.key_data(found), jax.random.key_data(wanted))
    for rngs, library in ((ours, nnx), (theirs, flax)):
        library.split_rngs(rngs, splits=3, only="params")
    for name in ("params", "default"):
        found, wanted = (getattr(rngs, name).key.value for rngs in (ours, theirs))
        np.testing.assert_array_equal(gs.random.key_data(found), jax.random.key_data(wanted))
        assert getattr(ours, name).count.shape == getattr(theirs, name).count.shape


LAYERS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "linear": ("Linear", (64, 48), {}),
    "no-bias": ("Linear", (64, 48), {"use_bias": False}),
    "conv": ("Conv", (16, 32, (3, 5)), {}),
    "embed": ("Embed", (100, 32), {}),
    "norm": ("LayerNorm", (64,), {}),
}


@pytest.mark.parametrize("case", LAYERS)
def test_first_weights_of_a_seed_are_the_same(case: str, flax: ModuleType) -> None:
    """To 4 roundings, but near the ends of a truncated distribution, where they are magnified."""
    name, args, how = LAYERS[case]
    ours, theirs = (
        getattr(library, name)(*args, **how, rngs=library.Rngs(11)) for library in (nnx, flax)
    )
    for weight in ("kernel", "bias", "scale", "embedding"):
        box = getattr(theirs, weight, None)
        mine = getattr(ours, weight, None)
        assert (box is None or box.value is None) == (mine is None)
        if mine is not None:
            close(mine.value, box.value, 8, weight)
            off = np.abs(np.asarray(mine.value) - np.asarray(box.value))
            assert (off <= 4 * np.spacing(np.abs(np.asarray(box.value)).max())).mean() > 0.999


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_linear(dtype: Any, flax: ModuleType) -> None:
    for how in ({}, {"use_bias": False}, {"dtype": dtype}, {"param_dtype": dtype}):
        ours, theirs = alike("Linear", flax, 24, 16, **how)
        for shape in ((24,), (5, 24), (2, 3, 24)):
            x = numbers(shape, dtype)
            close(ours(x), theirs(x), 16, str(how))


@pytest.mark.parametrize("axes", [-1, (0, 1), 1])
def test_layer_norm(axes: Any, flax: ModuleType) -> None:
    x, mask = 3 * numbers((6, 8, 16)) + 1, numbers((6, 8, 16), seed=2) > -1
    for how in (
        {}, {"use_bias": False}, {"use_scale": False}, {"epsilon": 0.1},
        {"use_fast_variance": False}, {"dtype": np.float16},
    ):  # fmt: skip
        ours, theirs = alike("LayerNorm", flax, 16, reduction_axes=axes, **how)
        close(ours(x), theirs(x), 16, str(how))
        if axes == -1:
            close(ours(x, mask=mask), theirs(x, mask=mask), 16, str(how))


def test_embed(flax: ModuleType) -> None:
    ours, theirs = alike("Embed", flax, 20, 8)
    picked = np.array([[0, 19, 3], [7, 7, 1]], np.int32)
    np.testing.assert_array_equal(np.asarray(ours(picked)), np.asarray(theirs(picked)))
    outside = np.array([20, -1, 100], np.int32)
    np.testing.assert_array_equal(np.asarray(ours(outside)), np.asarray(theirs(outside)))
    close(ours.attend(numbers((5, 8))), theirs.attend(numbers((5, 8))), 16)


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "same": ((3, 4), {}),
    "strides": ((3, 4), {"strides": (2, 3)}),
    "valid": ((3, 4), {"padding": "VALID", "strides": 2}),
    "dilated": ((3, 2), {"kernel_dilation": (1, 2), "input_dilation": 2, "padding": 1}),
    "circular": ((3, 4), {"padding": "CIRCULAR", "kernel_dilation": 2}),
    "reflect": ((3, 4), {"padding": "REFLECT"}),
    "causal": ((3,), {"padding": "CAUSAL", "kernel_dilation": 2}),
    "numbers": ((3, 4), {"padding": 2}),
    "pairs": ((3, 4), {"padding": ((0, 2), (1, 0))}),
    "groups": ((3, 4), {"feature_group_count": 2}),
    "no-bias": ((2, 2, 2), {"use_bias": False}),
}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_conv(case: str, flax: ModuleType) -> None:
    size, how = CONVOLUTIONS[case]
    ours, theirs = alike("Conv", flax, 6, 8, size, **how)
    for batch in ((), (3,), (2, 3)):
        x = numbers((*batch, *(9, 7, 8)[: len(size)], 6))
        close(ours(x), theirs(x), 16)


@pytest.mark.parametrize("dims", [(), (1,), (0, -1)])
def test_dropout(dims: tuple[int, ...], flax: ModuleType) -> None:
    x = numbers((20, 30, 4))
    for rate in (0.0, 0.3, 0.5, 1.0):
        ours, theirs = (
            library.Dropout(rate, broadcast_dims=dims, rngs=library.Rngs(5))
            for library in (nnx, flax)
        )
        for how in ({}, {}, {"deterministic": True}, {"deterministic": False}):
            close(ours(x, **how), theirs(x, **how), 2)
        np.testing.assert_array_equal(
            np.asarray(ours(x, rngs=nnx.Rngs(dropout=9))) == 0,
            np.asarray(theirs(x, rngs=flax.Rngs(dropout=9))) == 0,
        )


def model_of(library: ModuleType) -> Any:
    class Block(library.Module):
        def __init__(self, size: int, rngs: Any) -> None:
            self.norm = library.LayerNorm(size, rngs=rngs)
            self.inner = library.Linear(size, 2 * size, rngs=rngs)
            self.outer = library.Linear(2 * size, size, use_bias=False, rngs=rngs)
            self.dropout = library.Dropout(0.25, rngs=rngs)
            self.again = self.norm

        def __call__(self, x: Any) -> Any:
            x = x + self.outer(library.relu(self.inner(self.norm(x))))
            return self.dropout(self.again(x))

    rngs = library.Rngs(0, dropout=1)
    return library.Sequential(
        library.Linear(12, 16, rngs=rngs), library.gelu, Block(16, rngs), Block(16, rngs),
        library.Linear(16, 3, rngs=rngs),
    )  # fmt: skip


def paths(library: ModuleType, state: Any) -> list[Any]:
    return sorted((path for path, _ in library.to_flat_state(state)), key=str)


def test_models_of_one_seed_agree_in_paths_and_values(flax: ModuleType) -> None:
    ours, theirs = model_of(nnx), model_of(flax)
    splits = [library.split(model, library.Param, ...) for library, model in
              ((nnx, ours), (flax, theirs))]  # fmt: skip
    for mine, other in zip(splits[0][1:], splits[1][1:], strict=True):
        assert paths(nnx, mine) == paths(flax, other)
    for (path, mine), (_, other) in zip(
        sorted(nnx.to_flat_state(splits[0][1]), key=lambda item: str(item[0])),
        sorted(flax.to_flat_state(splits[1][1]), key=lambda item: str(item[0])),
        strict=True,
    ):
        close(mine.value, other.value, 8, str(path))
    x = numbers((5, 12))
    again = nnx.merge(splits[0][0], *splits[0][1:])
    assert again.layers[2].again is again.layers[2].norm
    for model in (ours, nnx.clone(ours), again):
        expected = flax.clone(theirs)
        for _ in range(3):  # each with new keys
            close(model(x), expected(x), 64)
    step = nnx.jit(lambda model, x: model(x))
    expected = flax.clone(theirs)
    traced = nnx.merge(*splits[0])
    for _ in range(3):
        close(step(traced, x), expected(x), 64)


def mlp_of(library: ModuleType, relu: Any) -> Any:
    class MLP(library.Module):
        def __init__(self, din: int, dhidden: int, dout: int, *, rngs: Any) -> None:
            self.linear1 = library.Linear(din, dhidden, use_bias=False, rngs=rngs)
            self.linear2 = library.Linear(dhidden, dout, use_bias=False, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.linear2(relu(self.linear1(x)))

    return MLP(2, 64, 3, rngs=library.Rngs(0))


def ends_with(*suffix: str) -> Any:
    return lambda path, value: path[-len(suffix) :] == suffix


def specs_of(library: ModuleType, spec: Any, how: str) -> Any:
    if how == "filters":
        return library.StateSharding(
            {
                ends_with("linear1", "kernel"): spec(None, "model"),
                ends_with("linear2", "kernel"): spec("model", None),
            }
        )
    return library.StateSharding(
        library.State(
            {"linear1": {"kernel": spec(None, "model")}, "linear2": {"kernel": spec("model", None)}}
        )
    )


@pytest.mark.parametrize("how", ["filters", "state"])
def test_shard_map_of_an_mlp(how: str, jax: ModuleType, flax: ModuleType) -> None:
    x, found = numbers((32, 2)), []
    for library, base, relu, psum in (
        (nnx, gs, nnx.relu, gs.lax.psum),
        (flax, jax, jax.nn.relu, jax.lax.psum),
    ):
        spec = base.sharding.PartitionSpec
        mesh = mesh_of(base, ("model",), 8)
        model = mlp_of(library, relu)

        def f(m: Any, x: Any, psum: Any = psum) -> Any:
            return psum(m(x), "model")

        y = library.shard_map(
            f, mesh=mesh, in_specs=(specs_of(library, spec, how), spec(None)), out_specs=spec(None)
        )(model, x)
        found.append((model, y))
    (ours, y), (theirs, wanted) = found
    close(y, wanted, 16)
    close(ours(x), wanted, 16)
    for layer in ("linear1", "linear2"):
        mine, other = (getattr(model, layer).kernel.value for model in (ours, theirs))
        close(mine, other, 8)
        assert entries(mine) == entries(other)


def test_data_parallel(jax: ModuleType, flax: ModuleType) -> None:
    x, found = numbers((32, 2)), []
    for library, base in ((nnx, gs), (flax, jax)):
        spec = base.sharding.PartitionSpec
        f = library.shard_map(
            lambda m, x: m(x), mesh=mesh_of(base, ("data",), 8),
            in_specs=(spec(None), spec("data")), out_specs=spec("data"),
        )  # fmt: skip
        found.append(f(library.Linear(2, 3, rngs=library.Rngs(0)), x))
    close(found[0], found[1], 16)
    assert entries(found[0]) == entries(found[1])


def test_jit_lays_weights_out_by_filters(jax: ModuleType, flax: ModuleType) -> None:
    x, found = numbers((8, 16)), []
    for library, base in ((nnx, gs), (flax, jax)):
        spec, mesh = base.sharding.PartitionSpec, mesh_of(base, ("data", "model"), 4, 2)
        model = library.Linear(16, 32, rngs=library.Rngs(0))

        def place(*entries: Any, base: Any = base, spec: Any = spec, mesh: Any = mesh) -> Any:
            return base.sharding.NamedSharding(mesh, spec(*entries))

        lay_out = library.StateSharding(
            {ends_with("kernel"): place("data", "model"), ...: place("model")}
        )

        @library.jit(in_shardings=(lay_out, place("data")), out_shardings=place("data", "model"))
        def f(m: Any, x: Any) -> Any:
            m.bias.value = m.bias.value + 1
            return m(x)

        found.append((model, f(model, x)))
    (ours, y), (theirs, wanted) = found
    close(y, wanted, 16)
    assert entries(y) == entries(wanted)
    for name in ("kernel", "bias"):
        mine, other = (getattr(model, name).value for model in (ours, theirs))
        close(mine, other, 8)
        assert entries(mine) == entries(other)


def test_names_of_axes(jax: ModuleType, flax: ModuleType) -> None:
    """Flax lays values out where a mesh is set; names and specs are the same without."""
    for names in ((None, "model"), ("data", "model"), (("data", "model"), None)):
        found = []
        for library, base in ((nnx, gs), (flax, jax)):
            mesh = mesh_of(base, ("data", "model"), 4, 2)
            made = (init if base is gs else jax.nn.initializers).normal()
            kernel_init = library.with_partitioning(made, names, mesh)
            model = library.Linear(8, 16, kernel_init=kernel_init, rngs=library.Rngs(0))
            specs = library.get_partition_spec(library.state(model))
            shardings = library.get_named_sharding(library.state(model), mesh)
            found.append([tuple(specs["kernel"].value), tuple(specs["bias"].value),
                          tuple(shardings["kernel"].value.spec)])  # fmt: skip
            assert specs["kernel"].value is not None
        assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore:'sharding' is deprecated:DeprecationWarning")
def test_values_lie_where_names_say_within_a_mesh(jax: ModuleType, flax: ModuleType) -> None:
    for names in ((None, "model"), ("data", "model"), (("data", "model"),), ("model",)):
        found = []
        for library, base, numbers_of in ((nnx, gs, gs.numpy), (flax, jax, jax.numpy)):
            mesh = mesh_of(base, ("data", "model"), 4, 2)
            with gs.set_mesh(mesh) if base is gs else jax.set_mesh(mesh):
                v = library.Param(numbers_of.ones((8, 16)), sharding=names)
                ones = (init if base is gs else jax.nn.initializers).ones
                made = library.with_partitioning(ones, sharding=names)
                layer = library.Linear(8, 16, kernel_init=made, rngs=library.Rngs(0))
            found.append([entries(v.value), entries(layer.kernel.value)])
        assert found[0] == found[1] and found[0][0]


def test_comparisons_and_truth_of_variables(flax: ModuleType) -> None:
    values = [np.arange(3.0), np.zeros(1), np.zeros(0), np.eye(2), np.float32(2)]
    for first in values:
        ours, theirs = nnx.Param(gs.numpy.asarray(first)), flax.Param(flax_array(first))
        if np.ndim(first):
            assert bool(ours) == bool(theirs)
        if np.ndim(first) == 1:
            assert [x in ours for x in (0, 2, 5)] == [x in theirs for x in (0, 2, 5)]
        for second in (2, first, 0 * first):
            assert np.array_equal(ours == second, theirs == second)
            assert np.array_equal(ours == nnx.Param(second), theirs == flax.Param(second))
    for v in (ours, theirs):
        with pytest.raises(TypeError, match="unhashable"):
            hash(v)


def flax_array(x: Any) -> Any:
    return pytest.importorskip("jax").numpy.asarray(x)


@pytest.mark.filterwarnings("ignore:The 'split' argument:DeprecationWarning")
def test_shapes_of_streams_that_are_split(flax: ModuleType) -> None:
    ways: list[Any] = [
        3, (2, 3), {"params": 3}, {"params": None, ...: 2}, {"params": 2, "other": (4, 5)},
    ]  # fmt: skip
    for way in ways:
        for call in (lambda r, way: r.split(way), lambda r, way: r.fork(split=way)):
            ours, theirs = (call(x.Rngs(params=0, other=1), way) for x in (nnx, flax))
            for name in ("params", "other"):
                assert ours[name].key.shape == theirs[name].key.shape, (way, name)


def test_filters_of_parts_of_keys(flax: ModuleType) -> None:
    for key in ("a", "b", "0", 0, 10, "1"):
        for path in (("a", "bab"), ("c", 10), (0,), ("x0",), ()):
            for exact in (True, False):
                ours, theirs = (
                    x.PathContains(key, exact=exact)(path, None) for x in (nnx, flax)
                )  # fmt: skip
                assert ours == theirs, (key, path, exact)


def test_what_is_popped_has_the_first_path_that_a_filter_takes(flax: ModuleType) -> None:
    for key in ("a", "b", "c", "z"):
        found = []
        for library, ones in ((nnx, gs.numpy.ones), (flax, np.ones)):
            m = library.Module()
            m.a = m.b = m.c = library.Intermediate(ones(2))
            found.append(list(library.pop(m, library.PathContains(key))))
        assert found[0] == found[1]


def test_bound_methods_are_refused_by_both(flax: ModuleType) -> None:
    for library in (nnx, flax):
        m = library.Linear(2, 2, rngs=library.Rngs(0))
        with pytest.raises((TypeError, ValueError), match=r"nnx\.jit"):
            library.jit(m.__call__)
