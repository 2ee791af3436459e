"""Arrays in a `PmapSharding`, whose shards have fewer dims, through every function of placement."""

import io
import math
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import random, testing
from gpushard._geometry.older.sharding_spec import (
    Chunked,
    Replicated,
    ShardedAxis,
    ShardingSpec,
    Unstacked,
    spec_to_indices,
)
from gpushard.errors import DeletedArrayError, ShardingError
from gpushard.sharding import GSPMDSharding, PmapSharding
from tests.late import late_devices
from tests.share import examples, seeds
from tests.traffic import received

VALUE = np.random.default_rng(0).integers(-9, 9, (8, 6)).astype(float)


@pytest.fixture(params=[1, 4])
def runtime(request: pytest.FixtureRequest) -> Iterator[Any]:
    with testing.runtime(host_devices=8, host_domains=request.param, enable_checks=True) as rt:
        yield rt


def specs_of(shape: tuple[int, ...]) -> dict[str, PmapSharding | GSPMDSharding]:
    """Shardings of different kinds, all for one shape of two dims, (8, 6)."""
    devices = gs.devices()[::-1]
    halves = ShardingSpec([Chunked((2, 2)), None], [ShardedAxis(1), Replicated(2), ShardedAxis(0)])
    return {
        "rows": PmapSharding.default(shape, devices=devices),
        "columns": PmapSharding.default(shape, 1, devices[: shape[1]]),
        "replicated": PmapSharding.default(shape, None, devices[:3]),
        "chunks": PmapSharding(devices, halves),
        "tiles": GSPMDSharding(devices, "{devices=[4,2]<=[2,4]T(1,0)}"),
    }


NAMES = ["rows", "columns", "replicated", "chunks", "tiles"]


def check(x: gs.Array, value: np.ndarray, sharding: Any) -> None:
    """Check all that an array and its shards say."""
    assert x.sharding == sharding and x.shape == value.shape
    assert np.array_equal(np.asarray(x), value)
    assert len(x.addressable_shards) == sharding.num_devices
    for position, shard in enumerate(x.addressable_shards):
        assert np.array_equal(shard.data, value[shard.index])
        assert shard.data.shape == value[shard.index].shape == sharding.shard_shape(value.shape)
        assert shard.data.sharding == gs.SingleDeviceSharding(shard.device)
        assert sharding.devices_indices_map(value.shape)[shard.device] == shard.index
        if not x.is_fully_replicated:
            assert np.array_equal(x.addressable_data(position), shard.data)
        assert np.array_equal(np.from_dlpack(shard.data), shard.data)
    assert pickle.loads(pickle.dumps(x)).sharding == sharding


@pytest.mark.parametrize("name", NAMES)
def test_every_way_to_make_one(name: str, runtime: Any) -> None:
    sharding = specs_of(VALUE.shape)[name]
    x = gs.device_put(VALUE, sharding)
    check(x, VALUE, sharding)
    check(gs.device_put(gnp.asarray(VALUE), sharding), VALUE, sharding)
    asked = []

    def read(index: Any) -> Any:
        asked.append(index)
        return VALUE[index]

    made = gs.make_array_from_callback(VALUE.shape, sharding, read)
    check(made, VALUE, sharding)
    assert all(index in sharding.devices_indices_map(VALUE.shape).values() for index in asked)
    check(gs.make_array_from_process_local_data(sharding, VALUE), VALUE, sharding)
    parts = [shard.data for shard in x.addressable_shards]
    joined = gs.make_array_from_single_device_arrays(VALUE.shape, sharding, parts[::-1])
    check(joined, VALUE, sharding)
    pointers = {p.unsafe_buffer_pointer() for p in parts}
    assert {s.data.unsafe_buffer_pointer() for s in joined.addressable_shards} == pointers
    check(pickle.loads(pickle.dumps(x)), VALUE, sharding)
    file = io.BytesIO(pickle.dumps([shard.data for shard in x.addressable_shards]))
    again = gs.make_array_from_single_device_arrays(VALUE.shape, sharding, pickle.load(file))
    check(again, VALUE, sharding)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("there", NAMES)
@pytest.mark.parametrize("here", NAMES)
def test_resharding_between_any_two(here: str, there: str, runtime: Any) -> None:
    shardings: dict[str, Any] = specs_of(VALUE.shape)
    x = gs.device_put(VALUE, shardings[here])
    check(gs.reshard(x, shardings[there]), VALUE, shardings[there])
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    named = gs.reshard(x, gs.NamedSharding(mesh, gs.P("y", "x")))
    assert np.array_equal(named, VALUE)
    check(gs.reshard(named, shardings[there]), VALUE, shardings[there])
    single = gs.device_put(x, gs.devices()[5])
    check(gs.device_put(single, shardings[there]), VALUE, shardings[there])


