"""Updates against NumPy, and the bytes that they move against counts of single elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._movement.update import overlay_of, plan_for, touched_by
from gpushard._ops.basic_index import index_piece, parse_index
from gpushard.config import Settings
from gpushard.testing.actor import updated
from gpushard.testing.deferred import deferred, gated
from gpushard.testing.runtime import using
from gpushard.testing.sim import SimRuntime
from tests.movement.element_oracle import Shape, blocks_of
from tests.movement.strategies import (
    DEVICES,
    DTYPES,
    Layout,
    OwnSharding,
    free_boxes,
    grids,
    indices,
    numbers,
    sharding_of,
    sides,
)
from tests.share import examples, seeds

SETTINGS: dict[str, dict[str, Any]] = {
    "streams": {"small_bytes": 0, "inline_bytes": 0},
    "inline": {"small_bytes": 0},
    "small": {},
}
P = gs.P


def layouts(shape: Shape) -> st.SearchStrategy[Layout]:
    return st.one_of(sides(len(shape)), grids(shape), free_boxes(shape))


def least(
    shape: Shape, base: Layout, value: Layout, index: Any, domains: list[int], itemsize: int
) -> dict[int, tuple[int, int]]:
    """The bytes that every domain writes and receives."""
    whole = np.arange(int(np.prod(shape))).reshape(shape)
    part = whole[index]
    of_element = {int(e): i for i, e in enumerate(part.ravel())}
    held = blocks_of(value, tuple(domains), np.arange(part.size).reshape(part.shape))
    result = {}
    for domain, blocks in blocks_of(base, tuple(domains), whole).items():
        there = {e for block in held.get(domain, ()) for e in block.elements}
        written, wanted = 0, set()
        for block in blocks:
            new = [of_element[e] for e in block.elements if e in of_element]
            wanted.update(new)
            kept = len(block.elements) if 0 < len(new) < len(block.elements) else 0
            written += len(new) + kept
        if written:
            result[domain] = written * itemsize, len(wanted - there) * itemsize
    return result


@pytest.mark.parametrize("domains", [1, 3, 12])
@pytest.mark.parametrize("how", SETTINGS)
@given(data=st.data())
@examples(100)
def test_updates_are_as_numpy_has_them_and_move_no_byte_too_many(
    how: str, domains: int, data: st.DataObject
) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), max_size=3)))
    index = data.draw(indices(shape))
    dtype = data.draw(st.sampled_from(DTYPES))
    old = numbers(shape, dtype)
    new = -numbers(old[index].shape, dtype)
    base = data.draw(layouts(shape))
    value = data.draw(layouts(new.shape) if 0 not in new.shape else sides(new.ndim))
    with testing.runtime(host_devices=DEVICES, host_domains=domains, **SETTINGS[how]) as runtime:
        x = gs.device_put(old, sharding_of(runtime, base))
        y = gs.device_put(new, sharding_of(runtime, value))
        for stream in runtime.streams:
            stream.synchronize(stream.issued)
        before = dict(runtime.backend.traffic)
        z = updated(x, index, y)
        expected = old.copy()
        expected[index] = new
        assert np.array_equal(np.asarray(z), expected)
        for shard in z.addressable_shards:
            assert np.array_equal(np.asarray(shard.data), expected[shard.index])
        assert np.array_equal(np.asarray(x), old) and np.array_equal(np.asarray(y), new)
        counted: dict[int, tuple[int, int]] = {}
        for (source, to), nbytes in runtime.backend.traffic.items():
            nbytes -= before.get((source, to), 0)
            if nbytes and to >= 0 and source >= 0:
                written, received = counted.get(to, (0, 0))
                counted[to] = written + nbytes, received + nbytes * (source != to)
        places = [device.memory_domain for device in runtime.devices]
        bytes_of = least(shape, base, value, index, places, old.itemsize)
        assert counted == bytes_of
        touched = touched_by(x._live(), index_piece(parse_index(shape, index)))
        plan = plan_for(x._live(), overlay_of(x._live(), y._live(), touched)).plan
        assert {m: n for m, n in plan.written.items() if n} == {
            m: written for m, (written, _) in bytes_of.items()
        }
        assert {m: n for m, n in plan.received.items() if n} == {
            m: received for m, (_, received) in bytes_of.items() if received
        }


@pytest.fixture
def rt(request: pytest.FixtureRequest) -> Any:
    with testing.runtime(host_domains=4, small_bytes=0, inline_bytes=0) as runtime:
        yield runtime


def rows_of(n: int) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((n,), ("x",)), P("x"))


@pytest.mark.usefixtures("rt")
def test_blocks_that_are_not_touched_are_shared_with_the_old_array() -> None:
    x = gs.device_put(numbers((16, 4), "float32"), rows_of(8))
    z = updated(x, slice(3, 6), gs.device_put(np.zeros((3, 4), np.float32)))
    for number, (a, b) in enumerate(zip(x.addressable_shards, z.addressable_shards, strict=True)):
        same = np.shares_memory(np.asarray(a.data), np.asarray(b.data))
        assert same == (number not in (1, 2))


def test_nothing_is_submitted_for_a_part_without_elements(rt: Any) -> None:
    x = gs.device_put(numbers((16, 4), "float32"), rows_of(8))
    issued = [stream.issued for stream in rt.streams]
    z = updated(x, slice(3, 3), gs.device_put(np.zeros((0, 4), np.float32)))
    assert [stream.issued for stream in rt.streams] == issued
    x.delete()
    assert np.array_equal(np.asarray(z), numbers((16, 4), "float32"))


@pytest.mark.usefixtures("rt")
def test_what_is_pending_is_waited_for() -> None:
    old, new = numbers((16, 4), "float32"), np.ones((5, 4), np.float32)
    x, gate = gated(gs.device_put(old, rows_of(8)))
    y, other = gated(gs.device_put(new, gs.devices()[5]))
    z = updated(x, slice(2, 12, 2), y)
    x.delete()
    y.delete()
    assert not z.is_ready()
    other.open()
    assert not z.is_ready()
    gate.open()
    old[2:12:2] = new
    assert np.array_equal(np.asarray(z), old)


@pytest.mark.usefixtures("rt")
@pytest.mark.parametrize("which", ["old", "new"])
def test_a_failure_reaches_the_blocks_that_are_written_and_no_other(which: str) -> None:
    x = gs.device_put(numbers((16, 4), "float32"), rows_of(8))
    y = gs.device_put(np.ones((2, 4), np.float32), gs.devices()[0])
    error = ValueError("planned")
    if which == "new":
        z = updated(x, slice(4, 6), deferred(y, lambda v: v, error=error))
        shards = [shard.data for shard in z.addressable_shards]
        assert np.array_equal(np.asarray(shards[0]), np.asarray(x)[:2])
    else:
        z = updated(deferred(x, lambda v: v, error=error), slice(5, 7), y)
        shards = [shard.data for shard in z.addressable_shards]
    with pytest.raises(gs.errors.ExecutionError) as caught:
        np.asarray(shards[2])
    assert caught.value.__cause__ is error
    with pytest.raises(gs.errors.ExecutionError):
        np.asarray(z)


@pytest.mark.usefixtures("rt")
def test_what_is_replaced_whole_is_neither_waited_for_nor_missed() -> None:
    old = gs.device_put(numbers((16, 4), "float32"), rows_of(8))
    new = gs.device_put(np.ones((16, 4), np.float32), gs.devices()[0])
    x, gate = gated(old)
    z = updated(x, slice(None, None, -1), new)
    assert np.array_equal(np.asarray(z), np.ones((16, 4)))
    gate.open()
    # The part is the whole array, though a device has nothing of it.
    failed = deferred(
        gs.device_put(numbers((1, 4), "float32"), rows_of(8)),
        lambda v: v,
        error=ValueError("planned"),
    )
    assert np.array_equal(np.asarray(updated(failed, 0, new[0])), np.ones((1, 4)))
    failed = deferred(old, lambda v: v, error=ValueError("planned"))
    assert np.array_equal(np.asarray(updated(failed, ..., new)), np.ones((16, 4)))


@pytest.mark.parametrize("inline_bytes", [0, 1 << 20])
def test_what_is_written_in_place_waits_for_who_reads_some_of_it(inline_bytes: int) -> None:
    with testing.runtime(host_domains=4, small_bytes=0, inline_bytes=inline_bytes):
        old = numbers((16, 4), "float32")
        x = gs.device_put(old, rows_of(8)).block_until_ready()
        read, gate = gated(x.addressable_data(3))
        x[...] = -1
        assert not x.is_ready()
        gate.open()
        assert np.array_equal(np.asarray(read), old[6:8])
        assert np.array_equal(np.asarray(x), np.full_like(old, -1))


@pytest.mark.parametrize("inline_bytes", [0, 1 << 20])
def test_an_error_of_what_is_replaced_in_place_is_over(inline_bytes: int) -> None:
    with testing.runtime(host_domains=4, small_bytes=0, inline_bytes=inline_bytes):
        old = gs.device_put(numbers((16, 4), "float32"), rows_of(8))
        x = deferred(old, lambda v: v, error=ValueError("planned"))
        x[:7] = 1  # the first row of the last of these blocks alone
        shards = [shard.data for shard in x.addressable_shards]
        assert np.array_equal(np.asarray(shards[2]), np.ones((2, 4)))
        for of in (3, 4):
            with pytest.raises(gs.errors.ExecutionError, match="planned"):
                np.asarray(shards[of])
        del shards
        x[...] = 2
        assert np.array_equal(np.asarray(x), np.full((16, 4), 2.0))


def test_without_room_nothing_has_changed() -> None:
    with testing.runtime(host_domains=8, small_bytes=0, memory_limit=64) as runtime:
        x = gs.device_put(numbers((16, 2), "float64"), rows_of(8))  # 32 bytes each
        y = gs.device_put(np.ones((16, 2)), rows_of(8))
        before = [device.memory_stats()["bytes_in_use"] for device in runtime.devices]
        with pytest.raises(gs.errors.OutOfMemoryError):
            updated(x, slice(1, None), y[1:])
        assert np.array_equal(np.asarray(x), numbers((16, 2), "float64"))
        after = [device.memory_stats()["bytes_in_use"] for device in runtime.devices]
        assert after == before


@pytest.mark.parametrize("part", [slice(3, 5), slice(1, 8), slice(0, 5), slice(None)], ids=str)
def test_what_several_blocks_have_of_a_part_is_received_once_and_written_in_one_step(
    part: slice,
) -> None:
    """The blocks overlap in one domain, and the values are in the other."""
    with testing.runtime(host_devices=4, host_domains=2) as runtime:
        old, boxes = np.arange(8.0), {0: (slice(0, 6),), 1: (slice(2, 8),)}
        x = gs.device_put(old, OwnSharding(runtime, boxes))
        y = gs.device_put(-old[part], runtime.devices[3])
        touched = touched_by(x._live(), index_piece(parse_index((8,), part)))
        plan = plan_for(x._live(), overlay_of(x._live(), y._live(), touched)).plan
        assert (plan.bytes_received, plan.waves, len(plan.steps)) == (y.nbytes, 1, 1)
        z = updated(x, part, y)
        expected = old.copy()
        expected[part] = -old[part]
        for shard in z.addressable_shards:
            assert np.array_equal(shard.data, expected[shard.index])


def test_what_is_read_in_a_new_block_is_written_in_a_phase_before() -> None:
    """One block keeps an element and reads another one, and a third one reads it again."""
    with testing.runtime(host_devices=6, host_domains=2) as runtime:
        boxes = {0: (slice(0, 6),), 1: (slice(2, 8),), 2: (slice(1, 6),)}
        x = gs.device_put(np.arange(8.0), OwnSharding(runtime, boxes))
        y = gs.device_put(-np.arange(1, 8.0), runtime.devices[5])
        touched = touched_by(x._live(), index_piece(parse_index((8,), slice(1, 8))))
        (step,) = plan_for(x._live(), overlay_of(x._live(), y._live(), touched)).plan.steps
        written: set[int] = set()
        for phase in step.phases:
            assert {of for _, _, of, _, _ in phase.moves if of in step.writes} <= written
            written.update(to for to, *_ in phase.moves)
        assert len(step.phases) == 4 and written == set(step.writes)


@pytest.mark.parametrize("seed", seeds(30))
def test_any_schedule(seed: int) -> None:
    with testing.simulated(
        seed, host_devices=4, host_domains=4, inline_bytes=0, small_bytes=0
    ) as runtime:
        runtime.sim.failing = 0
        old = numbers((9, 6), "int32")
        x = deferred(gs.device_put(old, rows_of(4)), lambda v: v + 1)
        y = deferred(gs.device_put(old[:3, ::2].copy(), gs.devices()[seed % 4]), lambda v: -v)
        z = updated(x, (slice(8, 1, -3), slice(None, None, 2)), y)
        x.delete()
        y.delete()
        expected = old + 1
        expected[8:1:-3, ::2] = -old[:3, ::2]
        assert np.array_equal(np.asarray(z), expected)


@pytest.mark.parametrize("seed", range(8))
def test_small_blocks_of_several_domains_that_share_a_memory_are_written_one_by_one(
    seed: int,
) -> None:
    """They are sent to one domain after the other, and read there on their way to the next."""
    settings = Settings(
        host_devices=4, host_domains=4, inline_bytes=0, small_bytes=100, relay_bytes=0
    )
    runtime = SimRuntime(settings, seed, host_readable=True)
    with using(runtime):
        runtime.sim.failing = 0
        x = gs.device_put(np.zeros((3, 8), np.int32), rows_of(4).with_spec(P()))
        new = gs.device_put(np.arange(8, dtype=np.int32), gs.devices()[3])
        assert len({claim.memory for claim in x._live().claims}) == 1
        x[:1] = new
        for shard in x.addressable_shards:
            assert np.asarray(shard.data)[0].tolist() == list(range(8))
