"""Rearrangements against NumPy, and the bytes that they move against counts of single elements."""

from __future__ import annotations

import gc
import itertools
import math
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.planning import rearrangements
from gpushard._movement.planning.digit_boxes import cut_blocks, cut_intervals
from gpushard._movement.planning.rearrangements import Side, reshape
from gpushard._movement.rearrange import plan_for, rearrange
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._runtime.runtime import Runtime
from gpushard.testing.deferred import deferred, gated
from gpushard.testing.faults import InjectedError, faults
from tests.movement.rearranged import OPERATIONS, Drawn
from tests.movement.rearrangement_oracle import Box, least
from tests.movement.strategies import (
    DTYPES,
    Layout,
    Runtimes,
    free_boxes,
    grids,
    numbers,
    runtimes_of,
    sharding_of,
    sides,
)
from tests.movement.test_plan_vs_oracle import no_host_transfers
from tests.share import examples, seeds

DOMAINS = (1, 2, 12)
POOLED = {"small_bytes": 0, "inline_bytes": 0, "plan_cache_bytes": 1 << 18, "relay_bytes": 0}
P = gs.P


@pytest.fixture(scope="module")
def runtimes() -> Iterator[Runtimes]:
    with runtimes_of(DOMAINS, POOLED, {}) as made:
        yield made


choices = st.tuples(st.sampled_from(DOMAINS), st.booleans())


def put(runtime: Runtime, data: np.ndarray, layout: Layout) -> ShardedBuffer:
    buffer = gs.device_put(data, sharding_of(runtime, layout))._live()
    buffer.wait()
    return buffer


def traffic_of(runtime: Runtime, before: dict[tuple[int, int], int]) -> dict[int, tuple[int, int]]:
    """(bytes that are copied into each domain, those from other domains)."""
    counted: dict[int, tuple[int, int]] = {}
    for (of, to), nbytes in runtime.backend.traffic.items():
        nbytes -= before.get((of, to), 0)
        into, received = counted.get(to, (0, 0))
        counted[to] = into + nbytes, received + nbytes * (of != to)
    return {m: counts for m, counts in counted.items() if any(counts)}


def check(
    runtime: Runtime,
    drawn: Drawn,
    layouts: Sequence[Layout],
    dtype: Any,
    destination: Layout,
    same: bool = False,
) -> None:
    """Run a rearrangement and compare all that can be known of it.

    Args:
      runtime: where.
      drawn: what.
      layouts: how the sources lie.
      dtype: of them.
      destination: how the result shall lie.
      same: whether all sources are the first one.
    """
    shapes, how = drawn.shapes, drawn.how
    count = 1 if same else len(shapes)
    sizes = [math.prod(shape) for shape in shapes[:count]]
    first = np.cumsum([0, *sizes])
    ids = [first[n] + np.arange(sizes[n]).reshape(shapes[n]) for n in range(count)]
    data = [numbers(shapes[n], dtype) + np.asarray(17 * n, dtype) for n in range(count)]
    buffers = [put(runtime, *pair) for pair in zip(data, layouts[:count], strict=True)]
    fill = np.asarray(93, dtype)
    sources, of = (buffers * len(shapes), [0] * len(shapes)) if same else (buffers, range(count))
    tiling = sharding_of(runtime, destination).tiling(how.shape)
    domain = tuple(device.memory_domain for device in runtime.devices)
    runtime.devices[0].memory_stats()
    used = [device.account.in_use for device in runtime.devices]
    for device in runtime.devices:
        device.account.peak = device.account.in_use
    before = dict(runtime.backend.traffic)
    with no_host_transfers():
        result = rearrange(sources, how, tiling, fill=fill)
        result.wait()
    result.check()
    counted = traffic_of(runtime, before)
    expected = np.ascontiguousarray(drawn.numpy([data[n] for n in of], fill)).reshape(how.shape)
    whole = drawn.numpy([ids[n] for n in of], -1).reshape(how.shape)
    kept: dict[int, frozenset[Box]] = {m: frozenset() for m in domain}
    for (device, box), value in zip(
        destination.boxes(how.shape).items(), result.values, strict=True
    ):
        there = np.asarray(value)
        assert there.tobytes() == expected[(*box, ...)].tobytes()
        if any(np.shares_memory(there, old) for buffer in buffers for old in buffer.values):
            bounds = tuple((part.start, part.stop) for part in box)
            kept[domain[device]] |= {bounds}
    held = list(zip(layouts[:count], ids, strict=True))
    itemsize = np.dtype(dtype).itemsize
    bound = least(held, destination, whole, domain, itemsize, kept)
    if not any(hasattr(layout, "bounds") for layout in (*layouts, destination)):
        best = least(held, destination, whole, domain, itemsize)
        assert {m: one.kept for m, one in best.items()} == {m: one.kept for m, one in bound.items()}
    copied = {
        m: ((one.written - one.filled) * itemsize, one.received * itemsize)
        for m, one in bound.items()
        if one.written > one.filled
    }
    assert counted == copied
    written = sum(one.written for one in bound.values()) * itemsize
    runtime.devices[0].memory_stats()
    grown = [d.account.in_use - n for d, n in zip(runtime.devices, used, strict=True)]
    peaks = [d.account.peak - n for d, n in zip(runtime.devices, used, strict=True)]
    assert sum(grown) == sum(peaks) == written
    if how.piece is None:
        plan = plan_for(sources, how, tiling)[0].plan
        assert plan.written == {m: one.written * itemsize for m, one in bound.items()}
        assert plan.received == {m: one.received * itemsize for m, one in bound.items()}
        assert f"{plan.bytes_written:,} bytes" in plan.explain()
        assert repr(plan).startswith(f"<Plan: {plan.verb} ") and len(repr(plan)) < 400


