"""Data between GPUs by NCCL: where, how many bytes, in which order, and when NCCL fails.

    python -m pytest --softgpu --softgpu-seed 0 --softgpu-devices 4 --softgpu-no-peers \
        tests/gpu/test_nccl.py
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from bench.case import Config
from bench.groups import gpu_nccl
from bench.measure import measure
from gpushard._runtime.choose_backend import make_runtime
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.cuda.nccl import Communicators, Parcel
from gpushard._runtime.failures import WorkFailure
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.errors import ExecutionError, OutOfMemoryError
from gpushard.testing.runtime import using
from tests.gpu.device import FOUND
from tests.share import seeds
from tests.softgpu import counters
from tests.softgpu.build import ROOT
from tests.softgpu.run import is_active

lax, P = gs.lax, gs.P
GPUS = FOUND.gpus if FOUND.usable else 0

pytestmark = pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")
on_software = pytest.mark.skipif(not is_active(), reason="only with pytest --softgpu")


class Watch:
    """What goes through NCCL within a `with` block."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.parcels: list[Parcel] = []
        self.before: Callable[[], None] = lambda: None
        """Called before each exchange."""

    @property
    def nbytes(self) -> int:
        return sum(parcel.nbytes for parcel in self.parcels)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watched, exchange = Watch(), Communicators.exchange

    def watching(self: Communicators, parcels: list[Parcel]) -> None:
        watched.before()
        exchange(self, parcels)
        watched.exchanges += 1
        watched.parcels += parcels

    monkeypatch.setattr(Communicators, "exchange", watching)
    return watched


@contextlib.contextmanager
def gpus(nccl: str = "always", partitions: int = 1, **settings: Any) -> Iterator[Runtime]:
    """Use a runtime on all GPUs, under the checker."""
    chosen = Settings(
        **{
            "backend": "cuda",
            "nccl": nccl,
            "partitions": partitions,
            "check": True,
            "slab_bytes": 32 << 20,
            **settings,
        }
    )
    made = make_runtime(chosen)
    with using(made):
        yield made
    assert not getattr(made.backend, "races", [])


def has_peers(runtime: Runtime) -> bool:
    first, *_, last = runtime.devices
    return runtime.backend.reaches(first.memory_domain, last.memory_domain)


def mesh(runtime: Runtime) -> gs.Mesh:
    return gs.make_mesh((len(runtime.devices),), ("x",))


def split(runtime: Runtime, *spec: Any) -> gs.NamedSharding:
    return gs.NamedSharding(mesh(runtime), P(*spec))


def ring(n: int) -> list[tuple[int, int]]:
    return [(i, (i + 1) % n) for i in range(n)]


