"""Tests that every backend must pass, as classes to derive from."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import random
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpushard._array.array import Array
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._placement.device_put import device_put
from gpushard._placement.reshard import reshard
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._runtime.copy_phase import Phase
from gpushard._runtime.item import Item
from gpushard._runtime.memory import Memory
from gpushard._runtime.pool import Room
from gpushard._runtime.runtime import Runtime
from gpushard._runtime.stream import Stream, Tick
from gpushard._runtime.strided_view import View
from gpushard._typing import HostArray, LocalArray
from gpushard.errors import DeletedArrayError, ExecutionError, OutOfMemoryError
from gpushard.testing.deferred import deferred
from gpushard.testing.programs import check_nothing_left, run_on
from gpushard.testing.runtime import using


def raises(kind: type[BaseException], function: Callable[[], Any]) -> BaseException:
    """Check that a function raises an error of a kind, and return the error."""
    try:
        function()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


class Conformance:
    """Base of the classes of tests; derived classes define `make_runtime`."""

    threads = 2
    """The most system threads that may submit at once; 1 for a backend with its own threads."""

    launches = False
    """Whether items run immediately, in the submitting thread, so they must not wait."""

    def make_runtime(self, **settings: Any) -> Runtime:
        """Make a runtime on the tested backend.

        Args:
          **settings: fields of `gpushard.Settings`.
        """
        raise NotImplementedError

    @contextlib.contextmanager
    def runtime(self, **settings: Any) -> Iterator[Runtime]:
        """Make a runtime the current one in a `with` block."""
        tested = self.make_runtime(**settings)
        with using(tested):
            yield tested


def give(
    runtime: Runtime,
    stream: Stream,
    run: Callable[[], None],
    waits: Sequence[Tick] = (),
    writes: Sequence[Memory] = (),
    tick: int | None = None,
) -> Tick:
    """Submit an item to a backend, as a runtime does."""
    if tick is None:
        tick = stream.issued = stream.issued + 1
    runtime.backend.enqueue(Item("work", run, stream, tick, tuple(waits), (), tuple(writes)))
    return stream, tick


def upload(runtime: Runtime, data: HostArray, domain: int = 0) -> LocalArray:
    """Copy data to new memory of a domain."""
    raw = runtime.backend.allocate(domain, data.nbytes)
    local = runtime.backend.view(raw, data.shape, data.dtype)
    runtime.backend.copy_boxes([(local, data, HOST_DOMAIN)], domain)
    return local


def download(runtime: Runtime, local: LocalArray, domain: int = 0) -> HostArray:
    """Copy local data back to the host."""
    data: HostArray = np.zeros(local.shape, local.dtype)
    runtime.backend.copy_boxes([(data, local, domain)], HOST_DOMAIN)
    return data


_DTYPES = (*("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"), *("f2", "f4", "f8", "c8", "c16"))


class _Owner:
    """An object that a view must keep alive."""


class BackendConformance(Conformance):
    """Every backend passes these; derive and define `make_runtime`."""

    def test_devices_are_described(self) -> None:
        """Devices have domains numbered from 0, as many as the settings say."""
        with self.runtime(host_devices=4, host_domains=2) as rt:
            infos = rt.backend.describe()
            assert len(infos) == len(rt.devices) >= 1
            known = set(range(len(rt.domains)))
            assert {info.domain for info in infos} <= known
            assert {info.pinned_domain for info in infos} <= known
            assert {info.pageable_domain for info in infos} <= known
            assert all(info.kind for info in infos)
            assert rt.backend.platform in ("cpu", "gpu") and rt.backend.name
            chips = {info.hardware_id: info for info in infos}
            for info in infos:
                chip = chips[info.hardware_id]
                assert (info.bus_id, info.peers) == (chip.bus_id, chip.peers)
                assert (info.peers or set()) <= chips.keys() - {info.hardware_id}

    def test_allocations_are_aligned_and_apart(self) -> None:
        """Buffers of any size, also 0, are aligned and do not overlap."""
        with self.runtime() as rt:
            backend, spans, buffers = rt.backend, [], []
            for nbytes in (0, 1, 7, 64, 1000, 4096):
                raw = backend.allocate(0, nbytes)
                buffers.append(raw)
                if nbytes:
                    start = backend.address(backend.view(raw, (nbytes,), np.dtype(np.uint8)))
                    assert start % 16 == 0, "an allocation is not aligned"
                    spans.append((start, start + nbytes))
            spans.sort()
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
            assert backend.view(buffers[0], (0, 3), np.dtype(np.float32)).shape == (0, 3)

    def test_a_view_is_dense_from_the_start(self) -> None:
        """A view has its shape and dtype and starts where the buffer does."""
        with self.runtime() as rt:
            raw = rt.backend.allocate(0, 96)
            whole = rt.backend.view(raw, (96,), np.dtype(np.uint8))
            part = rt.backend.view(raw, (2, 3, 1), np.dtype(np.complex64))
            assert (part.shape, part.dtype) == ((2, 3, 1), np.complex64)
            assert part.flags.c_contiguous
            assert rt.backend.address(part) == rt.backend.address(whole)

    def test_a_stream_runs_in_order(self) -> None:
        """Items of one stream run one after the other, each once."""
        with self.runtime() as rt:
            stream, ran = rt.new_stream("test", 0), list[int]()
            for n in range(200):
                give(rt, stream, lambda n=n: ran.append(n))  # type: ignore[misc]
            stream.synchronize(200)
            assert ran == list(range(200)), "items ran out of order, or not at all"

    def test_an_item_waits_for_other_streams(self) -> None:
        """Streams that wait for one another in turn run in the order of the waits."""
        with self.runtime() as rt:
            streams = [rt.new_stream(f"test {i}", 0) for i in range(4)]
            for seed in range(10):
                source, ran = random.Random(seed), list[int]()
                last: Tick | None = None
                for n in range(60):
                    stream = source.choice(streams)
                    waits = () if last is None else (last,)
                    last = give(rt, stream, lambda n=n, ran=ran: ran.append(n), waits)  # type: ignore[misc]
                assert last is not None
                last[0].synchronize(last[1])
                assert ran == list(range(60)), "an item did not wait"

    def test_an_item_waits_for_work_that_is_held_back(self) -> None:
        """An item does not run before the items that it waits for."""
        if self.threads == 1 or self.launches:
            return  # items run in the caller, which could never open the gate
        with self.runtime() as rt:
            first, second, free = (rt.new_stream(name, 0) for name in "abc")
            gate, ran = threading.Event(), list[str]()

            def hold() -> None:
                gate.wait()
                ran.append("first")

            held = give(rt, first, hold)
            after = give(rt, second, lambda: ran.append("second"), [held])
            give(rt, free, lambda: ran.append("free"))
            free.synchronize(1)  # this could have run earlier items
            early = second.finished(1) or "second" in ran
            gate.set()
            assert not early, "an item did not wait, or an event came too early"
            second.synchronize(after[1])
            assert ran == ["free", "first", "second"]
            assert first.finished(1) and second.finished(1)

    def test_an_event_says_when_its_items_have_run(self) -> None:
        """An event is true once its items have run; it covers its tick, but no later one."""
        with self.runtime() as rt:
            stream, ran = rt.new_stream("test", 0), list[int]()
            for n in range(1, 21):
                give(rt, stream, lambda n=n: ran.append(n))  # type: ignore[misc]
                event = rt.backend.record(stream, n)
                assert n <= event.tick <= stream.issued
                assert not event.query() or len(ran) >= event.tick, "an event came too early"
            early, late = rt.backend.record(stream, 5), rt.backend.record(stream, 20)
            assert early.tick == 5 if rt.backend.exact else early.tick >= 5
            early.synchronize()
            assert len(ran) >= early.tick, "an event came too early"
            late.synchronize()
            assert len(ran) == 20 and late.query() and early.query()
            stream.synchronize(20)
            assert stream.finished(20) and stream.event(3).tick >= 3

    def test_a_failing_item_ticks_and_fails_what_it_writes(self) -> None:
        """The memory gets the error, and the stream continues."""
        with self.runtime() as rt:
            stream, ran = rt.new_stream("test", 0), list[int]()
            memory = Memory(None, 0, 0, (), rt.host_pool)

            def fail() -> None:
                raise ValueError("planned")

            give(rt, stream, fail, writes=[memory])
            give(rt, stream, lambda: ran.append(1))
            stream.synchronize(2)
            assert ran == [1] and memory.error is not None

    def test_copies_of_every_dtype(self) -> None:
        """Data of any type come back unchanged."""
        with self.runtime() as rt:
            for dtype in _DTYPES:
                data = np.arange(60).reshape(3, 4, 5).astype(dtype)
                assert np.array_equal(download(rt, upload(rt, data)), data), dtype

    def test_copies_of_views(self) -> None:
        """Boxes may be strided, transposed, reversed, 0-d or empty, on either side."""
        with self.runtime() as rt:
            data = np.arange(48.0).reshape(6, 8)
            local = upload(rt, data)
            for index in ((slice(1, 5, 2),), (slice(None, None, -1), slice(6, 0, -3)), (2, 3, ...)):
                assert np.array_equal(download(rt, local[index]), data[index]), index
                target = upload(rt, np.zeros_like(data))
                rt.backend.copy_boxes([(target[index], local[index], 0)], 0)
                expected = np.zeros_like(data)
                expected[index] = data[index]
                assert np.array_equal(download(rt, target), expected), index
            assert np.array_equal(download(rt, local.transpose(1, 0)), data.T)
            assert download(rt, local[3:3]).shape == (0, 8)

    def test_copies_of_many_sizes(self) -> None:
        """Copies of few and of many bytes, in one batch and alone, are complete."""
        with self.runtime() as rt:
            for count in (1, 63, 1 << 12, (1 << 21) + 17):
                data = np.arange(count, dtype=np.int32)
                local, other = upload(rt, data), upload(rt, data * 0)
                half = count // 2
                boxes = [(other[:half], local[:half], 0), (other[half:], local[half:], 0)]
                rt.backend.copy_boxes(boxes, 0)
                assert np.array_equal(download(rt, other), data)

    def test_fills_of_views(self) -> None:
        """Boxes of any layout are filled, immediately and in items, and nothing around them."""
        with self.runtime() as rt:
            for dtype in _DTYPES:
                data = np.arange(48).reshape(6, 8).astype(dtype)
                for index in ((slice(1, 5, 2),), (slice(None), slice(6, 0, -3)), (2, 3, ...)):
                    value, expected = data[0, 1], data.copy()
                    expected[index] = value
                    local = upload(rt, data)
                    rt.backend.fill_boxes([local[index], local[:0]], value, 0)
                    assert np.array_equal(download(rt, local), expected), (dtype, index)

    def test_strided_phases_and_fills(self) -> None:
        """Items copy and fill strided parts of dense arrays, also one element to several."""
        with self.runtime() as rt:
            data, stream = np.arange(24, dtype=np.int32).reshape(4, 6), rt.new_stream("test", 0)
            raws = [rt.backend.allocate(0, data.nbytes) for _ in range(2)]
            source, target = (rt.backend.view(raw, data.shape, data.dtype) for raw in raws)
            rt.backend.copy_boxes([(source, data, HOST_DOMAIN), (target, data * 0, HOST_DOMAIN)], 0)
            to, of = View(4, (3, 2), (24, 8)), View(48, (3, 2), (0, 4))
            phase = Phase(((1, to, 0, of, 0),), 4, [data.shape] * 2)
            before = rt.backend.traffic.get((0, 0), 0)

            def work() -> None:
                rt.backend.fill_boxes([View(72, (3,), (8,)).of(target)], np.int32(9), 0)
                rt.backend.copy_phase(phase, [source, target], 0)

            used = [Memory(raw, data.nbytes, 0, (), rt.domains[0].pool) for raw in raws]
            stream.synchronize(give(rt, stream, work, writes=used)[1])
            expected = data * 0
            expected[:3, 1:5:2], expected[3, ::2] = data[2, :2], 9
            assert np.array_equal(download(rt, target), expected)
            assert rt.backend.traffic[0, 0] - before == 24

    def test_traffic_is_counted(self) -> None:
        """Every byte is counted for its source and destination."""
        with self.runtime(host_devices=2, host_domains=2) as rt:
            before, data = dict(rt.backend.traffic), np.arange(100, dtype=np.int64)
            last = rt.devices[-1].memory_domain
            local, target = upload(rt, data, 0), upload(rt, data * 0, last)
            rt.backend.copy_boxes([(target, local, 0)], last)
            download(rt, target, last)
            moved = {k: n - before.get(k, 0) for k, n in rt.backend.traffic.items()}
            assert moved.get((0, last)) == 800, moved
            assert moved.get((last, HOST_DOMAIN)) == 800, moved

    def test_a_host_view_is_read_only_and_keeps_its_owner(self) -> None:
        """A view for the host is read-only, and keeps its owner alive."""
        with self.runtime() as rt:
            claim = rt.commit(lambda: rt.claim(Room(rt.host_pool, (), 80)))
            local = rt.backend.view(claim.memory.raw, (10,), np.dtype(np.int64))
            rt.backend.copy_boxes([(local, np.arange(10), HOST_DOMAIN)], HOST_DOMAIN)
            owner = _Owner()
            watch, view = weakref.ref(owner), rt.backend.host_view(local, owner)
            assert np.array_equal(view, np.arange(10))
            assert not view.flags.writeable, "a host view can be written"
            part = view[2:4]
            del owner, view
            gc.collect()
            assert watch() is not None, "a view lets its owner go"
            del part
            gc.collect()
            assert watch() is None, "an owner is kept too long"

    def test_lent_data_keeps_its_owner(self) -> None:
        """Other libraries get the data without a copy, and keep its owner alive."""
        with self.runtime() as rt:
            local = upload(rt, np.arange(12, dtype=np.int32).reshape(3, 4))
            foreign = rt.backend.lend(local, _Owner(), consumer=-1)
            assert rt.backend.address(foreign) == rt.backend.address(local), "the data was copied"
            owner = _Owner()
            watch, lent = weakref.ref(owner), rt.backend.lend(local, owner)
            assert (lent.shape, lent.dtype) == ((3, 4), np.int32)
            assert rt.backend.address(lent) == rt.backend.address(local), "the data was copied"
            del owner
            gc.collect()
            assert watch() is not None, "lent data lets its owner go"

    def test_borrowed_data_is_what_was_lent(self) -> None:
        """An array of the backend's library can be imported by DLPack, without a copy."""
        with self.runtime() as rt:
            stream, data = rt.new_stream("test", 0), np.arange(12, dtype=np.int32)
            lent = rt.backend.lend(upload(rt, data), None)
            place = tuple(map(int, lent.__dlpack_device__()))
            assert place == rt.backend.dlpack_device(0), "the domain has another name"
            local = rt.backend.borrow(lent, 0, stream)
            assert rt.backend.address(local) == rt.backend.address(lent), "the data was copied"
            stream.synchronize(stream.issued)
            assert np.array_equal(download(rt, local), data)

    def test_the_host_can_follow(self) -> None:
        """The host continues once all ticks have run."""
        with self.runtime() as rt:
            streams, ran = [rt.new_stream(f"test {i}", 0) for i in range(2)], list[str]()
            ticks = [
                give(rt, stream, functools.partial(ran.append, stream.name)) for stream in streams
            ]
            rt.backend.follow(None, ticks, 0)
            assert sorted(ran) == ["test 0", "test 1"], "the host did not wait"

    def test_work_of_the_caller_comes_after_a_tick(self) -> None:
        """Work of the caller itself runs after a tick, in the context of its stream."""
        with self.runtime() as rt:
            stream, ran = rt.new_stream("test", 0), list[int]()
            for n in range(5):
                tick = give(rt, stream, lambda n=n: ran.append(n))[1]  # type: ignore[misc]
            with rt.backend.on_stream(stream, tick):
                assert rt.backend.platform != "cpu" or ran == [0, 1, 2, 3, 4]
            stream.synchronize(tick)
            assert ran == [0, 1, 2, 3, 4]

    def test_two_threads_submit(self) -> None:
        """Items of several threads all run."""
        with self.runtime() as rt:
            streams = [rt.new_stream(f"test {i}", 0) for i in range(self.threads)]
            ran: list[list[int]] = [[] for _ in streams]

            def submit(i: int) -> None:
                for n in range(300):
                    give(rt, streams[i], lambda n=n: ran[i].append(n))  # type: ignore[misc]

            threads = [threading.Thread(target=submit, args=(i,)) for i in range(self.threads)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for stream in streams:
                stream.synchronize(300)
            assert ran == [list(range(300))] * self.threads

    def test_the_queue_is_bounded(self) -> None:
        """Submitting more than the limit waits for room."""
        with self.runtime(queue_limit=2) as rt:
            stream, ran = rt.new_stream("test", 0), list[int]()
            for n in range(20):
                rt.commit(
                    lambda n=n: rt.submit(stream, "work", lambda: ran.append(n), [], []),
                    [stream],
                )
                assert len(ran) >= n - 1, "a queue grew beyond its limit"
            stream.synchronize(20)
            assert ran == list(range(20))

    def test_a_second_item_with_the_last_tick_does_no_harm(self) -> None:
        """After an interrupt the last tick may come twice, and later items still run."""
        with self.runtime() as rt:
            stream, ran = rt.new_stream("test", 0), list[int]()
            give(rt, stream, lambda: ran.append(1))
            give(rt, stream, lambda: None, tick=1)
            give(rt, stream, lambda: ran.append(2))
            stream.synchronize(2)
            assert ran == [1, 2]

    def test_closing_releases_who_waits(self) -> None:
        """After `close` no work is pending: all has run or was dropped."""
        rt = self.make_runtime()
        stream = rt.new_stream("test", 0)
        for _ in range(50):
            give(rt, stream, lambda: None)
        rt.close()
        stream.synchronize(50)
        assert stream.finished(50)


_SPECS: tuple[tuple[Any, ...], ...] = ((), ("x",), (None, "y"), ("y", "x"), (("x", "y"),))
_QUEUED = {"host_devices": 4, "host_domains": 2, "small_bytes": 0, "inline_bytes": 0}


def _named(runtime: Runtime, *spec: Any) -> NamedSharding:
    """Return a sharding over four devices, or two or one if there are fewer."""
    count = max(n for n in (1, 2, 4) if n <= len(runtime.devices))
    grid = np.empty(count, object)
    grid[:] = runtime.devices[:count]
    return NamedSharding(
        Mesh(grid.reshape(-1, 2 if count == 4 else 1), ("x", "y")), PartitionSpec(*spec)
    )


def _holds(array: Array, value: Any) -> bool:
    return bool(np.array_equal(np.asarray(array), value))


class ArrayConformance(Conformance):
    """Arrays on every backend pass these; derive and define `make_runtime`, of four devices."""

    def test_place_and_reshard(self) -> None:
        """Any layout becomes any other, also with uneven or empty shards."""
        for settings in ({"host_devices": 4}, _QUEUED):
            with self.runtime(**settings) as rt:
                for shape in ((5, 7), (1, 3), (0, 4)):
                    value = np.arange(float(np.prod(shape))).reshape(shape)
                    for start in _SPECS:
                        x = device_put(value, _named(rt, *start))
                        assert all(_holds(reshard(x, _named(rt, *s)), value) for s in _SPECS)
                del x
                check_nothing_left(rt)

    def test_slices(self) -> None:
        """Parts, also with negative steps, are those of NumPy."""
        with self.runtime(**_QUEUED) as rt:
            value = np.arange(35).reshape(5, 7)
            x = device_put(value, _named(rt, "x", "y"))
            assert _holds(x[1:4, ::2], value[1:4, ::2]) and _holds(x[::-1, -2], value[::-1, -2])
            assert _holds(x.T, value.T) and _holds(x[2:2], value[2:2])

    def test_donate_and_delete(self) -> None:
        """Donated and deleted arrays cannot be read, and their memory is freed."""
        with self.runtime(**_QUEUED) as rt:
            value = np.arange(32.0).reshape(4, 8)
            x = device_put(value, _named(rt, "x"))
            y = reshard(x, _named(rt, None, "y"), donate=True)
            assert x.is_deleted() and _holds(y, value)
            raises(DeletedArrayError, lambda: np.asarray(x))
            y.delete()
            check_nothing_left_but_deleted(rt)

    def test_replicas_hold_the_value(self) -> None:
        """Every replica can be read, and has equal content."""
        with self.runtime(**_QUEUED) as rt:
            value = np.arange(6)
            x = device_put(value, _named(rt))
            assert all(
                _holds(shard.data, value)
                for shard in x.addressable_shards
                if shard.data is not None
            )

    def test_read_async(self) -> None:
        """A started fetch returns the value, read-only."""
        with self.runtime(**_QUEUED) as rt:
            value = np.arange(40.0).reshape(8, 5)
            x = deferred(device_put(value, _named(rt, "x")), lambda shard: shard * 2)
            x.copy_to_host_async()
            read = np.asarray(x)
            assert np.array_equal(read, value * 2) and not read.flags.writeable

    def test_failures_reach_readers(self) -> None:
        """Work that depends on failed work fails with its cause; other work does not."""
        with self.runtime(**_QUEUED) as rt:
            x = device_put(np.arange(8.0), _named(rt, "x"))
            cause = ValueError("planned")
            moved = reshard(deferred(x, lambda shard: shard, error=cause), _named(rt, "y"))
            other = deferred(x, lambda shard: shard + 1)
            for _ in range(2):
                assert raises(ExecutionError, moved.block_until_ready).__cause__ is cause
            assert _holds(other, np.arange(8.0) + 1)

    def test_out_of_memory_and_recovery(self) -> None:
        """A refused call changes nothing, and a smaller one works."""
        with self.runtime(**_QUEUED, memory_limit=1000) as rt:
            device = rt.devices[0]
            x = device_put(np.arange(100.0), device)
            error = raises(OutOfMemoryError, lambda: device_put(np.arange(50.0), device))
            assert isinstance(error, OutOfMemoryError) and error.limit == 1000
            assert error.nbytes == 400 and error.in_use == 800
            assert _holds(device_put(np.arange(20.0), device), np.arange(20.0))
            assert _holds(x, np.arange(100.0))

    def test_random_programs(self) -> None:
        """Programs of several threads read NumPy's values."""
        for seed in range(4):
            with self.runtime(**_QUEUED) as rt:
                run_on(rt, seed, steps=15, threads=self.threads)


def check_nothing_left_but_deleted(runtime: Runtime) -> None:
    """Check that no memory is claimed, although deleted arrays are still referenced."""
    assert runtime.claimed_bytes() == 0, "deleted arrays hold memory"
