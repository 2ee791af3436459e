"""`sharded_jit` against its definition: what the function gives, in equal parts on devices."""

from __future__ import annotations

import math
import pickle
import random
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    NoDeviceError,
    TracedValueError,
    UnsupportedError,
)
from gpushard.legacy import (
    FROM_GDA,
    Chunked,
    Parts,
    get_global_aval,
    get_local_aval,
    get_num_partitions,
    reconcile_num_partitions,
    sharded_jit,
    with_sharding_constraint,
)
from tests.share import seeds
from tests.traffic import received

gnp: Any = gs.numpy


def drawn(rng: random.Random, ndim: int, number: int) -> Parts | None:
    """Return parts for so many devices, or None for replicas."""
    if rng.random() < 0.25:
        return None
    counts = [1] * ndim
    for prime in {1: [], 2: [2], 4: [2, 2], 6: [2, 3], 8: [2, 2, 2]}[number]:
        counts[rng.randrange(ndim)] *= prime
    return Parts(*counts)


def check_cut(x: Any, value: Any, parts: Parts | None, number: int) -> None:
    """Check an array's value, and that it lies as parts say."""
    np.testing.assert_allclose(np.asarray(x), value, rtol=1e-12)
    shape = (
        value.shape if parts is None else [n // c for n, c in zip(value.shape, parts, strict=True)]
    )
    shards = x.addressable_shards
    assert len(shards) == number
    assert all(shard.data.shape == tuple(shape) for shard in shards)
    counts = x.sharding.sharding_spec.counts
    assert counts == (parts or (1,) * value.ndim)
    for entry in x.sharding.sharding_spec.sharding:
        assert entry is None or isinstance(entry, Chunked)


@pytest.mark.parametrize("seed", seeds(45))
def test_as_defined(seed: int) -> None:
    rng, values = random.Random(seed), np.random.default_rng(seed)
    number = rng.choice([1, 2, 4, 6, 8])
    with testing.runtime(host_devices=8):
        x, y = values.normal(size=(24, 48)), values.normal(size=(48, 24))
        ins = drawn(rng, 2, number), drawn(rng, 2, number)
        outs = drawn(rng, 2, number), drawn(rng, 1, number)
        inner = drawn(rng, 2, number)

        def body(x: Any, y: Any) -> Any:
            product = with_sharding_constraint(x @ y, inner)
            return gnp.tanh(product), product.sum(0) + x.max()

        f = sharded_jit(body, ins, outs, num_partitions=number)
        wanted = np.tanh(x @ y), (x @ y).sum(0) + x.max()
        for _ in range(2):
            for made, value, parts in zip(f(x, y), wanted, outs, strict=True):
                check_cut(made, value, parts, number)
        again = sharded_jit(lambda a, b: a.sum(0) + b, outs, outs[1], number)(*f(x, y))
        np.testing.assert_allclose(np.asarray(again), wanted[0].sum(0) + wanted[1], rtol=1e-12)


@pytest.mark.parametrize(("mapped", "parts"), [(2, (2, 2)), (4, (2, 1)), (2, (1, 2)), (1, (2, 4))])
@pytest.mark.parametrize("jitted", [False, True])
def test_within_pmap(mapped: int, parts: tuple[int, int], jitted: bool) -> None:
    x = np.random.default_rng(0).normal(size=(mapped, 4, 8))
    with testing.runtime(host_devices=8):
        cut = sharded_jit(lambda a: gnp.tanh(a) - a.sum(0), Parts(*parts), Parts(*parts))
        f = gs.pmap(lambda a: cut(a * 2) + gs.lax.psum(a.sum(), "i"), "i")
        alone = gs.pmap(cut)
        if jitted:
            f, alone = gs.jit(f), gs.jit(alone)
        wanted = np.tanh(2 * x) - (2 * x).sum(1, keepdims=True) + x.sum()
        np.testing.assert_allclose(np.asarray(f(x)), wanted, rtol=1e-12)
        made = alone(x)
        np.testing.assert_allclose(np.asarray(made), np.tanh(x) - x.sum(1, keepdims=True))
        assert len(made.addressable_shards) == mapped * math.prod(parts)
        assert made.sharding.sharding_spec.counts == (mapped, *parts)
        np.testing.assert_allclose(np.asarray(alone(made)), np.asarray(alone(np.asarray(made))))


def test_what_moves() -> None:
    x = np.arange(64.0).reshape(8, 8)
    with testing.runtime(host_devices=8, host_domains=8) as runtime:

        def moved(f: Any, *args: Any) -> int:
            f(*args)
            before = dict(runtime.backend.traffic)
            f(*args)
            return received(runtime, before)

        cut = sharded_jit(lambda a: a + 1, Parts(4, 2), Parts(4, 2))
        assert moved(cut, cut(x)) == 0
        each = gs.pmap(sharded_jit(lambda a: a + 1, Parts(2), Parts(2)))
        assert moved(each, each(x[:4])) == 0
        ins = None, Parts(1, 8), Parts(8, 1)
        weights = sharded_jit(lambda *args: args, ins, ins)(x, x, x)
        layers = sharded_jit(lambda a, up, down: gnp.tanh(a @ up) @ down, ins, None)
        assert 0 < moved(layers, *weights) <= 2 * 7 * x.nbytes


def test_first_parts_are_in_the_order_of_devices() -> None:
    x = np.arange(24).reshape(4, 6)
    made = sharded_jit(lambda x: x, Parts(2, 3), Parts(2, 3))(x)
    order = [
        shard.device.id for shard in sorted(made.addressable_shards, key=lambda s: str(s.index))
    ]
    assert order == list(range(6))
    outs = Parts(3, 2), Parts(2, 3)
    made = sharded_jit(lambda x: (x.T, x), Parts(2, 3), outs)(x)[1]
    assert [shard.index for shard in made.addressable_shards] == [
        (slice(2 * n, 2 * n + 2), slice(2 * m, 2 * m + 2)) for n in range(2) for m in range(3)
    ]


def test_it_can_be_lowered() -> None:
    f = sharded_jit(lambda x: x + 1, Parts(2), Parts(2))
    compiled = f.lower(np.ones(4)).compile()  # type: ignore[attr-defined]
    assert compiled(np.ones(4)).tolist() == [2] * 4


def test_the_number_of_parts() -> None:
    assert get_num_partitions(None) is None
    assert get_num_partitions({"a": Parts(2, 2), "b": None}, Parts(4)) == 4
    assert reconcile_num_partitions([None, Parts(3)], None) == 3
    assert reconcile_num_partitions([Parts(3)], 3) == 3
    assert reconcile_num_partitions([], 5) == 5
    assert len(sharded_jit(lambda x: x, None, None)(1.0).devices()) == 1
    assert len(sharded_jit(lambda x: x, None, None, num_partitions=3)(1.0).devices()) == 3
    inner = sharded_jit(lambda x: with_sharding_constraint(x, Parts(2)) + 1, None, None)
    assert len(inner(np.ones(4)).devices()) == 2
    with pytest.raises(UnsupportedError):  # outside of it again
        with_sharding_constraint(np.ones(4), Parts(2))
    for number, error in ((0, ArgumentError), (-1, ArgumentError), (True, ArgumentTypeError)):
        with pytest.raises(error, match=f"num_partitions={number} must be a positive integer"):
            sharded_jit(lambda x: x, None, None, num_partitions=number)


def test_constants_are_replicated() -> None:
    f = sharded_jit(lambda x: (x, np.arange(3)), Parts(4), (Parts(4), None))
    made = f(np.ones(8))[1]
    assert made.is_fully_replicated
    assert len(made.devices()) == 4


def test_local_numbers_are_those_of_one_process() -> None:
    f = sharded_jit(lambda x: x, Parts(2), Parts(2), None, Parts(2), Parts(2), 2)
    assert f(np.arange(4)).tolist() == [0, 1, 2, 3]


def test_shapes_of_processes() -> None:
    aval = gs.ShapeDtypeStruct((8, 6), "int8")
    assert get_global_aval(aval, None, None).shape == (8, 6)
    assert get_global_aval(aval, Parts(4, 2), Parts(2, 2)).shape == (16, 6)
    assert get_local_aval(aval, Parts(4, 2), Parts(1, 1)).shape == (2, 3)
    for whole, local in (
        (Parts(4, 2), None), (Parts(4, 2), Parts(4)), (Parts(4), Parts(4, 2)),
        (Parts(4), Parts(4)), (Parts(4, 2, 1), Parts(4, 2, 1)),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match="give one number for each axis in both"):
            get_global_aval(aval, whole, local)


def test_few_devices() -> None:
    cut = sharded_jit(lambda x: x, Parts(4), None)
    with testing.runtime(host_devices=2), pytest.raises(NoDeviceError, match="4 parts need 4 dev"):
        cut(np.ones(4))
    with testing.runtime(host_devices=4), pytest.raises(NoDeviceError, match="2 need 8 devices"):
        gs.pmap(cut)(np.ones((2, 4)))


def test_errors_of_old() -> None:
    with pytest.raises(NotImplementedError):
        sharded_jit(lambda x: x, None, None)(x=1)
    with pytest.raises(UnsupportedError):
        with_sharding_constraint(1, Parts(1))


def test_what_is_no_function_and_no_array_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"^sharded_jit: f=3 must be a function"):
        sharded_jit(3, None, None)  # type: ignore[arg-type]
    x = np.ones(4)
    with pytest.raises(ArgumentTypeError, match=r"sharded_jit of .*the result is a str"):
        sharded_jit(lambda a: "text", Parts(2), None)(x)
    leaked: list[Any] = []
    gs.vmap(lambda a: leaked.append(a) or a)(x)
    with pytest.raises(TracedValueError, match="has returned"):
        sharded_jit(lambda a: leaked[0], Parts(2), None)(x)


