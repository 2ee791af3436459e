"""`x[index] = value` against NumPy: whatever shares memory keeps its value, and nothing else is
written than the part.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._array.data import Detached
from gpushard._runtime.runtime import Runtime
from gpushard.testing.actor import updated
from gpushard.testing.deferred import deferred, gated
from tests.late import late_devices
from tests.movement.strategies import (
    DEVICES,
    DTYPES,
    Layout,
    free_boxes,
    grids,
    indices,
    numbers,
    sharding_of,
    sides,
)
from tests.movement.test_update import SETTINGS, least, rows_of
from tests.share import examples, seeds

P = gs.P


def layouts(shape: tuple[int, ...]) -> st.SearchStrategy[Layout]:
    if 0 in shape:
        return sides(len(shape))
    return st.one_of(sides(len(shape)), grids(shape), free_boxes(shape))


def addresses(x: gs.Array) -> list[int]:
    """Where the shards lie; as pointers, so that x goes on to be their only owner."""
    return [shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards]


def moved(runtime: Runtime, before: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    links = {link: n - before.get(link, 0) for link, n in runtime.backend.traffic.items()}
    return {link: n for link, n in links.items() if n}


def synchronize(runtime: Runtime) -> None:
    for stream in runtime.streams:
        stream.synchronize(stream.issued)


VALUES = ["number", "host", "array", "single"]


@pytest.mark.parametrize("domains", [1, 2, 12])
@pytest.mark.parametrize("how", SETTINGS)
@given(data=st.data())
@examples(40)
def test_assignments_are_as_numpy_has_them_and_write_the_part_alone(
    how: str, domains: int, data: st.DataObject
) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 9), max_size=3)))
    index, dtype = data.draw(indices(shape)), data.draw(st.sampled_from(DTYPES))
    base, kind = data.draw(layouts(shape)), data.draw(st.sampled_from(VALUES))
    old, expected = numbers(shape, dtype), numbers(shape, dtype)
    part = old[index]
    with testing.runtime(host_devices=DEVICES, host_domains=domains, **SETTINGS[how]) as runtime:
        x = gs.device_put(old, sharding_of(runtime, base))
        shared = copy.copy(x) if data.draw(st.booleans()) else None
        if kind == "number":
            value: Any = data.draw(st.sampled_from([7, 2.75, True, np.int8(3)]))
            expected[index] = value
        elif kind == "host":
            sizes = [1 if data.draw(st.booleans()) else n for n in part.shape]
            value = -numbers(tuple(sizes[data.draw(st.integers(0, len(sizes))) :]), "float64")
            expected[index] = np.broadcast_to(value, part.shape) if part.ndim else value
        else:
            sizes = (1,) * data.draw(st.integers(0, part.ndim)) if kind == "single" else part.shape
            new = -numbers(tuple(sizes), dtype)
            layout = data.draw(layouts(new.shape))
            value = gs.device_put(new, sharding_of(runtime, layout))
            expected[index] = new
        synchronize(runtime)
        where, before = addresses(x), dict(runtime.backend.traffic)
        x[index] = value
        synchronize(runtime)
        links = moved(runtime, before)
        assert (addresses(x) == where) or shared is not None or not x.size
        assert np.array_equal(np.asarray(x), expected)
        for shard in x.addressable_shards:
            assert np.array_equal(np.asarray(shard.data), expected[shard.index])
        if shared is not None:
            assert np.array_equal(np.asarray(shared), old)
        elif kind == "number":
            assert not links
        elif kind == "array":
            check_links(links, least(shape, base, layout, index, places(runtime), old.itemsize))
        assert not isinstance(value, gs.Array) or np.array_equal(np.asarray(value), new)


def places(runtime: Runtime) -> list[int]:
    return [device.memory_domain for device in runtime.devices]


def check_links(links: dict[tuple[int, int], int], copied: dict[int, tuple[int, int]]) -> None:
    """Compare bytes with those of a copy: in place at most as many are written, all received."""
    for domain, (written, received) in copied.items():
        into = {source: n for (source, to), n in links.items() if to == domain}
        assert sum(into.values()) <= written
        assert sum(n for source, n in into.items() if source != domain) == received


@pytest.mark.parametrize("how", SETTINGS)
def test_bytes_in_place_are_those_of_the_part(how: str) -> None:
    with testing.runtime(backend="host", host_domains=4, **SETTINGS[how]) as runtime:
        x = gs.device_put(numbers((16, 4), "float32"), rows_of(8))
        y = gs.device_put(np.ones((5, 4), np.float32), gs.devices()[0])
        synchronize(runtime)
        before = dict(runtime.backend.traffic)
        x[1:6] = y
        synchronize(runtime)
        assert moved(runtime, before) == {(0, 0): 3 * 16, (0, 1): 2 * 16}
        before = dict(runtime.backend.traffic)
        x[1:6, ::2] = np.zeros(2)
        synchronize(runtime)
        links = moved(runtime, before)
        assert sum(n for (_, to), n in links.items() if to == 0) in (3 * 8, 2 * 3 * 8)
        before = dict(runtime.backend.traffic)
        x[3] = 2
        synchronize(runtime)
        assert not moved(runtime, before)


SHAPE = (16, 8)
OLD = numbers(SHAPE, "float64")


def one() -> gs.Array:
    return gs.device_put(OLD, gs.devices()[0])


def rows() -> gs.Array:
    return gs.device_put(OLD, rows_of(8))


def replicas() -> gs.Array:
    return gs.device_put(OLD, gs.NamedSharding(gs.make_mesh((8,), ("x",)), P()))


Look = Callable[[gs.Array], Callable[[], Any]]
"""Takes hold of an array's memory, and returns what reads that later."""


