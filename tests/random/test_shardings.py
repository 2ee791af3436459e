"""Every result is the same for every sharding, in parts that are made where they live."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpushard as gs
from gpushard import random
from gpushard._movement import reshard
from gpushard._ops.prng import blocks
from gpushard._ops.prng.blocks import each_block
from gpushard._ops.prng.stream import Stream
from gpushard._runtime.runtime import Runtime
from gpushard.testing import runtime
from tests.random.test_distributions import is_refused

SETTINGS: dict[str, dict[str, Any]] = {
    "one-domain": {"enable_checks": True},
    "six-domains-queued": {"host_domains": 6, "small_bytes": 0, "inline_bytes": 0},
}
LENGTHS = (7, 301)
ROW = np.linspace(0.25, 4, LENGTHS[1])
COLUMN = np.linspace(2, 5, LENGTHS[0])[:, None]
COV = np.array([[2, 0.5], [0.5, 1]])

CALLS: dict[str, Callable[..., Any]] = {
    "bits": lambda key, **out: random.bits(key, LENGTHS, "uint16", **out),
    "uniform": lambda key, **out: random.uniform(key, LENGTHS, "float32", **out),
    "uniform of bounds": lambda key, **out: random.uniform(key, LENGTHS, None, -ROW, COLUMN, **out),
    "randint": lambda key, **out: random.randint(key, LENGTHS, -5, 77, **out),
    "bernoulli": lambda key, **out: random.bernoulli(key, ROW / 4, LENGTHS, **out),
    "normal": lambda key, **out: random.normal(key, LENGTHS, **out),
    "half normal": lambda key, **out: random.normal(key, LENGTHS, "float16", **out),
    "cauchy": lambda key, **out: random.cauchy(key, LENGTHS, "float32", **out),
    "gamma": lambda key, **out: random.gamma(key, ROW, LENGTHS, **out),
    "gamma in one": lambda key, **out: random.gamma(key, 0.5, LENGTHS, "float32", **out),
    "beta": lambda key, **out: random.beta(key, ROW, COLUMN, **out),
    "weibull": lambda key, **out: random.weibull_min(key, ROW, COLUMN, **out),
    "f": lambda key, **out: random.f(key, ROW, COLUMN, **out),
    "maxwell": lambda key, **out: random.maxwell(key, LENGTHS, "float32", **out),
    "wald": lambda key, **out: random.wald(key, ROW * COLUMN, **out),
    "triangular": lambda key, **out: random.triangular(key, -ROW, 0, COLUMN, **out),
    "high gumbel": lambda key, **out: random.gumbel(key, LENGTHS, None, "high", **out),
    "high bernoulli": lambda key, **out: random.bernoulli(key, ROW / 4, LENGTHS, "high", **out),
    "generalized normal": lambda key, **out: random.generalized_normal(key, ROW, LENGTHS, **out),
    "ball": lambda key, **out: random.ball(key, 301, 3, LENGTHS[:1], **out),
    "orthogonal": lambda key, **out: random.orthogonal(key, 7, (), "float32", 301, **out),
    "multinomial": lambda key, **out: random.multinomial(
        key, 50 * COLUMN[:, 0], [0.25] * 4, shape=(7, 4), **out
    ),
    "bfloat16": lambda key, **out: random.normal(key, LENGTHS, ml_dtypes.bfloat16, **out),
    "poisson": lambda key, **out: random.poisson(key, ROW * COLUMN, **out),
    "binomial": lambda key, **out: random.binomial(key, 40, ROW / 4, LENGTHS, **out),
    "dirichlet": lambda key, **out: random.dirichlet(key, ROW, LENGTHS[:1], **out),
    "vectors": lambda key, **out: random.multivariate_normal(key, [1, 2], COV, LENGTHS[:1], **out),
    "permutation": lambda key, **out: random.permutation(key, ROW + COLUMN, 1, True, **out),
    "choice": lambda key, **out: random.choice(key, 20, LENGTHS, p=np.ones(20) / 20, **out),
    "categorical": lambda key, **out: random.categorical(key, ROW, shape=LENGTHS, **out),
    "keys": lambda key, **out: random.key_data(random.split(key, LENGTHS, **out)),
}


@pytest.fixture(scope="module", params=SETTINGS.values(), ids=SETTINGS)
def rt(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    with runtime(host_devices=6, **request.param) as made:
        yield made


def shardings() -> list[Any]:
    mesh = gs.make_mesh((3, 2), ("x", "y"))
    line = gs.make_mesh((3,), ("x",))
    specs = [gs.P(), gs.P("x"), gs.P("x", "y"), gs.P(None, ("y", "x")), gs.P("y")]
    named: list[Any] = [gs.NamedSharding(mesh, spec) for spec in specs]
    pinned = gs.NamedSharding(mesh, gs.P(None, "y"), memory_kind="pinned_host")
    return [*named, gs.NamedSharding(line, gs.P(None, "x")), gs.devices()[4], pinned]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", CALLS)
def test_the_sharding_does_not_matter(rt: Runtime, name: str) -> None:
    call, key = CALLS[name], random.key(11)
    alone = call(key)
    assert alone.sharding == gs.SingleDeviceSharding(gs.devices()[0]) and not alone.committed
    wanted = np.asarray(alone)
    assert len(np.unique(wanted)) > 1
    for sharding in shardings():
        made = call(key, out_sharding=sharding)
        place = sharding if isinstance(sharding, gs.Sharding) else gs.SingleDeviceSharding(sharding)
        assert made.sharding == place and made.committed and made.dtype == alone.dtype
        np.testing.assert_array_equal(np.asarray(made), wanted)
        for shard in made.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), wanted[shard.index])


@pytest.mark.parametrize("name", sorted({*CALLS} - {"categorical", "multinomial"}))  # large ones
def test_the_length_of_what_is_drawn_at_a_time_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    call, key = CALLS[name], random.key(11)
    wanted = np.asarray(call(key))
    monkeypatch.setattr("gpushard._ops.prng.blocks.ELEMENTS", 1000)
    np.testing.assert_array_equal(np.asarray(call(key)), wanted)


def test_what_is_chosen_of_arrays_in_host_memory() -> None:
    there = gs.SingleDeviceSharding(gs.devices()[0], memory_kind="pinned_host")
    numbers, key = np.arange(9.0), random.key(3)
    made = random.choice(key, gs.device_put(numbers, there))
    assert made == random.choice(key, numbers)


class Moves(list[int]):
    """Bytes of the operands that operations move, and of results that are laid out anew."""


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Moves:
    """Count the elements of all arrays that are moved."""
    seen = Moves()
    original = reshard.run

    def counted(plan: Any, sources: Any, name: str) -> Any:
        seen.append(int(np.prod(sources[0].tiling.shape)))
        return original(plan, sources, name)

    monkeypatch.setattr("gpushard._movement.reshard.run", counted)
    return seen


@pytest.mark.parametrize("name", ["bits", "randint", "normal", "gamma in one", "poisson", "keys"])
def test_nothing_but_the_key_moves(moved: Moves, name: str) -> None:
    with runtime(host_devices=6), gs.gather_guard("disallow"):
        mesh = gs.make_mesh((3, 2), ("x", "y"))
        calls = dict(CALLS, poisson=lambda key, **out: random.poisson(key, 20.0, LENGTHS, **out))
        for spec in (gs.P("x"), gs.P("x", "y"), gs.P(None, "y"), gs.P()):
            calls[name](random.key(1), out_sharding=gs.NamedSharding(mesh, spec))
    assert moved and max(moved) == 1


def test_a_result_is_made_in_parts_on_meshes_of_many_axes(moved: Moves) -> None:
    with runtime(host_devices=16):
        mesh = gs.make_mesh((2, 2, 2, 2), tuple("abcd"))
        spec = gs.P("a", ("b", "c"), None, None, None, "d")
        shape = (2, 4, 2, 2, 2, 3)
        made = random.normal(random.key(1), shape, out_sharding=gs.NamedSharding(mesh, spec))
        np.testing.assert_array_equal(made, np.asarray(random.normal(random.key(1), shape)))
    assert moved and max(moved) == 1


def test_results_are_beside_split_parameters(rt: Runtime) -> None:
    mesh = gs.make_mesh((3,), ("x",))
    rows = gs.NamedSharding(mesh, gs.P("x"))
    rate = gs.device_put(np.linspace(1, 30, 8), rows)
    with gs.gather_guard("disallow"):
        made = random.poisson(random.key(2), rate)
        again = random.poisson(random.key(2), rate, (5, 8))
    assert made.sharding == rows and again.sharding.spec == gs.P(None, "x")
    np.testing.assert_array_equal(made, random.poisson(random.key(2), np.linspace(1, 30, 8)))


def test_categories_may_be_split(rt: Runtime) -> None:
    mesh = gs.make_mesh((3,), ("x",))
    logits = np.random.default_rng(0).normal(size=(4, 7))
    split = gs.device_put(logits, gs.NamedSharding(mesh, gs.P(None, "x")))
    wanted = np.asarray(random.categorical(random.key(3), logits, shape=(50, 4)))
    with gs.gather_guard("disallow"):
        made = random.categorical(random.key(3), split, shape=(50, 4))
    np.testing.assert_array_equal(made, wanted)


def test_a_committed_key_decides_where_nothing_else_does(rt: Runtime) -> None:
    mesh = gs.make_mesh((3,), ("x",))
    keys = random.split(random.key(4), 4, out_sharding=gs.NamedSharding(mesh, gs.P("x")))
    made = random.normal(keys[2], (5,))
    assert made.sharding.device_set == set(mesh.devices.flat) and made.committed
    np.testing.assert_array_equal(made, random.normal(random.split(random.key(4), 4)[2], (5,)))
    other = random.normal(gs.device_put(random.key(4), gs.devices()[3]), (5,))
    assert other.device == gs.devices()[3]


def test_new_numbers_go_where_new_data_goes(rt: Runtime) -> None:
    mesh = gs.make_mesh((3, 2), ("x", "y"))
    key = random.key(5)
    with gs.use_mesh(mesh, gs.P("x")):
        made, here = random.normal(key, (5, 2)), random.uniform(random.key(5), (5,))
        named = random.normal(key, (5, 2), out_sharding=gs.P(None, "y"))
        order = random.permutation(key, 5)
    assert made.sharding == gs.NamedSharding(mesh, gs.P("x")) and not made.committed
    assert here.sharding.spec == order.sharding.spec == gs.P("x")
    assert named.sharding == gs.NamedSharding(mesh, gs.P(None, "y")) and named.committed
    np.testing.assert_array_equal(made, np.asarray(random.normal(key, (5, 2))))
    np.testing.assert_array_equal(order, np.asarray(random.permutation(key, 5)))


@pytest.mark.parametrize("count", [1, 3, 8, 16, 64])
def test_positions_that_follow_one_another(count: int) -> None:
    for first in (0, 5, *range(2**32 - 65, 2**32 + 3), 3 * 2**32 - 1):
        high, low = blocks._sequence(np, first, count)
        found = high.astype(np.uint64) * 2**32 + low
        assert found[:count].tolist() == list(range(first, first + count))
        assert found.size == -(-count // 64) * 64


def test_a_position_needs_more_than_32_bits() -> None:
    """The last elements of an array too large to be made have counters of their own."""
    whole, local = (3, 1 << 33), (2, 70)
    start = (1, (1 << 33) - 70)
    found = _positions(start, local, whole)
    wanted = np.add.outer(np.arange(1, 3) * (1 << 33), np.arange((1 << 33) - 70, 1 << 33)).ravel()
    np.testing.assert_array_equal(found, wanted)
    across = np.arange((1 << 32) - 7, (1 << 32) + 9)
    np.testing.assert_array_equal(_positions((across[0],), (16,), (1 << 33,)), across)


@pytest.mark.parametrize("size", [1, 5, 16, 64, 1 << 20])
def test_positions_of_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("gpushard._ops.prng.blocks.ELEMENTS", size)
    whole = (4, 5, 6, 7)
    numbers = np.arange(4 * 5 * 6 * 7).reshape(whole)
    for start, local in [
        ((0, 0, 0, 0), whole),
        ((1, 0, 0, 0), (2, 5, 6, 7)),
        ((0, 2, 0, 0), (4, 3, 6, 7)),
        ((1, 1, 1, 1), (2, 3, 4, 5)),
        ((3, 0, 5, 2), (1, 5, 1, 4)),
        ((0, 4, 0, 6), (4, 1, 6, 1)),
        ((0, 0, 0, 0), (4, 0, 6, 7)),
    ]:
        box = tuple(slice(a, a + n) for a, n in zip(start, local, strict=True))
        np.testing.assert_array_equal(_positions(start, local, whole), numbers[box].ravel())
    for whole, local in (((6, 6, 6), (2, 6, 3)), ((6, 3, 6), (2, 3, 3))):
        numbers = np.arange(math.prod(whole)).reshape(whole)[4:, :, 2:5]
        np.testing.assert_array_equal(_positions((4, 0, 2), local, whole), numbers.ravel())


def _positions(start: tuple[int, ...], local: tuple[int, ...], whole: tuple[int, ...]) -> Any:
    found = np.full(int(np.prod(local)), -1)

    def fill(first: int, stop: int, stream: Stream) -> None:
        assert len(stream.low) % 64 == 0 and stream.high.size in (1, stream.low.size)
        positions = stream.high.astype(np.int64) << 32 | stream.low
        found[first:stop] = positions[: stop - first]

    each_block(np, np.zeros(2, np.uint32), start, local, whole, fill)
    return found


def test_a_spec_is_one_of_the_mesh_of_the_parameters() -> None:
    mesh = gs.make_mesh((3, 2), ("x", "y"), devices=gs.devices()[:6])
    rates = gs.device_put(np.linspace(0.5, 90, 48).reshape(8, 6), gs.NamedSharding(mesh, gs.P("x")))
    split = random.poisson(random.key(2), rates, out_sharding=gs.P("y"))
    assert split.sharding == gs.NamedSharding(mesh, gs.P("y"))
    assert np.array_equal(split, random.poisson(random.key(2), np.asarray(rates)))


@pytest.mark.usefixtures("rt")
@pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_uniform_numbers_lie_between_their_bounds(dtype: Any) -> None:
    if is_refused(dtype, random.uniform):
        return
    drawn = random.uniform(random.key(5), (4000,), dtype, -2, 3)
    found = np.asarray(drawn.astype("f8"))
    assert found.min() >= -2 and found.max() <= 3 and drawn.dtype == dtype
    assert abs(found.mean() - 0.5) < 0.35 and (found < -1.5).any() and (found > 2.2).any()
    assert random.uniform(random.key(5), (0, 3), dtype, -2, 3).shape == (0, 3)
