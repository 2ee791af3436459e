"""`gpushard.nn` against its definitions in NumPy; sharded operands stay where they are."""

import inspect
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import nn
from tests.nn import oracle
from tests.numpy.compare import put
from tests.numpy.matrices import ONE_RUNTIME, numbers

pytestmark = [pytest.mark.usefixtures("domains"), ONE_RUNTIME]

SIZES = {"d": 1e-13, "f": 1e-5, "e": 2e-2}
SPECS: list[tuple[Any, ...]] = [("x", "y"), ("y", "x"), (None, ("x", "y")), (("y", "x"),), ()]


def close(found: gs.Array, wanted: Any, size: float = 1e-13) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=size, atol=size)


@pytest.mark.parametrize("name", oracle.ACTIVATIONS)
@pytest.mark.parametrize("dtype", SIZES)
def test_activations(name: str, dtype: str) -> None:
    data = 3 * numbers((9, 5), dtype)
    data[0, :3] = 0, -0.0, 1
    x = put(data, "x", "y")
    found = getattr(nn, name)(x)
    assert (found.dtype, found.sharding) == (data.dtype, x.sharding)
    close(found, oracle.ACTIVATIONS[name](data.astype("d")), SIZES[dtype])


@pytest.mark.parametrize("name", oracle.ACTIVATIONS)
def test_large_values_are_stable(name: str) -> None:
    data = np.array([-1e4, -800.0, 800.0, 1e4])
    found = np.asarray(getattr(nn, name)(put(data, "x")))
    assert np.isfinite(found).all()
    close(found, oracle.ACTIVATIONS[name](data))


@pytest.mark.parametrize("name", sorted({*oracle.ACTIVATIONS} - {"identity", "hard_tanh", "relu"}))
def test_integers_become_floats(name: str) -> None:
    data = numbers((6, 4), "i") - 2
    found = getattr(nn, name)(put(data, "x", "y"))
    close(found, oracle.ACTIVATIONS[name](data.astype("d")))
    assert found.dtype == np.float64


@pytest.mark.parametrize("dtype", ["i", "B"])
@pytest.mark.parametrize("name", ["identity", "hard_tanh", "relu"])
def test_integers_stay(name: str, dtype: str) -> None:
    data = (numbers((6, 4), "i") - 2 * (dtype == "i")).astype(dtype)
    found = getattr(nn, name)(put(data, "x", "y"))
    np.testing.assert_array_equal(np.asarray(found), oracle.ACTIVATIONS[name](data.astype("l")))
    assert found.dtype == data.dtype


def test_parameters_of_activations() -> None:
    data = numbers((8, 6))
    x = put(data, "x", "y")
    close(nn.elu(x, 0.3), oracle.elu(data, 0.3))
    close(nn.celu(x, alpha=0.3), np.where(data > 0, data, 0.3 * np.expm1(data / 0.3)))
    close(nn.leaky_relu(x, 0.5), np.maximum(data, data / 2))
    close(nn.squareplus(x, b=1), (data + np.sqrt(data**2 + 1)) / 2)
    close(nn.gelu(x, approximate=False), data * oracle.normal_cdf(data))
    small = np.array([1e-300, 1e-10, 0.5, 2.0, 800.0])
    with np.errstate(divide="ignore"):
        wanted = np.where(small < 1, np.log(-np.expm1(-small)), np.log1p(-np.exp(-small)))
    close(nn.log1mexp(small), wanted)
    assert nn.swish is nn.silu and nn.hard_swish is nn.hard_silu