def by_copy(x: gs.Array) -> Callable[[], Any]:
    other = copy.copy(x)
    return lambda: np.asarray(other)


def by_shard(x: gs.Array) -> Callable[[], Any]:
    shards = x.addressable_shards
    return lambda: np.concatenate([np.asarray(shard.data) for shard in shards][: shards_of(x)])


def shards_of(x: gs.Array) -> int:
    return 1 if x.is_fully_replicated else len(x.addressable_shards)


def by_parts(x: gs.Array) -> Callable[[], Any]:
    parts = [shard.data for shard in x.addressable_shards]
    joined = gs.make_array_from_single_device_arrays(SHAPE, x.sharding, parts)
    del parts
    return lambda: np.asarray(joined)


def by_view(x: gs.Array) -> Callable[[], Any]:
    upper, lower = x[:12], x[12:]
    return lambda: np.concatenate([np.asarray(upper), np.asarray(lower)])


def by_reshard(x: gs.Array) -> Callable[[], Any]:
    other = gs.reshard(x, gs.NamedSharding(gs.make_mesh((8,), ("a",)), P()))
    return lambda: np.asarray(other)


def by_value(x: gs.Array) -> Callable[[], Any]:
    value = np.asarray(x)
    return lambda: value


def by_part_of_value(x: gs.Array) -> Callable[[], Any]:
    value = np.asarray(x)[:, :]
    x._data.host = None
    return lambda: value


def by_dlpack(x: gs.Array) -> Callable[[], Any]:
    exported = np.from_dlpack(x.addressable_data(0))
    x._data.shards = None
    return lambda: exported


def by_capsule(x: gs.Array) -> Callable[[], Any]:
    capsule = x.__dlpack__()

    class Producer:
        def __dlpack__(self, **_: Any) -> Any:
            return capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    taken: list[Any] = []

    def take() -> Any:
        if not taken:
            taken.append(np.from_dlpack(Producer()))
        return taken[0]

    return take


def joined(buffer: Any, count: int) -> Any:
    """Return the first shards as they lie, of which CuPy's are to be fetched."""
    buffer.wait()
    values = buffer.values[:count]
    return np.concatenate([v if isinstance(v, np.ndarray) else v.get() for v in values])


def by_buffer(x: gs.Array) -> Callable[[], Any]:
    buffer = x._live()  # as a thread has it that is about to read
    return lambda: joined(buffer, shards_of(x))


def by_shards(x: gs.Array) -> Callable[[], Any]:
    shards = x.addressable_shards  # which are no arrays yet
    return lambda: np.concatenate([np.asarray(shard.data) for shard in shards[: shards_of(x)]])


def by_data(x: gs.Array) -> Callable[[], Any]:
    data = x._held()
    return lambda: joined(data.buffer, shards_of(x))