@pytest.mark.parametrize("operation", OPERATIONS)
@examples(100)
@given(data=st.data(), choice=choices)
def test_results_are_numpys_and_no_byte_moves_in_vain(
    runtimes: Runtimes, operation: str, choice: tuple[int, bool], data: st.DataObject
) -> None:
    drawn = data.draw(OPERATIONS[operation]())
    layouts = [data.draw(sides(len(shape))) for shape in drawn.shapes]
    dtype, destination = data.draw(st.sampled_from(DTYPES)), data.draw(sides(len(drawn.how.shape)))
    same = len(set(drawn.shapes)) == 1 and data.draw(st.booleans())
    check(runtimes[choice], drawn, layouts, dtype, destination, same)


@examples(150)
@given(data=st.data(), choice=choices, operation=st.sampled_from(list(OPERATIONS)))
def test_boxes_of_users_shardings(
    runtimes: Runtimes, operation: str, choice: tuple[int, bool], data: st.DataObject
) -> None:
    drawn = data.draw(OPERATIONS[operation]())

    def layout(shape: tuple[int, ...]) -> Layout:
        own = (grids(shape), free_boxes(shape)) if math.prod(shape) else ()
        return data.draw(st.one_of(sides(len(shape)), *own))

    layouts, destination = [layout(shape) for shape in drawn.shapes], layout(drawn.how.shape)
    check(runtimes[choice], drawn, layouts, "float32", destination)


@pytest.mark.parametrize("seed", seeds(40))
def test_any_schedule(seed: int) -> None:
    with testing.simulated(
        seed, host_devices=4, host_domains=(1, 2, 4)[seed % 3], inline_bytes=0, small_bytes=0
    ) as runtime:
        runtime.sim.failing = 0
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        specs = [P("x", "y"), P("y"), P(None, ("y", "x")), P()]
        old = numbers((6, 5), "int32")
        x = deferred(
            gs.device_put(old, gs.NamedSharding(mesh, specs[seed % 4])), lambda v: v + 1
        )._live()
        cases = [
            (reshape((6, 5), (5, 6)), (old + 1).reshape(5, 6)),
            (rearrangements.roll((6, 5), (2, 1), (0, 1)), np.roll(old + 1, (2, 1), (0, 1))),
            (rearrangements.pad((6, 5), ((1, 0), (2, 1))), np.pad(old + 1, ((1, 0), (2, 1)))),
            (rearrangements.tile((6, 5), (2, 3)), np.tile(old + 1, (2, 3))),
            (rearrangements.diagonal((6, 5), -1, 0, 1), np.diagonal(old + 1, -1)),
        ]
        for how, expected in cases[seed % 2 :: 2]:
            sharding = gs.NamedSharding(mesh, P(("x", "y")[seed % 2]))
            result = rearrange([x], how, sharding.tiling(how.shape))
            assert np.array_equal(np.asarray(gs.Array(result, sharding)), expected)