def test_within_others_and_with_others_in_it() -> None:
    x = np.arange(32.0).reshape(8, 4)
    row = sharded_jit(lambda a: a * 2, Parts(2), Parts(2))
    assert np.array_equal(gs.vmap(row)(x), x * 2)
    assert np.array_equal(gs.jit(lambda a: row(a) + 1)(x[0]), x[0] * 2 + 1)
    twice = sharded_jit(lambda a: row(a) + 1, Parts(2), None)(x[0])
    assert np.array_equal(twice, x[0] * 2 + 1)
    assert len(twice.devices()) == 2
    rows = sharded_jit(
        lambda a: gs.lax.scan(lambda c, v: (c + v, c), a[0] * 0, a)[0], Parts(4, 1), None
    )
    assert np.array_equal(rows(x), x.sum(0))
    keys = gs.random.split(gs.random.key(0), 4)
    assert sharded_jit(lambda k: k, Parts(2), Parts(2))(keys).shape == (4,)
    assert np.array_equal(sharded_jit(lambda a: a + 1, Parts(2, 1), None)(gs.pmap(abs)(x)), x + 1)


def test_parts_and_marks_survive_pickling() -> None:
    for parts in (Parts(2, 3), Parts(4), Parts()):
        copy = pickle.loads(pickle.dumps(parts))
        assert type(copy) is Parts and copy == parts and repr(copy) == repr(parts)
    assert pickle.loads(pickle.dumps([FROM_GDA]))[0] is FROM_GDA and repr(FROM_GDA) == "FROM_GDA"