def by_read(x: gs.Array) -> Callable[[], Any]:
    x.copy_to_host_async()
    read: Any = x._data.host
    return lambda: read.wait()


def by_assignment(x: gs.Array) -> Callable[[], Any]:
    y = x.at[0].set(x[0])
    x[1:] = 5  # while y shares what it did not touch
    return lambda: np.concatenate([OLD[:1], np.asarray(y)[1:]])


def by_empty_update(x: gs.Array) -> Callable[[], Any]:
    other = updated(x, slice(3, 3), gs.device_put(np.zeros((0, 8))))
    return lambda: np.asarray(other)


ONE_SHARD = [by_dlpack, by_capsule]
ANY = [
    by_copy, by_shard, by_parts, by_view, by_reshard, by_value, by_part_of_value, by_buffer,
    by_shards,
    by_data, by_read, by_assignment, by_empty_update,
]  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("how", SETTINGS)
@pytest.mark.parametrize("domains", [1, 8])
@pytest.mark.parametrize("make", [one, rows, replicas])
@pytest.mark.parametrize("look", [*ANY, *ONE_SHARD])
def test_who_shares_the_memory_keeps_the_old_value(
    look: Look, make: Any, domains: int, how: str
) -> None:
    if look in ONE_SHARD and make is not one:
        pytest.skip("DLPack knows one block of memory")
    where = {"backend": "host"} if look in ONE_SHARD else {}  # NumPy takes that alone
    with testing.runtime(host_domains=domains, **where, **SETTINGS[how]):
        x = make()
        seen = look(x)
        for index, value in ((3, 1), (slice(2, 9), np.zeros(8)), (..., gs.device_put(OLD * 2))):
            x[index] = value
            expected = np.asarray(x).copy()
            assert np.array_equal(seen(), OLD)
        assert np.array_equal(expected, OLD * 2)


SEVERAL_TIMES: dict[str, Callable[[Any, Any], Any]] = {
    "concatenate": lambda ns, x: ns.concatenate((x, x)),
    "tile": lambda ns, x: ns.tile(x, (3, 1)),
    "stack": lambda ns, x: ns.stack((x, x)),
    "broadcast_to": lambda ns, x: ns.broadcast_to(x, (2, *x.shape)),
    "repeat": lambda ns, x: ns.repeat(x, 2, 1),
    "parts that overlap": lambda ns, x: ns.concatenate((x[:-1], x[1:])),
    "handles": lambda ns, x: ns.concatenate((x, copy.copy(x), x[:1])),
    "moved on": lambda ns, x: ns.concatenate((x, x)).reshape(2, *x.shape),
}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("domains", [1, 2, 8])
@pytest.mark.parametrize("how", SETTINGS)
@pytest.mark.parametrize("make", SEVERAL_TIMES)
def test_what_is_there_several_times_is_written_once(make: str, how: str, domains: int) -> None:
    call = SEVERAL_TIMES[make]
    with testing.runtime(host_devices=8, host_domains=domains, **SETTINGS[how]):
        mesh = gs.make_mesh((8,), ("x",))
        for size, spec in itertools.product((2, 4, 8, 24), (P("x"), P(None, "x"), P())):
            data = np.arange(4.0 * size).reshape(size, 4)
            made = call(gs.numpy, gs.device_put(data, gs.NamedSharding(mesh, spec)))
            expected = np.array(call(np, data))
            for index, value in ((0, -1.0), (np.s_[..., 1:3], -2.0), (-1, -3.0)):
                made[index] = expected[index] = value
                assert np.array_equal(np.asarray(made), expected)


@pytest.mark.parametrize("how", SETTINGS)
def test_memory_of_users_is_never_written(how: str) -> None:
    with testing.runtime(**SETTINGS[how]):
        makers: list[Callable[[Any], gs.Array]] = [
            gs.from_dlpack,
            lambda data: gs.device_put(data, gs.devices()[1], may_alias=True),
            lambda data: gs.device_put(data, rows_of(8), may_alias=True),
        ]
        for make in makers:
            raw = np.empty(OLD.nbytes + 64, np.uint8)
            start = -raw.ctypes.data % 64
            mine = raw[start : start + OLD.nbytes].view(OLD.dtype).reshape(SHAPE)
            mine[...] = OLD
            x = make(mine)
            x[2:7] = -1
            x[0] = np.ones(8)
            assert np.array_equal(mine, OLD)
            assert np.asarray(x)[0].sum() == 8 and (np.asarray(x)[2:7] == -1).all()