@examples(60)
@given(data=st.data(), choice=choices, rows=st.integers(20, 60), columns=st.sampled_from((5, 7, 9)))
def test_many_short_runs_are_few_copies(
    runtimes: Runtimes, choice: tuple[int, bool], rows: int, columns: int, data: st.DataObject
) -> None:
    shape, new = (rows, columns), (columns, rows)
    if data.draw(st.booleans()):
        shape, new = new, shape
    drawn = Drawn(reshape(shape, new), lambda xs, fill: xs[0].reshape(new))
    check(runtimes[choice], drawn, [data.draw(sides(2))], "float32", data.draw(sides(2)))


def spread(*spec: Any, devices: Any = None) -> gs.NamedSharding:
    found = np.array(gs.devices() if devices is None else devices).reshape(2, -1)
    return gs.NamedSharding(gs.Mesh(found, ("x", "y")), P(*spec))


def test_runs_in_equal_steps_are_joined() -> None:
    with testing.runtime(host_domains=8):
        x = gs.device_put(numbers((10000, 7), "int32"), spread("x", "y"))._live()
        how = reshape((10000, 7), (7, 10000))
        assert plan_for([x], how, spread("x", "y").tiling((7, 10000)))[0].plan.copies_made < 300


def test_what_several_shards_view_is_useful_once() -> None:
    with testing.runtime(host_domains=4, small_bytes=0) as runtime:
        x = gs.device_put(numbers((16,), "float32"), gs.devices()[0])._live()
        how = rearrangements.stack(((16,), (16,)), 0)
        order = [runtime.devices[i] for i in (0, 2, 3, 4, 1, 5, 6, 7)]  # 0 and 1 share memory
        result = rearrange([x, x], how, spread("x", "y", devices=order).tiling((2, 16)))
        assert not any(np.shares_memory(value, x.values[0]) for value in result.values)


def test_views_keep_at_least_half_of_what_they_keep_alive() -> None:
    with testing.runtime(host_devices=2, host_domains=2, small_bytes=0) as runtime:
        x = gs.device_put(numbers((64,), "float32"), runtime.devices[0])
        fresh, how = gs.device_put(numbers((32,), "float32"), x.sharding), reshape((32,), (4, 8))
        tiling = gs.NamedSharding(gs.make_mesh((2,), ("x",)), P("x")).tiling((4, 8))
        for y, shared in ((fresh, True), (x[:32], False)) * 2:
            result = rearrange([y._live()], how, tiling)
            assert np.shares_memory(result.values[0], y._live().values[0]) == shared
            assert np.array_equal(result.values[0].ravel(), np.arange(1, 17))


def test_plans_are_kept_whatever_the_constant() -> None:
    with testing.runtime() as runtime:
        data, sharding = numbers((5, 3), "int16"), spread("x")
        x = gs.device_put(data, sharding)._live()
        how = rearrangements.pad((5, 3), ((2, 0), (1, 1)))
        tiling, plans = sharding.tiling(how.shape), set()
        for fill in (3, -4):
            result = gs.Array(rearrange([x], how, tiling, fill=fill), sharding)
            expected = np.pad(data, ((2, 0), (1, 1)), constant_values=fill)
            assert np.array_equal(np.asarray(result), expected)
            plans.add(plan_for([x], how, tiling)[0].plan)
        assert len(plans) == 1 and runtime.plans.nbytes >= plans.pop().nbytes


@pytest.fixture
def rt() -> Iterator[Runtime]:
    with testing.runtime(host_domains=4, small_bytes=0, inline_bytes=0) as runtime:
        yield runtime


@pytest.mark.usefixtures("rt")
def test_what_is_pending_is_waited_for() -> None:
    data, how = numbers((8, 6), "int32"), rearrangements.concatenate(((8, 6), (4, 6)), 0)
    x, gate = gated(gs.device_put(data, spread("y")))
    y, other = gated(gs.device_put(data[:4], spread(None, "x")))
    sharding = spread("x", "y")
    result = rearrange([x._live(), y._live()], how, sharding.tiling(how.shape))
    x.delete()
    y.delete()
    other.open()
    assert not result.is_ready()
    gate.open()
    assert np.array_equal(np.asarray(gs.Array(result, sharding)), np.concatenate((data, data[:4])))