@pytest.mark.parametrize("entries", SPECS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_halves(entries: Any, axis: int) -> None:
    data = numbers((8, 6))
    one, other = np.split(data, 2, axis)
    close(nn.glu(put(data, *entries), axis), one * oracle.sigmoid(other))


@pytest.mark.parametrize("entries", SPECS)
@pytest.mark.parametrize("axis", [0, -1, (0, 1), None])
@pytest.mark.parametrize("masked", [False, True])
def test_softmax_and_sums_of_exponentials(entries: Any, axis: Any, masked: bool) -> None:
    data = 300 * numbers((7, 6))
    where = numbers((7, 6), "d", "w") > 0 if masked else None
    if masked:
        where[0], where[:, 0] = True, True
    x = put(data, *entries)
    among = data if where is None else np.where(where, data, -np.inf)
    wanted = oracle.softmax(among, axis)
    found = nn.softmax(x, axis, where)
    assert found.devices() == x.devices()
    close(found, wanted)
    total = np.logaddexp.reduce(
        among.ravel() if axis in (None, (0, 1)) else among, 0 if axis != -1 else 1
    )
    close(nn.logsumexp(x, axis, where=where), total)
    kept = total if axis in (0, None, (0, 1)) else total[:, None]
    logs = nn.log_softmax(x, axis, where=where)
    close(logs, among - kept)
    counts = (where if masked else np.ones(data.shape)).sum(axis)
    close(nn.logmeanexp(x, axis, where), total - np.log(counts))
    shape = nn.logmeanexp(x, axis, keepdims=True).shape
    assert shape == data.sum(axis, keepdims=True).shape
    assert np.isnan(nn.logmeanexp(x[:0], axis if axis != -1 else None)).all()


@pytest.mark.parametrize("entries", [("x", "y"), (("x", "y"),), (None, ("y", "x")), (("y", "x"),)])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_keeps_shardings(entries: Any, axis: int) -> None:
    x = put(numbers((64, 64)), *entries)
    for function in (nn.softmax, nn.log_softmax, nn.standardize):
        assert function(x, axis).sharding == x.sharding


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_softmax_of_nothing(shape: tuple[int, ...]) -> None:
    x = put(np.zeros(shape, np.float32))
    for function in (nn.softmax, nn.log_softmax, gs.special.softmax, gs.special.log_softmax):
        for axis in (None, 0, -1):
            found = function(x, axis)
            assert (found.shape, found.dtype) == (shape, np.float32)
            assert gs.jit(lambda x, f=function, axis=axis: f(x, axis))(x).shape == shape
        with pytest.raises(gs.errors.AxisError):
            function(x, 2)
    assert nn.softmax(x, where=np.ones(shape, bool)).shape == shape


def test_weights_of_exponentials() -> None:
    data, weights = numbers((8, 6)), numbers((6,), "d", "b")
    where = numbers((8, 6), "d", "w") > 0
    size, sign = nn.logsumexp(put(data, "x", "y"), 1, weights, return_sign=True, where=where)
    total = (np.exp(data) * weights * where).sum(1)
    close(np.asarray(size), np.log(np.abs(total)), 1e-12)
    np.testing.assert_array_equal(np.asarray(sign), np.sign(total))
    unknown = np.where(where, weights, np.nan)
    size, _ = nn.logsumexp(put(data, "x", "y"), 1, unknown, return_sign=True, where=where)
    close(np.asarray(size), np.log(np.abs(total)), 1e-12)
    close(nn.logsumexp(put(data, "x", "y"), 1, weights**2), np.log(np.exp(data) @ weights**2))


@pytest.mark.parametrize("entries", SPECS)
@pytest.mark.parametrize("algorithm", ["fast", "stable"])
@pytest.mark.parametrize("axis", [0, -1, None])
def test_standardize(entries: Any, algorithm: str, axis: Any) -> None:
    data, where = 2 + numbers((8, 6)), numbers((8, 6), "d", "w") > -1
    where[0], where[:, 0] = True, True
    for taking in (None, where):
        of = np.ma.masked_array(data, None if taking is None else ~taking)
        mean, variance = (np.asarray(f(axis=axis, keepdims=True)) for f in (of.mean, of.var))
        found = nn.standardize(put(data, *entries), axis, where=taking, algorithm=algorithm)
        close(found, (data - mean) / np.sqrt(variance + 1e-5), 1e-9)
    given = nn.standardize(put(data, *entries), mean=1.0, variance=4.0, epsilon=0)
    close(given, (data - 1) / 2)


def test_small_differences_of_large_numbers_are_stable() -> None:
    data = (3e4 + numbers((8, 6))).astype(np.float32)
    wide = data.astype(np.float64)
    found = nn.standardize(put(data, "x"), 0, epsilon=0, algorithm="stable")
    close(found, (wide - wide.mean(0)) / wide.std(0), 1e-2)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_classes_as_vectors(axis: int) -> None:
    classes = numbers((8, 6), "i")
    x = put(classes, "x", "y")
    wanted = np.moveaxis(np.eye(7)[classes][..., :4], -1, axis)
    found = nn.one_hot(x, 4, axis=axis)
    np.testing.assert_array_equal(np.asarray(found), wanted)
    assert found.dtype == np.float64
    spec = ["x", "y"]
    spec.insert(range(3)[axis], None)
    assert found.sharding.is_equivalent_to(gs.NamedSharding(x.sharding.mesh, gs.P(*spec)), 3)
    assert nn.one_hot(x, 4, dtype=np.int8).dtype == np.int8
    assert nn.one_hot(x, 0).shape == (8, 6, 0)


def test_without_more_said_functions_go_along_the_last_dim() -> None:
    x = put(numbers((3, 4, 6)))
    for function in (nn.softmax, nn.log_softmax, nn.standardize, nn.glu):
        np.testing.assert_array_equal(function(x), function(x, 2))
    classes = put(numbers((3, 4), "i"))
    np.testing.assert_array_equal(nn.one_hot(classes, 5), nn.one_hot(classes, 5, axis=2))


@pytest.mark.parametrize("call", oracle.CALLS)
@pytest.mark.parametrize("entries", [(), ("y",), ("y", None, "x"), (None, "x")])
def test_attention(call: str, entries: Any) -> None:
    how = oracle.CALLS[call]
    wanted, sums = oracle.attention(oracle.Q, oracle.K, oracle.V, **how)
    arrays = [put(x, *entries) for x in (oracle.Q, oracle.K, oracle.V)]
    found, residual = nn.dot_product_attention(*arrays, **how, return_residual=True)
    close(found, wanted)
    close(residual, sums)
    if not call.startswith("lengths"):
        how = {k: v[:1] if k == "mask" else v for k, v in how.items()}
        one = nn.dot_product_attention(*[x[0] for x in arrays], **how)
        close(one, wanted[0])


def test_attention_stays_on_its_devices() -> None:
    arrays = [put(numbers((8, 5, 2, 4), "d", n), "x", None, "y") for n in "qkv"]
    found = nn.dot_product_attention(*arrays, is_causal=True)
    assert found.sharding == arrays[0].sharding
    half = nn.dot_product_attention(*[x.astype(np.float16) for x in arrays], is_causal=True)
    assert half.dtype == np.float16
    close(half.astype(np.float64), np.asarray(found), 1e-2)


def test_data_on_the_host_and_out_sharding() -> None:
    sharding = gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x"))
    for name in {*nn.__all__} - {"one_hot", "dot_product_attention", "tanh"}:
        function = getattr(nn, name)
        assert "out_sharding" in inspect.signature(function).parameters, name
        found = function([0.5, 1.0], out_sharding=gs.devices()[1])
        assert found.devices() == {gs.devices()[1]}, name
    assert nn.relu(np.arange(8.0), out_sharding=sharding).sharding == sharding