@pytest.mark.parametrize("how", SETTINGS)
@pytest.mark.parametrize("make", [one, rows, replicas])
def test_what_was_only_read_or_is_shared_no_more_is_written_in_place(make: Any, how: str) -> None:
    with testing.runtime(host_domains=2, **SETTINGS[how]):
        x = make()
        where = addresses(x)
        np.asarray(x)
        x[3] = 1
        x.copy_to_host_async()
        assert np.asarray(x)[3, 0] == 1
        other = copy.copy(x)
        del other
        x[4:6] = np.zeros(8)
        shards = x.addressable_shards
        del shards
        x[:, 1] = gs.device_put(np.zeros(16))
        assert addresses(x) == where
        kept = copy.copy(x)
        x[15] = 2
        assert addresses(x) != where
        assert np.asarray(kept)[15, 0] == OLD[15, 0] and np.asarray(x)[15, 0] == 2
        assert not np.asarray(x)[:15, 1].any()


@pytest.mark.parametrize("how", SETTINGS)
def test_many_devices(how: str) -> None:
    with testing.runtime(host_devices=24, **SETTINGS[how]):
        old = numbers((48, 2), "int32")
        x = gs.device_put(old, rows_of(24))
        where = addresses(x)
        x[5:9] = 0
        assert addresses(x) == where
        kept = x.addressable_data(3)
        x[6:8] = 1
        assert not np.asarray(kept).any() and (np.asarray(x)[6:8] == 1).all()


@pytest.mark.parametrize("shape", [(), (2, 8)])
def test_values_that_are_pending_are_waited_for(shape: tuple[int, ...]) -> None:
    with testing.runtime(backend="host", host_domains=2):
        x = rows()
        y, gate = gated(gs.device_put(np.full(shape, 7.0), gs.devices()[7]))
        x[2:4] = y
        del y
        assert not x.is_ready()
        gate.open()
        assert (np.asarray(x)[2:4] == 7).all() and np.array_equal(np.asarray(x)[4:], OLD[4:])


@pytest.mark.parametrize("how", SETTINGS)
def test_a_value_may_be_a_part_of_the_array(how: str) -> None:
    with testing.runtime(host_domains=2, **SETTINGS[how]):
        for make in (one, rows, replicas):
            x, expected = make(), OLD.copy()
            x[1:] = x[:-1]
            expected[1:] = OLD[:-1]
            assert np.array_equal(np.asarray(x), expected)
            x[::-1] = x
            assert np.array_equal(np.asarray(x), expected[::-1])
            x[:15] = np.asarray(x)[1:]
            assert np.array_equal(np.asarray(x)[:15], expected[::-1][1:])


def test_what_is_pending_is_written_after_it_and_after_its_readers() -> None:
    with testing.runtime(backend="host", host_domains=2, small_bytes=0, inline_bytes=0):
        x, gate = gated(rows())
        z = deferred(x, lambda shard: shard * 2)
        x.copy_to_host_async()
        x[3:5] = 1
        x[4] = np.zeros(8)
        assert not x.is_ready() and not z.is_ready()
        gate.open()
        expected = OLD.copy()
        expected[3:5], expected[4] = 1, 0
        assert np.array_equal(np.asarray(z), OLD * 2)
        assert np.array_equal(np.asarray(x), expected)


def test_a_read_that_is_stuck_keeps_small_values_from_being_written_under_it() -> None:
    with testing.runtime(backend="host", host_domains=2):
        x, other = rows(), rows()
        held, gate = gated(other)

        def late(target: Any) -> Any:
            return target + x_values.pop()

        x_values = [0.0] * 8
        x_values.reverse()
        z = deferred(x, late, after=held._live().memories)
        where = addresses(x)
        x[3] = 1
        assert not x.is_ready()
        gate.open()
        assert np.array_equal(np.asarray(z), OLD)
        assert (np.asarray(x)[3] == 1).all() and addresses(x) == where