@pytest.mark.usefixtures("rt")
def test_a_failure_reaches_the_domains_that_read_it_and_no_other() -> None:
    x = gs.device_put(numbers((8, 6), "int32"), spread(("x", "y")))
    error = ValueError("planned")
    failed = deferred(gs.device_put(numbers((8, 6), "int32"), gs.devices()[7]), abs, error=error)
    how = rearrangements.concatenate(((8, 6), (8, 6)), 0)
    sharding = spread(("x", "y"))
    result = gs.Array(
        rearrange([x._live(), failed._live()], how, sharding.tiling(how.shape)), sharding
    )
    assert np.array_equal(np.asarray(result.addressable_shards[0].data), np.asarray(x)[:2])
    with pytest.raises(gs.errors.ExecutionError) as caught:
        np.asarray(result.addressable_shards[7].data)
    assert caught.value.__cause__ is error


def test_without_room_nothing_has_changed() -> None:
    with testing.runtime(host_domains=8, small_bytes=0, memory_limit=100) as runtime:
        x = gs.device_put(numbers((8, 8), "float64"), spread(("x", "y")))._live()  # 64 bytes each
        how = rearrangements.roll((8, 8), (1,), (0,))
        before = [device.memory_stats()["bytes_in_use"] for device in runtime.devices]
        with pytest.raises(gs.errors.OutOfMemoryError):
            rearrange([x], how, x.tiling)
        assert [device.memory_stats()["bytes_in_use"] for device in runtime.devices] == before


def test_devices_of_one_runtime() -> None:
    with testing.runtime():
        x = gs.device_put(numbers((8,), "int8"), spread("x"))._live()
    with testing.runtime(), pytest.raises(gs.errors.ShardingError, match="different runtimes"):
        rearrange([x], rearrangements.repeat((8,), 2, 0), spread("x").tiling((16,)))


@pytest.mark.parametrize("domains", [1, 8])
def test_large_ones_are_shared_by_threads(domains: int) -> None:
    with testing.runtime(host_domains=domains):
        data, sharding = numbers((1 << 10, 1 << 8), "float64"), spread("x", "y")
        x = gs.device_put(data, sharding)._live()
        for how, expected in (
            (rearrangements.tile((1 << 10, 1 << 8), (3, 1, 2)), np.tile(data, (3, 1, 2))),
            (rearrangements.pad(data.shape, ((9, 999), (1, 0))), None),
        ):
            if expected is None:
                expected = np.pad(data, ((9, 999), (1, 0)))
            result = gs.Array(rearrange([x], how, sharding.tiling(how.shape)), sharding)
            assert np.array_equal(np.asarray(result), expected)


@pytest.mark.parametrize("seed", seeds(15))
def test_out_of_reach_no_byte_is_received_and_no_memory_taken_that_is_not_planned(
    seed: int,
) -> None:
    with testing.simulated(
        seed, host_readable=False, host_devices=4, host_domains=4, small_bytes=0
    ) as runtime:
        runtime.sim.failing = 0
        runtime.sim._strangers = (0.5, 1.0)[seed % 2]
        runtime.sim._reach.clear()
        data, old, new = numbers((6, 5), "int16"), spread("x", "y"), spread("y", None)
        x, y = (gs.device_put(array, old)._live() for array in (data, data[::-1].copy()))
        both = np.concatenate((data, data[::-1]))
        for sources, how, expected in (
            ([x], reshape((6, 5), (5, 6)), data.reshape(5, 6)),
            ([x], rearrangements.diagonal((6, 5), 1, 0, 1), np.diagonal(data, 1)),
            ([x], rearrangements.roll((6, 5), (1, 1), (0, 1)), np.roll(data, (1, 1), (0, 1))),
            ([x], rearrangements.repeat((6, 5), 2, 1), np.repeat(data, 2, 1)),
            ([x], rearrangements.pad((6, 5), ((1, 0), (0, 2))), np.pad(data, ((1, 0), (0, 2)))),
            ([x, y], rearrangements.concatenate(((6, 5), (6, 5)), 0), both),
        ):
            sharding = gs.NamedSharding(new.mesh, P(*new.spec[: len(how.shape)]))
            tiling = sharding.tiling(how.shape)
            plan = plan_for(sources, how, tiling)[0].plan
            x.wait()
            y.wait()
            runtime.devices[0].memory_stats()
            used = [device.account.in_use for device in runtime.devices]
            for device in runtime.devices:
                device.account.peak = device.account.in_use
            before = dict(runtime.backend.traffic)
            result = rearrange(sources, how, tiling)
            result.wait()
            places = {device.memory_domain for device in runtime.devices}
            counted = traffic_of(runtime, before)
            received = {m: n for m, (_, n) in counted.items() if m in places and n}
            assert received == {m: n for m, n in plan.received.items() if n}
            held = sum(n for source in sources for n in (value.nbytes for value in source.values))
            peaks = [d.account.peak - n for d, n in zip(runtime.devices, used, strict=True)]
            assert sum(peaks) == sum(value.nbytes for value in result.values)
            assert sum(plan.peak.values()) == held + sum(peaks)
            assert np.array_equal(np.asarray(gs.Array(result, sharding)), expected)
        links = [(of, to) for of, to in runtime.backend.traffic if HOST_DOMAIN not in (of, to)]
        assert all(runtime.sim.reaches(to, of) for of, to in links)