CALLS: dict[str, Callable[[Any], Any]] = {
    "row": lambda x: x[1],
    "row from the end": lambda x: x[np.int64(-1)],
    "element": lambda x: x[1, 2],
    "column": lambda x: x[:, 3],
    "slice": lambda x: x[2:7:2, 1:],
    "rows": lambda x: x[np.array([1, 7, 1])],
    "mask": lambda x: x[x > 2],
    "newaxis": lambda x: x[None, 3],
    "iteration": lambda x: list(x)[3],
    "reshape": lambda x: x.reshape(4, 12),
    "transpose": lambda x: x.T,
    "sum": lambda x: x.sum(),
    "sum of columns": lambda x: x.sum(axis=0),
    "sum of rows": lambda x: x.sum(axis=1),
    "mean": lambda x: x.mean(),
    "product": lambda x: x.T @ x,
    "with a column": lambda x: x * x[:, :1],
    "with a row": lambda x: x + x[:1],
    "sine": lambda x: np.sin(x) + 1,
    "sort": lambda x: np.sort(x, axis=0),
    "concatenate": lambda x: np.concatenate([x, x]),
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", [*NAMES, "one device", "all on one"])
def test_operations_see_the_line_of_the_devices(name: str, call: str) -> None:
    with testing.runtime(host_devices=8, host_domains=4) as rt:
        sharding: Any
        if name == "one device":
            sharding = PmapSharding(rt.devices[3], ShardingSpec([None, None], []))
        elif name == "all on one":
            sharding = GSPMDSharding(rt.devices, "{maximal device=5}")
        else:
            sharding = specs_of(VALUE.shape)[name]
        x = gs.device_put(VALUE, sharding)
        result = CALLS[call](x)
        assert np.allclose(result, CALLS[call](VALUE), rtol=1e-13, atol=1e-13)
        assert result.devices() <= x.devices()


def test_elementwise_results_keep_it_and_others_are_over_the_line(runtime: Any) -> None:
    sharding = PmapSharding.default((8, 6))
    x = gs.device_put(VALUE, sharding)
    assert (x * 2 + x).sharding is sharding
    line = gs.Mesh(runtime.devices, ("devices",))
    assert (x @ x.T).sharding.mesh is line
    assert x.sum(axis=1).sharding == gs.NamedSharding(line, gs.P("devices"))
    assert x.device == gs.NamedSharding(line, gs.P())
    assert (x + gnp.zeros((8, 1), device=x.device)).shape == (8, 6)


def test_nothing_is_moved_where_the_line_is_split_alike() -> None:
    with testing.runtime(host_devices=8, host_domains=8) as rt:
        x = gs.device_put(VALUE, PmapSharding.default((8, 6)))
        line = gs.NamedSharding(gs.Mesh(rt.devices, ("devices",)), gs.P("devices"))
        w = gs.device_put(np.ones((6, 2)), gs.NamedSharding(line.mesh, gs.P()))
        y = gs.device_put(VALUE, line)
        before = dict(rt.backend.traffic)
        results = (x.sum(axis=1), x[:, 1:3], x.T, x @ w, x + y, np.sort(x, axis=1), x[3])
        results += (gs.reshard(x, line), gs.reshard(y, x.sharding))
        gs.block_until_ready(list(results))
        assert received(rt, before) == 0
        gs.block_until_ready(x.sum(axis=0))
        assert received(rt, before) > 0  # which is what this counts


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_an_index_of_one_shard_is_that_shard(kind: str, runtime: Any) -> None:
    sharding = specs_of(VALUE.shape)[kind]
    x = gs.device_put(VALUE, sharding)
    indices: list[Any] = [1, -1, np.int64(2), (3, slice(None)), (3, ...), (3, slice(0, None, 1))]
    if kind == "columns":
        indices = [(slice(None), i) if not isinstance(i, tuple) else (..., i[0]) for i in indices]
    for index in indices:
        part = x[index]
        assert np.array_equal(part, VALUE[index])
        assert not part.committed and part.sharding.num_devices == 1
        shard = next(s for s in x.addressable_shards if s.device in part.devices())
        assert part.unsafe_buffer_pointer() == shard.data.unsafe_buffer_pointer()
        assert part._live().claims[0] is shard.data._live().claims[0]
    for index in [(1, slice(2))] if kind == "rows" else [(slice(2), 1)]:
        assert np.array_equal(x[index], VALUE[index]) and x[index].committed


def test_a_shard_is_a_value_of_its_own(runtime: Any) -> None:
    x = gs.device_put(VALUE, PmapSharding.default((8, 6)))
    row, data = x[2], x.addressable_data(3)
    x[2] = 7
    x[3] = 7
    assert np.array_equal(row, VALUE[2]) and np.array_equal(data, VALUE[3])
    row[0] = 100
    assert np.array_equal(x[2], np.full(6, 7.0)) and row[0] == 100
    kept = x[4]
    x.delete()
    assert np.array_equal(kept, VALUE[4])
    with pytest.raises(DeletedArrayError):
        x[4]


def test_replicas_of_a_row_are_one_row(runtime: Any) -> None:
    spec = ShardingSpec([Unstacked(4), None], [Replicated(2), ShardedAxis(0)])
    x = gs.device_put(VALUE[:4], PmapSharding(runtime.devices, spec))
    assert x[1].devices() == {runtime.devices[1]}
    assert [s.replica_id for s in x.addressable_shards] == [0] * 4 + [1] * 4


def test_two_dims_that_shards_do_not_have(runtime: Any) -> None:
    value = np.arange(24).reshape(4, 3, 2)
    spec = ShardingSpec([Unstacked(4), None, Unstacked(2)], [ShardedAxis(1), ShardedAxis(0)])
    x = gs.device_put(value, PmapSharding(runtime.devices, spec))
    check(x, value, x.sharding)
    assert x.addressable_data(0).shape == (3,)
    assert not x[1, :, 1].committed and x[1].committed
    assert np.array_equal(x[1, :, 1], value[1, :, 1])


def test_keys_lie_so_too(runtime: Any) -> None:
    keys = random.split(random.key(0), 8)
    x = gs.device_put(keys, PmapSharding.default((8,)))
    assert x[3].shape == () and x.addressable_data(3).shape == ()
    assert np.array_equal(random.key_data(x), random.key_data(keys))
    assert np.array_equal(random.key_data(x[3]), random.key_data(keys[3]))
    again = gs.make_array_from_single_device_arrays(
        (8,), x.sharding, [s.data for s in x.addressable_shards]
    )
    assert np.array_equal(random.key_data(again), random.key_data(keys))


def test_functions_of_shards_get_what_users_see(runtime: Any) -> None:
    x = gs.device_put(VALUE, PmapSharding.default((8, 6)))
    seen = []

    def f(a: Any, out: Any) -> None:
        seen.append((a.shape, out.shape))
        out[...] = 2 * a

    y = gs.map_shards(f, x, out=gs.ShapeDtypeStruct(x.shape, x.dtype))
    assert set(seen) == {((6,), (6,))}
    check(y, 2 * VALUE, x.sharding)


def test_what_takes_a_sharding_takes_it(runtime: Any, tmp_path: Path) -> None:
    sharding = PmapSharding.default((8, 6))
    gs.save(tmp_path / "x.npy", gs.device_put(VALUE, sharding))
    check(gs.load(tmp_path / "x.npy", sharding), VALUE, sharding)
    for x in gs.prefetch([VALUE, VALUE], sharding):
        check(x, VALUE, sharding)
    key = random.key(0)
    drawn = random.normal(key, (8, 6), out_sharding=sharding)
    check(drawn, np.asarray(random.normal(key, (8, 6))), sharding)
    zeros = gnp.zeros((8, 6), out_sharding=sharding)
    check(zeros, np.zeros((8, 6)), sharding)
    check(gnp.zeros_like(zeros), np.zeros((8, 6)), sharding)
    check(gnp.cumsum(drawn, axis=0, out_sharding=sharding), np.cumsum(drawn, axis=0), sharding)
    assert gs.ShapeDtypeStruct((8, 6), float, sharding=sharding).sharding is sharding
    place = gs.Format(gs.Layout((0, 1)), sharding)
    assert gs.device_put(VALUE, place).sharding is sharding
    tree = gs.device_put({"a": VALUE, "b": VALUE[:, 0]}, {"a": sharding, "b": gs.devices()[0]})
    assert tree["a"].sharding is sharding
    assert np.array_equal(gs.device_get(tree["a"]), VALUE)


@st.composite
def specs(draw: st.DrawFn) -> tuple[ShardingSpec, tuple[int, ...]]:
    """A spec of at most 8 devices, and a shape for it."""
    left, sharding, shape, cuts = 8, list[Any](), list[int](), list[int]()
    for _ in range(draw(st.integers(1, 3))):
        n = draw(st.integers(1, min(left, 4)))
        kind = draw(st.sampled_from([Unstacked, Chunked, None]))
        sharding.append(kind and kind(n))
        shape.append(n if kind is Unstacked else n * draw(st.integers(0, 2)))
        if kind:
            cuts.append(n)
            left //= n
    axes: list[Any] = [ShardedAxis(i) for i in range(len(cuts))]
    axes.append(Replicated(draw(st.integers(1, left))))
    return ShardingSpec(sharding, draw(st.permutations(axes))), tuple(shape)


@given(specs(), specs(), st.booleans())
@examples(60)
def test_values_arrive_by_every_way(
    case: tuple[ShardingSpec, tuple[int, ...]], other: Any, swap: bool
) -> None:
    spec, shape = case
    value = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    with testing.runtime(host_devices=8, host_domains=2, enable_checks=True) as rt:
        devices = (rt.devices[::-1] if swap else rt.devices)[: math.prod(spec.mesh_shape)]
        sharding = PmapSharding(devices, spec)
        x = gs.device_put(value, sharding)
        indices = spec_to_indices(shape, spec)
        for shard, index in zip(x.addressable_shards, indices, strict=True):
            assert (
                np.array_equal(shard.data, value[index]) and shard.data.shape == value[index].shape
            )
        read = gs.make_array_from_callback(shape, sharding, lambda i: value[i], dtype=np.int32)
        parts = [gs.device_put(value[i], d) for i, d in zip(indices, devices, strict=True)]
        joined = gs.make_array_from_single_device_arrays(shape, sharding, parts)
        back = gs.reshard(gs.reshard(x, gs.SingleDeviceSharding(rt.devices[0])), sharding)
        for array in (read, joined, back, x + 0, pickle.loads(pickle.dumps(x))):
            assert np.array_equal(array, value) and array.dtype == np.int32
            assert array.sharding == sharding
        if other[1] == shape:
            far = PmapSharding(rt.devices[: math.prod(other[0].mesh_shape)], other[0])
            assert np.array_equal(gs.reshard(x, far), value)


def test_shards_of_the_wrong_rank_are_refused(runtime: Any) -> None:
    sharding = PmapSharding.default((8, 6))
    parts = [gs.device_put(VALUE[i : i + 1], d) for i, d in enumerate(runtime.devices)]
    with pytest.raises(ShardingError, match=r"\(1, 6\).*needs \(6,\)"):
        gs.make_array_from_single_device_arrays((8, 6), sharding, parts)
    with pytest.raises(ShardingError, match=r"shape \(1, 6\) for a box of shape \(6,\)"):
        gs.make_array_from_callback((8, 6), sharding, lambda i: VALUE[i[0]][None])
    with pytest.raises(ShardingError, match=r"Unstacked\(8\)"):
        gs.device_put(VALUE[:7], sharding)


@pytest.mark.parametrize("seed", seeds(200))
def test_no_schedule_lets_shards_be_read_too_early_or_written_too_late(seed: int) -> None:
    """Shards are taken, joined, written and given up while work that uses them has yet to run."""
    rng = np.random.default_rng(seed)
    domains = 2 ** int(rng.integers(4))
    with late_devices(seed, host_devices=8, host_domains=domains):
        shardings: list[Any] = list(specs_of(VALUE.shape).values())
        x, value = gs.device_put(VALUE, shardings[0]), VALUE.copy()
        kept: list[tuple[Any, np.ndarray]] = []
        for _ in range(6):
            step = int(rng.integers(6))
            row = int(rng.integers(8))
            if step == 0:
                kept.append((x[row], value[row].copy()))
            elif step == 1:
                x[row] = row
                value[row] = row
            elif step == 2:
                x, value = x * 2 + 1, value * 2 + 1
            elif step == 3:
                x = gs.reshard(x, shardings[rng.integers(len(shardings))])
            elif step == 4:
                parts = [shard.data for shard in x.addressable_shards]
                joined = gs.make_array_from_single_device_arrays(x.shape, x.sharding, parts)
                x.delete()
                x = joined
            else:
                kept.append((gs.replicate(x[row], 2, 4), np.stack([value[row]] * 2)))
        kept.append((x, value))
        for array, expected in kept:
            assert np.array_equal(array, expected)