@pytest.mark.parametrize("how", ["streams", "inline"])
def test_what_failed_keeps_its_error_where_it_is_not_replaced(how: str) -> None:
    error = ValueError("planned")
    with testing.runtime(host_domains=4, **SETTINGS[how]):
        for value in (7, np.full(8, 7.0), gs.device_put(np.float64(7))):
            for wait in (False, True):
                x = deferred(rows(), lambda shard: shard, error=error)
                if wait:
                    with pytest.raises(gs.errors.ExecutionError):
                        x.block_until_ready()
                x[2:5] = value
                parts = [shard.data for shard in x.addressable_shards]
                for number in (0, 2, 3):
                    with pytest.raises(gs.errors.ExecutionError) as caught:
                        np.asarray(parts[number])
                    assert caught.value.__cause__ is error
                x = deferred(rows(), lambda shard: shard, error=error)
                x[...] = value
                assert (np.asarray(x) == 7).all()


def test_a_value_that_fails_fails_the_blocks_that_it_goes_to() -> None:
    with testing.runtime(small_bytes=0, inline_bytes=0, host_domains=4):
        x = rows()
        y = deferred(gs.device_put(OLD[:2]), lambda shard: shard, error=ValueError("planned"))
        x[4:6] = y
        assert np.array_equal(np.asarray(x.addressable_data(0)), OLD[:2])
        with pytest.raises(gs.errors.ExecutionError):
            np.asarray(x.addressable_data(2))
        with pytest.raises(gs.errors.ExecutionError):
            np.asarray(x)


def test_dtypes_are_converted_as_numpy_does() -> None:
    values = [3, -1.75, True, np.float32(2.5), [1, 2.5, 3], np.arange(3), np.ones((1, 1, 3))]
    with testing.runtime():
        for code in "?bhilBHILefdFD":
            for value in [*values, 1 + 2j] if code in "FD" else values:
                if code in "BHIL" and type(value) is float:
                    value = -value
                expected = np.zeros((4, 3), code)
                x = gs.device_put(expected, rows_of(2))
                x[1], expected[1] = value, value
                assert np.array_equal(np.asarray(x), expected), (code, value)


def test_the_array_keeps_what_else_it_is() -> None:
    with testing.runtime():
        x = gs.device_put(2.5)
        assert x.weak_type and not x.committed
        sharding = x.sharding
        x[()] = 3
        assert not x.weak_type and not x.committed and x.sharding is sharding and float(x) == 3
        y = rows()
        y[0, 0] = 1
        assert y.committed and y.sharding == rows_of(8) and len(gs.live_arrays()) == 2


def test_no_array_is_weak_once_it_is_assigned_to() -> None:
    with testing.runtime():
        for value in (3.0, np.arange(3.0), rows()[0, :3]):
            x = gs.numpy.broadcast_to(gs.device_put(2.5), (3,)) + 0.0
            assert x.weak_type
            x[:] = value
            assert not x.weak_type and np.array_equal(x, np.broadcast_to(value, 3))


def test_at_gives_new_arrays() -> None:
    with testing.runtime():
        x = rows()
        y = x.at[2:4, 1].set(-1)
        expected = OLD.copy()
        expected[2:4, 1] = -1
        assert np.array_equal(np.asarray(y), expected) and np.array_equal(np.asarray(x), OLD)
        assert np.array_equal(np.asarray(y.at[3].get()), expected[3])
        assert addresses(x)[2:] == addresses(y)[2:]  # what is not touched is shared
        assert "set(value)" in repr(x.at) and "add(value)" in repr(x.at[1])