COLLECTIVES: dict[str, tuple[Callable[[Any, int], Any], Any]] = {
    "psum": (lambda x, n: lax.psum(x, "x"), P()),
    "pmean": (lambda x, n: lax.pmean(x, "x"), P()),
    "pmax": (lambda x, n: lax.pmax(x, "x"), P()),
    "pmin": (lambda x, n: lax.pmin(x, "x"), P()),
    "psum_scatter": (lambda x, n: lax.psum_scatter(x, "x", tiled=True), P("x")),
    "psum_scatter, last dim": (
        lambda x, n: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True),
        P("x"),
    ),
    "all_gather": (lambda x, n: lax.all_gather(x, "x"), P()),
    "all_gather, joined": (lambda x, n: lax.all_gather(x, "x", axis=1, tiled=True), P()),
    "all_to_all": (lambda x, n: lax.all_to_all(x, "x", 1, 0), P("x")),
    "all_to_all, joined": (lambda x, n: lax.all_to_all(x, "x", 0, 1, tiled=True), P("x")),
    "pswapaxes": (lambda x, n: lax.pswapaxes(x, "x", 1), P("x")),
    "ppermute": (lambda x, n: lax.ppermute(x, "x", ring(n)), P("x")),
    "ppermute, with holes": (lambda x, n: lax.ppermute(x, "x", [(0, n - 1)]), P("x")),
    "pshuffle": (lambda x, n: lax.pshuffle(x, "x", [*range(n)][::-1]), P("x")),
    "pbroadcast": (lambda x, n: lax.pbroadcast(x, "x", n - 1), P()),
    "psum in groups": (
        lambda x, n: lax.psum(x, "x", axis_index_groups=[[0, n - 1], [*range(1, n - 1)]][: n - 1]),
        P("x"),
    ),
    "all_gather in groups": (
        lambda x, n: lax.all_gather(
            x, "x", axis_index_groups=[[i, n - 1 - i] for i in range(n // 2)]
        ),
        P("x"),
    ),
    "a ring of products": (lambda x, n: _ring_of_products(x, n), P("x")),
}


def _ring_of_products(x: Any, n: int) -> Any:
    total = x
    for _ in range(n - 1):
        x = lax.ppermute(x, "x", ring(n))
        total = total * 0.5 + x
    return total


DTYPES = ["f4", "f8", "i2", "u1", "?", "c8"]


def block_of(n: int, dtype: str) -> np.ndarray[Any, Any]:
    """Rows for n devices, 2n x n on each."""
    draw = np.random.default_rng(n)
    value = draw.standard_normal((2 * n * n, n)) * 50
    return value > 0 if dtype == "?" else value.astype(dtype)


def collected(
    runtime: Runtime, name: str, value: Any
) -> tuple[np.ndarray[Any, Any], dict[Any, int]]:
    """The result of a collective, and the bytes that each domain received."""
    n, (body, out) = len(runtime.devices), COLLECTIVES[name]
    x = gs.device_put(value, split(runtime, "x"))
    function = gs.shard_map(lambda x: body(x, n), mesh(runtime), P("x"), out)
    with gs.debug.count_traffic() as traffic:
        y = function(x).block_until_ready()
    assert np.array_equal(x, value), "the argument has changed"
    return np.asarray(y), dict(traffic.received)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # integers of a float that has none
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_collective_has_the_bits_that_it_has_without(
    name: str, partitions: int, watch: Watch
) -> None:
    n = GPUS * partitions
    dtype = DTYPES[(len(name) + n) % len(DTYPES)]
    if name == "a ring of products" or (name == "pmean" and dtype == "?"):
        dtype = "f4"
    if dtype == "c8" and name in ("pmax", "pmin"):
        dtype = "f8"
    value = block_of(n, dtype)
    with gpus("never", partitions) as runtime:
        expected, received = collected(runtime, name, value)
    assert not watch.exchanges
    with gpus("always", partitions) as runtime:
        found, by_nccl = collected(runtime, name, value)
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()
    assert by_nccl == received
    assert watch.nbytes == sum(received.values()) > 0
    assert all(parcel.sender != parcel.receiver for parcel in watch.parcels)


def bounds(n: int) -> dict[str, float]:
    """Blocks that all elements of an axis receive together, as docs/transforms.md says."""
    each = n * (n - 1)
    return {
        "psum": 2 * each / n,
        "pmean": 2 * each / n,
        "pmax": 2 * each / n,
        "pmin": 2 * each / n,
        "psum_scatter": each / n,
        "psum_scatter, last dim": each / n,
        "all_gather": each,
        "all_gather, joined": each,
        "all_to_all": each / n,
        "all_to_all, joined": each / n,
        "pswapaxes": each / n,
        "ppermute": n,
        "ppermute, with holes": 1,
        "pshuffle": n,
        "pbroadcast": n - 1,
    }


@pytest.mark.parametrize("name", bounds(2))
def test_nccl_receives_what_the_docs_say_and_nothing_goes_another_way(
    name: str, watch: Watch
) -> None:
    value = block_of(GPUS, "f8")
    with gpus() as runtime:
        x = gs.device_put(value, split(runtime, "x")).block_until_ready()
        n, (body, out) = GPUS, COLLECTIVES[name]
        function = gs.shard_map(lambda x: body(x, n), mesh(runtime), P("x"), out)
        before = counters.read() if is_active() else {}
        function(x).block_until_ready()
        assert watch.nbytes == bounds(GPUS)[name] * value.nbytes / GPUS
        if is_active():
            asked = counters.read() - before
            assert asked["bytes_of_messages"] == watch.nbytes
            assert not asked["bytes_between_devices"]
            assert not asked["bytes_device_to_host"]


@pytest.mark.parametrize("nccl", ["auto", "always", "never"])
def test_who_uses_nccl(nccl: str, watch: Watch) -> None:
    with gpus(nccl) as runtime:
        expected = nccl == "always" or (nccl == "auto" and not has_peers(runtime))
        x = gs.device_put(block_of(GPUS, "f4"), split(runtime, "x"))
        plan = x.plan(split(runtime, None, "x"))
        y = gs.reshard(x, split(runtime, None, "x"))
        assert np.array_equal(y, block_of(GPUS, "f4"))
        assert bool(watch.exchanges) == expected == ("by messages" in plan.explain())
        links = len({(parcel.sender, parcel.receiver) for parcel in watch.parcels})
        assert links == GPUS * (GPUS - 1) * expected


def test_within_a_gpu_nothing_is_sent(watch: Watch) -> None:
    with gpus(gpus=(0,), partitions=4, separate_domains=True) as runtime:
        x = gs.device_put(block_of(4, "f4"), split(runtime, "x"))
        assert np.array_equal(gs.reshard(x, split(runtime, None, "x")), block_of(4, "f4"))
    with gpus(partitions=2) as runtime:
        first, second = runtime.devices[:2]
        x = gs.device_put(gs.device_put(block_of(2, "f4"), first), second)
        assert np.array_equal(x, block_of(2, "f4"))
    assert not watch.exchanges


def test_the_host_is_reached_without(watch: Watch) -> None:
    with gpus() as runtime:
        value = block_of(GPUS, "f4")
        pinned = split(runtime, "x").with_memory_kind("pinned_host")
        x = gs.device_put(gs.device_put(value, split(runtime, "x")), pinned)
        y = gs.device_put(x, split(runtime, None, "x"))
        z = gs.device_put(y, split(runtime, "x").with_memory_kind("pinned_host"))
        assert np.array_equal(z, value)
        assert np.array_equal(y, value)
    assert not watch.exchanges


SPECS = [("x",), (None, "x"), (), ("x", "y"), ("y", "x"), (("y", "x"),), (None, ("x", "y"))]


def programs(runtime: Runtime, seed: int) -> list[np.ndarray[Any, Any]]:
    """Movements of all kinds, one after the other, with memory that is used again."""
    draw = np.random.default_rng(seed)
    n = len(runtime.devices)
    grid = gs.make_mesh((n // 2, 2), ("x", "y"))
    named = [gs.NamedSharding(grid, P(*spec)) for spec in SPECS]
    found = []
    shape = tuple(int(size) for size in draw.integers(1, 70, 2))
    dtype = np.dtype(["u1", "i2", "f4", "f8", "c16"][draw.integers(5)])
    value = (draw.standard_normal(shape) * 100).astype(dtype)
    x = gs.device_put(value, named[draw.integers(len(named))])
    for _ in range(12):
        to = named[draw.integers(len(named))]
        match draw.integers(8):
            case 0 | 1:
                x = gs.reshard(x, to)
            case 2:
                x = gs.numpy.roll(x, tuple(draw.integers(-9, 9, 2)), (0, 1))
            case 3:
                x = gs.numpy.flip(gs.reshard(x, to), int(draw.integers(2)))
            case 4:
                x = gs.numpy.concatenate([x[::2], x[1::2]]) + x
            case 5:
                x = gs.reshard(x.T, to).T
            case 6:
                lone = gs.device_put(x, runtime.devices[draw.integers(n)])
                x = gs.device_put(lone, to)
            case 7:
                row = gs.reshard(x[:1] * 1, named[0])
                x = x.at[: len(x) // 2 + 1].set(row)
        found.append(x)
    return [np.asarray(y) for y in found]


@pytest.mark.parametrize("seed", seeds(40))
def test_movements_of_all_kinds(seed: int, watch: Watch) -> None:
    settings: Any = {
        "partitions": 1 + seed % 2,
        "pinned_bytes": (256, 4096, 256 << 20)[seed % 3],  # rounds of few elements
        "engine_bytes": (0, 64, 1 << 20)[seed // 3 % 3],
        "relay_bytes": (1, 2 << 20)[seed // 2 % 2],
    }
    with np.errstate(all="ignore"):
        with gpus("never", **settings) as runtime:
            expected = programs(runtime, seed)
        with gpus("always", **settings) as runtime:
            found = programs(runtime, seed)
    assert watch.exchanges
    for one, other in zip(found, expected, strict=True):
        assert one.tobytes() == other.tobytes()


def test_what_does_not_fit_into_the_buffers_goes_in_rounds(watch: Watch) -> None:
    value = np.arange(GPUS * 30 * 40, dtype="f8").reshape(-1, 40)
    with gpus(pinned_bytes=4096) as runtime:
        x = gs.device_put(value, split(runtime, "x")).block_until_ready()
        stats = [device.memory_stats()["bytes_in_use"] for device in runtime.devices]
        y = gs.reshard(x, split(runtime, None, "x")).block_until_ready()
        assert np.array_equal(y, value)
        most = 1024 // GPUS
        assert all(parcel.nbytes <= most for parcel in watch.parcels)
        assert watch.exchanges == -(-value.nbytes // GPUS // GPUS // most)
        assert watch.nbytes == value.nbytes * (GPUS - 1) // GPUS
        y.delete()
        assert [device.memory_stats()["bytes_in_use"] for device in runtime.devices] == stats


def test_large_dense_boxes_go_as_they_lie(watch: Watch) -> None:
    value = np.arange(GPUS * GPUS * 64, dtype="f8")
    with gpus(engine_bytes=64) as runtime:
        x = gs.device_put(value, split(runtime, "x")).block_until_ready()
        before = counters.read()["launches"] if is_active() else 0
        y = gs.reshard(x, split(runtime)).block_until_ready()
        inside = counters.read()["launches"] - before if is_active() else 0
        assert np.array_equal(y, value)
    assert watch.exchanges == 1
    assert inside <= GPUS  # which copy what is theirs


def test_without_room_for_buffers_data_goes_the_way_it_would_without(watch: Watch) -> None:
    value = np.arange(GPUS * 64 * 64, dtype="u1").reshape(64, -1)
    with gpus(memory_limit=2 * value.nbytes // GPUS, pinned_bytes=1 << 20) as runtime:
        x = gs.device_put(value, split(runtime, "x")).block_until_ready()
        y = gs.reshard(x, split(runtime, None, "x"))
        assert np.array_equal(y, value)
        assert not watch.exchanges
        with pytest.raises(OutOfMemoryError):
            gs.device_put(value, split(runtime, "x"))
        y.delete()
        assert np.array_equal(x, value)


def test_other_threads_may_ask_about_streams_at_any_moment(watch: Watch) -> None:
    """An event that one of them records before the messages are given says nothing about these."""
    with gpus(partitions=1) as runtime:

        def ask() -> None:
            for stream in runtime.streams:
                if stream.issued > stream.done:
                    stream.event(stream.issued - 1)

        watch.before = ask
        value = np.arange(GPUS * 1000, dtype="f8")
        kept = []
        for n in range(6):
            x = gs.device_put(value + n, split(runtime, "x")).block_until_ready()
            kept.append(gs.reshard(x, split(runtime)))
            x.delete()  # and the next one is put there
        for n, y in enumerate(kept):
            assert np.array_equal(y, value + n)
    assert watch.exchanges == 6


def break_shard(x: gs.Array, position: int, cause: Exception) -> None:
    """Let the work that makes a shard have failed."""
    x.block_until_ready()
    data: Any = x
    data._live().claims[position].memory.error = WorkFailure("work", cause)


def test_what_failed_reaches_its_readers_alone(watch: Watch) -> None:
    cause = OSError("the disk is gone")
    value = block_of(GPUS, "f4")
    with gpus() as runtime:
        x = gs.device_put(value, split(runtime, "x"))
        break_shard(x, 0, cause)
        last = runtime.devices[-1]
        turned = gs.shard_map(
            lambda x: lax.ppermute(x, "x", ring(GPUS)), mesh(runtime), P("x"), P("x")
        )(x)
        with pytest.raises(ExecutionError, match="the disk is gone") as caught:
            np.asarray(turned)
        assert caught.value.__cause__ is cause
        fine = gs.device_put(x.addressable_data(1), last)
        assert np.array_equal(fine, value[2 * GPUS : 4 * GPUS])
        sound = [shard for shard in turned.addressable_shards if shard.index[0].start]
        for shard in sound[1:]:
            start = shard.index[0].start - 2 * GPUS
            assert np.array_equal(shard.data, value[start : start + 2 * GPUS])
        again = gs.device_put(value, split(runtime, "x"))
        assert np.array_equal(gs.reshard(again, split(runtime)), value)
    assert watch.exchanges


def fail(call: str, after: int) -> None:
    """Let a call of the stand-in for NCCL fail, after so many that do not."""
    ctypes.CDLL("libnccl.so.2").softgpu_fail_nccl(call.encode(), after)


@on_software
def test_where_it_cannot_begin_it_is_said_once_and_copies_are_made(
    caplog: pytest.LogCaptureFixture, watch: Watch
) -> None:
    before = counters.read()
    with caplog.at_level(logging.WARNING), gpus() as runtime:
        fail("init", 0)
        for name in ("psum", "all_gather", "ppermute"):
            value = block_of(GPUS, "f4")
            with gpus("never") as other:
                expected = collected(other, name, value)
            with using(runtime):
                assert np.array_equal(collected(runtime, name, value)[0], expected[0])
    said = [record for record in caplog.records if record.name == "gpushard.nccl"]
    assert [record.levelname for record in said] == ["WARNING"]
    assert "unhandled system error" in said[0].getMessage()
    assert not watch.exchanges
    assert not (counters.read() - before)["communicators_made"]


@on_software
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("call", ["send", "receive", "end"])
def test_a_call_that_fails_midway(
    call: str, after: int, caplog: pytest.LogCaptureFixture, watch: Watch
) -> None:
    before = counters.read()
    value = block_of(GPUS, "f4")
    with caplog.at_level(logging.WARNING), gpus() as runtime:
        x = gs.device_put(value, split(runtime, "x"))
        if call == "end" and after:
            assert np.array_equal(gs.reshard(x, split(runtime)), value)
        fail(call, 0 if call == "end" else after)
        y = gs.reshard(x, split(runtime, None, "x"))
        for _ in range(2):
            with pytest.raises(ExecutionError, match="NCCL_ERROR_SYSTEM_ERROR") as caught:
                np.asarray(y)
            assert type(caught.value.__cause__).__name__ == "NcclError"
        assert np.array_equal(x, value)
        done = watch.exchanges
        again = gs.reshard(x, split(runtime, None, "x"))
        assert np.array_equal(again, value)
        assert np.array_equal(gs.reshard(again, split(runtime)), value)
        assert np.array_equal(x + 1, value + 1)
        assert watch.exchanges == done
    asked = counters.read() - before
    assert asked["communicators_made"] == asked["communicators_released"] == GPUS
    assert [r.name for r in caplog.records if r.levelname == "WARNING"] == ["gpushard.nccl"]


class Interrupted:
    """NCCL's module, or a communicator, with a call that is interrupted once.

    Args:
      inner: makes the calls.
      name: the call.
      after: whether it is made before.
    """

    def __init__(self, inner: Any, name: str, after: bool) -> None:
        self._inner = inner
        self._name = name
        self._after = after

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        if name != self._name:
            return call

        def interrupted(*arguments: Any) -> None:
            self._name = ""
            if self._after:
                call(*arguments)
            raise KeyboardInterrupt

        return interrupted


@on_software
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", ["groupStart", "send", "recv"])
def test_an_interrupt_within_an_exchange(
    name: str, after: bool, watch: Watch, capfd: pytest.CaptureFixture[str]
) -> None:
    value = block_of(GPUS, "f4")
    with gpus() as runtime:
        backend: Any = runtime.backend
        communicators = backend.backend._communicators
        assert communicators.are_ready()
        if name == "groupStart":
            communicators._library = Interrupted(communicators._library, name, after)
        else:
            communicators._ranks[-1] = Interrupted(communicators._ranks[-1], name, after)
        x = gs.device_put(value, split(runtime, "x")).block_until_ready()
        with pytest.raises(KeyboardInterrupt):
            gs.reshard(x, split(runtime, None, "x"))
        assert np.array_equal(gs.reshard(x, split(runtime, None, "x")), value)
        assert not watch.exchanges
    with gpus() as runtime:  # no group of this thread is left open
        x = gs.device_put(value, split(runtime, "x"))
        assert np.array_equal(gs.reshard(x, split(runtime, None, "x")), value)
    assert watch.exchanges
    assert "would hang" not in capfd.readouterr().err


@on_software
def test_what_was_made_is_released() -> None:
    before = counters.read()
    with gpus() as runtime:
        x = gs.device_put(block_of(GPUS, "f4"), split(runtime, "x"))
        for spec in ((), (None, "x")) * 2:
            gs.reshard(x, split(runtime, *spec)).block_until_ready()
    asked = counters.read() - before
    assert asked["communicators_made"] == asked["communicators_released"] == GPUS


@on_software
@pytest.mark.parametrize("nccl", ["auto", "always"])
def test_without_the_library_nothing_is_said(nccl: str) -> None:
    script = """
        import logging, warnings
        import numpy as np
        import gpushard as gs
        from tests.softgpu import counters

        logging.basicConfig(level=logging.DEBUG)
        warnings.simplefilter("error")
        mesh = gs.make_mesh((len(gs.devices()),), "x")
        value = np.arange(64.0).reshape(8, 8)
        x = gs.device_put(value, gs.NamedSharding(mesh, gs.P("x")))
        y = gs.reshard(x, gs.NamedSharding(mesh, gs.P(None, "x")))
        assert np.array_equal(y, value)
        assert not counters.read()["communicators_made"]
        print("fine")
    """
    paths = os.environ["LD_LIBRARY_PATH"].split(":")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(path for path in paths if not path.endswith("nccl")),
        "GPUSHARD_NCCL": nccl,
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stdout + done.stderr
    assert "nccl" not in done.stderr.lower()


def test_the_benchmark_runs() -> None:
    config = Config(quick=True)
    results = [measure(case, config) for case in gpu_nccl.cases(config)]
    assert len(results) == 12
    assert all(r.timings[column].median > 0 for r in results for column in gpu_nccl.MODES)


def test_the_backend_says_where_it_sends() -> None:
    with gpus("auto") as runtime:
        backend: Any = runtime.backend
        cuda: CudaBackend = getattr(backend, "backend", backend)
        domains = [device.memory_domain for device in runtime.devices]
        pinned = runtime.devices[0].memory("pinned_host").memory_domain
        assert not cuda.sends(domains[0], domains[0])
        assert not cuda.sends(domains[1], pinned)
        assert not cuda.sends(pinned, domains[1])
        assert cuda.sends(domains[1], domains[0]) != has_peers(runtime)
