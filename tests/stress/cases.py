"""Operations to interrupt, and what must hold afterwards."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
from gpushard._geometry import sharding as shardings
from gpushard._runtime.host import backend as host
from gpushard._runtime.host.blas_threads import numpy_library
from gpushard.testing import runtime
from gpushard.testing.deferred import deferred
from gpushard.testing.programs import check_nothing_left
from tests.stress.interrupter import Interrupter, Visitor

VALUE = np.arange(96, dtype=np.int32).reshape(12, 8)
MATRICES = np.tile(np.eye(64, dtype=np.float32), (4, 1, 1))
STREAMS = {"small_bytes": 0, "inline_bytes": 0}


@dataclasses.dataclass
class Bench:
    """A runtime, with what operations work on."""

    rt: Any
    rows: Any
    columns: Any
    sources: list[Any] = dataclasses.field(default_factory=list)
    donated: bool = False

    def put(self) -> Any:
        return gs.device_put(VALUE, self.rows)

    def pending(self) -> Any:
        return deferred(gs.device_put(VALUE - 1, self.rows), lambda shard: shard + 1)


@dataclasses.dataclass(frozen=True)
class Case:
    """One operation.

    `act` works on what `prepare` put into `bench.sources` and returns an array or nothing; arrays
    must hold `expected`.
    """

    name: str
    act: Callable[[Bench], Any]
    prepare: Callable[[Bench], list[Any]] = lambda bench: [bench.put()]
    expected: Any = dataclasses.field(default=None, compare=False)
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    donates: bool = False
    shares: bool = False


def _read_twice(bench: Bench) -> None:
    x = bench.sources[0]
    x.copy_to_host_async()
    assert np.array_equal(np.asarray(x), VALUE)


def _read(bench: Bench) -> None:
    assert np.array_equal(np.asarray(bench.sources[0]), VALUE)


def _wait(bench: Bench) -> None:
    bench.sources[0].block_until_ready()


def _reshard(bench: Bench, **options: Any) -> Any:
    return gs.reshard(bench.sources[0], bench.columns, **options)


def _reshard_cold(bench: Bench) -> Any:
    bench.rt.plans.clear()
    shardings._tilings.clear()
    bench.rt.plans.put("filler", None, nbytes=bench.rt.plans.limit)  # must go for the plan
    return _reshard(bench)


def _reshard_often(bench: Bench) -> Any:
    return gs.reshard(gs.reshard(bench.sources[0], bench.columns), bench.rows)


def _callback(bench: Bench) -> Any:
    return gs.make_array_from_callback(VALUE.shape, bench.columns, lambda index: VALUE[index])


def _no_room(bench: Bench) -> None:
    try:
        gs.device_put(VALUE, gs.devices()[0])
    except gs.errors.OutOfMemoryError:
        return
    raise AssertionError("there was room")


def _with_garbage(bench: Bench) -> list[Any]:
    cycle: list[Any] = [gs.device_put(VALUE, gs.devices()[1])]
    cycle.append(cycle)
    return [gs.device_put(VALUE[:6], gs.devices()[0])]


def _make_room(bench: Bench) -> Any:
    return gs.device_put(VALUE, gs.devices()[1])


def _delete(bench: Bench) -> None:
    x = bench.sources[0]
    assert [shard.data.shape for shard in x.addressable_shards]
    x.delete()


def _donate_tree(bench: Bench) -> None:
    moved = gs.device_put(bench.sources, bench.columns, donate=True)
    assert all(np.array_equal(np.asarray(x), VALUE) for x in moved)


def _stats(bench: Bench) -> None:
    assert gs.devices()[0].memory_stats()["bytes_in_use"]
    assert gs.live_arrays()
    assert bench.rt.claimed_bytes()


def _assign(bench: Bench, value: Any, *, pending: bool = False, shared: bool = False) -> Any:
    x = bench.pending() if pending else bench.put()
    other = copy.copy(x) if shared else None
    expected = VALUE.copy()
    expected[2:11] = 5
    try:
        x[2:11] = value(bench)
    except KeyboardInterrupt:
        with contextlib.suppress(gs.errors.DeletedArrayError):
            found = np.asarray(x)
            assert np.array_equal(found, VALUE) or np.array_equal(found, expected), "torn"
        assert other is None or np.array_equal(np.asarray(other), VALUE)
        raise
    assert np.array_equal(np.asarray(x), expected)
    return x.at[2:11].set(VALUE[2:11])


def _follow(bench: Bench) -> Any:
    x = gs.numpy.zeros(VALUE.shape, VALUE.dtype)
    place = x.sharding
    try:
        x[...] = bench.sources[0]
    finally:
        assert np.array_equal(np.asarray(x), VALUE if x.committed else np.zeros_like(VALUE))
        assert (x.sharding != place) == x.committed
    return x


def _five(bench: Bench) -> Any:
    return 5


def _fives(bench: Bench) -> Any:
    return gs.device_put(np.full((9, 8), 5, np.int32), gs.devices()[1])


def _threads_of_blas() -> int | None:
    library = numpy_library()
    return None if library is None else library.get()


ALL_THREADS = _threads_of_blas()


def _unlimited(bench: Bench) -> list[Any]:
    for device in gs.devices():
        device.synchronize()
    assert _threads_of_blas() == ALL_THREADS, "an interrupt left calls of BLAS limited"
    return []


def _product(bench: Bench) -> Any:
    x = gs.device_put(MATRICES, bench.rows)
    return x @ x


CASES = [
    Case("device_put of small shards", Bench.put, lambda b: [], VALUE),
    Case("device_put", Bench.put, lambda b: [], VALUE, {"small_bytes": 0}),
    Case("device_put shared by threads", Bench.put, lambda b: [], VALUE, STREAMS, shares=True),
    Case("reshard inline", _reshard, expected=VALUE),
    Case("reshard inline, pooled", _reshard, expected=VALUE, settings={"small_bytes": 0}),
    Case("reshard on streams", _reshard, expected=VALUE, settings=STREAMS),
    Case("reshard on streams of 4 domains", _reshard, expected=VALUE,
         settings={**STREAMS, "host_domains": 4}),
    Case("reshard shared by threads", _reshard, expected=VALUE, shares=True,
         settings={"small_bytes": 0}),
    Case("reshard of what is pending", _reshard, lambda b: [b.pending()], VALUE,
         {"host_domains": 2}),
    Case("reshard, donated", lambda b: _reshard(b, donate=True), expected=VALUE, donates=True,
         settings=STREAMS),
    Case("reshard without a plan", _reshard_cold, expected=VALUE),
    Case("reshard with full queues", _reshard_often, expected=VALUE,
         settings={**STREAMS, "host_domains": 4, "queue_limit": 1}),
    Case("slice", lambda b: b.sources[0][2:, ::-1], expected=VALUE[2:, ::-1]),
    Case("slice on streams", lambda b: b.sources[0][2:, ::-1], expected=VALUE[2:, ::-1],
         settings=STREAMS),
    Case("work of devices", lambda b: deferred(b.sources[0], lambda shard: shard + 1),
         expected=VALUE + 1),
    Case("sum shared by threads", lambda b: b.sources[0] + b.sources[0], expected=2 * VALUE,
         settings={"small_bytes": 0, "inline_bytes": 64}),
    Case("sum in the caller, pooled", lambda b: b.sources[0] + b.sources[0], expected=2 * VALUE,
         settings={"small_bytes": 0}),
    Case("product that shares BLAS", _product, _unlimited, MATRICES @ MATRICES),
    Case("product on workers that share BLAS", _product, _unlimited, MATRICES @ MATRICES, STREAMS),
    Case("asarray", _read),
    Case("asarray, pooled", _read, settings={"small_bytes": 0}),
    Case("asarray of what is pending", _read, lambda b: [b.pending()], settings=STREAMS),
    Case("copy_to_host_async", _read_twice, lambda b: [b.pending()], settings=STREAMS),
    Case("block_until_ready", _wait, lambda b: [b.pending()], settings=STREAMS),
    Case("delete", _delete, donates=True),
    Case("device_put of a tree, donated", _donate_tree, lambda b: [b.put(), b.put()],
         donates=True, settings=STREAMS),
    Case("assignment", lambda b: _assign(b, _five), expected=VALUE),
    Case("assignment in place of 4 domains", lambda b: _assign(b, _fives), expected=VALUE,
         settings={"small_bytes": 0, "host_domains": 4}),
    Case("assignment on streams", lambda b: _assign(b, _fives, pending=True), expected=VALUE,
         settings={**STREAMS, "host_domains": 2}),
    Case("assignment to what is shared", lambda b: _assign(b, _five, shared=True), expected=VALUE,
         settings=STREAMS),
    Case("assignment that follows its value", _follow, expected=VALUE),
    Case("statistics", _stats),
    Case("make_array_from_callback", _callback, lambda b: [], VALUE, {"small_bytes": 0}),
    Case("out of memory", _no_room, lambda b: [gs.device_put(VALUE, gs.devices()[0])],
         settings={"small_bytes": 0, "memory_limit": 500, "host_domains": 4}),
    Case("out of memory with garbage", _make_room, _with_garbage, VALUE,
         {"small_bytes": 0, "memory_limit": 500, "host_domains": 4}),
]  # fmt: skip


@contextlib.contextmanager
def bench_of(case: Case) -> Iterator[Bench]:
    """Make the runtime of a case; copies of any size are shared by threads if it says so."""
    before = host.SHARED_BYTES, host.PART_BYTES
    if case.shares:
        host.SHARED_BYTES, host.PART_BYTES = 0, 8
    try:
        with runtime(**{"host_devices": 4, "host_workers": 2, **case.settings}) as rt:
            mesh = gs.make_mesh((4,), "x")
            named = [gs.NamedSharding(mesh, spec) for spec in (gs.P("x"), gs.P(None, "x"))]
            yield Bench(rt, *named)
    finally:
        host.SHARED_BYTES, host.PART_BYTES = before


def interrupt(case: Case, bench: Bench, at: int, again: int | None = None) -> Interrupter:
    """Interrupt a case at one place and check everything that must hold afterwards.

    Returns:
      What interrupted it, or found no such place.

    Raises:
      AssertionError: something does not hold; the message says where the interrupt struck.
    """
    interrupter = Interrupter(at, again)
    bench.sources = case.prepare(bench)
    try:
        interrupter.run(lambda: _check(case, case.act(bench)))
        _check_sources(case, bench)
        bench.sources = []
        bench.sources = case.prepare(bench)
        _check(case, case.act(bench))
        bench.sources = []
        check_nothing_left(bench.rt)
        for cache in (bench.rt.plans, shardings._tilings):
            kept = sum(entry.nbytes for entry in cache._entries.values())
            assert cache.nbytes == kept or cache._torn, "a cache counts wrong"
    except AssertionError as error:
        raise AssertionError(f"{case.name}, interrupted at {at}, {interrupter.raised}") from error
    return interrupter


def visit(case: Case, bench: Bench, every: int, *, finalizer: bool) -> tuple[int, int]:
    """Let other code use the library at places within a case, on the same thread.

    Args:
      case: the operation.
      bench: what it works on.
      every: at each how manieth place.
      finalizer: whether it comes as a finalizer, where collections may start, which must never be
        refused; or as a signal handler, which gets a right value or `ReentrantCallError`.

    Returns:
      How often it was there, and how often it was refused.

    Raises:
      AssertionError: something does not hold.
    """
    bench.sources = case.prepare(bench)
    kept, refused = [gs.device_put(VALUE, bench.columns)], []

    def use() -> bool:
        if finalizer and not gc.get_threshold()[0]:
            return False
        if len(bench.rt._claims.queue) > 100:  # they pile up where nothing commits
            bench.rt.claimed_bytes()
        moved = gs.reshard(kept[0], bench.rows)
        assert np.array_equal(np.asarray(moved + 1), VALUE + 1), "a value is wrong"
        return True

    def handler() -> bool:
        try:
            return use()
        except gs.errors.ReentrantCallError:
            if finalizer:
                raise AssertionError("a finalizer was refused") from None
            refused.append(1)
            return True
        except gs.errors.OutOfMemoryError:
            return True

    use()
    visitor = Visitor(handler, every, anywhere=finalizer)
    visitor.run(lambda: _check(case, case.act(bench)))
    kept.clear()
    bench.sources = []
    check_nothing_left(bench.rt)
    return visitor.visits, len(refused)


def _check(case: Case, result: Any) -> None:
    if case.expected is not None:
        assert np.array_equal(np.asarray(result), case.expected), "a value is wrong"


def _check_sources(case: Case, bench: Bench) -> None:
    for x in bench.sources:
        if x.is_deleted():
            assert case.donates, "a source is gone"
        else:
            value = np.asarray(x)
            assert np.array_equal(value, VALUE[: len(value)]), "the value of a source is wrong"


def places(case: Case, bench: Bench) -> int:
    """Return how many places an operation has, about: threads make it vary."""
    for _ in range(3):  # what is cached the first or the second time is not computed again
        counter = Interrupter(1 << 60)
        bench.sources = case.prepare(bench)
        counter.run(lambda: _check(case, case.act(bench)))
        bench.sources = []
    gc.collect()
    return (1 << 60) - counter._left


__all__ = ["CASES", "Bench", "Case", "bench_of", "interrupt", "places", "visit"]