@pytest.mark.parametrize("how", SETTINGS)
def test_without_room_nothing_has_changed(how: str) -> None:
    with testing.runtime(memory_limit=OLD.nbytes // 8, **SETTINGS[how]):
        x = rows()
        other, children = copy.copy(x), [shard.data for shard in x.addressable_shards]
        with pytest.raises(gs.errors.OutOfMemoryError):
            x[1:] = 2
        assert np.array_equal(np.asarray(x), OLD)
        assert addresses(x) == [child.unsafe_buffer_pointer() for child in children]
        del other, children
        x[1:] = 2
        assert (np.asarray(x)[1:] == 2).all()


@pytest.mark.parametrize("how", SETTINGS)
def test_replicas_that_a_user_made_one_by_one_all_change(how: str) -> None:
    with testing.runtime(**SETTINGS[how]):
        sharding = gs.NamedSharding(gs.make_mesh((8,), ("x",)), P())
        parts = [gs.device_put(OLD, device) for device in gs.devices()]
        x = gs.make_array_from_single_device_arrays(SHAPE, sharding, parts)
        del parts
        x[3] = 1
        for shard in x.addressable_shards:
            assert np.asarray(shard.data)[3].tolist() == [1] * 8


def test_an_interrupt_before_anything_is_written_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with testing.runtime():
        x = rows()
        monkeypatch.setattr("gpushard._array.assignment.owns_alone", interrupted)
        with pytest.raises(KeyboardInterrupt):
            x[...] = 0
        assert np.array_equal(np.asarray(x), OLD)


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("at", [1, 2])
def test_an_interrupt_between_two_domains_leaves_no_torn_value(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with testing.runtime(host_domains=2) as runtime:
        x, fills = rows(), runtime.backend.fill_boxes
        calls = []

        def fill_boxes(*arguments: Any) -> None:
            calls.append(1)
            (interrupted if len(calls) == at else fills)(*arguments)

        monkeypatch.setattr(runtime.backend, "fill_boxes", fill_boxes)
        with pytest.raises(KeyboardInterrupt):
            x[...] = 0
        with pytest.raises(gs.errors.DeletedArrayError, match="interrupted"):
            np.asarray(x)
        assert x.is_deleted() and "deleted" in repr(x)
        x.delete()
        assert runtime.claimed_bytes() == 0
        kept = rows()
        other = copy.copy(kept)
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            kept[...] = 0
        assert np.array_equal(np.asarray(kept), OLD) or len(calls) < at
        assert np.array_equal(np.asarray(other), OLD)


def test_readers_in_other_threads_wait_until_the_array_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with testing.runtime(host_domains=2) as runtime:
        x, fills = rows(), runtime.backend.fill_boxes
        begun, waiting, read = threading.Event(), threading.Event(), []
        wait = Detached.wait

        def fill_boxes(*arguments: Any) -> None:
            begun.set()
            assert waiting.wait(10)
            fills(*arguments)

        def waits(detached: Detached) -> None:
            waiting.set()
            wait(detached)

        def reader() -> None:
            assert begun.wait(60)
            read.append(np.asarray(x).copy())

        monkeypatch.setattr(Detached, "wait", waits)
        monkeypatch.setattr(runtime.backend, "fill_boxes", fill_boxes)
        thread = threading.Thread(target=reader)
        thread.start()
        x[...] = 1
        thread.join()
        assert (read[0] == 1).all()


@pytest.mark.parametrize("how", SETTINGS)
def test_threads_that_assign_while_others_read_copies(how: str) -> None:
    rounds, errors = 60, []
    with testing.runtime(host_domains=2, **SETTINGS[how]):
        first = rows()
        box = [copy.copy(first)]

        def write() -> None:
            mine, expected = copy.copy(first), OLD.copy()
            for n in range(rounds):
                mine[n % 16], expected[n % 16] = n, n
                box[0] = copy.copy(mine) if n % 3 else box[0]
                if not np.array_equal(np.asarray(mine), expected):
                    errors.append(n)

        def read() -> None:
            for _ in range(rounds):
                seen = copy.copy(box[0])
                value = np.array(seen)
                whole = (value == OLD).all(axis=1) | (value == value[:, :1]).all(axis=1)
                if not whole.all() or not np.array_equal(value, np.asarray(seen)):
                    errors.append(value)

        threads = [threading.Thread(target=work) for work in (write, write, read, read)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert np.array_equal(np.asarray(first), OLD)


@pytest.mark.parametrize("seed", seeds(60))
def test_any_schedule(seed: int) -> None:
    random = np.random.default_rng(seed)
    with testing.simulated(
        seed, host_devices=4, host_domains=int(random.choice([1, 2, 4])),
        inline_bytes=int(random.choice([0, 100, 1 << 20])), small_bytes=0,
    ) as runtime:  # fmt: skip
        runtime.sim.failing = 0
        old = numbers((9, 6), "int32")
        known: list[tuple[gs.Array, np.ndarray]] = []
        kind = str(random.choice(["device", "device", "pinned_host", "unpinned_host"]))
        sharding = rows_of(4).with_memory_kind(kind)
        x, value = deferred(gs.device_put(old, sharding), lambda v: v + 1), old + 1
        for _ in range(8):
            step = int(random.integers(6))
            index: Any = slice(int(random.integers(9)), None, int(random.choice([1, 2, -1])))
            if step == 0:
                known.append((copy.copy(x), value.copy()))
            elif step == 1:
                known.append((deferred(x, lambda v: v * 2), value * 2))
            elif step == 2:
                known.append((x[index], value[index].copy()))
            elif step == 3 and known:
                known.pop()
            else:
                new = -numbers(value[index].shape, "int32")
                given = [5, new, gs.device_put(new, gs.devices()[seed % 4])][step % 3]
                x[index] = given
                value[index] = 5 if step % 3 == 0 else new
        assert np.array_equal(np.asarray(x), value)
        for array, held in known:
            assert np.array_equal(np.asarray(array), held)
        assert not runtime.checker.races


@pytest.mark.parametrize("domains", [1, 4])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64"])
def test_arrays_are_converted_and_broadcast_like_numpys(dtype: str, domains: int) -> None:
    with testing.runtime(host_devices=8, host_domains=domains):
        sharding = gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P("x", "y"))
        old = np.arange(48).reshape(8, 6) % 7 - 3
        for value in (
            np.array([1.5, -2.25, 3, 0, 7, 5]),
            np.arange(4)[:, None],
            np.ones((1, 4, 1)),
        ):
            expected = old.astype(np.complex64 if dtype == "complex64" else dtype)
            x = gs.device_put(expected, sharding)
            x[::2] = gs.device_put(value)
            expected[::2] = value
            np.testing.assert_array_equal(np.asarray(x), expected)
            assert x.sharding == sharding and x.dtype == expected.dtype


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "min", "max"])
def test_parts_are_combined_as_numpys_ufuncs_do(name: str) -> None:
    ufunc = getattr(np, {"min": "minimum", "max": "maximum"}.get(name, name))
    sharding = gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P("x", "y"))
    for old, value in ((np.arange(35.0).reshape(5, 7) + 1, 2.5), (np.arange(9).reshape(3, 3), 2)):
        x = gs.device_put(old, sharding)
        made = getattr(x.at[1:, ::2], name)(value)
        expected = old.copy()
        expected[1:, ::2] = ufunc(old[1:, ::2], value)
        close = 4e-16 if name == "power" else 0  # whose last bit is not the same on GPUs
        np.testing.assert_allclose(np.asarray(made), expected, rtol=close)
        np.testing.assert_array_equal(np.asarray(x), old)
        assert made.dtype == old.dtype and made.sharding == sharding
    made = x.at[0].apply(lambda part: -part)
    np.testing.assert_array_equal(np.asarray(made), np.vstack([-old[:1], old[1:]]))