@pytest.mark.parametrize("how_run", ["inline", "streams"])
def test_whatever_fails_the_source_is_whole_and_no_memory_is_lost(how_run: str) -> None:
    chosen: dict[str, Any] = {  # without a quota there is room for what is small
        "inline": {"memory_limit": 1 << 20},
        "streams": {"small_bytes": 0, "inline_bytes": 0},
    }
    data, how = numbers((6, 5), "int32"), rearrangements.pad((6, 5), ((1, 1), (0, 3)))
    kinds = set()
    with testing.runtime(host_domains=4, **chosen[how_run]) as runtime:
        x, tiling = gs.device_put(data, spread("x", "y")), spread("y").tiling(how.shape)
        x.block_until_ready()
        before = [device.memory_stats()["bytes_in_use"] for device in runtime.devices]
        for fail_at in range(1, 100):
            with faults(runtime, fail_at=fail_at, lasting=True) as found:
                try:
                    rearrange([x._live()], how, tiling).wait()
                except (InjectedError, gs.errors.GpushardError):
                    assert found.failed is not None
            if found.failed is None:
                break
            kinds.add(found.failed.kind)
            found.errors.clear()  # their frames have the new blocks
            gc.collect()
            assert np.array_equal(np.asarray(x), data)
            after = [device.memory_stats()["bytes_in_use"] for device in runtime.devices]
            assert after == before
    assert kinds == ({"room", "copy"} if how_run == "inline" else {"room", "memory", "item"})


def spaces(shape: tuple[int, ...], side: Side) -> np.ndarray:
    """The number of the point of every element, by the definition of a side."""
    found = np.full(shape, -1)
    for values in np.ndindex(side.sizes):
        at = []
        for start, digits in side.dims:
            flat = 0
            for digit in digits:
                flat = flat * side.sizes[digit] + values[digit]
            at.append(start + flat)
        point = 0
        for digit in (digit for axis in side.axes for digit in axis):
            point = point * side.sizes[digit] + values[digit]
        found[tuple(at)] = point
    return found


@examples(100)
@given(data=st.data(), operation=st.sampled_from(list(OPERATIONS)))
def test_boxes_of_a_space_are_where_their_elements_are(operation: str, data: st.DataObject) -> None:
    how = data.draw(OPERATIONS[operation]()).how
    for part in how.parts:
        starts = [data.draw(st.integers(0, n)) for n in how.shape]
        stops = [data.draw(st.integers(a, n)) for a, n in zip(starts, how.shape, strict=True)]
        block = tuple(slice(a, b) for a, b in zip(starts, stops, strict=True))
        expected = spaces(how.shape, part.write)[(*block, ...)].ravel()
        corners = (np.array(ends, np.int64).reshape(-1, 1) for ends in (starts, stops))
        boxes = cut_blocks(part.write, *corners)
        assert (boxes.length > 0).all()
        found = np.full(expected.size, -1)
        for n in range(len(boxes.block)):
            for at in np.ndindex(*boxes.length[:, n].tolist()):
                place = boxes.offset[n] + sum(at * boxes.stride[:, n])
                assert found[place] == -1
                point = tuple((boxes.begin[:, n] + at).tolist())
                found[place] = np.ravel_multi_index(point, part.write.space) if point else 0
        assert np.array_equal(found, expected)