def test_one_element_is_kept_until_it_is_everywhere() -> None:
    old = np.arange(64, dtype=np.int32).reshape(16, 4)
    for seed in range(25):
        settings = {"inline_bytes": 0, "small_bytes": 0, "host_devices": 8, "host_domains": 4}
        with late_devices(seed, **settings):
            place = gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x"))
            expected, x = old.copy(), gs.device_put(old, place)
            for number in range(3):
                one = gs.device_put(np.array([number], np.int32), gs.devices()[number])
                kept = x[:] if number == 1 else None  # then the part is written into new blocks
                x[3:13, ::2] = one
                del one, kept
                expected[3:13, ::2] = number
                other = gs.device_put(np.array([-1], np.int32), gs.devices()[5])
                assert int(gs.reshard(other, place)[0]) == -1
            np.testing.assert_array_equal(np.asarray(x), expected)


def test_idle_memory_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with testing.runtime(backend="host", host_domains=4) as runtime:
        x = rows().block_until_ready()
        monkeypatch.setattr(type(runtime), "commit", None)
        x[2:5] = 7
        monkeypatch.undo()
        assert (np.asarray(x)[2:5] == 7).all()


def test_methods_that_assign_are_numpys() -> None:
    data = numbers((4, 3), np.float32)
    x = gs.device_put(data)
    for assign in (lambda a: a.put([1, -1], [7, 8]), lambda a: a.fill(3)):
        expected = np.asarray(x).copy()
        assign(x)
        assign(expected)
        np.testing.assert_array_equal(x, expected)