def test_blocks_beside_a_diagonal_have_no_boxes():
    side = Side((4,), ((0, (0,)), (0, (0,))), ((0,),))
    starts, stops = np.array([[0, 0], [2, 1]]), np.array([[2, 2], [4, 3]])
    boxes = cut_blocks(side, starts, stops)
    assert boxes.block.tolist() == [1] and boxes.length.tolist() == [[1]]


@examples(100)
@given(
    sizes=st.lists(st.integers(2, 4), min_size=2, max_size=4).map(tuple),
    data=st.data(),
)
def test_points_that_follow_one_another_in_memory_are_one_box(sizes, data):
    digits = data.draw(st.permutations(range(len(sizes))))
    ends = [sorted(data.draw(st.sets(st.integers(0, n), min_size=2, max_size=2))) for n in sizes]
    side = Side(sizes, tuple((0, (digit,)) for digit in digits), (tuple(range(len(sizes))),))
    boxes = cut_blocks(side, *np.array([ends[digit] for digit in digits]).T[..., None])
    block = np.arange(math.prod(sizes)).reshape(sizes)[tuple(itertools.starmap(slice, ends))]
    points = block.transpose(digits).ravel()
    count, last, step = 0, (-2, 0), None
    for point, place in zip(np.sort(points).tolist(), np.argsort(points).tolist(), strict=True):
        if point == last[0] + 1 and step in (None, place - last[1]):
            step = place - last[1]
        else:
            count, step = count + 1, None
        last = point, place
    assert len(boxes.block) == count


@pytest.mark.parametrize("sizes", [(5,), (3, 4), (2, 3, 2), (4, 1, 3)])
def test_intervals_are_few_boxes_of_digits_none_of_them_empty(sizes):
    bounds = list(itertools.combinations_with_replacement(range(math.prod(sizes) + 1), 2))
    boxes = cut_intervals(*np.array(bounds).T, sizes)
    assert (boxes.end > boxes.begin).all() and (np.diff(boxes.owner) >= 0).all()
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    for owner, (low, high) in enumerate(bounds):
        mine = np.flatnonzero(boxes.owner == owner)
        parts = [numbers[tuple(map(slice, boxes.begin[:, n], boxes.end[:, n]))] for n in mine]
        assert sorted(int(n) for part in parts for n in part.ravel()) == [*range(low, high)]
        assert len(parts) <= 2 * len(sizes) - 1


@pytest.mark.parametrize(
    ("digits", "begin", "count"), [((0, 1), 0, 1), ((1, 0), 0, 2), ((0, 1), 1, 1), ((1, 0), 1, 1)]
)
def test_rows_of_points_are_one_box_if_they_lie_side_by_side_or_there_is_one(digits, begin, count):
    """Of two rows of three points, or the last one, dense in the order of `digits`."""
    side = Side((2, 3), tuple((0, (digit,)) for digit in digits), ((0, 1),))
    starts, stops = np.array([[begin], [0]])[[*digits]], np.array([[2], [3]])[[*digits]]
    assert len(cut_blocks(side, starts, stops).block) == count


@pytest.mark.parametrize(("rows", "count"), [(3, 1), (2, 2), (1, 2)])
def test_rows_that_are_not_all_there_end_a_box(rows, count):
    """Of two times three rows of two points, of which the first ones are dense in a block."""
    side = Side((2, 3, 2), ((0, (0,)), (0, (1,)), (0, (2,))), ((0, 1, 2),))
    boxes = cut_blocks(side, np.zeros((3, 1), np.int64), np.array([[2], [rows], [2]]))
    assert boxes.length.tolist() == [[12 * rows // 3 // count] * count]
    assert boxes.begin.tolist() == [[0, 6][:count]]


@pytest.mark.parametrize("shape", [(8,), (2, 3, 4)])
def test_rearrangements_are_remembered_up_to_a_number_of_bytes_and_not_of_calls(shape, monkeypatch):
    cache = rearrangements.concatenate.cache
    monkeypatch.setattr(cache, "limit", 1 << 19)
    cache.clear()
    gc.collect()
    tracemalloc.start()
    try:
        for count in range(2, 80):
            rearrangements.concatenate((shape,) * count, 0)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.nbytes / 2 < taken < 1 << 19
